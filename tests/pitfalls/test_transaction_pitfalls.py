"""Pitfalls 48 to 52: idempotent producers and transactions."""

from __future__ import annotations

import itertools
from types import SimpleNamespace
from typing import Any

import pytest

from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import ErrorCode
from ottla.protocol.records import iter_batches, parse_marker
from ottla.testing import Broker
from tests.support.client import Client, TopicPartition, batch, committed_values, fresh, of, who

READ_COMMITTED = 1
OUT_OF_ORDER = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
_producer_ids = itertools.count(1_000_000)


def somebody(epoch: int = 0, producer_id: int | None = None) -> Any:
    """A producer that this broker does not know."""
    return SimpleNamespace(
        producer_id=next(_producer_ids) if producer_id is None else producer_id, producer_epoch=epoch
    )


def visible(client: Client, topic: str) -> list[bytes]:
    """The committed records of a partition: without those that the broker lists as aborted."""
    told = client.fetch(topic, isolation_level=READ_COMMITTED)
    aborted = sorted(told.aborted_transactions, key=lambda row: int(row.first_offset))
    return committed_values(told.records, [(row.producer_id, row.first_offset) for row in aborted])[0]


def wait_for_end(client: Client, topic: str, offset: int) -> None:
    """Until the marker at an offset can be read."""
    told = client.fetch(topic, offset, isolation_level=READ_COMMITTED, max_wait_ms=10_000, min_bytes=1)
    assert told.records


def test_pitfall_48_batches_of_a_producer_count_once_and_in_order(client: Client) -> None:
    topic, producer = client.topic(), client.producer()
    for sequence in range(6):
        assert client.produce(topic, batch(b"x", **of(producer, sequence))).base_offset == sequence
    for sequence in range(1, 6):
        again = client.produce(topic, batch(b"x", **of(producer, sequence)))
        assert (again.error_code, again.base_offset) == (0, sequence), "its first offset"
    assert client.produce(topic, batch(b"x", **of(producer, 0))).error_code != 0, "the sixth last one is forgotten"
    assert client.produce(topic, batch(b"x", **of(producer, 8))).error_code == OUT_OF_ORDER
    assert client.offset(topic).offset == 6

    unknown = somebody()
    assert client.produce(topic, batch(b"x", b"y", **of(unknown, 2**31 - 2))).error_code == 0, "any number will do"
    assert client.produce(topic, batch(b"z", **of(unknown, 0))).error_code == 0, "the next one after 2^31 - 1"
    newer = somebody(1, unknown.producer_id)
    assert client.produce(topic, batch(b"x", **of(newer, 1))).error_code == OUT_OF_ORDER
    assert client.produce(topic, batch(b"x", **of(newer, 0))).error_code == 0
    older = client.produce(topic, batch(b"x", **of(unknown, 1)))
    assert older.error_code == ErrorCode.INVALID_PRODUCER_EPOCH


def test_pitfall_49_who_gets_a_producer_id(client: Client) -> None:
    first, second = client.producer(), client.producer()
    assert (first.error_code, first.producer_epoch, second.producer_epoch) == (0, 0, 0)
    assert first.producer_id != second.producer_id
    assert client.producer("").error_code == ErrorCode.INVALID_REQUEST
    name, topic = fresh("txn"), client.topic()
    for timeout in (900_001, 0, -1):
        refused = client.producer(name, transaction_timeout_ms=timeout)
        assert refused.error_code == ErrorCode.INVALID_TRANSACTION_TIMEOUT
    assert client.producer(fresh("txn"), transaction_timeout_ms=900_000).error_code == 0

    producer = client.producer(name)
    client.add_partitions(name, producer, TopicPartition(topic, 0))
    client.produce(topic, batch(b"lost", **of(producer, transactional=True)), transactional_id=name)
    told = [client.producer(name)]
    while told[-1].error_code == ErrorCode.CONCURRENT_TRANSACTIONS:
        told.append(client.producer(name))
    assert told[0].error_code == ErrorCode.CONCURRENT_TRANSACTIONS, "the open one is aborted first"
    assert (told[-1].error_code, told[-1].producer_id) == (0, producer.producer_id)
    assert told[-1].producer_epoch > producer.producer_epoch
    wait_for_end(client, topic, 1)
    assert visible(client, topic) == []


