"""Records of ``__consumer_offsets`` and ``__transaction_state`` in words and as JSON, whoever wrote them."""

from __future__ import annotations

from typing import Any

from ottla.cli import consumer_group_rows
from ottla.cli.output import count_of
from ottla.observe.printable import printable
from ottla.protocol.consumer_group_records import decode_consumer_group_key
from ottla.protocol.consumer_protocol import PROTOCOL_TYPE, decode_assignment, decode_subscription
from ottla.protocol.errors import MalformedFrame
from ottla.protocol.internal_topics import TRANSACTIONS_TOPIC
from ottla.protocol.offsets_topic import (
    GroupKey,
    GroupMemberValue,
    GroupValue,
    OffsetKey,
    OffsetValue,
    decode_key,
    decode_value,
    record_type,
)
from ottla.protocol.primitives import ZERO_UUID
from ottla.protocol.transaction_log import TransactionLogValue, TransactionStatus, decode_transaction_key

OFFSET = "OffsetCommit"
GROUP = "GroupMetadata"
CONSUMER_GROUP = tuple(consumer_group_rows.IN_WORDS)
TRANSACTION = "TransactionMetadata"
UNREADABLE = "unreadable"
DELETED = {"deleted": True}

# Types of key that share and streams groups write (KIP-932, KIP-1071), as Kafka names them; the key of each begins
# with the group id, and of those with "Member" the member id follows. Their values are not read.
OTHER_TYPES = {
    9: "ShareGroupPartitionMetadata",
    10: "ShareGroupMemberMetadata",
    11: "ShareGroupMetadata",
    12: "ShareGroupTargetAssignmentMetadata",
    13: "ShareGroupTargetAssignmentMember",
    14: "ShareGroupCurrentMemberAssignment",
    15: "ShareGroupStatePartitionMetadata",
    17: "StreamsGroupMetadata",
    18: "StreamsGroupPartitionMetadata",
    19: "StreamsGroupMemberMetadata",
    20: "StreamsGroupTargetAssignmentMetadata",
    21: "StreamsGroupTargetAssignmentMember",
    22: "StreamsGroupCurrentMemberAssignment",
    23: "StreamsGroupTopology",
}


def described(topic: str, key: bytes | None, value: bytes | None) -> dict[str, Any]:
    """A record of one of the two topics as a dictionary for JSON. Never raises: what cannot be read says so.

    A ``type`` is always there. ``deleted`` is true for a tombstone, whose other fields are those of the key.
    """
    try:
        if topic == TRANSACTIONS_TOPIC:
            return _transaction(key or b"", value)
        return _of_group(key or b"", value)
    except (MalformedFrame, ValueError) as error:
        return {"type": UNREADABLE, "reason": str(error)}


def _of_group(key: bytes, value: bytes | None) -> dict[str, Any]:
    row: dict[str, Any]
    decoded = decode_key(key)
    if isinstance(decoded, OffsetKey):
        row = {"type": OFFSET, "group": decoded.group_id, "topic": decoded.topic, "partition": decoded.partition}
        return row | (DELETED if value is None else _offset(value))
    if isinstance(decoded, GroupKey):
        row = {"type": GROUP, "group": decoded.group_id}
        return row | (DELETED if value is None else _group(value))
    if (of_consumers := decode_consumer_group_key(key)) is not None:
        row = consumer_group_rows.key_row(of_consumers)
        return row | (DELETED if value is None else consumer_group_rows.value_row(of_consumers, value))
    kind = record_type(key)
    name = OTHER_TYPES.get(kind, f"type {kind}")
    row = {"type": name}
    if kind in OTHER_TYPES:
        row["group"], rest = _text(key, 2)
        if "Member" in name:
            row["member_id"], _ = _text(key, rest)
    return row | (DELETED if value is None else {"value_bytes": len(value)})


def _text(data: bytes, at: int) -> tuple[str, int]:
    """A string with its length in two bytes, and where it ends."""
    start = at + 2
    end = start + int.from_bytes(data[at:start], "big")
    if end > len(data):
        raise MalformedFrame(f"a text of {end - start} bytes where {len(data) - start} are left")
    return data[start:end].decode(), end


def _offset(value: bytes) -> dict[str, Any]:
    stored = decode_value(OffsetValue, value)
    row: dict[str, Any] = {
        "offset": stored.offset,
        "leader_epoch": stored.leader_epoch,
        "metadata": stored.metadata,
        "commit_timestamp": stored.commit_timestamp,
    }
    if stored.expire_timestamp >= 0:
        row["expire_timestamp"] = stored.expire_timestamp
    if stored.topic_id != ZERO_UUID:
        row["topic_id"] = str(stored.topic_id)
    return row


def _group(value: bytes) -> dict[str, Any]:
    stored = decode_value(GroupValue, value)
    return {
        "protocol_type": stored.protocol_type,
        "generation": stored.generation,
        "protocol": stored.protocol,
        "leader": stored.leader,
        "current_state_timestamp": stored.current_state_timestamp,
        "members": [_member(member, stored.protocol_type) for member in stored.members],
    }


