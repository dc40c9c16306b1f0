// What the broker says: answers to questions, and a stream of what changes.

/** An answer of the API. Throws an Error with the broker's own words. */
export async function get(path, signal) {
  let response;
  try {
    response = await fetch(path, { headers: { Accept: "application/json" }, signal });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw Object.assign(new Error("The broker does not answer"), { isGone: true });
  }
  if (!response.ok) {
    let said = `HTTP ${response.status}`;
    try {
      const problem = await response.json();
      said = problem.detail ?? problem.title ?? said;
    } catch {
      // Not every refusal is JSON.
    }
    throw Object.assign(new Error(said), { status: response.status });
  }
  return response.json();
}

/** What to say where something would be, if it could not be asked for. That the broker is gone is said above. */
export const notLoaded = (error) => (error.isGone ? "This was not loaded before the broker went. It comes by itself once the broker is back." : error.message);

export const groupPath = (id, part = "") => `/v1/groups/${encodeURIComponent(id)}${part}`;

const EVENTS = ["hello", "groups", "group", "episode", "sentinel"];
const LONGEST_WAIT_MS = 10_000;

/** The stream of what changes. It comes back by itself, and tells how it stands. */
export class Stream {
  /** `onState(state, detail)` with live, connecting or lost; `onEvent(name, data)`. */
  constructor(onState, onEvent) {
    this.onState = onState;
    this.onEvent = onEvent;
    this.group = null;
    this.failures = 0;
    this.timer = 0;
    this.source = null;
    addEventListener("online", () => this.open());
    addEventListener("pagehide", () => this.source?.close());
    addEventListener("pageshow", (event) => event.persisted && this.open());
  }

  /** From now on also tell of this group, or of none. */
  watch(group) {
    if (group === this.group && this.source) return;
    this.group = group;
    this.open();
  }

  /** Connect, at once. */
  open() {
    clearTimeout(this.timer);
    this.source?.close();
    const source = new EventSource(this.group === null ? "/v1/stream" : `/v1/stream?group=${encodeURIComponent(this.group)}`);
    this.source = source;
    for (const name of EVENTS) {
      source.addEventListener(name, (event) => {
        if (source !== this.source) return;
        if (name === "hello") {
          this.failures = 0;
          this.onState("live");
        }
        this.onEvent(name, JSON.parse(event.data));
      });
    }
    source.onerror = () => {
      if (source === this.source) this.lost();
    };
  }

  /** Nothing comes any more: say so, and try again after a while that grows. */
  lost() {
    this.source.close();
    this.failures += 1;
    const wait = Math.min(500 * 2 ** (this.failures - 1), LONGEST_WAIT_MS);
    this.onState("lost", wait);
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.open(), wait);
  }
}
