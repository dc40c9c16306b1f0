"""The files of a data directory, and the formats of those that the broker alone reads.

LOCK                       held while the directory is open; the holder's pid
meta.properties            cluster.id, node.id and the format's version
catalog.json               the broker's document
catalog.lock               held with flock by the node that changes the catalog, where several share it
journal/<first lsn>.wal    what was appended since the checkpoint, of all logs
checkpoint                 how far the journal was brought to the segments, how each log stood then, the leader epoch
ballast                    room that is given up when the disk is full
logs/<topic>-<partition>/  partition.metadata, and segments as Kafka writes them (<base offset>.log, .index, .timeindex)
"""

import json
import os
from typing import Any, Final

from ottla.broker.engine import Corrupt, Foreign
from ottla.protocol.stored.names import CATALOG_NAME, CHECKPOINT_NAME, JOURNAL_NAME, LOGS_NAME, META_NAME, shortened

FORMAT: Final = 2
CATALOG_FORMAT: Final = 1
CATALOG_LOCK_NAME: Final = "catalog.lock"
DELETED_SUFFIX: Final = "-delete"


class Layout:
    """The paths below one data directory."""

    def __init__(self, data_dir: str) -> None:
        self.data_dir = data_dir
        self.lock = os.path.join(data_dir, "LOCK")
        self.meta = os.path.join(data_dir, META_NAME)
        self.catalog = os.path.join(data_dir, CATALOG_NAME)
        self.catalog_lock = os.path.join(data_dir, CATALOG_LOCK_NAME)
        self.checkpoint = os.path.join(data_dir, CHECKPOINT_NAME)
        self.journal = os.path.join(data_dir, JOURNAL_NAME)
        self.logs = os.path.join(data_dir, LOGS_NAME)

    def log_directory(self, name: str) -> str:
        return os.path.join(self.logs, name)


def deleted_name(name: str, unique: int) -> str:
    """The name of a log's directory while it is being deleted; short enough however long the topic is."""
    return shortened(name, f".{unique:x}{DELETED_SUFFIX}")


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


def encode_catalog(state: Any, version: int) -> bytes:
    document = {"format": CATALOG_FORMAT, "version": version, "state": state}
    return json.dumps(document, indent=1, ensure_ascii=False).encode() + b"\n"


def decode_catalog(data: bytes, path: str) -> dict[str, Any] | None:
    """The document. Raises ``Corrupt``."""
    return decode_versioned(data, path)[0]


def decode_versioned(data: bytes, path: str) -> tuple[dict[str, Any] | None, int]:
    """The document and its version; earlier releases gave none. Raises ``Corrupt``."""
    try:
        document = json.loads(data)
        if document["format"] == CATALOG_FORMAT:
            state = document["state"]
            if state is None or isinstance(state, dict):
                return state, int(document.get("version", 1))
            raise TypeError("the state is no object")
    except (ValueError, KeyError, TypeError) as error:
        raise Corrupt(f"{path} cannot be read: {error!r}") from None
    raise Corrupt(f"{path}: format {document['format']}, this version writes {CATALOG_FORMAT}")
