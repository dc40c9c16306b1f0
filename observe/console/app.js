// The page: where one is, what is at the top, keys, and the stream that keeps it all up to date.
import { Stream } from "./api.js";
import { alarmsView } from "./alarms.js";
import { cut, duration, fill, groupHref, h, plural, printable, refreshAgo, stateChip, topicHref } from "./dom.js";
import { groupView } from "./group.js";
import { overview } from "./overview.js";
import { Store } from "./store.js";
import { topicView, topicsView } from "./topics.js";

const main = document.getElementById("main");
const store = new Store();
let view = null;
let route = null;

// -- where one is

function read() {
  const parts = location.hash.replace(/^#\/?/, "").split("/").map(decode);
  const [page, name, tab, at] = parts;
  if (page === "groups" && name) return { page: "group", name, tab: tab || "why", at: at ? Number(at) : null, nav: "overview", watch: name };
  if (page === "topics") return name ? { page: "topic", name, nav: "topics" } : { page: "topics", nav: "topics" };
  if (page === "alarms") return { page: "alarms", nav: "alarms" };
  if (page && page !== "groups") return { page: "unknown", name: location.hash };
  return { page: "overview", nav: "overview" };
}

function unknownView(_, { name }) {
  return { title: "No such page", element: h("div", { class: "page" }, h("h1", null, "There is no such page"), h("p", { class: "notice" }, "Nothing is at ", h("code", null, name), ". ", h("a", { href: "#/" }, "All groups"))) };
}

function decode(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

const VIEWS = { overview, topics: topicsView, topic: topicView, group: groupView, alarms: alarmsView, unknown: unknownView };

function go() {
  const next = read();
  if (view && route && next.page === route.page && next.name === route.name && view.show) {
    route = next;
    view.show(next);
    return;
  }
  const moved = route !== null;
  route = next;
  view?.destroy?.();
  stream.watch(next.watch ?? null);
  view = VIEWS[next.page](store, next);
  fill(main, view.element);
  document.title = view.title ? `${printable(view.title)} · Ottla` : "Ottla";
  for (const link of document.querySelectorAll("nav a[data-page]")) {
    if (link.dataset.page === next.nav) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  scrollTo(0, 0);
  if (moved) main.focus({ preventScroll: true });
}

addEventListener("hashchange", go);

// -- the stream

const live = document.getElementById("live");
const stale = document.getElementById("stale");
let wasLive = false;
let lostAt = 0;

const stream = new Stream((state, wait) => {
  live.dataset.state = state;
  live.lastChild.textContent = state === "live" ? "Live" : "Disconnected";
  live.title = state === "live" ? "What is shown is kept up to date" : `Next try in ${duration(wait)}`;
  document.body.classList.toggle("is-lost", state === "lost");
  if (state === "lost") {
    lostAt ||= Date.now();
    const since = new Date(lostAt).toLocaleTimeString("en-GB");
    stale.textContent = `The broker does not answer since ${since}: what is shown is from then. Trying again by itself.`;
    stale.hidden = false;
  } else {
    lostAt = 0;
    stale.hidden = true;
    store.forget();
    store.load().catch(() => {});
    if (wasLive) view?.reload?.();
    wasLive = true;
  }
}, (name, data) => store.take(name, data));

// -- alarms at the top

const alarmCount = document.getElementById("alarm-count");
store.listen((what) => {
  if (what !== "alarms") return;
  const count = store.alarms.active.length;
  alarmCount.hidden = count === 0;
  alarmCount.textContent = count;
  alarmCount.title = plural(count, "alarm stands", "alarms stand");
});

// -- who looks

const logout = document.getElementById("logout");
store.listen((what, user) => {
  if (what !== "user") return;
  logout.hidden = user === null; // where there are no tokens nobody logs in
  logout.firstElementChild.title = `Log out ${printable(user ?? "")}`;
});

// -- searching

const search = document.getElementById("search");
const found = document.getElementById("found");
let hits = [];
let chosen = -1;

// `keep` is the name of the hit that stays chosen, if it is among them.
function look(keep = null) {
  const text = search.value.trim().toLowerCase();
  chosen = -1;
  hits = [];
  if (text) {
    for (const brief of store.groups.values()) {
      if (brief.group_id.toLowerCase().includes(text)) hits.push({ name: brief.group_id, href: groupHref(brief.group_id), note: stateChip(brief.state) });
    }
    for (const topic of store.topics ?? []) {
      if (topic.topic.toLowerCase().includes(text)) hits.push({ name: topic.topic, href: topicHref(topic.topic), note: h("span", { class: "muted" }, "topic") });
    }
    hits.sort((a, b) => b.name.toLowerCase().startsWith(text) - a.name.toLowerCase().startsWith(text) || a.name.length - b.name.length);
  }
  const shown = hits.slice(0, 12);
  fill(found, shown.map((hit, index) => h("li", { id: `hit-${index}`, role: "option", onmousedown: (event) => event.preventDefault(), onclick: () => pick(index) }, h("span", { class: "mono", title: hit.name }, cut(hit.name, 60)), hit.note)));
  if (hits.length > shown.length) found.append(h("li", { class: "muted", "aria-disabled": "true" }, `and ${hits.length - shown.length} more`));
  if (text && !hits.length) found.append(h("li", { class: "muted", "aria-disabled": "true" }, "No group or topic has that in its name."));
  found.hidden = !text;
  search.setAttribute("aria-expanded", String(!found.hidden));
  hits = shown;
  mark(hits.length ? Math.max(hits.findIndex((hit) => hit.name === keep), 0) : -1);
}

function mark(index) {
  chosen = index;
  [...found.children].forEach((item, at) => item.setAttribute("aria-selected", String(at === index)));
  if (index >= 0) search.setAttribute("aria-activedescendant", `hit-${index}`);
  else search.removeAttribute("aria-activedescendant");
}

function pick(index) {
  if (!hits[index]) return;
  location.hash = hits[index].href;
  search.value = "";
  look();
  search.blur();
}

search.addEventListener("input", () => look());
search.addEventListener("focus", () => {
  if (store.topics === null) store.loadTopics().then(() => look(hits[chosen]?.name), () => {});
  look();
});
search.addEventListener("blur", () => {
  found.hidden = true;
  search.setAttribute("aria-expanded", "false");
});
search.addEventListener("keydown", (event) => {
  if (event.key === "ArrowDown") mark(Math.min(chosen + 1, hits.length - 1));
  else if (event.key === "ArrowUp") mark(Math.max(chosen - 1, 0));
  else if (event.key === "Escape") search.value ? ((search.value = ""), look()) : search.blur();
  else return;
  event.preventDefault();
});
search.form.addEventListener("submit", (event) => {
  event.preventDefault();
  pick(chosen);
});

// -- light and dark

function toggleTheme() {
  const root = document.documentElement;
  const isDark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = isDark ? "light" : "dark";
  try {
    localStorage.setItem("ottla-theme", root.dataset.theme);
  } catch {
    // It holds until the page is left.
  }
  dispatchEvent(new Event("themechange"));
}
document.getElementById("theme").addEventListener("click", toggleTheme);

// -- keys

const KEYS = [
  ["Everywhere", [["/", "find a group or topic"], ["g", "groups"], ["o", "topics"], ["a", "alarms"], ["t", "light or dark"], ["?", "these keys"], ["Esc", "close, or leave the search"]]],
  ["In a table", [["↑ ↓", "next row"], ["PgUp PgDn", "a page"], ["Home End", "first, last"], ["Enter", "open"]]],
  ["On a group’s page", [["1 2 3 4", "why, timeline, members, offsets"]]],
  ["In a timeline", [["← →", "rebalance before, after"], ["↑ ↓", "member above, below"], ["+ −", "zoom"], ["Shift ← →", "move"], ["Home End", "first, last rebalance"], ["0", "everything"], ["Enter", "zoom to the rebalance"], ["q", "fold quiet time"], ["s", "order of members"], ["[ ]", "height of lanes"]]],
];
const dialog = document.getElementById("keys");
fill(dialog, h("h2", { id: "keys-title" }, "Keys"), h("div", { class: "keys" }, KEYS.map(([title, keys]) => h("section", null, h("h3", null, title), h("dl", null, keys.map(([key, does]) => h("div", null, h("dt", null, key.split(" ").map((one) => h("kbd", null, one))), h("dd", null, does))))))), h("form", { method: "dialog" }, h("button", { class: "button" }, "Close")));
dialog.addEventListener("click", (event) => event.target === dialog && dialog.close());
document.getElementById("help").addEventListener("click", () => dialog.showModal());

addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented || dialog.open) return;
  if (event.target.closest("input, select, textarea, [contenteditable]")) return;
  const pages = { g: "#/", o: "#/topics", a: "#/alarms" };
  if (event.key === "/") search.focus();
  else if (event.key === "?") dialog.showModal();
  else if (event.key === "t") toggleTheme();
  else if (event.key in pages) location.hash = pages[event.key];
  else if (view?.key?.(event.key, event)) {
    // The view took it.
  } else return;
  event.preventDefault();
});

setInterval(() => {
  refreshAgo(main);
  view?.tick?.();
}, 1000);
go();
