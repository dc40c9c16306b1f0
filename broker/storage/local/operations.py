"""What the event loop asks of the writer. An operation travels there and back and belongs to one side at a time.

``execute`` runs in the writer, ``complete`` on the event loop, in the order in which the operations were queued.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from ottla.broker.storage.engine import Done, EngineError, LogConfig, Unavailable
from ottla.broker.storage.local.files import engine_error, replace_file
from ottla.broker.storage.local.partition_writer import PartitionWriter
from ottla.broker.storage.local.recovery import remove_segment
from ottla.protocol.compression import Buffer

if TYPE_CHECKING:
    from ottla.broker.storage.local.log import LocalLog
    from ottla.broker.storage.local.writer import Writer


class Operation:
    """One thing to do; ``error`` says afterwards why it was not done."""

    __slots__ = ("error", "settled")

    def __init__(self) -> None:
        self.error: EngineError | None = None
        # Once settled the outcome stands, whatever happens to later operations of the same group.
        self.settled = False

    def execute(self, writer: "Writer") -> None:
        raise NotImplementedError

    def complete(self) -> None:
        raise NotImplementedError


class Append(Operation):
    """One batch for the end of a log. The writer handles it itself, together with its neighbours."""

    __slots__ = (
        "attempt",
        "base_offset",
        "config",
        "count",
        "done",
        "log",
        "max_timestamp_ms",
        "pieces",
        "segment_base",
        "size",
        "target",
    )

    def __init__(
        self,
        log: "LocalLog",
        target: PartitionWriter,
        config: LogConfig,
        attempt: int,
        base_offset: int,
        count: int,
        max_timestamp_ms: int,
        pieces: Sequence[Buffer],
        size: int,
        done: Done,
    ) -> None:
        self.error = None
        self.settled = False
        self.log = log
        self.target = target
        self.config = config
        self.attempt = attempt
        self.base_offset = base_offset
        self.count = count
        self.max_timestamp_ms = max_timestamp_ms
        self.pieces = pieces
        self.size = size
        self.done = done
        self.segment_base = -1

    def complete(self) -> None:
        self.log.completed(self)
        self.done(self.base_offset, self.error)


class Waited(Operation):
    """An operation that somebody awaits."""

    __slots__ = ("future",)

    def __init__(self) -> None:
        super().__init__()
        self.future: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def complete(self) -> None:
        if self.future.done():
            return
        if self.error is None:
            self.future.set_result(None)
        else:
            self.future.set_exception(self.error)


class Register(Operation):
    """From now on the log is part of every checkpoint."""

    __slots__ = ("target",)

    def __init__(self, target: PartitionWriter) -> None:
        super().__init__()
        self.target = target

    def execute(self, writer: "Writer") -> None:
        writer.logs[self.target.name] = self.target
        writer.carried.pop(self.target.name, None)

    def complete(self) -> None:
        pass


class Trim(Waited):
    """A new log start, made durable by the group's checkpoint."""

    __slots__ = ("_old_start", "everything", "log", "offset", "target")

    def __init__(self, log: "LocalLog", target: PartitionWriter, offset: int) -> None:
        super().__init__()
        self.log = log
        self.target = target
        self.offset = offset
        self.everything = False
        self._old_start = 0

    def execute(self, writer: "Writer") -> None:
        if self.target.deleted:
            self.error = Unavailable(f"{self.target.name} is deleted")
            return
        self._old_start = self.target.log_start_offset
        self.target.log_start_offset = max(self.offset, self._old_start)
        writer.want_checkpoint(self.checkpointed)

    def checkpointed(self, writer: "Writer", error: EngineError | None) -> None:
        self.error = error
        if error is not None:
            self.target.log_start_offset = self._old_start
        elif self.target.active_base is not None and self.target.next_offset <= self.offset:
            # Not even the segment being written has anything left to show: end it, so that its file can go.
            writer.end_segment(self.target)
            self.everything = True

    def complete(self) -> None:
        if self.error is None:
            self.log.trimmed(self)
        super().complete()


class RemoveSegments(Operation):
    """Unlink what a trim has left behind. If that fails, the next start does it."""

    __slots__ = ("bases", "target")

    def __init__(self, target: PartitionWriter, bases: Sequence[int]) -> None:
        super().__init__()
        self.target = target
        self.bases = bases

    def execute(self, writer: "Writer") -> None:
        if self.target.deleted:
            return
        for base in self.bases:
            try:
                remove_segment(writer.files, self.target.directory, base)
            except OSError:
                return

    def complete(self) -> None:
        pass


class Delete(Waited):
    """Rename a log's directory, durably, and then take it apart. A start finishes what was begun."""

    __slots__ = ("name", "target")

    def __init__(self, name: str, target: PartitionWriter | None) -> None:
        super().__init__()
        self.name = name
        self.target = target

    def execute(self, writer: "Writer") -> None:
        if self.target is not None:
            writer.forget(self.target)
        writer.carried.pop(self.name, None)
        try:
            writer.discard(self.name)
        except OSError as error:
            self.error = engine_error(error, f"deleting {self.name}")


class StoreCatalog(Waited):
    """Replace the catalog's file."""

    __slots__ = ("_stored", "data")

    def __init__(self, data: bytes, stored: Callable[[], None]) -> None:
        super().__init__()
        self.data = data
        self._stored = stored

    def execute(self, writer: "Writer") -> None:
        try:
            replace_file(writer.files, writer.layout.catalog, self.data)
        except OSError as error:
            self.error = engine_error(error, f"writing {writer.layout.catalog}")

    def complete(self) -> None:
        if self.error is None:
            self._stored()
        super().complete()


class Close(Waited):
    """Make everything durable and note that the directory was closed cleanly."""

    __slots__ = ()

    def execute(self, writer: "Writer") -> None:
        writer.close()
