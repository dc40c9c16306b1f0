"""The engine over a database: its logs are those that the node leads, each under the epoch of its claim.

Nothing here decides who leads. `PostgresEngine.open_log` loads a log under the epoch that the node has, and a log whose
epoch is over is told by `PostgresEngine.on_lost`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Final
from uuid import UUID

from ottla.broker.engine import (
    ClosedToOthers,
    Cut,
    Damage,
    Done,
    EngineError,
    Fenced,
    LogConfig,
    Sync,
    Unavailable,
)
from ottla.broker.storage.postgres import lane as laid
from ottla.broker.storage.postgres import pages as paged
from ottla.broker.storage.postgres.catalog import PostgresCatalog
from ottla.broker.storage.postgres.connections import Connections, Link
from ottla.broker.storage.postgres.database import (
    Answer,
    Append,
    BeginEpochs,
    Load,
    Loaded,
    Replace,
    Row,
    Seal,
    Statement,
    Sweep,
    Trim,
)
from ottla.broker.storage.postgres.lane import Lane
from ottla.broker.storage.postgres.log import PostgresLog
from ottla.broker.storage.postgres.pages import Pages, Tail
from ottla.broker.storage.postgres.snapshots import PostgresSnapshots
from ottla.protocol.compression import Buffer
from ottla.protocol.internal_topics import INTERNAL_TOPICS
from ottla.protocol.records import TopicPartition

CLOSE_S: Final = 5.0
"""How long an engine that is closed waits for what is queued."""

Claimed = Callable[[UUID, int], tuple[int, int] | None]
"""The log of a partition of a topic, and the epoch under which this node leads it; None if it does not."""


class _Barrier:
    """Somebody waits until everything before it is settled."""

    def __init__(self) -> None:
        self.future: asyncio.Future[EngineError | None] = asyncio.get_running_loop().create_future()


class PostgresEngine:
    """See the module and `ottla.broker.engine.Engine`.

    Attributes:
        on_lost: told of a log and an epoch under which this node leads it no more.
        on_diverged: told of a log that ends where it should not: something that was acknowledged is gone.
    """

    def __init__(
        self,
        node_id: int,
        cluster_id: str,
        connections: Connections,
        catalog: PostgresCatalog,
        claimed: Claimed,
    ) -> None:
        self.node_id = node_id
        self.cluster_id = cluster_id
        self.leader_epoch = -1
        self.recovered: list[Cut] = []
        self.closed_to_others: ClosedToOthers | None = None
        self.catalog = catalog
        self.on_appended: Callable[[TopicPartition], None] = lambda tp: None
        self.on_fatal: Callable[[EngineError], None] = lambda error: None
        self.on_lost: Callable[[int, int], None] = lambda log_id, epoch: None
        self.on_diverged: Callable[[TopicPartition, int, int], None] = lambda tp, end, base: None
        self._connections = connections
        self._claimed = claimed
        self._logs: dict[TopicPartition, PostgresLog] = {}
        self.snapshots = PostgresSnapshots(connections.m, self._logs)
        self._by_id: dict[int, PostgresLog] = {}
        self._lanes = {connections.f0: Lane(), connections.f1: Lane()}
        self._tail = Tail()
        self._pages = Pages()
        self._is_settling = False
        self._beginning = asyncio.Lock()
        self._to_begin: list[tuple[int, int, int]] = []
        self._begins: asyncio.Future[Collection[int]]
        for link, lane in self._lanes.items():
            link.on_connected = partial(self._entered, lane.connected)
            link.on_lost = partial(self._entered, lane.lost)

    @property
    def logs(self) -> Mapping[TopicPartition, PostgresLog]:
        return self._logs

    @property
    def refusal(self) -> EngineError | None:
        is_reached = all(link.session is not None for link in self._lanes)
        return None if is_reached else Unavailable("the database does not answer")

    @property
    def is_at_rest(self) -> bool:
        """Whether nothing is on its way to the database."""
        return all(link.is_at_rest for link in self._lanes)

    # Life

    async def open(self) -> None:
        """The connections are the node's, and open."""

    async def close(self) -> None:
        if not self._connections.is_closed:
            try:
                async with asyncio.timeout(CLOSE_S):
                    await asyncio.gather(*map(self.settled, list(self._by_id)))
            except TimeoutError:
                pass  # the database does not answer: what was not acknowledged may be there or not
        for log_id in list(self._by_id):
            self.give_up(log_id, Unavailable("the engine is closed"))
        self._logs.clear()
        self._connections.close()

    async def open_log(self, topic: str, topic_id: UUID, partition: int, config: LogConfig) -> PostgresLog:
        tp = TopicPartition(topic, partition)
        if tp in self._logs:
            raise ValueError(f"{topic}-{partition} is open already")
        claim = self._claimed(topic_id, partition)
        if claim is None:
            raise Fenced(f"{topic}-{partition} is not led here")
        log_id, epoch = claim
        loaded = (await self._connections.r.answer(Load(log_id, epoch))).result
        is_there = isinstance(loaded, Loaded)
        if isinstance(loaded, Loaded):
            is_there = await self._begin(log_id, epoch, loaded.end_offset)
        if not is_there:
            self.on_lost(log_id, epoch)
        if self._claimed(topic_id, partition) != claim or not isinstance(loaded, Loaded):
            raise Fenced(f"{topic}-{partition} is led elsewhere by now")
        log = self._logs[tp] = self._by_id[log_id] = PostgresLog(self, tp, topic_id, config, log_id, epoch, loaded)
        self._lane_of(log).lead(log_id, epoch, loaded.end_offset)
        self._tail.lead(log_id, loaded.end_offset)
        self._pages.lead(log_id, epoch)
        self._settle()
        if loaded.start_offset:
            self._sweep(log_id)
        return log

    async def _begin(self, log_id: int, epoch: int, start_offset: int) -> bool:
        """Note where an epoch begins; whether it is the present one. Those that begin meanwhile are noted together."""
        self._to_begin.append((log_id, epoch, start_offset))
        if len(self._to_begin) == 1:
            self._begins = asyncio.ensure_future(self._begin_all())
            self._begins.add_done_callback(lambda done: done.cancelled() or done.exception())  # all may have gone
        return log_id in await asyncio.shield(self._begins)

    async def _begin_all(self) -> Collection[int]:
        async with self._beginning:
            begun, self._to_begin = self._to_begin, []
            answer = await self._connections.m.answer(BeginEpochs(tuple(begun)))
            assert isinstance(answer.result, tuple)
            return answer.result

    async def release_log(self, tp: TopicPartition) -> None:
        log = self._logs.get(tp)
        if log is None:
            return
        if self._by_id.get(log.log_id) is log:
            await self.settled(log.log_id)
            self.give_up(log.log_id, Unavailable(f"{tp.topic}-{tp.partition} is closed"))
        if self._logs.get(tp) is log:
            del self._logs[tp]

    async def delete_log(self, tp: TopicPartition) -> None:
        """The change of the catalog has deleted it."""
        log = self._logs.pop(tp, None)
        if log is not None:
            self.give_up(log.log_id, Unavailable(f"{tp.topic}-{tp.partition} is deleted"))

    def give_up(self, log_id: int, error: EngineError) -> None:
        """Let go of a log at once: what is queued fails, and whoever waits for pages is to look again."""
        log = self._by_id.pop(log_id, None)
        if log is not None:
            log.shut(error)
            self._lane_of(log).give_up(log_id, error)
            self._tail.drop(log_id)
            self._pages.drop(log_id)
            self._settle()

    async def settled(self, log_id: int) -> bool:
        """Wait until everything that was appended is settled; whether the log is still led under its epoch."""
        log = self._by_id.get(log_id)
        if log is None:
            return False
        barrier = _Barrier()
        try:
            self._lane_of(log).barrier(log_id, barrier)
        except Fenced:
            return False
        self._settle()
        return await barrier.future is None

    def watch_syncs(self, watch: Callable[[Sync], None]) -> None:
        """The database makes them."""

    def damage_of(self, tp: TopicPartition) -> Sequence[Damage]:
        return ()

    async def remove_orphans(self, *, besides: Collection[TopicPartition] = ()) -> list[TopicPartition]:
        return []

    # What logs want

    def append(
        self, log: PostgresLog, head: bytes, body: Buffer, *, count: int, max_timestamp_ms: int, done: Done
    ) -> int:
        base_offset = self._lane_of(log).append(
            log.log_id, head, body, count=count, max_timestamp_ms=max_timestamp_ms, token=partial(self._done, log, done)
        )
        self._settle()
        return base_offset

    def _done(self, log: PostgresLog, done: Done, row: Row, error: EngineError | None) -> TopicPartition | None:
        """An append is settled; returns what has moved."""
        if error is None:
            log.settled(row)
            self._tail.add(row)
        done(row.base_offset, error)
        return None if error else log.tp

    def rows(self, log: PostgresLog, offset: int) -> Sequence[Row] | None:
        return self._tail.rows(log.log_id, offset) or self._pages.rows(log.log_id, offset)

    def want(self, log: PostgresLog, offset: int, then: Callable[[], None]) -> None:
        if self._by_id.get(log.log_id) is not log or self._connections.is_closed:
            asyncio.get_running_loop().call_soon(then)
            return
        self._pages.want(log.log_id, offset, log.high_watermark, then)
        self._settle()

    async def trim(self, log: PostgresLog, offset: int) -> None:
        await self._changed(log, Trim(log.log_id, log.leader_epoch, offset))
        self._sweep(log.log_id)

    def _sweep(self, log_id: int) -> None:
        """Delete what lies below the start of a log, some of it at a time. The next leader does what is left then."""

        def swept(answer: Answer | None) -> None:
            if answer is not None and answer.result:
                self._sweep(log_id)

        if log_id in self._by_id:
            self._connections.look.ask(Sweep(log_id), swept)

    async def replace(
        self, log: PostgresLog, first_offset: int, next_offset: int, expected: int, rows: Sequence[Row]
    ) -> None:
        await self._changed(log, Seal(log.log_id, log.leader_epoch, next_offset))
        await self._changed(
            log, Replace(log.log_id, log.leader_epoch, first_offset, next_offset, expected, tuple(rows))
        )
        self._tail.forget(log.log_id)
        self._pages.forget(log.log_id)
        self._settle()

    async def _changed(self, log: PostgresLog, statement: Statement) -> None:
        if not (await self._connections.m.answer(statement)).result:
            self.on_lost(log.log_id, log.leader_epoch)
            raise Fenced(f"{log.tp.topic}-{log.tp.partition} is led elsewhere by now")

    # Effects

    def _link_of(self, log: PostgresLog) -> Link:
        return self._connections.f0 if log.tp.topic in INTERNAL_TOPICS else self._connections.f1

    def _lane_of(self, log: PostgresLog) -> Lane:
        return self._lanes[self._link_of(log)]

    def _entered(self, entry: Callable[[], None]) -> None:
        entry()
        self._settle()

    def _settle(self) -> None:
        """Carry out what the machines want, until they want nothing more."""
        if self._is_settling:
            return
        self._is_settling = True
        failures: list[Exception] = []
        try:
            while any(lane.effects for lane in self._lanes.values()) or self._pages.effects:
                for link, lane in self._lanes.items():
                    effects, lane.effects = lane.effects, []
                    self._carry_out(link, lane, effects, failures)
                wishes, self._pages.effects = self._pages.effects, []
                for wish in wishes:
                    self._page(wish)
        finally:
            self._is_settling = False
        if failures:  # one caller's bug must not keep the others from hearing of their appends
            raise ExceptionGroup("callbacks of appends failed", failures)

    def _carry_out(self, link: Link, lane: Lane, effects: list[laid.Effect], failures: list[Exception]) -> None:
        moved: dict[TopicPartition, None] = {}
        for effect in effects:
            if isinstance(effect, laid.Lost):  # first, so that appends that failed are told why
                self._lost(effect)
        for effect in effects:
            match effect:
                case laid.Send():
                    statement = Append(effect.heads, effect.rows)
                    link.ask(statement, partial(self._appended, lane))
                case laid.Done(token=_Barrier() as barrier):
                    if not barrier.future.done():
                        barrier.future.set_result(effect.error)
                case laid.Done():
                    try:
                        tp = effect.token(effect.row, effect.error)  # type: ignore[operator]
                    except Exception as failure:
                        failures.append(failure)
                    else:
                        if tp is not None:
                            moved[tp] = None
                case laid.Diverged():
                    self._diverged(lane, effect)
        for tp in moved:
            if tp in self._logs:  # it may have been deleted meanwhile
                self.on_appended(tp)

    def _appended(self, lane: Lane, answer: Answer | None) -> None:
        if answer is None:
            return  # the lane knows: its connection has ended
        if answer.refusal is not None:
            lane.rival()
        else:
            lane.answered(answer.result)  # type: ignore[arg-type]
        self._settle()

    def _lost(self, effect: laid.Lost) -> None:
        log = self._by_id.get(effect.log_id)
        if log is not None and log.leader_epoch == effect.leader_epoch:
            self.give_up(effect.log_id, effect.error)
            self.on_lost(effect.log_id, effect.leader_epoch)

    def _diverged(self, lane: Lane, effect: laid.Diverged) -> None:
        """Send again what was acknowledged and is gone, if it is in memory; else lead the log anew as it is."""
        log = self._by_id[effect.log_id]
        self.on_diverged(log.tp, effect.end_offset, effect.base_offset)
        rows = self._tail.rows(effect.log_id, effect.end_offset)
        if rows and (rows[0].base_offset, rows[-1].last_offset + 1) == (effect.end_offset, effect.base_offset):
            lane.heal(effect.log_id, rows)
        else:
            self.give_up(effect.log_id, Fenced("records that were acknowledged are gone"))
            self.on_lost(effect.log_id, log.leader_epoch)

    def _page(self, wish: paged.Fetch | paged.Ready) -> None:
        if isinstance(wish, paged.Ready):
            wish.token()  # type: ignore[operator]
            # Whoever asked looks again before anything else is read.
            asyncio.get_running_loop().call_soon(self._pages.answered, wish.log_id, wish.token)
            return

        def came(answer: Answer | None) -> None:
            if answer is None or answer.result is None:
                self._pages.failed(wish.page)
                if answer is not None:
                    self._gone(wish.page.log_id, wish.page.leader_epoch)
            else:
                self._pages.came(wish.page, answer.result)  # type: ignore[arg-type]
            self._settle()

        self._connections.r.ask(wish.page, came)

    def _gone(self, log_id: int, epoch: int) -> None:
        """The database does not have a log under an epoch."""
        log = self._by_id.get(log_id)
        if log is not None and log.leader_epoch == epoch:
            self.give_up(log_id, Fenced("somebody else leads"))
            self.on_lost(log_id, epoch)
