"""Logs for compaction: random ones, what compaction makes of them, and what a naive model says it should."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field

from ottla.broker.core.cleaning.compaction import AbortedTransaction, KeyScan, LastBatch, Sieve
from ottla.protocol.compression import Codec
from ottla.protocol.control import EndOfTransaction, build_marker
from ottla.protocol.records import Record, TimestampType, check_crc, decode_batch, parse_header
from ottla.protocol.steps import finished
from tests.support.batches import build_batch

EPOCH = 3


@dataclass
class Batch:
    """A batch as the model knows it."""

    base_offset: int
    last_offset: int
    records: list[Record]
    codec: Codec = Codec.NONE
    timestamp_type: TimestampType = TimestampType.CREATE_TIME
    producer_id: int = -1
    producer_epoch: int = -1
    base_sequence: int = -1
    transaction: int | None = None
    marker: bool | None = None
    """True: commits its transaction, False: aborts it."""
    horizon_ms: int | None = None
    encoded: bytes = b""


@dataclass
class Sketch:
    """A log that grows batch by batch, with the transactions in it."""

    batches: list[Batch] = field(default_factory=list)
    next_offset: int = 0
    sequences: dict[int, int] = field(default_factory=dict)
    epochs: dict[int, int] = field(default_factory=dict)
    open: dict[int, int] = field(default_factory=dict)
    """Producer id: number of its transaction."""
    first_offsets: dict[int, int] = field(default_factory=dict)
    outcomes: dict[int, bool] = field(default_factory=dict)
    ends: dict[int, tuple[int, int]] = field(default_factory=dict)
    """Number of an ended transaction: producer id and offset of its marker."""
    known: dict[int, LastBatch] = field(default_factory=dict)
    """The partition's memory of its producers, which compaction leaves alone."""

    def append(
        self,
        records,
        *,
        codec=Codec.NONE,
        timestamp_type=TimestampType.CREATE_TIME,
        producer_id=-1,
        in_transaction=False,
    ):
        """Records are (key, value, timestamp)."""
        base = self.next_offset
        batch = Batch(
            base,
            base + len(records) - 1,
            [
                Record(base + i, at, key, value, [("h", b"%d" % (base + i))])
                for i, (key, value, at) in enumerate(records)
            ],
            codec,
            timestamp_type,
        )
        if producer_id >= 0:
            batch.producer_id = producer_id
            batch.producer_epoch = self.epochs.setdefault(producer_id, 0)
            batch.base_sequence = self.sequences.get(producer_id, 0)
            self.sequences[producer_id] = batch.base_sequence + len(records)
            if in_transaction:
                if producer_id not in self.open:
                    self.open[producer_id] = number = len(self.first_offsets)
                    self.first_offsets[number] = base
                batch.transaction = self.open[producer_id]
        batch.encoded = build_batch(
            batch.records,
            base_offset=base,
            codec=codec,
            producer_id=batch.producer_id,
            producer_epoch=batch.producer_epoch,
            base_sequence=batch.base_sequence,
            timestamp_type=timestamp_type,
            is_transactional=in_transaction,
            leader_epoch=EPOCH,
        )
        if timestamp_type is TimestampType.LOG_APPEND_TIME:
            newest = parse_header(batch.encoded).max_timestamp
            batch.records = [dataclasses.replace(record, timestamp_ms=newest) for record in batch.records]
        self._add(batch)

    def end(self, producer_id, *, commit, timestamp_ms=0, bump=False):
        """End the open transaction of a producer; with ``bump`` its epoch rises and its sequences begin at 0."""
        number = self.open.pop(producer_id)
        if bump:
            self.epochs[producer_id] += 1
            self.sequences[producer_id] = 0
        at = self.next_offset
        encoded = build_marker(
            EndOfTransaction(commit, 5),
            producer_id=producer_id,
            producer_epoch=self.epochs[producer_id],
            timestamp_ms=timestamp_ms,
            base_offset=at,
            leader_epoch=EPOCH,
        )
        batch = Batch(at, at, decode_batch(encoded), producer_id=producer_id, transaction=number, marker=commit)
        batch.producer_epoch = self.epochs[producer_id]
        batch.encoded = encoded
        self.outcomes[number] = commit
        self.ends[number] = producer_id, at
        self._add(batch)

    def _add(self, batch):
        self.batches.append(batch)
        self.next_offset = batch.last_offset + 1
        if batch.producer_id >= 0 and batch.marker is None:
            self.known[batch.producer_id] = LastBatch(batch.producer_epoch, batch.last_offset)
        elif batch.producer_id >= 0 and self.known[batch.producer_id].producer_epoch != batch.producer_epoch:
            self.known[batch.producer_id] = LastBatch(batch.producer_epoch, None)

    @property
    def stable_offset(self):
        return min((self.first_offsets[number] for number in self.open.values()), default=self.next_offset)

    @property
    def aborted(self):
        """All of them, also those whose markers have gone."""
        return [
            AbortedTransaction(self.ends[number][0], self.first_offsets[number], self.ends[number][1])
            for number, commit in self.outcomes.items()
            if not commit
        ]

    def is_visible(self, batch):
        """True if a reader of committed records is shown it, now or once its transaction is committed."""
        return batch.marker is None and self.outcomes.get(batch.transaction, True)


