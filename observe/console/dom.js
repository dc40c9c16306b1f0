// Elements, and how numbers and times are written.

/** An element. Attributes: `on…` are listeners, `class`, `data-…`, anything else as is; null and false are left out. */
export function h(tag, attributes, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name.startsWith("--")) element.style.setProperty(name, value);
    else element.setAttribute(name, value === true ? "" : name === "title" || name === "aria-label" ? printable(value) : value);
  }
  element.append(...flat(children));
  return element;
}

function flat(children) {
  const shown = children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false);
  return shown.map((child) => (typeof child === "string" ? printable(child) : child));
}

const HIDDEN = /[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/g;

/** Names of others with escapes, as on a terminal, for what cannot be seen or turns the direction of what follows. */
export function printable(text) {
  return String(text).replace(HIDDEN, (one) => {
    const code = one.charCodeAt(0);
    return code < 256 ? `\\x${code.toString(16).padStart(2, "0")}` : `\\u${code.toString(16).padStart(4, "0")}`;
  });
}

/** Replaces what an element holds. */
export function fill(element, ...children) {
  element.replaceChildren(...flat(children));
  return element;
}

const WHOLE = new Intl.NumberFormat("en");
const SHORT = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });

export const number = (value) => (value === null || value === undefined ? "–" : WHOLE.format(value));
export const short = (value) => (value === null || value === undefined ? "–" : value < 10_000 ? WHOLE.format(value) : SHORT.format(value));
export const plural = (count, one, many = `${one}s`) => `${number(count)} ${count === 1 ? one : many}`;

/** A duration in milliseconds, with as much of it as matters. */
export function duration(ms) {
  if (ms === null || ms === undefined || ms < 0) return "–";
  if (ms < 1000) return `${Math.round(ms)} ms`;
  const s = ms / 1000;
  if (s < 60) return `${s < 9.95 ? Number(s.toFixed(1)) : Math.min(Math.round(s), 59)} s`;
  const units = [["d", 86400], ["h", 3600], ["min", 60], ["s", 1]];
  const index = units.findIndex(([, size]) => s >= size);
  const [name, size] = units[index];
  const whole = Math.floor(s / size);
  const rest = Math.floor((s - whole * size) / units[index + 1][1]);
  return rest && whole < 10 ? `${whole} ${name} ${rest} ${units[index + 1][0]}` : `${whole} ${name}`;
}

let aheadMs = 0;

/** Take from an answer of the broker what time it has there: the clock of this machine may be another. */
export function keepTime(ms) {
  aheadMs = ms - Date.now();
}

/** Now, by the broker's clock. */
export const brokerTime = () => Date.now() + aheadMs;

/** How long ago, in words. */
export function ago(ms) {
  const passed = brokerTime() - ms;
  return passed < 1500 ? "just now" : `${duration(passed)} ago`;
}

const two = (value) => String(value).padStart(2, "0");

/** The time of day; with the date if it is not today, or if it is `dated`. */
export function clock(ms, { seconds = true, millis = false, dated = false } = {}) {
  const at = new Date(ms);
  let text = `${two(at.getHours())}:${two(at.getMinutes())}`;
  if (seconds || millis) text += `:${two(at.getSeconds())}`;
  if (millis) text += `.${String(at.getMilliseconds()).padStart(3, "0")}`;
  return !dated && new Date().toDateString() === at.toDateString() ? text : `${day(at)} ${text}`;
}

function day(at) {
  return `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())}`;
}

/** A `time` element that says how long ago, and when on hovering. */
export function when(ms) {
  return h("time", { datetime: new Date(ms).toISOString(), title: clock(ms, { millis: true }), "data-ago": ms }, ago(ms));
}

/** Brings what `when` made up to date. */
export function refreshAgo(root) {
  for (const element of root.querySelectorAll("time[data-ago]")) {
    const text = ago(Number(element.dataset.ago));
    if (element.textContent !== text) element.textContent = text;
  }
}

/** Time in which nobody consumed, summed over partitions. */
export const partitionTime = (ms) => `${number(Number((ms / 1000).toFixed(ms < 10_000 ? 1 : 0)))} partition-seconds`;

const LONG = 14, END = 7;

/** A long name in a narrow place: what does not fit is left out in the middle, as names differ at their ends. */
export function middle(name) {
  if (name.length <= LONG) return h("span", { title: name }, name);
  return h("span", { class: "middle", title: name }, h("span", null, name.slice(0, -END)), h("span", null, name.slice(-END)));
}

/** A name as text of so many characters at most, its beginning and its end kept. */
export function cut(name, most) {
  if (name.length <= most) return name;
  const begin = Math.ceil((most - 1) / 2);
  return `${name.slice(0, begin)}…${name.slice(begin + 1 - most)}`;
}

