"""The moves of a trace, one request each, and the state that a client learns from the answers."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from functools import cache, partial
from random import Random
from typing import Any
from uuid import UUID

from ottla.broker.handlers import handler
from ottla.protocol.apis import ApiKey
from ottla.protocol.compression import Codec
from ottla.protocol.records import BatchError, Record, parse_header
from tests.differential import calls, consumer_calls, log_calls, permission_calls, txn_calls
from tests.differential.log_calls import BASE_TIME, OF_TOPIC, WHO, metadata, patched, topic
from tests.differential.pairs import Half, Move
from tests.differential.talks import Talk
from tests.differential.txn_calls import NOBODY, Producer
from tests.differential.wire import Sent
from tests.support.batches import build_batch
from tests.support.requests import by_topic, init_producer_fields

Who = tuple[str | None, int, int] | None
"""A producer: its transactional id's name, how many identities ago, and how far its epoch is off; None for nobody."""
Batch = dict[str, Any]


@cache
def versions(key: ApiKey) -> range:
    """The versions that Ottla advertises of an API; of Produce, those that it answers."""
    found = handler(key).versions
    return range(3, found.stop) if key is ApiKey.PRODUCE else found


def some_version(r: Random, key: ApiKey, least: int = 0) -> int:
    return r.choice([version for version in versions(key) if version >= least])


def own(t: Half, value: Any) -> Any:
    """ "@a", wherever it stands, is a topic or an id of the trace itself, "~a" one of its users, "%1" an address of its
    own from which they come.
    """
    match value:
        case str():
            own_by = {"@": t.name, "~": f"s{t.slot}", "User:~": f"User:s{t.slot}", "%": f"127.1.{t.slot}."}
            sign = next(filter(value.startswith, own_by), "")
            return own_by.get(sign, "") + value.removeprefix(sign)
        case dict():
            return {own(t, key): own(t, item) for key, item in value.items()}
        case list() | tuple():
            return type(value)([own(t, item) for item in value])
    return value


def producer(t: Half, who: Who) -> Producer:
    if who is None:
        return NOBODY
    name, back, off = who
    known = t.known.get(name, [])
    if not known:
        return NOBODY
    found: Producer = known[-min(back, len(known))]
    return found.at(max(found.epoch + off, 0))


# Transactions


def _of(verb: Callable[..., Any]) -> Callable[..., None]:
    """A verb of `txn_calls` for whoever the producer of a move is now."""

    def ask(t: Half, who: Who, **fields: Any) -> None:
        verb(t, producer(t, who), **fields)

    return ask


def _commit_offsets_of(
    t: Half, who: Who, *, of: str, epoch: int | str | None, member: str, instance: str | None, **fields: Any
) -> None:
    """Offsets of a transaction, in the name of a member of the group."""
    named = {"member_id": calls.member_id(t, of, member), "generation_id": calls.generation_id(t, of, epoch)}
    txn_calls.commit_offsets(t, producer(t, who), group_instance_id=instance, **named, **fields)


def _init(t: Half, name: str | None, version: int, expected: Who = None) -> None:
    fields = init_producer_fields(name, expected=producer(t, expected))
    t.call(txn_calls.WHO, ApiKey.INIT_PRODUCER_ID, version, **fields)


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


def _rows(rows: Iterable[tuple[str, Any]], within: str, name: str = "name") -> list[dict[str, Any]]:
    """Partitions of a request, grouped by topic; ``within`` and ``name`` are the fields of the API."""
    return [{name: topic, within: items} for topic, items in by_topic(rows).items()]


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
        (named, {"index": partition, "records": built(t, batch, named, partition)}) for named, partition, batch in rows
    ]
    topics = _with_ids(t, _rows(data, "partition_data"))
    t.call(txn_calls.WHO, ApiKey.PRODUCE, version, transactional_id=name, acks=acks, timeout_ms=5000,
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
        topics=_with_ids(t, _rows(places, "partitions", "topic"), "topic"),
        forgotten_topics_data=_with_ids(t, _rows(forgotten, "partitions", "topic"), "topic"),
    )


def _list_offsets(t: Half, rows: Sequence[tuple[str, dict[str, int]]], version: int, isolation: int = 0) -> None:
    fields = {"replica_id": -1, "isolation_level": isolation, "timeout_ms": 1000}
    t.call(WHO, ApiKey.LIST_OFFSETS, version, topics=_rows(rows, "partitions"), **fields)


