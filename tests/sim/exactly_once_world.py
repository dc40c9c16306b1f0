"""A seeded world of transactional producers, a broker that crashes, and an oracle for exactly-once.

Handlers, topics, both coordinators and the partitions are real, over logs in memory. What the world decides is when an
append or a marker is done and whether, what of it survives a crash, which requests and answers are late, lost or
doubled, when a producer dies and is replaced while the old one lives on, and how time passes.
"""

from __future__ import annotations

import asyncio
import random
import traceback
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from ottla.broker.core.topics.partition import Partition
from ottla.broker.core.transactions.coordinator import TransactionCoordinator
from ottla.broker.engine import EngineError, StorageFull, Unavailable
from ottla.broker.runtime.host import Host
from ottla.broker.settings import Settings
from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import ErrorCode
from ottla.protocol.internal_topics import TRANSACTIONS_TOPIC
from ottla.protocol.offsets_topic import CoordinatorRecord
from ottla.protocol.records import TopicPartition, decode_batch, iter_batches
from tests.core.durable import durable_transactions
from tests.handlers.conftest import World as HandlersWorld
from tests.sim.exactly_once_apps import LOST, PARTITIONS, TOPICS, App, Plan, Txn
from tests.sim.kernel import Broken, run_now
from tests.support.client import committed_values
from tests.support.requests import offset_fetch_fields, request

E = ErrorCode


class SimHost(Host):
    """Its world decides when a marker is written, and whether."""

    world: World

    def write_marker(self, tp: TopicPartition, marker: Any, settled: Callable[[int, ErrorCode], None]) -> None:
        def write() -> None:
            if self.world.happens(self.world.plan.marker_faults):
                settled(-1, E.KAFKA_STORAGE_ERROR)
            else:
                Host.write_marker(self, tp, marker, settled)

        self.world.marks.append(write)


