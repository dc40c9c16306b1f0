"""Recovery at a start: the checkpoint, and the journal beyond it.

Segments are trusted as far as the checkpoint speaks of them and no further; what was appended later is brought there
again from the journal. Where its frames end, two things may have happened. Either the machine died while a group was
being written, which nobody was told of: that is cut off. Or what had been acknowledged is damaged: then nothing is
touched and the start is refused. Frames say how far the journal was synced when they were written, and so tell which.
"""

import os
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from ottla.broker.engine import Corrupt, Cut, LogConfig
from ottla.broker.storage.epochs import EpochHistory
from ottla.broker.storage.local.files import Files, file_size, opened, read_file, sync
from ottla.broker.storage.local.kept_log import KeptLog
from ottla.broker.storage.local.layout import Layout
from ottla.broker.storage.local.materialise import Materialiser
from ottla.broker.storage.local.replace import finish_replacing
from ottla.broker.storage.local.segment import remove_segment, segment_bases
from ottla.protocol.compression import Buffer
from ottla.protocol.records import MAGIC
from ottla.protocol.stored.checkpoint import BadCheckpoint, Checkpoint, decode_checkpoint
from ottla.protocol.stored.frames import NEW_SEGMENT, Frame, Kind
from ottla.protocol.stored.journal import JournalReader
from ottla.protocol.stored.names import METADATA_NAME, decode_metadata

_GULP_BYTES: Final = 8 * 1024 * 1024
_MOST_NAMED: Final = 10
_DEFAULTS: Final = LogConfig()
# Base offset, magic, last offset delta and max timestamp of a batch header.
_FIELDS: Final = struct.Struct(">q8xb6xi8xq")


class ReplayedBatch:
    """A batch out of the journal, on its way to its segment."""

    __slots__ = ("base_offset", "begins_segment", "body", "count", "max_timestamp_ms", "size")
    config = _DEFAULTS

    def __init__(self, body: bytes, *, begins_segment: bool) -> None:
        self.base_offset, magic, last_delta, self.max_timestamp_ms = _FIELDS.unpack_from(body)
        if magic != MAGIC:
            raise struct.error(f"magic {magic}")
        self.count = last_delta + 1
        self.body: Sequence[Buffer] = (body,)
        self.size = len(body)
        self.begins_segment = begins_segment


@dataclass(slots=True)
class Recovered:
    """The result of recovery."""

    checkpoint: Checkpoint
    logs: dict[int, KeptLog]
    next_lsn: int
    """Above everything that the files of the journal have ever held."""
    next_log_id: int
    cuts: list[Cut] = field(default_factory=list)
    has_unused_frames: bool = False
    """The journal has batches of a log whose segments cannot be used."""
    superseded: set[int] = field(default_factory=set)
    """Logs that have been deleted: their names belong to others that began later."""


def at_checkpoint(checkpoint: Checkpoint, layout: Layout, reader: JournalReader) -> Recovered:
    """The logs as the checkpoint has them."""
    logs = {state.log_id: KeptLog.of(state, layout.log_directory(state.name)) for state in checkpoint.logs}
    return Recovered(checkpoint, logs, max(checkpoint.lsn, reader.limit_lsn()), checkpoint.next_log_id)


def read_checkpoint(files: Files, layout: Layout) -> Checkpoint:
    """The checkpoint of a directory of this format; an empty one if there is none yet. Raises ``Corrupt``."""
    data = read_file(files, layout.checkpoint)
    if data is not None:
        try:
            return decode_checkpoint(data, layout.checkpoint)
        except BadCheckpoint as error:
            raise Corrupt(f"{error}; {_advice(layout)}") from None
    reader = JournalReader(files, layout.journal)
    has_frames = any(any(True for _ in reader.frames(first)) for first in sorted(reader.paths))
    if has_frames or files.list(layout.logs):
        # It is on the disk before anything is appended, so somebody has taken it away.
        raise Corrupt(f"{layout.checkpoint} is missing; {_advice(layout)}")
    return Checkpoint()


