"""Giving up what is damaged, so that a directory can be served again: what ``ottla recover`` does.

``examine`` says what would be lost and changes nothing. ``recover_accepting_loss`` keeps all that is whole: of every
log the records up to the first that is missing. Files of the journal that were damaged are set aside and not removed.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass, field

from ottla.broker.engine import Corrupt, EngineError, InUse, Unavailable
from ottla.broker.storage.local.damage import Progress, find_damage, keep_copies, mend, undo_interrupted
from ottla.broker.storage.local.files import (
    Files,
    SyncFailed,
    engine_error,
    read_file,
    replace_file,
    sync_directory,
)
from ottla.broker.storage.local.journal import DAMAGED_SUFFIX
from ottla.broker.storage.local.kept_log import KeptLog
from ottla.broker.storage.local.layout import FORMAT, Layout, decode_catalog, decode_meta
from ottla.broker.storage.local.materialise import Materialiser
from ottla.broker.storage.local.recovery import Recovered, apply, at_checkpoint, begin_log, is_whole
from ottla.broker.storage.local.scan import Known, LostRange, rebuild
from ottla.protocol.records import BatchError, parse_header
from ottla.protocol.stored.checkpoint import BadCheckpoint, Checkpoint, decode_checkpoint, encode_checkpoint
from ottla.protocol.stored.frames import Frame, Kind
from ottla.protocol.stored.journal import JournalReader
from ottla.protocol.stored.names import METADATA_NAME, decode_metadata, parse_directory_name


@dataclass(slots=True)
class RepairReport:
    """The problems of a directory, and the records that are, or would be, given up."""

    data_dir: str
    problems: list[str] = field(default_factory=list)
    """Empty if a broker would start."""
    lost: list[LostRange] = field(default_factory=list)
    """As far as it can be told; damage at the very end of the journal may have befallen records of any log."""
    kept_batches: int = 0
    """Batches of the journal that are brought to their segments."""
    set_aside: list[str] = field(default_factory=list)
    """Files that were renamed, and copies of files that were mended; they are not used any more."""
    cannot_be_mended: list[str] = field(default_factory=list)
    """Problems that stay whatever is given up."""


def examine(
    data_dir: str,
    *,
    files: Files | None = None,
    segments: bool = True,
    is_locked: bool = False,
    tell: Progress = lambda count: None,
) -> RepairReport:
    """Say what is wrong with a directory and what accepting the loss would give up; change nothing.

    ``segments=False`` reads no segment, which is quick and finds no damage in them; ``tell`` hears of the bytes read.
    ``is_locked``: the caller has locked the directory.
    Raises ``InUse`` while a broker has it, ``Corrupt`` for a directory that is none of ours, ``Unavailable``.
    """
    return _repair(data_dir, files or Files(), dry_run=True, segments=segments, is_locked=is_locked, tell=tell)


def recover_accepting_loss(
    data_dir: str, *, files: Files | None = None, is_locked: bool = False, tell: Progress = lambda count: None
) -> RepairReport:
    """Give up what is damaged, and leave a directory that a broker starts with. Raises as ``examine`` does.

    Where there is no problem nothing is changed.
    """
    return _repair(data_dir, files or Files(), dry_run=False, segments=True, is_locked=is_locked, tell=tell)


def _repair(
    data_dir: str, files: Files, *, dry_run: bool, segments: bool, is_locked: bool, tell: Progress
) -> RepairReport:
    layout = Layout(os.path.abspath(data_dir))
    try:
        if read_file(files, layout.meta) is None:
            raise Corrupt(f"{layout.meta} is missing: this is no data directory")
        lock = None if is_locked else files.lock(layout.lock)
    except BlockingIOError:
        raise InUse(f"{layout.data_dir} is in use by another process; stop it first") from None
    except OSError as error:
        raise engine_error(error, f"opening {layout.data_dir}") from error
    try:
        return _Repair(files, layout, dry_run=dry_run, segments=segments, tell=tell).run()
    except OSError as error:
        raise engine_error(error, f"repairing {layout.data_dir}") from error
    except SyncFailed as error:
        raise Unavailable(str(error)) from error
    finally:
        if lock is not None:
            files.close(lock)


class _Repair:
    def __init__(self, files: Files, layout: Layout, *, dry_run: bool, segments: bool, tell: Progress) -> None:
        self._files = files
        self._layout = layout
        self._dry_run = dry_run
        self._segments = segments
        self._tell = tell
        self._copies: list[str] = []
        self._journal_is_damaged = False
        self._report = RepairReport(layout.data_dir)
        self._next: dict[int, int] = {}
        self._lost: dict[int, tuple[int, int]] = {}

    def run(self) -> RepairReport:
        _, _, directory_format = decode_meta(read_file(self._files, self._layout.meta) or b"", self._layout.meta)
        if directory_format != FORMAT:
            raise Corrupt(f"{self._layout.meta}: format {directory_format}; start a broker once, to upgrade it")
        self._look_at_the_catalog()
        if self._report.problems:
            return self._report
        reader = JournalReader(self._files, self._layout.journal)
        found = self._logs(reader)
        checkpoint = found.checkpoint
        frames = checkpoint.epoch >= 0 and not checkpoint.clean
        if frames:
            for frame in reader.frames(checkpoint.lsn):
                if frame.kind == Kind.LOG:
                    begin_log(self._layout, frame, found)
            self._look_at_the_end(reader, checkpoint)
        for log in list(found.logs.values()):
            if undo_interrupted(self._files, log, dry_run=self._dry_run):
                self._report.problems.append(f"{log.directory}: taking damage out of it was interrupted")
                if self._dry_run:
                    continue
            if log.exists and not is_whole(self._files, log):
                self._rebuild(log, Known(log.log_start_offset, 0, log.epochs))
            elif log.exists and self._segments:
                self._read_segments(log)
        if not self._report.problems:
            return self._report
        self._next = {log_id: log.next_offset for log_id, log in found.logs.items()}
        if frames:
            self._bring_over(reader, found)
        if not self._dry_run:
            self._write(reader, found)
        return self._report

    def _look_at_the_catalog(self) -> None:
        path = self._layout.catalog
        try:
            data = read_file(self._files, path)
            if data is not None:
                decode_catalog(data, path)
        except Corrupt as error:
            self._report.problems.append(str(error))
            self._report.cannot_be_mended.append(str(error))

    def _read_segments(self, log: KeptLog) -> None:
        """Find the damaged batches of a log, and take them out."""
        copies: list[str] = []
        try:
            if self._dry_run:
                damages = find_damage(self._files, log, self._tell)
            else:
                damages, copies = mend(self._files, log, self._tell)
        except OSError as error:
            problem = f"{log.directory} cannot be read: {error.strerror or error}"
            self._report.problems.append(problem)
            self._report.cannot_be_mended.append(problem)
            return
        self._copies += copies
        for one in damages:
            self._report.problems.append(
                f"{log.name} is damaged: {one.path}, bytes {one.begin} to {one.end - 1}: {one.reason}"
            )
            self._report.lost.append(
                LostRange(
                    log.name,
                    one.from_offset,
                    one.upto_offset,
                    f"{os.path.basename(one.path)}, bytes {one.begin} to {one.end - 1}: {one.reason}",
                    one.records,
                )
            )

    def _logs(self, reader: JournalReader) -> Recovered:
        """The logs as the checkpoint has them; without one, as their segments are."""
        path = self._layout.checkpoint
        data = read_file(self._files, path)
        try:
            if data is None:
                raise BadCheckpoint(f"{path} is missing")
            checkpoint = decode_checkpoint(data, path)
        except BadCheckpoint as error:
            return self._logs_without_checkpoint(reader, str(error))
        return at_checkpoint(checkpoint, self._layout, reader)

    def _logs_without_checkpoint(self, reader: JournalReader, problem: str) -> Recovered:
        found = Recovered(Checkpoint(), {}, reader.limit_lsn(), 1)
        names = [name for name in self._files.list(self._layout.logs) if parse_directory_name(name) is not None]
        if not names and not any(any(True for _ in reader.frames(first)) for first in list(reader.paths)):
            return found
        self._report.problems.append(problem)
        self._journal_is_damaged = True
        epoch = 0
        for name in sorted(names):
            directory = self._layout.log_directory(name)
            topic_id = decode_metadata(read_file(self._files, os.path.join(directory, METADATA_NAME)))
            if topic_id is None:
                continue
            log = KeptLog(log_id=found.next_log_id, name=name, directory=directory, topic_id=topic_id.hex)
            self._rebuild(log, Known(), is_problem=False)
            found.logs[found.next_log_id] = log
            found.next_log_id += 1
            epoch = max([epoch, *(epoch for epoch, _ in log.epochs)])
            self._report.lost.append(
                LostRange(name, log.next_offset, None, "what came after the last checkpoint is in no segment")
            )
        found.checkpoint.epoch = epoch
        found.checkpoint.clean = True
        return found

    def _rebuild(self, log: KeptLog, known: Known, *, is_problem: bool = True) -> None:
        """Take of a log what its segments have."""
        was = log.next_offset
        try:
            losses = rebuild(self._files, log, known, accept_loss=True, dry_run=self._dry_run)
        except (OSError, EngineError) as error:
            losses = []
            self._report.problems.append(f"{log.directory} cannot be read: {error}")
            log.exists = False
        if is_problem:
            self._report.problems.append(f"{log.directory} does not hold what it should")
            self._report.lost.append(
                LostRange(log.name, log.next_offset, max(was, log.next_offset), "segments are damaged or missing")
            )
        self._report.lost += losses

    def _look_at_the_end(self, reader: JournalReader, checkpoint: Checkpoint) -> None:
        if reader.first_lsn < 0:
            self._journal_is_damaged = True
            self._report.problems.append(
                f"{self._layout.journal}: the file that holds lsn {checkpoint.lsn} is missing, and with it what "
                "was appended since the last checkpoint"
            )
            return
        for _ in reader.frames_beyond():
            pass
        synced_lsn = max(reader.synced_lsn, checkpoint.synced_lsn)
        if reader.end_lsn < synced_lsn:
            self._journal_is_damaged = True
            path, first_lsn = reader.paths[reader.first_lsn], reader.first_lsn
            self._report.problems.append(
                f"{path}: from byte {reader.end_lsn - first_lsn} on (lsn {reader.end_lsn}, acknowledged up to "
                f"{synced_lsn}) there is damage"
            )

    def _bring_over(self, reader: JournalReader, found: Recovered) -> None:
        names = {log_id: log.name for log_id, log in found.logs.items()}

        def whole(frames: Iterator[Frame]) -> Iterator[Frame]:
            for frame in frames:
                if frame.kind == Kind.LOG and frame.log_id not in found.logs:
                    begin_log(self._layout, frame, found)
                    self._next[frame.log_id] = 0
                    names[frame.log_id] = found.logs[frame.log_id].name
                if frame.kind == Kind.BATCH and frame.log_id in found.logs and self._follows(frame):
                    self._report.kept_batches += 1
                    yield frame

        def all_frames() -> Iterator[Frame]:
            yield from whole(reader.frames(found.checkpoint.lsn))
            yield from whole(reader.frames_beyond())

        if self._dry_run:
            for _ in all_frames():
                pass
        else:
            materialiser = Materialiser(self._files, self._layout, most_handles=64)
            apply(self._files, self._layout, all_frames(), found, materialiser)
            materialiser.sync()
            materialiser.close()
        for log_id, (first, end) in self._lost.items():
            self._report.lost.append(
                LostRange(names[log_id], first, end, "a batch is missing in the journal, and others came after it")
            )

    def _follows(self, frame: Frame) -> bool:
        """Tell whether the batch is the next one of its log. Batches behind a gap are given up."""
        try:
            header = parse_header(frame.body)
        except BatchError:
            return False
        due = self._next[frame.log_id]
        if header.base_offset == due and frame.log_id not in self._lost:
            self._next[frame.log_id] = header.last_offset + 1
            return True
        if header.base_offset >= due:
            self._lost[frame.log_id] = (due, header.last_offset + 1)
        return False

    def _write(self, reader: JournalReader, found: Recovered) -> None:
        """Write a checkpoint from which a start begins with an empty journal."""
        checkpoint = Checkpoint(
            lsn=found.next_lsn,
            synced_lsn=found.next_lsn,
            epoch=max(found.checkpoint.epoch, 0),
            next_log_id=found.next_log_id,
            clean=True,
            logs=[log.state() for log in found.logs.values() if log.exists],
        )
        for log in found.logs.values():
            if log.exists:
                sync_directory(self._files, log.directory)
        sync_directory(self._files, self._layout.logs)
        replace_file(self._files, self._layout.checkpoint, encode_checkpoint(checkpoint))
        self._report.set_aside += keep_copies(self._files, self._copies)
        for path in reader.paths.values() if self._journal_is_damaged else ():
            self._files.rename(path, path + DAMAGED_SUFFIX)
            self._report.set_aside.append(path + DAMAGED_SUFFIX)
        sync_directory(self._files, self._layout.journal)
