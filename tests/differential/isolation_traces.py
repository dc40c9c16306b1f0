"""Transactions as partitions and groups see them: who may write, what ends where, what is shown meanwhile."""

from __future__ import annotations

from typing import Any

from ottla.protocol.apis import ApiKey
from tests.differential.calls import commit_alone, delete_offsets
from tests.differential.log_calls import batch, made, offsets, produce
from tests.differential.tracing import Trace
from tests.differential.txn_calls import (
    WHO,
    Producer,
    add,
    add_offsets,
    at_both_levels,
    batches,
    commit_offsets,
    end,
    init,
    transactional,
)
from tests.support.requests import delete_records_fields, offset_fetch_fields, produce_fields

VERSIONS = (3, 9, 10, 11, 12)


def plain(who: Producer, sequence: int = 0) -> bytes:
    return batch(producer_id=who.id, producer_epoch=who.epoch, base_sequence=sequence)


def producers(t: Trace, name: str, *indexes: int) -> None:
    """Note who is known in partitions, without times."""
    answer = t.ask(ApiKey.DESCRIBE_PRODUCERS, 0, topics=[{"name": name, "partition_indexes": list(indexes)}])
    t.answers += 1
    for topic in answer.topics:
        for row in topic.partitions:
            found = sorted(
                (
                    t.tidy(ApiKey.END_TXN, one.producer_id, "producer_id"),
                    one.producer_epoch,
                    one.last_sequence,
                    one.coordinator_epoch,
                    one.current_txn_start_offset,
                )
                for one in row.active_producers
            )
            t.note(f"producers of {row.partition_index}", (row.error_code, found))


def mark(t: Trace, who: Producer, name: str, version: int = 1, *, commit: bool = False, coordinator: int = 0,
         partitions: tuple[int, ...] = (0,), **fields: Any) -> None:  # fmt: skip
    topics = [{"name": name, "partition_indexes": list(partitions)}]
    marker = {"producer_id": who.id, "producer_epoch": who.epoch, "transaction_result": commit, "topics": topics,
              "coordinator_epoch": coordinator, **fields}  # fmt: skip
    t.call(WHO, ApiKey.WRITE_TXN_MARKERS, version, markers=[marker])


def trace_isolation_who_may_write(t: Trace) -> None:
    name = made(t)
    who = init(t)
    for version in VERSIONS[:-1]:
        produce(t, name, transactional(who), version=version)
        produce(t, name, transactional(who), version=version, transactional_id=t.name)
        produce(t, name, transactional(who), version=version, transactional_id=f"{t.name}-no")
        produce(t, name, transactional(Producer(who.id + 100_000, 0)), version=version, transactional_id=t.name)
        produce(t, name, transactional(who.at(who.epoch + 1)), version=version, transactional_id=t.name)
    produce(t, name, transactional(who), version=12)
    produce(t, name, transactional(who), version=12, transactional_id=f"{t.name}-no")
    produce(t, name, transactional(who, 3), version=12, transactional_id=t.name)
    at_both_levels(t, name)


def trace_isolation_in_a_transaction(t: Trace) -> None:
    name = made(t)
    who = init(t)
    add(t, who, {name: [0]})
    for sequence, version in enumerate(VERSIONS[:-1]):
        produce(t, name, transactional(who, sequence), version=version, transactional_id=t.name)
        produce(t, name, transactional(who, sequence), version=version, transactional_id=t.name)
        produce(t, name, transactional(who, sequence + 5), version=version, transactional_id=t.name)
        produce(t, name, transactional(who.at(who.epoch - 1), sequence), version=version, transactional_id=t.name)
        produce(t, name, plain(who, sequence + 1), version=version)
        producers(t, name, 0, 7)
    end(t, who)
    producers(t, name, 0)
    add(t, who, {name: [0]})
    produce(t, name, transactional(who, 4), transactional_id=t.name)
    end(t, who, commit=False)
    for version in VERSIONS[:-1]:
        produce(t, name, transactional(who, 5), version=version, transactional_id=t.name)
    produce(t, name, plain(who, 5))
    produce(t, name, plain(who, 5))
    producers(t, name, 0)
    at_both_levels(t, name)


def trace_isolation_two_producers_in_a_request(t: Trace) -> None:
    name, other = made(t), made(t, "b")
    who, second = init(t), init(t, name=f"{t.name}-2")
    add(t, who, {name: [0]})
    for version in VERSIONS:
        fields = produce_fields(name, transactional(who), transactional_id=t.name, timeout_ms=5000)
        fields["topic_data"] += produce_fields(other, transactional(second))["topic_data"]
        t.call(WHO, ApiKey.PRODUCE, version, **fields)
    at_both_levels(t, name)


