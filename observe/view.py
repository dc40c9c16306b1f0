"""The broker as it is now, for metrics, sentinels, HTTP and the console: what `ottla.observe.snapshot` describes.

Reading it changes nothing, and costs nothing that anybody waits for.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import NamedTuple

from ottla.broker.clock import Clock
from ottla.broker.core.consumer_groups.group import ConsumerGroup
from ottla.broker.core.consumer_groups.state import Member as ModernMember
from ottla.broker.core.coordination.machine import TimerKey
from ottla.broker.core.groups.classic.group import ClassicGroup
from ottla.broker.core.groups.classic.member import Member
from ottla.broker.core.groups.classic.state import COMPLETING_REBALANCE, PREPARING_REBALANCE
from ottla.broker.core.groups.coordinator import GroupCoordinator
from ottla.broker.core.groups.group import Group
from ottla.broker.core.groups.machine import Timer
from ottla.broker.core.groups.offsets.committed import CommittedOffset
from ottla.broker.core.topics.partition import Partition, Standing, Topic
from ottla.broker.net.socket_server import SocketServer
from ottla.broker.runtime.topics import TopicManager
from ottla.observe.consumer_group_view import consumer_brief, group_state, held, member_state, state_with
from ottla.observe.nodes import node_states
from ottla.observe.record_times import RecordTimes
from ottla.observe.snapshot import (
    ClusterState,
    GroupBrief,
    GroupState,
    MemberState,
    OffsetProgress,
    OffsetState,
    PartitionState,
    TopicState,
)
from ottla.protocol.consumer_protocol import PROTOCOL_TYPE, assigned_partitions, subscribed_topics
from ottla.protocol.errors import MalformedFrame

STEP_MEMBERS = 100
"""So many members of a large group are described at once; it takes a few milliseconds."""


class Identity(NamedTuple):
    """The facts of a broker that do not change."""

    node_id: int
    cluster_id: str
    version: str
    listen: str
    started_ms: int


class _Decoded(NamedTuple):
    """A member's decoded bytes, with the bytes to see if they are still those."""

    metadata: bytes
    assignment: bytes
    topics: list[str] | None
    assigned: dict[str, list[int]]


