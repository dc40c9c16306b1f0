// Why a group rebalanced: its episodes, the latest first, each with as much of its story as one wants to see.
import { get, groupPath, notLoaded } from "./api.js";
import { causeWords, felt, gravity } from "./causes.js";
import { brokerTime, chip, clock, CULPRIT, duration, fill, groupHref, h, memberName, memberNames, number, nothingYet, partitionTime, plural, role, TRIGGER, when } from "./dom.js";
import { generationWord } from "./timeline-scale.js";

const FIRST = 30, MORE = 10, MOST = 1000;
const SOME = 25;
const LATEST = 5;
const RUNNING_EVERY_MS = 2_000;
const OUTCOMES = { stable: null, running: ["warn", "running"], superseded: ["neutral", "overtaken by the next"], empty: ["neutral", "left it empty"], dead: ["neutral", "group removed"], refused: ["bad", "refused"], replaced: ["neutral", "without a rebalance"], loaded: ["neutral", "loaded"] };
const FATES = { stayed: null, new: ["good", "new"], returned: ["good", "returned"], replaced: ["neutral", "replaced"], left: ["neutral", "left"], expired: ["bad", "session expired"], dropped: ["bad", "missed the join"], unsynced: ["bad", "missed the sync"], refused: ["bad", "refused"] };

export function whyTab(store, model, first = null) {
  let wanted = first;
  const list = h("ol", { class: "episodes", "aria-label": "Rebalances, latest first" });
  const more = h("button", { class: "button", type: "button", hidden: true, onclick: () => load(asked * MORE) }, "Show earlier ones");
  const empty = h("p", { class: "empty" }, "Loading…");
  const shown = new Map();
  let nothing = "";
  let asked = FIRST, looked = 0, due = 0;

  async function load(last = asked) {
    asked = Math.min(last, MOST);
    looked = Date.now();
    try {
      const { episodes } = await get(groupPath(model.id, `/why?last=${asked}`));
      const before = new Map([...shown].map(([number, item]) => [number, item.querySelector("details")]));
      shown.clear();
      list.replaceChildren();
      for (const episode of episodes) put(episode);
      keep(before);
      seek();
      more.hidden = episodes.length < asked || asked >= MOST;
      empty.hidden = episodes.length > 0;
      nothing = "Nothing has happened to this group since its history began.";
      empty.textContent = model.group?.barrier ? nothingYet(model) : nothing;
    } catch (error) {
      if (!shown.size) empty.textContent = error.status === 404 ? nothingYet(model) : notLoaded(error);
      if (error.status === 404 && model.group?.barrier) due = Date.now() + RUNNING_EVERY_MS / 2;
      nothing = error.status === 404 ? nothingYet({}) : "";
    }
  }

  function put(episode) {
    const before = shown.get(episode.number);
    const element = episodeItem(model.id, episode, before ? before.querySelector("details").open : false);
    shown.set(episode.number, element);
    if (before) before.replaceWith(element);
    else {
      // The latest is open, until somebody opens or closes one.
      const latest = list.firstElementChild?.querySelector("details");
      if (latest && !latest.dataset.touched) latest.open = false;
      list.prepend(element);
      element.querySelector("details").open = true;
    }
    empty.hidden = true;
  }

  /** Once somebody has opened or closed one, all that were there stay as they were. */
  function keep(before) {
    if (![...before.values()].some((details) => details.dataset.touched)) return;
    for (const [number, { open, dataset }] of before) {
      const details = shown.get(number)?.querySelector("details");
      if (!details) continue;
      details.open = open;
      if (dataset.touched) details.dataset.touched = "1";
    }
  }

  /** Ask for the latest only; those that ended since are among them. */
  async function look() {
    looked = Date.now();
    due = 0;
    try {
      const { episodes } = await get(groupPath(model.id, `/why?last=${LATEST}`));
      const newest = Math.max(0, ...shown.keys());
      if (episodes.length === LATEST && episodes[0].number > newest + 1) return load();
      episodes.filter((episode) => episode.number >= newest - 1).forEach(put);
    } catch {
      // The page says by itself that the broker is not there.
    }
  }

  /** Open what the address says. */
  function seek() {
    const item = wanted === null ? null : shown.get(wanted);
    if (!item) return;
    wanted = null;
    for (const details of list.querySelectorAll(":scope > li > details[open]")) details.open = false;
    const details = item.querySelector("details");
    details.open = true;
    details.dataset.touched = "1";
    item.scrollIntoView({ block: "center" });
    details.firstElementChild.focus({ preventScroll: true });
  }

  /** Go from headline to headline. */
  function step(event) {
    const by = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    const summaries = [...list.querySelectorAll(":scope > li > details > summary")];
    const now = summaries.findIndex((one) => one.parentElement.contains(document.activeElement));
    if (!by || !summaries.length || (now < 0 && document.activeElement.closest("a, button, summary, [tabindex='0']"))) return false;
    summaries[now < 0 ? 0 : Math.min(Math.max(now + by, 0), summaries.length - 1)].focus();
    return true;
  }

  load();
  return {
    element: h("div", null, list, empty, h("p", { class: "center" }, more)),
    episode: (episode) => (episode.headline ? put(episode) : (due ||= Date.now() + 100)),
    key: step,
    goTo(number) {
      wanted = number;
      seek();
    },
    update() {
      if (nothing && !shown.size) empty.textContent = model.group?.barrier ? nothingYet(model) : nothing;
      if (model.group?.barrier) due ||= Math.max(looked + RUNNING_EVERY_MS, Date.now());
    },
    reload: () => load(),
    tick() {
      for (const since of list.querySelectorAll("[data-running]")) since.textContent = `running for ${duration(Math.max(brokerTime() - since.dataset.running, 0))}`;
      if (model.group?.barrier) due ||= looked + RUNNING_EVERY_MS;
      if (due && Date.now() >= due && !document.body.classList.contains("is-lost")) look();
    },
  };
}