class World(HandlersWorld):
    """See the module. ``calm`` worlds lose nothing and do not crash: so they end."""

    def __init__(self, plan: Plan) -> None:
        super().__init__(
            offsets_topic_num_partitions=2,
            transaction_state_log_num_partitions=2,
            transaction_abort_timed_out_transaction_cleanup_interval_ms=500,
        )
        self.plan = plan
        self.random = random.Random(plan.seed)
        self.calm = False
        self.requests: list[tuple[App, int, Any]] = []
        self.parked: list[tuple[App, int, Any]] = []
        self.answers: list[tuple[App, int, Any]] = []
        self.marks: list[Callable[[], None]] = []
        self.apps: list[App] = []
        self.txns: list[Txn] = []
        self.identities: dict[tuple[int, int], App] = {}
        self.problems: list[str] = []
        self.engine.fault = self._fault
        self.log.error = self._error

    # The broker

    def new_host(self) -> SimHost:
        host = super().new_host(SimHost, defer=self.scheduled.append)
        host.world = self
        return host

    async def start(self) -> World:
        await super().start()
        coordinator = self.transactions.coordinator
        take = coordinator.take_producer_id
        coordinator.take_producer_id = lambda: None if self.random.random() < 0.02 else take()
        return self

    def _error(self, event: str, **fields: Any) -> None:
        if fields.get("exc_info"):
            self.problems.append(f"{event}: {traceback.format_exc()}")

    def _fault(self, tp: TopicPartition, base_offset: int) -> EngineError | None:
        if not self.happens(self.plan.faults):
            return None
        return self.random.choice((StorageFull("no room"), Unavailable("failed")))

    async def crash(self) -> None:
        """Kill the broker and start it again; of what was on its way, the beginning may have reached the disk."""
        queue = self.engine._queue
        for append in queue[: self.random.randint(0, len(queue)) if self.plan.survives else 0]:
            if append.log.settle(append) is not None:
                break
        self.check_log()
        if self.transactions._preparing is not None:
            self.transactions._preparing.cancel()
        for lost in (self.marks, self.requests, self.answers, self.parked, self.timers):
            lost.clear()
        await self.restart()

    # The network

    def hand_over(self, app: App) -> None:
        """An application sends its next request."""
        if not app.v2:
            # Before KIP-890 a request that was given up must not arrive later: its connection is gone.
            self.requests = [entry for entry in self.requests if entry[0] is not app]
        self.requests.append((app, app.serial, app.call))

    def _deliver(self) -> None:
        app, serial, (_, version, asked) = self.requests.pop(self.random.randrange(len(self.requests)))
        if self.happens(self.plan.losses):
            return
        exchange = self.send(asked, version)
        if hasattr(exchange, "work") and (found := run_now(exchange.work)) is not None:
            exchange.ctx.reply(found)
        self.parked.append((app, serial, exchange))

    def _answer(self) -> None:
        app, serial, answer = self.answers.pop(self.random.randrange(len(self.answers)))
        if not self.happens(self.plan.losses):
            app.answered(serial, answer)

    # Applications

    def new_txn(self, group: str) -> Txn:
        self.txns.append(Txn(len(self.txns), group))
        return self.txns[-1]

    def given(self, app: App) -> None:
        """InitProducerId was answered."""
        if self.identities.setdefault(app.identity, app) is not app:
            raise Broken(f"{app.identity} was given to two producers")
        app.begun_at = self.now_ms

    def ended(self, app: App, txn: Txn, asked_at: int) -> None:
        """EndTxn was answered with success; identities rise, so the higher one is the younger."""
        for rival in self.apps:
            if rival.name == app.name and 0 <= rival.begun_at < asked_at and rival.identity > app.identity:
                raise Broken(f"transaction {txn.number} was ended by a producer that had been fenced")

    # Steps

    def happens(self, chance: int) -> bool:
        return not self.calm and self.random.randrange(1000) < chance

    async def step(self) -> None:
        await asyncio.sleep(0)
        if self.happens(self.plan.crashes):
            await self.crash()
        if self.happens(self.plan.deaths):
            living = [app for app in self.apps if not app.over]
            if living:
                self.random.choice(living).over = True
        if not self.calm and sum(not app.over for app in self.apps) < self.plan.ids + 1:
            # Whether or not another one with its id still runs.
            self.apps.append(App(self, len(self.apps), f"id-{self.random.randrange(self.plan.ids)}"))
        for entry in [entry for entry in self.parked if entry[2].finished]:
            self.parked.remove(entry)
            self.answers.append((*entry[:2], entry[2].response))
        options: list[Callable[[], None]] = []
        options += [self._deliver] * (3 * bool(self.requests))
        options += [self._answer] * (3 * bool(self.answers))
        # What is durable takes two of them to be told.
        options += [lambda: self.scheduled.pop(0)()] * (5 * bool(self.scheduled))
        options += [lambda: self.marks.pop(self.random.randrange(len(self.marks)))()] * (2 * bool(self.marks))
        options += [self._pass_time]
        options += [self._give_up] * (not options[:-1] or self.happens(100))
        self.random.choice(options)()
        if self.problems:
            raise Broken(self.problems[0])

    def _pass_time(self) -> None:
        self.advance(12_000 if self.happens(self.plan.leaps) else self.random.choice([1, 10, 100, 700]))

    def _give_up(self) -> None:
        """An application has waited long enough for an answer."""
        waiting = [app for app in self.apps if not app.over and app.call is not None]
        if waiting:
            app = self.random.choice(waiting)
            app.answered(app.serial, LOST)

    # What must hold

    def check_log(self) -> None:
        """Compare memory with the log, if nothing is on its way."""
        topic = self.topics.topics.get(TRANSACTIONS_TOPIC)
        if self.engine._queue or self.scheduled or topic is None:
            return
        other = TransactionCoordinator(Settings(), lambda: None, len(topic.partitions))
        for index, partition in enumerate(topic.partitions):
            other.load_started(index, self.now_ms, 5)
            data = partition.log.read(0, max_bytes=1 << 30) if partition.log.high_watermark else b""
            records = [record for _, batch in iter_batches(data) for record in decode_batch(batch)]
            for offset, record in enumerate(records):
                other.replay(index, CoordinatorRecord(record.key or b"", record.value), offset)
            other.loaded(index, self.now_ms, self.wall)
        state = durable_transactions(self.transactions.coordinator)
        mine = {name: replace(tx, last_producer_epoch=-1) for name, tx in state.items()}
        if mine != durable_transactions(other):
            raise Broken(f"memory has {mine}, the log {durable_transactions(other)}")

    def partitions(self) -> list[Partition]:
        return [self.topics.topics[topic].partition(index) for topic in TOPICS for index in range(PARTITIONS)]

    def committed(self) -> list[str]:
        """Everything that a reader of committed records is shown, in small fetches."""
        found = []
        for partition in self.partitions():
            offset, stable = 0, partition.last_stable_offset
            while offset < stable:
                topic, index = partition.tp
                row = self.fetched(offset, topic=topic, partitions=(index,), isolation_level=1, partition_max_bytes=300)
                if not row.records:
                    raise Broken(f"a reader comes to {offset} of {partition.tp}, and not to {stable}")
                aborted = [(one.producer_id, one.first_offset) for one in row.aborted_transactions]
                shown, offset = committed_values(row.records, aborted)
                found += [value.decode() for value in shown]
        return found

    def check_committed(self, *, so_far: bool = False) -> None:
        """All or nothing, once, and as producers were told; ``so_far`` markers may still be missing."""
        shown = self.committed()
        if len(shown) != len(set(shown)):
            raise Broken("records are shown twice")
        seen = set(shown)
        if seen - {value for txn in self.txns for value in txn.values}:
            raise Broken("records are shown that nobody sent")
        for txn in self.txns:
            values = set(txn.values)
            some = seen & values
            if txn.told == "commit" and some != values and not so_far:
                raise Broken(f"transaction {txn.number} was committed, and {sorted(values - some)} are not shown")
            if txn.asked_to != "commit" and some:
                raise Broken(f"transaction {txn.number} was not committed, and {sorted(some)} are shown")
            if some and not some >= txn.confirmed and not so_far:
                raise Broken(f"transaction {txn.number} is shown in part")

    async def finish(self) -> None:
        """Nothing bad happens any more: everything comes to an end, and new producers can work."""
        self.calm = True
        for app in self.apps:
            app.over = True
        self.requests.clear()
        for _ in range(30_000):
            if not (self.scheduled or self.marks or self.parked or self._unfinished()):
                break
            await self.step()
        else:
            waiting = [f"{exchange.layout.message.__name__} of {app.name}" for app, _, exchange in self.parked]
            raise Broken(f"it does not come to an end: {self._unfinished()}, {waiting}")
        self.check_log()
        for partition in self.partitions():
            if partition.last_stable_offset != partition.log.high_watermark:
                raise Broken(f"{partition.tp} is stable up to {partition.last_stable_offset} only")
        self.check_committed()
        for group in sorted({txn.group for txn in self.txns}):
            self.check_offset(group)

    def check_offset(self, group: str) -> None:
        """The offset of a group is that of its last committed transaction that had one."""
        fields = offset_fetch_fields(group, {TOPICS[0]: [0]}, stable=True)
        exchange = self.send(request(ApiKey.OFFSET_FETCH, fields), 8)
        (row,) = exchange.response.groups[0].topics[0].partitions
        if row.error_code:
            raise Broken(f"the offset of {group} is not stable")
        shown = set(self.committed())
        mine = [txn for txn in self.txns if txn.group == group]
        least = max((txn.number for txn in mine if txn.has_offset and txn.told == "commit"), default=-1)
        if row.committed_offset < least:
            raise Broken(f"{group} is at {row.committed_offset}, and transaction {least} was committed")
        for txn in mine:
            if txn.number == row.committed_offset and (txn.asked_to != "commit" or not txn.confirmed <= shown):
                raise Broken(f"{group} is at {row.committed_offset}, and that transaction was not committed")
            if txn.number > row.committed_offset and txn.has_offset and txn.confirmed & shown:
                raise Broken(f"{group} is at {row.committed_offset}, and transaction {txn.number} is shown")

    def _unfinished(self) -> list[str]:
        state = durable_transactions(self.transactions.coordinator)
        return [f"{name}: {tx.state}" for name, tx in state.items() if tx.state.startswith(("Prepare", "Ongoing"))]

    async def simulate(self) -> World:
        """Live.

        Raises:
            Broken: a promise was not kept.
        """
        await self.start()
        for topic in TOPICS:
            await self.topic(topic, PARTITIONS)
        for number in range(self.plan.steps):
            await self.step()
            if number % 50 == 0:
                self.check_log()
                self.check_committed(so_far=True)
        await self.finish()
        return self


def run(seed: int) -> World:
    """Let the world of a seed live; raises as `World.simulate`."""
    return asyncio.run(asyncio.wait_for(World(Plan.draw(seed)).simulate(), 60))
