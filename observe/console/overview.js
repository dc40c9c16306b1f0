// The first page: the broker in one line, what is wrong, and every group.
import { alarmChips, alarmItem } from "./alarms.js";
import { get, groupPath } from "./api.js";
import { felt, FELT_MS, goesOn, gravity } from "./causes.js";
import { brokerTime, duration, fill, groupHref, h, middle, number, partitionTime, plural, short, stateChip, STATES, when } from "./dom.js";
import { NARROW, Table } from "./table.js";

const MOST_ALARMS = 5, MOST_ALARMS_NARROW = 1;
const CLUSTER_EVERY_MS = 5_000;
const MOVING_EVERY_MS = 3_000;
const MOST_MOVING = 4;
const RESTLESS = ["PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling"];
const TROUBLE_MS = 3_000; // A rebalance that runs for longer is trouble: so long a new group waits for others at its start.

const LESSER = ["Version", "Cluster", "Connections", "Topics"];
const COSTLY = 2; // Of the ranks below, the first that nobody need look at now.

const isRunning = (episode) => (episode.duration_ms ?? -1) < 0;
const timeOf = (episode) => (episode ? Math.max(episode.last_ms ?? 0, episode.started_ms) : 0);
const isMoving = (episode) => Boolean(episode) && (isRunning(episode) || goesOn(episode));

