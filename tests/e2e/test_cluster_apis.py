"""Directories, leaders and replicas of the one node, as stock admin clients and Kafka's own tools see them."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient
from kafka import KafkaAdminClient, TopicPartition
from kafka import errors as kafka_errors

from ottla.testing import Broker
from tests.e2e.conftest import Tool

pytestmark = pytest.mark.e2e

ELECTION_NOT_NEEDED = 84


@pytest.fixture
def broker(ottla_broker_factory: Callable[..., Broker], tmp_path: Path) -> Broker:
    return ottla_broker_factory(data_dir=tmp_path / "data", topics={"orders": 3})


def test_log_dirs(python_admin: KafkaAdminClient, tmp_path: Path) -> None:
    (row,) = python_admin.describe_log_dirs()
    (directory,) = row["log_dirs"]
    assert (row["broker"], directory["log_dir"]) == (1, str(tmp_path / "data"))
    assert 0 < directory["usable_bytes"] < directory["total_bytes"]
    sizes = {topic["name"]: len(topic["partitions"]) for topic in directory["topics"]}
    assert sizes["orders"] == 3


def test_topics_in_pages(python_admin: KafkaAdminClient) -> None:
    page = python_admin.describe_topic_partitions(["orders"], response_partition_limit=2)
    (topic,) = page["topics"]
    assert [partition["partition_index"] for partition in topic["partitions"]] == [0, 1]
    assert (page["next_cursor"]["topic_name"], page["next_cursor"]["partition_index"]) == ("orders", 2)


def test_leaders_are_elected_already(python_admin: KafkaAdminClient, admin: AdminClient) -> None:
    told = python_admin.elect_leaders(0, {"orders": [0, 1]})
    (topic,) = told.replica_election_results
    assert [row.error_code for row in topic.partition_result] == [ELECTION_NOT_NEEDED] * 2
    places = [confluent_kafka.TopicPartition("orders", 0), confluent_kafka.TopicPartition("absent", 0)]
    errors: Any = admin.elect_leaders(confluent_kafka.ElectionType.PREFERRED, places).result(30)
    assert {place.topic: error.code() for place, error in errors.items()} == {
        "orders": ELECTION_NOT_NEEDED,
        "absent": confluent_kafka.KafkaError.UNKNOWN_TOPIC_OR_PART,
    }
    assert admin.elect_leaders(confluent_kafka.ElectionType.UNCLEAN, None).result(30) == {}


def test_replicas_stay(python_admin: KafkaAdminClient) -> None:
    assert python_admin.list_partition_reassignments() == {}
    place = TopicPartition("orders", 0)
    for replicas, error in (
        ([1], None),
        ([2], kafka_errors.InvalidReplicationAssignmentError),
        (None, kafka_errors.NoReassignmentInProgressError),
    ):
        assert python_admin.alter_partition_reassignments({place: replicas}) == {place: error}


# -- Kafka's own tools


@pytest.mark.slow
def test_kafkas_tools(kafkas_tool: Tool, broker: Broker, tmp_path: Path) -> None:
    tool = partial(kafkas_tool, broker)
    topics = tool("org.apache.kafka.tools.TopicCommand", "--describe", "--topic", "orders")
    assert topics.count("Leader: 1\tReplicas: 1\tIsr: 1\tElr: \tLastKnownElr: ") == 3
    directories = tool("org.apache.kafka.tools.LogDirsCommand", "--describe", "--topic-list", "orders")
    assert f'"logDir":"{tmp_path / "data"}"' in directories and '"partition":"orders-2"' in directories
    everywhere = ("--election-type", "preferred", "--all-topic-partitions")
    assert tool("org.apache.kafka.tools.LeaderElectionCommand", *everywhere) == ""
    one = ("--election-type", "unclean", "--topic", "orders", "--partition", "1")
    elected = tool("org.apache.kafka.tools.LeaderElectionCommand", *one)
    assert "Valid replica already elected for partitions orders-1" in elected
    reassign = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"
    assert "No partition reassignments found" in tool(reassign, "--list")
    plan = tmp_path / "plan.json"
    plan.write_text(json.dumps({"version": 1, "partitions": [{"topic": "orders", "partition": 0, "replicas": [1]}]}))
    assert "Successfully started" in tool(reassign, "--execute", "--reassignment-json-file", str(plan))
    assert "is completed" in tool(reassign, "--verify", "--reassignment-json-file", str(plan))
    assert "None of the specified" in tool(reassign, "--cancel", "--reassignment-json-file", str(plan))
    assert "StartOffset" in tool("org.apache.kafka.tools.TransactionsCommand", "find-hanging", "--broker-id", "1")
