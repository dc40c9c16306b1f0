"""Records of __consumer_offsets, byte for byte."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.protocol.errors import MalformedFrame
from ottla.protocol.offsets_topic import (
    GroupKey,
    GroupMemberValue,
    GroupValue,
    OffsetKey,
    OffsetValue,
    decode_key,
    decode_value,
    encode_group_value,
    encode_offset_value,
    group_key,
    offset_key,
    record_type,
)

TIME = 1_700_000_000_000
OFFSET = OffsetValue(offset=100, leader_epoch=7, metadata="m", commit_timestamp=TIME)
EXPIRING = replace(OFFSET, expire_timestamp=TIME + 86_400_000)
TOPIC_ID = UUID("01020304-0506-0708-090a-0b0c0d0e0f10")
SUBSCRIPTION = bytes.fromhex("000000000001000174ffffffff")
ASSIGNMENT = bytes.fromhex("0000000000010001740000000100000000ffffffff")
GROUP = GroupValue(
    protocol_type="consumer",
    generation=1,
    protocol="range",
    leader="m1",
    current_state_timestamp=TIME,
    members=[
        GroupMemberValue(
            member_id="m1",
            group_instance_id="i1",
            client_id="c",
            client_host="/127.0.0.1",
            rebalance_timeout=60_000,
            session_timeout=10_000,
            subscription=SUBSCRIPTION,
            assignment=ASSIGNMENT,
        )
    ],
)
MEMBER = "00026d3100026931000163000a2f3132372e302e302e31"
BLOBS = "0000000d000000000001000174ffffffff000000150000000000010001740000000100000000ffffffff"
HEAD = "0008636f6e73756d657200000001000572616e676500026d31"
OLD_MEMBER = "00026d31000163000a2f3132372e302e302e31"

OFFSET_VALUES = [
    (0, OFFSET, "0000000000000000006400016d0000018bcfe56800"),
    (1, EXPIRING, "0001000000000000006400016d0000018bcfe568000000018bd50bc400"),
    (2, OFFSET, "0002000000000000006400016d0000018bcfe56800"),
    (3, OFFSET, "000300000000000000640000000700016d0000018bcfe56800"),
    (4, OFFSET, "0004000000000000006400000007026d0000018bcfe5680000"),
    (
        4,
        replace(OFFSET, topic_id=TOPIC_ID),
        "0004000000000000006400000007026d0000018bcfe568000100100102030405060708090a0b0c0d0e0f10",
    ),
]
GROUP_VALUES = [
    (0, f"0000{HEAD}00000001{OLD_MEMBER}00002710{BLOBS}"),
    (1, f"0001{HEAD}00000001{OLD_MEMBER}0000ea6000002710{BLOBS}"),
    (2, f"0002{HEAD}0000018bcfe5680000000001{OLD_MEMBER}0000ea6000002710{BLOBS}"),
    (3, f"0003{HEAD}0000018bcfe5680000000001{MEMBER}0000ea6000002710{BLOBS}"),
    (
        4,
        "000409636f6e73756d6572000000010672616e6765036d310000018bcfe5680002036d3103693102630b2f3132372e302e302e31"
        "0000ea60000027100e000000000001000174ffffffff160000000000010001740000000100000000ffffffff0000",
    ),
]


def known_at(value: OffsetValue, version: int) -> OffsetValue:
    """What a version can say of an offset."""
    if version < 3:
        value = replace(value, leader_epoch=-1)
    if version != 1:
        value = replace(value, expire_timestamp=-1)
    return value


def test_keys() -> None:
    assert offset_key("g1", "t", 3) == bytes.fromhex("00010002673100017400000003")
    assert group_key("g1") == bytes.fromhex("000200026731")
    for legacy in ("0000", "0001"):
        key = decode_key(bytes.fromhex(f"{legacy}0002673100017400000003"))
        assert key == OffsetKey(group_id="g1", topic="t", partition=3)
    assert decode_key(group_key("g1")) == GroupKey(group_id="g1")


@pytest.mark.parametrize("foreign", [3, 8, 15, 16, 23, 99, -1])
def test_keys_of_other_kinds_are_left_alone(foreign: int) -> None:
    key = foreign.to_bytes(2, "big", signed=True) + b"whatever"
    assert record_type(key) == foreign
    assert decode_key(key) is None


@pytest.mark.parametrize(("version", "value", "expected"), OFFSET_VALUES)
def test_offset_values(version: int, value: OffsetValue, expected: str) -> None:
    assert encode_offset_value(value, version).hex() == expected
    assert decode_value(OffsetValue, bytes.fromhex(expected)) == known_at(value, version)


def test_offsets_are_written_as_released_kafka_writes_them() -> None:
    assert encode_offset_value(OFFSET).hex() == OFFSET_VALUES[4][2]
    assert encode_offset_value(EXPIRING).hex() == OFFSET_VALUES[1][2]


@pytest.mark.parametrize(("version", "expected"), GROUP_VALUES)
def test_group_values(version: int, expected: str) -> None:
    assert encode_group_value(GROUP, version).hex() == expected
    member = GROUP.members[0]
    if version < 3:
        member = replace(member, group_instance_id=None)
    if version < 1:
        member = replace(member, rebalance_timeout=-1)
    known = replace(GROUP, members=[member])
    if version < 2:
        known = replace(known, current_state_timestamp=-1)
    assert decode_value(GroupValue, bytes.fromhex(expected)) == known


def test_groups_are_written_as_released_kafka_writes_them() -> None:
    assert encode_group_value(GROUP).hex() == GROUP_VALUES[3][1]
    fresh = GroupValue(protocol_type="", generation=0, current_state_timestamp=TIME)
    assert encode_group_value(fresh).hex() == "0003000000000000ffffffff0000018bcfe5680000000000"


def test_a_null_protocol_type_is_read() -> None:
    data = bytes.fromhex("0003ffff00000000ffffffff0000018bcfe5680000000000")
    assert decode_value(GroupValue, data).protocol_type is None


@pytest.mark.parametrize("version", ["0005", "ffff", "7fff"])
def test_values_of_unknown_versions_are_refused(version: str) -> None:
    data = bytes.fromhex(version) + bytes(100)
    with pytest.raises(MalformedFrame):
        decode_value(OffsetValue, data)
    with pytest.raises(MalformedFrame):
        decode_value(GroupValue, data)


@pytest.mark.parametrize("data", [b"", b"\0"])
def test_data_without_a_version_are_refused(data: bytes) -> None:
    for decode in (decode_key, partial(decode_value, OffsetValue), partial(decode_value, GroupValue)):
        with pytest.raises(MalformedFrame):
            decode(data)


def test_cut_off_records_are_refused_at_every_byte() -> None:
    for data, decode in [
        (offset_key("g1", "t", 3), decode_key),
        (group_key("g1"), decode_key),
        *((bytes.fromhex(expected), partial(decode_value, OffsetValue)) for _, _, expected in OFFSET_VALUES),
        *((bytes.fromhex(expected), partial(decode_value, GroupValue)) for _, expected in GROUP_VALUES),
    ]:
        for size in range(len(data)):
            with pytest.raises(MalformedFrame):
                decode(data[:size])


NAMES = st.text(st.characters(codec="utf-8"), max_size=20)


@given(NAMES, NAMES, st.integers(-(2**31), 2**31 - 1))
def test_keys_round_trip(group_id: str, topic: str, partition: int) -> None:
    expected = OffsetKey(group_id=group_id, topic=topic, partition=partition)
    assert decode_key(offset_key(group_id, topic, partition)) == expected
    assert decode_key(group_key(group_id)) == GroupKey(group_id=group_id)


@given(
    st.sampled_from(range(5)),
    st.builds(
        OffsetValue,
        offset=st.integers(-(2**63), 2**63 - 1),
        leader_epoch=st.integers(-1, 2**31 - 1),
        metadata=NAMES,
        commit_timestamp=st.integers(0, 2**50),
        expire_timestamp=st.integers(-1, 2**50),
    ),
)
def test_offset_values_round_trip(version: int, value: OffsetValue) -> None:
    assert decode_value(OffsetValue, encode_offset_value(value, version)) == known_at(value, version)
