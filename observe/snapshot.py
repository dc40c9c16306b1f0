"""The broker at a moment, for those who look at it from outside: metrics, sentinels, HTTP, the console.

`ottla.observe.view` makes these. Offsets and counts are plain integers; times are Unix milliseconds.
"""

from __future__ import annotations

from typing import NamedTuple

from msgspec import Struct


class MemberState(Struct):
    """A member as it is now.

    Attributes:
        heard_ms: how long ago it was last heard of; slack_ms: how long until its session ends.
        waits_for: ``join`` or ``sync`` while a request of it is parked, else empty; is_gone: the connection of that
            request is lost.
        topics: what it subscribes to, None if its metadata cannot be read; assignment: topic → partitions.
        client_software: its library and version, as it said when it connected; empty if it did not, or if the broker
            has been started since.
        epoch, state: of a member of a consumer group: the epoch at which it has arrived, -2 if it is static and away,
            and ``STABLE``, ``UNREVOKED_PARTITIONS`` or ``UNRELEASED_PARTITIONS``; -1 and empty for a classic member.
        pending: the partitions that it has to give up first; regex: that it subscribes with.
    """

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    is_leader: bool
    session_timeout_ms: int
    rebalance_timeout_ms: int
    heard_ms: int
    slack_ms: int
    waits_for: str
    is_gone: bool
    protocols: list[str]
    topics: list[str] | None
    assignment: dict[str, list[int]]
    client_software: str = ""
    epoch: int = -1
    state: str = ""
    pending: dict[str, list[int]] = {}
    regex: str = ""


class OffsetState(Struct):
    """A committed offset; ``lag`` and ``lag_seconds`` are None where the partition or its record is not there.

    ``lag_seconds`` is the age of the first record that is not consumed, by the broker's append time; 0 without lag.
    """

    topic: str
    partition: int
    committed_offset: int
    commit_timestamp_ms: int
    metadata: str
    log_start_offset: int | None
    log_end_offset: int | None
    lag: int | None
    lag_seconds: float | None
    member_id: str | None


class OffsetProgress(NamedTuple):
    """Committed offset and end of a partition; the end is None if the partition is not there."""

    topic: str
    partition: int
    committed_offset: int
    log_end_offset: int | None


class GroupState(Struct):
    """A group as it is now, without its offsets.

    Attributes:
        barrier: ``initial delay``, ``join``, ``sync`` or empty; barrier_age_ms: for how long it has been open;
            awaited: for whom it waits. A consumer group waits at ``target`` until all members have theirs, for those
            that must give partitions up or come for their targets; not named are those that wait for these.
        generation: of a consumer group its epoch; assignment_epoch: that its target is of, -1 for the classic protocol.
        protocol: ``classic`` or ``consumer``.
    """

    group_id: str
    partition: int
    state: str
    generation: int
    protocol_type: str | None
    protocol_name: str | None
    state_since_ms: int | None
    members: list[MemberState]
    pending_members: list[str]
    barrier: str
    barrier_age_ms: int
    awaited: list[str]
    protocol: str = "classic"
    assignment_epoch: int = -1


class GroupBrief(Struct):
    """One line about a group.

    Attributes:
        lag: None if no partition of it is known.
        state_since_ms: since when it is in its state, as Unix time; None if that is not known.
    """

    group_id: str
    state: str
    generation: int
    members: int
    protocol_name: str | None
    lag: int | None
    topics: list[str]
    state_since_ms: int | None = None
    protocol: str = "classic"


class PartitionState(Struct):
    """A partition of a topic. One that another node leads has its ``leader_id``, or -1, and no figures: they are 0."""

    partition: int
    log_start_offset: int
    high_watermark: int
    log_end_offset: int
    last_stable_offset: int
    size_bytes: int
    is_led_here: bool = True
    leader_id: int = -1


class TopicState(Struct):
    """A topic."""

    topic: str
    topic_id: str
    is_internal: bool
    configs: dict[str, str]
    partitions: list[PartitionState]

    @property
    def led(self) -> list[PartitionState]:
        """The partitions that this node leads."""
        return [one for one in self.partitions if one.is_led_here]


class NodeState(Struct):
    """One of several nodes.

    Attributes:
        state: ``up``, ``draining`` or ``down``; and ``why`` it is down, or how long it has not answered.
        listen: host and port for clients of this machine; None if it was never up.
        http: host and port of its console; an empty host is the one by which this one is reached.
    """

    node_id: int
    state: str
    listen: str | None
    http: str | None = None
    why: str = ""


class ClusterState(Struct):
    """The broker, and of several nodes all of them, this one as well."""

    node_id: int
    cluster_id: str
    version: str
    listen: str
    started_ms: int
    now_ms: int
    connections: int
    topics: int
    groups: int
    group_states: dict[str, int]
    nodes: list[NodeState] = []

    @property
    def up(self) -> list[NodeState]:
        """The nodes that serve clients; none where there is one alone."""
        return [node for node in self.nodes if node.state != "down"]