def compact(
    sketch,
    encoded,
    *,
    from_offset,
    upto_offset,
    wall_ms,
    delete_retention_ms,
    last_batches,
    buffer_bytes=1 << 30,
):
    """Compact batches as the cleaner does; (the batches that stay, where compaction got to)."""
    scan = KeyScan(from_offset, sketch.aborted, buffer_bytes)
    dirty = [batch for batch in encoded if from_offset <= parse_header(batch).last_offset < upto_offset]
    for batch in dirty:
        finished(scan.take(parse_header(batch), batch))
        if scan.keys.is_full:
            break
    else:
        scan.keys.latest_offset = upto_offset - 1
    sieve = Sieve(
        scan.keys,
        sketch.aborted,
        last_batches,
        upto_offset=upto_offset,
        delete_retention_ms=delete_retention_ms,
        wall_ms=wall_ms,
    )
    stay = []
    for batch in encoded:
        header = parse_header(batch)
        if header.last_offset >= upto_offset:
            stay.append(batch)
        elif (kept := finished(sieve.sift(header, batch))) is not None:
            stay.append(bytes(kept))
    return stay, scan.keys.latest_offset + 1


def expect(sketch, *, upto_offset, wall_ms, delete_retention_ms, last_batches):
    """The model: change the batches of the sketch below ``upto_offset`` to what is to be left of them."""
    below = [batch for batch in sketch.batches if batch.last_offset < upto_offset]
    latest = {
        record.key: record.offset
        for batch in below
        if sketch.is_visible(batch)
        for record in batch.records
        if record.key is not None
    }
    busy = {batch.transaction for batch in below if batch.marker is None and batch.transaction is not None}
    left = []
    for batch in below:
        due = batch.horizon_ms is not None and batch.horizon_ms <= wall_ms
        last = last_batches.get(batch.producer_id)
        needed = last is not None and (
            last.last_offset == batch.last_offset
            if last.last_offset is not None
            else batch.marker is not None and last.producer_epoch == batch.producer_epoch
        )
        needed = needed or batch.last_offset == upto_offset - 1
        had_records = bool(batch.records)
        if batch.marker is not None:
            if batch.transaction not in busy and had_records:
                if due:
                    batch.records = []
                elif batch.horizon_ms is None:
                    batch.horizon_ms = wall_ms + delete_retention_ms
        elif not sketch.is_visible(batch):
            batch.records = []
        else:
            batch.records = [
                record
                for record in batch.records
                if record.key is not None and latest[record.key] == record.offset and not (due and record.value is None)
            ]
            if batch.horizon_ms is None and any(record.value is None for record in batch.records):
                batch.horizon_ms = wall_ms + delete_retention_ms
        if not batch.records:
            batch.horizon_ms = None
        if batch.records or needed:
            left.append(batch)
    sketch.batches = left + [batch for batch in sketch.batches if batch.last_offset >= upto_offset]


def check(sketch, encoded):
    """The encoded batches are those of the model, field by field, and still tell what comes next of every producer."""
    told = {}
    for header in map(parse_header, encoded):
        if header.producer_id >= 0 and not header.is_control:
            told[header.producer_id] = header.producer_epoch, header.last_sequence + 1
        elif header.producer_id >= 0 and told.get(header.producer_id, (-1, 0))[0] != header.producer_epoch:
            told[header.producer_id] = header.producer_epoch, 0
    assert told == {producer: (epoch, sketch.sequences[producer]) for producer, epoch in sketch.epochs.items()}
    assert [parse_header(batch).base_offset for batch in encoded] == [batch.base_offset for batch in sketch.batches]
    for batch, model in zip(encoded, sketch.batches, strict=True):
        header = parse_header(batch)
        check_crc(header, batch)
        assert header.size == len(batch)
        assert (header.base_offset, header.last_offset) == (model.base_offset, model.last_offset)
        assert header.partition_leader_epoch == EPOCH
        assert (header.producer_id, header.producer_epoch) == (model.producer_id, model.producer_epoch)
        assert header.base_sequence == model.base_sequence
        assert header.is_transactional == (model.transaction is not None)
        assert header.is_control == (model.marker is not None)
        assert header.timestamp_type is model.timestamp_type
        assert header.record_count == len(model.records)
        assert decode_batch(batch) == model.records
        has_horizon = bool(header.attributes & 0x40)
        assert has_horizon == (model.horizon_ms is not None)
        if has_horizon:
            assert header.base_timestamp == model.horizon_ms
        if model.records:
            assert header.codec is model.codec
            assert header.max_timestamp == max(record.timestamp_ms for record in model.records)
