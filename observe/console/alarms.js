// What the sentinels say: alarms that stand, and those that ended.
import { chip, clock, cut, fill, groupHref, h, number, plural, sentinelName } from "./dom.js";

/** What it says, with the group's name as a link where it stands. */
function says({ group_id: id, text }) {
  if (!id) return text;
  const link = h("a", { href: groupHref(id), title: id }, cut(id, 48));
  const at = text.indexOf(`roup ${id}`) + "roup ".length;
  return at < "roup ".length ? [link, ": ", text] : [text.slice(0, at), link, text.slice(at + id.length)];
}

/** An alarm in one line. */
export function alarmItem(alarm) {
  const over = alarm.cleared_ms || null;
  const times = alarm.times ?? 1;
  return h("div", { class: `alarm ${over ? "past" : "now"}` },
    chip(over ? "neutral" : "bad", sentinelName(alarm)),
    h("span", { class: "says" }, says(alarm), times > 1 && h("span", { class: "muted" }, ` (${number(times)} times)`)),
    h("span", { class: "muted small" }, `${over ? "" : "since "}${clock(alarm.since_ms)}${over ? ` to ${clock(over)}` : ""}`));
}

const MOST_TOLD = 10;

/** The alarms of a group as chips, one for each kind; what they say is told on hovering. */
export function alarmChips(alarms) {
  const kinds = new Map();
  for (const alarm of alarms) kinds.set(sentinelName(alarm), [...(kinds.get(sentinelName(alarm)) ?? []), alarm.text]);
  return [...kinds].map(([name, texts]) => {
    const more = texts.length - MOST_TOLD;
    return [chip("bad", name, [...texts.slice(0, MOST_TOLD), ...(more > 0 ? [`and ${number(more)} more`] : [])].join("\n")), " "];
  });
}

export function alarmsView(store) {
  const now = h("ul");
  const past = h("ul");
  const title = h("h2");
  const earlier = h("section", { class: "card" }, h("div", { class: "bar" }, h("h2", null, "Earlier")), past);
  function draw() {
    const { active, recent, isLoading } = store.alarms;
    const ended = recent.filter((alarm) => alarm.cleared_ms).sort((a, b) => b.cleared_ms - a.cleared_ms);
    fill(title, active.length ? plural(active.length, "alarm stands", "alarms stand") : isLoading ? "Loading…" : "No alarm stands");
    fill(now, active.map((alarm) => h("li", null, alarmItem(alarm))));
    if (!active.length && !isLoading) fill(now, h("li", { class: "empty" }, "Every subscribed topic has owners, nobody commits what is not theirs, no barrier is too old."));
    fill(past, ended.map((alarm) => h("li", null, alarmItem(alarm))));
    earlier.hidden = !ended.length;
  }
  const stop = store.listen((what) => what === "alarms" && draw());
  draw();
  return {
    title: "Alarms",
    element: h("div", { class: "page" }, h("h1", { class: "sr" }, "Alarms"), h("section", { class: "card", "aria-live": "polite" }, h("div", { class: "bar" }, title), now), earlier),
    reload: () => store.loadAlarms(),
    destroy: stop,
  };
}