def recover(files: Files, layout: Layout, materialiser: Materialiser) -> Recovered:
    """Bring what the journal has beyond the checkpoint to the segments, unsynced.

    Raises ``Corrupt`` when acknowledged data is damaged, and then nothing has been changed; ``OSError``.
    """
    checkpoint = read_checkpoint(files, layout)
    reader = JournalReader(files, layout.journal)
    found = at_checkpoint(checkpoint, layout, reader)
    if checkpoint.epoch < 0 or checkpoint.clean:
        return found
    names = {state.log_id: state.name for state in checkpoint.logs}
    for frame in reader.frames(checkpoint.lsn):
        if frame.kind == Kind.LOG:
            begin_log(layout, frame, found)
            names[frame.log_id] = found.logs[frame.log_id].name
    _check_end(reader, checkpoint, layout, names, found)
    end_lsn = reader.end_lsn
    apply(files, layout, (frame for frame in reader.frames(checkpoint.lsn) if frame.lsn < end_lsn), found, materialiser)
    # Of some the first batch did not get there.
    found.logs = {log_id: log for log_id, log in found.logs.items() if log.exists}
    return found


def _check_end(
    reader: JournalReader, checkpoint: Checkpoint, layout: Layout, names: dict[int, str], found: Recovered
) -> None:
    """Tell a torn tail from damage: cut the one, refuse the other."""
    if reader.first_lsn < 0:
        raise Corrupt(
            f"{layout.journal}: the file that holds lsn {checkpoint.lsn} is missing, and with it whatever was appended "
            f"since the last checkpoint; {_advice(layout)}"
        )
    end_lsn, first_lsn = reader.end_lsn, reader.first_lsn
    path = reader.paths[first_lsn]
    reader.synced_lsn = max(reader.synced_lsn, checkpoint.synced_lsn)
    torn_end = end_lsn + reader.torn_bytes()
    beyond = None
    concerned: dict[int, None] = {}
    for frame in reader.frames_beyond():
        beyond = frame.lsn if beyond is None else beyond
        torn_end = max(torn_end, frame.end_lsn)
        if frame.kind == Kind.LOG:
            names[frame.log_id] = frame.log_name
        elif frame.kind == Kind.BATCH:
            concerned[frame.log_id] = None
    if end_lsn < reader.synced_lsn:
        upto = min(beyond or reader.synced_lsn, reader.synced_lsn)
        what = ", ".join(names.get(log_id, f"log {log_id}") for log_id in list(concerned)[:_MOST_NAMED])
        raise Corrupt(
            f"{path} is damaged: bytes {end_lsn - first_lsn} to {upto - first_lsn} (lsn {end_lsn} to {upto}) held "
            f"acknowledged data, as the journal was on the disk up to lsn {reader.synced_lsn}; "
            f"{'batches of ' + what + ' follow' if what else 'nothing follows'}; {_advice(layout)}"
        )
    if torn_end > end_lsn:
        reason = f"{path}, byte {end_lsn - first_lsn}: a write that was not finished, and nobody was told of"
        found.cuts.append(Cut(path, torn_end - end_lsn, reason))


def _advice(layout: Layout) -> str:
    return (
        "restore the directory from a backup, or give up what is lost with:\n"
        f"  ottla recover {layout.data_dir} --accept-loss"
    )


def apply(files: Files, layout: Layout, frames: Iterator[Frame], found: Recovered, materialiser: Materialiser) -> None:
    """Bring batches of frames to their segments. Raises ``OSError`` and ``Corrupt``."""
    touched: dict[KeptLog, None] = {}
    settled: set[KeptLog] = set()
    gathered = 0
    for frame in frames:
        if frame.kind != Kind.BATCH or frame.log_id in found.superseded:
            continue
        log = found.logs.get(frame.log_id)
        if log is None:
            raise Corrupt(f"{layout.journal}, lsn {frame.lsn}: a batch of log {frame.log_id}, which is not known")
        if log not in settled and log.exists:
            _settle_or_mark(files, log)
        settled.add(log)
        if log.damage:
            # It may have been deleted: if not, whoever opens it hears of it.
            found.has_unused_frames = True
            continue
        log.backlog.append(_batch(frame, layout))
        if not log.epochs or frame.epoch > log.epochs[-1][0]:
            history = EpochHistory(log.epochs)
            history.begin(frame.epoch, log.backlog[-1].base_offset)
            log.epochs = history.entries
        touched[log] = None
        gathered += len(frame.body)
        if gathered >= _GULP_BYTES:
            _write(touched, materialiser)
            gathered = 0
    _write(touched, materialiser)


