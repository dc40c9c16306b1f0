"""Operations that the event loop gives the two threads. One travels there and back, and has one owner at a time.

``complete`` runs on the event loop, in the order in which the operations were queued.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from ottla.broker.engine import Done, EngineError, LogConfig, Unavailable
from ottla.broker.storage.local.kept_log import KeptLog
from ottla.protocol.compression import Buffer
from ottla.protocol.records import TopicPartition


@dataclass(slots=True, eq=False)
class Operation:
    """One thing to do; ``error`` says afterwards why it was not done."""

    error: EngineError | None = field(default=None, init=False)

    def fail(self, error: EngineError) -> None:
        """Let it fail with ``error``, unless it has failed before."""
        if self.error is None:
            self.error = error

    def complete(self) -> None:
        """Report to the caller."""


@dataclass(slots=True, eq=False)
class Front:
    """A log as the committer sees it: what decides where its next batch goes.

    Nobody else touches it once it is open, but for ``is_deleted``, which is set once.

    Attributes:
        is_known: the journal or a checkpoint says whose the id is.
        active_base: the segment that the next batch goes to; None begins a new one.
        failed_attempt: appends of this attempt and earlier ones fail: their offsets were counted from one that failed.
    """

    log_id: int
    name: str
    topic_id: bytes
    is_known: bool = False
    is_deleted: bool = False
    active_base: int | None = None
    size: int = 0
    first_timestamp_ms: int = -1
    index_bytes: int = 0
    since_entry: int = 0
    failed_attempt: int = -1
    failure: EngineError = field(default_factory=lambda: Unavailable("nothing has failed"))

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
    leader_epoch: int
    kept: KeptLog
    front: Front

    def completed(self, append: "Append") -> None: ...
    def failed(self, append: "Append") -> None: ...
    def hand_over(self) -> "list[Append]": ...


def _told(base_offset: int, error: Exception | None) -> None:
    """Stands where somebody was told."""


class Append(Operation):
    """One batch for the end of a log. There is one for nearly every commit, so it is made in one go."""

    __slots__ = (
        "attempt",
        "base_offset",
        "begins_segment",
        "body",
        "config",
        "count",
        "done",
        "end_lsn",
        "log",
        "max_timestamp_ms",
        "next_offset",
        "size",
    )
    begins_segment: bool
    end_lsn: int

    def __init__(
        self,
        log: AppendingLog,
        config: LogConfig,
        attempt: int,
        base_offset: int,
        count: int,
        max_timestamp_ms: int,
        body: Sequence[Buffer],
        size: int,
        done: Done,
    ) -> None:
        self.error = None
        self.log = log
        self.config = config
        self.attempt = attempt
        self.base_offset = base_offset
        self.count = count
        self.next_offset = base_offset + count
        self.max_timestamp_ms = max_timestamp_ms
        self.body = body
        self.size = size
        self.done = done

    def tell(self) -> None:
        """Report to the caller, and let go of him: a batch waits in memory for its segment, and he need not."""
        done, self.done = self.done, _told
        done(self.base_offset, self.error)


@dataclass(slots=True, eq=False)
class Barrier(Operation):
    """Does nothing; ``then`` is called when everything queued before is over."""

    then: Callable[[EngineError | None], None]

    def complete(self) -> None:
        self.then(self.error)


@dataclass(slots=True, eq=False)
class EndSegment(Barrier):
    """The next batch begins a new segment; ``then`` is called when everything queued before is over."""

    front: Front


@dataclass(slots=True, eq=False)
class Waited(Operation):
    """An operation that somebody awaits."""

    future: asyncio.Future[None] = field(
        default_factory=lambda: asyncio.get_running_loop().create_future(), init=False, repr=False
    )

    def complete(self) -> None:
        if self.future.done():
            return
        if self.error is None:
            self.future.set_result(None)
        else:
            self.future.set_exception(self.error)


class Close(Waited):
    """The last operation: make everything durable, whatever its policy, and let go of all files."""
