"""What the event loop asks of the two threads. An operation travels there and back and belongs to one side at a time.

``complete`` runs on the event loop, in the order in which the operations were queued.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Protocol

from ottla.broker.engine import Done, EngineError, LogConfig, Unavailable
from ottla.broker.storage.local.kept_log import KeptLog
from ottla.protocol.compression import Buffer
from ottla.protocol.records import TopicPartition


class Operation:
    """One thing to do; ``error`` says afterwards why it was not done."""

    __slots__ = ("error",)

    def __init__(self) -> None:
        self.error: EngineError | None = None

    def fail(self, error: EngineError) -> None:
        """It is not done, because of ``error``, unless it has failed before."""
        if self.error is None:
            self.error = error

    def complete(self) -> None:
        """Tell whoever asked."""


class Front:
    """A log as the committer sees it: what decides where its next batch goes. Nobody else touches it once it is open,
    but for ``is_deleted``, which is set once.
    """

    __slots__ = (
        "active_base",
        "failed_attempt",
        "failure",
        "first_timestamp_ms",
        "index_bytes",
        "is_deleted",
        "is_known",
        "log_id",
        "name",
        "since_entry",
        "size",
        "topic_id",
    )

    def __init__(self, log_id: int, name: str, topic_id: bytes) -> None:
        self.log_id = log_id
        self.name = name
        self.topic_id = topic_id
        # Whether the journal or a checkpoint says whose the id is.
        self.is_known = False
        self.is_deleted = False
        # The segment that the next batch goes to; None begins a new one.
        self.active_base: int | None = None
        self.size = 0
        self.first_timestamp_ms = -1
        self.index_bytes = 0
        self.since_entry = 0
        # Appends of this attempt and earlier ones fail: their offsets were counted from one that failed.
        self.failed_attempt = -1
        self.failure: EngineError = Unavailable("nothing has failed")

    def fail(self, attempt: int, error: EngineError) -> EngineError:
        """Let every append fail that was queued before the event loop hears of ``error``."""
        self.failed_attempt = attempt
        self.failure = error
        return error

    def lose_track(self) -> None:
        """Frames that were counted are gone: the segment is not gone on with."""
        self.active_base = None
        self.is_known = False


class AppendingLog(Protocol):
    """A log as its appends know it, and as the event loop's side of the engine hands on what came of them."""

    tp: TopicPartition
    kept: KeptLog

    def completed(self, append: "Append") -> None: ...
    def failed(self, append: "Append") -> None: ...
    def hand_over(self) -> "list[Append]": ...


class Append(Operation):
    """One batch for the end of a log."""

    __slots__ = (
        "attempt",
        "base_offset",
        "begins_segment",
        "body",
        "config",
        "count",
        "done",
        "end_lsn",
        "epoch",
        "front",
        "log",
        "max_timestamp_ms",
        "size",
    )

    def __init__(
        self,
        log: AppendingLog,
        front: Front,
        config: LogConfig,
        attempt: int,
        base_offset: int,
        count: int,
        max_timestamp_ms: int,
        body: Sequence[Buffer],
        size: int,
        epoch: int,
        done: Done,
    ) -> None:
        self.error = None
        self.log = log
        self.front = front
        self.config = config
        self.attempt = attempt
        self.base_offset = base_offset
        self.count = count
        self.max_timestamp_ms = max_timestamp_ms
        self.body = body
        self.size = size
        self.epoch = epoch
        self.done = done
        self.begins_segment = False
        self.end_lsn = -1


class EndSegment(Operation):
    """The next batch begins a new segment; ``then`` is called when everything queued before is over."""

    __slots__ = ("_then", "front")

    def __init__(self, front: Front, then: Callable[[EngineError | None], None]) -> None:
        super().__init__()
        self.front = front
        self._then = then

    def complete(self) -> None:
        self._then(self.error)


class Barrier(Operation):
    """Nothing: ``then`` is called when everything queued before is over."""

    __slots__ = ("_then",)

    def __init__(self, then: Callable[[EngineError | None], None]) -> None:
        super().__init__()
        self._then = then

    def complete(self) -> None:
        self._then(self.error)


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


class Close(Waited):
    """The last operation: make everything durable, whatever its policy, and let go of all files."""

    __slots__ = ()
