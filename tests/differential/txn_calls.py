"""Transactions in few words, for traces. The transactional id is the trace's name unless told otherwise."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ottla.protocol.apis import ApiKey
from ottla.protocol.groups import coordinator_partition
from ottla.protocol.offsets_topic import decode_value
from ottla.protocol.records import Record, decode_batch, iter_batches
from ottla.protocol.transaction_log import TransactionLogValue, decode_transaction_key
from tests.differential.log_calls import until
from tests.differential.tracing import Trace
from tests.differential.wire import plain
from tests.support.batches import build_batch
from tests.support.requests import add_partitions_fields, fetch_fields, init_producer_fields, of_transaction

WHO = "producer"
TRANSACTIONS_TOPIC = "__transaction_state"
TRANSACTION_PARTITIONS = 16


class Producer(NamedTuple):
    """The identity that a producer was given."""

    id: int
    epoch: int

    def at(self, epoch: int) -> Producer:
        return Producer(self.id, epoch)


NOBODY = Producer(-1, -1)


def init(t: Trace, version: int = 5, *, name: str | None = None, timeout: int = 60_000,
         expected: Producer = NOBODY) -> Producer:  # fmt: skip
    fields = init_producer_fields(t.name if name is None else name, timeout_ms=timeout, expected=expected)
    answer = t.call(WHO, ApiKey.INIT_PRODUCER_ID, version, **fields)
    return Producer(answer.producer_id, answer.producer_epoch) if answer else NOBODY


Partitions = Mapping[str, Sequence[int]]


def _of(t: Trace, who: Producer, name: str | None) -> dict[str, Any]:
    """The fields that say who asks, and for which transaction."""
    return of_transaction(t.name if name is None else name, who)


def add(t: Trace, who: Producer, partitions: Partitions, version: int = 3, *, name: str | None = None,
        verify: bool = False) -> Any:  # fmt: skip
    places = [(topic, index) for topic, indexes in partitions.items() for index in indexes]
    fields = add_partitions_fields(_of(t, who, name), places, verify_only=verify)
    return t.call(WHO, ApiKey.ADD_PARTITIONS_TO_TXN, version, **fields)


def add_offsets(t: Trace, who: Producer, version: int = 4, *, name: str | None = None,
                group: str | None = None) -> Any:  # fmt: skip
    group_id = t.name if group is None else group
    return t.call(WHO, ApiKey.ADD_OFFSETS_TO_TXN, version, group_id=group_id, **_of(t, who, name))


def commit_offsets(t: Trace, who: Producer, topic: str, offset: int = 5, version: int = 4, *, name: str | None = None,
                   partition: int = 0, **fields: Any) -> Any:  # fmt: skip
    rows = [{"partition_index": partition, "committed_offset": offset, "committed_metadata": "m"}]
    fields |= {"group_id": t.name, "topics": [{"name": topic, "partitions": rows}]}
    return t.call(WHO, ApiKey.TXN_OFFSET_COMMIT, version, **_of(t, who, name), **fields)


def end(t: Trace, who: Producer, version: int = 4, *, commit: bool = True, name: str | None = None,
        wait: bool = True) -> Producer:  # fmt: skip
    """End a transaction and, unless told otherwise, wait until its markers are written."""
    answer = t.call(WHO, ApiKey.END_TXN, version, committed=commit, **_of(t, who, name))
    if wait:
        rest(t, name)
    return Producer(answer.producer_id, answer.producer_epoch) if answer else NOBODY


def rest(t: Trace, name: str | None = None) -> None:
    """Until nothing is under way for a transactional id; not noted."""
    name = t.name if name is None else name
    until(lambda: not _state(t, name).startswith("Prepare"))
    time.sleep(0.02)  # the state is complete a moment before the next step is allowed


def _state(t: Trace, name: str) -> str:
    answer = t.ask(ApiKey.DESCRIBE_TRANSACTIONS, 0, _who="watcher", transactional_ids=[name])
    return str(answer.transaction_states[0].transaction_state)


def describe(t: Trace, *names: str) -> Any:
    return t.call(WHO, ApiKey.DESCRIBE_TRANSACTIONS, 0, transactional_ids=list(names or (t.name,)))


def listed(t: Trace, version: int = 2, **filters: Any) -> Any:
    return t.call(WHO, ApiKey.LIST_TRANSACTIONS, version, **filters)


def transactional(who: Producer, sequence: int = 0, count: int = 1) -> bytes:
    """A batch of a transaction, of now: Kafka begins a segment where a marker is much younger than the records."""
    now_ms = int(time.time() * 1000)
    records = [Record(number, now_ms, b"k", b"v", []) for number in range(count)]
    return build_batch(
        records, producer_id=who.id, producer_epoch=who.epoch, base_sequence=sequence, is_transactional=True
    )


def batches(t: Trace, name: str, offset: int = 0, *, partition: int = 0, isolation: int = 0) -> None:
    """Read a partition, and note its batches and markers without times and with producers by name."""
    row = _read(t, name, offset, partition, max_wait_ms=100, isolation_level=isolation)
    t.answers += 1
    found = []
    for header, batch in iter_batches(bytes(row.records or b"")):
        who = t.tidy(ApiKey.END_TXN, header.producer_id, "producer_id"), header.producer_epoch, header.base_sequence
        control = [(record.key, record.value) for record in decode_batch(batch)] if header.is_control else ()
        found.append((header.base_offset, header.last_offset, header.is_transactional, who, control))
    aborted = row.aborted_transactions
    named = aborted and sorted(
        (item.first_offset, t.tidy(ApiKey.END_TXN, item.producer_id, "producer_id")) for item in aborted
    )
    t.note(f"read {partition} from {offset} at {isolation}",
           (row.error_code, row.high_watermark, row.last_stable_offset, named, found))  # fmt: skip


def at_both_levels(t: Trace, name: str) -> None:
    """`batches` of partition 0 with either isolation level."""
    for isolation in (0, 1):
        batches(t, name, isolation=isolation)


def note_transactions(t: Trace) -> None:
    """Note what ``__transaction_state`` says of the ids of this trace, without times."""
    for partition in range(TRANSACTION_PARTITIONS):
        offset = 0
        while records := bytes(_read(t, TRANSACTIONS_TOPIC, offset, partition, max_wait_ms=10).records or b""):
            for header, batch in iter_batches(records):
                offset = header.last_offset + 1
                for record in decode_batch(batch):
                    name = decode_transaction_key(record.key or b"")
                    if name and name.startswith(t.name) and partition == coordinator_partition(
                        name, TRANSACTION_PARTITIONS
                    ):  # fmt: skip
                        note_state(t, name, record)


def note_state(t: Trace, name: str, record: Record) -> None:
    """Note a record of ``__transaction_state`` if it is of this transactional id."""
    if decode_transaction_key(record.key or b"") == name:
        t.note(f"log of {name.removeprefix(t.name)}", _logged(t, record.value))


def _read(t: Trace, topic: str, offset: int, partition: int, **options: int) -> Any:
    """The answer of a fetch about a partition; not noted."""
    fields = fetch_fields(topic, offset, partition, min_bytes=1, **options)
    return t.ask(ApiKey.FETCH, 11, _who="reader", **fields).responses[0].partitions[0]


def _logged(t: Trace, data: bytes | None) -> Any:
    if data is None:
        return None
    value = plain(decode_value(TransactionLogValue, data)) | {"version": int.from_bytes(data[:2], "big")}
    for field in ("transaction_last_update_timestamp_ms", "transaction_start_timestamp_ms"):
        value[field] = "none" if value[field] == -1 else "some time"
    rows = value["transaction_partitions"]
    value["transaction_partitions"] = rows and sorted((row["topic"], sorted(row["partition_ids"])) for row in rows)
    for field in ("previous_producer_id", "next_producer_id"):
        value[field] = t.tidy(ApiKey.END_TXN, value[field], "producer_id")
    return t.tidy(ApiKey.END_TXN, value)
