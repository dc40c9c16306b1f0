"""Records of __transaction_state, byte for byte as Kafka 4.3's own serializers write them."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.protocol.errors import MalformedFrame
from ottla.protocol.offsets_topic import decode_value
from ottla.protocol.primitives import MAX_ITEMS
from ottla.protocol.transaction_log import (
    TransactionLogPartitions,
    TransactionLogValue,
    TransactionStatus,
    decode_transaction_key,
    encode_transaction_value,
    transaction_key,
)

TIME = 1_700_000_000_000


def ongoing(**tagged: int) -> TransactionLogValue:
    return TransactionLogValue(
        producer_id=5,
        producer_epoch=1,
        transaction_timeout_ms=60_000,
        transaction_status=TransactionStatus.ONGOING,
        transaction_partitions=[TransactionLogPartitions(topic="t", partition_ids=[0, 2])],
        transaction_last_update_timestamp_ms=TIME,
        transaction_start_timestamp_ms=TIME,
        **tagged,
    )


EMPTY = TransactionLogValue(
    producer_id=0,
    producer_epoch=0,
    transaction_timeout_ms=1_000,
    transaction_status=TransactionStatus.EMPTY,
    transaction_partitions=None,
    transaction_last_update_timestamp_ms=TIME,
    transaction_start_timestamp_ms=-1,
)
TAGGED = ongoing(previous_producer_id=4, next_producer_id=6, client_transaction_version=2, next_producer_epoch=3)

GOLDEN = [
    (
        0,
        ongoing(),
        "0000000000000000000500010000ea6001000000010001740000000200000000000000020000018bcfe568000000018bcfe56800",
    ),
    (1, ongoing(), "0001000000000000000500010000ea6001020274030000000000000002000000018bcfe568000000018bcfe5680000"),
    (
        1,
        TAGGED,
        "0001000000000000000500010000ea6001020274030000000000000002000000018bcfe568000000018bcfe56800"
        "0400080000000000000004010800000000000000060202000203020003",
    ),
    (0, EMPTY, "000000000000000000000000000003e800ffffffff0000018bcfe56800ffffffffffffffff"),
    (1, EMPTY, "000100000000000000000000000003e800000000018bcfe56800ffffffffffffffff00"),
]


def test_a_key() -> None:
    assert transaction_key("tx").hex() == "000000027478"
    assert decode_transaction_key(transaction_key("tx")) == "tx"


def test_a_key_of_another_type_is_skipped() -> None:
    assert decode_transaction_key(b"\0\1\0\2tx") is None


@pytest.mark.parametrize("key", [b"", b"\0", b"\0\0", b"\0\0\0\3tx", b"\0\0\xff\xff"])
def test_a_broken_key(key: bytes) -> None:
    with pytest.raises(MalformedFrame):
        decode_transaction_key(key)


@pytest.mark.parametrize(("version", "value", "golden"), GOLDEN)
def test_a_value(version: int, value: TransactionLogValue, golden: str) -> None:
    assert encode_transaction_value(value, version).hex() == golden
    assert decode_value(TransactionLogValue, bytes.fromhex(golden)) == value


def test_version_1_is_what_is_written() -> None:
    assert encode_transaction_value(TAGGED) == encode_transaction_value(TAGGED, 1)


def test_version_0_loses_what_is_tagged() -> None:
    assert decode_value(TransactionLogValue, encode_transaction_value(TAGGED, 0)) == ongoing()


@pytest.mark.parametrize("data", [b"", b"\0", b"\0\2" + bytes(60), b"\xff\xff", encode_transaction_value(TAGGED)[:-4]])
def test_a_broken_value(data: bytes) -> None:
    with pytest.raises(MalformedFrame):
        decode_value(TransactionLogValue, data)


@given(
    transactional_id=st.text(max_size=40).filter(lambda text: text.isprintable()),
    producer_id=st.integers(0, 2**63 - 1),
    epoch=st.integers(0, 2**15 - 1),
    topics=st.dictionaries(st.text("abc", min_size=1), st.lists(st.integers(0, 99), min_size=1, unique=True)),
    version=st.sampled_from([0, 1]),
)
def test_what_is_written_is_read(
    transactional_id: str, producer_id: int, epoch: int, topics: dict[str, list[int]], version: int
) -> None:
    rows = [TransactionLogPartitions(topic=name, partition_ids=ids) for name, ids in topics.items()]
    value = TransactionLogValue(producer_id=producer_id, producer_epoch=epoch, transaction_partitions=rows)
    assert decode_transaction_key(transaction_key(transactional_id)) == transactional_id
    assert decode_value(TransactionLogValue, encode_transaction_value(value, version)) == value


def test_a_transaction_over_more_partitions_than_a_request_may_name_is_read_again() -> None:
    """Several requests may add as many; a record that cannot be read would keep the broker from starting."""
    partitions = [TransactionLogPartitions(topic="t", partition_ids=[*range(2 * MAX_ITEMS)])]
    value = replace(ongoing(), transaction_partitions=partitions)
    assert decode_value(TransactionLogValue, encode_transaction_value(value)) == value
