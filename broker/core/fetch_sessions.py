"""Fetch sessions (KIP-227): a consumer that goes on with one names only what changed, and is told only what changed.

A session remembers the partitions that a consumer reads, what it asked of each last, and what it was told of each.
The cache has a limited number of slots. Who finds it full may push out a session that nobody has used for a while, or
else one that is old enough and smaller than the new one; if there is none, the consumer goes on without a session,
which costs it longer requests and nothing else. A session does not belong to a connection: a consumer that reconnects
opens a new one and closes its old one with the same request.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Iterable, Mapping, Sequence
from uuid import UUID

from ottla.broker.core.topics.catalog import MAX_TOPIC_NAME
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.fetch import FetchPartition, PartitionData

NO_SESSION = 0
INITIAL_EPOCH = 0
FINAL_EPOCH = -1
_LAST_EPOCH = (1 << 31) - 1

_PART = ((1 << 31) - 1) // 8
LEAST_ID, LARGEST_ID = 1 - _PART, 8 * _PART - 1
"""Ids that a request may name. Kafka keeps sessions in eight parts by their ids, and takes one beyond for a fault."""

EVICTION_MS = 120_000
"""How long a session must have been unused, or must have lived, before another may take its slot."""

MOST_IN_SESSION = 50_000
"""Partitions of one session. Consumers of more go on without: clients may name any number that do not exist."""

MOST_IN_ALL = 250_000
"""Partitions of all sessions together; they take some 400 bytes each, and up to 1 KiB more for a name that is nobody's.

Longer names, which no topic can have, are not kept.
"""

Key = tuple[str | UUID, int]
"""A partition as a fetch names it: by the topic's name, or by its id where the version has ids, and by its index."""


def next_epoch(epoch: int) -> int:
    """The epoch of the request after the one with ``epoch``."""
    return 1 if epoch == _LAST_EPOCH else epoch + 1


class AskedPartition:
    """A partition that a consumer reads: in one fetch, or in each one of a session.

    Attributes:
        topic: the topic's name or id, whichever the fetch uses.
        name: the topic's name; None while the id is nobody's. Once known it stays, whatever becomes of the topic.
        want: what was asked of it last.
        high_watermark: what the consumer was told last; -1 for nothing, or for an error.
        log_start_offset: likewise.
    """

    __slots__ = ("high_watermark", "log_start_offset", "name", "topic", "want")

    def __init__(self, topic: str | UUID, name: str | None, want: FetchPartition) -> None:
        self.topic = topic
        self.name = name
        self.want = want
        self.high_watermark = self.log_start_offset = -1

    def told(self, row: PartitionData) -> bool:
        """Whether a row must be part of the answer; the partition remembers what it says."""
        changed = bool(row.records) or row.preferred_read_replica >= 0 or row.diverging_epoch.end_offset >= 0
        if row.high_watermark != self.high_watermark:
            self.high_watermark = row.high_watermark
            changed = True
        if row.log_start_offset != self.log_start_offset:
            self.log_start_offset = row.log_start_offset
            changed = True
        if row.error_code:
            self.high_watermark = -1  # so that the end of the error is told, too
            changed = True
        return changed


Row = tuple[AskedPartition, PartitionData]
"""A partition and what reading it gave."""


class FetchSession:
    """The broker's memory of one consumer.

    Attributes:
        by_id: its fetches name topics by id; the versions that do and those that do not cannot share a session.
        principal: who opened it; to others it is as if it were not there.
        partitions: in the order in which they are served. Those that gave records go to the end of the line.
        epoch: of the request that is expected next.
    """

    __slots__ = ("by_id", "created_ms", "epoch", "evictable", "id", "partitions", "principal", "size", "used_ms")

    def __init__(
        self, session_id: int, partitions: dict[Key, AskedPartition], *, by_id: bool, principal: str, now_ms: int
    ) -> None:
        self.id = session_id
        self.principal = principal
        self.by_id = by_id
        self.partitions = partitions
        self.epoch = next_epoch(INITIAL_EPOCH)
        self.created_ms = self.used_ms = now_ms
        self.size = 0  # as the cache has counted it
        self.evictable = False

    def update(self, asked: Mapping[Key, AskedPartition], forgotten: Iterable[Key]) -> None:
        """Take over what a request names: new partitions, other offsets, partitions to be let go of."""
        for key, item in asked.items():
            known = self.partitions.setdefault(key, item)
            known.want = item.want
        for key in forgotten:
            self.partitions.pop(key, None)

    def changed(self, rows: Sequence[Row]) -> list[Row]:
        """Those rows that an answer must have; the session remembers them as told."""
        kept = []
        for row in rows:
            item, data = row
            if item.told(data):
                kept.append(row)
                if data.records:
                    key = item.topic, data.partition_index
                    if self.partitions.pop(key, None) is not None:
                        self.partitions[key] = item
        return kept


