"""A seeded world of transactional producers, a broker that crashes, and an oracle for exactly-once.

The broker is the real one from the handlers down: Produce, TxnOffsetCommit and the transaction APIs, both coordinators
and their drivers, and the partitions, over logs in memory. What the world decides is when an append or a marker is done
and whether, what of it survives a crash, which requests and answers are late, lost or doubled, when a producer dies and
is replaced while the old one lives on, and how time passes.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Coroutine
from dataclasses import replace
from types import SimpleNamespace
from typing import Any
from uuid import UUID

from ottla.broker.core.fetches import FetchPurgatory
from ottla.broker.core.groups.config import GroupConfig
from ottla.broker.core.groups.coordinator import GroupCoordinator
from ottla.broker.core.topics.configs import TopicConfig
from ottla.broker.core.topics.partition import Partition, Topic
from ottla.broker.core.transactions.config import TransactionConfig
from ottla.broker.core.transactions.coordinator import TransactionCoordinator
from ottla.broker.engine import LogConfig, StorageFull
from ottla.broker.handlers import handler
from ottla.broker.handlers.services import Node, Services
from ottla.broker.runtime.host import Host
from ottla.broker.runtime.member_connections import MemberConnections
from ottla.broker.settings import Settings
from ottla.broker.storage.memory import MemoryEngine
from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import ErrorCode
from ottla.protocol.internal_topics import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from ottla.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopic
from ottla.protocol.offsets_topic import CoordinatorRecord
from ottla.protocol.records import TopicPartition, decode_batch, iter_batches, parse_marker
from tests.core.durable import durable_transactions
from tests.core.transactions.txn_apps import LOST, PARTITIONS, TOPIC, App, Broken, Call, Plan, Txn
from tests.core.transactions.txn_world import load

E = ErrorCode
TXN_PARTITIONS = 2


class Ctx:
    """A request's context, as far as handlers look."""

    client_id = "sim"
    client_host = "/127.0.0.1"
    encoded = b""
    closed = False

    def __init__(self, api_version: int, reply: Callable[[Any], None]) -> None:
        self.api_version = api_version
        self.reply = reply
        self.overlaps = False


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


