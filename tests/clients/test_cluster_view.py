"""The client's view of the cluster."""

from typing import Any
from uuid import UUID

import pytest

from ottla.clients.cluster import ClusterMetadata
from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import ErrorCode
from ottla.protocol.message_parts import LeaderIdAndEpoch, NodeEndpoint
from ottla.protocol.records import TopicPartition
from tests.support.requests import response

T0 = TopicPartition("t", 0)


def answer(*topics: dict[str, Any], brokers: tuple[int, ...] = (1, 2)) -> Any:
    nodes = [{"node_id": n, "host": f"h{n}", "port": 9000 + n} for n in brokers]
    return response(ApiKey.METADATA, {"brokers": nodes, "cluster_id": "c", "controller_id": 1, "topics": topics})


def topic(name: str, *leaders: tuple[int, int], topic_id: int = 1, error: int = 0) -> dict[str, Any]:
    """A topic whose partitions have these leaders and epochs."""
    partitions = [
        {"partition_index": index, "leader_id": leader, "leader_epoch": epoch}
        for index, (leader, epoch) in enumerate(leaders)
    ]
    return {"name": name, "topic_id": UUID(int=topic_id), "partitions": partitions, "error_code": error}


def seen(*topics: dict[str, Any]) -> ClusterMetadata:
    """A view made of one answer after another, each of one topic."""
    cluster = ClusterMetadata()
    for one in topics:
        cluster.update(answer(one), [one["name"]])
    return cluster


def test_brokers_topics_and_leaders() -> None:
    cluster = seen(topic("t", (1, 0), (2, 0)))
    assert (cluster.cluster_id, cluster.controller_id, cluster.brokers[2].host) == ("c", 1, "h2")
    assert cluster.partition_count("t") == 2
    assert [cluster.leader(TopicPartition("t", p)) for p in range(3)] == [1, 2, None]
    assert cluster.available_partitions("t") == [0, 1]
    assert cluster.partition_count("u") is None
    assert cluster.available_partitions("u") == []


def test_a_leader_that_is_gone_is_none() -> None:
    cluster = seen(topic("t", (-1, 3), (7, 3), (1, 3)))
    assert [cluster.leader(TopicPartition("t", p)) for p in range(3)] == [None, None, 1]
    assert cluster.available_partitions("t") == [2]


def test_an_older_epoch_is_an_old_view() -> None:
    cluster = seen(topic("t", (2, 5)), topic("t", (1, 4)))
    assert (cluster.leader(T0), cluster.leader_epoch(T0)) == (2, 5)
    cluster.update(answer(topic("t", (1, 6))), ["t"])
    assert (cluster.leader(T0), cluster.leader_epoch(T0)) == (1, 6)


def test_a_topic_made_anew_begins_at_its_own_epoch() -> None:
    cluster = seen(topic("t", (2, 5), topic_id=1), topic("t", (1, 0), topic_id=2))
    assert (cluster.leader(T0), cluster.leader_epoch(T0)) == (1, 0)


def test_brokers_that_know_no_epochs_are_believed() -> None:
    cluster = seen(topic("t", (2, 5)), topic("t", (1, -1)))
    assert cluster.leader(T0) == 1


def test_only_what_was_asked_for_is_replaced() -> None:
    cluster = ClusterMetadata()
    cluster.update(answer(topic("t", (1, 0)), topic("u", (1, 0))), ["t", "u"])
    cluster.update(answer(topic("t", error=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)), ["t"])
    assert cluster.partition_count("t") is None
    assert cluster.partition_count("u") == 1
    assert cluster.errors == {"t": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    cluster.update(answer(topic("t", (1, 0))), None)
    assert (list(cluster.topics), cluster.errors) == (["t"], {})


def test_an_answer_without_brokers_keeps_those_known() -> None:
    cluster = ClusterMetadata()
    cluster.update(answer(), None)
    cluster.update(answer(brokers=()), None)
    assert sorted(cluster.brokers) == [1, 2]


@pytest.mark.parametrize(
    ("leader", "epoch", "is_news"),
    [(2, 6, True), (3, 6, True), (2, 5, False), (2, 4, False), (-1, 6, False), (9, 6, False)],
    ids=["known", "with its address", "the same epoch", "an older one", "nobody", "without an address"],
)
def test_what_another_broker_says_of_a_leader(leader: int, epoch: int, is_news: bool) -> None:
    """KIP-951: it is believed if it is newer, and if there is a way there."""
    cluster = seen(topic("t", (1, 5)))
    endpoints = [NodeEndpoint(node_id=3, host="h3", port=9003)]
    assert cluster.lead(T0, LeaderIdAndEpoch(leader_id=leader, leader_epoch=epoch), endpoints) is is_news
    assert (cluster.leader(T0), cluster.leader_epoch(T0)) == ((leader, epoch) if is_news else (1, 5))
    cluster.update(answer(topic("t", (1, 5)), brokers=(1, 2, 3)), ["t"])
    assert cluster.leader(T0) == (leader if is_news else 1), "older metadata do not take it back"


def test_nothing_is_believed_of_partitions_that_are_not_known() -> None:
    assert not ClusterMetadata().lead(T0, LeaderIdAndEpoch(leader_id=1, leader_epoch=0), ())


def test_a_leader_that_moved_house_is_found_there() -> None:
    cluster = seen(topic("t", (1, 5)))
    moved = NodeEndpoint(node_id=2, host="h2", port=9999)
    assert cluster.lead(T0, LeaderIdAndEpoch(leader_id=2, leader_epoch=6), [moved])
    assert cluster.brokers[2].port == 9999
