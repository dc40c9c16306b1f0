// A group: what it is now, why it rebalanced, its timeline, its members and its offsets.
import { alarmChips } from "./alarms.js";
import { get, groupPath, notLoaded } from "./api.js";
import { countOwned, cut, duration, fill, groupHref, h, memberNames, number, owned, short, stateChip, topicHref, WAITING } from "./dom.js";
import { membersTab } from "./members.js";
import { offsetsTab } from "./offsets.js";
import { timelineTab } from "./timeline-tab.js";
import { whyTab } from "./why.js";

const TABS = { why: ["Why", whyTab], timeline: ["Timeline", timelineTab], members: ["Members", membersTab], offsets: ["Offsets", offsetsTab] };

const AGAIN_MS = 3_000;
const LONGEST = 120; // characters of a heading
const MOST = 5; // names of members in a sentence

const some = (names) => names.slice(0, MOST).join(", ") + (names.length > MOST ? ` and ${names.length - MOST} more` : "");

/** Who holds a consumer group up, with what, and who waits for that. */
function heldUp(group, called) {
  const awaited = group.members.filter((member) => group.awaited.includes(member.member_id));
  const holding = awaited.filter((member) => countOwned(member.pending)).map((member) => `${called(member.member_id)} has not given up ${owned(member.pending)}`);
  const late = awaited.filter((member) => !countOwned(member.pending)).map((member) => called(member.member_id));
  const waiting = group.members.filter((member) => member.state === WAITING && !group.awaited.includes(member.member_id)).map((member) => called(member.member_id));
  const says = [...(holding.length ? [some(holding)] : []), ...(late.length ? [`${some(late)} ${late.length > 1 ? "have" : "has"} yet to come for the new target`] : [])];
  return `${says.length ? `: ${says.join("; ")}` : ""}${waiting.length ? ` (${some(waiting)} ${waiting.length > 1 ? "wait" : "waits"})` : ""}.`;
}