class View:
    """See the module. Unknown names give None. What a member's bytes say is decoded once and kept with it.

    Args:
        software_of: gives a member's client library and version, by group and member id.
        why_down: says why a node is down.
    """

    def __init__(
        self,
        identity: Identity,
        coordinator: GroupCoordinator,
        topics: TopicManager,
        clock: Clock,
        *,
        server: SocketServer,
        software_of: Callable[[str, str], str],
        why_down: Callable[[int], str] = lambda node_id: "",
    ) -> None:
        self._why_down = why_down
        self.record_times = RecordTimes()
        self._identity = identity
        self._server = server
        self._machine = coordinator
        self._groups = self._machine.groups
        self._software_of = software_of
        self._topics = topics
        self._clock = clock
        self._decoded: dict[str, dict[str, _Decoded]] = {}

    def cluster(self) -> ClusterState:
        states: dict[str, int] = {}
        for group in self._groups.values():
            if state := group.shown_state:
                states[state] = states.get(state, 0) + 1
        return ClusterState(
            **self._identity._asdict(),
            now_ms=self._clock.wall_ms(),
            connections=len(self._server.connections),
            topics=len(self._topics.topics),
            groups=len(self._groups),
            group_states=states,
            nodes=node_states(self._topics.placement.view, self._why_down),
        )

    # -- topics

    def topics(self) -> Iterator[TopicState]:
        for topic in list(self._topics.topics.values()):
            yield self._topic_state(topic)

    def topic(self, name: str) -> TopicState | None:
        topic = self._topics.topics.get(name)
        return None if topic is None else self._topic_state(topic)

    def _topic_state(self, topic: Topic) -> TopicState:
        return TopicState(
            topic=topic.name,
            topic_id=str(topic.topic_id),
            is_internal=topic.is_internal,
            configs=dict(topic.overrides),
            partitions=[
                _partition_state(index, partition, self._topics.leader(partition).node_id)
                for index, partition in enumerate(topic.partitions)
            ],
        )

    # -- groups

    def group_ids(self) -> list[str]:
        return list(self._groups)

    def has_group(self, group_id: str) -> bool:
        """True if there is such a group."""
        return group_id in self._groups

    def brief(self, group_id: str) -> GroupBrief | None:
        group = self._groups.get(group_id)
        if group is None:
            return None
        lag = self._total_lag(group.offsets.items())
        if isinstance(group, ConsumerGroup):
            return consumer_brief(self._machine, group, lag)
        assert isinstance(group, ClassicGroup)
        return GroupBrief(
            group_id=group_id,
            state=group.state.value,
            generation=group.generation,
            members=len(group.members),
            protocol_name=group.protocol_name,
            lag=lag,
            topics=sorted({*group.offsets.by_topic, *(group.topics or ())}),
            state_since_ms=group.state_timestamp_ms,
        )

    def group(self, group_id: str) -> GroupState | None:
        if (modern := self._consumer_group(group_id)) is not None:
            times = self._clock.monotonic_ms(), self._clock.wall_ms()
            return group_state(self._machine, modern, self._software_of, *times)
        group = self._group(group_id)
        if group is None:
            return None
        now_ms = self._clock.monotonic_ms()
        decoded = self._decoded_of(group)
        return self._state(
            group, [self._member(group, one, decoded[one.member_id], now_ms) for one in group.members.values()]
        )

    def group_in_steps(self, group_id: str) -> Iterator[GroupState | None]:
        """The same of a large group, for who has time: None after each few members.

        It ends without the group if that has changed meanwhile.
        """
        if (modern := self._consumer_group(group_id)) is not None:
            yield from self._consumer_group_in_steps(modern)
            return
        group = self._group(group_id)
        if group is None:
            return
        seen, described = (group.state, group.generation, group.revision), []
        members = list(group.members.values())
        try:
            for first in range(0, len(members), STEP_MEMBERS):
                now_ms, some = self._clock.monotonic_ms(), members[first : first + STEP_MEMBERS]
                decoded = self._decode(group, some)
                self._decoded.setdefault(group_id, {}).update(decoded)
                described += [self._member(group, one, decoded[one.member_id], now_ms) for one in some]
                yield None
                now = self._group(group_id)
                if now is not group or (group.state, group.generation, group.revision) != seen:
                    return
            yield self._state(group, described)
        finally:
            known = self._decoded.pop(group_id, {})
            if self._group(group_id) is group and known:
                self._decoded[group_id] = {name: known[name] for name in group.members if name in known}

    def _consumer_group_in_steps(self, group: ConsumerGroup) -> Iterator[GroupState | None]:
        m, described, members = self._machine, [], list(group.state.members.values())
        seen = group.state.epoch, group.state.assignment_epoch
        for first in range(0, len(members), STEP_MEMBERS):
            now_ms = self._clock.monotonic_ms()
            some = members[first : first + STEP_MEMBERS]
            described += [member_state(m, group, one, self._software_of, now_ms) for one in some]
            yield None
            state = group.state
            if self._groups.get(group.group_id) is not group or (state.epoch, state.assignment_epoch) != seen:
                return
        yield state_with(m, group, described, self._clock.wall_ms())

    def is_mixed(self, group_id: str) -> bool:
        """True if a group has members of both protocols."""
        modern = self._consumer_group(group_id)
        return modern is not None and 0 < modern.state.classic_members < len(modern.state.members)

    def counted_by(self, group_id: str) -> str:
        """The word for what the members of a group are of: ``generation``, or ``epoch``."""
        return "generation" if self._consumer_group(group_id) is None else "epoch"

    def client_of(self, group_id: str, member_id: str) -> tuple[str, str]:
        """Client id and host of a member; empty for who is none."""
        modern, group = self._consumer_group(group_id), self._group(group_id)
        members: Mapping[str, Member | ModernMember] = {}
        if group is not None:
            members = group.members
        elif modern is not None:
            members = modern.state.members
        one = members.get(member_id)
        return ("", "") if one is None else (one.client_id, one.client_host)

    def member_count(self, group_id: str) -> int:
        """Number of members of a group; 0 if there is none."""
        group = self._groups.get(group_id)
        return 0 if group is None else group.member_count

    def _state(self, group: ClassicGroup, members: list[MemberState]) -> GroupState:
        barrier, awaited = self._barrier(group)
        age_ms = self._clock.wall_ms() - group.state_timestamp_ms if barrier and group.state_timestamp_ms else 0
        return GroupState(
            group_id=group.group_id,
            partition=group.shard.partition,
            state=group.state.value,
            generation=group.generation,
            protocol_type=group.protocol_type,
            protocol_name=group.protocol_name,
            state_since_ms=group.state_timestamp_ms,
            members=members,
            pending_members=list(group.pending_members),
            barrier=barrier,
            barrier_age_ms=max(0, age_ms),
            awaited=awaited,
        )

    def waits_calmly(self, group_id: str, old_ms: int) -> bool:
        """True if a group waits at a barrier that is not that old yet, and with nobody whose connection is gone."""
        if (modern := self._consumer_group(group_id)) is not None:
            is_restless = modern.state.group_state.is_restless
            return is_restless and self._clock.wall_ms() - modern.restless_since_ms < old_ms
        group = self._group(group_id)
        if group is None or group.state not in (PREPARING_REBALANCE, COMPLETING_REBALANCE):
            return False
        age_ms = self._clock.wall_ms() - group.state_timestamp_ms if group.state_timestamp_ms else 0
        return age_ms < old_ms and not any(
            getattr(member.parked_join, "is_gone", False) for member in group.members.values()
        )

    def offsets(self, group_id: str) -> list[OffsetState]:
        group = self._groups.get(group_id)
        if group is None:
            return []
        owners = {
            (topic, index): member_id
            for member_id, assigned in self._assignments(group)
            for topic, indexes in assigned.items()
            for index in indexes
        }
        now_ms = self._clock.wall_ms()
        return [
            self._offset(topic, index, committed, owners.get((topic, index)), now_ms)
            for topic, index, committed in group.offsets.items()
        ]

    def progress(self, group_id: str) -> Iterator[OffsetProgress]:
        """The committed offsets of a group, as far as it costs next to nothing."""
        group = self._groups.get(group_id)
        if group is not None:
            for topic, index, committed in group.offsets.items():
                partition = self._partition(topic, index, committed)
                end = None if partition is None or _has_unknown_end(partition) else partition.log.high_watermark
                yield OffsetProgress(topic, index, committed.offset, end)

    def assignment(self, group_id: str, member_id: str) -> Mapping[str, list[int]]:
        """The assignment of a member; nothing if there is no such member."""
        if (modern := self._consumer_group(group_id)) is not None:
            return held(self._machine, modern, member_id)
        group = self._group(group_id)
        member = None if group is None else group.members.get(member_id)
        if group is None or member is None:
            return {}
        known = self._decoded.get(group_id, {}).get(member_id)
        if known is None or known.assignment is not member.assignment:
            known = self._decoded_of(group)[member_id]
        return known.assigned

    def owners(self, group_id: str, wanted: Mapping[str, Collection[int]]) -> dict[tuple[str, int], str]:
        """The owner of each of these partitions, the first if there are several; those without are left out."""
        modern, group = self._consumer_group(group_id), self._group(group_id)
        member_ids: Iterable[str] = () if group is None else group.members
        found: dict[tuple[str, int], str] = {}
        for member_id in member_ids if modern is None else modern.state.members:
            assigned = self.assignment(group_id, member_id)
            for topic, partitions in wanted.items():
                for partition in assigned.get(topic, ()):
                    if partition in partitions:
                        found.setdefault((topic, partition), member_id)
        return found

    def heirs(self, group_id: str, topic: str, partitions: Collection[int]) -> list[str]:
        """The members of a consumer group that have some of these partitions in their targets."""
        group, known = self._consumer_group(group_id), self._machine.topics.by_name.get(topic)
        if group is None or known is None:
            return []
        topic_id, wanted = known.topic_id, frozenset(partitions)
        return [one for one, target in group.state.targets.items() if not wanted.isdisjoint(target.get(topic_id, ()))]

    def partition_count(self, topic: str) -> int:
        """Number of partitions of a topic; 0 if there is no such topic."""
        return self._topics.partition_count(topic)

    # -- parts

    def _group(self, group_id: str) -> ClassicGroup | None:
        group = self._groups.get(group_id)
        return group if isinstance(group, ClassicGroup) else None

    def _consumer_group(self, group_id: str) -> ConsumerGroup | None:
        group = self._groups.get(group_id)
        return group if isinstance(group, ConsumerGroup) else None

    def _assignments(self, group: Group) -> Iterator[tuple[str, Mapping[str, list[int]]]]:
        if isinstance(group, ConsumerGroup):
            yield from ((member_id, held(self._machine, group, member_id)) for member_id in group.state.members)
        elif isinstance(group, ClassicGroup):
            yield from ((member_id, decoded.assigned) for member_id, decoded in self._decoded_of(group).items())

    def _barrier(self, group: ClassicGroup) -> tuple[str, list[str]]:
        if group.state is COMPLETING_REBALANCE:
            return Timer.SYNC.value, list(group.pending_sync)
        if group.state is not PREPARING_REBALANCE:
            return "", []
        late = [member.member_id for member in group.members.values() if member.parked_join is None]
        starts = TimerKey(Timer.INITIAL_DELAY, group.group_id) in self._machine.deadlines
        return (Timer.INITIAL_DELAY if starts else Timer.JOIN).value, late + list(group.pending_members)

    def _member(self, group: ClassicGroup, member: Member, decoded: _Decoded, now_ms: int) -> MemberState:
        parked = member.parked_join or member.parked_sync
        return MemberState(
            member_id=member.member_id,
            group_instance_id=member.group_instance_id,
            client_id=member.client_id,
            client_host=member.client_host,
            is_leader=group.leader_id == member.member_id,
            session_timeout_ms=member.session_timeout_ms,
            rebalance_timeout_ms=member.rebalance_timeout_ms,
            heard_ms=max(0, now_ms - self._machine.last_heard_ms(member)),
            slack_ms=max(0, member.session_deadline_ms - now_ms),
            waits_for="" if parked is None else "sync" if member.parked_join is None else "join",
            is_gone=parked is not None and bool(getattr(parked, "is_gone", False)),
            protocols=member.protocol_names(),
            topics=decoded.topics,
            assignment=decoded.assigned,
            client_software=self._software_of(group.group_id, member.member_id),
        )

    def _decoded_of(self, group: ClassicGroup) -> dict[str, _Decoded]:
        """The decoded bytes of all members; only new ones are read."""
        after = self._decode(group, group.members.values())
        if after:
            self._decoded[group.group_id] = after
        else:
            self._decoded.pop(group.group_id, None)
        if len(self._decoded) > 2 * len(self._groups) + 16:
            self._decoded = {name: kept for name, kept in self._decoded.items() if name in self._groups}
        return after

    def _decode(self, group: ClassicGroup, members: Iterable[Member]) -> dict[str, _Decoded]:
        before = self._decoded.get(group.group_id, {})
        after = {}
        subscribed: dict[bytes, list[str] | None] = {}  # most members say the same
        for member in members:
            metadata = _metadata(group, member)
            known = before.get(member.member_id)
            if known is None or known.metadata is not metadata or known.assignment is not member.assignment:
                if metadata not in subscribed:
                    subscribed[metadata] = _topics(group.protocol_type, metadata)
                assigned = _assigned(group.protocol_type, member.assignment)
                known = _Decoded(metadata, member.assignment, subscribed[metadata], assigned)
            after[member.member_id] = known
        return after

    def _partition(self, topic: str, index: int, committed: CommittedOffset) -> Partition | None:
        """The partition that an offset was committed for; None if it is gone."""
        served = self._topics.topics.get(topic)
        return served.partition(index) if served is not None and committed.may_be_of(served.topic_id) else None

    def _total_lag(self, offsets: Iterable[tuple[str, int, CommittedOffset]]) -> int | None:
        """The lag over all partitions that are there; None if there is none, or if that of one is not known here."""
        total = None
        for topic, index, committed in offsets:
            partition = self._partition(topic, index, committed)
            if _has_unknown_end(partition):
                return None
            if (lag := _lag(partition, committed)) is not None:
                total = lag + (total or 0)
        return total

    def _offset(
        self, topic: str, index: int, committed: CommittedOffset, member_id: str | None, now_ms: int
    ) -> OffsetState:
        there = self._partition(topic, index, committed)
        partition = None if _has_unknown_end(there) else there
        log, lag = None if partition is None else partition.log, _lag(partition, committed)
        return OffsetState(
            topic=topic,
            partition=index,
            committed_offset=committed.offset,
            commit_timestamp_ms=committed.commit_timestamp_ms,
            metadata=committed.metadata,
            log_start_offset=None if log is None else log.log_start_offset,
            log_end_offset=None if log is None else log.high_watermark,
            lag=lag,
            lag_seconds=None if partition is None else self._lag_seconds(partition, committed.offset, lag, now_ms),
            member_id=member_id,
            has_unknown_end=partition is not there,
        )

    def _lag_seconds(self, partition: Partition, offset: int, lag: int | None, now_ms: int) -> float | None:
        if not lag:
            return None if lag is None else 0.0
        first = max(offset, partition.log.log_start_offset)
        if first >= partition.log.high_watermark:
            return 0.0  # what was not consumed is deleted
        appended_ms = self.record_times.appended_ms(partition, first)
        return None if appended_ms is None else max(0, now_ms - appended_ms) / 1000


