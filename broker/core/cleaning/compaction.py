"""Compaction of one log, batch by batch: first the keys of its new part, then what stays of all of it.

A record stays if no later record has its key. A tombstone stays until its batch's delete horizon, which is set when
compaction first meets it (KIP-534), so that every reader has ``delete.retention.ms`` to see it. Records of aborted
transactions go. A marker stays as long as a batch of its transaction is there, and then until its own horizon. The last
batch of every producer stays, be it empty, since it tells the sequence number that comes next; and so does the last of
what is compacted, since it tells where the log has got to (KAFKA-17076).

Both halves are generators over one batch: they stop every few hundred records, so that whoever runs them can let others
have their turn.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from hashlib import blake2b
from typing import NamedTuple

from ottla.broker.core.topics.accept import DECOMPRESSED_BYTES
from ottla.broker.settings import INT64_MAX
from ottla.protocol.batch_filter import (
    StoredRecord,
    delete_horizon,
    stored_records,
    with_records,
    without_records,
)
from ottla.protocol.compression import Buffer
from ottla.protocol.control import parse_marker
from ottla.protocol.records import BatchHeader, check_crc, decompressed_records
from ottla.protocol.steps import Steps

STEP_RECORDS = 400
"""Records between two stops; some 2 µs each."""

OPENED_AT_ONCE_BYTES = 4096
"""Smaller batches are not worth another thread."""

ENTRY_BYTES = 200
"""Bytes that an entry of `KeyOffsets` takes, roughly: the dict's slot, the key's bytes object, the number."""
_DIGEST_BYTES = 16

_Verdict = Steps[Buffer | None]


class LastBatch(NamedTuple):
    """The last that a partition knows of a producer: its epoch, and where its last batch of records ended, if any."""

    producer_epoch: int
    last_offset: int | None


class AbortedTransaction(NamedTuple):
    """A transaction: its producer, where it began, and where its marker is or was."""

    producer_id: int
    first_offset: int
    last_offset: int


def _opened(header: BatchHeader, batch: Buffer) -> Steps[bytes]:
    """The records section of a batch; a batch that becomes larger than what may be produced makes a log uncleanable."""
    open_it = partial(decompressed_records, header, batch, limit=DECOMPRESSED_BYTES)
    if len(batch) <= OPENED_AT_ONCE_BYTES:
        return open_it()
    body: bytes = yield open_it
    return body


class TransactionsSeen:
    """The aborted transactions of a log, and the batches that are left of each.

    Args:
        aborted: those with something in the part that is read, in any order.
    """

    __slots__ = ("_aborted", "_committed", "_ongoing")

    def __init__(self, aborted: Iterable[AbortedTransaction]) -> None:
        self._aborted = sorted(aborted, key=lambda each: each.first_offset, reverse=True)
        # Aborted ones that have begun: where they end, and whether a batch of theirs was met.
        self._ongoing: dict[int, tuple[int, bool]] = {}
        self._committed: set[int] = set()

    def is_aborted(self, header: BatchHeader) -> bool:
        """True if the next batch, not a marker, belongs to an aborted transaction."""
        self._begin(header)
        if not header.is_transactional:
            return False
        last_offset, _ = self._ongoing.get(header.producer_id, (-1, False))
        if header.base_offset < last_offset:
            self._ongoing[header.producer_id] = last_offset, True
            return True
        self._committed.add(header.producer_id)
        return False

    def is_idle_marker(self, header: BatchHeader, batch: Buffer) -> bool:
        """True if the next batch, a control batch, ends a transaction of which nothing is left."""
        self._begin(header)
        marker = parse_marker(batch)
        if marker is None:
            return header.record_count == 0
        if marker.commit:
            had_batches = header.producer_id in self._committed
            self._committed.discard(header.producer_id)
            return not had_batches
        return not self._ongoing.pop(header.producer_id, (-1, False))[1]

    def _begin(self, header: BatchHeader) -> None:
        while self._aborted and self._aborted[-1].first_offset <= header.last_offset:
            begun = self._aborted.pop()
            self._ongoing[begun.producer_id] = begun.last_offset, False


class KeyOffsets:
    """Keys and the largest offset of each. Long keys are kept as digests of 128 bits, as Kafka keeps all of them.

    Attributes:
        latest_offset: everything up to here has been looked at; -1 before.
    """

    __slots__ = ("_capacity", "_offsets", "latest_offset")

    def __init__(self, buffer_bytes: int) -> None:
        self._capacity = max(buffer_bytes // ENTRY_BYTES, 1)
        self._offsets: dict[bytes, int] = {}
        self.latest_offset = -1

    def __len__(self) -> int:
        return len(self._offsets)

    @property
    def is_full(self) -> bool:
        return len(self._offsets) >= self._capacity

    def put(self, key: bytes, offset: int) -> None:
        """Note a key; offsets of the same key rise."""
        self._offsets[_short(key)] = offset

    def get(self, key: bytes) -> int:
        """The last offset of a key, -1 if it has none."""
        return self._offsets.get(_short(key), -1)


def _short(key: bytes) -> bytes:
    # A key shorter than a digest cannot be taken for one.
    return key if len(key) < _DIGEST_BYTES else blake2b(key, digest_size=_DIGEST_BYTES).digest()


class KeyScan:
    """The first half: the keys of the part that compaction has not seen.

    Args:
        from_offset: where that part begins; what lies before it in the first batch is left out.
    """

    def __init__(self, from_offset: int, aborted: Iterable[AbortedTransaction], buffer_bytes: int) -> None:
        self.keys = KeyOffsets(buffer_bytes)
        self.records = 0
        self._from_offset = from_offset
        self._transactions = TransactionsSeen(aborted)

    def take(self, header: BatchHeader, batch: Buffer) -> Steps[None]:
        """Note the keys of the next batch. Raises ``BatchError``."""
        check_crc(header, batch)
        if header.is_control:
            self._transactions.is_idle_marker(header, batch)
        elif not self._transactions.is_aborted(header):
            body = yield from _opened(header, batch)
            for count, record in enumerate(stored_records(header, body), 1):
                if record.key is not None and record.offset >= self._from_offset:
                    self.keys.put(record.key, record.offset)
                if not count % STEP_RECORDS:
                    yield None
        self.records += header.record_count
        self.keys.latest_offset = max(self.keys.latest_offset, header.last_offset)


class Sieve:
    """The second half: what stays of each batch of the log.

    Args:
        last_batches: the producers that the partition knows.
        upto_offset: where what is compacted ends.
        wall_ms: Unix time at which the compaction began.

    Attributes:
        records, kept: how many were looked at, and how many stay.
        markers_gone: offsets of the markers of aborted transactions that went.
    """

    def __init__(
        self,
        keys: KeyOffsets,
        aborted: Iterable[AbortedTransaction],
        last_batches: Mapping[int, LastBatch],
        *,
        upto_offset: int,
        delete_retention_ms: int,
        wall_ms: int,
    ) -> None:
        self.records = self.kept = 0
        self.markers_gone: list[int] = []
        self._keys = keys
        self._transactions = TransactionsSeen(aborted)
        self._last_batches = last_batches
        self._last_offset = upto_offset - 1
        self._horizon_ms = min(wall_ms + delete_retention_ms, INT64_MAX)
        self._wall_ms = wall_ms

    def sift(self, header: BatchHeader, batch: Buffer) -> _Verdict:
        """The batch as it stays, the very same one if nothing of it goes, or None. Raises ``BatchError``."""
        check_crc(header, batch)
        self.records += header.record_count
        is_needed = self._is_last_of_producer(header) or header.last_offset == self._last_offset
        if header.is_control:
            return self._sift_marker(header, batch, is_needed)
        is_aborted = self._transactions.is_aborted(header)
        if not header.record_count:
            return batch if is_needed else None
        if is_aborted:
            return without_records(header) if is_needed else None
        body = yield from _opened(header, batch)
        kept = yield from self._sift_records(header, body)
        self.kept += len(kept)
        if not kept:
            return without_records(header) if is_needed else None
        undecided = delete_horizon(header) is None and any(record.is_tombstone for record in kept)
        if len(kept) == header.record_count and not undecided:
            return batch
        yield None
        return with_records(header, body, kept, horizon_ms=self._horizon_ms if undecided else None)

    def _sift_records(self, header: BatchHeader, body: bytes) -> Steps[Sequence[StoredRecord]]:
        horizon_ms = delete_horizon(header)
        tombstones_go = horizon_ms is not None and horizon_ms <= self._wall_ms
        find, latest_offset = self._keys.get, self._keys.latest_offset
        kept: list[StoredRecord] = []
        for count, record in enumerate(stored_records(header, body), 1):
            if not count % STEP_RECORDS:
                yield None
            if record.offset <= latest_offset:
                # A record without a key is from before the topic was compacted: nothing can ever replace it.
                if record.key is None or record.offset < find(record.key):
                    continue
                if record.is_tombstone and tombstones_go:
                    continue
            kept.append(record)
        return kept

    def _sift_marker(self, header: BatchHeader, batch: Buffer, is_needed: bool) -> Buffer | None:
        is_idle = self._transactions.is_idle_marker(header, batch)
        horizon_ms = delete_horizon(header)
        if not header.record_count:
            return batch if is_needed else None
        if is_idle and horizon_ms is not None and horizon_ms <= self._wall_ms:
            self.markers_gone.append(header.base_offset)
            return without_records(header) if is_needed else None
        self.kept += header.record_count
        if not is_idle or horizon_ms is not None:
            return batch
        body = decompressed_records(header, batch)
        return with_records(header, body, list(stored_records(header, body)), horizon_ms=self._horizon_ms)

    def _is_last_of_producer(self, header: BatchHeader) -> bool:
        last = self._last_batches.get(header.producer_id) if header.producer_id >= 0 else None
        if last is None:
            return False
        if last.last_offset is None:
            return header.is_control and header.producer_epoch == last.producer_epoch
        return header.last_offset == last.last_offset
