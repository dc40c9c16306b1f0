"""The half of the consumer that is about offsets: positions, commits, and questions about logs."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping

from ottla.clients import given
from ottla.clients.client import Client
from ottla.clients.coordinator import Coordinator
from ottla.clients.errors import ClientClosed, KafkaTimeout, OptionError
from ottla.clients.fetcher import Fetcher
from ottla.clients.offsets import list_offsets
from ottla.clients.options import ConsumerOptions
from ottla.clients.positions import Positions
from ottla.clients.structs import OffsetAndMetadata, OffsetAndTimestamp
from ottla.clients.subscription import EARLIEST, LATEST, PartitionState, SubscriptionState
from ottla.protocol.records import TopicPartition

Committable = Mapping[TopicPartition, int | OffsetAndMetadata | tuple[int, str]]


class ConsumerOffsets:
    """See `ottla.clients.consumer.Consumer`, which is what to use."""

    _options: ConsumerOptions
    _subscription: SubscriptionState
    _group: Coordinator | None
    _fetcher: Fetcher
    _positions: Positions

    def _running(self) -> Client:
        raise NotImplementedError

    # positions

    async def position(self, tp: TopicPartition) -> int:
        """The offset of the next record that will be given out.

        Raises:
            OptionError: the partition is not assigned.
            NoOffsetForPartition: there is none, and auto_offset_reset is ``none``.
            KafkaTimeout: it could not be found out within default_api_timeout_ms.
        """
        client = self._running()
        state = self._subscription.state(tp)
        deadline = client.now_ms() + self._options.default_api_timeout_ms
        while state.position is None:
            self._positions.poke()
            if state.without_offset:
                self._positions.raise_if_without()
            pause = (deadline - client.now_ms()) / 1000
            if pause <= 0:
                raise KafkaTimeout(f"no position for {tp[0]}-{tp[1]} within default_api_timeout_ms")
            self._positions.changed.clear()
            try:
                async with asyncio.timeout(pause):
                    await self._positions.changed.wait()
            except TimeoutError:
                continue
            state = self._subscription.state(tp)
        return state.position

    def seek(self, tp: TopicPartition, offset: int) -> None:
        """Go on reading a partition at an offset.

        Raises:
            OptionError: the partition is not assigned, or the offset is negative.
        """
        if not isinstance(offset, int) or isinstance(offset, bool) or offset < 0:
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
        if self._client_or_none() is not None:
            self._positions.poke()
            self._fetcher.poke()

    def _client_or_none(self) -> Client | None:
        try:
            return self._running()
        except ClientClosed:
            return None

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
        self._running()
        group = self._need_group("commit()")
        wanted: dict[TopicPartition, OffsetAndMetadata] = {}
        if offsets is None:
            for state in self._subscription.states():
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
        self._running()
        group = self._need_group("committed()")
        wanted = given.partitions("partitions", partitions)
        return await group.offsets.committed(wanted, self._options.default_api_timeout_ms)

    def _need_group(self, what: str) -> Coordinator:
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
