"""Taking a data directory: making it, locking it, and reading what it says of itself."""

import contextlib
import os
import stat
from collections.abc import Callable
from uuid import UUID

from ottla.broker.engine import ClosedToOthers, Corrupt, InUse
from ottla.broker.storage.cluster_id import new_cluster_id
from ottla.broker.storage.local.files import Files, read_file, replace_file, sync_directory, write_all
from ottla.broker.storage.local.layout import FORMAT, Layout, decode_meta, encode_meta


def make_data_directory(files: Files, layout: Layout) -> ClosedToOthers | None:
    """Make the directory, durably, and those above it that are missing. Raises ``OSError`` and ``SyncFailed``.

    What earlier versions made was for everybody to read: that is closed to others. Raises ``Foreign`` where the
    directory is Kafka's.
    """
    if not isinstance(files, Files):
        return None  # a simulated disk, which has it
    if (meta := read_file(files, layout.meta)) is not None:
        decode_meta(meta, layout.meta)
    missing = []
    path = layout.data_dir
    while not os.path.isdir(path):
        missing.append(path)
        path = os.path.dirname(path)
    for path in reversed(missing):
        files.make_directory(path)
        sync_directory(files, os.path.dirname(path))
    return _keep_others_out(layout)


def _keep_others_out(layout: Layout) -> ClosedToOthers | None:
    """Let a data directory of ours be for its owner alone, if it is open to everybody.

    One that is open to its group only was made so by somebody, and one that holds something else is not ours to change.
    A file system that knows no permissions has none to take.
    """
    found = os.stat(layout.data_dir)
    is_ours = os.path.exists(layout.meta) or not os.listdir(layout.data_dir)
    if is_ours and found.st_uid == os.geteuid() and found.st_mode & stat.S_IRWXO:
        shared = found.st_mode & (stat.S_ISGID | stat.S_IRWXG) if found.st_mode & stat.S_ISGID else 0
        with contextlib.suppress(OSError):
            os.chmod(layout.data_dir, stat.S_IRWXU | shared)
            return ClosedToOthers(layout.data_dir, stat.S_IMODE(found.st_mode), stat.S_IRWXU | shared)
    return None


def take_lock(files: Files, layout: Layout) -> int:
    """Lock the directory; the handle holds the lock. Raises ``InUse``."""
    try:
        lock = files.lock(layout.lock)
    except BlockingIOError:
        holder = (read_file(files, layout.lock) or b"").decode(errors="replace").strip()
        raise InUse(
            f"{layout.data_dir} is in use by another process (pid {holder or 'unknown'}); "
            "stop it or choose another data directory"
        ) from None
    files.truncate(lock, 0)
    write_all(files, lock, [b"%d\n" % os.getpid()], 0)
    return lock


def read_meta(
    files: Files, layout: Layout, node_id: int, new_uuid: Callable[[], UUID], wanted_id: str | None = None
) -> tuple[str, bool]:
    """The cluster id, and whether the directory has the format before this one; a new directory is named.

    Raises ``Corrupt`` for another node's directory, or one of another cluster than the wanted one.
    """
    path = layout.meta
    data = read_file(files, path)
    if data is None:
        cluster_id = wanted_id or new_cluster_id(new_uuid)
        replace_file(files, path, encode_meta(cluster_id, node_id), sync_name=False)
        return cluster_id, False
    cluster_id, owner, found_format = decode_meta(data, path)
    if owner != node_id:
        raise Corrupt(f"{path}: the directory belongs to node {owner}, this is node {node_id}")
    if wanted_id is not None and cluster_id != wanted_id:
        raise Corrupt(f"{path}: the directory belongs to the cluster {cluster_id}, this is a node of {wanted_id}")
    return cluster_id, found_format < FORMAT
