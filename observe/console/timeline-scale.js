// Times of a timeline and where they are on the page; lanes and marks in a shape that is quick to look up.

export const GONE = 0, OWNING = 1, JOINING = 2, JOINED = 3, SYNCING = 4, SYNCED = 5, SILENT = 6;
export const FATES = ["", "left", "expired", "dropped", "unsynced", "replaced", "refused"];
const SHORT_ID = 8;
const LEAST_MS = 20, MOST_MS = 5_000;

/** The word for the generation of a mark: consumer groups (KIP-848) call it an epoch. */
export const generationWord = (mark) => (mark?.protocol === "consumer" ? "Epoch" : "Generation");

/** The JSON of a timeline with what was left out, and its changes in arrays of numbers. */
export function prepare(json) {
  const lanes = (json.lanes ?? []).map((lane, index) => {
    const flat = lane.changes ?? [];
    const count = flat.length / 3;
    const at = new Float64Array(count), kind = new Uint8Array(count), owns = new Int32Array(count);
    for (let change = 0, from = 0; change < count; change += 1, from += 3) {
      at[change] = flat[from];
      kind[change] = flat[from + 1];
      owns[change] = flat[from + 2];
    }
    return { index, client_id: lane.client_id, client_host: lane.client_host, instance: lane.group_instance_id ?? null, tenants: lane.tenants ?? [], lost: lane.lost ?? [], faults: (lane.faults ?? []).map(([at, last, times, words]) => ({ at, last, times, words })), held: lane.held ?? 0, heldMs: lane.held_ms ?? 0, blamedMs: lane.blamed_ms ?? 0, isPresent: lane.is_present ?? false, isLeader: lane.is_leader ?? false, at, kind, owns };
  });
  const until = json.until;
  const marks = (json.marks ?? []).map((mark, index) => ({ outcome: "running", cause: "unknown", last: -1, generation: -1, culprit: -1, trigger: -1, members: 0, stood_ms: 0, longest_ms: 0, stopped: 0, times: 1, headline: "", sentences: [], advice: [], ...mark, index, end: mark.end ?? -1, barriers: (mark.barriers ?? []).map((one) => ({ closed: -1, limit_ms: 0, last: [], absent: [], pending: 0, ...one })) }));
  marks.sort((a, b) => a.start - b.start || a.number - b.number);
  marks.forEach((mark, index) => (mark.index = index));
  nameLanes(lanes);
  return { group: json.group_id, from: json.from_ms, until, isLive: json.is_live ?? false, state: json.state ?? "", generation: json.generation ?? -1, lanes, marks, flow: json.flow ?? null, hidden: json.hidden ?? 0 };
}

function nameLanes(lanes) {
  const seen = new Map();
  for (const lane of lanes) {
    lane.name = lane.instance || lane.client_id || lane.tenants.at(-1)?.[1] || "?";
    seen.set(lane.name, (seen.get(lane.name) ?? 0) + 1);
  }
  for (const lane of lanes) {
    // A piece of the member id tells apart those that have one name, as in the story.
    const id = lane.tenants.at(-1)?.[1] ?? "";
    const rest = [lane.name, lane.client_id].reduce((left, name) => (left.startsWith(`${name}-`) ? left.slice(name.length + 1) : left), id);
    lane.label = seen.get(lane.name) > 1 && rest ? `${lane.name}-${rest.slice(0, SHORT_ID)}` : lane.name;
  }
  for (const lane of lanes) lane.name = lane.label;
}

export const endOf = (mark, until) => (mark.end < 0 ? until : mark.end);

/** Index of the last of ascending numbers that is not above a value; -1 if all are. */
export function lastAtOrBefore(numbers, value) {
  let low = 0, high = numbers.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (numbers[middle] <= value) low = middle + 1;
    else high = middle;
  }
  return low - 1;
}

/**
 * From time to width and back, in straight pieces. Folded, quiet time is short and every rebalance can be seen: its
 * width grows with the logarithm of its length. Otherwise a millisecond is a millisecond everywhere.
 */
export class Scale {
  constructor(data, folded) {
    this.folded = folded;
    this.times = [0];
    this.widths = [0];
    this.gaps = [];
    if (folded) this.fold(data);
    this.add(data.until, folded ? 1 : null, 0.25);
    this.total = this.widths.at(-1);
  }

  fold(data) {
    const lengths = data.marks.filter((mark) => mark.kind === "rebalance").map((mark) => endOf(mark, data.until) - mark.start);
    lengths.sort((a, b) => a - b);
    this.unit = Math.min(Math.max(lengths[lengths.length >> 1] ?? 1_000, LEAST_MS), MOST_MS);
    for (const mark of data.marks) {
      const last = this.times.at(-1);
      if (mark.start > last) {
        this.gaps.push([last, mark.start]);
        this.add(mark.start, 0, 0.25);
      }
      const end = Math.max(endOf(mark, data.until), mark.start);
      if (end > this.times.at(-1) || mark.start === end) this.add(Math.max(end, this.times.at(-1) + 1), 0.6, 1);
    }
    if (data.until > this.times.at(-1)) this.gaps.push([this.times.at(-1), data.until]);
  }

  add(time, least, slope) {
    const last = this.times.at(-1);
    if (time <= last) return;
    const length = time - last;
    const units = length / this.unit;
    const width = least === null ? length : Math.max(units <= 1 ? units : 1 + slope * Math.log2(units), least);
    this.times.push(time);
    this.widths.push(this.widths.at(-1) + width);
  }

  /** Where a time is. */
  width(time) {
    const { times, widths } = this;
    const index = Math.min(Math.max(lastAtOrBefore(times, time), 0), times.length - 2);
    if (index < 0) return 0;
    const part = (time - times[index]) / (times[index + 1] - times[index]);
    return widths[index] + part * (widths[index + 1] - widths[index]);
  }

  /** The time at a place. */
  time(width) {
    const { times, widths } = this;
    const index = Math.min(Math.max(lastAtOrBefore(widths, width), 0), times.length - 2);
    if (index < 0) return 0;
    const part = (width - widths[index]) / (widths[index + 1] - widths[index]);
    return times[index] + part * (times[index + 1] - times[index]);
  }

  /** The same as `width` for times that only grow. */
  runner() {
    const { times, widths } = this;
    const last = times.length - 2;
    let index = 0;
    return (time) => {
      while (index < last && times[index + 1] <= time) index += 1;
      const part = (time - times[index]) / (times[index + 1] - times[index]);
      return widths[index] + part * (widths[index + 1] - widths[index]);
    };
  }
}

/** Whether most rebalances would be too thin to be seen if a millisecond were a millisecond everywhere. */
export function wantsFolding(data, pixels) {
  const lengths = data.marks.filter((mark) => mark.kind === "rebalance").map((mark) => endOf(mark, data.until) - mark.start);
  if (!lengths.length) return false;
  lengths.sort((a, b) => a - b);
  return (lengths[lengths.length >> 1] / data.until) * pixels < 8;
}

const STEPS = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1e3, 2e3, 5e3, 1e4, 15e3, 3e4, 6e4, 12e4, 3e5, 6e5, 9e5, 18e5, 36e5, 72e5, 216e5, 432e5, 864e5];

/** Distance between the marks of the time axis. */
export function tickStep(ms, most) {
  return STEPS.find((step) => ms / step <= most) ?? 864e5 * Math.ceil(ms / most / 864e5);
}
