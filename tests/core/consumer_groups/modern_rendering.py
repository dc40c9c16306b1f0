"""Answers and records of consumer groups as one line of text each.

A topic has an id with its name in it, so that ids can be shown by name: ``t`` when it is created first, ``t'2`` the
next time.
"""

from __future__ import annotations

from typing import Any
from uuid import UUID

from ottla.broker.core.consumer_groups.facts import (
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
    is_tombstone,
)
from ottla.broker.core.consumer_groups.records import fact_of
from ottla.broker.core.consumer_groups.state import Member, Owned
from ottla.protocol.consumer_group_records import decode_consumer_group_key
from ottla.protocol.errors import ErrorCode
from ottla.protocol.offsets_topic import CoordinatorRecord
from tests.core import rendering
from tests.core.rendering import quoted
from tests.core.world import WALL_MS

MOST_NAME = 14
USUAL_INTERVAL_MS = 5_000


def topic_id(name: str, number: int = 1) -> UUID:
    """The id of a topic that is created for the so manieth time."""
    assert len(name.encode()) <= MOST_NAME
    return UUID(bytes=name.encode().ljust(MOST_NAME, b"\0") + number.to_bytes(2, "big"))


def topic_name(topic_id: UUID) -> str:
    """The topic that has an id."""
    name, number = topic_id.bytes[:MOST_NAME].rstrip(b"\0").decode(), int.from_bytes(topic_id.bytes[MOST_NAME:], "big")
    return name if number == 1 else f"{name}'{number}"


def render_answer(answer: Any) -> str:
    """The fields of an answer that say something."""
    name = type(answer).__name__.removesuffix("Response")
    if name == "ConsumerGroupHeartbeat":
        return _heartbeat(answer)
    if name == "ConsumerGroupDescribe":
        return "; ".join(map(_described, answer.groups))
    return rendering.render_answer(answer)


def render_record(record: CoordinatorRecord) -> str:
    """A record of the log; those of consumer groups begin with their type."""
    key = decode_consumer_group_key(record.key)
    if key is None:
        return rendering.render_record(record)
    group = "" if key.group_id == "g" else f"{quoted(key.group_id)} "
    return f"{key.versions[0]} {group}{_fact(fact_of(key, record.value))}"


def _heartbeat(answer: Any) -> str:
    if answer.error_code:
        assert (answer.member_id, answer.member_epoch, answer.heartbeat_interval_ms) == (None, 0, 0)
        assert answer.assignment is None
        text = "" if answer.error_message is None else f" {answer.error_message}"
        return f"{ErrorCode(answer.error_code).name}{text}"
    shown = [str(answer.member_epoch)]
    if answer.assignment is None:
        shown.append("-")
    else:
        topics = answer.assignment.topic_partitions
        assert all(topic.partitions for topic in topics), "a topic without partitions"
        assert len({topic.topic_id for topic in topics}) == len(topics), "a topic appears twice"
        shown.append(_set({topic.topic_id: topic.partitions for topic in topics}))
    if answer.heartbeat_interval_ms != USUAL_INTERVAL_MS:
        shown.append(f"interval={answer.heartbeat_interval_ms}")
    return " ".join(shown)


def _described(group: Any) -> str:
    if group.error_code:
        assert not group.members
        text = "" if group.error_message is None else f" {group.error_message}"
        return f"{quoted(group.group_id)}: {ErrorCode(group.error_code).name}{text}"
    members = []
    for one in group.members:
        shown = f"{one.member_id}{'/' + one.instance_id if one.instance_id else ''}@{one.member_epoch} "
        has = _set({topic.topic_id: topic.partitions for topic in one.assignment.topic_partitions})
        shall = _set({topic.topic_id: topic.partitions for topic in one.target_assignment.topic_partitions})
        shown += has if has == shall else f"{has} of {shall}"
        if one.member_type not in (-1, 1):
            shown += f" type={one.member_type}"
        members.append(shown)
    return (
        f"{group.group_id}: {group.group_state} {group.group_epoch}/{group.assignment_epoch} {group.assignor_name} "
        f"[{', '.join(members)}]"
    )


def _set(partitions: Any) -> str:
    names = [f"{topic_name(topic_id)}-{number}" for topic_id, numbers in partitions.items() for number in numbers]
    return "{" + " ".join(sorted(names)) + "}"


def _owned_set(owned: Owned) -> str:
    names = [
        f"{topic_name(topic_id)}-{number}@{since}"
        for topic_id, partitions in owned.items()
        for number, since in partitions.items()
    ]
    return "{" + " ".join(sorted(names)) + "}"


def _fact(fact: Fact) -> str:
    """What a record says, in a line."""
    if is_tombstone(fact):
        about = fact[0] if isinstance(fact, (MemberGone, MemberTarget, MemberCurrent, RegexResolved)) else ""
        return f"{about} tombstone".lstrip()
    match fact:
        case GroupEpoch():
            topics = f"hash {fact.metadata_hash & 0xFFFF:04x}" if fact.metadata_hash else "without topics"
            return f"epoch {fact.epoch} {topics}"
        case MemberSaid():
            return f"{fact.member.member_id} {_said(fact.member)}"
        case TargetEpoch():
            when = "" if not fact.timestamp_ms else f" at {fact.timestamp_ms - WALL_MS}"
            return f"epoch {fact.epoch}{when}"
        case MemberTarget(member_id, target):
            return f"{member_id} {_set(target)}"
        case MemberCurrent():
            pending = f" revokes {_owned_set(fact.pending)}" if fact.pending else ""
            return (
                f"{fact.member_id} {fact.epoch} after {fact.previous_epoch} {fact.state.name} "
                f"{_owned_set(fact.assigned)}{pending}"
            )
        case RegexResolved(regex, resolved):
            assert resolved is not None
            return f"{regex} {'+'.join(resolved.topics) or 'nothing'} at {resolved.timestamp_ms - WALL_MS}"
        case _:
            assert isinstance(fact, (GroupGone, OldMetadata))
            return "there"


def _said(member: Member) -> str:
    shown = [f"names={'+'.join(member.names) or 'none'}"]
    for name, value in (
        ("regex", member.regex or None),
        ("instance", member.instance_id),
        ("rack", member.rack_id),
        ("assignor", member.server_assignor),
        ("host", None if member.client_host == "/127.0.0.1" else member.client_host),
        ("timeout", None if member.rebalance_timeout_ms == 300_000 else str(member.rebalance_timeout_ms)),
        ("classic", None if member.classic is None else "+".join(member.classic.names)),
        ("session", None if member.classic is None else str(member.classic.session_timeout_ms)),
        ("client", None if member.client_id == member.member_id else member.client_id),
    ):
        if value is not None:
            shown.append(f"{name}={value}")
    return " ".join(shown)
