"""Transactions from the request to the log and back: handlers, both coordinators, partitions and drivers are real.

The storage finishes what it has in small steps, fails now and then, and the broker is killed. Clients work through
transactions: records to several partitions and an offset of a group, committed or aborted. They make mistakes that real
ones make: they are killed in the middle, and come back while their old requests are still on their way. In the end
every transaction counts everywhere or nowhere, those whose commit was answered count, and aborted ones do not.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from random import Random
from typing import Any

from ottla.broker.engine import EngineError, Unavailable
from ottla.protocol.errors import ErrorCode
from ottla.protocol.message_parts import TopicWithPartitions
from ottla.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from ottla.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from ottla.protocol.messages.end_txn import EndTxnRequest
from ottla.protocol.messages.init_producer_id import InitProducerIdRequest
from ottla.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopic
from ottla.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from ottla.protocol.records import Record, TopicPartition, build_batch, decode_batch, iter_batches
from tests.handlers.conftest import World as HandlersWorld
from tests.sim.partition_world import Broken, expect

TOPICS = ("t", "u")
PARTITIONS = 2
TIMEOUT_MS = 20_000
E = ErrorCode
AGAIN = {
    E.CONCURRENT_TRANSACTIONS,
    E.COORDINATOR_NOT_AVAILABLE,
    E.COORDINATOR_LOAD_IN_PROGRESS,
    E.NOT_COORDINATOR,
    E.NOT_ENOUGH_REPLICAS,
    E.KAFKA_STORAGE_ERROR,
}
"""What a client answers with the same request."""


class Lost(Exception):
    """The broker was killed before it answered, or the client gave the transaction up."""


@dataclass(eq=False)
class Transaction:
    """What a client did in one transaction. ``committed`` is None while nobody can tell."""

    client: str
    number: int
    values: list[bytes] = field(default_factory=list)
    commits_offset: bool = False
    committed: bool | None = False


class ExactlyOnceWorld(HandlersWorld):
    """See the module."""

    def __init__(self, seed: int, steps: int = 400) -> None:
        super().__init__(offsets_topic_num_partitions=3, transaction_state_log_num_partitions=3)
        self.rng = Random(f"exactly once {seed}")
        self.steps = steps
        self.failing = self.rng.random() < 0.5
        self.engine.fault = self._fault
        self.life = 0
        self.transactions_made: list[Transaction] = []
        self.clients: dict[str, asyncio.Task[None]] = {}
        self.crash: Exception | None = None

    def _fault(self, tp: TopicPartition, base_offset: int) -> EngineError | None:
        return Unavailable("failed") if self.failing and self.rng.random() < 0.03 else None

    # The broker's life

    async def kill_broker(self) -> None:
        self.life += 1
        self.host.silence()
        self.transactions.stop()
        if self.transactions._preparing is not None:
            self.transactions._preparing.cancel()
        self.timers.clear()
        await self.restart()

    # The clients

    async def request(self, request: Any, version: int) -> Any:
        """The answer to a request; the client waits as long as the broker lives."""
        life = self.life
        exchange = self.send(request, version)
        if hasattr(exchange, "work"):
            asyncio.get_running_loop().create_task(self._answer(exchange))
        while not exchange.finished:
            await asyncio.sleep(0)
            if self.life != life:
                raise Lost
        return exchange.response

    async def _answer(self, exchange: Any) -> None:
        answer = await exchange.work
        if answer is not None:
            exchange.ctx.reply(answer)

    async def insist(self, ask: Any) -> ErrorCode:
        """Ask until the answer is another than to ask again."""
        for _ in range(200):
            error = E(await ask())
            if error not in AGAIN:
                return error
            await asyncio.sleep(0)
        raise Lost

    async def work(self, name: str, version: int) -> None:
        """One life of a client: transaction after transaction, each in its own order."""
        while True:
            try:
                client = await Client(self, name, version).begin()
                while True:
                    await client.transaction()
            except Lost:
                await asyncio.sleep(0)

    def spawn(self, name: str) -> None:
        """Start a client, in the place of the one of the same name, whose request may still be on its way."""
        if name in self.clients:
            self.clients[name].cancel()
        version = self.rng.choice((9, 11, 12))
        task = self.clients[name] = asyncio.get_running_loop().create_task(self.work(name, version))
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            self.crash = self.crash or error  # type: ignore[assignment]

    # The simulation

    async def simulate(self) -> None:
        await self.start()
        for topic in TOPICS:
            await self.topic(topic, PARTITIONS)
        names = [f"x{index}" for index in range(self.rng.randint(1, 3))]
        for name in names:
            self.spawn(name)
        for _ in range(self.steps):
            for _ in range(self.rng.randint(1, 6)):
                await asyncio.sleep(0)
            for _ in range(self.rng.choice((0, 1, 1, 2, 4))):
                if self.scheduled:
                    self.scheduled.pop(0)()
            chance = self.rng.random()
            if chance < 0.01:
                await self.kill_broker()
            elif chance < 0.03:
                self.spawn(self.rng.choice(names))
            elif chance < 0.1:
                self.advance(self.rng.choice((1, 100, 12_000)))
            if self.crash is not None:
                raise self.crash
        await self.finish()
        self.check()

    async def finish(self) -> None:
        """No client lives any more, and nothing fails: what is open runs into its timeout."""
        for task in self.clients.values():
            task.cancel()
        self.failing = False
        for _ in range(12):
            await self.idle()
            self.advance(6_000)
        await self.idle()
        for topic in self.topics.topics.values():
            for partition in topic.partitions:
                expect(f"{partition.tp} is stable", partition.last_stable_offset, partition.log.high_watermark)

    # What must hold

    def check(self) -> None:
        seen: list[bytes] = []
        for topic in TOPICS:
            for index in range(PARTITIONS):
                seen += self._committed(topic, index)
        expect("nothing is shown twice", len(seen), len(set(seen)))
        shown = set(seen)
        last: dict[str, int] = {}
        for made in self.transactions_made:
            count = sum(value in shown for value in made.values)
            if count not in (0, len(made.values)):
                raise Broken(f"{count} of {len(made.values)} records of {made} are shown")
            counts = made.committed if made.committed is not None else bool(count)
            if made.values:
                expect(f"whether {made} is shown", bool(count), counts)
            if made.commits_offset and counts and (made.values or made.committed):
                last[made.client] = made.number
        expect("nothing is shown that nobody sent", shown - {v for made in self.transactions_made for v in made.values},
               set())  # fmt: skip
        for name, number in last.items():
            found = self._offset(name)
            unsure = [made.number for made in self.transactions_made
                      if made.client == name and made.committed is None and not made.values]  # fmt: skip
            if found not in (number, *unsure):
                raise Broken(f"the offset of {name} is {found}, not {number}")

    def _committed(self, topic: str, index: int) -> list[bytes]:
        """A partition as a reader of committed records sees it, in small fetches."""
        offset, found = 0, []
        while True:
            row = self.fetched(offset, topic=topic, partitions=(index,), isolation_level=1, partition_max_bytes=300)
            if not row.records:
                expect("a reader comes to the end", offset, row.high_watermark)
                return found
            aborted = [(one.producer_id, one.first_offset) for one in row.aborted_transactions]
            skipped: set[int] = set()
            for header, batch in iter_batches(row.records):
                while aborted and aborted[0][1] <= header.last_offset:
                    skipped.add(aborted.pop(0)[0])
                if header.is_control:
                    skipped.discard(header.producer_id)
                elif header.producer_id not in skipped:
                    found += [record.value or b"" for record in decode_batch(batch)]
                offset = header.last_offset + 1

    def _offset(self, name: str) -> int:
        topics = [OffsetFetchRequestTopic(name="t", partition_indexes=[0])]
        groups = [OffsetFetchRequestGroup(group_id=f"group of {name}", topics=topics)]
        exchange = self.send(OffsetFetchRequest(groups=groups, require_stable=True), 8)
        row = exchange.response.groups[0].topics[0].partitions[0]
        expect("an offset is stable", E(row.error_code), E.NONE)
        return int(row.committed_offset)


class Client:
    """One life of a transactional client, with transaction version 1, or 2 if it speaks Produce 12."""

    def __init__(self, world: ExactlyOnceWorld, name: str, version: int) -> None:
        self.world, self.name, self.version = world, name, version
        self.rng = world.rng
        self.sequences: dict[tuple[str, int], int] = {}

    async def begin(self) -> Client:
        request = InitProducerIdRequest(transactional_id=self.name, transaction_timeout_ms=TIMEOUT_MS)

        async def ask() -> int:
            answer = await self.world.request(request, 5)
            self.who = {
                "transactional_id": self.name,
                "producer_id": answer.producer_id,
                "producer_epoch": answer.producer_epoch,
            }
            return int(answer.error_code)

        expect("an id is given", await self.world.insist(ask), E.NONE)
        return self

    async def transaction(self) -> None:
        number = len(self.world.transactions_made)
        made = Transaction(self.name, number)
        self.world.transactions_made.append(made)
        for part in range(self.rng.randint(0, 4)):
            value = b"%d.%d" % (number, part)
            made.values.append(value)
            await self._take_part(await self.produce(value))
        if self.rng.random() < 0.6 or not made.values:
            made.commits_offset = True
            await self._take_part(await self.commit_offset(number))
        commit = self.rng.random() < 0.7
        made.committed = None if commit else False
        error = await self.world.insist(lambda: self.end(commit=commit))
        if error is E.NONE:
            made.committed = commit
            return
        if error not in (E.INVALID_PRODUCER_EPOCH, E.PRODUCER_FENCED, E.INVALID_TXN_STATE):
            raise Broken(f"the end of a good transaction hears {error.name}")
        raise Lost

    async def _take_part(self, error: ErrorCode) -> None:
        """Go on, or give the transaction up if somebody else has taken over or it has timed out."""
        if error is E.NONE:
            return
        if error not in (
            E.INVALID_PRODUCER_EPOCH,
            E.PRODUCER_FENCED,
            E.INVALID_TXN_STATE,
            E.TRANSACTION_ABORTABLE,
            E.OUT_OF_ORDER_SEQUENCE_NUMBER,
        ):
            raise Broken(f"a good request hears {error.name}")
        raise Lost

    async def produce(self, value: bytes) -> ErrorCode:
        topic, index = self.rng.choice(TOPICS), self.rng.randrange(PARTITIONS)
        if self.version < 12 and (error := await self.add(topic, index)):
            return error
        sequence = self.sequences.get((topic, index), 0)
        batch = build_batch(
            [Record(value=value, timestamp_ms=self.world.wall)],
            producer_id=self.who["producer_id"],
            producer_epoch=self.who["producer_epoch"],
            base_sequence=sequence,
            is_transactional=True,
        )
        data = TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=index, records=batch)])
        request = ProduceRequest(transactional_id=self.name, acks=-1, timeout_ms=1000, topic_data=[data])

        async def ask() -> int:
            answer = await self.world.request(request, self.version)
            return int(answer.responses[0].partition_responses[0].error_code)

        error = await self.world.insist(ask)
        if not error:
            self.sequences[topic, index] = sequence + 1
        return error

    async def add(self, topic: str, index: int) -> ErrorCode:
        rows = [TopicWithPartitions(name=topic, partitions=[index])]
        fields = {f"v3_and_below_{name}": value for name, value in self.who.items()}
        request = AddPartitionsToTxnRequest(**fields, v3_and_below_topics=rows)

        async def ask() -> int:
            answer = await self.world.request(request, 3)
            return int(answer.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code)

        return await self.world.insist(ask)

    async def commit_offset(self, offset: int) -> ErrorCode:
        group = f"group of {self.name}"
        if self.version < 12:
            added = AddOffsetsToTxnRequest(**self.who, group_id=group)

            async def add() -> int:
                return int((await self.world.request(added, 3)).error_code)

            if error := await self.world.insist(add):
                return error
        row = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=offset, committed_metadata="")
        topics = [TxnOffsetCommitRequestTopic(name="t", partitions=[row])]
        request = TxnOffsetCommitRequest(**self.who, group_id=group, topics=topics)

        async def ask() -> int:
            answer = await self.world.request(request, 5 if self.version >= 12 else 3)
            return int(answer.topics[0].partitions[0].error_code)

        return await self.world.insist(ask)

    async def end(self, *, commit: bool) -> int:
        answer = await self.world.request(EndTxnRequest(**self.who, committed=commit), 5 if self.version >= 12 else 3)
        if not answer.error_code and self.version >= 12:
            self.who |= {"producer_id": answer.producer_id, "producer_epoch": answer.producer_epoch}
            self.sequences.clear()
        return int(answer.error_code)
