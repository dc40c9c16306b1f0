"""The producer: idempotent by default, batching, transactional on demand, with aiokafka's methods."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator, Mapping
from typing import Any, Self

from ottla.clients import given
from ottla.clients.accumulator import Accumulator
from ottla.clients.errors import (
    ClientClosed,
    InvalidTransactionState,
    KafkaError,
    KafkaTimeout,
    OptionError,
    ProducerFenced,
)
from ottla.clients.given import Headers
from ottla.clients.life import Life
from ottla.clients.logs import log
from ottla.clients.options import ProducerOptions
from ottla.clients.partitioner import DefaultPartitioner
from ottla.clients.sender import Sender
from ottla.clients.structs import ConsumerGroupMetadata, OffsetAndMetadata, RecordMetadata
from ottla.clients.tasks import set_within
from ottla.clients.transaction_calls import TransactionCalls
from ottla.clients.transactions import Transaction, TransactionState
from ottla.protocol.errors import ErrorCode
from ottla.protocol.records import TopicPartition, record_size_bound


class Producer(Life[ProducerOptions]):
    """Sends records to topics.

    ```python
    async with Producer(bootstrap_servers="localhost:9092") as producer:
        future = await producer.send("orders", b"value", key=b"customer 7")  # queued
        metadata = await future  # delivered
        await producer.send_and_wait("orders", b"value")  # both
    ```

    With a ``transactional_id`` everything is sent in transactions, of which others see all or nothing:

    ```python
    async with Producer(transactional_id="billing-1") as producer:
        async with producer.transaction():
            await producer.send("invoices", b"value")
            await producer.send_offsets_to_transaction(offsets, consumer.group_metadata())
    ```

    Args:
        options: those of `ProducerOptions`.

    Raises:
        OptionError: an unknown option, or a value that cannot be.
    """

    _noun = "producer"

    def __init__(self, **options: Any) -> None:
        super().__init__(ProducerOptions.of(options))
        self._calls: TransactionCalls | None = None

    async def start(self) -> None:
        """Connect to the cluster. With a transactional_id also abort what an earlier producer of that id left open, and
        fence that producer.

        Raises:
            KafkaConnectionError: no bootstrap server can be reached.
            KafkaTimeout: no transaction coordinator within max_block_ms.
        """
        options = self._options
        async with self._starting(auto_create=True) as client:
            self._accumulator = Accumulator(options)
            transactional_id = options.transactional_id
            transaction = None if transactional_id is None else Transaction(transactional_id)
            self._sender = Sender(client, self._accumulator, transaction)
            self._partitioner = DefaultPartitioner(max(options.max_batch_size, 1))
            self._freed = asyncio.Event()
            await client.start()
            self._sender.start()
            self._sender.on_freed = self._freed.set
            if transaction is not None:
                self._calls = TransactionCalls(client, self._accumulator, self._sender, transaction)
                await self._calls.init()

    async def stop(self, timeout_ms: float | None = None) -> None:
        """Deliver what is queued, then close; a transaction that is open is aborted. A second call does nothing.

        Args:
            timeout_ms: the longest wait for deliveries; by default delivery_timeout_ms alone ends the wait.
        """
        await self._stop(lambda: self._deliver(timeout_ms))

    async def _deliver(self, timeout_ms: float | None) -> None:
        self._freed.set()
        try:
            async with asyncio.timeout(None if timeout_ms is None else timeout_ms / 1000):
                if self._calls is not None:
                    await self._leave_transaction(self._calls)
                else:
                    await self._sender.flush()
        except TimeoutError:
            pass
        finally:
            self._sender.abandon(ClientClosed("the producer was stopped before the record was delivered"))

    async def send(
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        headers: Headers | None = None,
    ) -> asyncio.Future[RecordMetadata]:
        """Queue a record; the future is done when it was delivered, or failed for good.

        Waits for the topic's metadata, and for room when buffer_memory is used up. A call that is cancelled while it
        waits has queued nothing.

        Args:
            topic: the name of the topic.
            value: bytes, or what value_serializer makes bytes of; None is a tombstone.
            key: bytes, or what key_serializer makes bytes of; None is no key.
            partition: the number of the partition; by default the partitioner chooses it.
            timestamp_ms: the record's time in Unix ms; by default now.
            headers: pairs of a name and bytes.

        Raises:
            KafkaTimeout: no metadata, or no room, within max_block_ms.
            KafkaError: the record is larger than max_request_size, or there is no such topic.
            OptionError: an argument that cannot be, such as a partition that does not exist.
            InvalidTransactionState, TransactionFailed, ProducerFenced: with a transactional_id, if no transaction is
                open, or the open one can only be aborted, or another producer has the id.
        """
        client = self._running()
        if self._calls is not None:
            self._calls.transaction.check_open("send()")
        given.name("topic", topic)
        if timestamp_ms is not None and not (given.is_int(timestamp_ms) and 0 <= timestamp_ms < 1 << 63):
            raise OptionError(
                f"timestamp_ms={timestamp_ms!r}: allowed is a Unix time in ms, an integer from 0, or None"
            )
        options = self._options
        key_bytes = _serialized("key", options.key_serializer, key)
        value_bytes = _serialized("value", options.value_serializer, value)
        headers = given.headers(headers)
        size = record_size_bound(key_bytes, value_bytes, headers)
        if size > options.max_request_size:
            raise KafkaError(
                f"a record of up to {size} bytes exceeds max_request_size={options.max_request_size}",
                ErrorCode.MESSAGE_TOO_LARGE,
            )
        deadline = client.now_ms() + options.max_block_ms
        count = client.cluster.partition_count(topic)
        if count is None or topic not in client.topics:
            count = len(await client.topic_partitions(topic, options.max_block_ms))
        if partition is not None and not (given.is_int(partition) and 0 <= partition < count):
            raise OptionError(f"partition={partition!r}: {topic!r} has partitions 0 to {count - 1}")
        await self._room(size, deadline)
        if partition is None:
            partition = self._choose(topic, key_bytes, size, count)
        future: asyncio.Future[RecordMetadata] = asyncio.get_running_loop().create_future()
        if timestamp_ms is None:
            timestamp_ms = time.time_ns() // 1_000_000
        tp = TopicPartition(topic, partition)
        if self._calls is not None:
            self._calls.transaction.check_open("send()")  # it may have ended meanwhile
            self._calls.record(tp)
        if self._accumulator.append(tp, key_bytes, value_bytes, timestamp_ms, headers, future, client.now_ms()):
            self._sender.wake()
            # Without this a loop that only sends would never let the sender run.
            await asyncio.sleep(0)
        return future

    async def send_and_wait(
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        headers: Headers | None = None,
    ) -> RecordMetadata:
        """`send`, and wait until the record is delivered.

        Raises:
            KafkaTimeout: it was not delivered within delivery_timeout_ms.
            KafkaError: what `send` raises, or the broker refused the record.
        """
        return await (await self.send(topic, value, key, partition, timestamp_ms, headers))

    async def flush(self) -> None:
        """Wait until every record that was queued is delivered or has failed. Batches do not linger meanwhile."""
        self._running()
        await self._sender.flush()

    # transactions

    async def begin_transaction(self) -> None:
        """Begin a transaction: everything sent until its end belongs to it.

        Raises:
            InvalidTransactionState: one is open already, or the producer has no transactional_id.
            ProducerFenced: another producer has the transactional_id.
        """
        self._transactional().transaction.begin()

    async def send_offsets_to_transaction(
        self, offsets: Mapping[Any, int | OffsetAndMetadata], group: ConsumerGroupMetadata | str
    ) -> None:
        """Commit offsets of a group with the transaction: both are seen, or neither.

        Args:
            offsets: by partition the next offset to read.
            group: the result of `Consumer.group_metadata`: offsets of a member that is no longer in the group are then
                refused. Or the name of a group: nothing is refused then.

        Raises:
            TransactionFailed: the offsets were refused, for the member is not in the group any more: abort.
            ProducerFenced: another producer has the transactional_id.
        """
        calls = self._transactional()
        places = given.offsets(offsets)
        await calls.send_offsets(places, ConsumerGroupMetadata(group) if isinstance(group, str) else group)

    async def commit_transaction(self) -> None:
        """Deliver what was sent in the transaction, and make it visible.

        Raises:
            TransactionFailed: something was not delivered: abort.
            ProducerFenced: another producer has the transactional_id.
            KafkaTimeout: not within max_block_ms; call it again.
        """
        await self._transactional().end(True)

    async def abort_transaction(self) -> None:
        """Take back what was sent in the transaction; what is not delivered yet fails with `TransactionFailed`.

        Raises:
            ProducerFenced: another producer has the transactional_id.
            KafkaTimeout: not within max_block_ms; call it again.
        """
        await self._transactional().end(False)

    @contextlib.asynccontextmanager
    async def transaction(self) -> AsyncIterator[Self]:
        """A transaction that is committed at the end of the block, and aborted if the block, or the commit, raises."""
        await self.begin_transaction()
        try:
            yield self
            await self.commit_transaction()
        except BaseException:
            state = self._calls.transaction.state if self._calls is not None else None
            if self._state == "running" and state in (TransactionState.OPEN, TransactionState.FAILED):
                # What went wrong first is what the user should know.
                with contextlib.suppress(KafkaError):
                    await self.abort_transaction()
            raise

    def _transactional(self) -> TransactionCalls:
        self._running()
        if self._calls is None:
            raise InvalidTransactionState("a producer without transactional_id has no transactions")
        return self._calls

    async def _leave_transaction(self, calls: TransactionCalls) -> None:
        """Abort an open transaction: others need not wait for its timeout."""
        transaction = calls.transaction
        try:
            if transaction.state is TransactionState.ENDING:
                await calls.end(bool(transaction.committing))
            elif transaction.state in (TransactionState.OPEN, TransactionState.FAILED):
                await calls.end(False)
        except KafkaError as error:
            level = logging.INFO if isinstance(error, ProducerFenced) else logging.WARNING
            log.log(level, "the transaction was left open: %s", error)

    async def partitions_for(self, topic: str) -> set[int]:
        """The numbers of a topic's partitions. Raises KafkaTimeout after max_block_ms."""
        client = self._running()
        return set(await client.topic_partitions(topic, self._options.max_block_ms))

    @property
    def unanswered_ms(self) -> float:
        """The time in ms for which no broker has answered; 0 while one answers. The client goes on asking."""
        return 0.0 if self._client is None else self._client.unanswered_ms

    def _choose(self, topic: str, key: bytes | None, size: int, count: int) -> int:
        everything = range(count)
        assert self._client is not None
        available = self._client.cluster.available_partitions(topic)
        if self._options.partitioner is None:
            return self._partitioner.partition(topic, key, size, everything, available)
        chosen = self._options.partitioner(key, list(everything), available or list(everything))
        if chosen not in everything:
            raise OptionError(f"the partitioner chose {chosen!r}: {topic!r} has partitions 0 to {count - 1}")
        return chosen

    async def _room(self, size: int, deadline_ms: float) -> None:
        """Wait for buffer memory. When some is freed, those who wait look again, the first to come first."""
        client = self._running()
        limit = max(self._options.buffer_memory, size)
        while self._accumulator.used_bytes + size > limit:
            self._sender.wake()
            self._freed.clear()
            left_ms = max(0.0, deadline_ms - client.now_ms())
            await set_within(self._freed, left_ms / 1000)
            self._running()
            if not left_ms and not self._freed.is_set():
                raise KafkaTimeout(
                    f"no room for a record within max_block_ms={self._options.max_block_ms}: "
                    f"{self._accumulator.used_bytes} of buffer_memory={self._options.buffer_memory} bytes are waiting"
                )


def _serialized(what: str, serializer: Any, given: Any) -> bytes | None:
    data = given if serializer is None or given is None else serializer(given)
    if data is None or isinstance(data, bytes):
        return data
    if isinstance(data, (bytearray, memoryview)):
        return bytes(data)
    raise OptionError(f"{what}={data!r}: allowed are bytes or None; give the producer a {what}_serializer")
