"""Records of consumer groups, byte for byte as Kafka 4.3's own serializers write them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given

from ottla.protocol.consumer_group_records import (
    VALUES,
    ClassicMemberMetadata,
    ClassicProtocol,
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupKey,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupPartitionMetadataValue,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
    ConsumerGroupValue,
    CurrentTopicPartitions,
    PartitionMetadata,
    TargetTopicPartitions,
    TopicMetadata,
    decode_consumer_group_key,
    encode_consumer_group_key,
    encode_consumer_group_value,
)
from ottla.protocol.errors import MalformedFrame
from ottla.protocol.offsets_topic import decode_key, decode_value
from ottla.protocol.primitives import MAX_ITEMS
from tests.protocol.wire_values import at_version, examples, full, name_of, objects

TIME = 1_700_000_000_000
TOPIC_ID = UUID("01020304-0506-0708-090a-0b0c0d0e0f10")

KEYS: list[tuple[str, ConsumerGroupKey]] = [
    ("0003000167", ConsumerGroupMetadataKey(group_id="g")),
    ("0004000167", ConsumerGroupPartitionMetadataKey(group_id="g")),
    ("000500016700016d", ConsumerGroupMemberMetadataKey(group_id="g", member_id="m")),
    ("0006000167", ConsumerGroupTargetAssignmentMetadataKey(group_id="g")),
    ("000700016700016d", ConsumerGroupTargetAssignmentMemberKey(group_id="g", member_id="m")),
    ("000800016700016d", ConsumerGroupCurrentMemberAssignmentKey(group_id="g", member_id="m")),
    ("00100001670003742e2a", ConsumerGroupRegularExpressionKey(group_id="g", regular_expression="t.*")),
]
MEMBER = ConsumerGroupMemberMetadataValue(
    client_id="c",
    client_host="/127.0.0.1",
    subscribed_topic_names=["t"],
    subscribed_topic_regex="",
    rebalance_timeout_ms=300_000,
    classic_member_metadata=None,
)
CLASSIC = ClassicMemberMetadata(
    session_timeout_ms=45_000, supported_protocols=[ClassicProtocol(name="range", metadata=b"\x01\x02\x03")]
)


def current(*partitions: int, epochs: list[int] | None) -> CurrentTopicPartitions:
    return CurrentTopicPartitions(topic_id=TOPIC_ID, partitions=list(partitions), assignment_epochs=epochs)


VECTORS: list[tuple[str, ConsumerGroupValue]] = [
    (
        "0000000000020100087182b63b37dbcc4c",
        ConsumerGroupMetadataValue(epoch=2, metadata_hash=8179300238714719308),
    ),
    ("00000000000200", ConsumerGroupMetadataValue(epoch=2)),
    ("00007fffffff010008ffffffffffffffff", ConsumerGroupMetadataValue(epoch=2**31 - 1, metadata_hash=-1)),
    (
        "0000020102030405060708090a0b0c0d0e0f10027400000002020000000103037231037232000000",
        ConsumerGroupPartitionMetadataValue(
            topics=[
                TopicMetadata(
                    topic_id=TOPIC_ID,
                    topic_name="t",
                    num_partitions=2,
                    partition_metadata=[PartitionMetadata(partition=1, racks=["r1", "r2"])],
                )
            ]
        ),
    ),
    ("0000000002630b2f3132372e302e302e3102027401000493e00001000100", MEMBER),
    ("0000000002630b2f3132372e302e302e3102027400000493e00001000100", replace(MEMBER, subscribed_topic_regex=None)),
    (
        "0000000002630b2f3132372e302e302e3102027401000493e00000",
        replace(MEMBER, classic_member_metadata=ClassicMemberMetadata()),
    ),
    (
        "00000269027202630b2f3132372e302e302e31030274027504742e2a000493e00672616e676501000100",
        replace(
            MEMBER,
            instance_id="i",
            rack_id="r",
            server_assignor="range",
            subscribed_topic_regex="t.*",
            subscribed_topic_names=["t", "u"],
        ),
    ),
    (
        "0000000002630b2f3132372e302e302e3102027401000493e000010012010000afc8020672616e6765040102030000",
        replace(MEMBER, classic_member_metadata=CLASSIC),
    ),
    (
        "0000000000020100080000018bcfe56800",
        ConsumerGroupTargetAssignmentMetadataValue(assignment_epoch=2, assignment_timestamp=TIME),
    ),
    ("00000000000200", ConsumerGroupTargetAssignmentMetadataValue(assignment_epoch=2)),
    (
        "0000020102030405060708090a0b0c0d0e0f10040000000000000001000000020000",
        ConsumerGroupTargetAssignmentMemberValue(
            topic_partitions=[TargetTopicPartitions(topic_id=TOPIC_ID, partitions=[0, 1, 2])]
        ),
    ),
    ("00000100", ConsumerGroupTargetAssignmentMemberValue()),
    (
        "0000000000020000000000020102030405060708090a0b0c0d0e0f1004000000000000000100000002"
        "01000d040000000200000002000000020100",
        ConsumerGroupCurrentMemberAssignmentValue(
            member_epoch=2, assigned_partitions=[current(0, 1, 2, epochs=[2, 2, 2])]
        ),
    ),
    (
        "0000000000020000000201020102030405060708090a0b0c0d0e0f100200000000010005020000000202"
        "0102030405060708090a0b0c0d0e0f1003000000010000000201000903000000020000000200",
        ConsumerGroupCurrentMemberAssignmentValue(
            member_epoch=2,
            previous_member_epoch=2,
            state=1,
            assigned_partitions=[current(0, epochs=[2])],
            partitions_pending_revocation=[current(1, 2, epochs=[2, 2])],
        ),
    ),
    (  # without epochs, as brokers before 4.2 wrote it
        "0000fffffffe0000000102020102030405060708090a0b0c0d0e0f100200000000000100",
        ConsumerGroupCurrentMemberAssignmentValue(
            member_epoch=-2, previous_member_epoch=1, state=2, assigned_partitions=[current(0, epochs=None)]
        ),
    ),
    (
        "0000030274037432000000000000002a0000018bcfe5680000",
        ConsumerGroupRegularExpressionValue(topics=["t", "t2"], version=42, timestamp=TIME),
    ),
]


@pytest.mark.parametrize(("data", "key"), KEYS)
def test_keys(data: str, key: ConsumerGroupKey) -> None:
    assert encode_consumer_group_key(key).hex() == data
    assert decode_consumer_group_key(bytes.fromhex(data)) == key
    assert decode_key(bytes.fromhex(data)) is None


@pytest.mark.parametrize(("data", "value"), VECTORS)
def test_values(data: str, value: ConsumerGroupValue) -> None:
    """6.1, R6.4: what has its default is not written where it is tagged."""
    assert encode_consumer_group_value(value).hex() == data
    assert decode_value(type(value), bytes.fromhex(data)) == value


def test_every_key_has_a_value_with_a_vector() -> None:
    assert list(VALUES) == [type(key) for _, key in KEYS]
    assert [*dict.fromkeys(type(value) for _, value in VECTORS)] == list(VALUES.values())


@pytest.mark.parametrize("foreign", [0, 1, 2, 9, 11, 15, 17, 23, 99, -1])
def test_keys_of_other_kinds_are_left_alone(foreign: int) -> None:
    """Classic groups, share groups, streams groups, and what is to come."""
    assert decode_consumer_group_key(foreign.to_bytes(2, "big", signed=True) + b"whatever") is None


def test_cut_off_records_are_refused_at_every_byte() -> None:
    for data, _ in KEYS:
        for size in range(len(data) // 2):
            with pytest.raises(MalformedFrame):
                decode_consumer_group_key(bytes.fromhex(data)[:size])
    for data, value in VECTORS:
        for size in range(len(data) // 2):
            with pytest.raises(MalformedFrame):
                decode_value(type(value), bytes.fromhex(data)[:size])


def test_an_unknown_tag_is_skipped() -> None:
    """R6.4."""
    data = bytes.fromhex("0000000000020200087182b63b37dbcc4c0702abcd")
    assert decode_value(ConsumerGroupMetadataValue, data) == VECTORS[0][1]


@pytest.mark.parametrize("version", ["0001", "ffff"])
def test_values_of_unknown_versions_are_refused(version: str) -> None:
    for message_class in VALUES.values():
        with pytest.raises(MalformedFrame):
            decode_value(message_class, bytes.fromhex(version) + bytes(100))


@pytest.mark.parametrize("cls", [cls for pair in VALUES.items() for cls in pair], ids=name_of)
def test_what_is_written_is_read(cls: Any) -> None:
    version = cls.versions[0]

    @examples(25)
    @given(objects(cls))
    def check(drawn: Any) -> None:
        for value in (at_version(drawn, version), full(cls)):
            if cls in VALUES:
                assert decode_consumer_group_key(encode_consumer_group_key(value)) == value
            else:
                assert decode_value(cls, encode_consumer_group_value(value)) == value

    check()


def test_an_assignment_of_more_partitions_than_a_request_may_name_is_read_again() -> None:
    """A record that cannot be read would keep the broker from starting."""
    value = ConsumerGroupTargetAssignmentMemberValue(
        topic_partitions=[TargetTopicPartitions(topic_id=TOPIC_ID, partitions=[*range(2 * MAX_ITEMS)])]
    )
    assert decode_value(type(value), encode_consumer_group_value(value)) == value
