"""A shard: the groups of one partition of ``__consumer_offsets``, and whether this broker answers for them."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING

from ottla.protocol.errors import ErrorCode

if TYPE_CHECKING:
    from ottla.broker.core.groups.committed import CommittedOffset
    from ottla.broker.core.groups.group import Group
    from ottla.broker.core.groups.machine import Write


class ShardState(enum.StrEnum):
    """Whether the shard can answer."""

    ABSENT = "not owned"
    LOADING = "loading"
    ACTIVE = "loaded"
    FAILED = "failed to load"


_REFUSALS: dict[ShardState, ErrorCode] = {
    ShardState.ABSENT: ErrorCode.NOT_COORDINATOR,
    ShardState.LOADING: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ShardState.ACTIVE: ErrorCode.NONE,
    ShardState.FAILED: ErrorCode.NOT_COORDINATOR,
}


class Shard:
    """Groups by id, and the writes whose outcome is not known yet, in the order of the log.

    Attributes:
        epoch: the leader epoch under which the partition was taken or given up last.
        in_flight: an ordered set.
        transactions: producer id → the groups (an ordered set of ids) in which its open transaction commits offsets.
    """

    __slots__ = ("epoch", "groups", "in_flight", "partition", "refusal", "state", "transactions")

    def __init__(self, partition: int) -> None:
        self.partition = partition
        self.state = ShardState.ABSENT
        self.refusal = ErrorCode.NOT_COORDINATOR
        self.epoch = -1
        self.groups: dict[str, Group] = {}
        self.in_flight: dict[Write, None] = {}
        self.transactions: dict[int, dict[str, None]] = {}

    def become(self, state: ShardState) -> None:
        """Change the state and what requests hear in it (``refusal``, NONE if they are served)."""
        self.state = state
        self.refusal = _REFUSALS[state]

    def clear(self) -> None:
        """Drop what was known of groups."""
        self.groups = {}
        self.transactions = {}

    def hold(self, group: Group, producer_id: int, topic: str, partition: int, committed: CommittedOffset) -> None:
        """Keep an offset of a group until the transaction of its producer ends."""
        group.offsets.hold(producer_id, topic, partition, committed)
        self.transactions.setdefault(producer_id, {})[group.group_id] = None

    def __repr__(self) -> str:
        return f"<Shard {self.partition} {self.state}>"
