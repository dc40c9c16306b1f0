"""Transactions in few words, for traces. The transactional id is the trace's name unless told otherwise."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ottla.protocol.apis import ApiKey, api
from ottla.protocol.groups import coordinator_partition
from ottla.protocol.message_parts import TopicWithPartitions
from ottla.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnTransaction
from ottla.protocol.messages.fetch import FetchPartition, FetchTopic
from ottla.protocol.messages.txn_offset_commit import TxnOffsetCommitRequestPartition, TxnOffsetCommitRequestTopic
from ottla.protocol.records import Record, build_batch, decode_batch, iter_batches
from ottla.protocol.transaction_log import decode_transaction_key, decode_transaction_value
from tests.differential.log_calls import ListOffsetsPartition, ListOffsetsTopic, until
from tests.differential.tracing import Trace
from tests.differential.wire import plain

WHO = "producer"
TRANSACTIONS_TOPIC = "__transaction_state"
TRANSACTION_PARTITIONS = 16
COMPLETE = ("CompleteCommit", "CompleteAbort")


class Producer(NamedTuple):
    """The identity that a producer was given."""

    id: int
    epoch: int

    def at(self, epoch: int) -> Producer:
        return Producer(self.id, epoch)


NOBODY = Producer(-1, -1)


def init(t: Trace, version: int = 5, *, name: str | None = None, timeout: int = 60_000,
         expected: Producer = NOBODY) -> Producer:  # fmt: skip
    fields = {"producer_id": expected.id, "producer_epoch": expected.epoch} if version >= 3 else {}
    answer = t.call(WHO, ApiKey.INIT_PRODUCER_ID, version, transactional_id=t.name if name is None else name,
                    transaction_timeout_ms=timeout, **fields)  # fmt: skip
    return Producer(answer.producer_id, answer.producer_epoch) if answer else NOBODY


Partitions = Mapping[str, Sequence[int]]


def _rows(partitions: Partitions) -> list[TopicWithPartitions]:
    return [TopicWithPartitions(name=name, partitions=list(indexes)) for name, indexes in partitions.items()]


def add(t: Trace, who: Producer, partitions: Partitions, version: int = 3, *, name: str | None = None,
        verify: bool = False) -> Any:  # fmt: skip
    name = t.name if name is None else name
    if version < 4:
        return t.call(WHO, ApiKey.ADD_PARTITIONS_TO_TXN, version, v3_and_below_transactional_id=name,
                      v3_and_below_producer_id=who.id, v3_and_below_producer_epoch=who.epoch,
                      v3_and_below_topics=_rows(partitions))  # fmt: skip
    transaction = AddPartitionsToTxnTransaction(
        transactional_id=name,
        producer_id=who.id,
        producer_epoch=who.epoch,
        verify_only=verify,
        topics=_rows(partitions),
    )
    return t.call(WHO, ApiKey.ADD_PARTITIONS_TO_TXN, version, transactions=[transaction])


def add_offsets(t: Trace, who: Producer, version: int = 4, *, name: str | None = None,
                group: str | None = None) -> Any:  # fmt: skip
    return t.call(WHO, ApiKey.ADD_OFFSETS_TO_TXN, version, transactional_id=t.name if name is None else name,
                  producer_id=who.id, producer_epoch=who.epoch,
                  group_id=t.name if group is None else group)  # fmt: skip


def commit_offsets(t: Trace, who: Producer, topic: str, offset: int = 5, version: int = 4, *, name: str | None = None,
                   group: str | None = None, partition: int = 0, **fields: Any) -> Any:  # fmt: skip
    rows = [TxnOffsetCommitRequestPartition(partition_index=partition, committed_offset=offset, committed_metadata="m")]
    topics = [TxnOffsetCommitRequestTopic(name=topic, partitions=rows)]
    return t.call(WHO, ApiKey.TXN_OFFSET_COMMIT, version, transactional_id=t.name if name is None else name,
                  group_id=t.name if group is None else group, producer_id=who.id, producer_epoch=who.epoch,
                  topics=topics, **fields)  # fmt: skip


def end(t: Trace, who: Producer, version: int = 4, *, commit: bool = True, name: str | None = None,
        wait: bool = True) -> Producer:  # fmt: skip
    """End a transaction and, unless told otherwise, wait until its markers are written."""
    name = t.name if name is None else name
    answer = t.call(WHO, ApiKey.END_TXN, version, transactional_id=name, producer_id=who.id,
                    producer_epoch=who.epoch, committed=commit)  # fmt: skip
    if wait:
        rest(t, name)
    return Producer(answer.producer_id, answer.producer_epoch) if answer else NOBODY


def rest(t: Trace, name: str | None = None) -> None:
    """Until nothing is under way for a transactional id; not noted."""
    name = t.name if name is None else name
    until(lambda: not _state(t, name).startswith("Prepare"))
    time.sleep(0.02)  # the state is complete a moment before the next step is allowed


def _state(t: Trace, name: str) -> str:
    wire = t.wire("watcher")
    wire.send(ApiKey.DESCRIBE_TRANSACTIONS, 0, api(ApiKey.DESCRIBE_TRANSACTIONS).request(transactional_ids=[name]))
    return str(wire.answer(10).transaction_states[0].transaction_state)


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


def served(t: Trace, name: str, partition: int) -> None:
    """Until a partition can be written to; not noted."""

    def is_served() -> bool:
        wire = t.wire("maker")
        rows = [ListOffsetsPartition(partition_index=partition, timestamp=-1)]
        topics = [ListOffsetsTopic(name=name, partitions=rows)]
        wire.send(ApiKey.LIST_OFFSETS, 5, api(ApiKey.LIST_OFFSETS).request(replica_id=-1, topics=topics))
        return wire.answer(10).topics[0].partitions[0].error_code == 0

    until(is_served)


def batches(t: Trace, name: str, offset: int = 0, *, partition: int = 0, isolation: int = 0) -> None:
    """Read a partition, and note its batches and markers without times and with producers by name."""
    item = FetchPartition(partition=partition, fetch_offset=offset, partition_max_bytes=1 << 20)
    wire = t.wire("reader")
    topics = [FetchTopic(topic=name, partitions=[item])]
    wire.send(ApiKey.FETCH, 11, api(ApiKey.FETCH).request(max_wait_ms=100, min_bytes=1, max_bytes=1 << 20,
                                                          isolation_level=isolation,
                                                          topics=topics))  # fmt: skip
    row = wire.answer(10).responses[0].partitions[0]
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


def note_transactions(t: Trace) -> None:
    """Note what ``__transaction_state`` says of the ids of this trace, without times."""
    for partition in range(TRANSACTION_PARTITIONS):
        offset = 0
        while records := _read(t, partition, offset):
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


def _read(t: Trace, partition: int, offset: int) -> bytes:
    item = FetchPartition(partition=partition, fetch_offset=offset, partition_max_bytes=1 << 20)
    wire = t.wire("reader")
    topics = [FetchTopic(topic=TRANSACTIONS_TOPIC, partitions=[item])]
    wire.send(ApiKey.FETCH, 11, api(ApiKey.FETCH).request(max_wait_ms=10, min_bytes=1, max_bytes=1 << 20,
                                                          topics=topics))  # fmt: skip
    return bytes(wire.answer(10).responses[0].partitions[0].records or b"")


def _logged(t: Trace, data: bytes | None) -> Any:
    if data is None:
        return None
    value = plain(decode_transaction_value(data)) | {"version": int.from_bytes(data[:2], "big")}
    for field in ("transaction_last_update_timestamp_ms", "transaction_start_timestamp_ms"):
        value[field] = "none" if value[field] == -1 else "some time"
    rows = value["transaction_partitions"]
    value["transaction_partitions"] = rows and sorted((row["topic"], sorted(row["partition_ids"])) for row in rows)
    for field in ("previous_producer_id", "next_producer_id"):
        value[field] = t.tidy(ApiKey.END_TXN, value[field], "producer_id")
    return t.tidy(ApiKey.END_TXN, value)