def trace_isolation_list_offsets(t: Trace) -> None:
    name = made(t)
    who = init(t)
    produce(t, name, batch(3))
    add(t, who, {name: [0]})
    produce(t, name, transactional(who, 0, 2), transactional_id=t.name)
    produce(t, name, batch(2))
    for isolation in (0, 1):
        offsets(t, name, -1, -2, 1_700_000_000_001, isolation=isolation)
    offsets(t, name, 1_700_000_000_003, isolation=1)
    end(t, who, commit=False)
    for isolation in (0, 1):
        offsets(t, name, -1, -2, 1_700_000_000_001, isolation=isolation)


def trace_isolation_aborted_and_open(t: Trace) -> None:
    name = made(t)
    first, second = init(t), init(t, name=f"{t.name}-2")
    for number in range(3):
        add(t, first, {name: [0]})
        add(t, second, {name: [0]}, name=f"{t.name}-2")
        produce(t, name, transactional(first, 2 * number), transactional_id=t.name)
        produce(t, name, transactional(second, 2 * number), transactional_id=f"{t.name}-2")
        produce(t, name, transactional(first, 2 * number + 1), transactional_id=t.name)
        produce(t, name, transactional(second, 2 * number + 1), transactional_id=f"{t.name}-2")
        end(t, second, commit=number == 1, name=f"{t.name}-2")
        batches(t, name)  # Kafka names to readers of committed records what was aborted beyond the end of it, too
        end(t, first, commit=number == 2)
        for offset in (0, 2, 5, 6):
            batches(t, name, offset, isolation=1)
    t.call(WHO, ApiKey.DELETE_RECORDS, 2, **delete_records_fields(name, 3))
    batches(t, name, 3, isolation=1)


def trace_isolation_markers(t: Trace) -> None:
    name = made(t)
    init(t)
    who = init(t)
    add(t, who, {name: [0]})
    produce(t, name, transactional(who), transactional_id=t.name)
    for version in (1, 2):
        mark(t, who, f"{t.name}-no", version)
        mark(t, who, name, version, partitions=(7,))
        mark(t, who.at(who.epoch - 1), name, version)
    mark(t, who, name, 2, transaction_version=2)
    at_both_levels(t, name)
    mark(t, who, name, 2, coordinator=5)
    at_both_levels(t, name)
    mark(t, who, name, 2, coordinator=4)
    mark(t, who, name, 2, coordinator=5, commit=True)
    mark(t, who.at(who.epoch + 1), name, 2, coordinator=5, transaction_version=2)
    mark(t, who.at(who.epoch + 1), name, 2, coordinator=5, transaction_version=2)
    mark(t, who.at(who.epoch), name, 2, coordinator=5, transaction_version=2)
    mark(t, Producer(who.id + 100_000, 3), name, 2, coordinator=0)
    producers(t, name, 0)
    at_both_levels(t, name)
    t.call(WHO, ApiKey.WRITE_TXN_MARKERS, 1, markers=[])


def stored(t: Trace, name: str) -> None:
    for stable in (False, True):
        for topics in (None, {name: [0, 1]}):
            t.call(WHO, ApiKey.OFFSET_FETCH, 8, **offset_fetch_fields(t.name, topics, stable=stable))


def trace_isolation_which_offset_wins(t: Trace) -> None:
    name = made(t, count=2)
    first, second = init(t), init(t, name=f"{t.name}-2")

    def begin() -> None:
        add_offsets(t, first)
        add_offsets(t, second, name=f"{t.name}-2")

    begin()
    commit_offsets(t, first, name, 10)
    commit_alone(t, offsets=[(name, 0, 11)])
    stored(t, name)
    end(t, first)
    stored(t, name)
    commit_offsets(t, second, name, 12, name=f"{t.name}-2")
    end(t, second, name=f"{t.name}-2")
    begin()
    commit_offsets(t, first, name, 20)
    commit_offsets(t, second, name, 21, name=f"{t.name}-2")
    end(t, second, name=f"{t.name}-2")
    stored(t, name)
    end(t, first)
    stored(t, name)
    begin()
    commit_offsets(t, first, name, 30)
    commit_offsets(t, second, name, 31, name=f"{t.name}-2")
    end(t, first)
    stored(t, name)
    end(t, second, name=f"{t.name}-2", commit=False)
    stored(t, name)


def trace_isolation_deleting_what_is_pending(t: Trace) -> None:
    name = made(t, count=2)
    who = init(t)
    add_offsets(t, who)
    commit_offsets(t, who, name, 10)
    commit_offsets(t, who, name, 11, partition=1)
    delete_offsets(t, {name: [0]})
    stored(t, name)
    end(t, who)
    stored(t, name)
    add_offsets(t, who)
    commit_offsets(t, who, name, 20)
    t.call(WHO, ApiKey.DELETE_GROUPS, 2, groups_names=[t.name])
    stored(t, name)
    end(t, who)
    stored(t, name)