def _has_unknown_end(partition: Partition | None) -> bool:
    """Whether there is a partition, and this node does not know where it ends."""
    return partition is not None and partition.standing is not Standing.LEADING


def _lag(partition: Partition | None, committed: CommittedOffset) -> int | None:
    """The lag of a partition whose end is known; None if it is gone, or nothing is committed."""
    if partition is None or committed.offset < 0:
        return None
    return max(0, partition.log.high_watermark - committed.offset)


def _metadata(group: ClassicGroup, member: Member) -> bytes:
    """The bytes that say what a member subscribes to, while no protocol is chosen those that it likes best."""
    return member.metadata(group.protocol_name) or (member.protocols[0][1] if member.protocols else b"")


def _topics(protocol_type: str | None, metadata: bytes) -> list[str] | None:
    if protocol_type != PROTOCOL_TYPE:
        return None
    try:
        return sorted(subscribed_topics(metadata))
    except MalformedFrame:
        return None


def _assigned(protocol_type: str | None, assignment: bytes) -> dict[str, list[int]]:
    assigned: dict[str, list[int]] = {}
    if protocol_type == PROTOCOL_TYPE and assignment:
        try:
            for topic, partition in assigned_partitions(assignment):
                assigned.setdefault(topic, []).append(partition)
        except MalformedFrame:
            return {}
    for partitions in assigned.values():
        partitions.sort()
    return assigned


def _partition_state(index: int, partition: Partition, leader_id: int) -> PartitionState:
    log = partition.log
    return PartitionState(
        partition=index,
        log_start_offset=log.log_start_offset,
        high_watermark=log.high_watermark,
        log_end_offset=log.log_end_offset,
        last_stable_offset=partition.last_stable_offset,
        size_bytes=log.size_bytes,
        is_led_here=partition.standing is not Standing.ELSEWHERE,
        leader_id=leader_id,
    )
