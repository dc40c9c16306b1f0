"""Every message at every version: fused code and construct write the same bytes and read the same objects."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.protocol.errors import MalformedFrame
from tests.protocol.wire_frames import written
from tests.protocol.wire_values import APIS, HEADERS, MESSAGES, at_version, examples, full, layouts, name_of, objects

ALL = MESSAGES + HEADERS


@pytest.mark.parametrize("cls", ALL, ids=name_of)
def test_round_trip_at_every_version(cls: Any) -> None:
    @examples(10)
    @given(objects(cls))
    def check(drawn: Any) -> None:
        for version in cls.versions:
            layout, expected = cls.layout(version), at_version(drawn, version)
            frame = layout.encode(expected)
            assert frame == layout.build(expected)
            assert layout.decode(frame) == expected
            assert layout.parse(frame) == expected

    check()


@pytest.mark.parametrize("cls", ALL, ids=name_of)
@pytest.mark.parametrize("make", [full, lambda cls: cls()], ids=["every field", "defaults"])
def test_fields_survive(make: Callable[[Any], Any], cls: Any) -> None:
    """What a caller leaves out is written as its default, and tagged fields are then not written at all."""
    for layout in layouts(cls):
        given = make(cls)
        obj = at_version(given, layout.version)
        frame = bytes(written(obj, layout.version).data)
        assert layout.encode(given) == layout.build(given) == layout.encode(obj) == layout.build(obj) == frame
        assert layout.decode(frame) == layout.parse(frame) == obj


@pytest.mark.parametrize("cls", ALL, ids=name_of)
def test_what_follows_the_message_is_ignored(cls: Any) -> None:
    for layout in layouts(cls):
        obj = at_version(full(layout.message), layout.version)
        data = b"before" + layout.encode(obj) + b"\xffafter"
        assert layout.decode(data, 6) == layout.parse(data, 6) == obj


@pytest.mark.parametrize("cls", ALL, ids=name_of)
def test_decoded_messages_share_nothing_mutable(cls: Any) -> None:
    for layout in layouts(cls):
        frame = layout.encode(layout.message())
        one, other = layout.decode(frame), layout.decode(frame)
        for field in layout.message.__wire__:
            value = getattr(one, field.name)
            if isinstance(value, list) or hasattr(value, "__wire__"):
                assert value is not getattr(other, field.name)


@pytest.mark.parametrize("cls", ALL, ids=name_of)
def test_any_sequence_and_any_buffer_is_written(cls: Any) -> None:
    """Arrays may be tuples and records memoryviews: nothing needs to be copied into a list to be sent."""
    for layout in layouts(cls):
        for obj in (at_version(full(layout.message), layout.version), layout.message()):
            expected = layout.encode(obj)
            assert layout.encode(_loosened(obj)) == expected
            assert layout.build(_loosened(obj)) == expected


def _loosened(obj: Any) -> Any:
    values = {}
    for field in type(obj).__wire__:
        value = getattr(obj, field.name)
        if isinstance(value, list):
            value = tuple(_loosened(item) if hasattr(item, "__wire__") else item for item in value)
        elif hasattr(value, "__wire__"):
            value = _loosened(value)
        elif isinstance(value, bytes):
            value = memoryview(value)
        values[field.name] = value
    return type(obj)(**values)


@pytest.mark.parametrize("row", APIS, ids=lambda row: row.key.name)
def test_response_frames_are_length_header_and_message(row: Any) -> None:
    for version in row.response.versions:
        layout = row.response.layout(version)
        obj = at_version(full(row.response), version)
        for header_tags in (False, True):
            head = (-2_000_000_000).to_bytes(4, "big", signed=True) + (b"\0" if header_tags else b"")
            body = layout.build(obj)
            frame = (len(head) + len(body)).to_bytes(4, "big") + head + body
            for fused in (False, True):
                encode = layout.response_encoder(header_tags=header_tags, fused=fused)
                assert encode(obj, -2_000_000_000) == frame, (version, header_tags, fused)


# ------------------------------------------------------------------------------------------- bytes that nobody meant


def outcome(read: Callable[[bytes], Any], data: bytes) -> Any:
    """What reading gives. Any other exception than MalformedFrame is a failure."""
    try:
        return read(data)
    except MalformedFrame:
        return MalformedFrame


@st.composite
def damaged(draw: st.DrawFn, frame: bytes) -> bytes:
    """The frame with a few bytes changed, taken out or put in."""
    data = bytearray(frame)
    for _ in range(draw(st.integers(1, 3))):
        position = draw(st.integers(0, max(0, len(data) - 1)))
        change = draw(st.sampled_from(["set", "cut", "insert"]))
        values = draw(st.sampled_from([b"\x00", b"\x01", b"\x7f", b"\x80", b"\xff", b"\xff" * 4, b"\x02\x00"]))
        if change == "set":
            data[position : position + len(values)] = values
        elif change == "cut":
            del data[position : position + len(values)]
        else:
            data[position:position] = values
    return bytes(data)


@pytest.mark.parametrize("cls", ALL, ids=name_of)
def test_damaged_frames_are_read_alike(cls: Any) -> None:
    intact = {version: cls.layout(version).encode(at_version(full(cls), version)) for version in cls.versions}

    @examples(15)
    @given(st.data(), st.sampled_from(list(cls.versions)))
    def check(data: st.DataObject, version: int) -> None:
        layout = cls.layout(version)
        frame = data.draw(damaged(intact[version]))
        assert outcome(layout.decode, frame) == outcome(layout.parse, frame)

    check()


@pytest.mark.parametrize("cls", ALL, ids=name_of)
def test_random_bytes_are_read_alike(cls: Any) -> None:
    @examples(10)
    @given(st.binary(max_size=80))
    def check(frame: bytes) -> None:
        for version in cls.versions:
            layout = cls.layout(version)
            assert outcome(layout.decode, frame) == outcome(layout.parse, frame)

    check()
