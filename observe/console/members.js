// The members of a group: who they are, for whom the others wait, and how close they are to being given up.
import { countOwned, duration, h, memberNames, middle, number, owned, short, WAITING } from "./dom.js";
import { Table } from "./table.js";

const FIRST = 2; // Of the ranks below, the first that nobody need look at.

/** What a member subscribes to, its regex with the topics that this comes to. */
function subscription({ regex, topics }) {
  const names = topics.join(", ");
  if (regex) return `subscribes to the regex ${regex}${names ? `: ${names}` : ", which matches no topic"}`;
  return `subscribes to ${names || "nothing"}`;
}

export function membersTab(store, model) {
  let lags = new Map();
  const table = new Table({
    label: "Members",
    key: (row) => row.member_id,
    sort: "now",
    height: 46,
    narrowHeight: 82,
    mark: (row) => (now(row).rank < FIRST ? "grave" : null),
    empty: "No members.",
    columns: [
      { name: "member", title: "Member", width: "minmax(9rem, 1.5fr)", sort: (row) => row.name, cell: (row) => [h("div", { class: "strong named" }, row.is_leader && h("span", { class: "leader", title: "It leads the group: it makes the assignment", role: "img", "aria-label": "leader" }, "★ "), middle(row.name), row.group_instance_id && h("span", { class: "chip neutral", title: "group.instance.id is set" }, "static")), h("div", { class: "mono muted small" }, middle(row.member_id))] },
      { name: "now", title: "Now", width: "minmax(8rem, 13rem)", sort: (row) => now(row).rank, cell: (row) => doing(row) },
      { name: "client", title: "Client", width: "minmax(6.4rem, .8fr)", sort: (row) => row.client_software, cell: (row) => [h("div", { title: row.client_software || "It did not say, or the broker was started since" }, row.client_software || h("span", { class: "muted" }, "not known")), h("div", { class: "muted small" }, row.client_host.replace(/^\//, ""))], wide: true },
      { name: "slack", title: "Session", width: "minmax(6.4rem, 9rem)", descending: true, sort: (row) => row.heard_ms / row.session_timeout_ms, cell: session },
      { name: "timeouts", title: "Timeouts", width: "8.4rem", tone: "small", descending: true, sort: (row) => row.rebalance_timeout_ms, cell: timeouts, wide: true },
      { name: "count", title: "Owns", width: "3.4rem", tone: "num", descending: true, sort: (row) => countOwned(row.assignment), cell: (row) => (row.topics === null && !countOwned(row.assignment) ? "–" : number(countOwned(row.assignment))), wide: true },
      { name: "lag", title: "Lag", width: "4.6rem", tone: "num", descending: true, sort: (row) => lags.get(row.member_id), cell: (row) => h("span", { title: number(lags.get(row.member_id)) }, short(lags.get(row.member_id))) },
      { name: "assignment", title: "Partitions and subscription", width: "minmax(8rem, 1.7fr)", cell: (row) => [h("div", { title: owned(row.assignment) }, owned(row.assignment) || h("span", { class: "muted" }, row.topics === null ? "its assignment cannot be read: it is no consumer" : "owns nothing")), row.topics !== null && h("div", { class: "muted small", title: row.topics.join(", ") }, subscription(row))], wide: true },
    ],
  });

  /** What a member does in a barrier. Only who keeps the others waiting, or is gone, stands out. */
  function now(row) {
    const { group } = model;
    if (row.is_gone) return { rank: 0, tone: "bad", text: "connection lost" };
    if (group.awaited.includes(row.member_id)) {
      if (group.barrier === "join") return { rank: 0, tone: "bad", text: "the group waits for it", more: "It has not rejoined yet" };
      if (group.barrier === "sync" && row.is_leader) return { rank: 0, tone: "bad", text: "the group waits for it", more: "It leads, and has not sent the assignment yet" };
      if (group.barrier === "sync") return { rank: FIRST, tone: "neutral", text: "fetches its assignment" };
    }
    if (row.epoch === -2) return { rank: 0, tone: "bad", text: "away", more: "It is static and went for a while; its partitions stand still" };
    if (row.state === "UNREVOKED_PARTITIONS") return { rank: 0, tone: "bad", text: `has to give up ${owned(row.pending)}`, more: "Others wait for that" };
    if (group.barrier === "target" && group.awaited.includes(row.member_id)) return { rank: FIRST, tone: "neutral", text: "comes with its next heartbeat", more: "Its target has changed, or what it waited for is free" };
    if (row.state === WAITING) return { rank: FIRST, tone: "neutral", text: "waits for others", more: "They have partitions that it shall have" };
    if (row.waits_for) return { rank: FIRST, tone: "neutral", text: row.waits_for === "sync" ? "waits for its assignment" : "waits for others" };
    return { rank: FIRST, tone: null, text: "–" };
  }

  /** A member of the consumer protocol has an epoch, and the session timeout of its group. */
  function timeouts(row) {
    const isModern = model.group?.protocol === "consumer";
    return [
      h("div", { title: isModern ? "consumer.session.timeout.ms of the group, or group.consumer.session.timeout.ms of the broker" : "session.timeout.ms" }, "session ", duration(row.session_timeout_ms)),
      h("div", { title: `How long ${isModern ? "it may take to give partitions up" : "a rebalance waits for it"}: max.poll.interval.ms with most clients` }, isModern ? "give up " : "rejoin ", duration(row.rebalance_timeout_ms)),
    ];
  }

  function doing(row) {
    const { tone, text, more } = now(row);
    return tone ? h("span", { class: `chip ${tone}`, title: more }, text) : h("span", { class: "muted" }, text);
  }

  function session(row) {
    // Whoever waits for an answer is not given up meanwhile.
    if (row.waits_for) return h("span", { class: "small muted", title: `Session timeout ${duration(row.session_timeout_ms)}: it does not run out while the member waits for an answer` }, "on hold");
    const heard = row.heard_ms + Math.max(Date.now() - model.heardAt, 0);
    const left = Math.max(row.session_timeout_ms - heard, 0);
    const part = Math.min(Math.max(left / row.session_timeout_ms, 0), 1);
    const tone = part < 0.25 ? "bad" : part < 0.5 || now(row).rank < FIRST ? "warn" : "good";
    return h("div", { class: `session ${tone}` }, h("span", { class: "small" }, `heard ${duration(heard)} ago`), h("span", { class: "meter", role: "meter", "aria-label": "Time left of its session", "aria-valuemin": 0, "aria-valuemax": row.session_timeout_ms, "aria-valuenow": Math.round(left), "aria-valuetext": duration(left) }, h("i", { "--part": part.toFixed(3) })), h("span", { class: "small num" }, duration(left)));
  }

  function update() {
    const members = model.group?.members ?? [];
    const names = memberNames(members);
    lags = new Map();
    for (const one of model.offsets ?? []) if (one.member_id !== null && one.lag !== null) lags.set(one.member_id, (lags.get(one.member_id) ?? 0) + one.lag);
    table.empty.textContent = model.group === undefined ? model.error || "Loading…" : "No members.";
    table.set(members.map((member, index) => ({ ...member, name: names[index] })));
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
