"""The settings that the group coordinator needs, under Kafka's names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

from ottla.broker.core.configs.kinds import as_list
from ottla.broker.settings import Settings

NEW_MEMBER_JOIN_TIMEOUT_MS: Final = 300_000
"""How long a new member may wait in its first join phase. Fixed in Kafka too.

A member that has not been told its id cannot heartbeat, and while its request is parked a lost connection cannot be
seen. Without this limit clients that retry would pile up members that nobody is behind.
"""


class ConsumerTimes(NamedTuple):
    """What a consumer group goes by, in milliseconds. It can be set for each group (KIP-848).

    Attributes:
        session_timeout_ms: how long a member may be silent.
        heartbeat_interval_ms: how often members are to be heard of, as they are told.
        assignment_interval_ms: the least time between two targets.
    """

    session_timeout_ms: int
    heartbeat_interval_ms: int
    assignment_interval_ms: int


@dataclass(frozen=True, slots=True)
class GroupConfig:
    """Settings of the coordinator; the defaults are Kafka's, where Kafka has a limit. Times are in milliseconds.

    Attributes:
        group_min_session_timeout_ms: smallest session timeout that a member may ask for.
        group_max_session_timeout_ms: largest one. Both are inclusive.
        group_initial_rebalance_delay_ms: how long an Empty group waits for more members.
        group_max_size: how many members a group may have.
        group_max_bytes: what a group may keep of its members: ids, metadata of all protocols, assignments. A stable
            group is one record, of which ``message.max.bytes`` is the limit, so honest groups are far below.
        groups_max_bytes: the same of all groups together, and what the groups themselves take.
        group_max_issued_ids: how many issued ids of a group may be outstanding; beyond, its oldest one goes.
        groups_max_issued_bytes: what the issued ids of all groups may take; they have a client's id in them.
        offset_metadata_max_bytes: longest commit metadata, counted in UTF-16 units as Kafka does.
        offsets_retention_ms: how long committed offsets are kept once nobody uses them (KIP-211).
        offsets_retention_check_interval_ms: how often that is checked.
        group_generation_persist: ``sync`` logs a generation with the leader's assignments, as Kafka does; ``join``
            logs it before any member is told its number, so a number never names two generations even if the
            coordinator fails over between join and sync.
        message_max_bytes: what the log takes as one batch; a change of a consumer group is one.
        group_coordinator_rebalance_protocols: the protocols that groups may be of, ``consumer`` among them (KIP-848).
        group_consumer_max_size: how many members a consumer group may have.
        group_consumer_assignors: names of those that members may ask for; the first one is used where none asks.
        group_consumer_migration_policy: in which direction groups with members may change their protocol:
            ``bidirectional``, ``upgrade`` to that of consumer groups, ``downgrade`` from it, or ``disabled``.
        group_consumer_regex_refresh_interval_ms: how old the topics of a regex may become.
        group_consumer_session_timeout_ms, group_consumer_heartbeat_interval_ms,
        group_consumer_assignment_interval_ms: see `ConsumerTimes`; those with ``min`` and ``max`` are the bounds of
            what may be set for single groups.
    """

    group_min_session_timeout_ms: int = 6_000
    group_max_session_timeout_ms: int = 1_800_000
    group_initial_rebalance_delay_ms: int = 3_000
    group_max_size: int = 2_147_483_647
    group_max_bytes: int = 32 << 20
    groups_max_bytes: int = 256 << 20
    group_max_issued_ids: int = 10_000
    groups_max_issued_bytes: int = 16 << 20
    offset_metadata_max_bytes: int = 4_096
    offsets_retention_ms: int = 10_080 * 60_000
    offsets_retention_check_interval_ms: int = 600_000
    group_generation_persist: Literal["sync", "join"] = "sync"
    message_max_bytes: int = 1_048_588
    group_coordinator_rebalance_protocols: str = "classic,consumer,streams"
    group_consumer_max_size: int = 2_147_483_647
    group_consumer_assignors: str = "uniform,range"
    group_consumer_migration_policy: str = "bidirectional"
    group_consumer_regex_refresh_interval_ms: int = 600_000
    group_consumer_session_timeout_ms: int = 45_000
    group_consumer_min_session_timeout_ms: int = 45_000
    group_consumer_max_session_timeout_ms: int = 60_000
    group_consumer_heartbeat_interval_ms: int = 5_000
    group_consumer_min_heartbeat_interval_ms: int = 5_000
    group_consumer_max_heartbeat_interval_ms: int = 15_000
    group_consumer_assignment_interval_ms: int = 1_000
    group_consumer_min_assignment_interval_ms: int = 0
    group_consumer_max_assignment_interval_ms: int = 15_000

    @property
    def serves_consumer_protocol(self) -> bool:
        """Whether groups may be of the consumer protocol."""
        return "consumer" in as_list(self.group_coordinator_rebalance_protocols)

    @property
    def assignors(self) -> list[str]:
        """The names of the server's assignors, in its order."""
        return as_list(self.group_consumer_assignors)

    def may_convert(self, direction: Literal["upgrade", "downgrade"]) -> bool:
        """Whether groups with members may change their protocol in a direction."""
        return self.group_consumer_migration_policy.lower() in ("bidirectional", direction)

    def times_of(self, overrides: Mapping[str, str]) -> ConsumerTimes:
        """What a consumer group goes by; what the bounds do not allow any more is brought to them (R9.2).

        Args:
            overrides: what is set for the group, by the keys of `ottla.broker.core.configs.groups`.
        """

        rows = (
            (
                "consumer.session.timeout.ms",
                self.group_consumer_session_timeout_ms,
                self.group_consumer_min_session_timeout_ms,
                self.group_consumer_max_session_timeout_ms,
            ),
            (
                "consumer.heartbeat.interval.ms",
                self.group_consumer_heartbeat_interval_ms,
                self.group_consumer_min_heartbeat_interval_ms,
                self.group_consumer_max_heartbeat_interval_ms,
            ),
            (
                "consumer.assignment.interval.ms",
                self.group_consumer_assignment_interval_ms,
                self.group_consumer_min_assignment_interval_ms,
                self.group_consumer_max_assignment_interval_ms,
            ),
        )
        return ConsumerTimes(
            *(
                usual if (given := overrides.get(key)) is None else min(max(int(given), low), high)
                for key, usual, low, high in rows
            )
        )

    @classmethod
    def of(cls, settings: Settings) -> GroupConfig:
        """The settings of the coordinator among those of the broker."""
        return cls(
            group_min_session_timeout_ms=settings.group_min_session_timeout_ms,
            group_max_session_timeout_ms=settings.group_max_session_timeout_ms,
            group_initial_rebalance_delay_ms=settings.group_initial_rebalance_delay_ms,
            group_max_size=settings.group_max_size,
            group_max_bytes=settings.ottla_group_max_bytes,
            groups_max_bytes=settings.ottla_groups_max_bytes,
            group_max_issued_ids=settings.ottla_group_max_issued_ids,
            groups_max_issued_bytes=settings.ottla_groups_max_issued_bytes,
            offset_metadata_max_bytes=settings.offset_metadata_max_bytes,
            offsets_retention_ms=settings.offsets_retention_ms,
            offsets_retention_check_interval_ms=settings.offsets_retention_check_interval_ms,
            group_generation_persist=settings.group_generation_persist,  # type: ignore[arg-type]
            message_max_bytes=settings.message_max_bytes,
            group_coordinator_rebalance_protocols=settings.group_coordinator_rebalance_protocols,
            group_consumer_max_size=settings.group_consumer_max_size,
            group_consumer_assignors=settings.group_consumer_assignors,
            group_consumer_migration_policy=settings.group_consumer_migration_policy,
            group_consumer_regex_refresh_interval_ms=settings.group_consumer_regex_refresh_interval_ms,
            group_consumer_session_timeout_ms=settings.group_consumer_session_timeout_ms,
            group_consumer_min_session_timeout_ms=settings.group_consumer_min_session_timeout_ms,
            group_consumer_max_session_timeout_ms=settings.group_consumer_max_session_timeout_ms,
            group_consumer_heartbeat_interval_ms=settings.group_consumer_heartbeat_interval_ms,
            group_consumer_min_heartbeat_interval_ms=settings.group_consumer_min_heartbeat_interval_ms,
            group_consumer_max_heartbeat_interval_ms=settings.group_consumer_max_heartbeat_interval_ms,
            group_consumer_assignment_interval_ms=settings.group_consumer_assignment_interval_ms,
            group_consumer_min_assignment_interval_ms=settings.group_consumer_min_assignment_interval_ms,
            group_consumer_max_assignment_interval_ms=settings.group_consumer_max_assignment_interval_ms,
        )
