// What a group has committed, and how far it is behind.
import { h, duration, memberNames, number, topicHref, when } from "./dom.js";
import { Table } from "./table.js";

export function offsetsTab(store, model) {
  let most = 1;
  const table = new Table({
    label: "Offsets",
    key: (row) => `${row.topic}\u0000${row.partition}`,
    sort: "topic",
    empty: "Loading…",
    columns: [
      { name: "topic", title: "Partition", width: "minmax(6rem, 2fr)", sort: (row) => `${row.topic} ${String(row.partition).padStart(9, "0")}`, cell: (row) => [h("a", { href: topicHref(row.topic), tabindex: "-1" }, row.topic), ` ${row.partition}`] },
      { name: "committed", title: "Committed", width: "minmax(4.6rem, 1fr)", tone: "num", descending: true, sort: (row) => row.committed_offset, cell: (row) => number(row.committed_offset) },
      { name: "end", title: "Log end", width: "minmax(5rem, 1fr)", tone: "num", descending: true, sort: (row) => row.log_end_offset, cell: (row) => number(row.log_end_offset), wide: true },
      { name: "lag", title: "Lag", width: "minmax(6rem, 1.4fr)", tone: "num", descending: true, sort: (row) => row.lag, cell: (row) => h("span", { class: "lag" }, h("i", { "aria-hidden": "true", "--part": ((row.lag ?? 0) / most).toFixed(3) }), h("span", null, row.lag === null ? h("span", { class: "muted", title: row.has_unknown_end ? "Another node leads the partition, or it is damaged" : "The partition is not there" }, "unknown") : number(row.lag))) },
      { name: "seconds", title: "Behind", width: "5.6rem", tone: "num", descending: true, sort: (row) => row.lag_seconds, cell: (row) => (row.lag_seconds === null ? "–" : row.lag ? duration(row.lag_seconds * 1000) : h("span", { class: "muted" }, "up to date")), wide: true },
      { name: "when", title: "Committed at", width: "minmax(6rem, 8rem)", tone: "num muted", descending: true, sort: (row) => row.commit_timestamp_ms, cell: (row) => when(row.commit_timestamp_ms), wide: true },
      { name: "owner", title: "Owner", width: "minmax(5.4rem, 1.2fr)", sort: ownerName, cell: (row) => (row.member_id === null ? h("span", { class: "chip warn", title: "No member owns this partition" }, "nobody") : h("span", { title: row.member_id }, ownerName(row))) },
    ],
  });

  function ownerName(row) {
    if (row.member_id === null) return null;
    return owners.get(row.member_id) ?? row.member_id;
  }

  let owners = new Map();
  function update() {
    const members = model.group?.members ?? [];
    const names = memberNames(members);
    owners = new Map(members.map((member, index) => [member.member_id, names[index]]));
    const rows = model.offsets ?? [];
    most = rows.reduce((max, row) => Math.max(max, row.lag ?? 0), 10);
    table.empty.textContent = model.offsets === null ? model.error || "Loading…" : "It has committed nothing yet.";
    table.set(rows);
  }
  update();
  return { element: h("section", { class: "card", "aria-label": "Offsets" }, table.element), update, shown: () => table.draw(), destroy: () => table.destroy() };
}
