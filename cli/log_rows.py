"""Batches and records of segments as lines for people and as JSON for programs."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Any

from ottla.cli.internal_records import described, in_words
from ottla.cli.output import json_text, when
from ottla.cli.segments import StoredBatch, Unreadable
from ottla.observe.printable import printable
from ottla.protocol.batch import BatchError, Record
from ottla.protocol.batch_reader import iter_records
from ottla.protocol.internal_topics import OFFSETS_TOPIC, TRANSACTIONS_TOPIC

INTERNAL = (OFFSETS_TOPIC, TRANSACTIONS_TOPIC)

# The types of control records, as Kafka names them (KIP-98, KIP-630, KIP-853).
_CONTROL = ("ABORT", "COMMIT", "LEADER_CHANGE", "SNAPSHOT_HEADER", "SNAPSHOT_FOOTER", "KRAFT_VERSION", "KRAFT_VOTERS")


def records_of(batch: StoredBatch) -> Iterator[Record]:
    """The records of a batch, made as they are taken. Raises `Unreadable`."""
    try:
        yield from iter_records(batch.data, verify_crc=False)
    except BatchError as error:
        raise Unreadable(batch.position, str(error)) from None


def control_type(record: Record) -> str:
    """``COMMIT``, ``ABORT``…: what a control record says."""
    key = record.key or b""
    kind = int.from_bytes(key[2:4], "big", signed=True) if len(key) >= 4 else -1
    return _CONTROL[kind] if 0 <= kind < len(_CONTROL) else f"control {kind}"


def codec_name(batch: StoredBatch) -> str:
    """``none``, ``gzip``…; a number that means nothing stays one."""
    try:
        return batch.header.codec.name.lower()
    except BatchError:
        return str(batch.header.attributes & 7)


# -- JSON


def batch_json(batch: StoredBatch) -> dict[str, Any]:
    """The header of a batch."""
    header = batch.header
    return {
        "position": batch.position,
        "bytes": header.size,
        "base_offset": header.base_offset,
        "last_offset": header.last_offset,
        "record_count": header.record_count,
        "leader_epoch": header.partition_leader_epoch,
        "codec": codec_name(batch),
        "timestamp_type": header.timestamp_type.name,
        "base_timestamp": header.base_timestamp,
        "max_timestamp": header.max_timestamp,
        "producer_id": header.producer_id,
        "producer_epoch": header.producer_epoch,
        "base_sequence": header.base_sequence,
        "is_transactional": header.is_transactional,
        "is_control": header.is_control,
        "crc": header.crc,
    }


def record_json(record: Record, batch: StoredBatch, decode_as: str | None) -> dict[str, Any]:
    """A record; with its meaning under ``decoded`` if it is of the internal topic ``decode_as``."""
    row: dict[str, Any] = {"offset": record.offset, "timestamp": record.timestamp_ms}
    if batch.header.is_control:
        return row | {"control": control_type(record)}
    if decode_as is not None:
        return row | {"decoded": described(decode_as, record.key, record.value)}
    row |= bytes_json("key", record.key) | bytes_json("value", record.value)
    row["headers"] = [{"name": name, **bytes_json("value", value)} for name, value in record.headers]
    return row


def bytes_json(name: str, data: bytes | None) -> dict[str, str | None]:
    """Text as it is; what is no UTF-8 in base64, under a name that says so."""
    if data is None:
        return {name: None}
    try:
        return {name: data.decode()}
    except UnicodeDecodeError:
        return {f"{name}_base64": base64.b64encode(data).decode()}


# -- lines

BATCH_HEADING = (
    f"{'OFFSETS':<21}  {'RECORDS':>7}  {'BYTES':>9}  {'POSITION':>11}  {'NEWEST':<24}  {'CODEC':<6}  "
    f"{'EPOCH':>5}  PRODUCER"
)


def batch_line(batch: StoredBatch) -> str:
    """A batch under `BATCH_HEADING`."""
    header = batch.header
    offsets = f"{header.base_offset}–{header.last_offset}" if header.last_offset_delta else str(header.base_offset)
    words = [] if header.producer_id < 0 else [f"{header.producer_id}/{header.producer_epoch}"]
    if header.base_sequence >= 0:
        words.append(f"sequence {header.base_sequence}")
    if header.is_control:
        words.append("control")
    elif header.is_transactional:
        words.append("transactional")
    return (
        f"{offsets:<21}  {header.record_count:>7}  {header.size:>9}  {batch.position:>11}  "
        f"{when(header.max_timestamp):<24}  {codec_name(batch):<6}  {header.partition_leader_epoch:>5}  "
        f"{' '.join(words) or '-'}"
    ).rstrip()


def record_line(record: Record, batch: StoredBatch, decode_as: str | None) -> str:
    """A record; in words if it is of the internal topic ``decode_as``."""
    start = f"{record.offset}  {when(record.timestamp_ms)}"
    if batch.header.is_control:
        return f"{start}  {control_type(record)} of producer {batch.header.producer_id}"
    if decode_as is not None:
        return f"{start}  {in_words(described(decode_as, record.key, record.value))}"
    words = [f"key {_quoted(record.key)}", f"value {_quoted(record.value)}"]
    words += [f"header {printable(name)}={_quoted(value)}" for name, value in record.headers]
    return f"{start}  {'  '.join(words)}"


def _quoted(data: bytes | None) -> str:
    if data is None:
        return "null"
    try:
        return json_text(data.decode())
    except UnicodeDecodeError:
        return f"base64:{base64.b64encode(data).decode()}"
