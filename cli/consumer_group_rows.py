"""Records of groups of the ``consumer`` protocol (KIP-848) as rows for JSON, and the rows in words."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ottla.cli.output import count_of, when
from ottla.protocol import consumer_group_records as wire
from ottla.protocol.offsets_topic import decode_value

# As Kafka names the states of a member in its log; the number is what the record says.
_STATES = {0: "STABLE", 1: "UNREVOKED_PARTITIONS", 2: "UNRELEASED_PARTITIONS"}

Row = dict[str, Any]


def key_row(key: wire.ConsumerGroupKey) -> Row:
    """What a key names: its ``type``, and a group, with a member or a regex of it."""
    row: Row = {"type": type(key).__name__.removesuffix("Key"), "group": key.group_id}
    match key:
        case (
            wire.ConsumerGroupMemberMetadataKey()
            | wire.ConsumerGroupTargetAssignmentMemberKey()
            | wire.ConsumerGroupCurrentMemberAssignmentKey()
        ):
            row["member_id"] = key.member_id
        case wire.ConsumerGroupRegularExpressionKey():
            row["regex"] = key.regular_expression
    return row


def value_row(key: wire.ConsumerGroupKey, value: bytes) -> Row:
    """What stands behind a key.

    Raises:
        MalformedFrame: the value cannot be read.
    """
    return _ROWS[type(key)](decode_value(wire.VALUES[type(key)], value))


def _group(value: wire.ConsumerGroupMetadataValue) -> Row:
    return {"epoch": value.epoch, "metadata_hash": value.metadata_hash}


def _old_topics(value: wire.ConsumerGroupPartitionMetadataValue) -> Row:
    return {
        "topics": [
            {
                "topic_id": str(topic.topic_id),
                "topic": topic.topic_name,
                "partitions": topic.num_partitions,
                "racks": [{"partition": one.partition, "racks": one.racks} for one in topic.partition_metadata],
            }
            for topic in value.topics
        ]
    }


def _member(value: wire.ConsumerGroupMemberMetadataValue) -> Row:
    classic = value.classic_member_metadata
    return {
        "group_instance_id": value.instance_id,
        "rack_id": value.rack_id,
        "client_id": value.client_id,
        "client_host": value.client_host,
        "topics": value.subscribed_topic_names,
        "regex": value.subscribed_topic_regex,
        "rebalance_timeout_ms": value.rebalance_timeout_ms,
        "assignor": value.server_assignor,
        "classic": classic
        and {
            "session_timeout_ms": classic.session_timeout_ms,
            "protocols": [protocol.name for protocol in classic.supported_protocols],
        },
    }


def _target_epoch(value: wire.ConsumerGroupTargetAssignmentMetadataValue) -> Row:
    return {"assignment_epoch": value.assignment_epoch, "assignment_timestamp": value.assignment_timestamp}


def _target(value: wire.ConsumerGroupTargetAssignmentMemberValue) -> Row:
    partitions = [{"topic_id": str(one.topic_id), "partitions": one.partitions} for one in value.topic_partitions]
    return {"target": partitions}


def _current(value: wire.ConsumerGroupCurrentMemberAssignmentValue) -> Row:
    return {
        "member_epoch": value.member_epoch,
        "previous_member_epoch": value.previous_member_epoch,
        "state": _STATES.get(value.state, "UNKNOWN"),
        "assigned": _owned(value.assigned_partitions),
        "pending_revocation": _owned(value.partitions_pending_revocation),
    }


def _owned(topics: Sequence[wire.CurrentTopicPartitions]) -> list[Row]:
    return [
        {"topic_id": str(one.topic_id), "partitions": one.partitions, "assignment_epochs": one.assignment_epochs}
        for one in topics
    ]


def _regex(value: wire.ConsumerGroupRegularExpressionValue) -> Row:
    return {"topics": value.topics, "version": value.version, "resolved_timestamp": value.timestamp}


_ROWS: dict[type[Any], Callable[[Any], Row]] = {
    wire.ConsumerGroupMetadataKey: _group,
    wire.ConsumerGroupPartitionMetadataKey: _old_topics,
    wire.ConsumerGroupMemberMetadataKey: _member,
    wire.ConsumerGroupTargetAssignmentMetadataKey: _target_epoch,
    wire.ConsumerGroupTargetAssignmentMemberKey: _target,
    wire.ConsumerGroupCurrentMemberAssignmentKey: _current,
    wire.ConsumerGroupRegularExpressionKey: _regex,
}


# -- in words


def _group_in_words(row: Row) -> str:
    hashed = f", topics hash to {row['metadata_hash']}" if row["metadata_hash"] else ", no topics"
    return f"epoch {row['epoch']}{hashed}"


def _old_topics_in_words(row: Row) -> str:
    return ", ".join(f"{one['topic']} ({count_of(one['partitions'], 'partition')})" for one in row["topics"]) or "none"


def _member_in_words(row: Row) -> str:
    static = f"instance {row['group_instance_id']}, " if row["group_instance_id"] else ""
    wants = [*row["topics"], *([f"regex {row['regex']}"] if row["regex"] else [])]
    words = [f"{static}on {row['client_host']}, subscribes to {', '.join(wants) or 'nothing'}"]
    if row["rack_id"]:
        words.append(f"rack {row['rack_id']}")
    if row["assignor"]:
        words.append(f"assignor {row['assignor']}")
    if row["classic"] is not None:
        words.append(f"classic protocol ({', '.join(row['classic']['protocols'])})")
    return "; ".join(words)


def _target_epoch_in_words(row: Row) -> str:
    at = row["assignment_timestamp"]
    return f"epoch {row['assignment_epoch']}" + (f", computed {when(at)}" if at else "")


def _target_in_words(row: Row) -> str:
    return _places(row["target"])


def _current_in_words(row: Row) -> str:
    words = f"epoch {row['member_epoch']} (before {row['previous_member_epoch']}), {row['state']}: "
    words += _places(row["assigned"])
    pending = row["pending_revocation"]
    return f"{words}; has to give up {_places(pending)}" if pending else words


def _regex_in_words(row: Row) -> str:
    return f"{', '.join(row['topics']) or 'no topics'}, resolved {when(row['resolved_timestamp'])}"


def _places(topics: Sequence[Row]) -> str:
    return "; ".join(f"{one['topic_id']} {','.join(map(str, one['partitions']))}" for one in topics) or "no partitions"


IN_WORDS: dict[str, tuple[str, Callable[[Row], str]]] = {
    "ConsumerGroupMetadata": ("consumer group {group}", _group_in_words),
    "ConsumerGroupPartitionMetadata": ("topics of consumer group {group}", _old_topics_in_words),
    "ConsumerGroupMemberMetadata": ("member {member_id} of consumer group {group}", _member_in_words),
    "ConsumerGroupTargetAssignmentMetadata": ("target of consumer group {group}", _target_epoch_in_words),
    "ConsumerGroupTargetAssignmentMember": (
        "target of member {member_id} of consumer group {group}",
        _target_in_words,
    ),
    "ConsumerGroupCurrentMemberAssignment": (
        "assignment of member {member_id} of consumer group {group}",
        _current_in_words,
    ),
    "ConsumerGroupRegularExpression": ("regex {regex} of consumer group {group}", _regex_in_words),
}
"""The type of a row → its subject, and what is said of it."""
