"""Opening a directory of format 1, which had no journal: each log was its segments, synced one by one.

The logs are read as that format's recovery read them, and a checkpoint is written that says what was found; from then
on the directory has format 2. A crash on the way leaves a directory of format 1.
"""

import json
import os
from typing import Any

from ottla.broker.engine import Corrupt
from ottla.broker.storage.local.files import Files, read_file, replace_file, sync_directory
from ottla.broker.storage.local.kept_log import KeptLog
from ottla.broker.storage.local.layout import Layout, encode_meta
from ottla.broker.storage.local.scan import Known, rebuild
from ottla.broker.storage.local.segment import segment_bases
from ottla.protocol.stored.checkpoint import Checkpoint, encode_checkpoint
from ottla.protocol.stored.names import METADATA_NAME, decode_metadata, parse_directory_name

_OLD_CHECKPOINT = "checkpoint.json"


def upgrade(files: Files, layout: Layout, cluster_id: str, node_id: int) -> None:
    """Make a directory of format 1 one of format 2. Raises ``Corrupt``, ``OSError`` and ``SyncFailed``."""
    old_path = os.path.join(layout.data_dir, _OLD_CHECKPOINT)
    known = _known(read_file(files, old_path))
    checkpoint = Checkpoint(epoch=_epoch(files, layout), clean=True)
    for name in sorted(files.list(layout.logs)):
        if parse_directory_name(name) is None:
            continue
        directory = layout.log_directory(name)
        topic_id = decode_metadata(read_file(files, os.path.join(directory, METADATA_NAME)))
        if topic_id is None:
            if segment_bases(files, directory):
                raise Corrupt(f"{os.path.join(directory, METADATA_NAME)} is missing or cannot be understood")
            continue
        log = KeptLog(log_id=checkpoint.next_log_id, name=name, directory=directory, topic_id=topic_id.hex)
        old_id, old = known.get(name, ("", Known()))
        rebuild(files, log, old if old_id == topic_id.hex else Known(), accept_loss=False)
        sync_directory(files, directory)
        checkpoint.logs.append(log.state())
        checkpoint.next_log_id += 1
    if checkpoint.logs:
        sync_directory(files, layout.logs)
    replace_file(files, layout.checkpoint, encode_checkpoint(checkpoint))
    replace_file(files, layout.meta, encode_meta(cluster_id, node_id))
    try:
        files.remove(old_path)
    except FileNotFoundError:
        return


def _epoch(files: Files, layout: Layout) -> int:
    """Format 1 kept the leader epoch beside the catalog's document."""
    data = read_file(files, layout.catalog)
    if data is None:
        return -1
    try:
        return int(json.loads(data)["leader_epoch"])
    except (ValueError, KeyError, TypeError) as error:
        raise Corrupt(f"{layout.catalog} cannot be read: {error!r}") from None


def _known(data: bytes | None) -> dict[str, tuple[str, Known]]:
    """Logs by their directories' names: topic id, and what that format's checkpoint said. Without one, all is read."""
    try:
        document: dict[str, dict[str, Any]] = json.loads(data or b"")["logs"]
        return {
            name: (
                log["topic_id"],
                Known(
                    int(log["start"]),
                    int(log["recovery_point"]),
                    [(int(epoch), int(start)) for epoch, start in log["epochs"]],
                ),
            )
            for name, log in document.items()
        }
    except (ValueError, KeyError, TypeError, AttributeError):
        return {}
