// What a timeline shows, in words: for the legend, for the chosen rebalance, and for those who listen.
import { causeWords } from "./causes.js";
import { clock, duration, h, number, plural } from "./dom.js";
import { endOf, FATES, GONE, JOINED, JOINING, lastAtOrBefore, OWNING, SILENT, SYNCED, SYNCING } from "./timeline-scale.js";

export const KIND_WORDS = [
  [OWNING, "owning", "owning partitions"],
  [JOINING, "joining", "others wait for it to join"],
  [JOINED, "joined", "has joined, waits for others"],
  [SYNCING, "syncing", "has yet to ask for its assignment"],
  [SYNCED, "synced", "waits for the assignment"],
  [SILENT, "silent", "not heard of until it was removed, or until now"],
];

const FATE_WORDS = { "": "gone", left: "left", expired: "removed: its session expired", dropped: "removed: it did not join in time", unsynced: "removed: it did not sync in time", replaced: "replaced", refused: "refused" };

export function legend() {
  return h("ul", { class: "tl-legend", "aria-label": "Legend" }, KIND_WORDS.map(([, name, words]) => h("li", { title: words }, h("i", { class: `key ${name}`, "aria-hidden": "true" }), { owning: "owning", joining: "joining", joined: "waits to join", syncing: "syncing", synced: "waits to sync", silent: "silent" }[name])), h("li", { title: "The member for whom the barrier waited to its end" }, h("i", { class: "key critical", "aria-hidden": "true" }), "held the barrier up"), h("li", { title: "Removed without leaving" }, h("i", { class: "key removed", "aria-hidden": "true" }, "×"), "removed"), h("li", { title: "Somebody was turned away, once or again and again" }, h("i", { class: "key refusal", "aria-hidden": "true" }), "refused"), h("li", { title: "A static member came back, and nobody had to wait" }, h("i", { class: "key replacement", "aria-hidden": "true" }), "silent replacement"), h("li", { title: "The broker started, or took the group over" }, h("i", { class: "key restart", "aria-hidden": "true" }), "broker restarted"));
}

/** What a lane does between two times, in words. */
export function laneWords(data, lane, from, to) {
  const start = lastAtOrBefore(lane.at, from);
  if (start < 0 && (lane.at[0] ?? Infinity) > to) return "not there yet";
  const words = [];
  for (let index = Math.max(start, 0); index < lane.at.length && lane.at[index] <= to; index += 1) {
    const end = index + 1 < lane.at.length ? lane.at[index + 1] : data.until;
    if (lane.at[index] === end && index + 1 < lane.at.length) continue;
    const took = duration(end - lane.at[index]);
    const what = lane.kind[index];
    if (what === GONE) words.push(FATE_WORDS[FATES[lane.owns[index]]] ?? "gone");
    else if (what === OWNING) {
      const share = lane.owns[index] < 0 ? "owning what cannot be read" : `owning ${plural(lane.owns[index], "partition")}`;
      words.push(from === to ? `${share} for ${took}` : share);
    }
    else words.push(`${KIND_WORDS.find(([kind]) => kind === what)[2]}, ${took}`);
  }
  return words.join("; ");
}

const COUNTED = [["rebalance", "rebalance"], ["refusal", "refusal"], ["replacement", "silent replacement"], ["loaded", "restart of the broker", "restarts of the broker"]];

/** How much of each kind there is. */
export function counted(marks) {
  const many = COUNTED.map(([kind, ...words]) => [marks.filter((mark) => mark.kind === kind).length, words]).filter(([count], index) => count || index === 0);
  return many.map(([count, words]) => plural(count, ...words)).join(", ");
}

/** The whole timeline in a sentence. */
export function summary(data) {
  return `Timeline of group ${data.group}: ${plural(data.lanes.length, "member")}, ${counted(data.marks)} from ${clock(data.from)} to ${clock(data.from + data.until)}`;
}

/** The chosen rebalance. */
export function details(data, mark, chooseLane, more = null) {
  const took = endOf(mark, data.until) - mark.start;
  const names = (lanes) => lanes.slice(0, 6).map((index, at) => [at ? ", " : "", h("button", { class: "link", type: "button", onclick: () => chooseLane(index) }, data.lanes[index].name)]).concat(lanes.length > 6 ? ` and ${lanes.length - 6} more` : "");
  const facts = [
    ["When", clock(data.from + mark.start, { millis: true })],
    mark.kind === "rebalance" && ["Took", mark.end < 0 ? `${duration(took)} so far` : duration(took)],
    mark.generation >= 0 && mark.kind === "rebalance" && ["Generation", number(mark.generation)],
    mark.kind !== "refusal" && ["Members", number(mark.members)],
    ["Cause", h("span", { class: "cause" }, causeWords(mark.cause), " ", h("code", null, mark.cause))],
    mark.culprit >= 0 && ["Culprit", names([mark.culprit])],
    mark.stood_ms >= 50 && ["Stood still", `${number(Number((mark.stood_ms / 1000).toFixed(mark.stood_ms < 10_000 ? 1 : 0)))} partition-seconds`],
    mark.times > 1 && ["Repeated", `${number(mark.times)} times`],
    more && ["More", more(mark)],
  ].filter(Boolean);
  const barriers = mark.barriers.map((barrier) => {
    const open = duration((barrier.closed < 0 ? data.until : barrier.closed) - barrier.opened);
    const parts = [h("i", { class: `key ${barrier.barrier === "sync" ? "syncing" : "joining"}`, "aria-hidden": "true" }), h("b", null, barrier.barrier === "initial delay" ? "Initial delay" : `${barrier.barrier === "sync" ? "Sync" : "Join"} barrier`), ` ${barrier.closed < 0 ? "open for" : "was open for"} ${open}`];
    if (barrier.last.length) parts.push(barrier.closed < 0 ? ", waits for " : ", to the end for ", ...names(barrier.last));
    if (barrier.absent.length) parts.push("; never came: ", ...names(barrier.absent));
    if (barrier.pending) parts.push(`; ${plural(barrier.pending, "id")} never used`);
    return h("li", null, parts);
  });
  return [
    h("h3", null, mark.headline || `${mark.kind} ${mark.number}`),
    h("dl", { class: "facts" }, facts.map(([name, value]) => h("div", null, h("dt", null, name), h("dd", null, value)))),
    barriers.length ? h("ul", { class: "barriers" }, barriers) : null,
    mark.sentences.length ? h("div", { class: "story" }, mark.sentences.map((text) => h("p", null, text))) : null,
    mark.advice.length ? h("div", { class: "advice" }, mark.advice.map((text) => h("p", null, text))) : null,
  ];
}
