"""Changes of logs that a checkpoint makes durable.

``prepare`` is done before the checkpoint and is undone if that cannot be written; ``finish`` is done when it is
durable, and finds nothing in the journal any more that could bring the old state back.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from ottla.broker.engine import Corrupt, EngineError, Unavailable
from ottla.broker.storage.local.files import engine_error
from ottla.broker.storage.local.kept_log import KeptLog
from ottla.broker.storage.local.materialise import Materialiser
from ottla.broker.storage.local.operations import Waited
from ottla.broker.storage.local.replace import replace_segments
from ottla.protocol.compression import Buffer
from ottla.protocol.records import BatchError


@dataclass(slots=True, eq=False)
class Change(Waited):
    """One change; ``done`` is called on the event loop when it is durable."""

    kept: KeptLog
    done: Callable[[], None]

    def prepare(self, materialiser: Materialiser) -> None:
        """Change the state. Raises ``OSError``."""

    def undo(self) -> None:
        """The checkpoint could not be written: put the state back."""

    def finish(self, materialiser: Materialiser) -> None:
        """Change the files. Raises ``OSError`` and ``SyncFailed``."""

    def complete(self) -> None:
        if self.error is None:
            self.done()
        Waited.complete(self)


class EndedSegment(Change):
    """The segment that was being written is complete."""

    def prepare(self, materialiser: Materialiser) -> None:
        if not self.kept.is_deleted:
            materialiser.end_segment(self.kept)


@dataclass(slots=True, eq=False)
class Trim(Change):
    """A new log start. ``ends_segment`` says that the committer begins a new one, so that the present one may go."""

    offset: int
    ends_segment: bool
    _old_start: int = field(default=0, init=False)

    def prepare(self, materialiser: Materialiser) -> None:
        if self.kept.is_deleted:
            self.error = Unavailable(f"{self.kept.name} is deleted")
            return
        if self.ends_segment:
            materialiser.end_segment(self.kept)
        self._old_start = self.kept.log_start_offset
        self.kept.log_start_offset = max(self.offset, self._old_start)

    def undo(self) -> None:
        self.kept.log_start_offset = self._old_start


class Delete(Change):
    """Forget a log, and then take its directory apart. A start finishes what was begun.

    Nothing is undone: nobody serves the log any more. What is left of it is an orphan to the next start, or gives way
    to its successor.
    """

    def prepare(self, materialiser: Materialiser) -> None:
        materialiser.forget(self.kept)

    def finish(self, materialiser: Materialiser) -> None:
        if self.kept.exists:
            materialiser.discard(self.kept.name)


@dataclass(slots=True, eq=False)
class Replace(Change):
    """One segment in the place of several. The checkpoint before it has nothing to say of any of them."""

    first_offset: int
    next_offset: int
    batches: Sequence[Buffer]
    interval: int
    size: int = field(default=0, init=False)
    max_timestamp_ms: int = field(default=-1, init=False)

    def finish(self, materialiser: Materialiser) -> None:
        if self.kept.is_deleted:
            self.error = Unavailable(f"{self.kept.name} is deleted")
            return
        try:
            self.size, self.max_timestamp_ms = replace_segments(
                materialiser.files,
                self.kept.directory,
                self.first_offset,
                self.next_offset,
                self.batches,
                self.interval,
            )
        except BatchError as error:
            self.error = Corrupt(f"{self.kept.name}: what should replace a segment is no batch: {error}")


def prepared(changes: Sequence[Change], materialiser: Materialiser) -> None:
    """Prepare all; one that cannot be has an error."""
    for change in changes:
        try:
            change.prepare(materialiser)
        except OSError as error:
            change.error = engine_error(error, f"changing {change.kept.name}")


def undone(changes: Sequence[Change], error: EngineError) -> None:
    """Undo all that were prepared."""
    for change in changes:
        if change.error is None:
            change.error = error
            change.undo()


def finished(changes: Sequence[Change], materialiser: Materialiser) -> None:
    """Finish all that are prepared."""
    for change in changes:
        if change.error is None:
            try:
                change.finish(materialiser)
            except OSError as error:
                change.error = engine_error(error, f"changing {change.kept.name}")
