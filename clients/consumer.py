"""The consumer: one partition's records or a group's share, with aiokafka's methods and Kafka's ``poll``."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Iterable, Mapping
from typing import Any

from ottla.clients import given
from ottla.clients.assignors import make_assignors
from ottla.clients.client import Client
from ottla.clients.coordinator import Coordinator
from ottla.clients.errors import ClientClosed, CommitFailed, KafkaError, KafkaTimeout, OptionError
from ottla.clients.fetcher import Fetcher
from ottla.clients.gate import UserGate
from ottla.clients.group_effects import MemberState
from ottla.clients.life import Life
from ottla.clients.listener import ConsumerRebalanceListener
from ottla.clients.logs import log
from ottla.clients.offsets import list_offsets
from ottla.clients.options import ConsumerOptions
from ottla.clients.positions import Positions
from ottla.clients.structs import (
    EARLIEST,
    LATEST,
    AutoCommitting,
    ConsumerGroupMetadata,
    ConsumerRecord,
    OffsetAndMetadata,
    OffsetAndTimestamp,
    Records,
)
from ottla.clients.subscription import PartitionState, SubscriptionState
from ottla.clients.tasks import set_within
from ottla.protocol.records import TopicPartition

Committable = Mapping[TopicPartition, int | OffsetAndMetadata | tuple[int, str]]


class Consumer(Life[ConsumerOptions]):
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

    _noun = "consumer"

    def __init__(self, *topics: str, **options: Any) -> None:
        for one in topics:
            if not given.is_name(one):
                raise OptionError(
                    f"topics={one!r}: allowed are names as separate arguments, such as Consumer('a', 'b'); "
                    "a list is written Consumer(*topics)"
                )
        super().__init__(ConsumerOptions.of(options))
        self._assignors = make_assignors(self._options.partition_assignment_strategy)
        self._subscription = SubscriptionState()
        self._listener: ConsumerRebalanceListener | None = None
        self._group: Coordinator | None = None
        self._gate = UserGate(lambda: self._subscription.unfinished)
        self._news = asyncio.Event()
        self._gate.on_passed = self._news.set
        self._error: KafkaError | None = None
        if topics:
            self.subscribe(topics)

    # life

    async def start(self) -> None:
        """Connect to the cluster; with a subscription also join the group and wait for the first assignment.

        With ``group_protocol="consumer"`` and a pattern the first assignment is empty as a rule: the broker matches the
        pattern after it has answered. The partitions come with a later heartbeat.

        Raises:
            KafkaConnectionError: no bootstrap server can be reached.
            KafkaError: the group refuses this consumer.
        """
        options = self._options
        async with self._starting(auto_create=options.allow_auto_create_topics) as client:
            client.all_topics = self._subscription.pattern is not None
            self._watch_assigned(client)
            self._fetcher = Fetcher(client, self._subscription, self._news.set, lambda: self._positions.poke())
            group_offsets = None
            if options.group_id is not None:
                self._group = Coordinator(
                    client, self._subscription, self._assignors, self._gate, self._assignment_changed
                )
                self._group.handover.on_committed = self._committed
                group_offsets = self._group.offsets
            self._positions = Positions(
                client, self._subscription, group_offsets, self._positions_found, self._background_error
            )
            client.on_metadata.append(self._poke)
            await client.start()
            self._state = "running"  # if joining the group fails, stop() leaves it: the other members would wait
            if self._group is not None:
                self._group.start()
            self._apply_subscription()
            if self._group is not None and self._subscription.auto_assigned:
                self._enter()
                try:
                    await self._group.wait_assigned()
                finally:
                    self._leave()

    async def stop(self, *, finished: bool = True) -> None:
        """Commit what is finished (if enable_auto_commit), leave the group, and close. A second call does nothing.

        Args:
            finished: False if you are not done with the records that you got last; they stay uncommitted then.
        """
        await self._stop(lambda: self._leave_group(finished))

    async def _exit(self, *, finished: bool) -> None:
        await self.stop(finished=finished)

    async def _leave_group(self, finished: bool) -> None:
        if finished:
            self._subscription.finish()
        self._gate.force()
        try:
            if self._group is not None:
                await self._group.close()
        finally:
            self._fetcher.close()
            self._news.set()

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
            pattern: a regular expression, matched from the first letter of a name on. With
                ``group_protocol="consumer"`` the broker matches it: then it is one of RE2, and must match the whole
                name, so write ``orders-.*`` for what begins with ``orders-``.
            listener: a `ConsumerRebalanceListener`, whose methods are called when partitions come and go.

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
        if pattern is not None and self._options.by_broker:
            self._subscription.subscribe_regex(pattern)
        elif pattern is not None:
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

    def _watch_assigned(self, client: Client[ConsumerOptions]) -> None:
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
        """The topics subscribed to, by name or as the pattern matches. Where the broker matches it, those assigned."""
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
        """The member id; empty outside a group. The protocol ``consumer`` keeps it as long as the consumer lives."""
        return "" if self._group is None else self._group.member.member_id

    @property
    def generation_id(self) -> int:
        """The group's generation as this consumer knows it, or its member epoch (``consumer``); -1 outside a group."""
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
            timeout_ms: the longest wait for the first record.
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
            await set_within(self._news, pause)
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

    # positions

    async def position(self, tp: TopicPartition) -> int:
        """The offset of the next record that will be given out.

        Raises:
            OptionError: the partition is not assigned.
            NoOffsetForPartition: there is none, and auto_offset_reset is ``none``.
            KafkaTimeout: it could not be found out within default_api_timeout_ms.
        """
        client = self._running(or_stopping=True)
        state = self._subscription.state(tp)
        deadline = client.now_ms() + self._options.default_api_timeout_ms
        while state.position is None:
            self._positions.poke()
            if state.without_offset:
                self._positions.raise_if_without()
            left_ms = deadline - client.now_ms()
            if left_ms <= 0:
                raise KafkaTimeout(f"no position for {tp[0]}-{tp[1]} within default_api_timeout_ms")
            self._positions.changed.clear()
            await set_within(self._positions.changed, left_ms / 1000)
            state = self._subscription.state(tp)
        return state.position

    def seek(self, tp: TopicPartition, offset: int) -> None:
        """Go on reading a partition at an offset.

        Raises:
            OptionError: the partition is not assigned, or the offset is negative.
        """
        if not given.is_int(offset) or offset < 0:
            raise OptionError(f"offset={offset!r}: allowed is an integer from 0")
        self._subscription.state(tp).seek(offset)
        self._poke()

    async def seek_to_beginning(self, *partitions: TopicPartition) -> None:
        """Go on reading at the first record of each partition; by default of all that are assigned."""
        await self._seek_to(partitions, EARLIEST)

    async def seek_to_end(self, *partitions: TopicPartition) -> None:
        """Go on reading behind the last record of each partition; by default of all that are assigned."""
        await self._seek_to(partitions, LATEST)

    async def _seek_to(self, partitions: Iterable[TopicPartition], where: int) -> None:
        states = self._states(partitions)
        for state in states:
            state.request_reset(where)
        for state in states:
            await self.position(state.tp)

    async def seek_to_committed(self, *partitions: TopicPartition) -> dict[TopicPartition, int | None]:
        """Go on reading at the committed offsets, which are returned; a partition without one stays where it is."""
        states = self._states(partitions)
        found = await self.committed_offsets([state.tp for state in states])
        for tp, committed in found.items():
            if committed is not None:
                self._subscription.state(tp).seek(committed.offset, committed.leader_epoch)
        self._poke()
        return {tp: None if committed is None else committed.offset for tp, committed in found.items()}

    def pause(self, *partitions: TopicPartition) -> None:
        """Give out no records of these partitions until `resume`; they stay assigned."""
        for tp in partitions:
            self._subscription.state(tp).paused = True

    def resume(self, *partitions: TopicPartition) -> None:
        """Give out records of these partitions again."""
        for tp in partitions:
            self._subscription.state(tp).paused = False
        self._poke()

    def paused(self) -> set[TopicPartition]:
        """The partitions that are paused."""
        return {state.tp for state in self._subscription.states() if state.paused}

    def _states(self, partitions: Iterable[TopicPartition]) -> list[PartitionState]:
        chosen = list(partitions) or self._subscription.assigned()
        return [self._subscription.state(tp) for tp in chosen]

    def _poke(self) -> None:
        if self._state == "running":
            self._positions.poke()
            self._fetcher.poke()

    # commits

    async def commit(self, offsets: Committable | None = None) -> None:
        """Commit offsets; by default of everything that was given out.

        Waits for a rebalance under way, unless that takes the partitions away.

        Args:
            offsets: by partition the next offset to read, alone or with metadata. It need not be this consumer's
                position.

        Raises:
            CommitFailed: this consumer is no longer a member, or no longer owns the partitions.
            KafkaError: the offsets are refused.
            OptionError: there is no group_id.
        """
        group = self._need_group("commit()")
        wanted: dict[TopicPartition, OffsetAndMetadata] = {}
        if offsets is None:
            for state in (*self._subscription.released.values(), *self._subscription.states()):
                if state.position is not None:
                    wanted[state.tp] = OffsetAndMetadata(state.position, "", state.position_epoch)
        else:
            wanted = given.offsets(offsets)
        await group.offsets.commit(wanted, self._options.default_api_timeout_ms)
        group.handover.committed(wanted)

    async def committed(self, tp: TopicPartition) -> int | None:
        """The committed offset of a partition, None if there is none."""
        found = (await self.committed_offsets([tp]))[given.partition(tp)]
        return None if found is None else found.offset

    async def committed_offsets(
        self, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """The committed offsets with their metadata, None where there is none.

        Raises:
            OptionError: there is no group_id.
        """
        group = self._need_group("committed()")
        wanted = given.partitions("partitions", partitions)
        return await group.offsets.committed(wanted, self._options.default_api_timeout_ms)

    def _need_group(self, what: str) -> Coordinator:
        self._running(or_stopping=True)
        if self._group is None:
            raise OptionError(f"group_id=None: {what} needs a group")
        return self._group

    # logs

    async def offsets_for_times(
        self, timestamps: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """By partition the first record at or after a time (Unix ms); None if there is none.

        Raises:
            OptionError: a time is negative.
            KafkaTimeout: no answer within default_api_timeout_ms.
        """
        wanted = given.by_partition("timestamps", timestamps)
        for tp, timestamp in wanted.items():
            if not given.is_int(timestamp) or timestamp < 0:
                raise OptionError(f"timestamp={timestamp!r} of {tp[0]}-{tp[1]}: allowed is a Unix time in ms, from 0")
        found = await self._list(wanted)
        return {tp: None if one.offset < 0 else one for tp, one in found.items()}

    async def beginning_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """By partition the first offset that can be read. Raises KafkaTimeout after default_api_timeout_ms."""
        found = await self._list(dict.fromkeys(given.partitions("partitions", partitions), EARLIEST))
        return {tp: one.offset for tp, one in found.items()}

    async def end_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """By partition the offset behind the last record that can be read. Raises KafkaTimeout as above."""
        found = await self._list(dict.fromkeys(given.partitions("partitions", partitions), LATEST))
        return {tp: one.offset for tp, one in found.items()}

    async def _list(self, wanted: Mapping[TopicPartition, int]) -> dict[TopicPartition, OffsetAndTimestamp]:
        return await list_offsets(
            self._running(),
            wanted,
            read_committed=self._options.read_committed,
            timeout_ms=self._options.default_api_timeout_ms,
        )

    def highwater(self, tp: TopicPartition) -> int | None:
        """The end of the log when a fetch last saw it; None before the first fetch."""
        return self._subscription.state(tp).high_watermark

    def last_stable_offset(self, tp: TopicPartition) -> int | None:
        """The end of what transactions have committed in the log, when a fetch last saw it; None before the first."""
        return self._subscription.state(tp).last_stable_offset

    async def topics(self) -> set[str]:
        """The names of all topics, internal ones included."""
        answer = await self._running().ask(None)
        return {topic.name for topic in answer.topics if topic.name is not None and not topic.error_code}

    async def partitions_for_topic(self, topic: str) -> set[int]:
        """The numbers of a topic's partitions. Raises KafkaTimeout after default_api_timeout_ms."""
        return set(await self._running().topic_partitions(topic, self._options.default_api_timeout_ms))

    # what happens in the background

    def _assignment_changed(self) -> None:
        self._fetcher.forget()
        self._positions.poke()
        self._positions_found()

    def _positions_found(self) -> None:
        self._fetcher.poke()
        self._news.set()

    def _background_error(self, error: KafkaError) -> None:
        self._error = error
        self._news.set()
