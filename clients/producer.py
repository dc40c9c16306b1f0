"""The producer: idempotent by default, batching, with aiokafka's methods."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from types import TracebackType
from typing import Any, Self

from ottla.clients.accumulator import Accumulator, Headers
from ottla.clients.backoff import Backoff
from ottla.clients.client import Client
from ottla.clients.errors import ClientClosed, KafkaError, KafkaTimeout, OptionError
from ottla.clients.options import ProducerOptions
from ottla.clients.partitioner import DefaultPartitioner
from ottla.clients.sender import Sender
from ottla.clients.structs import RecordMetadata
from ottla.protocol.errors import ErrorCode
from ottla.protocol.records import TopicPartition, record_size_bound


class Producer:
    """Sends records to topics.

    ```python
    async with Producer(bootstrap_servers="localhost:9092") as producer:
        future = await producer.send("orders", b"value", key=b"customer 7")      # queued
        metadata = await future                                                  # delivered
        await producer.send_and_wait("orders", b"value")                         # both
    ```

    Args:
        options: those of `ProducerOptions`.

    Raises:
        OptionError: an unknown option, or a value that cannot be.
    """

    def __init__(self, **options: Any) -> None:
        self._options = ProducerOptions.of(options)
        self._client: Client | None = None
        self._state = "new"

    async def start(self) -> None:
        """Connect.

        Raises:
            KafkaConnectionError: no bootstrap server can be reached.
        """
        if self._state != "new":
            raise ClientClosed(f"start() of a producer that is {self._state}: make a new one")
        options = self._options
        self._client = client = Client(options, auto_create=True)
        self._accumulator = Accumulator(
            batch_size=options.max_batch_size,
            linger_ms=options.linger_ms,
            delivery_timeout_ms=options.delivery_timeout_ms,
            codec=options.codec,
            idempotent=options.idempotent,
            new_backoff=lambda: Backoff(options.retry_backoff_ms, options.retry_backoff_max_ms),
        )
        self._sender = Sender(client, self._accumulator, options)
        self._partitioner = DefaultPartitioner(max(options.max_batch_size, 1))
        self._waiting: deque[asyncio.Future[None]] = deque()
        try:
            await client.start()
        except BaseException:
            await client.close()
            raise
        self._sender.start()
        self._sender.on_freed = self._let_next_in
        self._state = "running"

    async def stop(self, timeout_ms: float | None = None) -> None:
        """Deliver what is queued, then close. A second call does nothing.

        Args:
            timeout_ms: give up what is not delivered by then; by default only delivery_timeout_ms ends the wait.
        """
        if self._state != "running" or self._client is None:
            self._state = "stopped"
            return
        self._state = "stopping"
        self._let_next_in()
        try:
            async with asyncio.timeout(None if timeout_ms is None else timeout_ms / 1000):
                await self._sender.flush()
        except TimeoutError:
            pass
        finally:
            self._state = "stopped"
            self._sender.abandon(ClientClosed("the producer was stopped before the record was delivered"))
            await self._client.close()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.stop()

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
            partition: where to; by default the partitioner's choice.
            timestamp_ms: Unix ms; by default now.
            headers: pairs of name and bytes.

        Raises:
            KafkaTimeout: no metadata, or no room, within max_block_ms.
            KafkaError: the record is larger than max_request_size, or there is no such topic.
            OptionError: an argument that cannot be, e.g. a partition that does not exist.
        """
        client = self._running()
        options = self._options
        key_bytes = _serialized("key", options.key_serializer, key)
        value_bytes = _serialized("value", options.value_serializer, value)
        headers = headers or ()
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
        if partition is not None and not 0 <= partition < count:
            raise OptionError(f"partition={partition!r}: {topic!r} has partitions 0 to {count - 1}")
        await self._room(size, deadline)
        if partition is None:
            partition = self._choose(topic, key_bytes, size, count)
        future: asyncio.Future[RecordMetadata] = asyncio.get_running_loop().create_future()
        if timestamp_ms is None:
            timestamp_ms = time.time_ns() // 1_000_000
        tp = TopicPartition(topic, partition)
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
        """`send`, and wait until the record is delivered. Raises what either can."""
        return await (await self.send(topic, value, key, partition, timestamp_ms, headers))

    async def flush(self) -> None:
        """Wait until every record queued so far is delivered or has failed; linger_ms does not count meanwhile."""
        self._running()
        await self._sender.flush()

    async def partitions_for(self, topic: str) -> set[int]:
        """The partitions of a topic."""
        client = self._running()
        return set(await client.topic_partitions(topic, self._options.max_block_ms))

    def _running(self) -> Client:
        if self._state != "running" or self._client is None:
            raise ClientClosed(f"the producer is {self._state}: call start() first, and nothing after stop()")
        return self._client

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
        """Wait for buffer memory, first come first served."""
        client = self._running()
        limit = max(self._options.buffer_memory, size)
        while self._accumulator.used_bytes + size > limit:
            turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append(turn)
            self._sender.wake()
            try:
                async with asyncio.timeout(max(0.0, deadline_ms - client.now_ms()) / 1000):
                    await turn
            except TimeoutError:
                raise KafkaTimeout(
                    f"no room for a record within max_block_ms={self._options.max_block_ms}: "
                    f"{self._accumulator.used_bytes} of buffer_memory={self._options.buffer_memory} bytes are waiting"
                ) from None
            finally:
                if turn in self._waiting:
                    self._waiting.remove(turn)
            self._running()

    def _let_next_in(self) -> None:
        """Room was made: whoever waits looks again, the first to come first."""
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)


def _serialized(what: str, serializer: Any, given: Any) -> bytes | None:
    data = given if serializer is None or given is None else serializer(given)
    if data is None or isinstance(data, bytes):
        return data
    if isinstance(data, (bytearray, memoryview)):
        return bytes(data)
    raise OptionError(f"{what}={data!r}: allowed are bytes or None; give the producer a {what}_serializer")
