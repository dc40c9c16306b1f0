"""Opening a log that recovery found: its segments, and where its next batch goes."""

from ottla.broker.engine import Corrupt, Cut, Unavailable
from ottla.broker.storage.local.files import NO_HANDLE, Files, SyncFailed, engine_error, file_size
from ottla.broker.storage.local.kept_log import KeptLog
from ottla.broker.storage.local.operations import Front
from ottla.broker.storage.local.recovery import settle
from ottla.broker.storage.local.segment import TIME_ENTRY_BYTES, Readers, Segment, segment_path


def open_segments(files: Files, readers: Readers, kept: KeptLog) -> tuple[list[Segment], list[Cut]]:
    """Open the segments of a log; return them and the cuts it took. Raises ``Corrupt`` and ``Unavailable``."""
    if kept.damage:
        raise Corrupt(kept.damage)
    try:
        bases, cut_bytes = settle(files, kept)
        sizes = {base: file_size(files, segment_path(kept.directory, base)) for base in bases}
    except OSError as error:
        if error.errno in NO_HANDLE:
            raise engine_error(error, f"opening {kept.directory}") from error
        raise Corrupt(f"{kept.directory} cannot be read: {error.strerror or error}") from error
    except SyncFailed as error:
        raise Unavailable(str(error)) from error
    cuts = []
    if cut_bytes:
        reason = f"{kept.path}, byte {kept.length}: nobody was told of what follows"
        cuts.append(Cut(kept.path, cut_bytes, reason))
    segments = []
    for base, end in zip(bases, [*bases[1:], kept.next_offset], strict=False):
        segment = Segment(readers, kept.directory, base, size=sizes[base], next_offset=end)
        if base == kept.segment:
            segment.resume(kept.index, (kept.index_entries, kept.time_entries), kept.max_timestamp_ms)
        segments.append(segment)
    return segments, cuts


def front_of(kept: KeptLog) -> Front:
    """The front of a log that is opened."""
    front = Front(kept.log_id, kept.name, kept.uuid.bytes)
    front.is_known = kept.exists
    front.active_base = kept.segment
    front.size = kept.length
    front.first_timestamp_ms = kept.first_timestamp_ms
    front.index_bytes = kept.index_entries * TIME_ENTRY_BYTES
    return front