export function overview(store) {
  const facts = h("dl", { class: "facts" });
  const alarms = h("section", { class: "alarms", "aria-label": "Alarms" });
  const chips = h("div", { class: "filters", role: "group", "aria-label": "Only groups in a state" });
  const filter = h("input", { type: "search", placeholder: "Filter", "aria-label": "Only groups whose name contains", spellcheck: "false" });
  let state = null;
  let asked = Date.now();
  let looked = asked;
  const tiers = new Map(), paid = new Map(); // of each group: its rank and its cost, as drawn

  const table = new Table({
    label: "Groups",
    key: (row) => row.group_id,
    open: (row) => (location.hash = groupHref(row.group_id)),
    height: 46,
    narrowHeight: 64,
    mark: (row) => (rank(row)[0] < COSTLY ? "grave" : markOf(store.latest.get(row.group_id))),
    sort: store.groupsBy?.name ?? null,
    reverse: store.groupsBy?.reverse ?? false,
    onSort: (name, reverse) => {
      store.groupsBy = { name, reverse };
      drawOrder();
    },
    empty: "No groups yet. As soon as a consumer joins one, it is here.",
    columns: [
      { name: "group", title: "Group", width: "minmax(9rem, 1.9fr)", sort: (row) => row.group_id, tone: "strong", cell: (row) => h("a", { href: groupHref(row.group_id), tabindex: "-1", "aria-label": row.group_id }, middle(row.group_id)) },
      { name: "state", title: "State", width: "minmax(6.4rem, 11rem)", sort: (row) => Object.keys(STATES).indexOf(row.state), cell: (row) => stateChip(row.state, rank(row)[0] < COSTLY) },
      { name: "members", title: "Members", width: "4.8rem", tone: "num", descending: true, sort: (row) => row.members, cell: (row) => number(row.members), wide: true },
      { name: "lag", title: "Lag", width: "minmax(4rem, 5rem)", tone: "num", descending: true, sort: (row) => row.lag, cell: (row) => h("span", { title: row.lag === null ? "No partition of it is known, or another node leads one" : number(row.lag), class: row.lag ? "" : "muted" }, short(row.lag)) },
      { name: "cost", title: "Cost in 1 h", width: "7.4rem", tone: "num", descending: true, sort: (row) => store.costs.get(row.group_id)?.stood_ms ?? 0, cell: (row) => cost(store.costs.get(row.group_id)), wide: true },
      { name: "generation", title: "Gen.", width: "4rem", tone: "num", descending: true, sort: (row) => row.generation, cell: (row) => number(row.generation), wide: true },
      { name: "topics", title: "Topics", width: "minmax(4.8rem, .8fr)", tone: "muted", sort: (row) => row.topics.join(" "), cell: (row) => h("span", { title: row.topics.join(", ") }, row.topics.length > 3 ? `${row.topics.slice(0, 3).join(", ")} +${row.topics.length - 3}` : row.topics.join(", ") || "–"), wide: true },
      { name: "latest", title: "What happened last", width: "minmax(10rem, 6fr)", tone: "two", descending: true, sort: (row) => timeOf(store.latestOf(row.group_id)), cell: (row) => latest(row, store.latestOf(row.group_id)) },
    ],
  });

  function latest(row, episode) {
    const alarms = alarmChips(store.alarmsOf(row.group_id));
    if (!episode) return h("div", { class: "latest" }, h("span", null, alarms, h("span", { class: "muted" }, episode === undefined ? "…" : alarms.length ? "" : "–")));
    const running = isRunning(episode) && episode.kind !== "refusal";
    const headline = episode.headline || episode.cause || "unknown";
    const lost = felt(episode, true);
    const since = running ? h("b", { class: "warn-text" }, "now") : when(timeOf(episode));
    return h("div", { class: "latest" }, h("span", { class: "since" }, since), h("span", { title: lost ? `${lost}. ${headline}` : headline }, alarms, lost && h("b", { class: gravity(episode) === "grave" ? "bad-text" : "" }, `${lost}. `), headline));
  }

  function cost(spent) {
    if (!spent || (!spent.refused && spent.stood_ms < FELT_MS)) return h("span", { class: "muted" }, "–");
    const stood = `${partitionTime(spent.stood_ms)} in which nobody consumed, in ${plural(spent.rebalances, "rebalance")} of the last hour`;
    return h("span", { title: stood }, spent.stood_ms >= FELT_MS && h("div", null, partitionTime(spent.stood_ms).replace("seconds", "s")), spent.refused > 0 && h("div", { class: "bad-text", title: "Members that were turned away" }, `${short(spent.refused)} refused`));
  }

  /** What costs most comes first: a rebalance that runs for long, alarms, what it cost lately; the rest by name. */
  function rank(brief) {
    const runs = RESTLESS.includes(brief.state) ? brokerTime() - (brief.state_since_ms ?? Infinity) : 0;
    if (runs > TROUBLE_MS) return [0, -runs];
    const spent = store.costs.get(brief.group_id);
    const stood = spent && spent.stood_ms >= FELT_MS ? spent.stood_ms : 0;
    const many = store.alarmsOf(brief.group_id).length;
    if (many) return [1, -stood, -many];
    return stood || spent?.refused ? [COSTLY, -stood, -spent.refused] : [COSTLY + 1];
  }

  function troubledFirst(briefs) {
    const ranked = briefs.map((brief) => [rank(brief), brief]);
    tiers.clear();
    paid.clear();
    for (const [[tier], { group_id: id }] of ranked) {
      tiers.set(id, tier);
      paid.set(id, JSON.stringify(store.costs.get(id)));
    }
    const differ = (a, b) => a.reduce((found, one, index) => found || one - b[index], 0);
    ranked.sort(([a, one], [b, other]) => differ(a, b) || one.group_id.localeCompare(other.group_id, "en", { numeric: true }));
    return ranked.map(([, brief]) => brief);
  }

  /** Red for what somebody should look at, as long as it is the last thing that happened; nothing for all that is well. */
  function markOf(episode) {
    if (!episode) return null;
    if (episode.kind === "refusal" && !goesOn(episode)) return "cost";
    return { grave: "grave", cost: null, fine: null }[gravity(episode)];
  }

  /** Several episodes that run are told as they go on. */
  async function lookAgain() {
    looked = Date.now();
    const ids = [...table.shown.keys()].filter((id) => isMoving(store.latest.get(id))).slice(0, MOST_MOVING);
    for (const id of ids) {
      const { episodes } = await get(groupPath(id, "/why?last=1"));
      if (episodes.length) store.latest.set(id, episodes.at(-1));
      store.tell("latest", id);
    }
  }

  /** Other nodes have consoles of their own: each shows the groups that it coordinates. */
  function nodesFact({ nodes, node_id }) {
    const one = (node) => {
      const [, host, port] = node.http?.match(/^(.*):(\d+)$/) ?? [];
      const here = ["", "localhost", "127.0.0.1", "[::1]", "::1"].includes(host) ? location.hostname : host;
      const name = node.state === "up" ? node.node_id : `${node.node_id} ${node.state}`;
      if (node.node_id === node_id) return h("b", { title: "This node" }, name);
      if (!port || node.state === "down") return h("span", { class: node.state === "down" ? "warn-text" : "muted", title: node.why || null }, name);
      return h("a", { href: `${location.protocol}//${here}:${port}/`, title: `The console of node ${node.node_id}` }, name);
    };
    return ["Nodes", nodes.flatMap((node, at) => (at ? [" ", one(node)] : [one(node)]))];
  }

  function drawFacts() {
    const cluster = store.cluster;
    if (!cluster) return;
    const counts = [["Broker", [`node ${cluster.node_id}`, h("span", { class: "muted" }, ` ${cluster.listen}`)]], ["Version", cluster.version], ["Cluster", h("span", { class: "mono", title: cluster.cluster_id }, cluster.cluster_id)], ["Up for", duration(Math.max(brokerTime() - cluster.started_ms, 0))], ["Connections", number(cluster.connections)], ["Topics", h("a", { href: "#/topics" }, number(cluster.topics))], ["Groups", number(store.isLoaded ? store.groups.size : cluster.groups)]];
    if (cluster.nodes?.length) counts.splice(1, 0, nodesFact(cluster));
    fill(facts, counts.map(([name, value]) => h("div", { class: LESSER.includes(name) ? "lesser" : null }, h("dt", null, name), h("dd", null, value))));
  }

  function drawChips() {
    const counts = {};
    for (const brief of store.groups.values()) counts[brief.state] = (counts[brief.state] ?? 0) + 1;
    const choose = (value) => () => {
      state = state === value ? null : value;
      draw();
    };
    fill(chips, Object.entries(STATES).filter(([name]) => counts[name] || name === state).map(([name, [tone, text]]) => h("button", { type: "button", class: `chip ${tone}`, "aria-pressed": String(state === name), "data-state": name, onclick: choose(name) }, `${text} `, h("b", null, number(counts[name] ?? 0)))));
  }

  function drawAlarms() {
    const { active } = store.alarms;
    alarms.hidden = !active.length;
    if (!active.length) return;
    const most = NARROW.matches ? MOST_ALARMS_NARROW : MOST_ALARMS;
    const more = active.length - most;
    fill(alarms, h("h2", null, plural(active.length, "alarm")), h("ul", null, active.slice(0, most).map((alarm) => h("li", null, alarmItem(alarm)))), more > 0 && h("a", { href: "#/alarms" }, `and ${number(more)} more`));
  }

  function rows() {
    const text = filter.value.trim().toLowerCase();
    return [...store.groups.values()].filter((brief) => (!state || brief.state === state) && (!text || brief.group_id.toLowerCase().includes(text)));
  }

  function draw() {
    const focused = chips.contains(document.activeElement) ? document.activeElement.dataset.state : null;
    drawChips();
    if (focused) chips.querySelector(`[data-state="${focused}"]`)?.focus();
    const shown = rows();
    table.empty.textContent = !store.isLoaded ? "Loading…" : store.groups.size ? "No group is like that." : "No groups yet. As soon as a consumer joins one, it is here.";
    table.set(troubledFirst(shown));
    note.hidden = !store.cut;
    drawFacts();
  }

  /** Whether the order is the page's own; once somebody has sorted, a way back to it. */
  const order = h("button", { class: "button small", type: "button", title: "Rebalances that run, alarms, what cost most in the last hour, names", onclick: () => {
    store.groupsBy = table.sortBy = null;
    table.layout();
    drawOrder();
    draw();
  } }, "Most trouble first");
  const drawOrder = () => order.setAttribute("aria-pressed", String(!store.groupsBy));

  const note = h("p", { class: "muted small", hidden: true }, "Only the first 10,000 groups are shown; the others are found by their address.");
  filter.addEventListener("input", draw);
  const stop = store.listen((what, data) => {
    if (what === "groups") draw();
    else if (what === "cluster") drawFacts();
    else if (what === "costs") redrawAll((brief) => JSON.stringify(store.costs.get(brief.group_id)) !== paid.get(brief.group_id));
    else if (what === "alarms") {
      drawAlarms();
      redrawAll(() => true);
    }
    else if (what === "latest") redraw(data);
  });
  /** Another object is another row to the table. */
  function fresh(brief) {
    const copy = { ...brief };
    store.groups.set(copy.group_id, copy);
    return copy;
  }
  /** Draw the groups anew of which something has changed, and no others: somebody may be about to click. */
  function redrawAll(hasChanged) {
    const changed = rows().filter(hasChanged).map(fresh);
    if (changed.length) draw();
  }
  function redraw(id) {
    const brief = store.groups.get(id);
    if (!brief || !table.shown.has(id)) return;
    const copy = fresh(brief);
    const index = table.rows.findIndex((row) => row.group_id === id);
    if (index >= 0) table.rows[index] = copy;
    if (table.sortBy === "latest") table.order();
    table.schedule();
  }
  draw();
  drawAlarms();
  drawOrder();
  const element = h("div", { class: "page" }, h("h1", { class: "sr" }, "Groups"), facts, alarms, h("section", { "aria-label": "Groups", class: "card" }, h("div", { class: "bar" }, h("h2", null, "Groups"), order, chips, h("span", { class: "grow" }), filter), table.element, note));
  return {
    element,
    key(_, event) {
      if (!["ArrowDown", "ArrowUp"].includes(event.key) || event.target.closest("a, button, [tabindex='0']")) return false;
      table.focus(table.current);
      return true;
    },
    tick() {
      drawFacts();
      redrawAll((brief) => rank(brief)[0] !== tiers.get(brief.group_id));
      if (Date.now() - looked > MOVING_EVERY_MS && !document.hidden && !document.body.classList.contains("is-lost")) lookAgain().catch(() => {});
      if (Date.now() - asked < CLUSTER_EVERY_MS || document.hidden || document.body.classList.contains("is-lost")) return;
      asked = Date.now();
      store.loadCosts().catch(() => {});
      get("/v1/cluster").then((cluster) => store.takeCluster(cluster), () => {});
    },
    destroy() {
      stop();
      table.destroy();
    },
  };
}
