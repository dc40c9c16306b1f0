"""The committed offsets of one group, and which of them have a write on its way.

An offset is visible once its record is durable, so the table changes only when an append succeeded; order in the
log and order of outcomes are the same. Decisions that depend on writes that are not durable yet (is there anything
to delete? does the group still hold offsets?) look at the count of writes on their way as well.

An offset that was committed in a transaction is durable but *pending* until the transaction ends (KIP-98). Then it is
stored, unless something newer was stored since its record was written, or dropped.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from sys import intern
from typing import Any, NamedTuple
from uuid import UUID

from msgspec import Struct

from ottla.broker.core.coordination.shard import Write
from ottla.protocol.primitives import ZERO_UUID


class Nothing(dict[Any, Any]):
    """A dict that stays empty: `NOTHING` stands where most groups have nothing, so that a quiet one takes little."""

    __slots__ = ()

    def __setitem__(self, key: Any, value: Any) -> None:
        raise TypeError("what is put here would be in every group")

    setdefault = update = __setitem__  # type: ignore[assignment]


NOTHING: dict[Any, Any] = Nothing()


class CommittedOffset(Struct, frozen=True, gc=False):
    """A committed offset of a partition. Timestamps are Unix milliseconds. There may be millions.

    Attributes:
        leader_epoch: -1 for none.
        expire_timestamp_ms: set by old clients that bring a retention of their own, else -1.
        topic_id: of the topic when it was committed. Zero where that is not known: offsets of transactions, those with
            an expiry of their own, and those of logs that older brokers wrote.
    """

    offset: int
    leader_epoch: int
    metadata: str
    commit_timestamp_ms: int
    expire_timestamp_ms: int = -1
    topic_id: UUID = ZERO_UUID

    def may_be_of(self, topic_id: UUID) -> bool:
        """Whether it was committed for the topic with that id, as far as either id is known (KIP-848)."""
        own = self.topic_id
        return own == topic_id or not own.int or not topic_id.int


class Pending(NamedTuple):
    """An offset of an open transaction.

    Attributes:
        number: rises with each one that the group gets; the order of their records.
        committed: None if it was overtaken: a later record of the log has stored or deleted the partition's offset.
    """

    number: int
    committed: CommittedOffset | None


Accepted = Sequence[tuple[str, int, CommittedOffset]]
"""Offsets with their topics and partitions."""


class CommittedOffsets:
    """Topic → partition → offset."""

    __slots__ = ("_number", "by_topic", "in_flight", "last_write", "pending")

    def __init__(self) -> None:
        self.by_topic: dict[str, dict[int, CommittedOffset]] = {}
        self.in_flight: dict[tuple[str, int], int] = NOTHING
        """How many records of a partition (commits and tombstones) are on their way."""
        self.last_write: Write[Any] | None = None
        """The write that carries the last of them."""
        self.pending: dict[int, dict[tuple[str, int], Pending]] = NOTHING
        """Producer id → what its open transaction has committed."""
        self._number = 0

    def __len__(self) -> int:
        return sum(len(partitions) for partitions in self.by_topic.values())

    def __bool__(self) -> bool:
        return bool(self.by_topic) or bool(self.in_flight) or bool(self.pending)

    def get(self, topic: str, partition: int) -> CommittedOffset | None:
        """The durable offset of a partition."""
        partitions = self.by_topic.get(topic)
        return None if partitions is None else partitions.get(partition)

    def written(self, accepted: Accepted) -> Accepted:
        """Take offsets in whose records are durable now, the last ones of the log; returns what those were before that
        have moved back.
        """
        in_flight, by_topic = self.in_flight, self.by_topic
        moved_back: list[tuple[str, int, CommittedOffset]] = []
        for topic, partition, committed in accepted:
            key = topic, partition
            if left := in_flight[key] - 1:
                in_flight[key] = left
            else:
                del in_flight[key]
            table = by_topic.get(topic)
            if table is None:
                table = self.table(topic)
            before = table.get(partition)
            table[partition] = committed
            if before is not None and before.offset > committed.offset:
                moved_back.append((topic, partition, before))
            if self.pending:
                self._overtake(topic, partition, self._number)
        if not in_flight:
            self._none_in_flight()
        return moved_back

    def store(self, topic: str, partition: int, committed: CommittedOffset) -> None:
        """Replace the offset of a partition by the record that is the last one in the log."""
        self._put(topic, partition, committed)
        if self.pending:
            self._overtake(topic, partition, self._number)

    def _put(self, topic: str, partition: int, committed: CommittedOffset) -> None:
        self.table(topic)[partition] = committed

    def table(self, topic: str) -> dict[int, CommittedOffset]:
        """The durable offsets of a topic by partition, in which at least one is put if there is none."""
        table = self.by_topic.get(topic)
        if table is None:
            table = self.by_topic[intern(topic)] = {}
        return table

    def _overtake(self, topic: str, partition: int, number: int) -> None:
        """Give up pending offsets with a number up to this one: they will not be stored any more."""
        key = topic, partition
        for table in self.pending.values():
            pending = table.get(key)
            if pending is not None and pending.number <= number:
                table[key] = Pending(pending.number, None)

    def discard(self, topic: str, partition: int) -> None:
        """Forget the offset of a partition, and what is pending for it."""
        partitions = self.by_topic.get(topic)
        if partitions is not None and partitions.pop(partition, None) is not None and not partitions:
            del self.by_topic[topic]
        for producer_id in list(self.pending):
            table = self.pending[producer_id]
            if table.pop((topic, partition), None) is not None and not table:
                del self.pending[producer_id]

    def hold(self, producer_id: int, topic: str, partition: int, committed: CommittedOffset) -> None:
        """Keep an offset until the transaction of its producer ends; it takes the place of an earlier one of it."""
        self._number += 1
        if self.pending is NOTHING:
            self.pending = {}
        self.pending.setdefault(producer_id, {})[topic, partition] = Pending(self._number, committed)

    def end_transaction(self, producer_id: int, *, commit: bool) -> int:
        """Store what is pending for a producer, or drop it; returns how many offsets were stored."""
        stored = 0
        for (topic, partition), pending in self.pending.pop(producer_id, {}).items():
            if commit and pending.committed is not None:
                self._put(topic, partition, pending.committed)
                self._overtake(topic, partition, pending.number)
                stored += 1
        return stored

    def pending_partitions(self) -> set[tuple[str, int]]:
        """The partitions whose offset some open transaction may change."""
        return {key for table in self.pending.values() for key in table}

    def items(self) -> Iterator[tuple[str, int, CommittedOffset]]:
        """All durable offsets."""
        for topic, partitions in self.by_topic.items():
            for partition, committed in partitions.items():
                yield topic, partition, committed

    def known_partitions(self) -> list[tuple[str, int]]:
        """The partitions with an offset that is durable, pending or on its way."""
        known = dict.fromkeys((topic, partition) for topic, partition, _ in self.items())
        for table in self.pending.values():
            known.update(dict.fromkeys(table))
        known.update(dict.fromkeys(self.in_flight))
        return list(known)

    def known_partitions_of(self, topic: str, topic_id: UUID) -> list[int]:
        """The partitions of a topic with an offset that is durable, pending or on its way.

        What is durable and known to be of another topic of that name, which was there before or came after, is not.
        """
        durable = self.by_topic.get(topic, {})
        known = dict.fromkeys(index for index, committed in durable.items() if committed.may_be_of(topic_id))
        for table in self.pending.values():
            known.update(dict.fromkeys(partition for name, partition in table if name == topic))
        known.update(dict.fromkeys(partition for name, partition in self.in_flight if name == topic))
        return list(known)

    def is_known(self, topic: str, partition: int) -> bool:
        """Whether there is an offset that is durable, pending or on its way."""
        key = topic, partition
        return (
            key in self.in_flight
            or self.get(topic, partition) is not None
            or any(key in table for table in self.pending.values())
        )

    def writes_begin(self, accepted: Accepted) -> None:
        """Records of these offsets are on their way."""
        in_flight = self.begun()
        for topic, partition, _ in accepted:
            key = topic, partition
            in_flight[key] = in_flight.get(key, 0) + 1

    def begun(self) -> dict[tuple[str, int], int]:
        """The table of what is on its way, to add to."""
        if self.in_flight is NOTHING:
            self.in_flight = {}
        return self.in_flight

    def write_begins(self, topic: str, partition: int) -> None:
        """A record for the partition is on its way."""
        self.begun()[topic, partition] = self.in_flight.get((topic, partition), 0) + 1

    def write_ends(self, topic: str, partition: int) -> None:
        """It is durable or has failed."""
        left = self.in_flight[topic, partition] - 1
        if left:
            self.in_flight[topic, partition] = left
        else:
            del self.in_flight[topic, partition]
            if not self.in_flight:
                self._none_in_flight()

    def _none_in_flight(self) -> None:
        # The last write has its request and all that waited for it.
        self.in_flight, self.last_write = NOTHING, None
