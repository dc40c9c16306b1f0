"""A shard of the group coordinator: the groups of one partition of ``__consumer_offsets``."""

from __future__ import annotations

from ottla.broker.core.coordination.machine import TimerKey
from ottla.broker.core.coordination.shard import Shard
from ottla.broker.core.groups.group import Group
from ottla.broker.core.groups.offsets.committed import CommittedOffset


class GroupShard(Shard):
    """Groups by id.

    Attributes:
        sweep: the deadline of the next look for expired offsets.
        tables: while the shard is loaded, the offsets of topics of groups by the beginning of their keys; see `replay`.
        transactions: producer id → the groups (an ordered set of ids) in which its open transaction commits offsets.
    """

    __slots__ = ("groups", "sweep", "tables", "transactions")

    def __init__(self, partition: int) -> None:
        super().__init__(partition)
        self.sweep: TimerKey | None = None
        self.clear()

    def clear(self) -> None:
        self.groups: dict[str, Group] = {}
        self.tables: dict[bytes, dict[int, CommittedOffset]] = {}
        self.transactions: dict[int, dict[str, None]] = {}

    def hold(self, group: Group, producer_id: int, topic: str, partition: int, committed: CommittedOffset) -> None:
        """Keep an offset of a group until the transaction of its producer ends."""
        group.offsets.hold(producer_id, topic, partition, committed)
        self.transactions.setdefault(producer_id, {})[group.group_id] = None
