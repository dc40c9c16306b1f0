"""Logs for tests, and what the reference for single records makes of them."""

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

from ottla.protocol import consumer_group_records as wire
from ottla.protocol.batch_filter import stored_records, with_records, without_records
from ottla.protocol.compression import Codec
from ottla.protocol.errors import MalformedFrame
from ottla.protocol.offsets_topic import (
    GroupKey,
    GroupMemberValue,
    GroupValue,
    OffsetKey,
    OffsetValue,
    decode_key,
    decode_value,
    encode_offset_value,
    offset_key,
)
from ottla.protocol.records import (
    EndOfTransaction,
    Record,
    TimestampType,
    build_marker,
    decode_batch,
    decompressed_records,
    iter_batches,
    parse_header,
)
from tests.support.batches import build_batch

TIME = 1_700_000_000_000
CODECS = tuple(Codec)
CLASSIC_VALUES: dict[type[Any], Any] = {OffsetKey: OffsetValue, GroupKey: GroupValue}


def records(count: int, *, start: int = 0, size: int = 0) -> list[Record]:
    """Distinct plain records."""
    return [
        Record(key=b"k%d" % i, value=b"v%d" % i + bytes(size), timestamp_ms=TIME + i)
        for i in range(start, start + count)
    ]


def commit(
    group: str = "g", topic: str = "t", partition: int = 0, offset: int = 7, version: int = 3, **more: Any
) -> Record:
    """A committed offset."""
    value = OffsetValue(**({"offset": offset, "leader_epoch": 2, "metadata": "", "commit_timestamp": TIME} | more))
    return Record(key=offset_key(group, topic, partition), value=encode_offset_value(value, version), timestamp_ms=TIME)


def member(name: str = "m", **more: Any) -> GroupMemberValue:
    """A member without metadata and assignment."""
    fields = {"member_id": name, "client_id": "c", "client_host": "/127.0.0.1", "session_timeout": 10_000} | more
    return GroupMemberValue(**({"rebalance_timeout": 60_000} | fields))


def generation(**more: Any) -> GroupValue:
    """A generation of a consumer group."""
    fields = {"protocol_type": "consumer", "generation": 3, "protocol": "range", "leader": "m"}
    return GroupValue(**(fields | {"current_state_timestamp": TIME} | more))


def compacted(batch: bytes, kept: Iterable[int]) -> bytes:
    """A batch of which the cleaner has kept the records at some positions."""
    header = parse_header(batch)
    body = decompressed_records(header, batch)
    found = list(stored_records(header, body))
    chosen = [found[index] for index in kept]
    return with_records(header, body, chosen, horizon_ms=None) if chosen else without_records(header)


def marker(producer_id: int, offset: int, *, commit: bool) -> bytes:
    """The end of a transaction."""
    end = EndOfTransaction(commit, 0)
    return build_marker(end, producer_id=producer_id, producer_epoch=0, timestamp_ms=TIME, base_offset=offset)


def transactional(producer_id: int, offset: int, count: int = 1) -> bytes:
    """A batch within a transaction."""
    return build_batch(
        records(count, start=offset),
        base_offset=offset,
        producer_id=producer_id,
        producer_epoch=0,
        is_transactional=True,
    )


def plain(log: bytes, start: int = 0, end: int | None = None) -> list[tuple[Any, ...]]:
    """What `chunk_rows` has to give, by the reference: no transactions, no damage."""
    found = []
    for header, batch in iter_batches(log):
        if header.is_control:
            continue
        append_time = header.timestamp_type is TimestampType.LOG_APPEND_TIME
        for one in decode_batch(batch):
            if one.offset >= start and (end is None or one.offset < end):
                found.append((one.offset, one.timestamp_ms, append_time, one.key, one.value, list(one.headers)))
    return found


def chunk_rows(chunk: Any) -> list[tuple[Any, ...]]:
    """The records of a chunk one by one."""
    headers = _headers(chunk)
    return [
        (
            int(chunk.offsets[i]),
            int(chunk.timestamps[i]),
            bool(chunk.append_time[i]),
            chunk.key(i),
            chunk.value(i),
            headers[i],
        )
        for i in range(len(chunk))
    ]


def _headers(chunk: Any) -> list[list[tuple[str, bytes | None]]]:
    if chunk.headers is None:
        return [[]] * len(chunk)
    counts, *places = (part.tolist() for part in chunk.headers)
    pairs = iter(zip(*places, strict=True))

    def field(at: int, size: int) -> bytes | None:
        return None if size < 0 else chunk.data[at : at + size].tobytes()

    return [
        [((field(a, b) or b"").decode(), field(c, d)) for a, b, c, d in (next(pairs) for _ in range(count))]
        for count in counts
    ]


def _whole(decode: Any, data: bytes) -> Any:
    """What ``data`` say if they say nothing besides: without their last byte they say nothing at all."""
    decoded = decode(data)
    try:
        decode(data[:-1])
    except MalformedFrame:
        return decoded
    raise MalformedFrame("bytes behind it")


def reference(one: Record) -> tuple[Any, Any] | None:
    """The key and the value of a record that a table takes; None where it belongs in quarantine."""
    for decode_any_key, values in ((decode_key, CLASSIC_VALUES), (wire.decode_consumer_group_key, wire.VALUES)):
        try:
            if (key := _whole(decode_any_key, one.key or b"")) is None:
                continue
            return key, None if one.value is None else _whole(partial(decode_value, values[type(key)]), one.value)
        except MalformedFrame:
            continue
    return None


def commit_row(one: Record, key: OffsetKey, value: OffsetValue | None) -> dict[str, Any]:
    """A row of ``offset_commits`` by the reference, with times as milliseconds and without its place in the log."""
    row = {"key_version": (one.key or b"")[1], "group_id": key.group_id, "topic": key.topic, "partition": key.partition}
    if value is None:
        names = ("committed_offset", "leader_epoch", "metadata", "commit_ts", "expire_ts", "value_version")
        return row | dict.fromkeys(names) | {"is_tombstone": True}
    return row | {
        "committed_offset": value.offset,
        "leader_epoch": value.leader_epoch,
        "metadata": value.metadata,
        "commit_ts": ms_or_none(value.commit_timestamp),
        "expire_ts": ms_or_none(value.expire_timestamp),
        "value_version": (one.value or b"")[1],
        "is_tombstone": False,
    }


def ms_or_none(ms: int) -> int | None:
    """A time that tables can hold; -1 is none."""
    return ms if -62_135_596_800_000 <= ms <= 253_402_300_799_999 and ms != -1 else None


def rows_in_ms(batch: Any) -> list[dict[str, Any]]:
    """The rows of a batch, with times as milliseconds."""
    import pyarrow as pa

    parts = {}
    for field, column in zip(batch.schema, batch.columns, strict=True):
        if pa.types.is_timestamp(field.type):
            column = pa.array([None if us is None else us // 1000 for us in column.cast(pa.int64()).to_pylist()])
        parts[field.name] = column.to_pylist()
    return [dict(zip(parts, values, strict=True)) for values in zip(*parts.values(), strict=True)]


def log_of(groups: Sequence[Sequence[Record]], **options: Any) -> bytes:
    """Batches one behind the other, with consecutive offsets from 0."""
    batches, offset = [], 0
    for some in groups:
        batches.append(build_batch(some, base_offset=offset, **options))
        offset += len(some)
    return b"".join(batches)
