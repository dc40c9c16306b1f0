"""A node among others that share a database: it registers and beats, claims what the plan says, and hands over.

Who leads what is told by `Node.placement`, and what is led is stored by `Node.engine`: a broker is made of both, and
decides nothing about other nodes. A node leads nothing before it says where clients reach it (`Node.announce`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, cast
from uuid import UUID

from ottla.broker.clock import Clock, TimerHandle
from ottla.broker.cluster import membership as member
from ottla.broker.cluster.membership import Heard, Membership
from ottla.broker.cluster.placement import Shared
from ottla.broker.cluster.plan import LogRow, balance, is_led, plan, with_followers
from ottla.broker.cluster.view import NOBODY, NodeState
from ottla.broker.core.topics.homes import FOLLOWERS
from ottla.broker.endpoints import BETWEEN_NODES
from ottla.broker.engine import EngineError, Fenced, Outdated, Unavailable
from ottla.broker.logger import Logger
from ottla.broker.storage.postgres import database as port
from ottla.broker.storage.postgres.catalog import PostgresCatalog
from ottla.broker.storage.postgres.connections import Connections
from ottla.broker.storage.postgres.database import Answer, Connect
from ottla.broker.storage.postgres.engine import PostgresEngine
from ottla.protocol.records import TopicPartition

WATCHED_S = 1.2
"""A node that seems to be there is watched so long before its id is taken: it beats twice in that time, if it lives."""
LOOK_S = 0.02
TIDY_MS = 30_000
"""One node looks this often for what is to be deleted; as long as there is something, with each beat."""
ELECTED = "an operator asked for preferred leaders"
EVICTED_AFTER = 2
"""Whoever keeps a log locked so many claims long is evicted."""
EVICTED_IN_MS = 100
"""By then the next claim waits for him, as nothing else tells who he is. It waits 0.3 s."""


class Node:
    """See the module.

    Args:
        connect: connects to the database, whichever that is.
        clock: by which leases are counted. The database is waited for by its real one.
        version: of Ottla, for whoever looks at the nodes.

    Attributes:
        on_superseded: called when another process has the id of this node: this one has to end.
    """

    def __init__(
        self,
        node_id: int,
        cluster_id: str,
        connect: Connect,
        clock: Clock,
        report: Logger,
        *,
        settle_ms: int = 10_000,
        version: str = "",
    ) -> None:
        self.node_id = node_id
        self._version = version
        self.on_superseded: Callable[[], None] = lambda: None
        self._connections = Connections(connect, clock.real)
        catalog = PostgresCatalog(self._connections.m, lambda: f"{node_id}/{self.placement.incarnation}", FOLLOWERS)
        self.placement = Shared(node_id, catalog.logs_of)
        self.placement.call_home = self._call_home
        self.engine = PostgresEngine(node_id, cluster_id, self._connections, catalog, self._claim_of)
        self.engine.on_lost = self._lost
        self.engine.on_diverged = self._diverged
        self._clock = clock
        self._report = report
        self._settle_ms = settle_ms
        self._membership: Membership | None = None
        self._joined: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._is_open = False
        self._is_leaving = False
        self._claiming: set[int] = set()
        self._failed_claims: dict[int, int] = {}
        self._moving: set[int] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._timer: TimerHandle | None = None
        self._timer_ms: int | None = None
        self._has_dealt = False
        self._skipped_ms = 0
        self._stands_at_ms: int | None = None
        self._tidied_ms = 0
        self._unsure: list[Callable[[], None]] = []
        self.placement.when_sure, self.placement.lease = self._when_sure, self.may_answer

    # Life

    async def join(self) -> None:
        """Register a new life of the node, and read who leads what.

        Raises:
            Unavailable: a process has the id of this node, and lives.
        """
        self._connections.open()
        await self._refuse_two()
        answer = await self._connections.m.answer(port.Register(self.node_id, self._version))
        assert isinstance(answer.result, int)
        self.placement.incarnation = answer.result
        self._membership = Membership(self.node_id, answer.result, settle_ms=self._settle_ms)
        beats = self._connections.h
        beats.on_connected = lambda: self._entered(Membership.connected)
        beats.on_lost = lambda: self._entered(Membership.lost)
        beats.connect()
        await self._joined

    async def _refuse_two(self) -> None:
        before = await self._found()
        if before is not None:
            await asyncio.sleep(WATCHED_S)
            after = await self._found()
            if after is not None and (after.incarnation, after.beat) != (before.incarnation, before.beat):
                told = (place for name, place in after.endpoints.items() if name != BETWEEN_NODES)
                where = next((f" at {host}:{port}" for host, port in told), "")
                raise Unavailable(f"node {self.node_id} is alive{where}: give this one another node.id")

    async def _found(self) -> member.NodeRow | None:
        """The life of this node that has its first connection open at the moment, if there is one."""
        heard = (await self._connections.m.answer(port.Beat(self.node_id, 0))).result
        assert isinstance(heard, Heard)
        here = heard.held or ()
        return next((row for row in heard.nodes if row.node_id == self.node_id and row.node_id in here), None)

    async def announce(self, endpoints: Mapping[str, tuple[str, int]]) -> None:
        """Tell all nodes where this one listens. From now on it leads."""
        await self._connections.m.answer(port.Describe(self.node_id, endpoints=endpoints))
        self._is_open = True
        self.nudge()

    async def settle_in(self, timeout_s: float) -> None:
        """Wait until every log has a leader, and what this node leads is open, but not longer than that."""
        await self._until(lambda: self._has_settled_in, timeout_s)

    async def drain(self, timeout_s: float) -> None:
        """Let others lead what this node leads, as long as there are any, then say that it ends.

        If it takes longer than that, what is left is orphaned: others claim it.
        """
        try:
            async with asyncio.timeout(timeout_s):
                self._is_leaving = True
                await self._connections.m.answer(port.Describe(self.node_id, is_leaving=True))
                self.nudge()
                await self._until(lambda: not (self._tasks or (self.placement.led and self._has_heirs)), timeout_s)
                await self._connections.m.answer(port.Describe(self.node_id, ended=self.incarnation))
        except TimeoutError:
            self._report.warning("others have not taken over what this node leads", logs=len(self.placement.led))
        self.leave()

    async def _until(self, condition: Callable[[], bool], timeout_s: float) -> None:
        until = self._clock.real.monotonic_ms() + timeout_s * 1000
        while not condition() and self._clock.real.monotonic_ms() < until:  # noqa: ASYNC110 - many things make it so
            await asyncio.sleep(LOOK_S)

    @property
    def _has_heirs(self) -> bool:
        nodes = self.placement.view.nodes.values()
        return any(node.state is NodeState.UP for node in nodes if node.node_id != self.node_id)

    @property
    def _has_settled_in(self) -> bool:
        open_logs = {log.log_id for log in self.engine.logs.values()}
        rows, view = self.placement.rows.values(), self.placement.view
        return bool(rows) and all(is_led(row, view) for row in rows) and self.placement.led.keys() <= open_logs

    def leave(self) -> None:
        """Claim and hand over nothing any more."""
        self._is_open = False
        if self._timer is not None:
            self._timer.cancel()
        for task in self._tasks:
            task.cancel()

    def die(self) -> None:
        """End as a killed process does: the connections are gone, and nothing is said any more."""
        self.leave()
        self._connections.close()

    def nudge(self) -> None:
        """Somebody says that something has changed."""
        if not self._connections.is_closed:
            self._entered(Membership.nudged)

    # What is known

    @property
    def incarnation(self) -> int:
        """Which life of the node this is."""
        return self.placement.incarnation

    def may_answer(self) -> bool:
        """Whether the lease holds: what is led here is led by nobody else."""
        return self._membership is not None and self._membership.may_answer(self._now_ms)

    def _when_sure(self, then: Callable[[], None]) -> bool:
        self.ring()  # a process that was stopped sees requests before its timers
        if self.may_answer() or not self.placement.led:
            return True
        self._unsure.append(then)
        return False

    def _tell_sure(self) -> None:
        unsure, self._unsure = self._unsure, []
        for then in unsure:
            then()

    @property
    def is_at_rest(self) -> bool:
        """Whether nothing is under way that changes who leads what."""
        links = (self._connections.h, self._connections.m, self._connections.r)
        return not self._tasks and self.engine.is_at_rest and all(link.is_at_rest for link in links)

    def _claim_of(self, topic_id: UUID, partition: int) -> tuple[int, int] | None:
        row = self.placement.row_of(topic_id, partition)
        epoch = None if row is None else self.placement.epoch_of(row.log_id)
        return None if row is None or epoch is None else (row.log_id, epoch)

    # Time

    @property
    def _now_ms(self) -> int:
        now_ms = self._clock.monotonic_ms() if self._stands_at_ms is None else self._stands_at_ms
        return now_ms - self._skipped_ms

    @property
    def due_ms(self) -> int | None:
        """When it wants to beat, or its lease ends, by the clock; None if nothing of that is to come."""
        if self._membership is None or self._stands_at_ms is not None or self._connections.is_closed:
            return None
        next_ms = self._membership.next_ms
        return None if next_ms is None else next_ms + self._skipped_ms

    def ring(self) -> None:
        """Time has passed."""
        self._entered(Membership.tick)

    def stand_still(self) -> None:
        """Let no time pass until `go_on`: the clock jumps further than a lease lasts."""
        if self._stands_at_ms is None:
            self._stands_at_ms = self._clock.monotonic_ms()
            self._arm()

    def go_on(self) -> None:
        """Go on at the time at which it stood still."""
        if self._stands_at_ms is not None:
            self._skipped_ms += self._clock.monotonic_ms() - self._stands_at_ms
            self._stands_at_ms = None
            self._arm()

    def _arm(self) -> None:
        due_ms = self.due_ms
        if due_ms == self._timer_ms:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer_ms = due_ms
        self._timer = None if due_ms is None else self._clock.call_at(due_ms, self._rings)

    def _rings(self) -> None:
        self._timer = self._timer_ms = None
        self.ring()

    # Membership

    def _entered(self, entry: Callable[[Membership, int], None]) -> None:
        if self._membership is not None:
            entry(self._membership, self._now_ms)
            self._settle(self._membership)

    def _settle(self, membership: Membership) -> None:
        while membership.effects:
            effects, membership.effects = membership.effects, []
            for effect in effects:
                self._carry_out(membership, effect)
        self._arm()

    def _carry_out(self, membership: Membership, effect: member.Effect) -> None:
        match effect:
            case member.Beat(number):
                beat = port.Beat(self.node_id, membership.incarnation)
                self._connections.h.ask(beat, lambda answer: self._beaten(membership, number, answer))
            case member.Suspend():
                self._report.warning("the lease of this node has ended", node=self.node_id)
                self._give_up(self.placement.led)
            case member.Read(number):
                self._spawn(partial(self._read, membership, number))
            case member.Superseded():
                self._report.error("another process has the id of this node", node=self.node_id)
                self._give_up(self.placement.led)
                self.leave()
                self.on_superseded()

    def _beaten(self, membership: Membership, number: int, answer: Answer | None) -> None:
        if answer is None:
            return
        assert isinstance(answer.result, Heard)
        membership.answered(self._now_ms, number, answer.result)
        self.placement.look(membership.view)
        self._settle(membership)
        self._tidy()
        self._act()

    def _tidy(self) -> None:
        """See to it that one of the nodes deletes what nobody needs any more, some of it with each beat."""
        now_ms = self._now_ms

        def tidied(answer: Answer | None) -> None:
            if answer is not None and answer.result:
                self._tidied_ms -= TIDY_MS

        if self.placement.view.controller_id == self.node_id and now_ms >= self._tidied_ms + TIDY_MS:
            self._tidied_ms = now_ms
            self._connections.look.ask(port.Tidy(), tidied)

    async def _read(self, membership: Membership, number: int) -> None:
        """Read who leads what, and see to it that the catalog is read."""
        if membership.version != self.engine.catalog.version:
            self.engine.catalog.on_changed()
        rows = cast("Sequence[LogRow]", (await self._connections.m.answer(port.ReadLogs())).result)
        self.placement.take(rows, is_everything=True)
        membership.has_read(number)
        self._let_go()
        if self.may_answer():
            self._tell_sure()
        if not self._joined.done():
            self._joined.set_result(None)
        self._act()

    def _spawn(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        task = asyncio.get_running_loop().create_task(self._carefully(work))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _carefully(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        try:
            await work()
        except EngineError as error:
            if not self._connections.is_closed:
                self._report.warning("the leaders of partitions could not be followed", reason=str(error))
        except Exception:  # a bug of ours
            self._report.error("the leaders of partitions could not be followed", exc_info=True)

    # Leading

    def _act(self) -> None:
        """Claim and hand over what the plan says."""
        membership = self._membership
        if membership is None or not self._is_open or not self.may_answer():
            return
        placement = self.placement
        wanted = plan(membership.view, placement.rows.values(), is_settled=membership.is_settled(self._now_ms))
        led = placement.led
        mine = [row.log_id for row in placement.rows.values() if placement.is_mine(row) and row.log_id not in led]
        groups: dict[tuple[tuple[int, int, int] | None, str], list[LogRow]] = {}
        for log_id in sorted({*wanted.claims, *mine} - self._claiming - self._moving):
            row = placement.rows[log_id]
            presumed = membership.presumed.get(row.leader_id)
            sign = None
            if presumed is not None and presumed.incarnation == row.leader_incarnation:
                sign = (row.leader_id, presumed.incarnation, presumed.beat)
            groups.setdefault((sign, self._why(row, presumed)), []).append(row)
        for (sign, why), rows in groups.items():
            free = [row for row in rows if not self._failed_claims.get(row.log_id)]
            if free:
                self._claim(free, sign, why, skips=True)
            for row in rows:
                if row not in free:
                    self._claim([row], sign, why, skips=False)
        for log_ids, heir, why in wanted.hand_overs:
            if self._may_give(log_ids):
                why = f"node {self.node_id} was told to end" if self._is_leaving else why
                self._spawn(self._giving(log_ids, heir, why))
        if not self._has_dealt and membership.is_settled(self._now_ms):
            self._has_dealt = True
            self._spawn(self._take_share)

    def _why(self, row: LogRow, presumed: member.Presumed | None) -> str:
        """Why a log that is to be claimed has no leader."""
        if row.leader_id == NOBODY:
            return "its first leader" if row.epoch < 0 else "it had no leader"
        if self.placement.is_mine(row):
            return f"node {self.node_id} had let it go"
        if presumed is not None and presumed.incarnation == row.leader_incarnation:
            return f"node {row.leader_id} was lost: {presumed.why}"
        return f"node {row.leader_id} was started again"

    async def _call_home(self, logs: Collection[tuple[UUID, int]], timeout_s: float) -> None:
        """See `ottla.broker.cluster.view.Placement`."""
        found = [row for row in (self.placement.row_of(*one) for one in logs) if row is not None]
        log_ids = sorted({row.log_id if row.follows is None else row.follows for row in found})
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                while (await self._connections.m.answer(port.CallHome(log_ids, ELECTED))).refusal is not None:
                    pass  # somebody has one locked, for which the database has waited a while
                await self._until(lambda: all(map(self._is_at_home, log_ids)), timeout_s)

    def _is_at_home(self, log_id: int) -> bool:
        row = self.placement.rows.get(log_id)
        return row is None or row.leader_id == row.home

    async def _take_share(self) -> None:
        """Deal the homes of logs anew if none is at home here: this node is new."""
        rows = self.placement.rows.values()
        if any(row.home == self.node_id for row in rows):
            return
        homes = with_followers(balance(rows, self.placement.dealt_to), rows)
        if homes:
            try:
                await self.engine.catalog.rehome(homes)
            except (Outdated, Unavailable):  # others are at it, perhaps at the same
                self._has_dealt = False
            self.engine.catalog.on_changed()

    def _claim(self, rows: Sequence[LogRow], sign: tuple[int, int, int] | None, why: str, *, skips: bool) -> None:
        """Claim logs; who has one locked for long is evicted."""
        wanted = tuple((row.log_id, row.epoch) for row in rows)
        self._claiming.update(log_id for log_id, _ in wanted)
        claim = port.Claim(wanted, self.node_id, self.incarnation, sign, skips, why)
        self._connections.m.ask(claim, lambda answer: self._claimed(rows, answer))
        session = self._connections.m.session
        if session is not None and self._failed_claims.get(rows[0].log_id, 0) >= EVICTED_AFTER:
            evict = partial(self._connections.look.ask, port.Evict(session.number), lambda answer: None)
            self._clock.real.call_at(self._clock.real.monotonic_ms() + EVICTED_IN_MS, evict)

    def _claimed(self, rows: Sequence[LogRow], answer: Answer | None) -> None:
        self._claiming.difference_update(row.log_id for row in rows)
        if answer is None:
            return  # the next reading shows what became of it
        claimed = dict(cast("Sequence[tuple[int, int]]", answer.result or ()))
        taken = []
        for row in rows:
            if row.log_id in claimed:
                self._failed_claims.pop(row.log_id, None)
                taken.append(
                    row._replace(leader_id=self.node_id, leader_incarnation=self.incarnation, epoch=claimed[row.log_id])
                )
            elif self.placement.rows.get(row.log_id, row).epoch == row.epoch:
                self._failed_claims[row.log_id] = self._failed_claims.get(row.log_id, 0) + 1
        self.placement.take(taken)
        self._let_go()
        if answer.refusal is not None or 0 < len(claimed) < len(rows):  # somebody keeps one locked
            self._act()

    def _may_give(self, log_ids: Sequence[int]) -> bool:
        led = self.placement.led
        return not self._moving.intersection(log_ids) and all(log_id in led for log_id in log_ids)

    async def hand_over(self, log_ids: Sequence[int], heir: int, why: str) -> None:
        """Give logs to another node: nothing new, then everything settled, then the leader changes.

        Raises:
            Fenced: one of them is not led here.
        """
        if not self._may_give(log_ids):
            raise Fenced("not led here, or on its way already")
        await self._giving(log_ids, heir, why)()

    def _giving(self, log_ids: Sequence[int], heir: int, why: str) -> Callable[[], Coroutine[Any, Any, None]]:
        """Begin to give logs to another node: they take nothing new. Gives the rest of it."""
        led = {log_id: epoch for log_id, epoch in self.placement.led.items() if log_id in log_ids}
        self._moving.update(led)
        settled = [asyncio.ensure_future(self.engine.settled(log_id)) for log_id in led]
        self.placement.give_up(led)
        return partial(self._give, led, heir, why, settled)

    async def _give(self, led: Mapping[int, int], heir: int, why: str, settled: Sequence[asyncio.Future[bool]]) -> None:
        try:
            await asyncio.gather(*settled)
            if (node := self.placement.view.nodes.get(heir)) is None:
                return  # it was removed meanwhile
            await self._connections.m.answer(port.HandOver(tuple(sorted(led.items())), heir, node.incarnation, why))
        finally:
            # Given, or not: what is still this node's is claimed under a new epoch.
            self._moving.difference_update(led)
        self.nudge()

    def _lost(self, log_id: int, epoch: int) -> None:
        self.placement.give_up({log_id: epoch})
        self.nudge()

    def _diverged(self, tp: TopicPartition, end_offset: int, base_offset: int) -> None:
        self._report.error("acknowledged records are gone", topic=tp.topic, partition=tp.partition,
                           from_offset=end_offset, upto_offset=base_offset)  # fmt: skip

    def _give_up(self, led: Mapping[int, int]) -> None:
        self.placement.give_up(led)
        self._let_go()
        self._tell_sure()

    def _let_go(self) -> None:
        """Close the logs that are led no more, or under another epoch."""
        for log in list(self.engine.logs.values()):
            if log.log_id not in self._moving and self.placement.epoch_of(log.log_id) != log.leader_epoch:
                self.engine.give_up(log.log_id, Fenced("somebody else leads"))
