// Topics, and one of them with its partitions.
import { get, notLoaded } from "./api.js";
import { bytes, fill, groupHref, h, number, plural, stateChip, topicHref } from "./dom.js";
import { Table } from "./table.js";

const EVERY_MS = 5_000;
const records = (topic) => topic.partitions.reduce((sum, one) => sum + one.high_watermark - one.log_start_offset, 0);
const size = (topic) => topic.partitions.reduce((sum, one) => sum + one.size_bytes, 0);

export function topicsView(store) {
  let all = store.topics ?? [];
  let asked = 0;
  const filter = h("input", { type: "search", placeholder: "Filter", "aria-label": "Only topics whose name contains", spellcheck: "false" });
  const internal = h("input", { type: "checkbox" });
  const table = new Table({
    label: "Topics",
    key: (row) => row.topic,
    open: (row) => (location.hash = topicHref(row.topic)),
    sort: "topic",
    empty: "Loading…",
    columns: [
      { name: "topic", title: "Topic", width: "minmax(9rem, 2fr)", tone: "strong", sort: (row) => row.topic, cell: (row) => [h("a", { href: topicHref(row.topic), tabindex: "-1", title: row.topic }, row.topic), row.is_internal && h("span", { class: "chip neutral" }, "internal")] },
      { name: "partitions", title: "Partitions", width: "minmax(4.8rem, 7rem)", tone: "num", descending: true, sort: (row) => row.partitions.length, cell: (row) => number(row.partitions.length) },
      { name: "records", title: "Records", width: "minmax(5rem, 9rem)", tone: "num", descending: true, sort: records, cell: (row) => number(records(row)) },
      { name: "size", title: "Size", width: "6rem", tone: "num", descending: true, sort: size, cell: (row) => bytes(size(row)), wide: true },
      { name: "groups", title: "Groups", width: "minmax(8rem, 2fr)", tone: "muted", cell: (row) => consumers(store, row.topic).slice(0, 4).map((id, index) => [index ? ", " : "", h("a", { href: groupHref(id), tabindex: "-1" }, id)]), wide: true },
    ],
  });
  function draw() {
    const text = filter.value.trim().toLowerCase();
    table.empty.textContent = asked ? (all.length ? "No topic is like that." : "No topics yet.") : "Loading…";
    table.set(all.filter((row) => (internal.checked || !row.is_internal) && row.topic.toLowerCase().includes(text)));
  }
  async function load() {
    asked = Date.now();
    try {
      all = await store.loadTopics();
    } catch (error) {
      if (!all.length) table.set([]);
      if (!all.length) table.empty.textContent = notLoaded(error);
      return;
    }
    draw();
  }
  filter.addEventListener("input", draw);
  internal.addEventListener("change", draw);
  load();
  return {
    title: "Topics",
    element: h("div", { class: "page" }, h("h1", { class: "sr" }, "Topics"), h("section", { class: "card", "aria-label": "Topics" }, h("div", { class: "bar" }, h("h2", null, "Topics"), h("label", { class: "check" }, internal, "internal ones"), h("span", { class: "grow" }), filter), table.element)),
    tick: () => Date.now() - asked > EVERY_MS && !document.hidden && load(),
    reload: load,
    destroy: () => table.destroy(),
  };
}

function consumers(store, topic) {
  return [...store.groups.values()].filter((brief) => brief.topics.includes(topic)).map((brief) => brief.group_id);
}

export function topicView(store, { name }) {
  const head = h("div", { class: "title" }, h("h1", { class: "mono" }, name));
  const groups = h("div", { class: "chips" });
  const configs = h("dl", { class: "configs" });
  let asked = 0;
  const table = new Table({
    label: `Partitions of ${name}`,
    key: (row) => row.partition,
    sort: "partition",
    empty: "Loading…",
    columns: [
      { name: "partition", title: "Partition", width: "minmax(4.6rem, 7rem)", tone: "num", sort: (row) => row.partition, cell: (row) => row.partition },
      { name: "start", title: "Log start", width: "minmax(4rem, 1fr)", tone: "num", sort: (row) => row.log_start_offset, cell: (row) => number(row.log_start_offset) },
      { name: "end", title: "High watermark", width: "minmax(5rem, 1fr)", tone: "num", sort: (row) => row.high_watermark, cell: (row) => number(row.high_watermark) },
      { name: "stable", title: "Last stable", width: "minmax(5rem, 1fr)", tone: "num", sort: (row) => row.last_stable_offset, cell: (row) => h("span", { class: row.last_stable_offset < row.high_watermark ? "warn-text" : "", title: row.last_stable_offset < row.high_watermark ? "An open transaction holds it back" : null }, number(row.last_stable_offset)), wide: true },
      { name: "size", title: "Size", width: "minmax(4rem, 1fr)", tone: "num", sort: (row) => row.size_bytes, cell: (row) => (row.is_led_here ? bytes(row.size_bytes) : row.leader_id < 0 ? h("span", { class: "warn-text" }, "no leader") : h("span", { class: "muted", title: "Its console has the figures" }, `node ${row.leader_id}`)) },
    ],
  });
  async function load() {
    asked = Date.now();
    try {
      const topic = await get(`/v1/topics/${encodeURIComponent(name)}`);
      fill(head, h("h1", { class: "mono" }, name), topic.is_internal && h("span", { class: "chip neutral" }, "internal"), h("span", { class: "muted" }, `${plural(topic.partitions.length, "partition")} · ${number(records(topic))} records · ${bytes(size(topic))}`));
      const set = Object.entries(topic.configs);
      fill(configs, set.map(([key, value]) => h("div", null, h("dt", { class: "mono" }, key), h("dd", { class: "mono" }, value))));
      configs.hidden = !set.length;
      table.set(topic.partitions);
    } catch (error) {
      if (error.status === 404 || !table.rows.length) table.set([]);
      table.empty.textContent = notLoaded(error);
    }
  }
  function drawGroups() {
    const ids = consumers(store, name);
    fill(groups, ids.length ? [h("span", { class: "muted" }, "Consumed by"), ids.slice(0, 30).map((id) => h("a", { href: groupHref(id), class: "tag" }, id, " ", stateChip(store.groups.get(id).state)))] : h("span", { class: "muted" }, "No group consumes it."));
  }
  const stop = store.listen((what) => what === "groups" && drawGroups());
  drawGroups();
  load();
  return {
    title: name,
    element: h("div", { class: "page" }, head, groups, configs, h("section", { class: "card", "aria-label": "Partitions" }, h("div", { class: "bar" }, h("h2", null, "Partitions")), table.element)),
    tick: () => Date.now() - asked > EVERY_MS && !document.hidden && load(),
    reload: load,
    destroy() {
      stop();
      table.destroy();
    },
  };
}
