"""Subscriptions and assignments, byte for byte, and as other clients read and write them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from io import BytesIO
from typing import Any

import pytest
from aiokafka.coordinator.protocol import ConsumerProtocolMemberAssignment, ConsumerProtocolMemberMetadata
from hypothesis import given
from hypothesis import strategies as st
from kafka.protocol.consumer import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from kio.serial import entity_reader

from ottla.protocol.consumer_protocol import (
    Assignment,
    ConsumerTopicPartitions,
    Subscription,
    assigned_partitions,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
    subscribed_topics,
)
from ottla.protocol.errors import MalformedFrame, UnsupportedVersion

OWNED = [ConsumerTopicPartitions(topic="t", partitions=[0, 1])]
FULL = Subscription(topics=["t"], owned_partitions=OWNED, generation_id=5, rack_id="r1")
SUBSCRIPTIONS = [
    (0, "000000000001000174ffffffff"),
    (1, "000100000001000174ffffffff00000001000174000000020000000000000001"),
    (2, "000200000001000174ffffffff0000000100017400000002000000000000000100000005"),
    (3, "000300000001000174ffffffff000000010001740000000200000000000000010000000500027231"),
]
ASSIGNMENT = Assignment(assigned_partitions=OWNED)
ASSIGNMENT_HEX = "0000000000010001740000000200000000000000" + "01ffffffff"


def known_at(value: Subscription, version: int) -> Subscription:
    """What a version can say."""
    if version < 1:
        value = replace(value, owned_partitions=[])
    if version < 2:
        value = replace(value, generation_id=-1)
    if version < 3:
        value = replace(value, rack_id=None)
    return value


@pytest.mark.parametrize(("version", "expected"), SUBSCRIPTIONS)
def test_subscriptions(version: int, expected: str) -> None:
    assert encode_subscription(FULL, version).hex() == expected
    assert decode_subscription(bytes.fromhex(expected)) == known_at(FULL, version)


@pytest.mark.parametrize("version", range(4))
def test_assignments(version: int) -> None:
    expected = version.to_bytes(2, "big").hex() + ASSIGNMENT_HEX[4:]
    assert encode_assignment(ASSIGNMENT, version).hex() == expected
    assert decode_assignment(bytes.fromhex(expected)) == ASSIGNMENT


def test_a_newer_version_is_read_as_the_newest_known() -> None:
    data = bytes.fromhex("0063" + SUBSCRIPTIONS[3][1][4:] + "cafe")
    assert decode_subscription(data) == FULL
    assert decode_assignment(bytes.fromhex("0063" + ASSIGNMENT_HEX[4:] + "cafe")) == ASSIGNMENT


def test_only_known_versions_are_written() -> None:
    with pytest.raises(UnsupportedVersion):
        encode_subscription(FULL, 4)


@pytest.mark.parametrize("data", ["", "00", "ffff00000000ffffffff", "000000000002000174ffffffff"])
def test_what_is_no_subscription_is_refused(data: str) -> None:
    with pytest.raises(MalformedFrame):
        decode_subscription(bytes.fromhex(data))
    with pytest.raises(MalformedFrame):
        subscribed_topics(bytes.fromhex(data))


def test_topics_are_read_from_a_subscription_that_is_broken_behind_them() -> None:
    whole = bytes.fromhex(SUBSCRIPTIONS[3][1])
    assert subscribed_topics(whole) == ["t"]
    assert subscribed_topics(whole[:13]) == ["t"]
    with pytest.raises(MalformedFrame):
        decode_subscription(whole[:13])


TOPICS = st.text(st.characters(codec="utf-8"), max_size=10)
PARTITIONS = st.lists(
    st.builds(ConsumerTopicPartitions, topic=TOPICS, partitions=st.lists(st.integers(0, 2**31 - 1), max_size=4)),
    max_size=3,
)
SUBSCRIPTION = st.builds(
    Subscription,
    topics=st.lists(TOPICS, max_size=4),
    user_data=st.none() | st.binary(max_size=20),
    owned_partitions=PARTITIONS,
    generation_id=st.integers(-1, 2**31 - 1),
    rack_id=st.none() | TOPICS,
)


def listed(items: Any, name: str = "topic") -> list[tuple[str, list[int]]]:
    return [(getattr(item, name), list(item.partitions)) for item in items]


@given(SUBSCRIPTION, st.sampled_from(range(4)))
def test_kio_reads_the_same_subscription(value: Subscription, version: int) -> None:
    module = import_module(f"kio.schema.consumer_protocol_subscription.v{version}.data")
    read, _ = entity_reader(module.ConsumerProtocolSubscription)(encode_subscription(value, version), 2)
    assert list(read.topics) == value.topics
    assert read.user_data == value.user_data
    if version >= 1:
        assert listed(read.owned_partitions) == listed(value.owned_partitions)
    if version >= 2:
        assert read.generation_id == value.generation_id
    if version >= 3:
        assert read.rack_id == value.rack_id


@given(SUBSCRIPTION, st.sampled_from(range(4)))
def test_kafka_python_writes_the_same_subscription(value: Subscription, version: int) -> None:
    theirs = ConsumerProtocolSubscription(
        version=version,
        topics=value.topics,
        user_data=value.user_data,
        owned_partitions=[
            ConsumerProtocolSubscription.TopicPartition(topic=item.topic, partitions=item.partitions)
            for item in value.owned_partitions
        ],
        generation_id=value.generation_id,
        rack_id=value.rack_id,
    )
    assert theirs.encode(version=version) == encode_subscription(value, version)


@given(PARTITIONS, st.none() | st.binary(max_size=20), st.sampled_from(range(4)))
def test_kafka_python_writes_the_same_assignment(
    partitions: list[ConsumerTopicPartitions], user_data: bytes | None, version: int
) -> None:
    theirs = ConsumerProtocolAssignment(
        version=version,
        assigned_partitions=[
            ConsumerProtocolAssignment.TopicPartition(topic=item.topic, partitions=item.partitions)
            for item in partitions
        ],
        user_data=user_data,
    )
    ours = Assignment(assigned_partitions=partitions, user_data=user_data)
    assert theirs.encode(version=version) == encode_assignment(ours, version)


@given(st.lists(TOPICS, max_size=4), st.binary(max_size=20), PARTITIONS)
def test_aiokafka_reads_what_we_write(
    topics: list[str], user_data: bytes, partitions: list[ConsumerTopicPartitions]
) -> None:
    data = encode_subscription(Subscription(topics=topics, user_data=user_data), 0)
    metadata = ConsumerProtocolMemberMetadata.decode(BytesIO(data))
    assert (list(metadata.subscription), metadata.user_data) == (topics, user_data)
    data = encode_assignment(Assignment(assigned_partitions=partitions, user_data=user_data), 0)
    assignment = ConsumerProtocolMemberAssignment.decode(BytesIO(data))
    assert [(topic, list(numbers)) for topic, numbers in assignment.assignment] == listed(partitions)


def test_assigned_partitions_are_those_of_the_assignment() -> None:
    topics = [ConsumerTopicPartitions(topic="é" * size, partitions=[*range(size)]) for size in range(4)]
    for version, user_data in ((0, None), (3, b""), (7, b"user")):
        for some in ([], topics[:1], topics):
            whole = encode_assignment(Assignment(assigned_partitions=some, user_data=user_data), min(version, 3))
            whole = version.to_bytes(2, "big") + whole[2:]
            assert assigned_partitions(whole) == [(one.topic, index) for one in some for index in one.partitions]
            for data in (*(whole[:end] for end in range(len(whole))), b"\xff" + whole[1:], whole + b"more"):
                assert outcome(assigned_partitions, data) == outcome(decoded, data)


def decoded(data: bytes) -> list[tuple[str, int]]:
    return [(one.topic, index) for one in decode_assignment(data).assigned_partitions for index in one.partitions]


def outcome(read: Callable[[bytes], list[tuple[str, int]]], data: bytes) -> object:
    try:
        return read(data)
    except MalformedFrame as error:
        return str(error)
