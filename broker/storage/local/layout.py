"""Names and formats of what lies in a data directory.

LOCK                       held while the directory is open; the holder's pid
meta.properties            cluster.id, node.id and the format's version
catalog.json               the broker's document
journal/<first lsn>.wal    what was appended since the checkpoint, of all logs
checkpoint                 how far the journal was brought to the segments, how each log stood then, the leader epoch
ballast                    room that is given up when the disk is full
logs/<topic>-<partition>/  partition.metadata, and segments as Kafka writes them (<base offset>.log, .index, .timeindex)
"""

import base64
import json
import os
from typing import Any, Final
from uuid import UUID

from ottla.broker.storage.engine import Corrupt, Foreign
from ottla.protocol.records import TopicPartition

FORMAT: Final = 2
CATALOG_FORMAT: Final = 1
DELETED_SUFFIX: Final = "-delete"
LOG_SUFFIX: Final = ".log"
INDEX_SUFFIX: Final = ".index"
TIME_INDEX_SUFFIX: Final = ".timeindex"
METADATA_NAME: Final = "partition.metadata"
_LONGEST_NAME: Final = 255
_OFFSET_DIGITS: Final = 20


class Layout:
    """The paths below one data directory."""

    def __init__(self, data_dir: str) -> None:
        self.data_dir = data_dir
        self.lock = os.path.join(data_dir, "LOCK")
        self.meta = os.path.join(data_dir, "meta.properties")
        self.catalog = os.path.join(data_dir, "catalog.json")
        self.checkpoint = os.path.join(data_dir, "checkpoint")
        self.journal = os.path.join(data_dir, "journal")
        self.logs = os.path.join(data_dir, "logs")

    def log_directory(self, name: str) -> str:
        return os.path.join(self.logs, name)


def directory_name(tp: TopicPartition) -> str:
    """The name of a log's directory; ``ValueError`` for a topic that is no file name."""
    name = f"{tp.topic}-{tp.partition}"
    if not tp.topic or "/" in tp.topic or "\0" in tp.topic or len(name.encode()) > _LONGEST_NAME:
        raise ValueError(f"{tp.topic!r} cannot be stored as a topic name")
    return name


def parse_directory_name(name: str) -> TopicPartition | None:
    """The log that a directory of this name holds, None if it is not one of ours."""
    topic, dash, partition = name.rpartition("-")
    if not dash or not topic or not partition.isdecimal():
        return None
    return TopicPartition(topic, int(partition))


def deleted_name(name: str, unique: int) -> str:
    """What a log's directory is called while it is being deleted; short enough however long the topic is."""
    ending = f".{unique:x}{DELETED_SUFFIX}"
    return name.encode()[: _LONGEST_NAME - len(ending)].decode(errors="ignore") + ending


def segment_name(base_offset: int, suffix: str) -> str:
    return f"{base_offset:0{_OFFSET_DIGITS}d}{suffix}"


def parse_segment_name(name: str) -> int | None:
    """The base offset of a ``.log`` file, None for other files."""
    digits = name.removesuffix(LOG_SUFFIX)
    if digits == name or len(digits) != _OFFSET_DIGITS or not digits.isdecimal():
        return None
    return int(digits)


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


def encode_meta(cluster_id: str, node_id: int) -> bytes:
    """Kafka's meta.properties, with the version of our own format."""
    return f"cluster.id={cluster_id}\nformat={FORMAT}\nnode.id={node_id}\nversion=1\n".encode()


def decode_meta(data: bytes, path: str) -> tuple[str, int, int]:
    """The cluster id, the node id and the format. Raises ``Corrupt`` when they are missing or not known.

    Raises ``Foreign`` where the file is Kafka's.
    """
    pairs = dict(line.split("=", 1) for line in data.decode(errors="replace").splitlines() if "=" in line)
    if "format" not in pairs and "version" in pairs:
        raise Foreign(f"{os.path.dirname(path)} is a data directory of Apache Kafka: choose another one")
    if pairs.get("format") not in ("1", str(FORMAT)):
        raise Corrupt(f"{path}: format {pairs.get('format')!r}, this version writes {FORMAT}")
    try:
        return pairs["cluster.id"], int(pairs["node.id"]), int(pairs["format"])
    except (KeyError, ValueError):
        raise Corrupt(f"{path}: cluster.id or node.id is missing") from None


def encode_catalog(state: Any) -> bytes:
    document = {"format": CATALOG_FORMAT, "state": state}
    return json.dumps(document, indent=1, ensure_ascii=False).encode() + b"\n"


def decode_catalog(data: bytes, path: str) -> dict[str, Any] | None:
    """The document. Raises ``Corrupt``."""
    try:
        document = json.loads(data)
        if document["format"] == CATALOG_FORMAT:
            state = document["state"]
            if state is None or isinstance(state, dict):
                return state
            raise TypeError("the state is no object")
    except (ValueError, KeyError, TypeError) as error:
        raise Corrupt(f"{path} cannot be read: {error!r}") from None
    raise Corrupt(f"{path}: format {document['format']}, this version writes {CATALOG_FORMAT}")
