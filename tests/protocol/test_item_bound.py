"""A frame of a size that is allowed must not become gigabytes of objects."""

from __future__ import annotations

import struct

import pytest

from ottla.protocol.errors import MalformedFrame
from ottla.protocol.messages.list_offsets import ListOffsetsRequest
from ottla.protocol.messages.metadata import MetadataRequest
from ottla.protocol.primitives import MAX_ITEMS, uvarint_bytes

EMPTY_TOPIC = b"\x01\x00"  # a compact name of no bytes and no tags


@pytest.mark.parametrize("decode", ["decode", "parse"])
def test_one_array_over_the_bound_is_refused_before_it_is_read(decode: str) -> None:
    layout = MetadataRequest.layout(9)
    body = uvarint_bytes(MAX_ITEMS + 2) + EMPTY_TOPIC * (MAX_ITEMS + 1) + b"\0\0\0\0"
    with pytest.raises(MalformedFrame, match="topics: more array items"):
        getattr(layout, decode)(body)


@pytest.mark.parametrize("decode", ["decode", "parse"])
def test_nested_arrays_count_together(decode: str) -> None:
    """Ten topics, each with a fifth of what is allowed."""
    layout = ListOffsetsRequest.layout(1)
    partition = struct.pack(">iq", 0, -1)
    many = MAX_ITEMS // 5
    topic = struct.pack(">h", 0) + struct.pack(">i", many) + partition * many
    body = struct.pack(">ii", -1, 10) + topic * 10
    with pytest.raises(MalformedFrame, match=r"topics\[\d\]\.partitions: more array items"):
        getattr(layout, decode)(body)


@pytest.mark.parametrize("decode", ["decode", "parse"])
def test_many_items_within_the_bound_are_read(decode: str) -> None:
    layout = MetadataRequest.layout(9)
    body = uvarint_bytes(20_001) + EMPTY_TOPIC * 20_000 + b"\0\0\0\0"
    assert len(getattr(layout, decode)(body).topics) == 20_000
