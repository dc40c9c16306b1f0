"""What a peer may send to hurt: cut frames, lengths that lie, tags that lie. All are refused, cheaply.

Cost is measured in bytes allocated and bytes looked at, never by a clock.
"""

from __future__ import annotations

import dataclasses
import struct
from collections.abc import Iterator
from typing import Any, cast

import pytest
from construct import StreamError

from ottla.protocol.errors import MalformedFrame, UnsupportedVersion
from ottla.protocol.messages.fetch import FetchRequest, ReplicaState
from ottla.protocol.messages.heartbeat import HeartbeatRequest
from ottla.protocol.messages.join_group import JoinGroupRequest
from ottla.protocol.messages.metadata import MetadataRequest
from ottla.protocol.messages.produce import ProduceResponse
from ottla.protocol.primitives import ArrayLeaf, uvarint, uvarint_bytes
from ottla.protocol.structs import StructLeaf
from tests.protocol.wire_frames import Frame, Mark, varint, written
from tests.protocol.wire_values import APIS, HEADERS, LAYOUTS, MESSAGES, at_version, full, layouts, name_of
from tests.support.memory import allocations

ALL = MESSAGES + HEADERS
FLOOD = b"\x80" * 16_000  # and the path of the field is still told


def sample(layout: Any) -> Any:
    """An object with every field of the layout set, and one entry in every array."""
    return at_version(full(layout.message, entries=1), layout.version)


def samples(layouts: list[Any]) -> Iterator[tuple[Any, Frame, bytes]]:
    """Such an object of each layout, as it is written: with notes of its lengths, and as bytes."""
    for layout in layouts:
        frame = written(sample(layout), layout.version)
        yield layout, frame, bytes(frame.data)


def refused(layout: Any, frame: bytes) -> str:
    """Both codecs refuse, and the fused one says what the other says: the path of the field."""
    with pytest.raises(MalformedFrame) as by_construct:
        layout.parse(frame)
    with pytest.raises(MalformedFrame) as by_fused:
        layout.decode(frame)
    assert str(by_fused.value) == str(by_construct.value)
    return str(by_fused.value)


# ------------------------------------------------------------------------------------------------------------ cutting


@pytest.mark.parametrize("cls", ALL, ids=name_of)
def test_truncation_at_every_byte(cls: Any) -> None:
    for layout in layouts(cls):
        frame = layout.encode(sample(layout))
        for end in range(len(frame)):
            # When `decode` refuses it asks `parse` for the field; the name in front proves that both refused.
            with pytest.raises(MalformedFrame, match=rf"^{layout.message.__name__}\b"):
                layout.decode(frame[:end])


# ------------------------------------------------------------------------------------------------------------ lengths


def hostile_sizes(mark: Mark) -> Iterator[bytes]:
    """Encodings of lengths that no frame can have. Null is not among them."""
    if mark.compact:
        for announced in (1 << 28, (1 << 31) - 1, 1 << 31, (1 << 32) - 1):
            yield varint(announced)
        yield varint(1 << 32)
        yield b"\xff\xff\xff\xff\x7f"
        yield b"\x80\x80\x80\x80\x80\x01"
    elif mark.kind == "string":
        yield (0x7FFF).to_bytes(2, "big")
    else:
        for announced in (1 << 20, (1 << 31) - 1):
            yield announced.to_bytes(4, "big")
    if not mark.nullable and mark.kind not in ("tags", "tag size"):
        width = 2 if mark.kind == "string" else 4
        for below in (-1, -2, -(1 << 8 * width - 1)):
            yield b"\0" if mark.compact else below.to_bytes(width, "big", signed=True)


@pytest.mark.parametrize("cls", ALL, ids=name_of)
def test_hostile_lengths_everywhere(cls: Any) -> None:
    for layout, frame, data in samples(layouts(cls)):
        for mark in {mark.path: mark for mark in frame.marks}.values():
            for size in hostile_sizes(mark):
                refused(layout, data[: mark.start] + size + data[mark.end :])


@pytest.mark.parametrize("cls", ALL, ids=name_of)
def test_a_length_that_is_one_too_long(cls: Any) -> None:
    """The last length of a frame, plus one: there is exactly one byte too few."""
    for layout, frame, data in samples(layouts(cls)):
        ends = [mark for mark in frame.marks if mark.kind in ("string", "bytes") and not mark.compact]
        for mark in ends[-1:]:
            size = int.from_bytes(data[mark.start : mark.end], "big") + len(data) - mark.end + 1
            width = mark.end - mark.start
            refused(layout, data[: mark.start] + size.to_bytes(width, "big") + data[mark.end :])


