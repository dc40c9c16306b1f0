"""The moves of a trace, one request each, and the state that a client learns from the answers."""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import cache
from typing import Any
from uuid import UUID

from ottla.broker.handlers import handler
from ottla.protocol.apis import ApiKey
from ottla.protocol.compression import Codec
from ottla.protocol.records import BatchError, Record, build_batch, parse_header
from tests.differential import calls, txn_calls
from tests.differential.log_calls import BASE_TIME, WHO, metadata, patched, topic
from tests.differential.pairs import Half, Move
from tests.differential.txn_calls import NOBODY, Producer
from tests.differential.wire import Sent
from tests.support.requests import by_topic

Who = tuple[str | None, int, int] | None
"""A producer: its transactional id's name, how many identities ago, and how far its epoch is off; None for nobody."""
Batch = dict[str, Any]


@cache
def versions(key: ApiKey) -> range:
    """The versions that Ottla advertises of an API; of Produce, those that it answers."""
    found = handler(key).versions
    return range(3, found.stop) if key is ApiKey.PRODUCE else found


def own(t: Half, name: str) -> str:
    """ "@a" is a topic or an id of the trace itself."""
    return t.name + name[1:] if name.startswith("@") else name


def producer(t: Half, who: Who) -> Producer:
    if who is None:
        return NOBODY
    name, back, off = who
    known = t.known.get(name and own(t, name), [])
    if not known:
        return NOBODY
    found: Producer = known[-min(back, len(known))]
    return found.at(max(found.epoch + off, 0))


# Groups: as in `calls`


def _leave(t: Half, who: str, version: int, entries: Sequence[tuple[str, str | None]]) -> None:
    calls.leave(t, who, version, *entries)


# Transactions


def _init(t: Half, name: str | None, version: int, expected: Who = None, timeout: int = 60_000) -> None:
    if name is None:
        who = producer(t, expected)
        fields = {"producer_id": who.id, "producer_epoch": who.epoch} if version >= 3 else {}
        t.call(txn_calls.WHO, ApiKey.INIT_PRODUCER_ID, version, transactional_id=None, transaction_timeout_ms=timeout,
               **fields)  # fmt: skip
    else:
        txn_calls.init(t, version, name=own(t, name), timeout=timeout, expected=producer(t, expected))


def _add(t: Half, name: str, who: Who, partitions: dict[str, list[int]], version: int, verify: bool = False) -> None:
    named = {own(t, topic): indexes for topic, indexes in partitions.items()}
    txn_calls.add(t, producer(t, who), named, version, name=own(t, name), verify=verify)


def _add_offsets(t: Half, name: str, who: Who, version: int) -> None:
    txn_calls.add_offsets(t, producer(t, who), version, name=own(t, name))


def _commit_offsets(t: Half, name: str, who: Who, topic: str, offset: int, version: int) -> None:
    txn_calls.commit_offsets(t, producer(t, who), own(t, topic), offset, version, name=own(t, name))


def _end(t: Half, name: str, who: Who, version: int, commit: bool) -> None:
    txn_calls.end(t, producer(t, who), version, commit=commit, name=own(t, name), wait=False)


def _describe_transaction(t: Half, name: str) -> None:
    txn_calls.describe(t, own(t, name))


# Logs


def built(t: Half, batch: Batch, name: str, partition: int) -> bytes | None:
    """The bytes of a batch as data: its records, its producer, and what is wrong with it."""
    if batch.get("is") == "null":
        return None
    if batch.get("is") == "empty":
        return b""
    who = producer(t, batch.get("who"))
    base = int(time.time() * 1000) if batch.get("now") else BASE_TIME + int(batch.get("start", 0))
    key, value = batch.get("key", b"k"), batch.get("value", b"v")
    records = [Record(n, base + n, key, value, batch.get("headers", ())) for n in range(batch.get("count", 1))]
    sequence = -1
    if who != NOBODY:
        sequence = t.sequences.get((who, name, partition), 0) + int(batch.get("sequence", 0))
    data = build_batch(
        records,
        codec=Codec(batch.get("codec", 0)),
        producer_id=who.id,
        producer_epoch=who.epoch,
        base_sequence=max(sequence, -1),
        is_transactional=bool(batch.get("transactional")),
    )
    for at, change, seal in batch.get("patches", ()):
        data = patched(data, at, change, seal=seal)
    return data[: len(data) - batch.get("cut", 0)] + batch.get("tail", b"")


def _rows(t: Half, rows: Sequence[tuple[str, Any]], within: str, name: str = "name") -> list[dict[str, Any]]:
    """Partitions of a request, grouped by topic; ``within`` and ``name`` are the fields of the API."""
    found = by_topic((own(t, named), item) for named, item in rows)
    return [{name: topic, within: items} for topic, items in found.items()]


