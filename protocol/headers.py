"""Request headers 0 to 2 and response headers 0 and 1 (KIP-482).

`split_request` is what a server runs on every frame: it reads API key, version, correlation id and client id with one
``unpack_from`` and no object.
"""

from __future__ import annotations

from struct import Struct
from struct import error as struct_error

from ottla.protocol.errors import MalformedFrame
from ottla.protocol.primitives import uvarint, uvarint_bytes

_START = Struct(">hhih")
_START_WITH_LENGTH = Struct(">ihhih")
START_SIZE = _START.size
MAX_HEADER_TAGS = 1024
"""Kafka allows any number; no client sends any, and each takes time."""


def split_request(frame: bytes, start: int = 0) -> tuple[int, int, int, bytes, int]:
    """Read what versions 1 and 2 of the header have in common.

    Args:
        frame: holds the request from ``start`` to its end.

    Returns:
        API key, API version, correlation id, client id as raw bytes (empty for null), and the position behind the
        client id, where the tags of header version 2 or the body begin.

    Raises:
        MalformedFrame: the frame ends within the header.
    """
    try:
        api_key, api_version, correlation_id, size = _START.unpack_from(frame, start)
    except struct_error:
        raise MalformedFrame(f"a frame of {len(frame) - start} bytes is too short for a request header") from None
    position = start + START_SIZE
    if size <= 0:
        return api_key, api_version, correlation_id, b"", position
    end = position + size
    if end > len(frame):
        raise MalformedFrame(f"client id of {size} bytes announced, {len(frame) - position} left")
    return api_key, api_version, correlation_id, frame[position:end], end


def skip_tags(frame: bytes, position: int) -> int:
    """Skip a tag section; header tags have no meaning yet.

    Raises:
        MalformedFrame: the section does not fit into the frame, or has more than `MAX_HEADER_TAGS`.
    """
    try:
        count, position = uvarint(frame, position)
        if count * 2 > len(frame) - position:
            raise MalformedFrame(f"{count} header tags announced, {len(frame) - position} bytes left")
        if count > MAX_HEADER_TAGS:
            raise MalformedFrame(f"{count} header tags, allowed are {MAX_HEADER_TAGS}")
        for _ in range(count):
            _, position = uvarint(frame, position)
            size, position = uvarint(frame, position)
            position += size
    except IndexError:
        raise MalformedFrame("the frame ends within the header's tags") from None
    if position > len(frame):
        raise MalformedFrame("a header tag ends behind the frame")
    return position


def frame_request(
    api_key: int, api_version: int, correlation_id: int, client_id: str | None, body: bytes, *, flexible: bool
) -> bytes:
    """A whole request frame: length, header, body."""
    raw = b"" if client_id is None else client_id.encode()
    size = -1 if client_id is None else len(raw)
    tags = uvarint_bytes(0) if flexible else b""
    length = START_SIZE + len(raw) + len(tags) + len(body)
    start = _START_WITH_LENGTH.pack(length, api_key, api_version, correlation_id, size)
    return b"".join((start, raw, tags, body))
