"""Records of groups of the ``consumer`` protocol (KIP-848), keys 3 to 8 and 16, one at a time: they are rare."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from ottla.pipeline import tables
from ottla.pipeline.codec import columns
from ottla.pipeline.codec.chunk import Chunk
from ottla.pipeline.codec.scalar import Unreadable, consumer_key_of, whole_value
from ottla.protocol import consumer_group_records as wire

_STATES = {0: "STABLE", 1: "UNREVOKED_PARTITIONS", 2: "UNRELEASED_PARTITIONS"}
_RECORDS: dict[type[Any], str] = {
    wire.ConsumerGroupMetadataKey: "group_epoch",
    wire.ConsumerGroupPartitionMetadataKey: "old_topics",
    wire.ConsumerGroupMemberMetadataKey: "member",
    wire.ConsumerGroupTargetAssignmentMetadataKey: "target_epoch",
    wire.ConsumerGroupTargetAssignmentMemberKey: "target",
    wire.ConsumerGroupCurrentMemberAssignmentKey: "assignment",
    wire.ConsumerGroupRegularExpressionKey: "regex",
}
_NEVER = -1
"""The time of a target that was not computed, but came to be by a conversion."""


def read(chunk: Chunk) -> tuple[list[int], list[dict[str, Any]]]:
    """The numbers of the records that can be read, and rows of what they say, without what is NULL."""
    rows, found = [], []
    for row in range(len(chunk)):
        try:
            said = change(chunk.key(row), chunk.value(row))
        except Unreadable:
            continue
        rows.append(row)
        found.append(said)
    return rows, found


def change(key: bytes | None, value: bytes | None) -> dict[str, Any]:
    """What a record says.

    Raises:
        Unreadable: it is none of such a group.
    """
    named = consumer_key_of(key)
    said: dict[str, Any] = {
        "group_id": named.group_id,
        "record": _RECORDS[type(named)],
        "is_tombstone": value is None,
    }
    match named:
        case wire.ConsumerGroupRegularExpressionKey():
            said["regex"] = named.regular_expression
        case (
            wire.ConsumerGroupMemberMetadataKey()
            | wire.ConsumerGroupTargetAssignmentMemberKey()
            | wire.ConsumerGroupCurrentMemberAssignmentKey()
        ):
            said["member_id"] = named.member_id
    if value is not None:
        said |= _value(whole_value(wire.VALUES[type(named)], value))
    return said


def _value(value: Any) -> dict[str, Any]:
    match value:
        case wire.ConsumerGroupMetadataValue():
            return {"epoch": value.epoch, "metadata_hash": value.metadata_hash}
        case wire.ConsumerGroupPartitionMetadataValue():
            return {"topics": [topic.topic_name for topic in value.topics]}
        case wire.ConsumerGroupMemberMetadataValue():
            return _member(value)
        case wire.ConsumerGroupTargetAssignmentMetadataValue():
            return {"epoch": value.assignment_epoch, "computed_at_ms": value.assignment_timestamp or _NEVER}
        case wire.ConsumerGroupTargetAssignmentMemberValue():
            return {"partitions": _partitions(value.topic_partitions)}
        case wire.ConsumerGroupRegularExpressionValue():
            return {"topics": value.topics, "computed_at_ms": value.timestamp}
    return {
        "epoch": value.member_epoch,
        "previous_epoch": value.previous_member_epoch,
        "state": _STATES.get(value.state, "UNKNOWN"),
        "partitions": _partitions(value.assigned_partitions),
        "to_revoke": _partitions(value.partitions_pending_revocation),
    }


def _member(value: wire.ConsumerGroupMemberMetadataValue) -> dict[str, Any]:
    classic = value.classic_member_metadata
    return {
        "group_instance_id": value.instance_id,
        "rack_id": value.rack_id,
        "client_id": value.client_id,
        "client_host": value.client_host,
        "topics": value.subscribed_topic_names,
        "regex": value.subscribed_topic_regex or None,
        "assignor": value.server_assignor,
        "rebalance_timeout_ms": value.rebalance_timeout_ms,
        "is_classic": classic is not None,
        "session_timeout_ms": classic and classic.session_timeout_ms,
    }


def _partitions(
    topics: Sequence[wire.TargetTopicPartitions] | Sequence[wire.CurrentTopicPartitions],
) -> list[dict[str, Any]]:
    return [
        {"topic_id": str(topic.topic_id), "partition": partition} for topic in topics for partition in topic.partitions
    ]


def rows(chunk: Chunk) -> pa.RecordBatch:
    """The rows of ``consumer_group_changes``; records that cannot be read are left out."""
    good, found = read(chunk)
    chunk = chunk.take(np.array(good, np.int64))
    schema = tables.CONSUMER_GROUP_CHANGES.arrow(whole=False)
    place = columns.log_place(chunk)
    return pa.RecordBatch.from_arrays([*place, *_payload(found, list(schema)[len(place) :])], schema=schema)


def _payload(found: Sequence[dict[str, Any]], fields: Sequence[pa.Field]) -> list[pa.Array]:
    computed = columns.times(np.array([one.get("computed_at_ms", -1) for one in found], np.int64))
    return [
        computed if field.name == "computed_at" else pa.array([one.get(field.name) for one in found], field.type)
        for field in fields
    ]
