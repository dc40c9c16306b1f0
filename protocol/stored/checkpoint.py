"""The checkpoint: up to which lsn the journal has been brought to the segments, and how each log stood there.

One line that names the format and the CRC-32C of what follows, then JSON. The file is replaced as a whole, when all
that it speaks of is on the disk.
"""

import json
from dataclasses import dataclass, field
from typing import Any, Final
from uuid import UUID

from ottla.protocol.crc import crc32c

FORMAT: Final = 2
_TITLE: Final = f"ottla checkpoint {FORMAT} crc32c="


class BadCheckpoint(Exception):
    """The checkpoint is damaged. Without it nothing tells what was acknowledged from what was not."""


@dataclass(slots=True, kw_only=True)
class LogState:
    """One log at the checkpoint's lsn."""

    log_id: int
    name: str
    topic_id: str
    """32 hexadecimal digits."""
    log_start_offset: int = 0
    next_offset: int = 0
    cleaned_offset: int = 0
    epochs: list[tuple[int, int]] = field(default_factory=list)
    segment: int | None = None
    """The base offset of the segment that is being written, None if the next batch begins one."""
    length: int = 0
    """Its size: later bytes are not trusted."""
    first_timestamp_ms: int = -1
    max_timestamp_ms: int = -1
    offset_of_max: int = 0
    index_entries: int = 0
    time_entries: int = 0
    """Numbers of entries of its index files that are on the disk."""

    @property
    def uuid(self) -> UUID:
        return UUID(hex=self.topic_id)


@dataclass(slots=True, kw_only=True)
class Checkpoint:
    """The whole document."""

    lsn: int = 0
    synced_lsn: int = 0
    """The journal was on the disk up to here when this was written."""
    epoch: int = -1
    next_log_id: int = 1
    clean: bool = False
    """The directory was closed: the journal holds nothing beyond ``lsn``."""
    logs: list[LogState] = field(default_factory=list)


def encode_checkpoint(checkpoint: Checkpoint) -> bytes:
    body = json.dumps(checkpoint, default=_fields, separators=(",", ":")).encode() + b"\n"
    return f"{_TITLE}{crc32c(body):08x}\n".encode() + body


def _fields(one: Checkpoint | LogState) -> dict[str, Any]:
    return {name: getattr(one, name) for name in one.__slots__}


def decode_checkpoint(data: bytes, path: str) -> Checkpoint:
    """Raises ``BadCheckpoint``, which names the path."""
    title, _, body = data.partition(b"\n")
    if title != f"{_TITLE}{crc32c(body):08x}".encode():
        raise BadCheckpoint(f"{path} is damaged: its CRC does not fit, or it is none that this version writes")
    try:
        document = json.loads(body)
        logs = [LogState(**log) for log in document.pop("logs")]
        for log in logs:
            log.epochs = [(int(epoch), int(start)) for epoch, start in log.epochs]
        return Checkpoint(**document, logs=logs)
    except (ValueError, TypeError, KeyError) as error:
        raise BadCheckpoint(f"{path} cannot be read: {error!r}") from None
