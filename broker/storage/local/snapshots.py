"""Snapshots of producers as files beside the logs. They are not synced, and carry a checksum."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ottla.protocol.crc import crc32c
from ottla.protocol.records import TopicPartition

PRODUCERS = "producers"
"""The folder of a data directory with what partitions remember of producers; it may be deleted."""
SUFFIX = ".snapshot"
LONGEST_NAME = 240
_CRC_SIZE = 8


class SnapshotFiles:
    """See the module and `ottla.broker.engine.Snapshots`. Of a topic with a very long name there are none.

    Args:
        directory: where they lie; made when it is needed.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def load(self, tp: TopicPartition) -> dict[str, Any] | None:
        path = self._path(tp)
        try:
            return None if path is None else _decode(path.read_bytes())
        except FileNotFoundError:
            return None

    async def save(self, documents: Mapping[TopicPartition, dict[str, Any]]) -> dict[TopicPartition, str]:
        paths = {tp: path for tp in documents if (path := self._path(tp)) is not None}
        errors = await asyncio.to_thread(lambda: {tp: _write(path, documents[tp]) for tp, path in paths.items()})
        return {tp: str(error) for tp, error in errors.items() if error is not None}

    async def remove(self, tp: TopicPartition) -> None:
        if (path := self._path(tp)) is not None:
            path.unlink(missing_ok=True)

    def _path(self, tp: TopicPartition) -> Path | None:
        name = f"{tp.topic}-{tp.partition}"
        return None if len(name) > LONGEST_NAME else self._directory / (name + SUFFIX)


def _encode(document: dict[str, Any]) -> bytes:
    data = json.dumps(document, separators=(",", ":")).encode()
    return b"%08x" % crc32c(data) + data


def _decode(data: bytes) -> Any:
    body = data[_CRC_SIZE:]
    if data[:_CRC_SIZE] != b"%08x" % crc32c(body):
        raise ValueError("damaged")
    return json.loads(body)


def _private(path: str, flags: int) -> int:
    """Open a file of the data directory: nobody else reads it, and it is no link to one elsewhere."""
    return os.open(path, flags | os.O_NOFOLLOW, 0o600)


def _write(path: Path, document: dict[str, Any]) -> OSError | None:
    """Write a snapshot; returns why it could not be."""
    try:
        path.parent.mkdir(0o700, exist_ok=True)
        new = path.with_name(path.name + ".new")
        with open(new, "wb", opener=_private) as file:
            file.write(_encode(document))
        os.replace(new, path)
    except OSError as error:
        return error
    return None
