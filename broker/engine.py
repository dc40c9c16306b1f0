"""The storage boundary: what the broker may ask of an engine, at the height of a log and not of an API.

An engine has two halves. ``Log`` is the append-only store of one partition; ``Catalog`` keeps one JSON document, the
topics and whatever else must survive a restart. Both live on the event loop: nothing here may be called from another
thread, and everything an engine reports (``Done``, ``on_appended``, ``on_fatal``) is reported on the event loop.

The promise of every engine: **what was acknowledged is there after a crash** (as far as the log's ``Durability`` goes),
offsets are given once, and what lies below ``high_watermark`` never changes and never disappears but by ``trim``.

*Leader epochs.* An engine raises its epoch by one every time it is opened and makes that durable before ``open``
returns. It writes the epoch itself, beside the catalog's document and not in it, so no ``Catalog.store`` can set it
back. Every log opened in this life of the engine has that epoch, and every batch appended carries it.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple, Protocol
from uuid import UUID

from ottla.protocol.compression import Buffer
from ottla.protocol.records import TopicPartition
from ottla.protocol.steps import Later, Steps


class LogDir(NamedTuple):
    """The one place that holds every log, as DescribeLogDirs shows it. Sizes in bytes, -1 where there is no volume."""

    path: str
    total_bytes: int = -1
    usable_bytes: int = -1
    """Bytes that this process may still take of it."""


IN_MEMORY = LogDir("memory")
"""Logs that live in memory have neither a directory nor a volume."""


class EngineError(Exception):
    """Something the engine could not do."""


class Unavailable(EngineError):
    """Nothing was done: the engine is closed or has failed, the log is deleted, or a file could not be opened."""


class Unknown(EngineError):
    """May or may not be durable: syncing failed. The engine reports the same error to ``on_fatal``."""


class StorageFull(EngineError):
    """No room: nothing was changed, reads go on, and writing works again by itself once there is room."""


class Outdated(EngineError):
    """Nothing was stored: somebody else has stored a newer document. Refresh the catalog, and plan the change again."""


class Fenced(EngineError):
    """Somebody else leads: nothing of this log may be said any more. An append is in the log only if he shows it."""


class Busy(EngineError):
    """Nothing was queued: too much waits already. Try again later."""


class Corrupt(EngineError):
    """Acknowledged data is damaged. The log, or the whole directory, is not served; the message names the place."""


class DamagedLog(Corrupt):
    """Acknowledged records of one log cannot be read."""

    def __init__(self, tp: TopicPartition, reason: str) -> None:
        super().__init__(f"{tp.topic}-{tp.partition} is damaged: {reason}")
        self.tp = tp


class Foreign(EngineError):
    """The data directory is somebody else's; nothing in it was touched."""


class InUse(EngineError):
    """Another process has the data directory open."""


class OffsetOutOfRange(EngineError):
    """The offset lies before ``log_start_offset`` or after what the call allows."""


class NotHere(Later, Exception):
    """The records lie elsewhere, and the engine has begun to fetch them. Ask again when they have come.

    This is no ``EngineError``, as nothing is wrong. If they cannot be fetched, or the engine closes, that counts as
    having come, and the next call raises the error. What has come stays for a while; a late call may raise this again.
    """


class Durability(StrEnum):
    """The moment at which an append counts as durable (``ottla.durability`` of a topic)."""

    FSYNC = "fsync"
    """Once synced to the disk: survives power loss."""
    INTERVAL = "interval"
    """Once written; synced every few milliseconds. Survives a killed process, loses an interval with the power."""
    OS = "os"
    """Once written; synced when the operating system likes to, as Kafka does by default."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogConfig:
    """The settings of a topic that concern its logs; the defaults are Kafka's but for ``durability``."""

    segment_bytes: int = 1024 * 1024 * 1024
    """``segment.bytes``: a segment that would grow beyond it is ended before the append."""
    segment_ms: int = 7 * 24 * 60 * 60 * 1000
    """``segment.ms``: a batch this much younger than the segment's first one begins a new segment."""
    segment_index_bytes: int = 10 * 1024 * 1024
    """``segment.index.bytes``: a segment is ended before its offset index grows beyond it."""
    index_interval_bytes: int = 4096
    """``index.interval.bytes``: bytes of log between two entries of the index."""
    durability: Durability = Durability.FSYNC


class OffsetAndTimestamp(NamedTuple):
    """A record's offset and timestamp (Unix milliseconds)."""

    offset: int
    timestamp_ms: int


class EpochEnd(NamedTuple):
    """The largest epoch not above the one asked for, and the offset at which it ends; -1 and -1 if unknown."""

    leader_epoch: int
    end_offset: int


class SegmentInfo(NamedTuple):
    """A stretch of a log that is kept, and goes, as a whole. Offsets, bytes, Unix milliseconds."""

    base_offset: int
    next_offset: int
    """The base offset of its successor; the log end offset for the last one."""
    size_bytes: int
    max_timestamp_ms: int
    """-1 if no record has one."""
    is_closed: bool
    """Nothing will be appended to it: it may be compacted."""


