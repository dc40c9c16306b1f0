// The members of a group: who they are, what they own, and how close they are to being given up.
import { countOwned, duration, h, memberName, number, owned } from "./dom.js";
import { Table } from "./table.js";

const WAITS = { join: ["warn", "waits to join"], sync: ["violet", "waits to sync"] };

export function membersTab(store, model) {
  const table = new Table({
    label: "Members",
    key: (row) => row.member_id,
    sort: "member",
    height: 46,
    narrowHeight: 64,
    empty: "No members.",
    columns: [
      { name: "member", title: "Member", width: "minmax(9rem, 1.4fr)", sort: memberName, cell: (row) => [h("div", { class: "strong" }, row.is_leader && h("span", { class: "leader", title: "It leads the group: it makes the assignment", role: "img", "aria-label": "leader" }, "★ "), memberName(row), row.group_instance_id && h("span", { class: "chip neutral", title: "group.instance.id is set" }, "static")), h("div", { class: "mono muted small", title: row.member_id }, row.member_id)] },
      { name: "host", title: "Host", width: "minmax(6rem, .7fr)", tone: "muted", sort: (row) => row.client_host, cell: (row) => row.client_host.replace(/^\//, ""), wide: true },
      { name: "waits", title: "Now", width: "minmax(5.4rem, 7.5rem)", sort: (row) => row.waits_for, cell: (row) => (row.is_gone ? h("span", { class: "chip bad" }, "connection lost") : row.waits_for ? h("span", { class: `chip ${WAITS[row.waits_for][0]}` }, WAITS[row.waits_for][1]) : h("span", { class: "muted" }, "–")), wide: true },
      { name: "slack", title: "Session", width: "minmax(7rem, 11rem)", descending: true, sort: (row) => row.heard_ms / row.session_timeout_ms, cell: session },
      { name: "count", title: "Owns", width: "4rem", tone: "num", descending: true, sort: (row) => countOwned(row.assignment), cell: (row) => (row.topics === null && !countOwned(row.assignment) ? "–" : number(countOwned(row.assignment))) },
      { name: "assignment", title: "Partitions", width: "minmax(8rem, 2fr)", tone: "muted", cell: (row) => h("span", { title: owned(row.assignment), class: "clamp" }, owned(row.assignment) || (row.topics === null ? "its assignment cannot be read: it is no consumer" : row.topics.length ? `nothing of ${row.topics.join(", ")}` : "nothing")), wide: true },
    ],
  });

  function session(row) {
    const heard = row.heard_ms + (row.waits_for ? 0 : Math.max(Date.now() - model.heardAt, 0));
    const left = row.waits_for ? row.slack_ms : Math.max(row.session_timeout_ms - heard, 0);
    const part = Math.min(Math.max(left / row.session_timeout_ms, 0), 1);
    const tone = part < 0.25 ? "bad" : part < 0.5 ? "warn" : "good";
    const text = row.is_gone ? "connection lost" : row.waits_for ? WAITS[row.waits_for][1] : `heard ${duration(heard)} ago`;
    return h("div", { class: `session ${tone}`, title: `Session timeout ${duration(row.session_timeout_ms)}, rebalance timeout ${duration(row.rebalance_timeout_ms)}` }, h("span", { class: "small" }, text), h("span", { class: "meter", role: "meter", "aria-label": "Time left of its session", "aria-valuemin": 0, "aria-valuemax": row.session_timeout_ms, "aria-valuenow": Math.round(left), "aria-valuetext": duration(left) }, h("i", { "--part": part.toFixed(3) })), h("span", { class: "small num" }, duration(left)));
  }

  function update() {
    table.empty.textContent = model.group === undefined ? model.error || "Loading…" : "No members.";
    table.set(model.group?.members ?? []);
  }

  update();
  return {
    element: h("section", { class: "card", "aria-label": "Members" }, table.element),
    update,
    shown: () => table.draw(),
    tick() {
      // Time passes for the sessions that can be seen.
      if (document.body.classList.contains("is-lost")) return;
      for (const shown of table.shown.values()) {
        const cell = shown.element.querySelector('[data-column="slack"]');
        if (cell && shown.row) cell.replaceChildren(session(shown.row));
      }
    },
    destroy: () => table.destroy(),
  };
}
