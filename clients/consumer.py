"""The consumer: one partition's records or a group's share, with aiokafka's methods and Kafka's ``poll``."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import AsyncIterator, Iterable, Mapping
from types import TracebackType
from typing import Any, Self

from ottla.clients import given
from ottla.clients.assignors import make_assignors
from ottla.clients.client import Client
from ottla.clients.consumer_offsets import ConsumerOffsets
from ottla.clients.coordinator import Coordinator
from ottla.clients.errors import ClientClosed, CommitFailed, KafkaError, OptionError
from ottla.clients.fetcher import Fetcher
from ottla.clients.gate import UserGate
from ottla.clients.group_effects import MemberState
from ottla.clients.listener import ConsumerRebalanceListener
from ottla.clients.options import ConsumerOptions
from ottla.clients.positions import Positions
from ottla.clients.structs import AutoCommitting, ConsumerGroupMetadata, ConsumerRecord, OffsetAndMetadata, Records
from ottla.clients.subscription import SubscriptionState
from ottla.protocol.records import TopicPartition

log = logging.getLogger("ottla.clients")


class Consumer(ConsumerOffsets):
    """Reads records, alone or as a member of a group.

    ```python
    async with Consumer("orders", bootstrap_servers="localhost:9092", group_id="billing") as consumer:
        async for record in consumer:
            print(record.key, record.value)
    ```

    Topics are separate arguments; for a list of them write ``Consumer(*topics, …)``.

    Asking for the next records says that the ones before are finished: only those are committed automatically, and
    only then does a rebalance take partitions away. If the body of an ``async with`` raises, the records that it was
    working on stay uncommitted.

    A call that is cancelled (``asyncio.timeout``, ``wait_for``) has taken no records: nothing is lost by it.

    One task should read at a time: a second one's call would say that the first one is finished.

    Args:
        topics: names to subscribe to, as separate arguments; the same as `subscribe` before `start`.
        options: those of `ConsumerOptions`.

    Raises:
        OptionError: an unknown option, or a value that cannot be.
    """

    def __init__(self, *topics: str, **options: Any) -> None:
        for one in topics:
            if not given.is_name(one):
                raise OptionError(
                    f"topics={one!r}: allowed are names as separate arguments, such as Consumer('a', 'b'); "
                    "a list is written Consumer(*topics)"
                )
        self._options = ConsumerOptions.of(options)
        self._assignors = make_assignors(self._options.partition_assignment_strategy)
        self._subscription = SubscriptionState()
        self._listener: ConsumerRebalanceListener | None = None
        self._client: Client | None = None
        self._group: Coordinator | None = None
        self._gate = UserGate(lambda: self._subscription.unfinished)
        self._news = asyncio.Event()
        self._gate.on_passed = self._news.set
        self._error: KafkaError | None = None
        self._state = "new"
        if topics:
            self.subscribe(topics)

    # life

    async def start(self) -> None:
        """Connect to the cluster; with a subscription also join the group and wait for the first assignment.

        Raises:
            KafkaConnectionError: no bootstrap server can be reached.
            KafkaError: the group refuses this consumer.
        """
        if self._state != "new":
            raise ClientClosed(f"start() of a consumer that is {self._state}: make a new one")
        options = self._options
        self._client = client = Client(options, auto_create=options.allow_auto_create_topics)
        client.all_topics = self._subscription.pattern is not None
        self._watch_assigned(client)
        self._fetcher = Fetcher(client, self._subscription, options, self._news.set, self._positions_wanted)
        committed = None
        if options.group_id is not None:
            self._group = Coordinator(
                client,
                self._subscription,
                options,
                options.group_id,
                self._assignors,
                self._gate,
                self._assignment_changed,
            )
            self._group.handover.on_committed = self._committed
            committed = self._committed_for_positions
        self._positions = Positions(
            client, self._subscription, options, committed, self._positions_found, self._background_error
        )
        client.on_metadata.append(self._metadata_changed)
        try:
            await client.start()
            self._state = "running"
            if self._group is not None:
                self._group.start()
            self._apply_subscription()
            if self._group is not None and self._subscription.auto_assigned:
                self._enter()
                try:
                    await self._group.wait_assigned()
                finally:
                    self._leave()
        except BaseException:
            # Whoever was on the way into the group leaves it: the other members would wait for it.
            if self._state == "running":
                await self.stop(finished=False)
            self._state = "stopped"
            await client.close()
            raise

    async def stop(self, *, finished: bool = True) -> None:
        """Commit what is finished (if enable_auto_commit), leave the group, and close. A second call does nothing.

        Args:
            finished: whether you are done with the records that you got last; False leaves them uncommitted.
        """
        if self._state != "running" or self._client is None:
            self._state = "stopped"
            return
        self._state = "stopping"
        if finished:
            self._subscription.finish()
        self._gate.force()
        try:
            if self._group is not None:
                await self._group.close()
        finally:
            self._state = "stopped"
            self._fetcher.close()
            await self._client.close()
            self._news.set()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.stop(finished=exc is None)

    # subscription

    def subscribe(
        self,
        topics: Iterable[str] = (),
        pattern: str | re.Pattern[str] | None = None,
        listener: ConsumerRebalanceListener | None = None,
    ) -> None:
        """Subscribe to topics, or to all topics that a regular expression matches, in place of what was before.

        The group assigns partitions in the background.

        Args:
            topics: a list of names. A single text is refused, as it would be taken for its letters.
            pattern: a regular expression, matched from the first letter of a name on.
            listener: an object whose methods are called when partitions come and go.

        Raises:
            OptionError: neither or both of topics and pattern, no group_id, or partitions were assigned by hand.
        """
        names = given.several("topics", topics, str)
        if bool(names) == (pattern is not None):
            raise OptionError("subscribe() takes either topics or a pattern")
        if self._options.group_id is None:
            raise OptionError("group_id=None: topics need a group_id; without one, assign() chooses the partitions")
        if listener is not None and not isinstance(listener, ConsumerRebalanceListener):
            raise OptionError(f"listener={listener!r}: allowed is a ConsumerRebalanceListener")
        if pattern is not None:
            self._subscription.subscribe_pattern(pattern)
        else:
            self._subscription.subscribe(names)
        self._listener = listener
        self._apply_subscription()

    def _apply_subscription(self) -> None:
        if self._group is not None and self._state == "running":
            self._group.handover.listener = self._listener
            self._group.subscription_changed()
        if self._client is not None and self._state == "running":
            self._watch_assigned(self._client)
            self._assignment_changed()

    def _watch_assigned(self, client: Client) -> None:
        client.topics.update(self._subscription.topics)
        client.topics.update(tp.topic for tp in self._subscription.assigned())

    def unsubscribe(self) -> asyncio.Future[None]:
        """Give up all partitions, and leave the group.

        Takes effect at once; what is returned may be awaited to see the commit, the listener and the leaving done.
        """
        done: asyncio.Future[None]
        if self._group is not None and self._state == "running" and self._subscription.auto_assigned:
            self._subscription.finish()
            done = self._group.unsubscribe()
        else:
            self._subscription.clear()
            done = asyncio.get_running_loop().create_future()
            done.set_result(None)
        return done

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Read exactly these partitions; no group assigns them. Partitions that were read before keep their positions.

        Raises:
            OptionError: the consumer has a subscription.
        """
        self._subscription.assign(given.partitions("partitions", partitions))
        self._apply_subscription()

    def subscription(self) -> frozenset[str]:
        """The topics subscribed to, by name or as the pattern matches."""
        return self._subscription.topics

    def assignment(self) -> set[TopicPartition]:
        """The partitions that this consumer has now."""
        return set(self._subscription.assigned())

    @property
    def unanswered_ms(self) -> float:
        """The time in ms for which no broker has answered; 0 while one answers. The client goes on asking."""
        return 0.0 if self._client is None else self._client.unanswered_ms

    @property
    def member_state(self) -> MemberState:
        """The state of this consumer in its group; UNJOINED without a group."""
        return MemberState.UNJOINED if self._group is None else self._group.member.state

    @property
    def member_id(self) -> str:
        """The member id that the coordinator gave; empty outside a group."""
        return "" if self._group is None else self._group.member.member_id

    @property
    def generation_id(self) -> int:
        """The group's generation as this consumer knows it; -1 outside one."""
        return -1 if self._group is None else self._group.member.generation_id

    def group_metadata(self) -> ConsumerGroupMetadata:
        """This consumer as a member of its group, for `Producer.send_offsets_to_transaction`.

        Take it when you take the records whose offsets it is for: then the coordinator refuses these offsets if the
        group has had another generation since. Without a subscription it is only the group's name, and nothing is
        refused.

        Set ``enable_auto_commit=False``: offsets that the consumer commits by itself stay committed when the
        transaction is aborted, and the records are not read again. The producer logs a warning if you do not.

        Raises:
            OptionError: there is no group_id.
            CommitFailed: the consumer is not in the group now; poll to join it again.
            FencedInstance: another consumer has this group_instance_id.
        """
        group_id = self._options.group_id
        if group_id is None:
            raise OptionError("group_id=None: offsets are committed for a group")
        made = AutoCommitting if self._options.enable_auto_commit else ConsumerGroupMetadata
        if not self._subscription.auto_assigned:
            return made(group_id)
        if self._group is not None and self._group.member.fenced is not None:
            raise self._group.member.fenced
        if not self.member_id or self.generation_id < 0:
            # Never without an identity: offsets of nobody in particular would be taken.
            raise CommitFailed("this consumer is not in the group; poll to join it again")
        return made(group_id, self.generation_id, self.member_id, self._options.group_instance_id)

    # records

    async def getmany(
        self, *partitions: TopicPartition, timeout_ms: float = 0, max_records: int | None = None
    ) -> Records:
        """The next records by partition; empty if there are none in time.

        Args:
            partitions: the partitions to take records of; by default all that are assigned.
            timeout_ms: how long to wait for the first record.
            max_records: the most records to return; by default max_poll_records.

        Raises:
            OptionError: max_records is less than 1.
            NoOffsetForPartition, OffsetOutOfRange: there is no place to begin, and auto_offset_reset is ``none``.
            RecordCorrupt, RecordNotReadable: a batch is damaged, or a deserializer raised.
            FencedInstance: another consumer has this group_instance_id.
            KafkaError: the group or the broker refuses this consumer.
            ClientClosed: the consumer does not run.
        """
        if max_records is not None and not (given.is_int(max_records) and max_records >= 1):
            raise OptionError(f"max_records={max_records!r}: allowed is at least 1")
        limit = self._options.max_poll_records if max_records is None else max_records
        only = frozenset(given.partitions("partitions", partitions)) or None
        self._enter()
        try:
            return self._intercepted(await self._next(limit, only, timeout_ms))
        finally:
            self._leave()

    async def poll(self, timeout_ms: float = 0, max_records: int | None = None) -> Records:
        """Kafka's name for `getmany` of all partitions. Raises as `getmany` does."""
        return await self.getmany(timeout_ms=timeout_ms, max_records=max_records)

    async def getone(self, *partitions: TopicPartition) -> ConsumerRecord[Any, Any]:
        """The next record; waits for it. Raises as `getmany` does."""
        only = frozenset(given.partitions("partitions", partitions)) or None
        self._enter()
        try:
            while True:
                records = self._intercepted(await self._next(1, only, None))
                for batch in records.values():
                    for record in batch:
                        return record
        finally:
            self._leave()

    def __aiter__(self) -> AsyncIterator[ConsumerRecord[Any, Any]]:
        return self

    async def __anext__(self) -> ConsumerRecord[Any, Any]:
        if self._state in ("stopping", "stopped"):
            raise StopAsyncIteration
        try:
            return await self.getone()
        except ClientClosed:
            raise StopAsyncIteration from None

    async def _next(self, limit: int, only: frozenset[TopicPartition] | None, timeout_ms: float | None) -> Records:
        """Take what is buffered, or wait for it. Nothing is awaited between taking and returning."""
        client = self._running()
        deadline = None if timeout_ms is None else client.now_ms() + timeout_ms
        while True:
            self._raise_errors()
            self._news.clear()
            if not self._gate.wanted and (records := self._fetcher.take(limit, only)):
                return records
            pause = None if deadline is None else (deadline - client.now_ms()) / 1000
            if pause is not None and pause <= 0:
                await asyncio.sleep(0)  # whoever asks without ever waiting lets the rest run
                return {}
            try:
                async with asyncio.timeout(pause):
                    await self._news.wait()
            except TimeoutError:
                pass
            self._running()

    def _enter(self) -> None:
        """A call for records begins: what was given out before is finished."""
        self._running()
        self._subscription.finish()
        self._gate.enter()
        if self._group is not None:
            self._group.entered_poll()

    def _leave(self) -> None:
        """A call for records ends."""
        self._gate.leave()
        if self._group is not None:
            self._group.left_poll()

    def _raise_errors(self) -> None:
        if self._group is not None:
            self._group.raise_error()
        if self._error is not None:
            error, self._error = self._error, None
            raise error
        self._positions.raise_if_without()

    def _intercepted(self, records: Records) -> Records:
        if records:
            for interceptor in self._options.interceptors:
                try:
                    records = interceptor.on_consume(records)
                except Exception:
                    log.exception("on_consume of %r failed", interceptor)
        return records

    def _committed(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        for interceptor in self._options.interceptors:
            try:
                interceptor.on_commit(offsets)
            except Exception:
                log.exception("on_commit of %r failed", interceptor)

    # what happens in the background

    def _running(self) -> Client:
        if self._state != "running" or self._client is None:
            raise ClientClosed(f"the consumer is {self._state}: call start() first, and nothing after stop()")
        return self._client

    def _assignment_changed(self) -> None:
        self._fetcher.forget()
        self._positions.poke()
        self._fetcher.poke()
        self._news.set()

    def _positions_wanted(self) -> None:
        self._positions.poke()

    def _positions_found(self) -> None:
        self._fetcher.poke()
        self._news.set()

    def _metadata_changed(self) -> None:
        self._positions.poke()
        self._fetcher.poke()

    def _background_error(self, error: KafkaError) -> None:
        self._error = error
        self._news.set()

    async def _committed_for_positions(
        self, partitions: list[TopicPartition]
    ) -> Mapping[TopicPartition, OffsetAndMetadata | None]:
        assert self._group is not None
        return await self._group.offsets.committed(partitions, self._options.default_api_timeout_ms)