def _may_be_kept(asked: Iterable[AskedPartition]) -> bool:
    """Whether all names are such as topics can have."""
    return all(item.name is None or len(item.name) <= MAX_TOPIC_NAME for item in asked)


class FetchSessions:
    """The cache.

    Args:
        slots: how many sessions there may be (``max.incremental.fetch.session.cache.slots``).
        new_id: gives a random number from 1 to `LARGEST_ID`.
    """

    __slots__ = ("_evictable", "_new_id", "_sessions", "_slots", "partitions")

    def __init__(self, slots: int, new_id: Callable[[], int]) -> None:
        self._slots = slots
        self._new_id = new_id
        self._sessions: dict[int, FetchSession] = {}  # the one that was not used for longest comes first
        self._evictable: list[tuple[int, int]] = []  # size and id of those that are old enough, the smallest first
        self.partitions = 0

    def __len__(self) -> int:
        return len(self._sessions)

    def create(self, rows: Sequence[Row], *, by_id: bool, principal: str, now_ms: int) -> int:
        """Begin a session with what a full fetch is answered; returns its id, or `NO_SESSION` if there is no room."""
        size = len(rows)
        if size > MOST_IN_SESSION or not _may_be_kept(item for item, _ in rows):
            return NO_SESSION
        while len(self._sessions) >= self._slots or self.partitions + size > MOST_IN_ALL:
            if not self._evict(size, now_ms):
                return NO_SESSION
        session_id = self._new_id()
        while session_id in self._sessions or session_id == NO_SESSION:
            session_id = self._new_id()
        partitions = {}
        for item, data in rows:
            item.high_watermark = data.high_watermark
            item.log_start_offset = data.log_start_offset
            partitions[item.topic, data.partition_index] = item
        session = FetchSession(session_id, partitions, by_id=by_id, principal=principal, now_ms=now_ms)
        self._sessions[session_id] = session
        self._touch(session, now_ms)
        return session_id

    def resume(
        self,
        session_id: int,
        epoch: int,
        asked: Mapping[Key, AskedPartition],
        forgotten: Iterable[Key],
        *,
        by_id: bool,
        principal: str,
        now_ms: int,
    ) -> FetchSession | ErrorCode | None:
        """Go on with a session: the one that the request belongs to, with what it asks.

        Returns:
            The session; None if nothing is left in it, and it is closed; or FETCH_SESSION_ID_NOT_FOUND,
            INVALID_FETCH_SESSION_EPOCH or FETCH_SESSION_TOPIC_ID_ERROR.
        """
        session = self._sessions.get(session_id)
        if session is None or session.principal != principal:
            return ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        if session.epoch != epoch:
            return ErrorCode.INVALID_FETCH_SESSION_EPOCH
        if session.by_id != by_id:
            return ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR
        if not _may_be_kept(asked.values()):
            self._remove(session)
            return ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        session.update(asked, forgotten)
        size = len(session.partitions)
        if not size:
            self._remove(session)
            return None
        if size > MOST_IN_SESSION or self.partitions + size - session.size > MOST_IN_ALL:
            self._remove(session)
            return ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        session.epoch = next_epoch(epoch)
        self._touch(session, now_ms)
        return session

    def close(self, session_id: int, principal: str) -> None:
        """Forget a session of somebody; there need be none."""
        session = self._sessions.get(session_id)
        if session is not None and session.principal == principal:
            self._remove(session)

    def clear(self) -> None:
        """Forget all sessions, as a restart does."""
        self._sessions.clear()
        self._evictable.clear()
        self.partitions = 0

    def _evict(self, size: int, now_ms: int) -> bool:
        """Free a slot for a new session of that size, if any may be."""
        if not self._sessions:
            return False
        oldest = next(iter(self._sessions.values()))
        if now_ms - oldest.used_ms > EVICTION_MS:
            self._remove(oldest)
            return True
        if self._evictable and self._evictable[0][0] < size:
            self._remove(self._sessions[self._evictable[0][1]])
            return True
        return False

    def _remove(self, session: FetchSession) -> None:
        del self._sessions[session.id]
        self.partitions -= session.size
        if session.evictable:
            self._delist(session)

    def _touch(self, session: FetchSession, now_ms: int) -> None:
        """Note that a session was used, and how large it is."""
        del self._sessions[session.id]
        self._sessions[session.id] = session
        session.used_ms = now_ms
        size = len(session.partitions)
        evictable = now_ms - session.created_ms > EVICTION_MS
        if size != session.size or evictable != session.evictable:
            if session.evictable:
                self._delist(session)
            self.partitions += size - session.size
            session.size = size
            session.evictable = evictable
            if evictable:
                insort(self._evictable, (size, session.id))

    def _delist(self, session: FetchSession) -> None:
        del self._evictable[bisect_left(self._evictable, (session.size, session.id))]