def _with_ids(t: Half, topics: list[dict[str, Any]], name: str = "name") -> list[dict[str, Any]]:
    return [row | {"topic_id": t.id_of(row[name])} for row in topics]


def _produce(
    t: Half,
    rows: Sequence[tuple[str, int, Batch]],
    version: int,
    acks: int = -1,
    name: str | None = None,
) -> None:
    data = [
        (named, {"index": partition, "records": built(t, batch, own(t, named), partition)})
        for named, partition, batch in rows
    ]
    topics = _with_ids(t, _rows(t, data, "partition_data"))
    t.call(txn_calls.WHO, ApiKey.PRODUCE, version, transactional_id=name and own(t, name), acks=acks, timeout_ms=5000,
           topic_data=topics)  # fmt: skip


def _session(t: Half, wanted: str) -> tuple[int, int]:
    """none, new, mine, late (an epoch too old), early, unknown, wrong (0 with an epoch), close."""
    session, epoch = t.session
    return {
        "none": (0, -1),
        "new": (0, 0),
        "mine": (session, epoch),
        "late": (session, max(epoch - 1, 1)),
        "early": (session, epoch + 1),
        "again": (session, 0),
        "close": (session, -1),
        "unknown": (12_345, 1),
        "wrong": (0, 3),
    }[wanted]


def _read(
    t: Half,
    rows: Sequence[tuple[str, dict[str, int]]],
    version: int,
    max_wait: int = 50,
    min_bytes: int = 1,
    max_bytes: int = 1 << 20,
    isolation: int = 0,
    session: str = "none",
    forgotten: Sequence[tuple[str, int]] = (),
) -> None:
    places = [(named, {"partition_max_bytes": 1 << 20} | fields) for named, fields in rows]
    session_id, session_epoch = _session(t, session) if version >= 7 else (0, -1)
    t.call(
        WHO,
        ApiKey.FETCH,
        version,
        max_wait_ms=max_wait,
        min_bytes=min_bytes,
        max_bytes=max_bytes,
        isolation_level=isolation,
        session_id=session_id,
        session_epoch=session_epoch,
        topics=_with_ids(t, _rows(t, places, "partitions", "topic"), "topic"),
        forgotten_topics_data=_with_ids(t, _rows(t, forgotten, "partitions", "topic"), "topic"),
    )


def _list_offsets(t: Half, rows: Sequence[tuple[str, dict[str, int]]], version: int, isolation: int = 0) -> None:
    late = {"timeout_ms": 1000} if version >= 10 else {}
    t.call(WHO, ApiKey.LIST_OFFSETS, version, replica_id=-1, isolation_level=isolation,
           topics=_rows(t, rows, "partitions"), **late)  # fmt: skip


def _trim(t: Half, rows: Sequence[tuple[str, int, int]], version: int) -> None:
    places = [(named, {"partition_index": partition, "offset": offset}) for named, partition, offset in rows]
    t.call(WHO, ApiKey.DELETE_RECORDS, version, topics=_rows(t, places, "partitions"), timeout_ms=5000)


def _epochs(t: Half, rows: Sequence[tuple[str, dict[str, int]]], version: int) -> None:
    late = {"replica_id": -1} if version >= 3 else {}
    topics = _rows(t, rows, "partitions", "topic")
    t.call(WHO, ApiKey.OFFSET_FOR_LEADER_EPOCH, version, topics=topics, **late)


def _frame(t: Half, data: bytes) -> None:
    t.raw(f"{len(t.transcript)} frame", data)


# Topics


def _create(
    t: Half, rows: Sequence[tuple[str, int, int, dict[str, str | None]]], version: int, only_check: bool
) -> None:
    topics = [topic(own(t, name), count, factor, configs=configs) for name, count, factor, configs in rows]
    t.call(WHO, ApiKey.CREATE_TOPICS, version, topics=topics, timeout_ms=10_000, validate_only=only_check)


def _grow(t: Half, counts: Sequence[tuple[str, int]], version: int, only_check: bool) -> None:
    changes = [{"name": own(t, name), "count": count, "assignments": None} for name, count in counts]
    t.call(WHO, ApiKey.CREATE_PARTITIONS, version, topics=changes, timeout_ms=10_000, validate_only=only_check)