export function bytes(value) {
  if (value < 1024) return `${value} B`;
  const power = Math.min(Math.floor(Math.log2(value) / 10), 5);
  const scaled = value / 2 ** (10 * power);
  return `${scaled < 10 ? scaled.toFixed(1) : Math.round(scaled)} ${"KMGTP"[power - 1]}iB`;
}

/** Partitions as ranges: 0–3, 7. */
export function ranges(partitions) {
  const sorted = [...partitions].sort((a, b) => a - b);
  const parts = [];
  for (let index = 0; index < sorted.length; ) {
    let end = index;
    while (sorted[end + 1] === sorted[end] + 1) end += 1;
    parts.push(end === index ? `${sorted[index]}` : `${sorted[index]}–${sorted[end]}`);
    index = end + 1;
  }
  return parts.join(", ");
}

/** What a member owns: orders 0–3, 7 · refunds 1. */
export function owned(assignment) {
  return Object.entries(assignment)
    .filter(([, partitions]) => partitions.length)
    .map(([topic, partitions]) => `${topic} ${ranges(partitions)}`)
    .join(" · ");
}

export const countOwned = (assignment) => Object.values(assignment).reduce((sum, partitions) => sum + partitions.length, 0);

export const STATES = {
  Stable: ["good", "Stable"],
  PreparingRebalance: ["warn", "Preparing rebalance"],
  Assigning: ["warn", "Assigning"],
  Reconciling: ["warn", "Reconciling"],
  CompletingRebalance: ["violet", "Completing rebalance"],
  Empty: ["neutral", "Empty"],
  Dead: ["neutral", "Dead"],
};

/** A state of a group as a coloured word; what is in trouble is not green. */
export function stateChip(state, isTroubled = false) {
  const [tone, text] = STATES[state] ?? ["neutral", state];
  return chip(isTroubled && tone === "good" ? "neutral" : tone, text, state);
}

/** What the broker says of a member: that it began a rebalance, or that it is to blame for what the others felt. */
export const CULPRIT = ["culprit", "The member on whose account partitions stood still the most; if none did for a second, the one that began it"];
export const TRIGGER = ["trigger", "The member that began it"];
export const role = ([name, words]) => h("span", { class: `chip ${name}`, title: words }, name);

export const chip = (tone, text, title) => h("span", { class: `chip ${tone}`, title: title === text ? null : title }, text);

/** What an alarm is called. */
export const sentinelName = (alarm) => alarm.sentinel.replaceAll(/[-_]/g, " ");

/** The group's address in this page. */
export const groupHref = (id, tab) => `#/groups/${encodeURIComponent(id)}${tab ? `/${tab}` : ""}`;
export const topicHref = (name) => `#/topics/${encodeURIComponent(name)}`;

/** A member in few words: its instance id, or its client id. */
export const memberName = (member) => member.group_instance_id || member.client_id || member.member_id;

/** What to call each of several members: with a piece of its id if others have its name, too. */
export function memberNames(members) {
  const shared = new Map();
  for (const member of members) shared.set(memberName(member), (shared.get(memberName(member)) ?? 0) + 1);
  return members.map((member) => {
    const name = memberName(member);
    if (shared.get(name) === 1) return name;
    let rest = member.member_id;
    for (const start of [name, member.client_id]) if (rest.startsWith(`${start}-`)) rest = rest.slice(start.length + 1);
    return rest ? `${name}-${rest.slice(0, 8)}` : name;
  });
}

/** What there is instead of a story that has not been told. */
export function nothingYet(model) {
  const { group } = model;
  if (group?.barrier === "initial delay") return "The group is being started: it waits for others to start, too. Its story begins here once it runs.";
  if (group?.barrier) return "Its first known rebalance runs now. Its story is here as soon as there is something to tell.";
  return "Nothing is remembered of this group.";
}

/** The state of a member of a consumer group for which others have to give something up. */
export const WAITING = "UNRELEASED_PARTITIONS";

/** What a consumer group waited for, as it is said of the member, or of the group; docs/why.md says what each means. */
export const WAITS = {
  "told-to-revoke": "was told to give partitions up, and had not been heard of",
  "still-owns": "had not given partitions up",
  "says-nothing": "had not said that it gave partitions up",
  "not-heard": "had not come for its target",
  "next-heartbeat": "was to hear of its target with its next heartbeat",
  "waits-for-release": "waited for partitions of others",
  free: "was to get what was free with its next heartbeat",
  away: "was away",
  "must-rejoin": "had not joined again",
  "must-sync": "had not fetched its assignment",
  regex: "waited for its regex to be held against the topics",
  interval: "had to wait for its assignment interval",
  "not-subscribed": "had partitions in its target to which it did not subscribe",
  "no-target": "subscribed to topics that no target had",
  "nobody-joins": "waited for somebody to join, as only that brings a target to classic members",
  "nobody-heartbeats": "waited for anybody's heartbeat, with which a target is computed",
};
