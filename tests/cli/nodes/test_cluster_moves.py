"""What `ottla cluster balance` would move, and what a status shows that lasts."""

from __future__ import annotations

from collections import Counter
from typing import Any
from uuid import uuid4

import click
import pytest

from ottla.cli.cluster_moves import homes_in_balance, partition_of
from ottla.cli.cluster_status import lasting
from ottla.clients.structs import PartitionInfo, TopicInfo
from ottla.protocol.internal_topics import GROUP_EVENTS_TOPIC, OFFSETS_TOPIC
from ottla.protocol.records import TopicPartition


def topic(name: str, *homes: int) -> TopicInfo:
    places = {index: PartitionInfo(name, index, home, 0, (home,), (home,)) for index, home in enumerate(homes)}
    return TopicInfo(name, uuid4(), name.startswith("__"), places)


def test_each_kind_is_dealt_evenly_and_what_follows_goes_along_by_itself() -> None:
    topics = {
        one.topic: one
        for one in (
            topic(OFFSETS_TOPIC, 1, 1, 1),
            topic(GROUP_EVENTS_TOPIC, 1, 1, 1),
            topic("orders", 1, 2, 2, 2),
            topic("bills", 3, 3),
        )
    }
    moves = homes_in_balance(topics, [1, 2, 3])
    assert Counter(tp.topic for tp in moves) == {OFFSETS_TOPIC: 2, "orders": 1}
    homes = {
        TopicPartition(name, index): moves.get(TopicPartition(name, index), place.replicas[0])
        for name, one in topics.items()
        for index, place in one.partitions.items()
    }
    clients = Counter(home for tp, home in homes.items() if tp.topic in ("orders", "bills"))
    assert clients == {1: 2, 2: 2, 3: 2}
    assert sorted(homes[TopicPartition(OFFSETS_TOPIC, index)] for index in range(3)) == [1, 2, 3]


def test_a_node_that_takes_nothing_gets_nothing_and_loses_what_it_has() -> None:
    moves = homes_in_balance({"orders": topic("orders", 1, 2, 3)}, [1, 2])
    assert set(moves) == {TopicPartition("orders", 2)} and moves[TopicPartition("orders", 2)] in (1, 2)


@pytest.mark.parametrize(("text", "found"), [("orders-0", ("orders", 0)), ("a-b-12", ("a-b", 12))])
def test_a_partition_is_written_as_kafka_writes_it(text: str, found: tuple[str, int]) -> None:
    assert partition_of(text) == found


@pytest.mark.parametrize("text", ["orders", "orders-", "-1", "orders-x", "orders-²"])
def test_what_is_no_partition_is_refused(text: str) -> None:
    with pytest.raises(click.UsageError, match="write TOPIC-PARTITION"):
        partition_of(text)


def status(beat_ms: int, **changed: Any) -> dict[str, Any]:
    row = {"node_id": 1, "state": "up", "up_ms": 7 * beat_ms, "beat_ms": beat_ms}
    lost = [{"partition": "orders-0", "led_by_last": 2, "since_ms": beat_ms}]
    database = {"timeline": 1, "size_bytes": beat_ms, "oldest_snapshot": {"age_ms": beat_ms}}
    return {"nodes": [row], "without_leader": lost, "database": database, **changed}


def test_time_alone_is_no_change_of_a_status() -> None:
    assert lasting(status(100)) == lasting(status(400))
    assert lasting(status(100)) != lasting(status(100, without_leader=[]))
    assert lasting(status(100)) != lasting(status(100, database={"timeline": 2}))