export function groupView(store, first) {
  const id = first.name;
  const model = { id, group: undefined, offsets: null, heardAt: 0, error: "" };
  const head = h("header", { class: "group-head" });
  const now = h("div", { class: "now", role: "status" });
  const tabs = h("div", { class: "tabs", role: "tablist", "aria-label": "About this group" });
  const panel = h("div", { role: "tabpanel", id: "panel", tabindex: "-1" });
  const age = h("span", { "aria-live": "off" });
  let tab = null;
  let name = null;
  let said = "";
  let failed = 0;

  function take({ group, offsets }) {
    model.group = group;
    model.offsets = offsets;
    model.heardAt = Date.now();
    model.error = "";
    drawHead();
    drawTabs();
    tab?.update?.();
  }

  async function load() {
    try {
      const group = await get(groupPath(id));
      const { offsets } = await get(groupPath(id, "/offsets"));
      failed = 0;
      take({ group, offsets });
    } catch (error) {
      if (error.status === 404) take({ group: null, offsets: [] });
      else {
        failed = Date.now();
        model.error = notLoaded(error);
        if (model.group === undefined && !error.isGone) fill(now, h("p", { class: "notice" }, error.message));
        tab?.update?.();
      }
    }
  }

  function drawHead() {
    const { group, offsets } = model;
    if (!group) {
      fill(head, h("h1", { class: "mono", title: id }, cut(id, LONGEST)), group === null && stateChip("Dead"));
      said = "";
      fill(now, group === null && h("p", { class: "notice" }, "There is no such group now. Below is what is remembered of it, if anything."));
      return;
    }
    const lag = offsets?.some((one) => one.lag !== null) && !offsets.some((one) => one.has_unknown_end) ? offsets.reduce((sum, one) => sum + (one.lag ?? 0), 0) : null;
    const topics = [...new Set([...group.members.flatMap((member) => member.topics ?? []), ...(offsets ?? []).map((one) => one.topic)])].sort();
    fill(head, h("h1", { class: "mono", title: id }, cut(id, LONGEST)), stateChip(group.state, store.alarmsOf(id).length > 0), alarmChips(store.alarmsOf(id)),
      h("dl", { class: "facts inline" }, [[group.protocol === "consumer" ? "epoch" : "generation", number(group.generation)], ["members", number(group.members.length)], ["assignor", group.protocol_name ?? "–"], ["lag", h("span", { title: number(lag) }, short(lag))], ["topics", topics.length ? topics.slice(0, 4).map((topic, index) => [index ? ", " : "", h("a", { href: topicHref(topic) }, topic)]).concat(topics.length > 4 ? ` +${topics.length - 4}` : "") : "–"]].map(([key, value]) => h("div", null, h("dt", null, key), h("dd", null, value)))));
    drawNow();
  }

  function drawNow() {
    const { group } = model;
    if (!group) return;
    const all = memberNames(group.members);
    const called = (member) => all[group.members.findIndex((one) => one.member_id === member)] ?? member;
    const gone = all.filter((_, index) => group.members[index].is_gone);
    const barrier = group.barrier && (group.barrier === "initial delay" ? "The initial delay" : group.barrier === "target" ? "Not balanced" : `The ${group.barrier} barrier`);
    const whom = group.barrier === "target" ? heldUp(group, called) : group.awaited.length ? ` and waits for ${some(group.awaited.map(called))}.` : ".";
    const zombies = gone.length ? `${gone.join(", ")} asked to be let in, and the connection is lost: a zombie.` : "";
    drawAge();
    const text = [barrier, whom, zombies].join("\n");
    if (text === said) return;
    said = text;
    fill(now, barrier && h("p", { class: "notice warn" }, h("b", null, barrier), group.barrier === "target" ? " for " : " is open for ", age, whom), zombies && h("p", { class: "notice bad" }, zombies));
  }

  /** Time that passes is no news: what is read aloud stays as it is. */
  function drawAge() {
    if (model.group?.barrier) age.textContent = duration(model.group.barrier_age_ms + Date.now() - model.heardAt);
  }

  function drawTabs() {
    const counts = { members: model.group?.members.length, offsets: model.offsets?.length };
    const focused = tabs.contains(document.activeElement);
    fill(tabs, Object.entries(TABS).map(([key, [text]], index) => h("a", { role: "tab", id: `tab-${key}`, href: groupHref(id, key === "why" ? "" : key), "aria-selected": String(key === name), "aria-controls": "panel", tabindex: key === name ? "0" : "-1", title: `${text} (${index + 1})` }, text, counts[key] ? h("span", { class: "count" }, short(counts[key])) : null)));
    if (focused) tabs.querySelector('[aria-selected="true"]')?.focus();
  }

  function show(route) {
    const wanted = route.tab in TABS ? route.tab : "why";
    if (wanted === name) {
      tab?.goTo?.(route.at);
      return;
    }
    tab?.destroy?.();
    name = wanted;
    drawTabs();
    panel.setAttribute("aria-labelledby", `tab-${name}`);
    tab = TABS[name][1](store, model, route.at);
    fill(panel, tab.element);
    tab.shown?.();
  }

  tabs.addEventListener("keydown", (event) => {
    const keys = Object.keys(TABS);
    const to = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!to) return;
    const next = keys[(keys.indexOf(name) + to + keys.length) % keys.length];
    location.hash = groupHref(id, next === "why" ? "" : next);
    event.preventDefault();
  });

  const stop = store.listen((what, data) => {
    if (what === "group" && (data.group === null || data.group.group_id === id)) take(data);
    else if (what === "alarms" && model.group) drawHead();
    else if (what === "episode" && data.group_id === id) tab?.episode?.(data);
  });
  drawHead();
  show(first);
  load();
  return {
    title: id,
    element: h("div", { class: "page" }, head, now, tabs, panel),
    show,
    reload() {
      load();
      tab?.reload?.();
    },
    tick() {
      drawAge();
      if (failed && Date.now() - failed > AGAIN_MS && !document.body.classList.contains("is-lost")) {
        failed = Date.now();
        load();
      }
      tab?.tick?.();
    },
    key(key, event) {
      const chosen = Object.keys(TABS)[Number(key) - 1];
      if (!chosen) return tab?.key?.(event) ?? false;
      location.hash = groupHref(id, chosen === "why" ? "" : chosen);
      return true;
    },
    destroy() {
      stop();
      tab?.destroy?.();
    },
  };
}