def test_pitfall_50_errors_are_only_told_to_versions_that_know_them(client: Client, group: str) -> None:
    name, topic = fresh("txn"), client.topic()
    tp = TopicPartition(topic, 0)
    old, new = client.producer(name), client.producer(name)
    assert new.producer_epoch == old.producer_epoch + 1
    known, unknown = ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH
    for version in range(4):
        expected = known if version >= 2 else unknown
        assert client.add_partitions(name, old, tp, version=version) == [expected]
        fields = who(old) | {"transactional_id": name, "group_id": group}
        assert client.call(ApiKey.ADD_OFFSETS_TO_TXN, version, **fields).error_code == expected
        assert client.end(name, old, commit=True, version=version).error_code == expected
    stale = somebody(0, new.producer_id)
    again = client.producer(name, **who(new))
    client.producer(name, **who(again))
    assert client.producer(name, 3, **who(stale)).error_code == unknown
    assert client.producer(name, 4, **who(stale)).error_code == known

    member = {"generation_id_or_member_epoch": 3, "member_id": "x"}
    assert client.commit(group, topic, version=8, **member) == ErrorCode.ILLEGAL_GENERATION
    assert client.commit(group, topic, version=9, **member) == ErrorCode.GROUP_ID_NOT_FOUND

    other = fresh("txn")
    producer = client.producer(other)
    mine = who(producer) | {"transactional_id": other, "group_id": group}
    places = [{"committed_offset": 7, "committed_metadata": ""}]
    fields = mine | {"generation_id": -1, "topics": [{"name": topic, "partitions": places}]}
    for version in range(5):  # the group is not in the transaction
        told = client.call(ApiKey.TXN_OFFSET_COMMIT, version, **fields).topics[0].partitions[0].error_code
        assert told == (ErrorCode.TRANSACTION_ABORTABLE if version >= 4 else ErrorCode.INVALID_TXN_STATE)
    assert client.call(ApiKey.ADD_OFFSETS_TO_TXN, 3, **mine).error_code == 0
    assert client.call(ApiKey.TXN_OFFSET_COMMIT, 3, **fields).topics[0].partitions[0].error_code == 0
    for version in (7, 8):
        assert client.committed(group, topic, version).error_code == 0
        unstable = client.committed(group, topic, version, require_stable=True)
        assert unstable.error_code == ErrorCode.UNSTABLE_OFFSET_COMMIT
    client.end(other, producer, commit=False)


def test_pitfall_50_deletion_that_is_disabled_is_told_to_versions_that_know_it() -> None:
    with Broker({"delete.topic.enable": False}) as broker, Client(broker.port) as client:
        topic = client.topic()
        for version in range(1, 7):
            fields = {"topic_names": [topic], "topics": [{"name": topic}], "timeout_ms": 1000}
            told = client.call(ApiKey.DELETE_TOPICS, version, **fields).responses[0].error_code
            assert told == (ErrorCode.TOPIC_DELETION_DISABLED if version >= 3 else ErrorCode.INVALID_REQUEST)
        assert client.metadata(topic).topics[0].error_code == 0


@pytest.mark.parametrize("commit", [True, False], ids=["commit", "abort"])
def test_pitfall_51_markers_take_an_offset_and_aborted_records_are_not_seen(client: Client, commit: bool) -> None:
    topic, name = client.topic(), fresh("txn")
    producer = client.producer(name)
    told = client.add_partitions(name, producer, TopicPartition(topic, 0), TopicPartition("nobody-has-it", 0))
    assert sorted(told) == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.OPERATION_NOT_ATTEMPTED]
    assert client.add_partitions(name, producer, TopicPartition(topic, 0)) == [0]
    client.produce(topic, batch(b"a", b"b", **of(producer, transactional=True)), transactional_id=name)
    assert client.end(name, producer, commit=commit).error_code == 0
    wait_for_end(client, topic, 2)
    assert client.produce(topic, batch(b"behind")).base_offset == 3
    (marker,) = [
        parse_marker(bytes(data))
        for header, data in iter_batches(bytes(client.fetch(topic).records))
        if header.is_control
    ]
    assert marker is not None
    assert marker.commit is commit
    assert visible(client, topic) == ([b"a", b"b"] if commit else []) + [b"behind"]


def test_pitfall_52_who_is_told_of_the_newer_protocol_can_use_it(client: Client) -> None:
    named = {"client_software_name": "pitfall", "client_software_version": "1"}
    for version in (3, 4):
        told = client.call(ApiKey.API_VERSIONS, version, **named)
        levels = [(row.name, row.max_version_level) for row in told.finalized_features]
        assert levels == [("transaction.version", 2), ("group.version", 1)]
        assert told.finalized_features_epoch >= 0
        supported = [row.name for row in told.supported_features]
        assert supported == (["transaction.version", "group.version"] if version >= 4 else [])
    topic, name = client.topic(), fresh("txn")
    producer = client.producer(name, 5)
    for epoch, value in enumerate((b"first", b"second")):
        assert producer.producer_epoch == epoch, "each end takes an epoch"
        data = batch(value, **of(producer, transactional=True))
        while (told := client.produce(topic, data, 12, transactional_id=name)).error_code:  # nobody added the partition
            assert told.error_code == ErrorCode.CONCURRENT_TRANSACTIONS, "the last one ends"
        producer = client.end(name, producer, commit=True, version=5)
        assert producer.error_code == 0
    wait_for_end(client, topic, 3)
    assert visible(client, topic) == [b"first", b"second"]
