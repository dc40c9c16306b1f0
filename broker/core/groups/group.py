"""The parts that groups of every kind have: an id, a shard, committed offsets, and what the rest of the broker asks."""

from __future__ import annotations

from collections.abc import Container, Iterable
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol
from uuid import UUID

from ottla.broker.core.coordination.shard import Shard, Write
from ottla.broker.core.groups.offsets.committed import CommittedOffsets
from ottla.protocol.errors import ErrorCode

GROUP_BYTES = 1_024
"""Bytes that a group takes besides its id and its members, roughly."""

MEMBER_BYTES = 1_024
"""Bytes that a member takes besides texts and bytes of clients, roughly."""


def text_bytes(text: str | None) -> int:
    """The bytes of memory that a text takes at most."""
    return 0 if text is None else len(text) if text.isascii() else 4 * len(text)


def group_bytes(group_id: str) -> int:
    """The bytes of memory that a group without members takes, roughly."""
    return GROUP_BYTES + text_bytes(group_id)


class HasSession(Protocol):
    """Somebody who is taken for gone when nothing is heard of him for so long.

    Attributes:
        session_deadline_ms: when the session ends. The purgatory may have an earlier time and looks here then: a
            heartbeat only stores this integer.
    """

    session_deadline_ms: int

    @property
    def member_id(self) -> str: ...
    @property
    def session_timeout_ms(self) -> int: ...


@dataclass(slots=True, eq=False)
class Group:
    """A group of any kind. What its members are to each other is a matter of the kind.

    Attributes:
        noted_bytes: how much of `held_bytes` `Machine.weigh` has taken note of.
    """

    kind: ClassVar[str]
    """The kind, as ListGroups calls it."""

    group_id: str
    shard: Shard
    offsets: CommittedOffsets
    noted_bytes: int = field(default=0, init=False)

    def awaited_by_fetches(self) -> list[Write[Any]]:
        """The writes after which offsets are as stable as they can be."""
        offsets = self.offsets
        return [offsets.last_write] if offsets.in_flight and offsets.last_write is not None else []

    # Left to the kind

    @property
    def held_bytes(self) -> int:
        """What the group takes in memory, roughly; issued ids and offsets are not in it."""
        raise NotImplementedError

    @property
    def protocol_type(self) -> str | None:
        """``consumer``, or what else the members are; None for a group that only stores offsets."""
        raise NotImplementedError

    @property
    def generation(self) -> int:
        """Rises with each change of the membership; a consumer group's is its epoch."""
        raise NotImplementedError

    @property
    def shown_state(self) -> str:
        """The state as others are told of it; empty as long as they are not told of the group at all."""
        raise NotImplementedError

    @property
    def is_gone(self) -> bool:
        """Whether there is no such group any more, or not yet: what is left of it is to be forgotten."""
        raise NotImplementedError

    @property
    def member_count(self) -> int:
        raise NotImplementedError

    @property
    def is_empty(self) -> bool:
        """Whether it has no members."""
        raise NotImplementedError

    @property
    def has_writes(self) -> bool:
        """Whether records of the group itself are on their way."""
        raise NotImplementedError

    @property
    def has_sessions(self) -> bool:
        """Whether commits of members keep their sessions alive in this state."""
        raise NotImplementedError

    def session_of(self, member_id: str) -> HasSession | None:
        """The member that is looked after under an id."""
        raise NotImplementedError

    def refuse_fetch(self, member_id: str | None, epoch: int, *, stable: bool) -> ErrorCode:
        """Why offsets may not be fetched, NONE if they may.

        Args:
            member_id: None for somebody who names no member; then the epoch is negative, too.
            stable: the answer waits for what is on its way.
        """
        raise NotImplementedError

    def refuse_commit(
        self, member_id: str, group_instance_id: str | None, generation: int, api_version: int
    ) -> ErrorCode:
        """Why offsets may not be committed, NONE if they may. A negative generation is nobody's."""
        raise NotImplementedError

    def refuse_transactional_commit(self, member_id: str, group_instance_id: str | None, generation: int) -> ErrorCode:
        """Why offsets may not be committed in a transaction, NONE if they may."""
        raise NotImplementedError

    def refuse_older(self, member_id: str, epoch: int, partitions: Iterable[tuple[UUID, int]]) -> ErrorCode:
        """Why offsets may not be committed for which a member has a STALE_MEMBER_EPOCH, NONE if they may.

        Args:
            epoch: that the member named.
            partitions: topic ids, and numbers of partitions.
        """
        raise NotImplementedError

    def is_subscribed(self, topic: str) -> bool:
        """Whether the members use a topic. If that is not known, consumers are taken to."""
        raise NotImplementedError

    def expiry_rule(self) -> tuple[int | None, Container[str]] | None:
        """How the offsets age; None if they do not.

        Returns:
            The Unix time in ms from which on their age counts, None if that is the time of each one's commit; and the
            topics whose offsets do not age.
        """
        raise NotImplementedError