def _member(member: GroupMemberValue, protocol_type: str | None) -> dict[str, Any]:
    row: dict[str, Any] = {
        "member_id": member.member_id,
        "group_instance_id": member.group_instance_id,
        "client_id": member.client_id,
        "client_host": member.client_host,
        "rebalance_timeout_ms": member.rebalance_timeout,
        "session_timeout_ms": member.session_timeout,
    }
    if protocol_type != PROTOCOL_TYPE:
        return row | {"subscription_bytes": len(member.subscription), "assignment_bytes": len(member.assignment)}
    try:
        row["topics"] = decode_subscription(member.subscription).topics
    except MalformedFrame:
        row["subscription_bytes"] = len(member.subscription)
    try:
        assigned = decode_assignment(member.assignment).assigned_partitions if member.assignment else []
        row["assignment"] = [{"topic": one.topic, "partitions": one.partitions} for one in assigned]
    except MalformedFrame:
        row["assignment_bytes"] = len(member.assignment)
    return row


def _transaction(key: bytes, value: bytes | None) -> dict[str, Any]:
    transactional_id = decode_transaction_key(key)
    if transactional_id is None:
        return {"type": f"type {int.from_bytes(key[:2], 'big', signed=True)}"}
    row: dict[str, Any] = {"type": TRANSACTION, "transactional_id": transactional_id}
    if value is None:
        return row | DELETED
    stored = decode_value(TransactionLogValue, value)
    return row | {
        "state": _status(stored.transaction_status),
        "producer_id": stored.producer_id,
        "producer_epoch": stored.producer_epoch,
        "previous_producer_id": stored.previous_producer_id,
        "next_producer_id": stored.next_producer_id,
        "next_producer_epoch": stored.next_producer_epoch,
        "timeout_ms": stored.transaction_timeout_ms,
        "start_timestamp": stored.transaction_start_timestamp_ms,
        "last_update_timestamp": stored.transaction_last_update_timestamp_ms,
        "client_transaction_version": stored.client_transaction_version,
        "partitions": [
            {"topic": one.topic, "partitions": one.partition_ids} for one in stored.transaction_partitions or ()
        ],
    }


def _status(number: int) -> str:
    """``PrepareCommit``; a number that has no name stays one."""
    try:
        return TransactionStatus(number).name.title().replace("_", "")
    except ValueError:
        return str(number)


# -- in words


def in_words(row: dict[str, Any]) -> str:
    """A row of `described` as a line; a group has one more for each member. Names cannot add lines."""
    row = _printable(row)
    kind = row["type"]
    if kind == UNREADABLE:
        return f"unreadable: {row['reason']}"
    if kind in _IN_WORDS:
        subject, words_of = _IN_WORDS[kind]
        return f"{subject.format_map(row)}: {'deleted' if 'deleted' in row else words_of(row)}"
    words = [kind]
    if "group" in row:
        words.append(f"of group {row['group']}")
    if "member_id" in row:
        words.append(f"member {row['member_id']}")
    if "deleted" in row:
        words.append("deleted")
    elif "value_bytes" in row:
        words.append(f"({row['value_bytes']} bytes)")
    return " ".join(words)


def _printable(value: Any) -> Any:
    if isinstance(value, str):
        return printable(value)
    if isinstance(value, list):
        return [_printable(one) for one in value]
    return {name: _printable(one) for name, one in value.items()} if isinstance(value, dict) else value


def _offset_in_words(row: dict[str, Any]) -> str:
    words = [str(row["offset"])]
    if row["leader_epoch"] >= 0:
        words.append(f"epoch {row['leader_epoch']}")
    if row["metadata"]:
        words.append(f"metadata {row['metadata']!r}")
    if "expire_timestamp" in row:
        words.append(f"expires {row['expire_timestamp']}")
    return ", ".join(words)


def _group_in_words(row: dict[str, Any]) -> str:
    members = row["members"]
    words = [f"generation {row['generation']}", count_of(len(members), "member")]
    if row["protocol"]:
        words.append(f"protocol {row['protocol']}")
    lines = [", ".join(words)]
    for member in members:
        static = f" (instance {member['group_instance_id']})" if member["group_instance_id"] else ""
        leads = " leads" if member["member_id"] == row["leader"] else ""
        lines.append(f"    {member['member_id']}{static} on {member['client_host']}{leads}: {_assigned(member)}")
    return "\n".join(lines)


def _assigned(member: dict[str, Any]) -> str:
    if "assignment" not in member:
        return f"{member.get('assignment_bytes', 0)} bytes of assignment"
    return "; ".join(_places(member["assignment"])) or "no partitions"


def _transaction_in_words(row: dict[str, Any]) -> str:
    words = [row["state"], f"producer {row['producer_id']} epoch {row['producer_epoch']}"]
    if row["partitions"]:
        words.append(", ".join(_places(row["partitions"])))
    return ", ".join(words)


def _places(rows: list[dict[str, Any]]) -> list[str]:
    return [f"{one['topic']} {','.join(map(str, one['partitions']))}" for one in rows]


_IN_WORDS = {
    OFFSET: ("offset of group {group} in {topic}-{partition}", _offset_in_words),
    GROUP: ("group {group}", _group_in_words),
    TRANSACTION: ("transactional id {transactional_id}", _transaction_in_words),
    **consumer_group_rows.IN_WORDS,
}
