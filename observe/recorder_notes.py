"""Commits in the memory of the recorder: the request's own bytes, which are read when somebody asks."""

from __future__ import annotations

from struct import Struct

from msgspec.msgpack import Encoder

from ottla.broker.core.events import CommitNote, commit_event
from ottla.protocol.messages.offset_commit import OffsetCommitRequest

PACKED = b"\xc1"
"""The first byte of a commit in this form; no msgpack begins with it."""
BY_TOPIC_ID = 10
"""From this version on a request has ids of topics and not their names, which are looked up before it is noted."""

_HEAD = Struct(">cQqqhHH")
_unpack = _HEAD.unpack_from
_ENTRY = Struct(">QIcQqqhHH")
_pack = _ENTRY.pack
"""The same after the number of the event and the bytes that follow, as `ottla.observe.recorder_lanes` has them."""
_encode = Encoder().encode


def packed(seq: int, note: CommitNote) -> bytes:
    """The entry of a commit whose bytes are at hand, and of which nothing was refused before."""
    number, at_ms, wall_ms, _, api_version, client_id, client_host, encoded, _ = note
    client, host = client_id.encode("utf-8", "surrogatepass"), client_host.encode("utf-8", "surrogatepass")
    size = _HEAD.size + len(client) + len(host) + len(encoded)
    head = _pack(seq, size, PACKED, number, at_ms, wall_ms, api_version, len(client), len(host))
    return b"".join((head, client, host, encoded))


def unpacked(data: bytes) -> bytes:
    """The event as msgpack."""
    _, number, at_ms, wall_ms, api_version, client_size, host_size = _unpack(data)
    host_at = _HEAD.size + client_size
    body_at = host_at + host_size
    client = data[_HEAD.size : host_at].decode("utf-8", "surrogatepass")
    host = data[host_at:body_at].decode("utf-8", "surrogatepass")
    request = OffsetCommitRequest.layout(api_version).decode(data, body_at)
    return _encode(commit_event((number, at_ms, wall_ms, request, api_version, client, host, b"", {})))
