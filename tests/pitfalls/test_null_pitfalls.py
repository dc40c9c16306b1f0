"""Pitfalls 11 to 19: null and empty are not the same.

Answers are decoded and encoded anew, so that what the version cannot say as null was not null on the wire.
"""

from __future__ import annotations

import pytest

from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.fetch import FetchRequest
from ottla.protocol.messages.offset_fetch import OffsetFetchRequest
from tests.pitfalls.conftest import Connect
from tests.support.client import Client, fresh

READ_COMMITTED = 1
BY_NAME = [version for version in OffsetFetchRequest.versions if version <= 9]


def test_pitfall_11_describe_topic_partitions_has_no_null_lists_of_replicas(client: Client) -> None:
    topic = client.topic(2)
    answer = client.call(
        ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, topics=[{"name": topic}], response_partition_limit=10, cursor=None
    )
    for partition in answer.topics[0].partitions:
        assert partition.eligible_leader_replicas == []
        assert partition.last_known_elr == []
        assert partition.replica_nodes == partition.isr_nodes != []
    assert answer.next_cursor is None, "the end"


@pytest.mark.parametrize("version", [5, 6, 7])
def test_pitfall_12_create_topics_tells_the_settings(client: Client, version: int) -> None:
    row = {"name": f"settings-{version}", "num_partitions": 3, "replication_factor": 1}
    told = client.call(ApiKey.CREATE_TOPICS, version, topics=[row], timeout_ms=10_000).topics[0]
    assert (told.error_code, told.topic_config_error_code, told.num_partitions) == (0, 0, 3)
    assert {config.name for config in told.configs} > {"retention.ms", "cleanup.policy"}


@pytest.mark.parametrize("version", [0, 1])
def test_pitfall_13_no_quotas_are_an_empty_list(client: Client, version: int) -> None:
    answer = client.call(ApiKey.DESCRIBE_CLIENT_QUOTAS, version)
    assert (answer.error_code, answer.entries) == (0, [])
    refused = client.call(ApiKey.DESCRIBE_CLIENT_QUOTAS, version, components=[{"entity_type": "no-such-kind"}])
    assert refused.error_code != 0
    assert refused.entries is None, "there is no answer"


@pytest.mark.parametrize("version", FetchRequest.versions)
def test_pitfall_14_records_of_a_fetch_are_never_null(client: Client, topic: str, version: int) -> None:
    client.produce(topic)
    places = client.fetch(topic, 1, version), client.fetch(topic, 99, version)
    assert [place.error_code for place in places] == [0, ErrorCode.OFFSET_OUT_OF_RANGE]
    missing = client.fetch(topic, 0, version, partition=7), client.fetch("nobody-has-it", 0, version)
    assert all(place.error_code for place in missing)
    for place in (*places, *missing):
        assert place.records == b""
        assert place.records is not None


@pytest.mark.parametrize("version", BY_NAME)
def test_pitfall_15_metadata_of_an_offset_is_empty_and_not_null(client: Client, group: str, version: int) -> None:
    topic = client.topic()
    for _ in ("nothing was committed", "null was committed"):
        assert client.committed(group, topic, version).metadata == ""
        assert client.commit(group, topic, committed_metadata=None) == 0
    assert client.committed(group, "nobody-has-it", version).metadata == ""


@pytest.mark.parametrize("version", FetchRequest.versions)
def test_pitfall_16_no_aborted_transactions_are_an_empty_list_for_who_reads_committed(
    client: Client, version: int
) -> None:
    topic = client.topic()
    client.produce(topic)
    told = client.fetch(topic, 0, version, isolation_level=READ_COMMITTED)
    assert told.records
    assert told.aborted_transactions == []
    assert not client.fetch(topic, 0, version).aborted_transactions


def test_pitfall_17_an_empty_instance_id_is_a_static_one_and_null_is_none(connect: Connect, group: str) -> None:
    client = connect()
    assert client.join(fresh("group"), instance=None).error_code == ErrorCode.MEMBER_ID_REQUIRED
    joined = client.join(group, instance="")
    assert joined.error_code == 0, "static members need no second round"
    (member,) = client.describe(group).members
    assert member.group_instance_id == ""
    assert client.heartbeat(group, joined, group_instance_id="") == 0
    dynamic = connect()
    member_id = dynamic.start_enter(group)
    again = client.let_in(group, joined, dynamic, instance="")
    assert [answer.generation_id for answer in again] == [2, 2]
    told = {member.member_id: member.group_instance_id for member in client.describe(group).members}
    assert told == {joined.member_id: "", member_id: None}


def test_pitfall_18_an_empty_member_id_is_a_newcomer_and_the_protocol_name_of_an_error_depends_on_the_version(
    client: Client, group: str
) -> None:
    first, second = (client.join(group, version=7) for _ in range(2))
    assert first.error_code == second.error_code == ErrorCode.MEMBER_ID_REQUIRED
    assert first.member_id != second.member_id, "everybody is somebody else"
    for version in range(10):
        refused = client.join(group, version, member_id="nobody")
        assert refused.error_code == ErrorCode.UNKNOWN_MEMBER_ID
        assert refused.protocol_name == (None if version >= 7 else "")
        assert refused.members == []


def test_pitfall_19_a_member_without_an_assignment_gets_no_bytes(connect: Connect, group: str) -> None:
    leader, other = connect(), connect()
    joined = leader.stable(group)
    other.start_enter(group)
    answers = leader.let_in(group, joined, other)
    other.start_sync(group, answers[1], {})
    assert leader.sync(group, answers[0], {joined.member_id: b"\0\1 all of it"}).assignment == b"\0\1 all of it"
    told = other.answer()
    assert (told.error_code, told.assignment) == (0, b"")
    for version in range(6):
        refused = leader.sync(group, joined, version=version)
        assert (refused.error_code, refused.assignment) == (ErrorCode.ILLEGAL_GENERATION, b"")
