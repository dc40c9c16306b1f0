"""What clients ask of a simulated node."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ottla.broker.engine import EngineError
from ottla.broker.storage.postgres import database as port
from ottla.broker.storage.postgres.database import Answer, Row
from ottla.broker.storage.postgres.lane import Busy, Fenced
from tests.sim.cluster.leading import LEADING, Leading, Led, Reply
from tests.sim.kernel import Violation

if TYPE_CHECKING:
    from tests.sim.cluster.world import ClusterWorld

OK, NOT_LEADER, FAILED, BUSY, OUT_OF_RANGE = "ok", "not leader", "failed", "busy", "out of range"
HEAD = bytes(61)


class Serving(Leading):
    """See the module. An answer begins with a code; ``reply`` takes it, some time."""

    def __init__(self, world: ClusterWorld, node_id: int) -> None:
        super().__init__(world, node_id)
        self._readers: dict[int, tuple[int, int, Reply]] = {}
        self._tokens = 0

    @property
    def life(self) -> tuple[int, int] | None:
        """Which life of the node this is; None while it is not registered."""
        return None if self.membership is None else (self.node_id, self.membership.incarnation)

    def produce(self, reply: Reply, log_id: int, name: str, number: int, count: int) -> None:
        """Append a batch of a producer, once."""
        led = self.led.get(log_id)
        if led is None or led.standing != LEADING:
            reply(NOT_LEADER, self.leader_of(log_id))
            return
        last, offset = led.settled.get(name, (-1, -1))
        pending = led.pending.get(name)
        if pending is not None and pending[0] == number:
            pending[2].append(reply)
        elif last == number:
            reply(OK, offset)
        elif pending is not None or number != last + 1:
            self._deny(led, f"log {log_id}: {name} sent {number}, the leader has {last}", reply)
        else:
            self._append(led, name, number, count, reply)

    def _deny(self, led: Led, what: str, reply: Reply) -> None:
        """A number that does not follow. Denied only behind a barrier: somebody else may have had those between."""

        def settled(row: Row | None, error: EngineError | None) -> None:
            if error is None and self._is_held(led):
                raise Violation("acknowledged records stay", what)
            reply(NOT_LEADER, None)

        self.lane(led.row.log_id).barrier(led.row.log_id, settled)

    def _append(self, led: Led, name: str, number: int, count: int, reply: Reply) -> None:
        log_id = led.row.log_id
        replies = [reply]

        def settled(row: Row | None, error: EngineError | None) -> None:
            assert row is not None
            led.pending.pop(name, None)
            if error is None:
                led.high_watermark = row.last_offset + 1
                self.tail.add(row)
                if led.is_table:
                    led.table[name] = number
                else:
                    led.settled[name] = (number, row.base_offset)
            self._tell(replies, row, error)

        try:
            offset = self.lane(log_id).append(
                log_id, HEAD, b"%s=%d" % (name.encode(), number), count=count, max_timestamp_ms=0, token=settled
            )
        except Busy:
            reply(BUSY)
            return
        led.pending[name] = (number, offset, replies)

    def _tell(self, replies: Sequence[Reply], row: Row, error: EngineError | None) -> None:
        for reply in replies:
            if error is None:
                reply(OK, row.base_offset)
            elif isinstance(error, Fenced):
                reply(NOT_LEADER, None)
            else:
                reply(FAILED)

    def commit(self, reply: Reply, log_id: int, name: str, number: int) -> None:
        """Commit a value of a group to its coordinator's log."""
        led = self.led.get(log_id)
        if led is None or led.standing != LEADING:
            reply(NOT_LEADER, self.leader_of(log_id))
        elif name in led.pending:
            reply(BUSY)
        else:
            self._append(led, name, number, 1, reply)

    def committed(self, reply: Reply, log_id: int, name: str) -> None:
        """The committed value of a group, behind a barrier."""
        led = self.led.get(log_id)
        if led is None or led.standing != LEADING:
            reply(NOT_LEADER, self.leader_of(log_id))
            return

        def settled(row: Row | None, error: EngineError | None) -> None:
            if error is None and self._is_held(led):
                reply(OK, led.table.get(name, -1))
            else:
                reply(NOT_LEADER, None)

        self.lane(log_id).barrier(log_id, settled)

    def end_offset(self, reply: Reply, log_id: int) -> None:
        """The high watermark, from memory: only under a lease."""
        led = self.led.get(log_id)
        if led is None or led.standing != LEADING or not self.may_answer():
            reply(NOT_LEADER, self.leader_of(log_id))
        else:
            reply(OK, led.high_watermark)

    def fetch(self, reply: Reply, log_id: int, offset: int) -> None:
        """Rows from an offset on."""
        led = self.led.get(log_id)
        if led is None or led.standing != LEADING:
            reply(NOT_LEADER, self.leader_of(log_id))
        elif offset < led.start:
            reply(OUT_OF_RANGE, led.start)
        elif offset >= led.high_watermark:
            reply(OK, (), led.high_watermark)
        else:
            self._tokens += 1
            self._readers[self._tokens] = (log_id, offset, reply)
            self._look_again(self._tokens)

    def _look_again(self, token: object) -> None:
        """Answer a fetch from memory, or have a page read for it."""
        assert isinstance(token, int)
        log_id, offset, reply = self._readers[token]
        led = self.led.get(log_id)
        if led is None or led.standing != LEADING or offset < led.start:
            del self._readers[token]
            self.pages.answered(log_id, token)
            reply(NOT_LEADER, self.leader_of(log_id))
            return
        rows = self.tail.rows(log_id, offset)
        if rows is None:
            rows = self.pages.rows(log_id, offset)
        if rows is None:
            self.pages.want(log_id, offset, led.high_watermark, token)
            return
        del self._readers[token]
        self.pages.answered(log_id, token)
        reply(OK, tuple(rows[:5]), led.high_watermark)

    def _page_came(self, page: port.Page, answer: Answer | None) -> None:
        if answer is None or answer.result is None:
            self.pages.failed(page)
            if answer is not None:
                self.r.abort()  # its server does not have what is there
        else:
            self.pages.came(page, answer.result)  # type: ignore[arg-type]

    def leader_of(self, log_id: int) -> int | None:
        """Who leads a log, as this node last heard."""
        row = self.rows.get(log_id)
        return None if row is None or row.leader_id < 0 else row.leader_id

    def leader(self, reply: Reply, log_id: int, is_fresh: bool) -> None:
        """The same for a client, with the epoch; looked up anew if he wants that."""

        def told(answer: Answer | None) -> None:
            if answer is not None and self.membership is not None:
                self.take_rows(answer.result)  # type: ignore[arg-type]
            row = self.rows.get(log_id)
            reply(OK, self.leader_of(log_id), -1 if row is None else row.epoch, self.life)

        if is_fresh:
            self.look.ask(port.ReadLogs(), told)
        else:
            told(None)

    def create(self, reply: Reply, topic: str) -> None:
        """Add a topic to the catalog: planned on the newest one that is known, and anew if somebody was faster."""
        version, topics = self.catalog
        if topic in topics:
            reply(OK)
            return
        statement = port.StoreCatalog(version, (*topics, topic))
        self.m.ask(statement, lambda answer: self._stored(reply, topic, answer))

    def _stored(self, reply: Reply, topic: str, answer: Answer | None) -> None:
        def again(answer: Answer | None) -> None:
            if answer is None:
                self.m.ask(port.ReadCatalog(), again)
                return
            self.take_catalog(*answer.result)  # type: ignore[misc]
            self.create(reply, topic)

        self.m.ask(port.ReadCatalog(), again)

    def knows(self, reply: Reply, topic: str) -> None:
        """Whether there is a topic; denied only from a catalog that was read since."""
        if topic in self.catalog[1]:
            reply(OK, True)
            return

        def told(answer: Answer | None) -> None:
            if answer is None:
                reply(BUSY)
                return
            self.take_catalog(*answer.result)  # type: ignore[misc]
            reply(OK, topic in self.catalog[1])

        self.look.ask(port.ReadCatalog(), told)

    def take_ids(self, reply: Reply) -> None:
        """A block of ten producer ids."""

        def told(answer: Answer | None) -> None:
            if answer is None:
                reply(BUSY)
            else:
                reply(OK, answer.result)

        self.m.ask(port.Take("producer_id", 10), told)