function episodeItem(group, episode, isOpen) {
  const one = { duration_ms: -1, generation_before: -1, generation_after: -1, outcome: "running", cause: "unknown", culprit: -1, triggers: [], waits: [], members: [], moves: [], stood_ms: 0, times: 1, last_ms: 0, headline: "", sentences: [], advice: [], ...episode };
  const running = one.duration_ms < 0;
  const outcome = OUTCOMES[one.outcome] && chip(...OUTCOMES[one.outcome]);
  const generation = one.generation_after >= 0 ? (one.generation_before >= 0 && one.generation_before !== one.generation_after ? `${number(one.generation_before)} → ${number(one.generation_after)}` : number(one.generation_after)) : null;
  const word = generationWord(one);
  const body = h("div", { class: "body" });
  const timeline = groupHref(group, `timeline/${one.number}`);
  const names = memberNames(one.members);
  const blamed = [[TRIGGER, names[triggerOf(one)]], [CULPRIT, names[one.culprit]]].filter(([, name]) => name !== undefined);
  const lost = felt(one);
  const open = () => body.childElementCount || fill(body, story(one, timeline));
  const details = h("details", { class: `episode ${gravity(one)} ${running ? "running" : ""}`, ontoggle: (event) => event.target.open && open() },
    h("summary", { onclick: (event) => (event.currentTarget.parentElement.dataset.touched = "1") },
      h("span", { class: "headline" }, one.headline || one.cause),
      h("span", { class: "meta" }, lost && h("b", { class: gravity(one) === "grave" ? "bad-text" : "felt" }, lost), when(one.started_ms), h("span", { class: "muted" }, clock(one.started_ms)), generation && h("span", { title: word }, `${word === "Epoch" ? "epoch" : "gen"} ${generation}`), running ? h("span", { "data-running": one.started_ms }, `running for ${duration(Math.max(brokerTime() - one.started_ms, 0))}`) : one.kind === "rebalance" && h("span", null, `took ${duration(one.duration_ms)}`), one.times > 1 && h("span", null, `the last at ${clock(one.last_ms)}`), outcome),
      h("span", { class: "meta" }, h("span", null, causeWords(one.cause), " ", h("code", { title: "Class of the cause" }, one.cause)), blamed.map(([what, name]) => h("span", null, role(what), " ", h("b", null, name))))),
    body);
  details.open = isOpen;
  if (isOpen) open();
  return h("li", null, details);
}

/** Index of the member that began it; -1 for nobody. */
const triggerOf = (one) => one.triggers[0]?.member ?? -1;

function story(one, timeline) {
  const names = memberNames(one.members);
  const who = (index) => names[index] ?? "nobody";
  return [
    one.advice.length ? h("div", { class: "advice" }, h("h3", null, "What to do"), one.advice.map((advice) => h("p", null, advice.text, advice.setting && !advice.text.includes(advice.setting) && h("span", { class: "setting" }, h("code", null, `${advice.setting}${advice.value ? ` = ${advice.value}` : ""}`), h("span", { class: "muted small" }, (advice.of_client ?? true) ? " of the client" : " of the broker"))))) : null,
    one.sentences.length ? h("div", { class: "story" }, one.sentences.map((text) => h("p", null, text))) : null,
    h("p", { class: "way" }, h("a", { href: timeline }, "In the timeline")),
    one.waits.length ? h("ul", { class: "barriers" }, one.waits.map((wait) => barrier(one, wait, who))) : null,
    one.members.length ? membersOf(one) : null,
    one.moves.length ? movesOf(one, who) : null,
    one.triggers.length ? part(`Triggers (${number(one.triggers.length)})`, () => h("ul", { class: "plain" }, one.triggers.map((trigger) => h("li", null, h("code", null, trigger.cause), trigger.at_ms ? ` after ${duration(trigger.at_ms)}` : " at the start", (trigger.member ?? -1) >= 0 ? `, ${who(trigger.member)}` : "", trigger.reason ? `: ${trigger.reason}` : "", Object.entries(trigger.facts ?? {}).map(([key, value]) => h("span", { class: "fact" }, `${key.replaceAll("_", " ")} ${value}`)))))) : null,
  ];
}

