"""Answers, records and groups as one line of text each."""

from __future__ import annotations

from typing import Any

from ottla.broker.core.groups.coordinator import GroupCoordinator
from ottla.protocol.consumer_protocol import decode_assignment, embedded_version, subscribed_topics
from ottla.protocol.errors import ErrorCode, MalformedFrame
from ottla.protocol.offsets_topic import CoordinatorRecord, GroupKey, GroupValue, OffsetValue, decode_key, decode_value


def quoted(text: str | None) -> str:
    """Absent and empty told apart."""
    return "null" if text is None else text or "''"


def metadata_text(data: bytes) -> str:
    """The topics of a subscription, or the bytes as text."""
    try:
        return "+".join(subscribed_topics(data))
    except MalformedFrame:
        return data.decode()


def assignment_text(data: bytes) -> str:
    """The partitions of an assignment, with what else is in it, or the bytes as text."""
    try:
        assignment = decode_assignment(data)
    except MalformedFrame:
        return quoted(data.decode())
    names = sorted(f"{one.topic}-{number}" for one in assignment.assigned_partitions for number in one.partitions)
    more = "" if assignment.user_data is None else f" and {assignment.user_data.decode()}"
    return f"v{embedded_version(data)} {{{' '.join(names)}}}{more}"


def error_name(answer: Any) -> str:
    return ErrorCode(answer.error_code).name


def render_answer(answer: Any) -> str:
    """The fields of an answer that say something."""
    name = type(answer).__name__.removesuffix("Response")
    return f"{name} {RENDERERS[name](answer)}".rstrip()


def _join(answer: Any) -> str:
    parts = [error_name(answer)]
    if answer.generation_id != -1:
        parts.append(f"generation={answer.generation_id}")
    if answer.protocol_type is not None or answer.protocol_name:
        parts.append(f"protocol={quoted(answer.protocol_type)}/{quoted(answer.protocol_name)}")
    if answer.leader:
        parts.append(f"leader={answer.leader}")
    parts.append(f"member={quoted(answer.member_id)}")
    if answer.skip_assignment:
        parts.append("skip-assignment")
    if answer.members:
        shown = [
            f"{item.member_id}{'/' + item.group_instance_id if item.group_instance_id else ''}"
            f"({metadata_text(item.metadata)})"
            for item in answer.members
        ]
        parts.append(f"members=[{' '.join(shown)}]")
    return " ".join(parts)


def _sync(answer: Any) -> str:
    if answer.error_code:
        assert answer.assignment == b"" and answer.protocol_type is None and answer.protocol_name is None
        return error_name(answer)
    return (
        f"NONE protocol={quoted(answer.protocol_type)}/{quoted(answer.protocol_name)} "
        f"assignment={assignment_text(answer.assignment)}"
    )


def _leave(answer: Any) -> str:
    shown = [
        f"{quoted(item.member_id)}{'/' + item.group_instance_id if item.group_instance_id else ''}={error_name(item)}"
        for item in answer.members
    ]
    return f"{error_name(answer)} [{' '.join(shown)}]"


def _commit(answer: Any) -> str:
    return " ".join(
        f"{topic.name}-{item.partition_index}={error_name(item)}"
        for topic in answer.topics
        for item in topic.partitions
    )


def _fetched(topics: Any) -> str:
    parts = []
    for topic in topics:
        for item in topic.partitions:
            shown = f"{topic.name}-{item.partition_index}={item.committed_offset}"
            if item.committed_leader_epoch != -1:
                shown += f"@{item.committed_leader_epoch}"
            if item.metadata:
                shown += f"({item.metadata})"
            if item.error_code:
                shown += f"!{error_name(item)}"
            assert item.metadata is not None
            parts.append(shown)
    return " ".join(parts)


def _fetch(answer: Any) -> str:
    if answer.groups:
        return "; ".join(
            f"{item.group_id}: {error_name(item)} {_fetched(item.topics)}".rstrip() for item in answer.groups
        )
    return f"{error_name(answer)} {_fetched(answer.topics)}"


