"""Request headers 0 to 2, response headers 0 and 1, and the fast reading of the former."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.protocol.errors import MalformedFrame
from ottla.protocol.headers import frame_request, skip_tags, split_request
from tests.protocol.header_messages import RequestHeader, ResponseHeader
from tests.protocol.wire_frames import varint

INT16 = st.integers(-(1 << 15), (1 << 15) - 1)
INT32 = st.integers(-(1 << 31), (1 << 31) - 1)
CLIENT_ID = st.none() | st.text(max_size=30)


def test_golden_bytes() -> None:
    header = RequestHeader(request_api_key=12, request_api_version=4, correlation_id=-2, client_id="käse")
    start = b"\x00\x0c\x00\x04\xff\xff\xff\xfe"
    assert RequestHeader.layout(0).encode(header) == start
    assert RequestHeader.layout(1).encode(header) == start + b"\x00\x05k\xc3\xa4se"
    assert RequestHeader.layout(2).encode(header) == start + b"\x00\x05k\xc3\xa4se" + b"\x00"
    assert ResponseHeader.layout(0).encode(ResponseHeader(correlation_id=258)) == b"\x00\x00\x01\x02"
    assert ResponseHeader.layout(1).encode(ResponseHeader(correlation_id=258)) == b"\x00\x00\x01\x02\x00"


def declared(header_version: int, *values: int | str | None) -> bytes:
    """A header with values in the order of the declaration."""
    names = [field.name for field in RequestHeader.__wire__]
    return RequestHeader.layout(header_version).encode(RequestHeader(**dict(zip(names, values, strict=True))))


def test_a_null_client_id_stays_classic_in_flexible_headers() -> None:
    """KIP-482: the client id is never compact, so that it can be read before the version is known."""
    assert declared(2, 18, 3, 1, None) == b"\x00\x12\x00\x03\x00\x00\x00\x01\xff\xff\x00"
    assert declared(1, 18, 2, 1, None) == b"\x00\x12\x00\x02\x00\x00\x00\x01\xff\xff"


@given(INT16, INT16, INT32, CLIENT_ID, st.booleans(), st.binary(max_size=20), st.binary(max_size=9))
def test_split_reads_what_the_declaration_writes(
    key: int, version: int, correlation_id: int, client_id: str | None, flexible: bool, body: bytes, before: bytes
) -> None:
    header = declared(2 if flexible else 1, key, version, correlation_id, client_id)
    frame = before + header + body
    read = split_request(frame, len(before))
    assert read[:4] == (key, version, correlation_id, (client_id or "").encode())
    end = skip_tags(frame, read[4]) if flexible else read[4]
    assert frame[end:] == body
    framed = frame_request(key, version, correlation_id, client_id, body, flexible=flexible)
    assert framed == (len(header) + len(body)).to_bytes(4, "big") + header + body


@pytest.mark.parametrize("size", range(10))
def test_too_short_for_a_header(size: int) -> None:
    with pytest.raises(MalformedFrame, match=f"a frame of {size} bytes"):
        split_request(b"\0" * size)
    with pytest.raises(MalformedFrame, match=f"a frame of {size} bytes"):
        split_request(b"length" + b"\0" * size, 6)


@pytest.mark.parametrize(
    ("announced", "there", "fine"), [(5, 5, True), (5, 4, False), (32767, 100, False), (0, 0, True), (-1, 0, True)]
)
def test_client_id_lengths(announced: int, there: int, fine: bool) -> None:
    frame = b"\0\x0c\0\0\0\0\0\x01" + announced.to_bytes(2, "big", signed=True) + b"c" * there
    if fine:
        assert split_request(frame) == (12, 0, 1, b"c" * there, len(frame))
    else:
        with pytest.raises(MalformedFrame, match=f"client id of {announced} bytes announced, {there} left"):
            split_request(frame)


@pytest.mark.parametrize(
    "tags",
    [
        b"\0",
        b"\x01\x05\x00",
        b"\x01\x05\x03abc",
        b"\x02\x05\x03abc\x07\x01d",
        b"\x80\x00",
        b"\x01" + varint(1 << 31) + b"\x01x",
        varint(300) + b"\x05\x00" * 300,
    ],
)
def test_header_tags_are_skipped(tags: bytes) -> None:
    assert skip_tags(b"??" + tags + b"body", 2) == 2 + len(tags)
    start = b"\0\x0c\0\x04\0\0\0\x01\xff\xff"
    expected = RequestHeader(request_api_key=12, request_api_version=4, correlation_id=1)
    assert RequestHeader.layout(2).decode(start + tags) == RequestHeader.layout(2).parse(start + tags) == expected


@pytest.mark.parametrize(
    "tags",
    [
        b"",
        b"\x01",
        b"\x01\x05",
        b"\x01\x05\x03ab",
        b"\x01\x05" + varint((1 << 32) - 1),
        b"\x02\x05\x00",
        varint((1 << 32) - 1) + b"\x05\x00",
        b"\x80" * 400_000,
        b"\x01" + b"\x80" * 400_000,
        b"\x01\x05\xff\xff\xff\xff\x7f",
    ],
)
def test_header_tags_that_lie(tags: bytes) -> None:
    with pytest.raises(MalformedFrame):
        skip_tags(b"??" + tags, 2)
    with pytest.raises(MalformedFrame):
        RequestHeader.layout(2).decode(b"\0\x0c\0\x04\0\0\0\x01\xff\xff" + tags)


def test_a_count_of_tags_is_checked_first() -> None:
    with pytest.raises(MalformedFrame, match="50 header tags announced, 60 bytes left"):
        skip_tags(b"\x32" + b"\x05\x00" * 30, 0)


@given(st.binary(max_size=40))
def test_random_headers_give_a_split_or_a_malformed_frame(data: bytes) -> None:
    try:
        *_, client_id, position = split_request(data)
        end = skip_tags(data, position)
    except MalformedFrame:
        return
    assert 10 <= position < end <= len(data)
    assert data[10:position] == client_id
