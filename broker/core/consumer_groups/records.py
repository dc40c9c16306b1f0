"""Facts of a consumer group as records of ``__consumer_offsets``, and back (6.1)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias
from uuid import UUID

from ottla.broker.core.consumer_groups.facts import (
    NO_EPOCH,
    Fact,
    GroupEpoch,
    GroupGone,
    MemberCurrent,
    MemberGone,
    MemberSaid,
    MemberTarget,
    OldMetadata,
    RegexResolved,
    TargetEpoch,
)
from ottla.broker.core.consumer_groups.regexes import ResolvedRegex
from ottla.broker.core.consumer_groups.state import ClassicProtocols, Member, MemberState, Owned, names_of
from ottla.protocol import consumer_group_records as wire
from ottla.protocol.offsets_topic import CoordinatorRecord, decode_value

Pair: TypeAlias = tuple[wire.ConsumerGroupKey, wire.ConsumerGroupValue | None]


def record_of(group_id: str, fact: Fact) -> CoordinatorRecord:
    """The record that says a fact of a group."""
    key, value = _WRITE[fact.__class__](group_id, fact)
    encoded = None if value is None else wire.encode_consumer_group_value(value)
    return CoordinatorRecord(wire.encode_consumer_group_key(key), encoded)


def fact_of(key: wire.ConsumerGroupKey, value: bytes | None) -> Fact:
    """What a record says.

    Raises:
        MalformedFrame: the value cannot be read.
    """
    read, gone = _READ[key.__class__]
    return gone(key) if value is None else read(key, decode_value(wire.VALUES[key.__class__], value))


# Writing


def _group_epoch(group_id: str, fact: GroupEpoch) -> Pair:
    value = wire.ConsumerGroupMetadataValue(epoch=fact.epoch, metadata_hash=fact.metadata_hash)
    return wire.ConsumerGroupMetadataKey(group_id=group_id), value


def _group_gone(group_id: str, fact: GroupGone) -> Pair:
    return wire.ConsumerGroupMetadataKey(group_id=group_id), None


def _old_metadata(group_id: str, fact: OldMetadata) -> Pair:
    value = wire.ConsumerGroupPartitionMetadataValue() if fact.is_there else None  # without what nobody looks at
    return wire.ConsumerGroupPartitionMetadataKey(group_id=group_id), value


def _member_said(group_id: str, fact: MemberSaid) -> Pair:
    member = fact.member
    classic = member.classic
    value = wire.ConsumerGroupMemberMetadataValue(
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=list(member.names),
        subscribed_topic_regex=member.regex,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        server_assignor=member.server_assignor,
        classic_member_metadata=None
        if classic is None
        else wire.ClassicMemberMetadata(
            session_timeout_ms=classic.session_timeout_ms,
            supported_protocols=[wire.ClassicProtocol(name=name, metadata=data) for name, data in classic.protocols],
        ),
    )
    return wire.ConsumerGroupMemberMetadataKey(group_id=group_id, member_id=member.member_id), value


def _member_gone(group_id: str, fact: MemberGone) -> Pair:
    return wire.ConsumerGroupMemberMetadataKey(group_id=group_id, member_id=fact.member_id), None


def _target_epoch(group_id: str, fact: TargetEpoch) -> Pair:
    value = None
    if fact.epoch != NO_EPOCH:
        value = wire.ConsumerGroupTargetAssignmentMetadataValue(
            assignment_epoch=fact.epoch, assignment_timestamp=fact.timestamp_ms
        )
    return wire.ConsumerGroupTargetAssignmentMetadataKey(group_id=group_id), value


def _member_target(group_id: str, fact: MemberTarget) -> Pair:
    value = None
    if fact.target is not None:
        value = wire.ConsumerGroupTargetAssignmentMemberValue(
            topic_partitions=[
                wire.TargetTopicPartitions(topic_id=topic_id, partitions=list(partitions))
                for topic_id, partitions in fact.target.items()
                if partitions
            ]
        )
    return wire.ConsumerGroupTargetAssignmentMemberKey(group_id=group_id, member_id=fact.member_id), value


def _member_current(group_id: str, fact: MemberCurrent) -> Pair:
    value = None
    if fact.epoch != NO_EPOCH:
        value = wire.ConsumerGroupCurrentMemberAssignmentValue(
            member_epoch=fact.epoch,
            previous_member_epoch=fact.previous_epoch,
            state=fact.state,
            assigned_partitions=_written(fact.assigned),
            partitions_pending_revocation=_written(fact.pending),
        )
    return wire.ConsumerGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=fact.member_id), value


def _written(owned: Owned) -> list[wire.CurrentTopicPartitions]:
    return [
        wire.CurrentTopicPartitions(
            topic_id=topic_id, partitions=list(partitions), assignment_epochs=list(partitions.values())
        )
        for topic_id, partitions in owned.items()
    ]


def _regex_resolved(group_id: str, fact: RegexResolved) -> Pair:
    value = None
    if (resolved := fact.resolved) is not None:
        value = wire.ConsumerGroupRegularExpressionValue(
            topics=list(resolved.topics), version=resolved.version, timestamp=resolved.timestamp_ms
        )
    return wire.ConsumerGroupRegularExpressionKey(group_id=group_id, regular_expression=fact.regex), value


_WRITE: dict[type[Any], Callable[[str, Any], Pair]] = {
    GroupEpoch: _group_epoch,
    GroupGone: _group_gone,
    OldMetadata: _old_metadata,
    MemberSaid: _member_said,
    MemberGone: _member_gone,
    TargetEpoch: _target_epoch,
    MemberTarget: _member_target,
    MemberCurrent: _member_current,
    RegexResolved: _regex_resolved,
}


# Reading


def _read_member(key: wire.ConsumerGroupMemberMetadataKey, value: wire.ConsumerGroupMemberMetadataValue) -> MemberSaid:
    classic = value.classic_member_metadata
    member = Member(
        key.member_id,
        instance_id=value.instance_id,
        rack_id=value.rack_id,
        client_id=value.client_id,
        client_host=value.client_host,
        names=names_of(value.subscribed_topic_names),
        regex=value.subscribed_topic_regex or "",
        rebalance_timeout_ms=value.rebalance_timeout_ms,
        server_assignor=value.server_assignor,
        classic=None
        if classic is None
        else ClassicProtocols(
            classic.session_timeout_ms, tuple((one.name, bytes(one.metadata)) for one in classic.supported_protocols)
        ),
    )
    return MemberSaid(member)


def _read_target(
    key: wire.ConsumerGroupTargetAssignmentMemberKey, value: wire.ConsumerGroupTargetAssignmentMemberValue
) -> MemberTarget:
    return MemberTarget(key.member_id, {one.topic_id: tuple(one.partitions) for one in value.topic_partitions})


def _read_current(
    key: wire.ConsumerGroupCurrentMemberAssignmentKey, value: wire.ConsumerGroupCurrentMemberAssignmentValue
) -> MemberCurrent:
    known = value.state in (MemberState.STABLE, MemberState.UNREVOKED_PARTITIONS, MemberState.UNRELEASED_PARTITIONS)
    return MemberCurrent(
        key.member_id,
        value.member_epoch,
        value.previous_member_epoch,
        MemberState(value.state) if known else MemberState.UNKNOWN,
        _read_owned(value.assigned_partitions, value.member_epoch),
        _read_owned(value.partitions_pending_revocation, value.member_epoch),
    )


def _read_owned(topics: Sequence[wire.CurrentTopicPartitions], member_epoch: int) -> Owned:
    """Partitions with their assignment epochs; where there are none, that of the member has to do (R6.4)."""
    owned: dict[UUID, dict[int, int]] = {}
    for topic in topics:
        epochs = topic.assignment_epochs
        if epochs is None or len(epochs) != len(topic.partitions):
            epochs = [max(member_epoch, 0)] * len(topic.partitions)
        owned[topic.topic_id] = dict(zip(topic.partitions, epochs, strict=True))
    return owned


def _read_regex(
    key: wire.ConsumerGroupRegularExpressionKey, value: wire.ConsumerGroupRegularExpressionValue
) -> RegexResolved:
    return RegexResolved(key.regular_expression, ResolvedRegex(tuple(value.topics), value.version, value.timestamp))


_READ: dict[type[Any], tuple[Callable[[Any, Any], Fact], Callable[[Any], Fact]]] = {
    wire.ConsumerGroupMetadataKey: (
        lambda key, value: GroupEpoch(value.epoch, value.metadata_hash),
        lambda key: GroupGone(),
    ),
    wire.ConsumerGroupPartitionMetadataKey: (lambda key, value: OldMetadata(True), lambda key: OldMetadata(False)),
    wire.ConsumerGroupMemberMetadataKey: (_read_member, lambda key: MemberGone(key.member_id)),
    wire.ConsumerGroupTargetAssignmentMetadataKey: (
        lambda key, value: TargetEpoch(value.assignment_epoch, value.assignment_timestamp),
        lambda key: TargetEpoch(NO_EPOCH, 0),
    ),
    wire.ConsumerGroupTargetAssignmentMemberKey: (_read_target, lambda key: MemberTarget(key.member_id, None)),
    wire.ConsumerGroupCurrentMemberAssignmentKey: (_read_current, lambda key: MemberCurrent.gone(key.member_id)),
    wire.ConsumerGroupRegularExpressionKey: (_read_regex, lambda key: RegexResolved(key.regular_expression, None)),
}
"""Key → what reads a value that stands behind it, and what its tombstone says."""
