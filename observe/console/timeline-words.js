// What a timeline shows, in words: for the legend, for the chosen rebalance, and for those who listen.
import { causeWords, felt, FELT_MS, gravity } from "./causes.js";
import { clock, CULPRIT, duration, h, number, partitionTime, plural, role, TRIGGER, WAITS } from "./dom.js";
import { endOf, FATES, generationWord, GONE, JOINED, JOINING, lastAtOrBefore, OWNING, SILENT, SYNCED, SYNCING } from "./timeline-scale.js";

export const KIND_WORDS = [
  [OWNING, "owning", "owning partitions", "owns partitions"],
  [JOINING, "joining", "has yet to rejoin: the group waits for it", "rejoining or giving up: the group waits for it"],
  [JOINED, "joined", "has rejoined, waits for others", "waits for others"],
  [SYNCING, "syncing", "has yet to ask for its assignment", "yet to ask for its assignment"],
  [SYNCED, "synced", "waits for its assignment", "waits for its assignment"],
  [SILENT, "silent", "not heard of until it was removed, or until now", "silent"],
];

const SIGNS = [
  ["culprit", "", "culprit", CULPRIT[1]],
  ["trigger", "", "trigger", TRIGGER[1]],
  ["removed", "×", "removed", "Removed without leaving"],
  ["refusal", "", "refused", "Somebody was turned away, once or again and again"],
  ["replacement", "", "silent replacement", "A static member came back, and nobody had to wait"],
  ["restart", "", "broker restarted", "The broker started, or took the group over"],
  ["fault", "", "fault", "A fault that somebody had set took hold of a request of the member"],
];

const FATE_WORDS = { "": "gone", left: "left", expired: "removed: its session expired", dropped: "removed: it did not join in time", unsynced: "removed: it did not sync in time", replaced: "replaced", refused: "refused" };

export function legend() {
  const key = (name, sign, words, title) => h("li", { title }, h("i", { class: `key ${name}`, "aria-hidden": "true" }, sign), words);
  return h("ul", { class: "tl-legend", "aria-label": "Legend" }, KIND_WORDS.map(([, name, title, words]) => key(name, "", words, title)), SIGNS.map((sign) => key(...sign)));
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

/** What faults did to requests of a lane's member between two times, in words. */
export function faultWords(data, lane, from, to) {
  const often = (fault) => (fault.times > 1 ? `, ${number(fault.times)} times until ${clock(data.from + fault.last, { millis: true })}` : "");
  return lane.faults.filter((fault) => fault.at <= to && fault.last >= from).map((fault) => `${fault.words}${often(fault)}`);
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

/** Index of the newest rebalance that somebody should look at; of the newest at all, if there is none. */
export function newestTrouble(data) {
  const index = data.marks.findLastIndex((mark) => mark.stood_ms >= FELT_MS || gravity(mark) === "grave");
  return index >= 0 ? index : data.marks.length - 1;
}

/** What all of it cost, and on whose account: a sentence, and the mark that cost most, null if none cost anything. */
export function verdict(data) {
  const stood = data.marks.reduce((sum, mark) => sum + mark.stood_ms, 0);
  const refused = data.marks.reduce((sum, mark) => sum + (mark.kind === "refusal" ? mark.times : 0), 0);
  const most = data.lanes.reduce((best, lane) => (lane.blamedMs > (best?.blamedMs ?? 0) ? lane : best), null);
  const worst = data.marks.reduce((best, mark) => (weight(mark) > weight(best) ? mark : best), { kind: "", stood_ms: 0 });
  const cost = [stood >= FELT_MS && `${partitionTime(stood)} stood still`, refused && `members were refused ${plural(refused, "time")}`].filter(Boolean).join("; ") || "partitions stood still for less than a partition-second in all";
  const blame = most?.blamedMs >= FELT_MS ? `, the most on account of ${most.name} (${partitionTime(most.blamedMs)})` : "";
  return { text: `${counted(data.marks)}: ${cost}${blame}.`, worst: weight(worst) >= FELT_MS ? worst : null };
}

/** How much a mark matters for the verdict: refusals as much as a second each. */
const weight = (mark) => (mark.kind === "refusal" ? mark.times * 1_000 : mark.stood_ms);

/** The chosen rebalance. `isAdvised`: its advice is on the page already. */
export function details(data, mark, chooseLane, more = null, isAdvised = false) {
  const took = endOf(mark, data.until) - mark.start;
  const names = (lanes) => lanes.slice(0, 6).map((index, at) => [at ? ", " : "", h("button", { class: "link", type: "button", onclick: () => chooseLane(index) }, data.lanes[index].name)]).concat(lanes.length > 6 ? ` and ${lanes.length - 6} more` : "");
  const lost = felt(mark.last >= 0 && data.isLive ? { ...mark, last_ms: data.from + mark.last } : mark);
  const facts = [
    mark.trigger >= 0 && [role(TRIGGER), names([mark.trigger])],
    mark.culprit >= 0 && [role(CULPRIT), names([mark.culprit])],
    ["When", clock(data.from + mark.start, { millis: true })],
    mark.kind === "rebalance" && ["Took", mark.end < 0 ? `${duration(took)} so far` : duration(took)],
    mark.generation >= 0 && mark.kind === "rebalance" && [generationWord(mark), number(mark.generation)],
    mark.kind !== "refusal" && ["Members", number(mark.members)],
    ["Cause", h("span", { class: "cause" }, causeWords(mark.cause), " ", h("code", null, mark.cause))],
    more && ["More", more(mark)],
  ].filter(Boolean);
  const barriers = mark.barriers.map((barrier) => {
    const isOpen = barrier.closed < 0;
    const open = duration((isOpen ? data.until : barrier.closed) - barrier.opened);
    const sign = h("i", { class: `key ${barrier.barrier === "sync" ? "syncing" : "joining"}`, "aria-hidden": "true" });
    const wait = WAITS[barrier.barrier];
    if (wait) return h("li", null, sign, barrier.last.length ? names(barrier.last) : "The group", ` ${wait} for ${open}${isOpen ? " so far" : ""}.`);
    const parts = [sign, h("b", null, barrier.barrier === "initial delay" ? "Initial delay" : `${barrier.barrier === "sync" ? "Sync" : "Join"} barrier`), ` ${isOpen ? "open for" : "was open for"} ${open}`];
    const last = barrier.last.filter((one) => !barrier.absent.includes(one));
    if (last.length) parts.push(isOpen ? ", waits for " : "; last came ", ...names(last));
    if (barrier.absent.length) parts.push("; never came: ", ...names(barrier.absent));
    if (barrier.pending) parts.push(`; ${plural(barrier.pending, "id")} never used`);
    return h("li", null, parts);
  });
  return [
    h("h3", null, mark.headline || `${mark.kind} ${mark.number}`),
    lost && h("p", { class: `strong ${gravity(mark) === "grave" ? "bad-text" : ""}` }, lost),
    h("dl", { class: "facts" }, facts.map(([name, value]) => h("div", null, h("dt", null, name), h("dd", null, value)))),
    !isAdvised && advice(mark),
    barriers.length ? h("ul", { class: "barriers" }, barriers) : null,
    mark.sentences.length ? h("div", { class: "story" }, mark.sentences.map((text) => h("p", null, text))) : null,
  ];
}

/** What to do about it. */
export const advice = (mark) => mark.advice.length > 0 && h("div", { class: "advice" }, h("h4", null, "What to do"), mark.advice.map((text) => h("p", null, text)));
