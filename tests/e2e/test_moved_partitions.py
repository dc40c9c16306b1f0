"""Partitions are moved by stock admin clients and Kafka's own tools where nodes share a database."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaAdminClient, TopicPartition
from kafka import errors as kafka_errors
from kafka.admin import NewTopic

from ottla.testing import Cluster
from tests.e2e.conftest import Tool
from tests.support.waiting import wait_for

pytestmark = pytest.mark.e2e

TOPIC = "orders"
PREFERRED, UNCLEAN = 0, 1
ELECTED, ELECTION_NOT_NEEDED, PREFERRED_LEADER_NOT_AVAILABLE = 0, 84, 80


@pytest.fixture
async def cluster() -> AsyncIterator[Cluster]:
    async with Cluster(nodes=3, topics={TOPIC: 3}) as running:
        yield running


class Patient:
    """An admin client that asks again if it came upon a node that has just died: this one does not do so itself."""

    def __init__(self, client: KafkaAdminClient) -> None:
        self._client = client

    def __getattr__(self, verb: str) -> Callable[..., Any]:
        def ask(*arguments: Any, **options: Any) -> Any:
            for _ in range(20):
                try:
                    return getattr(self._client, verb)(*arguments, **options)
                except kafka_errors.KafkaConnectionError:
                    continue
            raise AssertionError(f"{verb}: no node answers")

        return ask


@pytest.fixture
def admin(cluster: Cluster) -> Iterator[Any]:
    client = KafkaAdminClient(bootstrap_servers=cluster.bootstrap_servers)
    yield Patient(client)
    client.close()


def place(partition: int, topic: str = TOPIC) -> TopicPartition:
    return TopicPartition(topic, partition)


def shown(admin: Any, topic: str) -> list[tuple[int, list[int], list[int]]]:
    """Leader, replicas and in-sync replicas of each partition."""
    (found,) = admin.describe_topics([topic])
    rows = sorted(found["partitions"], key=lambda row: int(row["partition_index"]))
    return [(row["leader_id"], row["replica_nodes"], row["isr_nodes"]) for row in rows]


def elected(admin: Any, kind: int, partitions: list[int]) -> dict[int, int]:
    told = admin.elect_leaders(kind, {TOPIC: partitions}, raise_errors=False)
    (topic,) = told.replica_election_results
    return {row.partition_id: row.error_code for row in topic.partition_result}


async def test_a_partition_is_at_home_with_the_first_replica_that_is_named(cluster: Cluster, admin: Any) -> None:
    assert shown(admin, TOPIC) == [(1, [1], [1]), (2, [2], [2]), (3, [3], [3])]
    cluster.produce(TOPIC, b"before", partition=0)
    assert admin.alter_partition_reassignments({place(0): [3], place(1): [3, 1, 2]}) == {place(0): None, place(1): None}
    wait_for(lambda: shown(admin, TOPIC)[:2] == [(3, [3], [3]), (3, [3, 1, 2], [3, 1, 2])], "both to be led by node 3")
    assert admin.list_partition_reassignments() == {}
    cluster.produce(TOPIC, b"after", partition=0)
    assert [record.value for record in cluster.records(TOPIC)] == [b"before", b"after"]
    await cluster.kill(3)
    wait_for(lambda: shown(admin, TOPIC)[1][0] in (1, 2), "another node to take over")
    assert shown(admin, TOPIC)[1][1:] == ([3, 1, 2], [1, 2])
    assert shown(admin, TOPIC)[0][1][0] == 3, "the home comes first though it is down"
    assert admin.list_partition_reassignments() == {}, "to a node that is down nothing is on its way"


def test_what_cannot_be_moved_is_refused(admin: Any) -> None:
    for partition, replicas, error in (
        (place(0), [1, 1], kafka_errors.InvalidReplicationAssignmentError),
        (place(0), [4], kafka_errors.InvalidReplicationAssignmentError),
        (place(9), [2], kafka_errors.UnknownTopicOrPartitionError),
        (place(0, "absent"), [2], kafka_errors.UnknownTopicOrPartitionError),
        (place(0), None, kafka_errors.NoReassignmentInProgressError),
    ):
        assert admin.alter_partition_reassignments({partition: replicas}) == {partition: error}
    assert shown(admin, TOPIC) == [(1, [1], [1]), (2, [2], [2]), (3, [3], [3])]


async def test_the_preferred_leader_is_elected_now(cluster: Cluster, admin: Any) -> None:
    await cluster.kill(3)
    wait_for(lambda: shown(admin, TOPIC)[2][0] in (1, 2), "another node to take over")
    assert elected(admin, PREFERRED, [0, 2]) == {0: ELECTION_NOT_NEEDED, 2: PREFERRED_LEADER_NOT_AVAILABLE}
    assert elected(admin, UNCLEAN, [0, 2]) == {0: ELECTION_NOT_NEEDED, 2: ELECTION_NOT_NEEDED}
    await cluster.start(3)
    # By itself it would go home once the nodes have been the same for ten seconds.
    wait_for(lambda: admin.list_partition_reassignments({TOPIC: [2]}), "the partition to be on its way")
    (moved,) = admin.list_partition_reassignments({TOPIC: [0, 2]}).items()
    assert moved[0] == place(2) and (moved[1]["adding_replicas"], moved[1]["replicas"][0]) == ([3], 3)
    assert elected(admin, PREFERRED, [0, 2]) == {0: ELECTION_NOT_NEEDED, 2: ELECTED}
    assert shown(admin, TOPIC)[2] == (3, [3], [3])
    assert elected(admin, PREFERRED, [2]) == {2: ELECTION_NOT_NEEDED}


async def test_a_move_is_given_up(cluster: Cluster, admin: Any) -> None:
    await cluster.kill(3)
    wait_for(lambda: shown(admin, TOPIC)[2][0] in (1, 2), "another node to take over")
    await cluster.start(3)
    wait_for(lambda: admin.list_partition_reassignments({TOPIC: [2]}), "the partition to be on its way")
    leader = shown(admin, TOPIC)[2][0]
    assert admin.alter_partition_reassignments({place(2): None}) == {place(2): None}
    wait_for(lambda: shown(admin, TOPIC)[2] == (leader, [leader], [leader]), "its leader to be its home")


def test_topics_have_as_many_replicas_as_there_are_nodes(cluster: Cluster, admin: Any) -> None:
    admin.create_topics([NewTopic("three", 3, 3), NewTopic("two", replica_assignments={0: [2, 3], 1: [3, 1]})])
    assert [row[1] for row in shown(admin, "three")] == [[1, 2, 3], [2, 3, 1], [3, 1, 2]]
    assert [row[1:] for row in shown(admin, "two")] == [([2, 3], [2, 3]), ([3, 1], [3, 1])]
    with pytest.raises(kafka_errors.InvalidReplicationFactorError, match="only 3 broker"):
        admin.create_topics([NewTopic("four", 1, 4)])


# -- Kafka's own tools


@pytest.mark.slow
async def test_kafkas_tools(kafkas_tool: Tool, cluster: Cluster, admin: Any, tmp_path: Path) -> None:
    tool: Callable[..., str] = partial(kafkas_tool, cluster.node(1))
    reassign = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"
    plan = tmp_path / "plan.json"
    rows = [{"topic": TOPIC, "partition": 0, "replicas": [2, 1, 3]}, {"topic": TOPIC, "partition": 1, "replicas": [3]}]
    plan.write_text(json.dumps({"version": 1, "partitions": rows}))
    assert "Successfully started" in tool(reassign, "--execute", "--reassignment-json-file", str(plan))
    wait_for(lambda: [row[0] for row in shown(admin, TOPIC)] == [2, 3, 3], "the partitions to move")
    assert tool(reassign, "--verify", "--reassignment-json-file", str(plan)).count("is completed") == 2
    assert "No partition reassignments found" in tool(reassign, "--list")
    await cluster.kill(3)
    wait_for(lambda: shown(admin, TOPIC)[1][0] in (1, 2), "another node to take over")
    await cluster.start(3)
    wait_for(lambda: admin.list_partition_reassignments({TOPIC: [1]}), "the partition to be on its way")
    everywhere = ("--election-type", "preferred", "--all-topic-partitions")
    assert "Successfully completed leader election" in tool("org.apache.kafka.tools.LeaderElectionCommand", *everywhere)
    assert [row[0] for row in shown(admin, TOPIC)] == [2, 3, 3]