def _trim(t: Half, rows: Sequence[tuple[str, int, int]], version: int) -> None:
    places = [(named, {"partition_index": partition, "offset": offset}) for named, partition, offset in rows]
    t.call(WHO, ApiKey.DELETE_RECORDS, version, topics=_rows(places, "partitions"), timeout_ms=5000)


def _epochs(t: Half, rows: Sequence[tuple[str, dict[str, int]]], version: int) -> None:
    topics = _rows(rows, "partitions", "topic")
    t.call(WHO, ApiKey.OFFSET_FOR_LEADER_EPOCH, version, replica_id=-1, topics=topics)


# Topics


def _create(
    t: Half, rows: Sequence[tuple[str, int, int, dict[str, str | None]]], version: int, only_check: bool
) -> None:
    topics = [topic(name, count, factor, configs=configs) for name, count, factor, configs in rows]
    t.call(WHO, ApiKey.CREATE_TOPICS, version, topics=topics, timeout_ms=10_000, validate_only=only_check)


def _grow(t: Half, counts: Sequence[tuple[str, int]], **options: Any) -> None:
    log_calls.grow(t, *(log_calls.change(name, count) for name, count in counts), **options)


def _delete_topics(t: Half, names: Sequence[str], version: int, by_id: bool) -> None:
    if version < 6:
        log_calls.delete(t, *names, version=version)
    else:
        states = [{"name": None, "topic_id": t.id_of(name)} if by_id else {"name": name} for name in names]
        t.call(WHO, ApiKey.DELETE_TOPICS, version, topics=states, timeout_ms=10_000)


def _metadata(t: Half, names: Sequence[str] | None, version: int, by_id: bool, operations: bool) -> None:
    ids = [t.id_of(name) for name in names or ()] if by_id else []
    named = () if by_id else names or ()
    metadata(t, version, *named, ids=ids, everything=names is None, operations=operations)


# Users


def _dial(t: Half) -> None:
    t.talk = Talk(t, t.dial())
    t.note("dial", None)


def _say(t: Half, label: str, what: Any) -> None:
    if not t.talk.wire.closed:
        t.talk.say(what)


# A move has a list where a verb takes several arguments.
MOVES: dict[str, Any] = {
    "join": calls.join,
    "sync": calls.sync,
    "heartbeat": calls.heartbeat,
    "leave": lambda t, who, version, entries: calls.leave(t, who, version, *entries),
    "commit": calls.commit,
    "commit_alone": calls.commit_alone,
    "offsets": calls.fetch,
    "describe": calls.describe,
    "listed": calls.listed,
    "delete": calls.delete,
    "delete_offsets": calls.delete_offsets,
    "init": _init,
    "add": _of(txn_calls.add),
    "add_offsets": _of(txn_calls.add_offsets),
    "commit_offsets": _of(txn_calls.commit_offsets),
    "commit_offsets_of": _commit_offsets_of,
    "beat": consumer_calls.beat,
    "classic_join": consumer_calls.classic_join,
    "classic_sync": consumer_calls.classic_sync,
    "describe_consumers": lambda t, groups, **options: consumer_calls.describe_consumers(
        t, options.pop("version"), *groups, **options
    ),
    "end": _of(partial(txn_calls.end, wait=False)),
    "describe_transaction": lambda t, name: txn_calls.describe(t, name),
    "produce": _produce,
    "read": _read,
    "list_offsets": _list_offsets,
    "trim": _trim,
    "epochs": _epochs,
    "frame": lambda t, data: t.raw(f"{len(t.transcript)} frame", data),
    "dial": _dial,
    "say": _say,
    "asked": permission_calls.asked,
    "allow": permission_calls.allow,
    "take_back": permission_calls.take_back,
    "create": _create,
    "grow": _grow,
    "delete_topics": _delete_topics,
    "metadata": _metadata,
    "configs": lambda t, synonyms, **options: log_calls.configs(t, OF_TOPIC, include_synonyms=synonyms, **options),
    "alter": lambda t, name, changes, kind=OF_TOPIC, **options: log_calls.alter(t, kind, name, *changes, **options),
    "pages": lambda t, names, **options: log_calls.pages(t, *names, **options),
}


def perform(t: Half, step: Move) -> None:
    """Send what a move says."""
    MOVES[step.name](t, **own(t, step.fields))


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
