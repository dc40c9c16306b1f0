"""The names of directories and files in a data directory, and the two formats that are as short as a name.

A log's directory, its ``partition.metadata`` and its segments are as Kafka has them.
"""

import base64
import struct
from typing import Final
from uuid import UUID

from ottla.protocol.records import TopicPartition

META_NAME: Final = "meta.properties"
CATALOG_NAME: Final = "catalog.json"
CHECKPOINT_NAME: Final = "checkpoint"
JOURNAL_NAME: Final = "journal"
LOGS_NAME: Final = "logs"

LOG_SUFFIX: Final = ".log"
INDEX_SUFFIX: Final = ".index"
TIME_INDEX_SUFFIX: Final = ".timeindex"
WAL_SUFFIX: Final = ".wal"
METADATA_NAME: Final = "partition.metadata"

OFFSET_ENTRY: Final = struct.Struct(">ii")
"""An entry of ``.index``: an offset relative to the segment's base, and the position of its batch."""
TIME_ENTRY: Final = struct.Struct(">qi")
"""An entry of ``.timeindex``: the largest timestamp so far (Unix ms), and the relative offset of its batch."""

_DIGITS: Final = 20
_LONGEST_NAME: Final = 255


def directory_name(tp: TopicPartition) -> str:
    """The name of a log's directory; ``ValueError`` for a topic that is no file name."""
    name = f"{tp.topic}-{tp.partition}"
    if not tp.topic or "/" in tp.topic or "\0" in tp.topic or len(name.encode()) > _LONGEST_NAME:
        raise ValueError(f"{tp.topic!r} cannot be stored as a topic name")
    return name


def parse_directory_name(name: str) -> TopicPartition | None:
    """The log in a directory of this name; None for other names, those of deleted logs among them."""
    topic, dash, partition = name.rpartition("-")
    if not dash or not topic or not partition.isdecimal():
        return None
    return TopicPartition(topic, int(partition))


def shortened(name: str, ending: str) -> str:
    """``name`` with ``ending``, and short enough for a file name."""
    return name.encode()[: _LONGEST_NAME - len(ending)].decode(errors="ignore") + ending


def segment_name(base_offset: int, suffix: str) -> str:
    return f"{base_offset:0{_DIGITS}d}{suffix}"


def parse_segment_name(name: str) -> int | None:
    """The base offset of a ``.log`` file, None for other files."""
    return parse_numbered_name(name, LOG_SUFFIX)


def journal_name(first_lsn: int) -> str:
    return f"{first_lsn:0{_DIGITS}d}{WAL_SUFFIX}"


def parse_journal_name(name: str) -> int | None:
    """The lsn at which a journal file begins, None for other files."""
    return parse_numbered_name(name, WAL_SUFFIX)


def encode_metadata(topic_id: UUID) -> bytes:
    """Kafka's partition.metadata."""
    text = base64.urlsafe_b64encode(topic_id.bytes).decode().rstrip("=")
    return f"version: 0\ntopic_id: {text}\n".encode()


def decode_metadata(data: bytes | None) -> UUID | None:
    """The topic id, None if the file is missing or cannot be understood."""
    for line in (data or b"").decode(errors="replace").splitlines():
        key, _, value = line.partition(": ")
        if key == "topic_id":
            try:
                return UUID(bytes=base64.urlsafe_b64decode(value.strip() + "=="))
            except ValueError:
                return None
    return None


def parse_numbered_name(name: str, suffix: str) -> int | None:
    """The number that a file with this suffix is named after, None for other files."""
    digits = name.removesuffix(suffix)
    if digits == name or len(digits) != _DIGITS or not digits.isdecimal():
        return None
    return int(digits)