def _settle_or_mark(files: Files, log: KeptLog) -> None:
    try:
        settle(files, log)
    except (Corrupt, FileNotFoundError, NotADirectoryError) as error:
        log.damage = str(error)


def begin_log(layout: Layout, frame: Frame, found: Recovered) -> None:
    """A log of which the checkpoint does not know; whatever had its name before is gone."""
    found.next_log_id = max(found.next_log_id, frame.log_id + 1)
    if frame.log_id in found.logs:
        return
    name = frame.log_name
    for log_id in [log_id for log_id, log in found.logs.items() if log.name == name]:
        del found.logs[log_id]
        found.superseded.add(log_id)
    found.logs[frame.log_id] = KeptLog(
        log_id=frame.log_id, name=name, directory=layout.log_directory(name), topic_id=frame.topic_id.hex
    )


def _batch(frame: Frame, layout: Layout) -> ReplayedBatch:
    try:
        return ReplayedBatch(frame.body, begins_segment=bool(frame.flags & NEW_SEGMENT))
    except struct.error as error:
        raise Corrupt(f"{layout.journal}, lsn {frame.lsn}: a frame without a batch: {error}") from None


def _write(touched: dict[KeptLog, None], materialiser: Materialiser) -> None:
    for log in touched:
        error = materialiser.write(log)[1]
        if error is not None:
            raise error
    touched.clear()


def settle(files: Files, log: KeptLog) -> tuple[list[int], int]:
    """Let the directory hold what the log is known to have and nothing else.

    Returns the base offsets of the segments and how many bytes were cut off. Raises ``Corrupt`` when something is
    missing, ``OSError``.
    """
    directory = log.directory
    metadata = os.path.join(directory, METADATA_NAME)
    if decode_metadata(read_file(files, metadata)) != log.uuid:
        raise Corrupt(f"{metadata} is missing or is not that of topic id {log.uuid}")
    finish_replacing(files, directory)
    bases = segment_bases(files, directory)
    last = log.next_offset - 1 if log.segment is None else log.segment
    for base in [base for base in bases if base > last]:
        remove_segment(files, directory, base)
        bases.remove(base)
    ends = [*bases[1:], log.next_offset]
    # Left behind by a trim. The segment that is being written stays, as it will be gone on with.
    for base, end in zip(list(bases), ends, strict=False):
        if end <= log.log_start_offset and base != log.segment:
            remove_segment(files, directory, base)
            bases.remove(base)
    if log.segment is not None and log.segment not in bases:
        raise Corrupt(f"{directory}: the segments up to offset {log.next_offset} are missing")
    if (bases[0] if bases else log.next_offset) > log.log_start_offset:
        raise Corrupt(f"{directory}: the segments from offset {log.log_start_offset} on are missing")
    return bases, _cut(files, log)


def is_whole(files: Files, log: KeptLog) -> bool:
    """Tell whether the directory has all that the log is known to have; change nothing."""
    try:
        metadata = read_file(files, os.path.join(log.directory, METADATA_NAME))
        bases = segment_bases(files, log.directory)
        if decode_metadata(metadata) != log.uuid:
            return False
        if log.segment is None:
            return bool(bases) or log.next_offset == log.log_start_offset
        return log.segment in bases and file_size(files, log.path) >= log.length
    except OSError:
        return False


def _cut(files: Files, log: KeptLog) -> int:
    """Cut the segment that is being written to the length that it is known to have."""
    if log.segment is None:
        return 0
    path = log.path
    with opened(files, path) as handle:
        size = files.size(handle)
        if size < log.length:
            raise Corrupt(f"{path}: {log.length} bytes should be there, {size} are: acknowledged records are missing")
        if size > log.length:
            files.truncate(handle, log.length)
            sync(files, handle, path)
        return size - log.length
