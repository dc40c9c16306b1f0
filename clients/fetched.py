"""The batches that a fetch brought for one partition, opened as the user asks for records. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from ottla.clients.errors import KafkaError, RecordCorrupt, RecordNotReadable
from ottla.clients.structs import ConsumerRecord
from ottla.clients.subscription import PartitionState
from ottla.protocol.compression import MAX_DECOMPRESSED_BYTES
from ottla.protocol.errors import ErrorCode
from ottla.protocol.records import (
    BatchError,
    BatchHeader,
    BatchTooLarge,
    Record,
    TimestampType,
    check_crc,
    iter_batches,
    iter_records,
)

Deserializer = Callable[[bytes], Any] | None
ABORT_MARKER = 0
MADE_AT_ONCE = 10_000
"""Larger batches are not looked at as a whole before their first records are given out."""
_CONTROL_KEY_SIZE = 4


class FetchedPartition:
    """The batches of one partition, from ``offset`` on.

    Args:
        state: the partition. The batches are of use only while its position is where they begin.
        data: record batches; the first may begin before ``offset``, the last may be cut off.
        aborted: producer id and first offset of aborted transactions, None to give out everything (read_uncommitted).
        check_crcs: check every batch.
        max_decompressed_bytes: the largest size of a decompressed batch.
    """

    def __init__(
        self,
        state: PartitionState,
        data: bytes | memoryview,
        *,
        aborted: Iterable[tuple[int, int]] | None = None,
        check_crcs: bool = True,
        max_decompressed_bytes: int = MAX_DECOMPRESSED_BYTES,
    ) -> None:
        assert state.position is not None
        self.state = state
        self.next_offset = self._begin = state.position
        self.epoch = state.position_epoch
        self._seeks = state.seeks
        self._size = len(data)
        self._batches: Iterator[tuple[BatchHeader, memoryview]] = iter_batches(data)
        self._header: BatchHeader | None = None
        self._records: Iterator[Record] = iter(())
        self._record: Record | None = None
        self._max_decompressed_bytes = max_decompressed_bytes
        self._damage: RecordCorrupt | None = None
        self._check_crcs = check_crcs
        self._read_committed = aborted is not None
        self._aborted = sorted(aborted or (), key=lambda pair: pair[1], reverse=True)
        self._aborting: set[int] = set()

    @property
    def current(self) -> bool:
        """The consumer still stands where this goes on."""
        return self.state.seeks == self._seeks and self.state.position == self.next_offset

    def take(
        self, limit: int, key_of: Deserializer, value_of: Deserializer
    ) -> tuple[list[ConsumerRecord[Any, Any]], bool]:
        """Up to ``limit`` records, and whether this is used up.

        Moves ``next_offset`` and ``epoch`` behind what was taken, and behind what is not for the user's eyes.

        Raises:
            RecordCorrupt, RecordNotReadable: the first record that would be taken cannot be; nothing was moved past it,
                and every further call raises the same.
        """
        taken: list[ConsumerRecord[Any, Any]] = []
        while len(taken) < limit:
            try:
                record = self._next_record()
            except KafkaError:
                if taken:
                    break  # these first; the next call raises
                raise
            if record is None:
                return taken, True
            if record.offset >= self.next_offset:
                try:
                    taken.append(self._made(record, key_of, value_of))
                except RecordNotReadable:
                    if taken:
                        break
                    raise
                self.next_offset = record.offset + 1
            self._record = None
        return taken, False

    def _next_record(self) -> Record | None:
        """The next record, the same one until it is taken; None if there is none."""
        while self._record is None:
            if self._damage is not None:
                # What follows damage is not given out: that would be passing over records in silence.
                raise self._damage.with_traceback(None)
            try:
                self._record = next(self._records, None)
            except BatchError as error:
                assert self._header is not None
                raise self._damaged(error, self._header) from None
            if self._record is None and not self._open_next():
                return None
        return self._record

    def _damaged(self, error: BatchError, header: BatchHeader | None) -> RecordCorrupt:
        reason = str(error)
        if isinstance(error, BatchTooLarge):
            reason = f"{reason}; raise max_decompressed_batch_bytes, which is {self._max_decompressed_bytes}"
        behind = None if header is None else header.last_offset + 1
        self._damage = RecordCorrupt(self.state.tp, self.next_offset, reason, behind)
        self._header, self._records = None, iter(())
        return self._damage

    def _opened(self, header: BatchHeader, batch: memoryview) -> Iterator[Record]:
        """A batch's records. Those of a large one are made as they are taken: the user may want few at a time."""
        records = iter_records(batch, verify_crc=self._check_crcs, max_decompressed_bytes=self._max_decompressed_bytes)
        return records if header.record_count > MADE_AT_ONCE else iter(list(records))

    def _made(self, record: Record, key_of: Deserializer, value_of: Deserializer) -> ConsumerRecord[Any, Any]:
        key: Any = record.key
        value: Any = record.value
        what = "key_deserializer"
        try:
            if key_of is not None and key is not None:
                key = key_of(key)
            what = "value_deserializer"
            if value_of is not None and value is not None:
                value = value_of(value)
        except Exception as error:
            raise RecordNotReadable(self.state.tp, record.offset, what, error) from error
        tp, header = self.state.tp, self._header
        kind = TimestampType.CREATE_TIME if header is None else header.timestamp_type
        return ConsumerRecord(
            tp.topic, tp.partition, record.offset, record.timestamp_ms, kind, key, value, record.headers, self.epoch
        )

    def _open_next(self) -> bool:
        """Open the next batch with something to give out. False: there is none."""
        header: BatchHeader | None = None
        try:
            while True:
                header = None
                if self._header is not None:
                    # A batch's end counts even when its last records are gone (compaction) or not for the user.
                    self.next_offset = max(self.next_offset, self._header.last_offset + 1)
                    # Its epoch counts as well: that of an earlier batch may have ended before this offset.
                    self.epoch = self._header.partition_leader_epoch
                    self._header, self._records = None, iter(())
                following = next(self._batches, None)
                if following is None:
                    return False
                header, batch = following
                if header.last_offset < self.next_offset:
                    continue
                self._header = header
                if self._visible(header, batch):
                    self._records = self._opened(header, batch)
                    self.epoch = header.partition_leader_epoch
                    return True
                if self._check_crcs:
                    check_crc(header, batch)  # damage may be why it looks like one that is not for the user
        except BatchError as error:
            raise self._damaged(error, header) from None

    def _visible(self, header: BatchHeader, batch: memoryview) -> bool:
        """Tell whether the batch's records are for the user: control records and aborted ones are not."""
        if self._read_committed:
            while self._aborted and self._aborted[-1][1] <= header.last_offset:
                self._aborting.add(self._aborted.pop()[0])
            if header.is_control and header.producer_id in self._aborting:
                marker = next(self._opened(header, batch), None)
                if marker is not None and _marker_type(marker.key) == ABORT_MARKER:
                    self._aborting.discard(header.producer_id)
        if header.is_control:
            return False
        return not (header.is_transactional and header.producer_id in self._aborting)

    def check_progress(self) -> None:
        """Raise if a fetch brought only part of a batch, which would be fetched again for ever.

        Raises:
            KafkaError: it did.
        """
        if self._size and self.next_offset == self._begin:
            tp = self.state.tp
            raise KafkaError(
                f"{tp.topic}-{tp.partition}: the batch at offset {self.next_offset} does not fit into a fetch; "
                "raise max_partition_fetch_bytes and fetch_max_bytes",
                ErrorCode.MESSAGE_TOO_LARGE,
            )


def _marker_type(key: bytes | None) -> int:
    """The type in a control record's key: version and type, two bytes each."""
    if key is None or len(key) < _CONTROL_KEY_SIZE:
        return -1
    return int.from_bytes(key[2:4], "big", signed=True)