class World:
    """See the module. ``calm`` worlds lose nothing and do not crash: so they end."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.random = random.Random(plan.seed)
        self.now = 1_000
        self.next_id = 0
        self.calm = False
        self.callbacks: list[Callable[[], None]] = []
        self.requests: list[tuple[App, int, Call]] = []
        self.answers: list[tuple[App, int, Any]] = []
        self.marks: list[Callable[[], None]] = []
        self.parked: dict[Ctx, str] = {}
        self.timers: list[tuple[int, Callable[[], None]]] = []
        self.apps: list[App] = []
        self.txns: list[Txn] = []
        self.identities: dict[tuple[int, int], App] = {}
        self.problems: list[str] = []
        ids = iter(range(1, 10_000))
        self.engine = MemoryEngine(
            new_uuid=lambda: UUID(int=next(ids)), call_soon=self.callbacks.append, fault=self._fault
        )
        self._start()

    # The broker

    def _start(self) -> None:
        _run(self.engine.open())
        settings = Settings()
        self.topics: dict[str, Topic] = {}
        counts = {TOPIC: PARTITIONS, TRANSACTIONS_TOPIC: TXN_PARTITIONS, OFFSETS_TOPIC: 1}
        for number, (name, count) in enumerate(counts.items(), 1):
            is_internal = name != TOPIC
            topic = Topic(name, UUID(int=number), is_internal=is_internal, overrides={}, config=_config(settings))
            for index in range(count):
                partition = topic.add_partition(_run(self.engine.open_log(name, topic.topic_id, index, LogConfig())))
                if not is_internal:
                    self._replay(partition)
            self.topics[name] = topic
        facade = SimpleNamespace(
            topics=self.topics,
            by_id={topic.topic_id: topic for topic in self.topics.values()},
            partition=self.partition,
            partition_count=lambda name: len(self.topics[name].partitions) if name in self.topics else 0,
        )
        host = self.host = SimHost(
            self,
            FetchPurgatory(),
            partition=self.partition,
            max_batch_bytes=1 << 20,
            report=self,
            defer=self.callbacks.append,
        )
        host.world = self
        groups = GroupCoordinator(GroupConfig(), lambda: "id", 1)
        groups.start()
        host.add(OFFSETS_TOPIC, groups)
        config = replace(TransactionConfig(), transaction_abort_timed_out_transaction_cleanup_interval_ms=500)
        self.coordinator = TransactionCoordinator(config, self._take_producer_id, TXN_PARTITIONS)
        self.coordinator.start(self.now)
        host.add(TRANSACTIONS_TOPIC, self.coordinator)
        self.services = Services(
            settings=settings,
            clock=self,
            node=Node(1, "cluster"),
            host=host,
            groups=groups,
            members=MemberConnections(groups, host.now),
            topics=facade,  # type: ignore[arg-type]
            transactions=self.coordinator,
            transaction_needs=SimpleNamespace(prepare=lambda then: then(E.NONE)),  # type: ignore[arg-type]
        )
        _run(host.load(OFFSETS_TOPIC))
        _run(host.load(TRANSACTIONS_TOPIC))

    def _take_producer_id(self) -> int | None:
        if self.random.random() < 0.02:
            return None
        self.next_id += 1
        return self.next_id

    def _replay(self, partition: Partition) -> None:
        log, offset = partition.log, 0
        while offset < log.high_watermark:
            for _, batch in iter_batches(log.read(offset, max_bytes=1 << 20)):
                offset = partition.replay(batch, self.wall_ms())

    def partition(self, tp: TopicPartition) -> Partition | None:
        topic = self.topics.get(tp.topic)
        return topic.partition(tp.partition) if topic else None

    def _fault(self, tp: TopicPartition, base_offset: int) -> StorageFull | None:
        return StorageFull("no room") if self.happens(self.plan.faults) else None

    def crash(self) -> None:
        """Kill the broker and start it again; of what was on its way, the beginning may have reached the disk."""
        queue = self.engine._queue
        for append in queue[: self.random.randint(0, len(queue)) if self.plan.survives else 0]:
            if append.log.settle(append) is not None:
                break
        self.check_log()
        self.engine.abandon()
        self.host.silence()
        self.callbacks.clear()
        self.marks.clear()
        self.requests.clear()
        self.answers.clear()
        self.parked.clear()
        self.timers.clear()
        self._start()

    # What the driver and handlers need

    def monotonic_ms(self) -> int:
        return self.now

    def wall_ms(self) -> int:
        return 1_700_000_000_000 + self.now

    def call_at(self, when_ms: int, callback: Callable[[], None]) -> Any:
        timer = (when_ms, callback)
        self.timers.append(timer)

        def cancel() -> None:
            if timer in self.timers:
                self.timers.remove(timer)

        return SimpleNamespace(cancel=cancel)

    def info(self, event: str, **fields: Any) -> None:
        """What operators read is not looked at."""

    def error(self, event: str, **fields: Any) -> None:
        if fields.get("exc_info"):
            import traceback

            self.problems.append(f"{event}: {traceback.format_exc()}")

    # The network

    def send(self, app: App) -> None:
        assert app.call is not None
        if not self.plan.v2:
            # Before KIP-890 a request that was given up must not arrive later: its connection is gone.
            self.requests = [entry for entry in self.requests if entry[0] is not app]
        self.requests.append((app, app.serial, app.call))

    def _deliver(self) -> None:
        app, serial, (key, version, request) = self.requests.pop(self.random.randrange(len(self.requests)))
        if self.happens(self.plan.losses):
            return

        def reply(answer: Any) -> None:
            self.parked.pop(ctx, None)
            self.answers.append((app, serial, answer))

        ctx = Ctx(version, reply)
        self.parked[ctx] = f"{key.name} of {app.name}"
        found = handler(key).handle(request, ctx, self.services)
        if isinstance(found, Coroutine):
            found = _run(found)
        if found is not None:
            reply(found)

    def _answer(self) -> None:
        app, serial, answer = self.answers.pop(self.random.randrange(len(self.answers)))
        if not self.happens(self.plan.losses):
            app.answered(serial, answer)

    # Applications

    def new_txn(self, group: str) -> Txn:
        self.txns.append(Txn(len(self.txns), group))
        return self.txns[-1]

    def begin(self) -> None:
        """An application is started, whether or not another one with its id still runs."""
        name = f"id-{self.random.randrange(self.plan.ids)}"
        self.apps.append(App(self, len(self.apps), name))

    def given(self, app: App) -> None:
        """InitProducerId was answered."""
        if self.identities.setdefault(app.identity, app) is not app:
            raise Broken(f"{app.identity} was given to two producers")
        app.begun_at = self.now

    def ended(self, app: App, txn: Txn, asked_at: int) -> None:
        """EndTxn was answered with success; identities rise, so the higher one is the younger."""
        for rival in self.apps:
            if rival.name == app.name and 0 <= rival.begun_at < asked_at and rival.identity > app.identity:
                raise Broken(f"transaction {txn.number} was ended by a producer that had been fenced")

    # Steps

    def happens(self, chance: int) -> bool:
        return not self.calm and self.random.randrange(1000) < chance

    def step(self) -> None:
        if self.happens(self.plan.crashes):
            self.crash()
        if self.happens(self.plan.deaths):
            living = [app for app in self.apps if not app.over]
            if living:
                self.random.choice(living).over = True
        if not self.calm and sum(not app.over for app in self.apps) < self.plan.ids + 1:
            self.begin()
        options: list[Callable[[], None]] = []
        options += [self._deliver] * (3 * bool(self.requests))
        options += [self._answer] * (3 * bool(self.answers))
        options += [lambda: self.callbacks.pop(0)()] * (3 * bool(self.callbacks))
        options += [lambda: self.marks.pop(self.random.randrange(len(self.marks)))()] * (2 * bool(self.marks))
        options += [self._pass_time]
        options += [self._give_up] * (not options[:-1] or self.happens(100))
        self.random.choice(options)()
        if self.problems:
            raise Broken(self.problems[0])

    def _pass_time(self) -> None:
        self.now += self.random.choice([1, 10, 100, 700])
        for timer in [timer for timer in self.timers if timer[0] <= self.now]:
            if timer in self.timers:
                self.timers.remove(timer)
                timer[1]()

    def _give_up(self) -> None:
        """An application has waited long enough for an answer."""
        waiting = [app for app in self.apps if not app.over and app.call is not None]
        if waiting:
            app = self.random.choice(waiting)
            app.answered(app.serial, LOST)

    # What must hold

    def check_log(self) -> None:
        """What the log says is what memory says, where nothing is on its way."""
        if self.engine._queue or self.callbacks:
            return
        other = TransactionCoordinator(TransactionConfig(), lambda: None, TXN_PARTITIONS)
        for index, partition in enumerate(self.topics[TRANSACTIONS_TOPIC].partitions):
            data = partition.log.read(0, max_bytes=1 << 30) if partition.log.high_watermark else b""
            records = [
                CoordinatorRecord(record.key or b"", record.value)
                for _, batch in iter_batches(data)
                for record in decode_batch(batch)
            ]
            load(other, index, records, self.now, self.wall_ms())
        state = durable_transactions(self.coordinator)
        mine = {name: replace(tx, last_producer_epoch=-1) for name, tx in state.items()}
        if mine != durable_transactions(other):
            raise Broken(f"memory has {mine}, the log {durable_transactions(other)}")

    def committed(self, partition: Partition) -> list[str]:
        """What a reader of committed records is shown."""
        stable = partition.last_stable_offset
        if not stable:
            return []
        aborted = partition.aborted_in(0, stable)
        skipped: set[int] = set()
        found = []
        for header, batch in iter_batches(partition.log.read(0, max_bytes=1 << 30, upto_offset=stable)):
            while aborted and aborted[0][1] <= header.last_offset:
                skipped.add(aborted.pop(0)[0])
            if header.is_control:
                end = parse_marker(batch)
                if end is not None and not end.commit:
                    skipped.discard(header.producer_id)
            elif header.producer_id not in skipped:
                found += [(record.value or b"").decode() for record in decode_batch(batch)]
        return found

    def check_committed(self, *, so_far: bool = False) -> None:
        """All or nothing, once, and as producers were told; ``so_far`` markers may still be missing."""
        shown: list[str] = []
        for partition in self.topics[TOPIC].partitions:
            shown += self.committed(partition)
        if len(shown) != len(set(shown)):
            raise Broken("records are shown twice")
        seen = set(shown)
        for txn in self.txns:
            values = {value for row in txn.values.values() for value in row}
            some = seen & values
            if txn.told == "commit" and some != values and not so_far:
                raise Broken(f"transaction {txn.number} was committed, and {sorted(values - some)} are not shown")
            if txn.asked_to != "commit" and some:
                raise Broken(f"transaction {txn.number} was not committed, and {sorted(some)} are shown")
            if some and not some >= txn.confirmed and not so_far:
                raise Broken(f"transaction {txn.number} is shown in part")

    def finish(self) -> None:
        """Nothing bad happens any more: everything comes to an end, and new producers can work."""
        self.calm = True
        for app in self.apps:
            app.over = True
        self.requests.clear()
        for _ in range(30_000):
            if not (self.callbacks or self.marks or self.parked or self._unfinished()):
                break
            self.step()
        else:
            raise Broken(f"it does not come to an end: {self._unfinished()}, parked {list(self.parked.values())}")
        self.check_log()
        for partition in self.topics[TOPIC].partitions:
            if partition.last_stable_offset != partition.log.high_watermark:
                raise Broken(f"{partition.tp} is stable up to {partition.last_stable_offset} only")
        self.check_committed()
        for group in sorted({txn.group for txn in self.txns}):
            self.check_offset(group)

    def check_offset(self, group: str) -> None:
        """The offset of a group is that of its last committed transaction that had one."""
        request = OffsetFetchRequest(
            groups=[
                OffsetFetchRequestGroup(
                    group_id=group, topics=[OffsetFetchRequestTopic(name=TOPIC, partition_indexes=[0])]
                )
            ],
            require_stable=True,
        )
        answers: list[Any] = []
        found = handler(ApiKey.OFFSET_FETCH).handle(request, Ctx(8, answers.append), self.services)
        (row,) = (found or answers[0]).groups[0].topics[0].partitions
        if row.error_code:
            raise Broken(f"the offset of {group} is not stable")
        shown = {value for partition in self.topics[TOPIC].partitions for value in self.committed(partition)}
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
        state = durable_transactions(self.coordinator)
        return [f"{name}: {tx.state}" for name, tx in state.items() if tx.state.startswith(("Prepare", "Ongoing"))]


def _config(settings: Settings) -> TopicConfig:
    return TopicConfig.of({}, settings)


def _run(work: Coroutine[Any, Any, Any]) -> Any:
    """Run what never waits."""
    try:
        work.send(None)
    except StopIteration as end:
        return end.value
    raise AssertionError("it waits")


def run(plan: Plan) -> World:
    """Let a world live.

    Raises:
        Broken: a promise was not kept.
    """
    world = World(plan)
    for number in range(plan.steps):
        world.step()
        if number % 50 == 0:
            world.check_log()
            world.check_committed(so_far=True)
    world.finish()
    return world
