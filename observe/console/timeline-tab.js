// The timeline of a group, kept up to date.
import { get, groupPath, notLoaded } from "./api.js";
import { fill, groupHref, h, nothingYet } from "./dom.js";
import { TimelineView } from "./timeline.js";

const SOON_MS = 1_000;
const REST = 15; // Asking again takes at most so small a part of the time.
const FIRST = 30; // What is seen first is asked for first: all of a large group is megabytes.

export function timelineTab(store, model, first = null) {
  const timeline = new TimelineView({ onChosen: keep, more: (mark) => h("a", { href: groupHref(model.id, `why/${mark.number}`) }, "Every member’s part, under Why"), onDrawn: (ms) => (box.dataset.drawnMs = ms.toFixed(1)) });
  const note = h("p", { class: "empty" }, "Loading…");
  const range = h("select", { class: "button", "aria-label": "How many rebalances", onchange: () => load() }, [50, 200, 500, 1000].map((last) => h("option", { value: last, selected: last === 200 }, `Last ${last} rebalances`)));
  const box = h("div", { class: "card pad" }, note, timeline.element);
  timeline.element.hidden = true;
  timeline.bar.append(h("span", { class: "grow" }), range);
  let wanted = first, isUnknown = false;
  let asked = 0, cost = 100, due = 0, skew = 0, controller = null;

  async function load(last = Number(range.value)) {
    controller?.abort();
    controller = new AbortController();
    asked = Date.now();
    due = 0;
    try {
      const json = await get(groupPath(model.id, `/timeline?last=${last}`), controller.signal);
      cost = Date.now() - asked;
      skew = json.from_ms + json.until - Date.now();
      note.hidden = true;
      timeline.element.hidden = false;
      timeline.set(json);
      seek();
      if (last === FIRST && (json.marks?.length ?? 0) >= FIRST) return load();
      // Lag and commits move without any rebalance.
      due = Date.now() + Math.max(5 * SOON_MS, cost * REST);
    } catch (error) {
      if (error.name === "AbortError") return;
      isUnknown = error.status === 404;
      if (timeline.element.hidden) fill(note, error.status === 404 ? nothingYet(model) : notLoaded(error));
      due = Date.now() + 5 * SOON_MS;
    }
  }

  /** The address is that of what is chosen. */
  function keep(number) {
    wanted = null;
    const href = groupHref(model.id, number === null ? "timeline" : `timeline/${number}`);
    if (location.hash !== href) history.replaceState(null, "", href);
  }

  /** Choose what the address says, once it is there. */
  function seek() {
    if (wanted === null || !timeline.chooseNumber(wanted)) return;
    wanted = null;
  }

  /** Ask again soon, but not more often than it is worth. */
  function hurry() {
    due = Math.min(due || Infinity, Math.max(Date.now() + 200, asked + Math.max(SOON_MS, cost * REST)));
  }

  load(FIRST);
  return {
    element: box,
    episode: hurry,
    update() {
      if (!note.hidden && isUnknown) note.textContent = nothingYet(model);
      if (model.group?.barrier) hurry();
    },
    reload: () => load(),
    key: (event) => timeline.onPageKey(event),
    goTo(number) {
      wanted = number;
      seek();
    },
    tick() {
      if (document.hidden || document.body.classList.contains("is-lost")) return;
      if (due && Date.now() >= due) load();
      else timeline.advance(Date.now() + skew);
    },
    destroy() {
      controller?.abort();
      timeline.destroy();
    },
  };
}