def test_refusing_an_enormous_count_allocates_nothing() -> None:
    """Every array, string and tag section of every layout announces 2^31-1; none of it is believed."""
    attacks = []
    for layout, frame, data in samples(LAYOUTS):
        layout.decode(data)  # compiled now, not below
        for mark in {mark.path: mark for mark in frame.marks if mark.kind != "string" or mark.compact}.values():
            size = varint((1 << 31) - 1) if mark.compact else (0x7FFFFFFF).to_bytes(4, "big")
            attacks.append((layout, data[: mark.start] + size + data[mark.end :]))
    assert len(attacks) > 1300
    with allocations() as peak:
        for layout, data in attacks:
            with pytest.raises(MalformedFrame):
                layout.decode(data)
    assert peak.bytes < 300_000


def test_a_count_is_checked_before_the_first_entry() -> None:
    """One entry more than announced bytes can hold: refused at the count, though 1,200 entries could be read."""
    entries = b"\x00\x01a\x00\x00\x00\x01b" * 1_200
    start = b"\x00\x01g\x00\x00\x17\x70\x00\x00\x00\x01\x00\x00\xff\xff\x00\x00"
    layout = JoinGroupRequest.layout(5)
    assert len(layout.decode(start + (1_200).to_bytes(4, "big") + entries).protocols) == 1_200
    # An entry takes at least six bytes, so 1,600 are what 9,600 bytes could hold.
    for count in (1_601, 1 << 30):
        data = start + count.to_bytes(4, "big") + entries
        with allocations() as peak:
            assert "items announced" in refused(layout, data)
        assert peak.bytes < 3 * len(data)


def test_counts_are_named_in_the_refusal() -> None:
    for tags in (varint(50) + b"\x09\x00" * 30, varint((1 << 32) - 1)):
        assert "tags announced" in refused(HeartbeatRequest.layout(4), heartbeat(tags))


def test_a_flood_of_continuation_bytes_is_not_walked() -> None:
    """16 kB of 0x80 at every varint of the protocol: at most a copy of the frame is made for the error message."""
    attacks = []
    for layout, frame, data in samples(LAYOUTS):
        layout.decode(data)
        for mark in [mark for mark in frame.marks if mark.compact][:1]:
            attacks.append((layout, data[: mark.start]))
    assert len(attacks) > 100
    with allocations() as peak:
        for layout, start in attacks:
            with pytest.raises(MalformedFrame, match="varint longer than five bytes"):
                layout.decode(start + FLOOD)
    assert peak.bytes < 3 * len(FLOOD)


