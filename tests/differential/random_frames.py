"""Random frames: requests cut short, prolonged, damaged, of other versions, or under another API's name."""

from __future__ import annotations

import struct
from random import Random

from ottla.protocol.apis import ApiKey, api
from ottla.protocol.errors import ProtocolError
from ottla.protocol.headers import frame_request, skip_tags, split_request
from ottla.protocol.records import Record
from tests.differential.moves import versions
from tests.differential.pairs import Move, move
from tests.support.batches import build_batch
from tests.support.requests import (
    Values,
    commit_fields,
    fetch_fields,
    heartbeat_fields,
    join_fields,
    leave_fields,
    list_offsets_fields,
    offset_fetch_fields,
    produce_fields,
    request,
    sync_fields,
)

STEPS = 20
CORRELATION = 7

BATCH = build_batch([Record(value=b"v", timestamp_ms=1)])
# The topic of Metadata is no name even with one letter changed: it must not be created.
REQUESTS: dict[ApiKey, Values] = {
    ApiKey.HEARTBEAT: heartbeat_fields("g", 1, "m"),
    ApiKey.SYNC_GROUP: sync_fields("g", 1, "m", {"m": b"abc"}),
    ApiKey.LEAVE_GROUP: leave_fields("g", ("m", None)),
    ApiKey.JOIN_GROUP: join_fields("g", member_id="m", protocols={"range": b"abc"}, session_ms=1, rebalance_ms=5000),
    ApiKey.DESCRIBE_GROUPS: {"groups": ["g", "h"]},
    ApiKey.DELETE_GROUPS: {"groups_names": ["g"]},
    ApiKey.LIST_GROUPS: {"states_filter": ["Dead"], "types_filter": ["none"]},
    ApiKey.OFFSET_FETCH: offset_fetch_fields("g", {}),
    ApiKey.OFFSET_COMMIT: commit_fields("g", [("t", 0, 0)], generation=3, member_id="m", metadata="x"),
    ApiKey.FIND_COORDINATOR: {"key": "g", "key_type": 0, "coordinator_keys": ["g", "h"]},
    ApiKey.METADATA: {"topics": [{"name": "n o p"}], "allow_auto_topic_creation": False},
    ApiKey.LIST_OFFSETS: list_offsets_fields("none", -1),
    ApiKey.FETCH: fetch_fields("none", max_wait_ms=5, max_bytes=1000, partition_max_bytes=0),
    ApiKey.PRODUCE: produce_fields("none", BATCH, acks=1, timeout_ms=5),
}


def _framed(key: int, version: int, body: bytes, *, flexible: bool, client: str | None = "c") -> bytes:
    return frame_request(key, version, CORRELATION, client, body, flexible=flexible)


def _sized(data: bytes) -> bytes:
    """The frame with a length that fits again."""
    return struct.pack(">i", len(data) - 4) + data[4:]


def frame(r: Random) -> bytes:
    key = r.choice(list(REQUESTS))
    version = r.choice(list(versions(key)))
    entry = api(key)
    body = entry.request.layout(version).encode(request(key, REQUESTS[key]))
    flexible = entry.request_header_version(version) == 2
    data = _framed(key, version, body, flexible=flexible, client=r.choice(["c", "c", "", None]))
    start = len(data) - len(body)
    match r.randrange(10):
        case 0 | 1:
            return _sized(data[: r.randrange(start, max(len(data), start + 1))])  # cut within the body
        case 2:
            return _sized(data[: r.randrange(5, start)])  # cut within the header
        case 3:
            return _sized(data + bytes(r.randrange(1, 20)))  # something behind it
        case 4 | 5 | 6:
            return damaged(r, data, start)
        case 7:
            other = r.choice([-1, max(versions(key)) + 1, 99, 32767])
            return _framed(key, other, body, flexible=flexible)
        case 8:
            other = r.choice([-1, 4, 5, 6, 7, 93, 200, 32767])
            return _framed(other, r.randrange(3), body, flexible=flexible)
        case _:
            return data


def damaged(r: Random, data: bytes, start: int) -> bytes:
    """One byte is another: lengths, counts, numbers, or letters that stay ASCII."""
    at = r.randrange(start, len(data)) if len(data) > start else len(data) - 1
    value = r.choice([0, 1, 2, 3, 5, 8, 0x41, 0x7F, 0xFF, 0xFF, 0x80])
    before = data[at]
    if 0x20 <= before < 0x7F and value >= 0x7F:
        value = 0x42  # another letter: what is not UTF-8 is a row of docs/differences.md
    return data[:at] + bytes([value]) + data[at + 1 :]


def _is_text(data: bytes) -> bool:
    """Whether its strings are UTF-8 as far as it can be read: what is not is a row of docs/differences.md."""
    try:
        number, version, _, _, position = split_request(data, 4)
        entry = api(ApiKey(number))
        if entry.request_header_version(version) == 2:
            position = skip_tags(data, position)
        entry.request.layout(version).decode(data, position)
    except (ProtocolError, ValueError, KeyError) as error:
        return "UTF-8" not in str(error)
    return True


def frames(r: Random) -> list[Move]:
    found = [data for data in (frame(r) for _ in range(STEPS)) if _is_text(data)]
    return [move("frame", data=data) for data in found]
