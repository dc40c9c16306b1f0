"""Values that the admin client takes and returns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from uuid import UUID

from ottla.clients.structs import BrokerInfo
from ottla.protocol.records import TopicPartition


@dataclass(frozen=True, slots=True)
class NewTopic:
    """A topic to create. Counts of -1 are the broker's defaults.

    ``replica_assignments`` names the brokers of each partition, in place of the counts.
    """

    name: str
    num_partitions: int = -1
    replication_factor: int = -1
    topic_configs: Mapping[str, str | None] = field(default_factory=dict)
    replica_assignments: Mapping[int, list[int]] | None = None


@dataclass(frozen=True, slots=True)
class CreatedTopic:
    """A topic that was created, or with ``validate_only`` would have been."""

    name: str
    topic_id: UUID
    num_partitions: int
    replication_factor: int
    configs: dict[str, str | None]


@dataclass(frozen=True, slots=True)
class ConfigEntry:
    """One setting. ``source`` and ``config_type`` are Kafka's numbers (KIP-226, KIP-569)."""

    name: str
    value: str | None
    source: int
    read_only: bool
    is_sensitive: bool
    config_type: int = 0
    documentation: str | None = None

    @property
    def is_default(self) -> bool:
        """Nobody set it."""
        return self.source == 5


@dataclass(frozen=True, slots=True)
class ConfigChange:
    """A change of a setting: ``set``, ``delete`` (no value), or for lists ``append`` and ``subtract``."""

    operation: str
    value: str | None = None


@dataclass(frozen=True, slots=True)
class TransactionListing:
    """A transactional id in brief. ``state`` is Kafka's word, e.g. ``Ongoing`` or ``CompleteCommit``."""

    transactional_id: str
    producer_id: int
    state: str
    coordinator_id: int


@dataclass(frozen=True, slots=True)
class TransactionDescription:
    """A transactional id in detail. ``start_time_ms`` is None, and partitions are empty, outside a transaction."""

    transactional_id: str
    state: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    start_time_ms: int | None
    partitions: list[TopicPartition]
    coordinator: BrokerInfo


@dataclass(frozen=True, slots=True)
class ProducerDescription:
    """A producer as a partition knows it; None where it has not sent, or has no transaction open there."""

    producer_id: int
    producer_epoch: int
    last_sequence: int | None
    last_timestamp_ms: int | None
    coordinator_epoch: int | None
    transaction_start_offset: int | None


@dataclass(frozen=True, slots=True)
class GroupListing:
    """A group in brief. ``state`` and ``group_type`` are empty where the broker does not tell them."""

    group_id: str
    protocol_type: str
    state: str
    group_type: str
    coordinator_id: int


@dataclass(frozen=True, slots=True)
class MemberDescription:
    """A member of a group. Topics and assignment are empty unless it is a consumer's group.

    In a group of the ``consumer`` protocol a member has a ``member_epoch``, -2 while it is away, and a
    ``target_assignment``: what it shall own. ``assignment`` is then what it owns or has not given up yet. A member may
    be of the protocol ``classic`` there. ``user_data`` is what a classic group's assignor added to the assignment, and
    ``subscription_user_data`` what the member's own added to its subscription.
    """

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    topics: list[str]
    assignment: list[TopicPartition]
    protocol: str = "classic"
    member_epoch: int | None = None
    target_assignment: list[TopicPartition] | None = None
    subscribed_regex: str = ""
    user_data: bytes = b""
    subscription_user_data: bytes = b""

    @property
    def gives_up(self) -> list[TopicPartition]:
        """The partitions that it shall not own any more, and has not given up."""
        return [] if self.target_assignment is None else sorted({*self.assignment} - {*self.target_assignment})

    @property
    def waits_for(self) -> list[TopicPartition]:
        """The partitions that it shall own, and has not yet."""
        return [] if self.target_assignment is None else sorted({*self.target_assignment} - {*self.assignment})


@dataclass(frozen=True, slots=True)
class GroupDescription:
    """A group in detail.

    ``group_type`` is the protocol, ``classic`` or ``consumer``, and empty if there is no such group. The epochs are
    those of a group of the ``consumer`` protocol: it is not at rest while the assignment's or a member's is behind.
    """

    group_id: str
    state: str
    protocol_type: str
    protocol_name: str
    members: list[MemberDescription]
    coordinator: BrokerInfo
    group_type: str = ""
    group_epoch: int | None = None
    assignment_epoch: int | None = None


@dataclass(frozen=True, slots=True)
class ClusterDescription:
    """The cluster as a broker sees it."""

    cluster_id: str | None
    controller_id: int
    brokers: list[BrokerInfo]
