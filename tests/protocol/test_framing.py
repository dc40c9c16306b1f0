"""Frames out of a stream of bytes, however it is cut; and lengths that no frame may have."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.protocol.errors import FrameTooLarge, MalformedFrame, ProtocolError
from ottla.protocol.framing import FrameReader, Gathered, check_length
from ottla.protocol.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from tests.support.memory import allocations


def framed(*bodies: bytes) -> bytes:
    return b"".join(len(body).to_bytes(4, "big") + body for body in bodies)


def drain(reader: FrameReader) -> list[bytes]:
    frames = []
    while (frame := reader.next()) is not None:
        frames.append(frame)
    return frames


@pytest.mark.parametrize(
    ("bodies", "step"),
    [
        ([b"a", b"bc" * 100, b"\0\0\0\x01"], 1),
        ([bytes([index % 256]) * (1 + index % 50) for index in range(5000)], 1 << 20),
        # Beyond 64 KiB the buffer is moved to its start now and then; nothing is lost by that.
        ([bytes([index]) * (1 if index % 3 else 50_000) for index in range(60)], 70_001),
    ],
    ids=["byte by byte", "many frames at once", "large and small frames mixed"],
)
def test_frames_in_pieces(bodies: list[bytes], step: int) -> None:
    stream = memoryview(framed(*bodies))
    reader, frames = FrameReader(), []
    for start in range(0, len(stream), step):
        reader.feed(stream[start : start + step])
        frames += drain(reader)
        fed = min(start + step, len(stream))
        assert reader.buffered_bytes == fed - sum(4 + len(body) for body in frames)
    assert frames == bodies
    assert reader.buffered_bytes == 0


@given(st.lists(st.binary(min_size=1, max_size=60), max_size=12), st.data())
def test_any_cut_gives_the_same_frames(bodies: list[bytes], data: st.DataObject) -> None:
    stream = framed(*bodies)
    reader, frames, position = FrameReader(), [], 0
    while position < len(stream):
        step = data.draw(st.integers(1, 40))
        reader.feed(stream[position : position + step])
        position += step
        if data.draw(st.booleans()):
            frames += drain(reader)
    assert frames + drain(reader) == bodies


def test_frames_are_bytes_that_stay() -> None:
    """A frame must not change when its reader goes on."""
    reader = FrameReader()
    reader.feed(framed(b"first", b"second"))
    first = reader.next()
    reader.feed(framed(b"x" * 100_000))
    drain(reader)
    assert type(first) is bytes
    assert first == b"first"


@pytest.mark.parametrize("size", [0, -1, -2, -(1 << 31)])
def test_lengths_that_are_not(size: int) -> None:
    reader = FrameReader()
    reader.feed(framed(b"fine") + size.to_bytes(4, "big", signed=True) + b"rest")
    assert reader.next() == b"fine"
    with pytest.raises(MalformedFrame, match=f"frame length {size}"):
        reader.next()


@pytest.mark.parametrize(("size", "limit"), [(1001, 1000), ((1 << 31) - 1, 100 << 20), ((100 << 20) + 1, 100 << 20)])
def test_lengths_that_are_too_large(size: int, limit: int) -> None:
    reader = FrameReader(max_frame_bytes=limit)
    reader.feed(size.to_bytes(4, "big"))
    with pytest.raises(FrameTooLarge, match=f"frame of {size} bytes, allowed are {limit}"):
        reader.next()
    assert issubclass(FrameTooLarge, ProtocolError)
    assert not issubclass(FrameTooLarge, MalformedFrame)


@pytest.mark.parametrize(("first", "name"), [(b"\x16\x03\x01\x02", "TLS"), (b"GET ", "HTTP")])
def test_what_is_no_frame_of_kafkas_is_known(first: bytes, name: str) -> None:
    reader = FrameReader()
    reader.feed(first)
    with pytest.raises(FrameTooLarge, match=f"; {name} begins like that$"):
        reader.next()


def test_the_largest_length_that_is_allowed() -> None:
    reader = FrameReader(max_frame_bytes=1000)
    reader.feed(framed(b"x" * 1000))
    assert reader.next() == b"x" * 1000
    check_length(1, 1)


def test_an_announced_frame_costs_nothing_until_it_comes() -> None:
    with allocations() as peak:
        readers = [FrameReader() for _ in range(100)]
        for reader in readers:
            reader.feed((100 << 20).to_bytes(4, "big"))
            assert reader.next() is None
    assert peak.bytes < 200_000


def test_memory_follows_what_is_unread() -> None:
    """Three megabytes go through in pieces; the buffer stays near the size of one piece."""
    piece = framed(*(b"x" * 100 for _ in range(600)))
    reader = FrameReader()
    reader.feed(piece)
    drain(reader)
    with allocations() as peak:
        for _ in range(50):
            reader.feed(piece)
            while reader.next() is not None:
                pass
    assert peak.bytes < 4 * len(piece)


def test_memory_follows_what_is_unread_when_frames_never_end_with_a_piece() -> None:
    """As above, but every piece ends in the middle of a frame, so the buffer is never empty."""
    stream = framed(*(b"x" * 1000 for _ in range(10_000)))
    reader, count = FrameReader(), 0
    with allocations() as peak:
        for start in range(0, len(stream), 65_537):
            reader.feed(stream[start : start + 65_537])
            while reader.next() is not None:
                count += 1
            assert reader.buffered_bytes < 1004
    assert count == 10_000
    assert peak.bytes < 6 * 65_537


def test_clear_forgets() -> None:
    reader = FrameReader()
    reader.feed(b"\0\0\0\x09half")
    assert reader.next() is None
    reader.clear()
    assert reader.buffered_bytes == 0
    reader.feed(framed(b"new"))
    assert reader.next() == b"new"


def test_a_large_response_with_records_is_left_in_pieces() -> None:
    records = [bytes([number]) * size for number, size in enumerate((10, 4095, 4096, 70_000, 0, 5000))]
    rows = [PartitionData(partition_index=index, records=data) for index, data in enumerate(records)]
    response = FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=rows)])
    for version in FetchResponse.versions:
        layout = FetchResponse.layout(version)
        frame = layout.response_encoder(header_tags=False)(response, 7)
        assert isinstance(frame, Gathered)
        whole = bytes(frame)
        assert whole == layout.response_encoder(header_tags=False, fused=False)(response, 7)
        assert len(frame) == len(whole)
        large = [id(data) for data in records if len(data) >= 4096]
        assert [id(piece) for piece in frame.pieces if id(piece) in large] == large, "not copied"
        assert len(frame.pieces) == 2 * len(large) + 1, "what is small is joined"


def test_a_small_response_with_records_is_bytes() -> None:
    rows = [PartitionData(partition_index=0, records=bytes(10_000))]
    response = FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=rows)])
    assert type(FetchResponse.layout(12).response_encoder(header_tags=True)(response, 7)) is bytes
