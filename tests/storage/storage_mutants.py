"""Planted bugs: mistakes that one makes when one writes a storage engine. The simulated disk must find each."""

import inspect
from importlib import import_module
from types import FunctionType

from tests.sim.mutants import Mutant

ROOT = "ottla.broker.storage.local"


class StorageMutant(Mutant):
    """A change of a function of the local engine."""

    def function(self):
        module, _, path = self.where.partition(":")
        found = import_module(module if module.startswith("ottla.") else f"{ROOT}.{module}")
        for name in path.split("."):
            found = inspect.getattr_static(found, name)
        assert isinstance(found, FunctionType)
        return found


MUTANTS = [
    StorageMutant("a group is not synced", "committer:Committer.execute", "if must_sync:", "if False:"),
    StorageMutant(
        "a group is acknowledged and then synced",
        "committer:Committer.execute",
        "if must_sync:\n        self._sync()",
        "if must_sync:\n        self._sync_at = self._monotonic()",
    ),
    StorageMutant(
        "a failed sync is taken for one that worked",
        "files:sync",
        'raise SyncFailed(f"syncing {path}: {error.strerror or error}") from error',
        "return",
        focus=("faults",),
    ),
    StorageMutant(
        "after a failed sync the next group is acknowledged",
        "threads:Executor.give_up",
        "self.failure = Unavailable",
        "_ = Unavailable",
    ),
    StorageMutant(
        "a short write is taken for a whole one",
        "files:write_all",
        "written += count\n",
        "written += sum(map(len, rest))\n            break\n",
    ),
    StorageMutant(
        "the CRC of a frame is not looked at",
        "ottla.protocol.stored.frames:consecutive_frames",
        "if crc32c(body, crc32c(chunk[at : at + _COVERED.size])) != crc:",
        "if False:",
    ),
    StorageMutant(
        "frames of an earlier use of a file count",
        "ottla.protocol.stored.frames:consecutive_frames",
        " or lsn != first_lsn + position + at",
        "",
    ),
    StorageMutant(
        "a torn tail is taken for damage",
        "recovery:_check_end",
        "if end_lsn < reader.synced_lsn:",
        "if torn_end > end_lsn:",
    ),
    StorageMutant(
        "damage is taken for a torn tail", "recovery:_check_end", "if end_lsn < reader.synced_lsn:", "if False:"
    ),
    StorageMutant(
        "what lies behind the damage is not asked how far the journal was synced",
        "recovery:_check_end",
        "for frame in reader.frames_beyond():",
        "for frame in ():",
    ),
    StorageMutant(
        "a frame vouches for itself",
        "committer:Committer._build",
        "lsn, journal.synced_lsn, append",
        "lsn, lsn + frame_bytes(size), append",
    ),
    StorageMutant(
        "the checkpoint is written before the segments are synced",
        "keeper:Keeper.write_checkpoint",
        "self.materialiser.sync()",
        "pass",
    ),
    StorageMutant(
        "the journal is let go before the checkpoint is written",
        "keeper:Keeper._checkpoint",
        "prepared(changes, self.materialiser)",
        "prepared(changes, self.materialiser)\n    self.journal.retire(lsn)",
    ),
    StorageMutant(
        "the checkpoint goes further than what lies in segments",
        "engine:LocalEngine._take_checkpoint",
        "self._hand_over()",
        "pass",
    ),
    StorageMutant(
        "a checkpoint is taken although batches wait for room",
        "keeper:Keeper._checkpoint",
        "if self.materialiser.waiting:",
        "if False:",
    ),
    StorageMutant(
        "new segments' names are not synced",
        "materialise:Materialiser.sync",
        "sync_directory(self.files, path)",
        "pass",
    ),
    StorageMutant(
        "new journal files' names are not synced",
        "journal:Journal.next_file",
        "sync_names(self._files, self._directory_handle, self._directory)",
        "pass",
    ),
    StorageMutant("the name of a replaced file is not synced", "files:replace_file", "if sync_name:", "if False:"),
    StorageMutant("a replaced file is not synced", "files:write_file", "sync(files, handle, path)", "pass"),
    StorageMutant("what replaces segments is not synced", "replace:_write", "sync(files, handle, path)", "pass"),
    StorageMutant(
        "segments are removed before their replacement has its name",
        "replace:replace_segments",
        "    sync_names()\n",
        "",
    ),
    StorageMutant(
        "replacing is not finished after a crash",
        "replace:finish_replacing",
        "names = files.list(path)",
        "return",
        focus=("compaction",),
    ),
    StorageMutant(
        "segments are replaced that the journal brings back",
        "changes:Replace.finish",
        "if self.kept.is_deleted:",
        "materialiser.files.remove(materialiser.layout.checkpoint)\n    if self.kept.is_deleted:",
    ),
    StorageMutant(
        "a trim is forgotten",
        "changes:Trim.prepare",
        "self.kept.log_start_offset = max",
        "_ = max",
    ),
    StorageMutant(
        "the epoch is not raised",
        "engine:LocalEngine._take",
        "found.checkpoint.epoch + 1",
        "max(found.checkpoint.epoch, 0)",
    ),
    StorageMutant(
        "the tail is dropped before it is in a segment",
        "log:LocalLog.hand_over",
        "self._handed = len(self._tail)",
        "del self._tail[:], self._tail_ends[:]",
    ),
    StorageMutant("segments are trusted beyond the checkpoint", "recovery:_cut", "if size > log.length:", "if False:"),
    StorageMutant(
        "the journal begins again where it ended",
        "recovery:at_checkpoint",
        "max(checkpoint.lsn, reader.limit_lsn())",
        "checkpoint.lsn",
    ),
    StorageMutant(
        "appends behind a failed one keep their offsets",
        "operations:Front.fail",
        "self.failed_attempt = attempt",
        "pass",
    ),
]
