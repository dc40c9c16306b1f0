"""The range and roundrobin assignors, against kafka-python's and aiokafka's on the same input."""

from typing import Any

import pytest
from aiokafka.coordinator.assignors.range import RangePartitionAssignor as AiokafkaRange
from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor as AiokafkaRoundRobin
from aiokafka.coordinator.protocol import ConsumerProtocolMemberMetadata
from hypothesis import given, settings
from kafka.coordinator.assignors.range import RangePartitionAssignor as KafkaPythonRange
from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor as KafkaPythonRoundRobin

from ottla.clients.assignors import Assignor, MemberSubscription, RangeAssignor, RoundRobinAssignor, make_assignors
from ottla.clients.errors import OptionError
from ottla.protocol.records import TopicPartition
from tests.clients.assignor_cases import Cluster, as_kafka_python, counts_and_members

PAIRS = [(RangeAssignor, AiokafkaRange), (RoundRobinAssignor, AiokafkaRoundRobin)]


def flat(assignments: dict[str, list[TopicPartition]]) -> dict[str, list[tuple[str, int]]]:
    return {member_id: sorted(tuple(tp) for tp in tps) for member_id, tps in assignments.items()}


def theirs(answer: Any, pairs_of: Any) -> dict[str, list[tuple[str, int]]]:
    return {
        member_id: sorted((topic, p) for topic, partitions in pairs_of(one) for p in partitions)
        for member_id, one in answer.items()
    }


@pytest.mark.parametrize(("ours", "aiokafka"), PAIRS, ids=["range", "roundrobin"])
@given(case=counts_and_members(static=False))
def test_same_as_aiokafka(ours: type[Assignor], aiokafka: Any, case: Any) -> None:
    counts, members = case
    metadata = {
        member_id: ConsumerProtocolMemberMetadata(0, list(member.topics), b"") for member_id, member in members.items()
    }
    expected = theirs(aiokafka.assign(Cluster(counts), metadata), lambda one: one.assignment)
    assert flat(ours().assign(counts, members)) == expected


@given(case=counts_and_members(static=True))
def test_range_same_as_kafka_python_with_static_members(case: Any) -> None:
    same_as_kafka_python(RangeAssignor(), KafkaPythonRange, case)


@given(case=counts_and_members(static=True, same_topics=True))
def test_roundrobin_same_as_kafka_python_with_static_members(case: Any) -> None:
    """With one subscription for all: kafka-python's fails when it has to pass over a member."""
    same_as_kafka_python(RoundRobinAssignor(), KafkaPythonRoundRobin, case)


def same_as_kafka_python(ours: Assignor, kafka_python: Any, case: Any) -> None:
    counts, members = case
    answer = kafka_python.assign(Cluster(counts), as_kafka_python(members))
    assert flat(ours.assign(counts, members)) == theirs(answer, lambda one: one.assigned_partitions)


def test_range_by_hand() -> None:
    members = {"c0": MemberSubscription(["a", "b"]), "c1": MemberSubscription(["a", "b"])}
    assert flat(RangeAssignor().assign({"a": 3, "b": 3}, members)) == {
        "c0": [("a", 0), ("a", 1), ("b", 0), ("b", 1)],
        "c1": [("a", 2), ("b", 2)],
    }


def test_roundrobin_passes_over_who_does_not_subscribe() -> None:
    members = {
        "c0": MemberSubscription(["t0"]),
        "c1": MemberSubscription(["t0", "t1"]),
        "c2": MemberSubscription(["t0", "t1", "t2"]),
    }
    assert flat(RoundRobinAssignor().assign({"t0": 1, "t1": 2, "t2": 3}, members)) == {
        "c0": [("t0", 0)],
        "c1": [("t1", 0)],
        "c2": [("t1", 1), ("t2", 0), ("t2", 1), ("t2", 2)],
    }


def test_a_static_member_keeps_its_place_under_another_member_id() -> None:
    before = {"z": MemberSubscription(["a"], group_instance_id="1"), "b": MemberSubscription(["a"])}
    after = {"b": MemberSubscription(["a"]), "q": MemberSubscription(["a"], group_instance_id="1")}
    for assignor in (RangeAssignor(), RoundRobinAssignor()):
        assert assignor.assign({"a": 5}, before)["z"] == assignor.assign({"a": 5}, after)["q"]


@settings(max_examples=30)
@given(case=counts_and_members(static=True))
def test_every_partition_goes_to_one_subscriber(case: Any) -> None:
    counts, members = case
    wanted = {(t, p) for m in members.values() for t in m.topics for p in range(counts.get(t, 0))}
    for assignor in make_assignors(["range", "roundrobin", "sticky", "cooperative-sticky"]):
        answer = assignor.assign(counts, members)
        assert set(answer) == set(members)
        assert sorted(tp for tps in answer.values() for tp in tps) == sorted(wanted)
        assert all(tp.topic in members[member_id].topics for member_id, tps in answer.items() for tp in tps)


@pytest.mark.parametrize("strategy", ["rang", ["range", "range"], [], [7], ["range", "no"]])
def test_a_strategy_that_cannot_be_is_named(strategy: Any) -> None:
    with pytest.raises(OptionError, match=r"partition_assignment_strategy=.*allowed"):
        make_assignors(strategy)


def test_strategies_keep_their_order() -> None:
    assert [one.name for one in make_assignors(["sticky", RangeAssignor()])] == ["sticky", "range"]
    assert [one.name for one in make_assignors("cooperative-sticky")] == ["cooperative-sticky"]