class Watched:
    """Bytes that count how many of them were looked at."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.seen = 0

    def __getitem__(self, position: int) -> int:
        self.seen += 1
        return self.data[position]


@pytest.mark.parametrize("data", [FLOOD, b"\xff" * 400_000, b"\xff\xff\xff\xff\x10"])
def test_a_varint_is_given_up_after_five_bytes(data: bytes) -> None:
    watched = Watched(data)
    with pytest.raises(MalformedFrame):
        uvarint(cast(bytes, watched), 0)
    assert watched.seen == 5


@pytest.mark.parametrize(
    "value", [0, 1, 127, 128, 300, 16383, 16384, (1 << 21) - 1, 1 << 21, (1 << 31) - 1, (1 << 32) - 1]
)
def test_varints(value: int) -> None:
    assert uvarint_bytes(value) == varint(value)
    assert uvarint(b"\xaa" + varint(value) + b"\xbb", 1) == (value, 1 + len(varint(value)))


def test_a_varint_may_be_longer_than_it_needs() -> None:
    """Kafka reads it so; only five bytes and 32 bits are the limits."""
    assert uvarint(b"\x81\x80\x80\x80\x00", 0) == (1, 5)
    frame = b"\x82\x00g" + b"\0\0\0\x07" + b"\x82\x80\x00m" + b"\x80\x00" + b"\x80\x00"
    expected = HeartbeatRequest(group_id="g", generation_id=7, member_id="m")
    assert HeartbeatRequest.layout(4).decode(frame) == HeartbeatRequest.layout(4).parse(frame) == expected


def test_what_the_smallest_array_entries_cost() -> None:
    """The worst a frame can do: arrays of the shortest entries. Memory stays within a factor of the frame's size.

    The factor is that of Python objects against single bytes; ``socket.request.max.bytes`` bounds the product.
    """
    worst = 0.0
    for row in APIS:
        layout = row.request.layout(row.request.versions[-1])
        for data in _widest(layout):
            with allocations() as peak:
                layout.decode(data)
            worst = max(worst, peak.bytes / len(data))
    assert 8 < worst < 64


def _widest(layout: Any) -> Iterator[bytes]:
    """The message with one top-level array of very many empty entries."""
    layout.decode(layout.encode(layout.message()))  # compiled now, not when it is measured
    for name, leaf in layout.leaf.fields:
        if isinstance(leaf, ArrayLeaf) and isinstance(leaf.item, StructLeaf):
            entry = at_version(leaf.item.cls(), layout.version)
            obj = at_version(layout.message(), layout.version)
            setattr(obj, name, [entry] * 1000)
            yield layout.encode(obj)


# --------------------------------------------------------------------------------------------------------------- text


@pytest.mark.parametrize("cls", ALL, ids=name_of)
def test_invalid_utf8_everywhere(cls: Any) -> None:
    for layout, frame, data in samples(layouts(cls)):
        for mark in {mark.path: mark for mark in frame.marks if mark.kind == "string"}.values():
            for wrong in (b"\xff", b"\xc0", b"\xed"):  # no start byte; overlong form; a surrogate's first byte
                text = refused(layout, data[: mark.end] + wrong + data[mark.end + 1 :])
                assert text.endswith("not valid UTF-8")


# --------------------------------------------------------------------------------------------------------------- tags


@pytest.mark.parametrize("cls", ALL, ids=name_of)
def test_unknown_tags_are_skipped_at_every_level(cls: Any) -> None:
    for layout in layouts(cls):
        if not layout.flexible:
            continue
        obj = sample(layout)
        plain = layout.encode(obj)
        structs = written(obj, layout.version).structs
        for path in [*structs, "*"]:
            data = bytes(written(obj, layout.version, unknown_tag_in=path).data)
            assert len(data) > len(plain)
            assert layout.decode(data) == layout.parse(data) == obj, path
            assert layout.encode(layout.decode(data)) == plain, "an unknown tag must never be sent on"


def heartbeat(tags: bytes) -> bytes:
    return b"\x02g" + b"\0\0\0\x07" + b"\x02m" + b"\0" + tags


@pytest.mark.parametrize(
    "tags",
    [
        pytest.param(varint((1 << 32) - 1), id="count 2^32-1"),
        pytest.param(varint((1 << 31) - 1) + b"\x09\x00" * 50, id="count 2^31-1 with some tags"),
        pytest.param(b"\x02\x09\x00", id="one tag missing"),
        pytest.param(b"\x01\x09\x05abcd", id="tag longer than the frame"),
        pytest.param(b"\x01\x09" + varint((1 << 31) - 1) + b"abcd", id="tag of 2^31-1 bytes"),
        pytest.param(b"\x01\x09" + varint((1 << 32) - 1) + b"abcd", id="tag of 2^32-1 bytes"),
        pytest.param(b"\x01" + FLOOD, id="tag number without end"),
        pytest.param(b"\x01\x09" + FLOOD, id="tag size without end"),
        pytest.param(FLOOD, id="tag count without end"),
        pytest.param(b"\x01\x09", id="no size"),
        pytest.param(b"\x01", id="no tag"),
        pytest.param(b"", id="no count"),
    ],
)
def test_lying_tag_sections(tags: bytes) -> None:
    assert refused(HeartbeatRequest.layout(4), heartbeat(tags)).startswith("HeartbeatRequest.tags")


def test_the_path_is_told_of_messages_that_are_not_very_long() -> None:
    """To find it costs several times what refusing costs."""
    layout = MetadataRequest.layout(9)
    for topics, path in ((8_000, "MetadataRequest.topics"), (9_000, "MetadataRequest:")):
        with pytest.raises(MalformedFrame, match=rf"^{path}"):
            layout.decode(varint(topics + 2) + b"\x01\x00" * topics)


def test_many_tiny_unknown_tags_cost_one_walk() -> None:
    layout = HeartbeatRequest.layout(4)
    data = heartbeat(varint(20_000) + b"\x09\x00" * 20_000)
    assert layout.decode(data) == layout.parse(data) == HeartbeatRequest(group_id="g", generation_id=7, member_id="m")
    with allocations() as peak:
        layout.decode(data)
    assert peak.bytes < 20_000


REPLICA_STATE = b"\0\0\0\x05" + b"\0\0\0\0\0\0\0\x06" + b"\0"


def fetch_v15(tags: bytes) -> bytes:
    """A Fetch request of version 15 with nothing in it but its tags: 0 is the cluster id, 1 the replica state."""
    return bytes(4) + bytes(4) + bytes(4) + b"\0" + bytes(4) + bytes(4) + b"\x01" + b"\x01" + b"\x01" + tags


@pytest.mark.parametrize(
    ("tags", "replica_id", "cluster_id"),
    [
        (b"\x01\x01\x0d" + REPLICA_STATE, 5, None),
        (b"\x02\x00\x02\x02c"[:4] + b"c" + b"\x01\x0d" + REPLICA_STATE, 5, "c"),
        (b"\x02\x01\x0d" + REPLICA_STATE + b"\x00\x02\x02c", 5, "c"),  # not in order
        (b"\x02\x00\x02\x02a\x00\x02\x02b", -1, "b"),  # twice: the last one counts
        (b"\x01\x01\x11" + REPLICA_STATE[:-1] + b"\x01\x09\x02ab", 5, None),  # a tag within a tag
        (b"\x01\x00\x01\x00", -1, None),  # an explicit null
    ],
)
def test_tags_that_are_read(tags: bytes, replica_id: int, cluster_id: str | None) -> None:
    layout = FetchRequest.layout(15)
    read = layout.decode(fetch_v15(tags))
    assert read == layout.parse(fetch_v15(tags))
    assert (read.replica_state.replica_id, read.cluster_id) == (replica_id, cluster_id)
    assert isinstance(read.replica_state, ReplicaState)


@pytest.mark.parametrize(
    "tags",
    [
        pytest.param(b"\x01\x01\x0c" + REPLICA_STATE, id="size one less than the struct"),
        pytest.param(b"\x01\x01\x0e" + REPLICA_STATE + b"\0", id="size one more than the struct"),
        pytest.param(b"\x01\x01\x00", id="empty struct"),
        pytest.param(b"\x01\x00\x02\x05c" + b"more", id="string that runs out of its tag"),
        pytest.param(b"\x01\x00\x02" + varint((1 << 31) - 1)[:2] + bytes(20), id="length that runs out of its tag"),
        pytest.param(b"\x01\x01\x0f" + REPLICA_STATE[:-1] + b"\x01\x09\x02ab", id="inner tag that runs out of its tag"),
        pytest.param(b"\x01\x01\x11" + REPLICA_STATE[:-1] + b"\x01\x09\x7fab" + bytes(200), id="inner size too long"),
        pytest.param(b"\x01\x00\x02\x02\xff", id="invalid UTF-8 in a tag"),
    ],
)
def test_known_tags_that_lie(tags: bytes) -> None:
    """What a tag holds must end exactly where the tag ends, though the frame goes on behind it."""
    refused(FetchRequest.layout(15), fetch_v15(tags) + bytes(300))


def test_an_array_in_a_tag_is_bounded_by_the_tag() -> None:
    """The count of node endpoints would fit the frame, not the tag."""
    layout = ProduceResponse.layout(10)
    plain = b"\x01" + bytes(4)  # no topics, no throttle time
    entries = b"\0\0\0\x01\x02h\0\0\0\x01\0\0" * 100
    whole = plain + b"\x01\x00" + varint(len(entries) + 1) + b"\x65" + entries
    assert len(layout.decode(whole).node_endpoints) == 100
    cut = plain + b"\x01\x00" + varint(len(entries) - 11) + b"\x65" + entries
    assert "node_endpoints" in refused(layout, cut + bytes(5000))


# ----------------------------------------------------------------------------------------------------------- versions


@pytest.mark.parametrize("cls", ALL, ids=name_of)
def test_versions_that_are_not_declared(cls: Any) -> None:
    for layout in layouts(cls):
        for version in (-1, layout.message.versions[0] - 1, layout.message.versions[-1] + 1, 1 << 15):
            with pytest.raises(UnsupportedVersion):
                layout.message.layout(version)


def test_wrong_values_are_the_callers_bug() -> None:
    """Encoding refuses what does not fit, in both codecs: it never writes a frame that means something else."""
    layout = HeartbeatRequest.layout(0)
    right = HeartbeatRequest(group_id="g", generation_id=7, member_id="m")
    for wrong in ({"group_id": None}, {"group_id": "x" * 32768}, {"generation_id": 1 << 31}, {"generation_id": "7"}):
        for write in (layout.encode, layout.build):
            with pytest.raises((AttributeError, struct.error, StreamError)):
                write(dataclasses.replace(right, **wrong))
