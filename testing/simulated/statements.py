"""The named statements of the port as the steps that PostgreSQL takes for them.

Each is a generator that yields what it has to wait for: a lock, or nothing but time. What is not locked is seen as the
statement's snapshot has it, however long it has waited since.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, NamedTuple

from ottla.broker.cluster.membership import Heard, NodeRow
from ottla.broker.cluster.membership import Server as ServerLife
from ottla.broker.cluster.plan import LogRow
from ottla.broker.cluster.view import NOBODY, NodeState
from ottla.broker.storage.postgres import database as port
from ottla.testing.simulated.server import SHARE, UPDATE, Key, Transaction

LOCK_TIMEOUT_MS = 300


class Want(NamedTuple):
    """Wait for a lock on a row, at most so long."""

    key: Key
    mode: str
    timeout_ms: int | None = None


class Refused(Exception):
    """The statement fails with an error that says so."""

    def __init__(self, refusal: port.Refusal) -> None:
        super().__init__(refusal)
        self.refusal = refusal


class LogState(NamedTuple):
    """A row of ``plog``."""

    row: LogRow
    start: int = 0
    sealed: int = 0
    is_deleted: bool = False

    def led_by(self, node_id: int, incarnation: int) -> LogState:
        epoch = self.row.epoch + 1
        row = self.row._replace(leader_id=node_id, leader_incarnation=incarnation, epoch=epoch, called="")
        return self._replace(row=row)


Steps = Generator[Want | None, None, Any]


def beat(t: Transaction, s: port.Beat) -> Steps:
    seen = t.read("node", s.node_id)
    is_mine = False
    if seen is not None and seen.incarnation == s.incarnation:
        yield Want(("node", s.node_id), UPDATE)
        row = t.fresh("node", s.node_id)
        is_mine = row.incarnation == s.incarnation
        if is_mine:
            t.write(row._replace(beat=row.beat + 1), "node", s.node_id)
    store = t.server.store
    logs = [log for _, log in store.scan("log", t.snapshot) if not log.is_deleted]
    return Heard(
        is_mine,
        tuple(row for _, row in store.scan("node", t.snapshot)),
        t.read("catalog", 0)[0],
        (len(logs), sum(log.row.epoch for log in logs), sum(log.row.called != "" for log in logs)),
        ServerLife(t.server.timeline, t.server.started),
        frozenset(t.server.held),
    )


def identify(t: Transaction, s: port.Identify) -> Steps:
    if (known := t.read("name", s.name)) is not None:
        return known
    used = max((row.node_id for _, row in t.server.store.scan("node", t.snapshot)), default=0)
    yield Want(("counter", "node_id"), UPDATE)
    node_id = max(t.fresh("counter", "node_id") or 0, used + 1)
    for key, value in ((("name", s.name), node_id), (("node", node_id), NodeRow(node_id, 0, NodeState.DOWN, 0))):
        yield Want(key, UPDATE)
        if t.fresh(*key) is not None:
            raise Refused(port.Refusal.UNIQUE_VIOLATION)
        t.write(value, *key)
    t.write(node_id + 1, "counter", "node_id")
    return node_id


def register(t: Transaction, s: port.Register) -> Steps:
    incarnation = yield from take(t, port.Take("incarnation", 1))
    yield Want(("node", s.node_id), UPDATE)
    row = t.fresh("node", s.node_id)
    intent = 0 if row is None else row.intent
    t.write(NodeRow(s.node_id, incarnation, NodeState.UP, 0, intent), "node", s.node_id)
    return incarnation


def describe(t: Transaction, s: port.Describe) -> Steps:
    yield Want(("node", s.node_id), UPDATE)
    row = t.fresh("node", s.node_id)
    if row is None or s.ended not in (None, row.incarnation):
        return False
    if s.ended is not None:
        row = row._replace(state=NodeState.DOWN)
    elif s.is_leaving:
        row = row._replace(state=NodeState.DRAINING)
    if s.intent is not None:
        row = row._replace(intent=s.intent)
    if s.endpoints is not None:
        row = row._replace(endpoints=s.endpoints)
    t.write(row, "node", s.node_id)
    return True


def read_logs(t: Transaction, s: port.ReadLogs) -> Steps:
    yield _proof(t)
    return tuple(log.row for _, log in t.server.store.scan("log", t.snapshot) if not log.is_deleted)


def append(t: Transaction, s: port.Append) -> Steps:
    fence = {}
    for head in sorted(s.heads):
        if t.read("log", head.log_id) is not None:
            yield Want(("log", head.log_id), SHARE)
            fence[head.log_id] = t.fresh("log", head.log_id)
    yield None
    seen, admitted = [], set()
    for head in s.heads:
        log = fence.get(head.log_id)
        if log is None or log.is_deleted:
            continue
        end = _end(t, log)
        seen.append(port.Stored(head.log_id, log.row.epoch, end))
        if log.row.epoch == head.leader_epoch and end == head.base_offset:
            admitted.add(head.log_id)
    for row in s.rows:
        if row.log_id in admitted:
            yield from _insert(t, row)
    return tuple(seen)


def _end(t: Transaction, log: LogState) -> int:
    """Where a log ends. Start and seal are as new as the lock; the last row is as old as the snapshot."""
    last = t.server.store.last(log.row.log_id, t.snapshot)
    return max(log.start, log.sealed, 0 if last is None else last.last_offset + 1)


def _insert(t: Transaction, row: port.Row) -> Steps:
    """A rival who has not committed is waited for; one who has is a violation."""
    yield Want(("row", row.log_id, row.base_offset), UPDATE)
    if t.fresh("row", row.log_id, row.base_offset) is not None:
        raise Refused(port.Refusal.UNIQUE_VIOLATION)
    t.write(row, "row", row.log_id, row.base_offset)


def _is_there(t: Transaction, row: port.Row) -> Generator[Want | None, None, bool]:
    """Lock a row that the snapshot has; another may have taken its place, or none."""
    yield Want(("row", row.log_id, row.base_offset), UPDATE)
    found: port.Row | None = t.fresh("row", row.log_id, row.base_offset)
    return found == row


def claim(t: Transaction, s: port.Claim) -> Steps:
    if s.last_sign is not None:
        node_id, *sign = s.last_sign
        yield Want(("node", node_id), SHARE)
        node = t.fresh("node", node_id)
        if node is None or [node.incarnation, node.beat] != sign:
            return ()
    claimed = []
    for log_id, epoch in sorted(s.wanted):
        seen = t.read("log", log_id)
        if seen is None or seen.row.epoch != epoch:
            continue
        if s.skips and t.server.is_locked(t, ("log", log_id), UPDATE):
            continue
        yield Want(("log", log_id), UPDATE, None if s.skips else LOCK_TIMEOUT_MS)
        if _gives(t, log_id, epoch, s.node_id, s.incarnation):
            claimed.append((log_id, epoch + 1))
    return tuple(claimed)


def hand_over(t: Transaction, s: port.HandOver) -> Steps:
    given = []
    for log_id, epoch in sorted(s.led):
        seen = t.read("log", log_id)
        if seen is not None and seen.row.epoch == epoch:
            yield Want(("log", log_id), UPDATE)
            if _gives(t, log_id, epoch, s.heir_id, s.heir_incarnation):
                given.append((log_id, epoch + 1))
    return tuple(given)


def call_home(t: Transaction, s: port.CallHome) -> Steps:
    called = 0
    for log_id in sorted(s.log_ids):
        seen = t.read("log", log_id)
        if seen is None or seen.is_deleted or seen.row.leader_id == seen.row.home:
            continue
        yield Want(("log", log_id), UPDATE, LOCK_TIMEOUT_MS)
        log = t.fresh("log", log_id)
        if not log.is_deleted and log.row.leader_id != log.row.home:
            t.write(log._replace(row=log.row._replace(called=s.why)), "log", log_id)
            called += 1
    return called


def _gives(t: Transaction, log_id: int, epoch: int, node_id: int, incarnation: int) -> bool:
    """Change the leader of a log that is locked, if it still has the epoch."""
    log = t.fresh("log", log_id)
    if log is None or log.row.epoch != epoch or log.is_deleted:
        return False
    t.write(log.led_by(node_id, incarnation), "log", log_id)
    t.write((node_id, incarnation), "audit", log_id, epoch + 1)
    return True


def depose(t: Transaction, s: port.Depose) -> Steps:
    store, lives = t.server.store, 0
    for key, _ in list(store.scan("counter", t.snapshot)):
        yield Want(key, UPDATE)
        value = t.fresh(*key) + s.by
        t.write(value, *key)
        lives = value if key[1] == "incarnation" else lives
    for key, _ in list(store.scan("node", t.snapshot)):
        yield Want(key, UPDATE)
        t.write(t.fresh(*key)._replace(incarnation=lives - 1, state=NodeState.DOWN), *key)
    yield Want(("catalog", 0), UPDATE)
    version, document = t.fresh("catalog", 0)
    t.write((version + s.by, document), "catalog", 0)
    deposed = []
    for key, _ in list(store.scan("log", t.snapshot)):
        yield Want(key, UPDATE)
        log = t.fresh(*key)
        if not log.is_deleted:
            row = log.row._replace(leader_id=NOBODY, leader_incarnation=0, epoch=log.row.epoch + s.by)
            t.write(log._replace(row=row), *key)
            t.write((NOBODY, 0), "audit", row.log_id, row.epoch)
            deposed.append((row.log_id, row.epoch))
    return tuple(deposed)


def load(t: Transaction, s: port.Load) -> Steps:
    yield None
    log = t.read("log", s.log_id)
    if log is None or log.row.epoch != s.leader_epoch or log.is_deleted:
        return None
    store = t.server.store
    rows = [row for row in store.rows(s.log_id, t.snapshot, log.start) if row.last_offset >= log.start]
    columns = zip(*((row.base_offset, row.last_offset, row.size, row.max_timestamp_ms) for row in rows), strict=True)
    epochs = {key[2]: start for key, start in store.scan("epoch", t.snapshot) if key[1] == s.log_id}
    return port.Loaded(log.start, _end(t, log), port.Outline(*columns), epochs, t.read("snapshot", s.log_id))


def _is_current(t: Transaction, log_id: int, epoch: int, mode: str) -> Generator[Want | None, None, bool]:
    """Lock a log and see whether it has the epoch."""
    if t.read("log", log_id) is None:
        return False
    yield Want(("log", log_id), mode)
    log = t.fresh("log", log_id)
    return log is not None and log.row.epoch == epoch and not log.is_deleted


def begin_epoch(t: Transaction, s: port.BeginEpoch) -> Steps:
    if not (yield from _is_current(t, s.log_id, s.leader_epoch, SHARE)):
        return False
    for epoch, start_offset in (*s.earlier, (s.leader_epoch, s.start_offset)):
        yield Want(("epoch", s.log_id, epoch), UPDATE)
        t.write(start_offset, "epoch", s.log_id, epoch)
    return True


def begin_epochs(t: Transaction, s: port.BeginEpochs) -> Steps:
    current = []
    for log_id, epoch, start_offset in sorted(s.begun):
        if (yield from _is_current(t, log_id, epoch, SHARE)):
            current.append((log_id, epoch, start_offset))
    for log_id, epoch, start_offset in current:
        yield Want(("epoch", log_id, epoch), UPDATE)
        t.write(start_offset, "epoch", log_id, epoch)
    return tuple(log_id for log_id, _, _ in current)


def page(t: Transaction, s: port.Page) -> Steps:
    yield None
    log = t.read("log", s.log_id)
    if log is None or log.row.epoch != s.leader_epoch or _end(t, log) < s.upto_offset:
        return None
    rows: list[port.Row] = []
    size = 0
    for row in t.server.store.rows(s.log_id, t.snapshot, s.start_offset):
        if row.last_offset < s.start_offset:
            continue
        size += row.size
        if row.base_offset >= s.upto_offset or (rows and size > s.max_bytes):
            break
        rows.append(row)
    return tuple(rows)


def save_snapshot(t: Transaction, s: port.SaveSnapshot) -> Steps:
    if not (yield from _is_current(t, s.log_id, s.leader_epoch, SHARE)):
        return False
    yield Want(("snapshot", s.log_id), UPDATE)
    kept = t.fresh("snapshot", s.log_id)
    if kept is None or kept[0] <= s.upto_offset:
        t.write((s.upto_offset, s.state), "snapshot", s.log_id)
    return True


def trim(t: Transaction, s: port.Trim) -> Steps:
    if not (yield from _is_current(t, s.log_id, s.leader_epoch, UPDATE)):
        return False
    log = t.fresh("log", s.log_id)
    t.write(log._replace(start=max(log.start, s.start_offset)), "log", s.log_id)
    return True


def seal(t: Transaction, s: port.Seal) -> Steps:
    if not (yield from _is_current(t, s.log_id, s.leader_epoch, UPDATE)):
        return False
    log = t.fresh("log", s.log_id)
    t.write(log._replace(sealed=max(log.sealed, s.offset)), "log", s.log_id)
    return True


def sweep(t: Transaction, s: port.Sweep) -> Steps:
    log = t.read("log", s.log_id)
    gone = 0
    for row in list(t.server.store.rows(s.log_id, t.snapshot)) if log is not None else ():
        if row.last_offset >= log.start:
            break
        if (yield from _is_there(t, row)):
            t.write(None, "row", s.log_id, row.base_offset)
            gone += 1
    return gone


def tidy(t: Transaction, s: port.Tidy) -> Steps:
    gone = 0
    store = t.server.store
    for _, log in list(store.scan("log", t.snapshot)):
        if not log.is_deleted:
            continue
        log_id = log.row.log_id
        rows = list(store.rows(log_id, t.snapshot))
        for row in rows:
            if (yield from _is_there(t, row)):
                t.write(None, "row", log_id, row.base_offset)
                gone += 1
        if not rows:
            yield Want(("log", log_id), UPDATE)
            keys = [
                ("log", log_id),
                ("snapshot", log_id),
                *(k for k, _ in store.scan("epoch", t.snapshot) if k[1] == log_id),
            ]
            for key in keys:
                t.write(None, *key)
            gone += 1
    return gone


def replace(t: Transaction, s: port.Replace) -> Steps:
    if not (yield from _is_current(t, s.log_id, s.leader_epoch, SHARE)):
        return False
    if t.fresh("log", s.log_id).sealed < s.next_offset:
        return False
    old = []
    for row in t.server.store.rows(s.log_id, t.snapshot, s.first_offset):
        if s.first_offset <= row.base_offset < s.next_offset and (yield from _is_there(t, row)):
            old.append(row)
    if len(old) != s.expected:
        return False
    for row in old:
        t.write(None, "row", s.log_id, row.base_offset)
    for row in s.rows:
        yield from _insert(t, row)
    return True


def _proof(t: Transaction) -> Want:
    """A lock for which nobody waits (``FOR KEY SHARE``): with it a statement is a commit that waits for the standby."""
    return Want(("proof", t.backend), SHARE)


def read_catalog(t: Transaction, s: port.ReadCatalog) -> Steps:
    yield _proof(t)
    return t.read("catalog", 0)


def store_catalog(t: Transaction, s: port.StoreCatalog) -> Steps:
    yield Want(("catalog", 0), UPDATE)
    if t.fresh("catalog", 0)[0] != s.over:
        return None
    t.write((s.over + 1, s.document), "catalog", 0)
    for row in s.created:
        yield Want(("log", row.log_id), UPDATE)
        t.write(LogState(row), "log", row.log_id)
    for log_id, home in sorted(s.homes):
        yield Want(("log", log_id), UPDATE, LOCK_TIMEOUT_MS)
        log = t.fresh("log", log_id)
        called = "" if log.row.leader_id == home else s.called
        t.write(log._replace(row=log.row._replace(home=home, called=called)), "log", log_id)
    for log_id in sorted(s.deleted):
        yield Want(("log", log_id), UPDATE, LOCK_TIMEOUT_MS)
        log = t.fresh("log", log_id)
        t.write(log.led_by(NOBODY, 0)._replace(is_deleted=True), "log", log_id)
    return s.over + 1


def take(t: Transaction, s: port.Take) -> Steps:
    yield Want(("counter", s.counter), UPDATE)
    value = t.fresh("counter", s.counter) or 0
    t.write(value + s.size, "counter", s.counter)
    return value


STEPS: dict[type, Callable[[Transaction, Any], Steps]] = {
    port.Beat: beat,
    port.Identify: identify,
    port.Register: register,
    port.Describe: describe,
    port.ReadLogs: read_logs,
    port.Append: append,
    port.Claim: claim,
    port.HandOver: hand_over,
    port.Depose: depose,
    port.CallHome: call_home,
    port.Load: load,
    port.BeginEpoch: begin_epoch,
    port.BeginEpochs: begin_epochs,
    port.Page: page,
    port.SaveSnapshot: save_snapshot,
    port.Trim: trim,
    port.Seal: seal,
    port.Sweep: sweep,
    port.Tidy: tidy,
    port.Replace: replace,
    port.ReadCatalog: read_catalog,
    port.StoreCatalog: store_catalog,
    port.Take: take,
}
