"""The states of a membership, and what it asks its shell to do."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from uuid import UUID

from ottla.clients.assignors import MemberSubscription
from ottla.clients.errors import KafkaError
from ottla.protocol.records import TopicPartition
from ottla.protocol.schema import Message


class MemberState(Enum):
    """The state of a consumer in its group, in Kafka's names."""

    UNJOINED = "UNJOINED"
    """Not in the group."""
    PREPARING_REBALANCE = "PREPARING_REBALANCE"
    """JoinGroup was sent, its answer awaited."""
    COMPLETING_REBALANCE = "COMPLETING_REBALANCE"
    """In a generation, its assignment awaited."""
    JOINING = "JOINING"
    """The first heartbeat of the ``consumer`` protocol was sent, its answer awaited."""
    RECONCILING = "RECONCILING"
    """In a group of the ``consumer`` protocol, while partitions are given up or taken over."""
    STABLE = "STABLE"
    """In the group, with an assignment."""


class Step(Enum):
    """The step that a member waits for on its way into a generation."""

    IDLE = "nothing"
    PREPARING = "the shell, to give up what must be given up before joining"
    JOINING = "the answer to JoinGroup"
    LEADING = "the shell, for partition counts and the assignor"
    SYNCING = "the answer to SyncGroup"
    COMPLETING = "the shell, to take over the assignment"


@dataclass(frozen=True, slots=True)
class Sent:
    """Identifies a request in flight, so that the machine can tell what its answer is worth."""

    attempt: int
    generation_id: int
    member_id: str


@dataclass(frozen=True, slots=True)
class FindCoordinator:
    """Look up the group's coordinator, then call ``coordinator_found`` or ``coordinator_not_found``."""


@dataclass(frozen=True, slots=True)
class CoordinatorLost:
    """Do not use this coordinator any more: close its connection."""

    node_id: int
    reason: str


@dataclass(frozen=True, slots=True)
class Send:
    """Send a request to the coordinator, then call ``answered`` or ``not_answered``.

    ``fresh``: on a new connection, as the broker may hold back the answer to what was sent on the old one.
    ``low``: the lowest version of the API that says what is meant.
    """

    request: Message
    sent: Sent
    timeout_ms: float
    fresh: bool = False
    low: int = 0


@dataclass(frozen=True, slots=True)
class Prepare:
    """Commit, call the rebalance listener, give up partitions; then call ``prepared``."""


@dataclass(frozen=True, slots=True)
class Lead:
    """This member leads: let the assignor divide the partitions of ``topics``, then call ``led``."""

    protocol_name: str
    members: dict[str, MemberSubscription]
    topics: frozenset[str]


@dataclass(frozen=True, slots=True)
class LookUp:
    """The assignment names topics by ids that are not known: find their names, then call ``looked_up``."""

    topic_ids: tuple[UUID, ...]


@dataclass(frozen=True, slots=True)
class Complete:
    """Take over the assignment and call the rebalance listener; then call ``completed``."""

    partitions: list[TopicPartition]
    generation_id: int
    protocol_name: str


@dataclass(frozen=True, slots=True)
class Fail:
    """Raise this error from the user's next call. After that, ``resume`` makes the member try again."""

    error: KafkaError


Effect = FindCoordinator | CoordinatorLost | Send | Prepare | Lead | LookUp | Complete | Fail