class Done(Protocol):
    """Told once what became of an append, with the base offset that ``append`` returned."""

    def __call__(self, base_offset: int, error: EngineError | None) -> None: ...


class Log(Protocol):
    """The log of one partition."""

    tp: TopicPartition
    topic_id: UUID
    config: LogConfig
    """May be replaced at any time; the next append obeys the new one."""
    leader_epoch: int

    @property
    def log_start_offset(self) -> int:
        """The first offset that may be read."""

    @property
    def log_end_offset(self) -> int:
        """The next offset to be given. Falls back to ``high_watermark`` when appends fail."""

    @property
    def high_watermark(self) -> int:
        """Everything below is durable under the log's policy and may be shown."""

    @property
    def size_bytes(self) -> int:
        """Bytes of batches held, trimmed ones included until their segment is gone."""

    def append(self, batch: Buffer | Sequence[Buffer], *, count: int, max_timestamp_ms: int, done: Done) -> int:
        """Queue exactly one record batch of ``count`` offsets and return its base offset at once.

        ``batch`` is whole, checked and not copied: it may come in pieces, the first of which holds at least the whole
        batch header, and must not change any more, as the engine may keep it for readers. The engine writes base
        offset and leader epoch into what it stores. ``max_timestamp_ms`` is the batch's. ``done`` is called later,
        never within this call, in the order of the appends: with None once durable, else with ``StorageFull``,
        ``Unavailable`` or ``Unknown``. That may take long: an engine that is not sure goes on asking until it is.

        An append that fails takes every later one with it that was queued before ``done`` reported the failure: their
        offsets were counted from its own. Appends after that get the offsets anew.
        """

    def read(
        self, start_offset: int, *, max_bytes: int, upto_offset: int | None = None, min_one_batch: bool = True
    ) -> bytes:
        """Whole batches, from the one that contains ``start_offset`` on; ``b""`` if there are none to show.

        Shows no batch that reaches to ``upto_offset`` or beyond (default and most: ``high_watermark``), and no more
        than ``max_bytes``, except that the first batch is returned however large it is when ``min_one_batch`` (KIP-74).
        Raises ``OffsetOutOfRange`` below ``log_start_offset`` or above ``log_end_offset``, ``Corrupt`` and ``NotHere``.
        """

    def offset_for_timestamp(self, timestamp_ms: int) -> Steps[OffsetAndTimestamp | None]:
        """The first record below the high watermark whose timestamp is at least ``timestamp_ms`` (KIP-79).

        One step where batches are small and here; one that is not is a `Later`. The log may change between steps.
        """

    def max_timestamp(self) -> Steps[OffsetAndTimestamp | None]:
        """The first record below the high watermark that has the largest timestamp (KIP-734).

        In steps as `offset_for_timestamp`. May name a record just below ``log_start_offset`` whose batch is still
        there, as Kafka may.
        """

    def epoch_end(self, leader_epoch: int) -> EpochEnd:
        """The end of ``leader_epoch``, as OffsetForLeaderEpoch answers it (KIP-320)."""

    def segments(self) -> Sequence[SegmentInfo]:
        """The segments of the log, oldest first. An empty log has none."""

    async def roll(self) -> None:
        """End the segment that is being written, if it holds anything, so that it is closed. Durable on return."""

    async def replace(self, first_offset: int, next_offset: int, batches: Sequence[Buffer]) -> None:
        """Put ``batches`` in the place of the closed segments from ``first_offset`` up to ``next_offset``.

        Both ends must be ends of closed segments; the batches are whole, have their offsets, leader epochs and CRCs,
        rise, and lie between the ends. They become one segment with the base offset ``first_offset``; it may be empty.
        Atomic and durable: after a crash there are either the old segments or the new one. Log start, log end and high
        watermark stay. Raises ``ValueError`` where the ends do not fit, ``StorageFull`` or ``Unavailable`` when
        nothing was changed. Readers see one or the other.
        """

    @property
    def cleaned_offset(self) -> int:
        """Compaction has seen everything below. 0 at first; may fall after a crash."""

    def mark_cleaned(self, offset: int) -> None:
        """Compaction has seen everything below ``offset``; made durable at the engine's leisure."""

    async def trim(self, offset: int) -> int:
        """Make ``offset`` the log start offset, durably, and return the log start offset.

        An offset below the present log start changes nothing. Raises ``OffsetOutOfRange`` above the high watermark.
        """