def _delete_offsets(answer: Any) -> str:
    return f"{error_name(answer)} {_commit(answer)}"


def _delete_groups(answer: Any) -> str:
    return " ".join(f"{quoted(item.group_id)}={error_name(item)}" for item in answer.results)


def _describe(answer: Any) -> str:
    shown = []
    for group in answer.groups:
        parts = [f"{quoted(group.group_id)}: {error_name(group)} {quoted(group.group_state)}"]
        parts.append(f"protocol={quoted(group.protocol_type)}/{quoted(group.protocol_data)}")
        for item in group.members:
            instance = f"/{item.group_instance_id}" if item.group_instance_id else ""
            parts.append(
                f"{item.member_id}{instance}@{item.client_id}{item.client_host}"
                f"({quoted(metadata_text(item.member_metadata))}={assignment_text(item.member_assignment)})"
            )
        if group.error_message is not None:
            parts.append(repr(group.error_message))
        shown.append(" ".join(parts))
    return "; ".join(shown)


def _list(answer: Any) -> str:
    shown = [
        f"{quoted(item.group_id)}({quoted(item.protocol_type)} {quoted(item.group_state)} {quoted(item.group_type)})"
        for item in answer.groups
    ]
    return f"{error_name(answer)} {' '.join(shown)}"


RENDERERS = {
    "JoinGroup": _join,
    "SyncGroup": _sync,
    "LeaveGroup": _leave,
    "OffsetCommit": _commit,
    "TxnOffsetCommit": _commit,
    "OffsetFetch": _fetch,
    "OffsetDelete": _delete_offsets,
    "DeleteGroups": _delete_groups,
    "DescribeGroups": _describe,
    "ListGroups": _list,
}


def render_record(record: CoordinatorRecord) -> str:
    """A record of the log."""
    key = decode_key(record.key)
    assert key is not None
    if isinstance(key, GroupKey):
        if record.value is None:
            return f"group {quoted(key.group_id)} tombstone"
        value = decode_value(GroupValue, record.value)
        members = [
            f"{item.member_id}{'/' + item.group_instance_id if item.group_instance_id else ''}"
            f"({metadata_text(item.subscription)}={assignment_text(item.assignment)})"
            for item in value.members
        ]
        return (
            f"group {quoted(key.group_id)} v{record.value[1]} generation={value.generation} "
            f"protocol={quoted(value.protocol_type)}/{quoted(value.protocol)} leader={quoted(value.leader)} "
            f"members=[{' '.join(members)}]"
        )
    name = f"offset {quoted(key.group_id)} {key.topic}-{key.partition}"
    if record.value is None:
        return f"{name} tombstone"
    offset = decode_value(OffsetValue, record.value)
    what = f"{offset.offset}@{offset.leader_epoch} ({offset.metadata})"
    shown = f"{name} v{record.value[1]} {what} at {offset.commit_timestamp}"
    return shown if offset.expire_timestamp == -1 else f"{shown} until {offset.expire_timestamp}"


def render_group(coordinator: GroupCoordinator, group_id: str) -> list[str]:
    """A group as it is in memory."""
    group = coordinator.groups.get(group_id)
    if group is None:
        return [f"{group_id}: unknown"]
    members = [
        f"{member.member_id}{'!' if member.is_new else ''}{' joining' if member.parked_join else ''}"
        f"{' syncing' if member.parked_sync else ''} until {member.session_deadline_ms}"
        for member in group.members.values()
    ]
    return [
        f"{group_id}: {group.state} generation={group.generation} leader={quoted(group.leader_id)} "
        f"protocol={quoted(group.protocol_type)}/{quoted(group.protocol_name)}",
        f"members: {'; '.join(members) or 'none'}",
        f"pending: {' '.join(group.pending_members) or 'none'}, to sync: {' '.join(group.pending_sync) or 'none'}",
    ]
