"""Structs that may be null: a byte in front says whether the struct follows (as in DescribeTopicPartitions)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.protocol.errors import MalformedFrame
from ottla.protocol.messages.describe_topic_partitions import Cursor, DescribeTopicPartitionsRequest
from ottla.protocol.schema import ArrayOf, Int32, Message, String, message, struct, wire
from tests.protocol.wire_frames import written
from tests.protocol.wire_values import at_version, objects


@struct
class Inner:
    """The struct in the struct."""

    number: int = wire(Int32)


@struct
class Middle:
    """Null inside of what may be null."""

    name: str = wire(String)
    inner: Inner | None = wire(Inner, nullable_since=0, default=None)
    after: int = wire(Int32, default=7)


@message(versions=range(3), flexible_from=2)
class Nested(Message):
    """A nullable struct wherever one can stand: from version 1 on, in arrays, and as a tagged field."""

    before: int = wire(Int32)
    middle: Middle | None = wire(Middle, nullable_since=1)
    many: list[Middle] = wire(ArrayOf(Middle))
    tagged: Middle | None = wire(Middle, since=2, nullable_since=2, tag=3, default=None)
    last: int = wire(Int32)


@given(objects(Nested))
def test_null_and_present_at_every_level(drawn: Nested) -> None:
    for version in Nested.versions:
        layout, obj = Nested.layout(version), at_version(drawn, version)
        frame = bytes(written(obj, version).data)
        assert layout.encode(obj) == layout.build(obj) == frame
        assert layout.decode(frame) == layout.parse(frame) == obj


def request(marker: bytes, cursor: bytes) -> bytes:
    return b"\x01" + (2000).to_bytes(4, "big") + marker + cursor + b"\x00"


@pytest.mark.parametrize("marker", range(256))
def test_the_byte_in_front_is_a_sign(marker: int) -> None:
    """Kafka writes 1 or -1, and reads every negative one as null."""
    layout = DescribeTopicPartitionsRequest.layout(0)
    absent = marker >= 0x80
    frame = request(bytes([marker]), b"" if absent else b"\x02t\x00\x00\x00\x05\x00")
    cursor = None if absent else Cursor(topic_name="t", partition_index=5)
    assert layout.decode(frame) == layout.parse(frame) == DescribeTopicPartitionsRequest(cursor=cursor)


@given(st.binary(max_size=12))
def test_a_cursor_of_any_bytes(cursor: bytes) -> None:
    layout = DescribeTopicPartitionsRequest.layout(0)
    for marker in (b"\x01", b"\xff", b""):
        outcomes = []
        for read in (layout.decode, layout.parse):
            try:
                outcomes.append(read(request(marker, cursor)))
            except MalformedFrame:
                outcomes.append(MalformedFrame)
        assert outcomes[0] == outcomes[1]