class Catalog(Protocol):
    """One JSON document that is replaced as a whole, by one node or by several.

    Attributes:
        version: of the document that `load` gives; 0 if there is none. It rises with each one that is stored.
        on_changed: called, on the event loop, when somebody else may have stored a newer document; `refresh` reads it.
    """

    version: int
    on_changed: Callable[[], None]

    def load(self) -> dict[str, Any] | None:
        """The document that was stored here or read by `refresh` last, None if there has been none."""

    async def store(self, state: Mapping[str, Any], *, over: int) -> int:
        """Replace the document of version ``over``, durably, and return the version of the new one.

        Raises ``Outdated``, ``StorageFull`` or ``Unavailable``, and then the old one stands; ``Unknown`` where it may
        not: `refresh` tells. Of stores that are made at once over one version the first succeeds alone.
        """

    def look(self) -> None:
        """Call `on_changed` if others have stored a document since, as far as a system call can tell."""

    async def refresh(self) -> None:
        """Read what others have stored: `version` and `load` are not older than this call. Raises `EngineError`."""


class Snapshots(Protocol):
    """Documents that spare a start to read whole logs, one of each log. They help, and are not the truth.

    A document is an object of JSON; its ``offset`` says up to where it has seen the log.
    """

    def load(self, tp: TopicPartition) -> dict[str, Any] | None:
        """The last one of a log that is open; None without one. Raises ``OSError``, or ``ValueError`` of damage."""

    async def save(self, documents: Mapping[TopicPartition, dict[str, Any]]) -> Mapping[TopicPartition, str]:
        """Keep documents in the place of those before; returns why some were not kept."""

    async def remove(self, tp: TopicPartition) -> None:
        """Keep none of a log. Raises ``OSError`` or ``EngineError``, and then there may still be one."""


class Cut(NamedTuple):
    """A write that opening an engine cut off, as it was never acknowledged."""

    path: str
    cut_bytes: int
    reason: str


class ClosedToOthers(NamedTuple):
    """A directory that others could read until the engine was opened, and its permissions before and since."""

    path: str
    before: int
    now: int


class Damage(NamedTuple):
    """A range of a file's bytes that holds no whole batch."""

    path: str
    begin: int
    end: int
    from_offset: int
    upto_offset: int
    """The first offset after the damage; records of compacted logs may have been missing before."""
    records: int | None
    """None where nobody can tell."""
    reason: str


Sync = Callable[[], None]
"""Makes something durable, and raises if that fails."""


class Engine(Protocol):
    """Logs and a catalog that share a life."""

    node_id: int
    cluster_id: str
    """22 characters of URL-safe base64; given once and kept."""
    leader_epoch: int
    recovered: list[Cut]
    """Unfinished writes that opening the engine and its logs cut off."""
    closed_to_others: ClosedToOthers | None
    """Set by ``open`` if others could read what is stored."""
    on_appended: Callable[[TopicPartition], None]
    """Called when a log's high watermark has moved, after the ``Done`` calls that belong to it."""
    on_fatal: Callable[[EngineError], None]
    """Called at most once, when syncing has failed: nothing more can be made durable, so the process should end."""

    @property
    def catalog(self) -> Catalog:
        """The catalog of topics."""

    @property
    def snapshots(self) -> Snapshots | None:
        """Snapshots of what partitions remember of producers; None where nothing outlives the process."""

    @property
    def refusal(self) -> EngineError | None:
        """The reason why appends are refused now, None while they are taken. Means nothing after ``on_fatal``."""

    @property
    def logs(self) -> Mapping[TopicPartition, Log]:
        """Those opened and not deleted."""

    async def open(self) -> None:
        """Take the storage and raise the epoch. Raises ``InUse``, ``Corrupt``, ``StorageFull`` or ``Unavailable``."""

    async def close(self) -> None:
        """Wait for what is queued, make everything durable whatever its policy, and let go. May be called twice."""

    async def open_log(self, topic: str, topic_id: UUID, partition: int, config: LogConfig) -> Log:
        """Open the log, or begin an empty one; a log left over from another topic id is discarded.

        Costs nothing on disk until the first append. Raises ``Corrupt``; ``ValueError`` if it is open already.
        """

    async def release_log(self, tp: TopicPartition) -> None:
        """Close a log, which may be opened again. What is queued for it is over then.

        Nothing happens if it is not open.
        """

    async def delete_log(self, tp: TopicPartition) -> None:
        """Delete the log durably; what is queued for it fails. Nothing happens if it was not opened."""

    def watch_syncs(self, watch: Callable[[Sync], None]) -> None:
        """Have ``watch`` make each sync that appends wait for, in a thread of the engine's choice.

        It must call what it is given, once, and let through what that raises.
        """

    def damage_of(self, tp: TopicPartition) -> Sequence[Damage]:
        """Read all of an open log, to say where it is damaged. Raises ``OSError``."""

    async def remove_orphans(self, *, besides: Collection[TopicPartition] = ()) -> list[TopicPartition]:
        """Delete stored logs that nobody has opened since ``open``, and name them.

        For the moment after all logs of the catalog were opened: a crash between a topic's removal from the catalog
        and the deletion of its logs leaves such behind. ``besides`` stay: they are other nodes', and were left here.
        """
