"""Frames that no client sends: unknown APIs and versions, and bytes that mean nothing."""

from __future__ import annotations

import struct

from ottla.protocol.apis import ApiKey
from ottla.protocol.headers import frame_request
from ottla.protocol.messages.api_versions import ApiVersionsRequest
from ottla.protocol.messages.heartbeat import HeartbeatRequest
from tests.differential.tracing import Trace

HEARTBEAT = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")


def trace_api_versions(t: Trace) -> None:
    for version in range(5):
        names = {"client_software_name": "a", "client_software_version": "1"} if version >= 3 else {}
        answer = t.call("a", ApiKey.API_VERSIONS, version, **names)
        ours = {row.api_key: (row.min_version, row.max_version) for row in answer.api_keys}
        # Which APIs are there is not compared, only what this one says of itself.
        t.transcript[-1] = ("ApiVersions", (answer.error_code, answer.throttle_time_ms, ours[18]))
    for name, number in (("", "1"), ("a", ""), ("a b", "1"), ("-a", "1"), ("a.", "1"), ("é", "1"), ("a", "1/2"),
                         ("x" * 300, "1"), ("a-b.c", "v1-2.3")):  # fmt: skip
        answer = t.call("a", ApiKey.API_VERSIONS, 3, client_software_name=name, client_software_version=number)
        t.transcript[-1] = (f"ApiVersions of {name!r} {number!r}", (answer.error_code, bool(answer.api_keys)))


def framed(key: int, version: int, body: bytes, *, flexible: bool = False, client: str | None = "c") -> bytes:
    return frame_request(key, version, 7, client, body, flexible=flexible)


def trace_unknown(t: Trace) -> None:
    body = ApiVersionsRequest.layout(0).encode(ApiVersionsRequest())
    for key, version in ((999, 0), (-1, 0), (12, 5), (12, -1), (12, 99), (11, 10), (4, 0), (5, 0), (6, 0), (7, 0),
                         (52, 0), (0, 99), (3, 99), (1, 3), (1, 0), (2, 0), (8, 1), (9, 0), (19, 1), (20, 0),
                         (0, 2), (23, 1), (32, 0)):  # fmt: skip
        t.raw(f"key {key} version {version}", framed(key, version, body))
    for version in (5, 99, -1):
        for tags in (b"", b"\0\0", b"\1\7\1x", b"\1\7\5x", b"\xff\xff"):
            t.raw(f"ApiVersions {version} with {tags!r}", framed(18, version, tags))


def trace_malformed(t: Trace) -> None:
    good = framed(12, 3, HeartbeatRequest.layout(3).encode(HEARTBEAT))
    flexible = framed(12, 4, HeartbeatRequest.layout(4).encode(HEARTBEAT), flexible=True)
    frames = {
        "good": good,
        "flexible": flexible,
        "empty": struct.pack(">i", 0),
        "negative": struct.pack(">i", -1),
        "huge": struct.pack(">i", 2**31 - 1) + b"x",
        "over the limit": struct.pack(">i", 104_857_601) + b"x",
        "one byte": b"\0\0\0\1\0",
        "header cut": struct.pack(">i", 6) + good[4:10],
        "cut": struct.pack(">i", len(good) - 5) + good[4:-1],
        "trailing bytes": struct.pack(">i", len(good) - 4 + 3) + good[4:] + b"abc",
        "flexible with trailing bytes": struct.pack(">i", len(flexible) - 4 + 3) + flexible[4:] + b"abc",
        "null group": framed(12, 3, b"\xff\xff" + b"\0\0\0\1" + b"\0\1m" + b"\xff\xff"),
        "negative string": framed(12, 3, b"\xff\xf0" + b"\0\0\0\1" + b"\0\1m" + b"\xff\xff"),
        "long string": framed(12, 3, b"\x7f\xff" + b"\0\0\0\1" + b"\0\1m" + b"\xff\xff"),
        "null flexible group": framed(12, 4, b"\0" + b"\0\0\0\1" + b"\2m" + b"\0" + b"\0", flexible=True),
        "unknown tag": framed(12, 4, HeartbeatRequest.layout(4).encode(HEARTBEAT)[:-1] + b"\1\7\1x", flexible=True),
        "tag cut": framed(12, 4, HeartbeatRequest.layout(4).encode(HEARTBEAT)[:-1] + b"\1\7\5x", flexible=True),
        "endless varint": framed(12, 4, b"\xff" * 12, flexible=True),
        "huge array": framed(42, 0, b"\x7f\xff\xff\xff"),
        "negative array": framed(42, 0, b"\xff\xff\xff\xff"),
        "array of -2": framed(42, 0, b"\xff\xff\xff\xfe"),
        "null client": framed(12, 3, HeartbeatRequest.layout(3).encode(HEARTBEAT), client=None),
        "null array of topics": framed(3, 0, b"\xff\xff\xff\xff"),
        "null array where allowed": framed(37, 0, b"\0\0\0\0\0\0\0\0\2"),
    }
    for what, data in frames.items():
        t.raw(what, data)
    t.raw("half a frame", good[:-3], 0.3)
    t.raw("two frames at once", good + good)
    t.raw("http", b"GET / HTTP/1.1\r\n\r\n")
