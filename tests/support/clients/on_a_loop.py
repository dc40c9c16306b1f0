"""Clients for asyncio behind the faces that the tests share, each on an event loop in a thread of its own."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from tests.support.kit import Ack, Got, Kit, Place, Poll, Row
from tests.support.members import AsyncMember, listener, python_options

T = TypeVar("T")


class Loop:
    """An event loop in a thread of its own; `run` waits for a coroutine there."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, name="loop", daemon=True).start()

    def run(self, work: Coroutine[Any, Any, T], timeout_s: float = 120) -> T:
        return asyncio.run_coroutine_threadsafe(asyncio.wait_for(work, timeout_s), self._loop).result()

    def call(self, what: Callable[..., T], *arguments: Any, **options: Any) -> T:
        """Call on the loop what belongs to it and does not wait."""

        async def call() -> T:
            return what(*arguments, **options)

        return self.run(call())


class LoopMember(AsyncMember):
    """Subclasses name the client's consumer, its listener, and its assignors as Kafka names them."""

    consumer: Any
    listener: type
    assignors: Mapping[str, Any]

    async def _poll(self) -> None:
        consumer = self.consumer(**python_options(self.role, self.assignors))
        consumer.subscribe(list(self.role.topics), listener=listener(self.listener, self))
        try:
            await consumer.start()
            while not self._stopping.is_set():
                self.saw_all(await consumer.getmany(timeout_ms=50))
                await self._answer_async(consumer)
        finally:
            await consumer.stop()


class LoopKit(Kit):
    """Subclasses name the client's consumer, producer and class of a topic and partition."""

    consumer: Any
    producer: Any
    place: Any

    def __init__(self, bootstrap: str) -> None:
        super().__init__(bootstrap)
        self._loop = Loop()

    def _produce(self, options: dict[str, Any], *what: Any) -> list[Ack]:
        return self._loop.run(self._produced(options, *what))

    async def _produced(
        self, options: dict[str, Any], topic: str, rows: Sequence[Row], partition: int | None, one_by_one: bool
    ) -> list[Ack]:
        producer = await self._made(self.producer, **options)
        try:
            futures = []
            for row in rows:
                fields = {} if row.timestamp_ms is None else {"timestamp_ms": row.timestamp_ms}
                sent = producer.send(
                    topic, row.value, key=row.key, headers=list(row.headers), partition=partition, **fields
                )
                futures.append(await sent)
                if one_by_one:
                    await futures[-1]
            # With acks=0 there is nothing to tell.
            return [(told.partition, told.offset) for told in await asyncio.gather(*futures) if told is not None]
        finally:
            await producer.stop()

    @contextmanager
    def reading(self, starts: Mapping[Place, int], **options: Any) -> Iterator[Poll]:
        with self._consumer(auto_offset_reset="earliest", **options) as consumer:
            self._loop.call(consumer.assign, [self.place(*place) for place in starts])
            for place, offset in starts.items():
                self._loop.call(consumer.seek, self.place(*place), offset)
            yield lambda seconds: self._polled(consumer, seconds)

    def _polled(self, consumer: Any, seconds: float) -> list[Got]:
        batches = self._loop.run(consumer.getmany(timeout_ms=int(seconds * 1000)))
        return [Got.of(record) for records in batches.values() for record in records]

    @contextmanager
    def _consumer(self, **options: Any) -> Iterator[Any]:
        consumer = self._loop.run(self._made(self.consumer, enable_auto_commit=False, **options))
        try:
            yield consumer
        finally:
            self._loop.run(consumer.stop())

    async def _made(self, kind: Any, **options: Any) -> Any:
        """A client's object, made on the loop and started."""
        made = kind(bootstrap_servers=self.bootstrap, **options)
        await made.start()
        return made
