"""Batches of few bytes that hold a lot, under CRCs that fit."""

from __future__ import annotations

import time
from functools import cache
from typing import Any

from ottla.protocol import batch_builder
from ottla.protocol.batch import BatchHeader
from ottla.protocol.compression import Codec, compress
from ottla.protocol.steps import Steps
from ottla.protocol.varints import encode_varint

SMALLEST = b"\x0c\x00\x00\x00\x01\x01\x00"
"""A record of seven bytes: neither key nor value nor headers, its offset delta 0."""


@cache
def bomb(count: int, *, codec: Codec = Codec.ZSTD, ahead_ms: int = 0) -> bytes:
    """A batch of ``count`` of the smallest records; its header says that the largest time lies ``ahead_ms`` later."""
    return sealed(count, SMALLEST * count, codec, ahead_ms)


@cache
def keyed(count: int, *, codec: Codec = Codec.ZSTD) -> bytes:
    """A batch as a compacted topic takes it: every record has a key, the same, and its offset delta."""
    rest = b"\x02k\x01\x00"
    bodies = (b"\x00\x00" + encode_varint(index) + rest for index in range(count))
    return sealed(count, b"".join(encode_varint(len(body)) + body for body in bodies), codec)


def sealed(count: int, records: bytes, codec: Codec = Codec.ZSTD, ahead_ms: int = 0) -> bytes:
    """A batch that says it has ``count`` records, written now."""
    now_ms = int(time.time() * 1000)
    header = BatchHeader(0, 0, -1, 2, 0, codec, count - 1, now_ms, now_ms + ahead_ms, -1, -1, -1, count)
    return batch_builder.sealed(header, compress(codec, records))


def longest_step(steps: Steps[Any]) -> tuple[float, Any]:
    """Take all steps; how many seconds of CPU the longest took on the loop's thread, and what came of them."""
    longest_s, result = 0.0, None
    while True:
        began_s = time.thread_time()
        try:
            step = steps.send(result)
        except StopIteration as ended:
            return max(longest_s, time.thread_time() - began_s), ended.value
        longest_s = max(longest_s, time.thread_time() - began_s)
        result = step() if callable(step) else None
