"""What a fetch brought for one partition, opened batch by batch as the user asks for records. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from ottla.clients.errors import KafkaError, RecordCorrupt, RecordNotReadable
from ottla.clients.structs import ConsumerRecord
from ottla.clients.subscription import PartitionState
from ottla.protocol.errors import ErrorCode
from ottla.protocol.records import (
    BatchError,
    BatchHeader,
    Record,
    TimestampType,
    TopicPartition,
    check_crc,
    decode_batch,
    iter_batches,
)

Deserializer = Callable[[bytes], Any] | None
ABORT_MARKER = 0
_CONTROL_KEY_SIZE = 4


class FetchedPartition:
    """The batches of one partition, from ``offset`` on.

    Args:
        state: the partition; what was fetched is worth something only while it stands where this begins.
        data: record batches; the first may begin before ``offset``, the last may be cut off.
        aborted: producer id and first offset of aborted transactions, None to give out everything (read_uncommitted).
        check_crcs: check every batch.
    """

    def __init__(
        self,
        state: PartitionState,
        data: bytes | memoryview,
        *,
        aborted: Iterable[tuple[int, int]] | None = None,
        check_crcs: bool = True,
    ) -> None:
        assert state.position is not None
        self.state = state
        self.next_offset = self._begin = state.position
        self.epoch = state.position_epoch
        self._seeks = state.seeks
        self._size = len(data)
        self._batches: Iterator[tuple[BatchHeader, memoryview]] = iter_batches(data)
        self._header: BatchHeader | None = None
        self._records: list[Record] = []
        self._index = 0
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
        tp = self.state.tp
        while len(taken) < limit:
            if self._index >= len(self._records):
                try:
                    more = self._open_next(tp)
                except KafkaError:
                    if taken:
                        break  # these first; the next call raises
                    raise
                if not more:
                    return taken, True
                continue
            record = self._records[self._index]
            if record.offset >= self.next_offset:
                try:
                    taken.append(self._made(tp, record, key_of, value_of))
                except RecordNotReadable:
                    if taken:
                        break
                    raise
                self.next_offset = record.offset + 1
            self._index += 1
        return taken, False

    def _made(
        self, tp: TopicPartition, record: Record, key_of: Deserializer, value_of: Deserializer
    ) -> ConsumerRecord[Any, Any]:
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
            raise RecordNotReadable(tp, record.offset, what, error) from error
        header = self._header
        kind = TimestampType.CREATE_TIME if header is None else header.timestamp_type
        return ConsumerRecord(
            tp.topic, tp.partition, record.offset, record.timestamp_ms, kind, key, value, record.headers, self.epoch
        )

    def _open_next(self, tp: TopicPartition) -> bool:
        """Open the next batch with something to give out. False: there is none."""
        if self._damage is not None:
            # What follows a damaged batch is not given out: that would be passing over its records in silence.
            raise self._damage.with_traceback(None)
        header: BatchHeader | None = None
        try:
            while True:
                header = None
                if self._header is not None:
                    # A batch's end counts even when its last records are gone (compaction) or not for the user.
                    self.next_offset = max(self.next_offset, self._header.last_offset + 1)
                    # Its epoch counts as well: that of an earlier batch may have ended before this offset.
                    self.epoch = self._header.partition_leader_epoch
                    self._header, self._records, self._index = None, [], 0
                following = next(self._batches, None)
                if following is None:
                    return False
                header, batch = following
                if header.last_offset < self.next_offset:
                    continue
                self._header = header
                if self._visible(header, batch):
                    self._records = decode_batch(batch, verify_crc=self._check_crcs)
                    self.epoch = header.partition_leader_epoch
                    return True
                if self._check_crcs:
                    check_crc(header, batch)  # damage may be why it looks like one that is not for the user
        except BatchError as error:
            self._header = None
            behind = None if header is None else header.last_offset + 1
            self._damage = RecordCorrupt(tp, self.next_offset, str(error), behind)
            raise self._damage from None

    def _visible(self, header: BatchHeader, batch: memoryview) -> bool:
        """Whether the batch's records are for the user: not control records, nor those of aborted transactions."""
        if self._read_committed:
            while self._aborted and self._aborted[-1][1] <= header.last_offset:
                self._aborting.add(self._aborted.pop()[0])
            if header.is_control and header.producer_id in self._aborting:
                records = decode_batch(batch, verify_crc=self._check_crcs)
                if records and _marker_type(records[0].key) == ABORT_MARKER:
                    self._aborting.discard(header.producer_id)
        if header.is_control:
            return False
        return not (header.is_transactional and header.producer_id in self._aborting)

    def check_progress(self) -> None:
        """Complain of a fetch that brought part of a batch only, which would be fetched again for ever.

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