def _delete_topics(t: Half, names: Sequence[str], version: int, by_id: bool) -> None:
    named = [own(t, name) for name in names]
    if version < 6:
        t.call(WHO, ApiKey.DELETE_TOPICS, version, topic_names=named, timeout_ms=10_000)
    else:
        states = [{"name": None, "topic_id": t.id_of(name)} if by_id else {"name": name} for name in named]
        t.call(WHO, ApiKey.DELETE_TOPICS, version, topics=states, timeout_ms=10_000)


def _metadata(t: Half, names: Sequence[str] | None, version: int, by_id: bool, operations: bool) -> None:
    ids = [t.id_of(own(t, name)) for name in names or ()] if by_id else []
    named = [] if by_id else [own(t, name) for name in names or ()]
    metadata(t, version, *named, ids=ids, everything=names is None, operations=operations)


def _configs(t: Half, name: str, keys: list[str] | None, version: int, synonyms: bool) -> None:
    resource = {"resource_type": 2, "resource_name": own(t, name), "configuration_keys": keys}
    t.call(WHO, ApiKey.DESCRIBE_CONFIGS, version, resources=[resource], include_synonyms=synonyms)


def _alter(t: Half, name: str, changes: Sequence[tuple[str, int, str | None]], version: int, only_check: bool) -> None:
    rows = [{"name": key, "config_operation": kind, "value": value} for key, kind, value in changes]
    resource = {"resource_type": 2, "resource_name": own(t, name), "configs": rows}
    t.call(WHO, ApiKey.INCREMENTAL_ALTER_CONFIGS, version, resources=[resource], validate_only=only_check)


def _pages(t: Half, names: Sequence[str], limit: int, cursor: tuple[str, int] | None) -> None:
    at = cursor and {"topic_name": own(t, cursor[0]), "partition_index": cursor[1]}
    t.call(
        WHO,
        ApiKey.DESCRIBE_TOPIC_PARTITIONS,
        0,
        topics=[{"name": own(t, name)} for name in names],
        response_partition_limit=limit,
        cursor=at,
    )


MOVES: dict[str, Any] = {
    "join": calls.join,
    "sync": calls.sync,
    "heartbeat": calls.heartbeat,
    "leave": _leave,
    "commit": calls.commit,
    "commit_alone": calls.commit_alone,
    "offsets": calls.fetch,
    "describe": calls.describe,
    "listed": calls.listed,
    "delete": calls.delete,
    "delete_offsets": calls.delete_offsets,
    "init": _init,
    "add": _add,
    "add_offsets": _add_offsets,
    "commit_offsets": _commit_offsets,
    "end": _end,
    "describe_transaction": _describe_transaction,
    "produce": _produce,
    "read": _read,
    "list_offsets": _list_offsets,
    "trim": _trim,
    "epochs": _epochs,
    "frame": _frame,
    "create": _create,
    "grow": _grow,
    "delete_topics": _delete_topics,
    "metadata": _metadata,
    "configs": _configs,
    "alter": _alter,
    "pages": _pages,
}


def perform(t: Half, step: Move) -> None:
    """Send what a move says."""
    MOVES[step.name](t, **step.fields)


def learn(t: Half, request: Any, answer: Any, sent: Sent) -> None:
    """Keep what a client would keep of an answer."""
    t.last = answer
    match sent.key:
        case ApiKey.INIT_PRODUCER_ID | ApiKey.END_TXN:
            if answer.producer_id >= 0:
                found = Producer(answer.producer_id, answer.producer_epoch)
                t.known.setdefault(request.transactional_id, []).append(found)
        case ApiKey.PRODUCE:
            _learn_sequences(t, request, answer)
        case ApiKey.FETCH if sent.version >= 7 and not answer.error_code:
            if request.session_epoch == 0:
                t.session = (answer.session_id, 1)
            elif request.session_epoch > 0:
                t.session = (request.session_id, request.session_epoch + 1)
        case ApiKey.METADATA:
            for item in answer.topics:
                learn_id(t, item.name, item.topic_id)


def learn_id(t: Half, name: str | None, topic_id: UUID) -> None:
    if name and topic_id.int:
        t.topic_ids[name] = topic_id
        t.names_of_ids[topic_id] = name


def _learn_sequences(t: Half, request: Any, answer: Any) -> None:
    accepted = {
        (item.name or t.names_of_ids.get(item.topic_id), row.index)
        for item in answer.responses
        for row in item.partition_responses
        if not row.error_code
    }
    for item in request.topic_data:
        for row in item.partition_data:
            if (item.name, row.index) in accepted and row.records:
                try:
                    header = parse_header(row.records)
                except BatchError:
                    continue
                who = Producer(header.producer_id, header.producer_epoch)
                t.sequences[who, item.name, row.index] = header.base_sequence + header.record_count
