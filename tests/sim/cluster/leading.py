"""What a simulated node leads: the life of a log on it, as the design has it.

Claim, load in a later snapshot, note the epoch, serve; suspend, resume or let go; hand over. A log of producers
remembers the last batch of each; a log of a coordinator is a table of committed values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, cast

from ottla.broker.cluster.membership import Membership
from ottla.broker.cluster.plan import LogRow, plan
from ottla.broker.engine import EngineError
from ottla.broker.storage.postgres import database as port
from ottla.broker.storage.postgres.database import Answer, Row
from ottla.broker.storage.postgres.lane import Fenced, Lane
from ottla.broker.storage.postgres.pages import Pages, Tail
from tests.sim.cluster.history import is_passing
from tests.sim.cluster.link import Link

if TYPE_CHECKING:
    from tests.sim.cluster.world import ClusterWorld

LOADED_BYTES = 1024
"""So much of a log is read at a time when it is loaded."""
LOADING, LEADING, SUSPENDED, MOVING = "loading", "leading", "suspended", "moving"

Reply = Callable[..., None]


@dataclass(eq=False, slots=True)
class Led:
    """A log that is led here, or nearly. ``settled`` and ``pending``: the last batch of each producer."""

    row: LogRow
    epoch: int
    is_table: bool = False
    standing: str = LOADING
    start: int = 0
    high_watermark: int = 0
    settled: dict[str, tuple[int, int]] = field(default_factory=dict)
    pending: dict[str, tuple[int, int, list[Reply]]] = field(default_factory=dict)
    table: dict[str, int] = field(default_factory=dict)


def parse(row: Row) -> tuple[str, int]:
    """Who wrote a row, and its number."""
    name, _, number = bytes(row.body).partition(b"=")
    return name.decode(), int(number)


class Leading:
    """See the module.

    Attributes:
        led: the logs that are led here, or nearly.
        rows: all logs, as this node last read of them.
        catalog: its version, and the topics.
    """

    membership: Membership | None
    h: Link
    m: Link
    r: Link
    look: Link

    def __init__(self, world: ClusterWorld, node_id: int) -> None:
        self.world = world
        self.node_id = node_id
        self.lanes = [self._lane(), self._lane()]
        self.tail = Tail(memory_bytes=world.plan.memory)
        self.pages = Pages(memory_bytes=world.plan.memory, page_bytes=world.plan.page_bytes)
        self.led: dict[int, Led] = {}
        self.rows: dict[int, LogRow] = {}
        self.catalog: tuple[int, tuple[str, ...]] = (0, ())
        self._burnt: dict[int, int] = {}
        """The last epoch of each log that was let go: nothing is led under it again."""
        self._claiming: set[int] = set()
        self._failed_claims: dict[int, int] = {}

    @property
    def now_ms(self) -> int:
        """This node's clock."""
        raise NotImplementedError

    def may_answer(self) -> bool:
        """Whether state may be shown without asking the database."""
        raise NotImplementedError

    def _lane(self) -> Lane:
        return Lane(most_memory_bytes=self.world.plan.append_memory, most_rows=self.world.plan.statement_rows)

    def lane(self, log_id: int) -> Lane:
        """A log's lane: internal logs have one of their own."""
        return self.lanes[0 if log_id in self.world.internal else 1]

    # What the database says, and what follows from it

    def take_catalog(self, version: int, topics: tuple[str, ...]) -> None:
        """A catalog was read; it may have been overtaken by a newer one."""
        if version > self.catalog[0]:
            self.catalog = (version, topics)

    def take_rows(self, rows: Iterable[LogRow]) -> None:
        """Leaders were read; what is older than what is known changes nothing."""
        for row in rows:
            known = self.rows.get(row.log_id)
            if known is None or row.epoch >= known.epoch:
                self.rows[row.log_id] = row
        assert self.membership is not None
        me = (self.node_id, self.membership.incarnation)
        for row in list(self.rows.values()):
            led = self.led.get(row.log_id)
            if led is not None and row.epoch > led.epoch:
                self.lose(led)
                led = None
            is_mine = (row.leader_id, row.leader_incarnation) == me
            if led is None and is_mine and row.epoch > self._burnt.get(row.log_id, -1):
                self.load(row)

    def act(self) -> None:
        """Claim and hand over what the plan says."""
        if self.membership is None or not self.may_answer():
            return
        view = self.membership.view
        wanted = plan(view, self.rows.values(), is_settled=self.membership.is_settled(self.now_ms))
        me = (self.node_id, self.membership.incarnation)
        mine = [
            row.log_id
            for row in self.rows.values()
            if (row.leader_id, row.leader_incarnation) == me and row.log_id not in self.led
        ]
        groups: dict[tuple[int, int, int] | None, list[int]] = {}
        for log_id in sorted({*wanted.claims, *mine} - self._claiming):
            row = self.rows[log_id]
            presumed = self.membership.presumed.get(row.leader_id)
            sign = None
            if presumed is not None and presumed.incarnation == row.leader_incarnation:
                sign = (row.leader_id, presumed.incarnation, presumed.beat)
            groups.setdefault(sign, []).append(log_id)
        for sign, log_ids in groups.items():
            stubborn = [log_id for log_id in log_ids if self._failed_claims.get(log_id, 0) > 0]
            for some in ([one for one in log_ids if one not in stubborn], *([one] for one in stubborn)):
                if some:
                    self._claim(some, sign, skips=some[0] not in stubborn)
        for hand_over in wanted.hand_overs:
            self.hand_over(hand_over.log_ids, hand_over.heir)

    # Claims and loads

    def _claim(self, log_ids: Sequence[int], sign: tuple[int, int, int] | None, *, skips: bool) -> None:
        """Claim logs; who holds one twice is evicted."""
        assert self.membership is not None
        self._claiming.update(log_ids)
        wanted = tuple((log_id, self.rows[log_id].epoch) for log_id in log_ids)
        claim = port.Claim(wanted, self.node_id, self.membership.incarnation, sign, skips)
        self.m.ask(claim, lambda answer: self._claimed(wanted, answer))
        if self._failed_claims.get(log_ids[0], 0) > 1:
            self._evict(log_ids[0])

    def _evict(self, log_id: int) -> None:
        """End whoever keeps a claim waiting."""
        if self.m.session is not None:
            self.look.ask(port.Evict(self.m.session.number), lambda answer: None)

    def _claimed(self, wanted: Sequence[tuple[int, int]], answer: Answer | None) -> None:
        self._claiming.difference_update(log_id for log_id, _ in wanted)
        if answer is None:
            return  # the next reading shows what became of it
        claimed = dict(answer.result or ())  # type: ignore[arg-type]
        for log_id, epoch in wanted:
            if log_id in claimed:
                self._failed_claims.pop(log_id, None)
                assert self.membership is not None
                incarnation = self.membership.incarnation
                row = self.rows[log_id]._replace(
                    leader_id=self.node_id, leader_incarnation=incarnation, epoch=epoch + 1
                )
                if row.epoch > self.rows[log_id].epoch:
                    self.rows[log_id] = row
                    self.load(row)
            elif self.rows[log_id].epoch == epoch:
                self._failed_claims[log_id] = self._failed_claims.get(log_id, 0) + 1

    def load(self, row: LogRow) -> None:
        """Load a log that was claimed, in a snapshot that is later than the claim."""
        old = self.led.get(row.log_id)
        if old is not None:
            self.lose(old)
        led = self.led[row.log_id] = Led(row, row.epoch, row.log_id in self.world.tables)
        self._load(led)

    def _load(self, led: Led) -> None:
        statement = port.Load(led.row.log_id, led.epoch)
        self.r.ask(statement, lambda answer: self._loaded(led, answer))

    def _is_held(self, led: Led) -> bool:
        """Whether a claim still stands, after something was waited for."""
        return self.led.get(led.row.log_id) is led

    def _loaded(self, led: Led, answer: Answer | None) -> None:
        if not self._is_held(led):
            return
        if answer is None:
            self._load(led)
            return
        loaded = answer.result
        if loaded is None:
            self.lose(led)
            self.r.abort()  # if it is not lost, the server does not have what is there
            return
        assert isinstance(loaded, port.Loaded)
        led.start = loaded.start_offset
        led.high_watermark = loaded.end_offset
        upto, state = loaded.snapshot or (led.start, ({}, {}))
        led.settled, led.table = map(dict, state)  # type: ignore[call-overload]
        self._read_on(led, max(upto, led.start))

    def _read_on(self, led: Led, offset: int) -> None:
        """Read what no snapshot has seen, a page at a time."""
        if offset < led.high_watermark:
            statement = port.Page(led.row.log_id, led.epoch, offset, led.high_watermark, LOADED_BYTES)
            self.r.ask(statement, lambda answer: self._read_rows(led, offset, answer))
        else:
            self._begin_epoch(led)

    def _read_rows(self, led: Led, offset: int, answer: Answer | None) -> None:
        if not self._is_held(led):
            return
        if answer is None:
            self._read_on(led, offset)
            return
        rows = answer.result
        if rows is None:
            self.lose(led)
            self.r.abort()
            return
        end = led.high_watermark
        for row in cast("Sequence[Row]", rows):
            self._replay(led, row)
            end = row.last_offset + 1
        self._read_on(led, end)

    def _replay(self, led: Led, row: Row) -> None:
        name, number = parse(row)
        if led.is_table:
            led.table[name] = number
        elif number > led.settled.get(name, (-1, 0))[0]:
            led.settled[name] = (number, row.base_offset)

    def _begin_epoch(self, led: Led) -> None:
        """No append before the epoch is noted."""
        statement = port.BeginEpoch(led.row.log_id, led.epoch, led.high_watermark)
        self.m.ask(statement, lambda answer: self._begun(led, answer))

    def _begun(self, led: Led, answer: Answer | None) -> None:
        if not self._is_held(led):
            return
        if answer is None:
            self._begin_epoch(led)
        elif answer.result:
            self.serve(led)
        else:
            self.lose(led)

    def serve(self, led: Led) -> None:
        """Lead a log that was loaded."""
        log_id = led.row.log_id
        self.lane(log_id).lead(log_id, led.epoch, led.high_watermark)
        self.tail.lead(log_id, led.high_watermark)
        self.pages.lead(log_id, led.epoch)
        led.standing = LEADING
        self.world.note("leads", self, log_id, led.epoch)

    # Losing, suspending, handing over

    def lose(self, led: Led) -> None:
        """Let go of a log: what waits hears that somebody else leads."""
        log_id = led.row.log_id
        del self.led[log_id]
        self._burnt[log_id] = max(led.epoch, self._burnt.get(log_id, -1))
        self.lane(log_id).give_up(log_id, Fenced("somebody else leads"))
        self.tail.drop(log_id)
        self.pages.drop(log_id)
        self.world.note("lets go of", self, log_id, led.epoch)

    def suspend(self) -> None:
        """The lease has ended: coordinators are unloaded, other logs stand still."""
        for led in list(self.led.values()):
            if led.row.is_internal or led.standing == LOADING:
                self.lose(led)
            elif led.standing == LEADING:
                led.standing = SUSPENDED

    def resume(self) -> None:
        """The lease holds and leaders were read: what has still our epoch goes on when its appends are settled."""
        if not self.may_answer():
            return
        for led in list(self.led.values()):
            if led.standing == SUSPENDED and self.rows[led.row.log_id].epoch == led.epoch:
                self._resume(led)

    def _resume(self, led: Led) -> None:
        def settled(row: Row | None, error: EngineError | None) -> None:
            if error is None and led.standing == SUSPENDED and self.may_answer():
                led.standing = LEADING

        self.lane(led.row.log_id).barrier(led.row.log_id, settled)

    def hand_over(self, log_ids: Sequence[int], heir: int) -> None:
        """Give logs to another node: nothing new, then everything settled, then a snapshot, then the leader changes."""
        leds = [self.led[log_id] for log_id in log_ids if log_id in self.led]
        if len(leds) < len(log_ids) or any(led.standing != LEADING for led in leds):
            return
        left = len(leds)
        for led in leds:
            led.standing = MOVING

        def settled(led: Led) -> Callable[[Row | None, EngineError | None], None]:
            def told(row: Row | None, error: EngineError | None) -> None:
                nonlocal left
                left -= 1
                if error is None:
                    self.save(led)
                if not left:
                    self._give([one for one in leds if self._is_held(one)], heir)

            return told

        for led in leds:
            self.lane(led.row.log_id).barrier(led.row.log_id, settled(led))

    def _give(self, leds: Sequence[Led], heir: int) -> None:
        assert self.membership is not None
        led_now = tuple((led.row.log_id, led.epoch) for led in leds)
        incarnation = self.membership.nodes[heir].incarnation
        self.m.ask(port.HandOver(led_now, heir, incarnation), lambda answer: self._given(leds))

    def _given(self, leds: Sequence[Led]) -> None:
        """Given, refused, or nobody knows: the log is let go. If it is still ours, it is claimed under a new epoch."""
        for led in leds:
            if self._is_held(led):
                self.lose(led)

    # Upkeep

    def save(self, led: Led) -> None:
        """Keep a snapshot of what the rows below the high watermark say."""
        self.m.ask(self._snapshot(led), lambda answer: None)

    def _snapshot(self, led: Led) -> port.SaveSnapshot:
        state = (dict(led.settled), dict(led.table))
        return port.SaveSnapshot(led.row.log_id, led.epoch, led.high_watermark, state)

    def trim(self, log_id: int, offset: int) -> None:
        """Let a log begin later. What its first rows say of producers is kept first: nobody can read it afterwards."""
        led = self.led.get(log_id)
        if led is None or led.standing != LEADING or offset > led.high_watermark:
            return

        def saved(answer: Answer | None) -> None:
            if answer is not None and answer.result and self._is_held(led):
                self.m.ask(port.Trim(log_id, led.epoch, offset), done)

        def done(answer: Answer | None) -> None:
            if answer is not None and answer.result and self._is_held(led):
                led.start = max(led.start, offset)

        self.m.ask(self._snapshot(led), saved)

    def sweep(self, log_id: int) -> None:
        """Delete what lies below the start of a log."""
        self.m.ask(port.Sweep(log_id), lambda answer: None)

    def rehome(self, log_id: int, home: int) -> None:
        """Let a log be at home elsewhere."""
        if log_id in self.rows and self.rows[log_id].follows is None:
            version, topics = self.catalog
            self.m.ask(port.StoreCatalog(version, topics, homes=((log_id, home),)), lambda answer: None)

    def describe(self, node_id: int, intent: int) -> None:
        """Let a node drain, or not."""

        def told(answer: Answer | None) -> None:
            if answer is None:
                self.describe(node_id, intent)

        self.m.ask(port.Describe(node_id, intent=intent), told)

    def compact(self, log_id: int) -> None:
        """Keep the last value of each key."""
        led = self.led.get(log_id)
        if led is None or led.standing != LEADING:
            return
        everything = port.Page(log_id, led.epoch, led.start, led.high_watermark, 1 << 30)
        self.r.ask(everything, lambda answer: self._compact(led, answer))

    def _compact(self, led: Led, answer: Answer | None) -> None:
        log_id = led.row.log_id
        if not self._is_held(led) or answer is None or not answer.result:
            return
        rows: Sequence[Row] = answer.result  # type: ignore[assignment]
        latest = {parse(row)[0]: row.base_offset for row in rows}
        kept = tuple(row for row in rows if latest[parse(row)[0]] == row.base_offset and not is_passing(parse(row)[0]))
        if len(kept) < len(rows):
            end = rows[-1].last_offset + 1
            statement = port.Replace(log_id, led.epoch, rows[0].base_offset, end, len(rows), kept)
            self.m.ask(port.Seal(log_id, led.epoch, end), lambda answer: None)
            self.m.ask(statement, lambda answer: self._replaced(led))

    def _replaced(self, led: Led) -> None:
        if self._is_held(led):
            self.tail.forget(led.row.log_id)
            self.pages.forget(led.row.log_id)