function barrier(one, wait, who) {
  const closed = wait.closed_ms ?? -1;
  const parts = [h("i", { class: `key ${wait.barrier === "sync" ? "syncing" : "joining"}`, "aria-hidden": "true" }), h("b", null, wait.barrier === "initial delay" ? "Initial delay" : `${wait.barrier === "sync" ? "Sync" : "Join"} barrier`), closed < 0 ? " is open" : ` was open for ${duration(closed - wait.opened_ms)}`];
  if (wait.limit_ms) parts.push(h("span", { class: "muted" }, `${closed < 0 ? "," : " of"} at most ${duration(wait.limit_ms)}`));
  const last = (wait.last ?? []).filter((index) => !wait.absent?.includes(index));
  if (last.length) parts.push(closed < 0 ? ", waits for " : "; last came ", h("b", null, some(last.map(who))));
  if (wait.absent?.length) parts.push("; never came: ", h("b", { class: "bad-text" }, some(wait.absent.map(who))));
  if (wait.pending_ids?.length) parts.push(`; ${plural(wait.pending_ids.length, "id was", "ids were")} issued and never used`);
  return h("li", null, parts);
}

const some = (names, most = 6) => names.slice(0, most).join(", ") + (names.length > most ? ` and ${names.length - most} more` : "");

/** A part that is made when it is opened. */
function part(title, make) {
  const box = h("div");
  return h("details", { class: "part", ontoggle: (event) => event.target.open && !box.childElementCount && box.append(make()) }, h("summary", null, title), box);
}

function membersOf(one) {
  const plain = (member) => (member.fate ?? "stayed") === "stayed";
  const isBlamed = one.members.some((member) => member.blamed_ms);
  const weight = ({ index }) => 2 * (index === one.culprit) + (index === triggerOf(one));
  const sorted = one.members.map((member, index) => ({ ...member, index })).sort((a, b) => weight(b) - weight(a) || plain(a) - plain(b) || (b.came_ms ?? -1) - (a.came_ms ?? -1));
  const rows = (members) => members.map((member) => h("tr", { class: member.index === one.culprit ? "culprit" : member.index === triggerOf(one) ? "trigger" : null }, h("td", null, h("div", null, member.index === one.culprit && [role(CULPRIT), " "], member.index === triggerOf(one) && [role(TRIGGER), " "], member.is_leader && h("span", { class: "leader", title: "It led the group" }, "★ "), memberName(member), " ", FATES[member.fate] && chip(...FATES[member.fate])), h("div", { class: "mono muted small" }, member.member_id)), h("td", { class: "num" }, (member.came_ms ?? -1) >= 0 ? `+${duration(member.came_ms)}` : "never"), h("td", { class: "num" }, (member.synced_ms ?? -1) >= 0 ? `+${duration(member.synced_ms)}` : "–"), h("td", { class: "num" }, `${member.before ?? 0} → ${member.after ?? 0}`), isBlamed && h("td", { class: "num" }, member.blamed_ms ? partitionTime(member.blamed_ms) : "–"), h("td", { class: "muted" }, [member.reason, member.heard_ms ? `last heard ${clock(member.heard_ms)}` : "", member.disconnected_ms ? `connection lost ${clock(member.disconnected_ms)}` : ""].filter(Boolean).join("; "))));
  return part(plural(one.members.length, "member"), () => {
    const body = h("tbody", null, rows(sorted.slice(0, SOME)));
    const rest = sorted.length - SOME;
    const button = rest > 0 && h("button", { class: "button", type: "button", onclick: (event) => (body.append(...rows(sorted.slice(SOME))), event.target.remove()) }, `Show ${rest} more`);
    return h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Members of this rebalance" }, h("table", { class: "plain" }, h("thead", null, h("tr", null, ["Member", "Joined", "Synced", "Partitions", isBlamed && "On its account", ""].map((text, index) => text !== false && h("th", { scope: "col", class: index > 0 && text ? "num" : "" }, text || h("span", { class: "sr" }, "What is known"))))), body), button);
  });
}

function movesOf(one, who) {
  return part(`${plural(one.moves.length, "partition")} changed hands`, () => {
    const row = ([topic, partition, before, after]) => h("li", null, h("span", { class: "mono" }, `${topic} ${partition}`), ` ${who(before)} → ${who(after)}`);
    const moves = h("ul", { class: "plain columns" }, one.moves.slice(0, 60).map(row));
    const rest = one.moves.length - 60;
    return h("div", null, moves, rest > 0 && h("button", { class: "button", type: "button", onclick: (event) => (moves.append(...one.moves.slice(60).map(row)), event.target.remove()) }, `Show ${rest} more`));
  });
}
