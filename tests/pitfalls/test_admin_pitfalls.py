"""Pitfalls 53 to 64: topics, settings, and what is kept of offsets."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import ErrorCode
from ottla.protocol.primitives import ZERO_UUID
from ottla.testing import Broker
from tests.support.client import Client, batch, fresh
from tests.support.requests import fetch_fields
from tests.support.waiting import wait_for

SETTINGS = {"num.partitions": 3}

INT32_MIN = -(2**31)
BROKER, TOPIC = 4, 2
SET, DELETE, APPEND, SUBTRACT = range(4)
STATIC_BROKER, DEFAULT, DYNAMIC_TOPIC = 4, 5, 1
INVALID_REQUEST, INVALID_TOPIC = ErrorCode.INVALID_REQUEST, ErrorCode.INVALID_TOPIC_EXCEPTION
UNKNOWN_TOPIC = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def create(client: Client, *rows: dict[str, Any], version: int = 7, validate_only: bool = False) -> list[Any]:
    defaults = {"num_partitions": -1, "replication_factor": -1}
    return list(
        client.call(
            ApiKey.CREATE_TOPICS,
            version,
            topics=[defaults | row for row in rows],
            timeout_ms=10_000,
            validate_only=validate_only,
        ).topics
    )


def names(client: Client) -> set[str]:
    return {topic.name for topic in client.metadata().topics}


def delete(client: Client, topic: str) -> int:
    fields = {"topic_names": [topic], "topics": [{"name": topic}], "timeout_ms": 10_000}
    return int(client.call(ApiKey.DELETE_TOPICS, 6, **fields).responses[0].error_code)


def settings_of(client: Client, name: str, kind: int = TOPIC, version: int = 4, **fields: Any) -> dict[str, Any]:
    """The rows of a resource by their names."""
    wanted = {"resource_type": kind, "resource_name": name, "configuration_keys": None}
    synonyms = fields.pop("include_synonyms", False)
    told = client.call(ApiKey.DESCRIBE_CONFIGS, version, resources=[wanted | fields], include_synonyms=synonyms)
    assert told.results[0].error_code == 0, told.results[0]
    return {row.name: row for row in told.results[0].configs}


def alter(client: Client, topic: str, *changes: tuple[str, int, str | None]) -> int:
    rows = [{"name": name, "config_operation": operation, "value": value} for name, operation, value in changes]
    resources = [{"resource_type": TOPIC, "resource_name": topic, "configs": rows}]
    told = client.call(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, resources=resources).responses
    assert len(told) == 1
    return int(told[0].error_code)


@pytest.mark.parametrize("version", range(14))
def test_pitfall_53_metadata_creates_what_it_is_asked_for_unless_it_says_not_to(client: Client, version: int) -> None:
    topic = fresh("made")
    if version >= 4:
        assert client.metadata(topic, version=version).topics[0].error_code == UNKNOWN_TOPIC
        assert topic not in names(client)
    for _ in range(20):
        told = client.metadata(topic, version=version, create=True).topics[0]
        if not told.error_code:
            break
        assert told.error_code in (ErrorCode.LEADER_NOT_AVAILABLE, UNKNOWN_TOPIC)
    assert (told.error_code, len(told.partitions)) == (0, 3)
    assert client.produce(topic, partition=2).error_code == 0


@pytest.mark.parametrize("name", ["", ".", "..", "x" * 250, "a b", "a/b", "a\n", "grün", "a:b"])
def test_pitfall_54_names_that_no_topic_has(client: Client, name: str) -> None:
    (told,) = create(client, {"name": name})
    assert told.error_code == INVALID_TOPIC
    assert client.metadata(name, create=True).topics[0].error_code == INVALID_TOPIC
    assert client.produce(name).error_code == UNKNOWN_TOPIC
    assert name not in names(client)


def test_pitfall_54_names_that_differ_in_what_metrics_cannot_tell_apart(client: Client) -> None:
    stem = fresh("like")
    assert [row.error_code for row in create(client, {"name": f"{stem}.b"})] == [0]
    assert [row.error_code for row in create(client, {"name": f"{stem}_b"})] == [INVALID_TOPIC]
    assert [row.error_code for row in create(client, {"name": "x" * (249 - len(stem)) + stem})] == [0]


def test_pitfall_55_what_topics_are_created_with(client: Client) -> None:
    (told,) = create(client, {"name": fresh("made")})
    assert (told.error_code, told.num_partitions, told.replication_factor) == (0, 3, 1)
    assert told.topic_id != ZERO_UUID
    assert {row.name for row in told.configs} > {"cleanup.policy"}
    placed = [{"partition_index": 0, "broker_ids": [client.metadata().brokers[0].node_id]}]
    bad = {
        "both": ({"num_partitions": 1, "assignments": placed}, INVALID_REQUEST),
        "replicas": ({"num_partitions": 1, "replication_factor": 3}, ErrorCode.INVALID_REPLICATION_FACTOR),
        "partitions": ({"num_partitions": 0, "replication_factor": 1}, ErrorCode.INVALID_PARTITIONS),
        "config": ({"configs": [{"name": "no.such.key", "value": "1"}]}, ErrorCode.INVALID_CONFIG),
        "value": ({"configs": [{"name": "retention.ms", "value": "soon"}]}, ErrorCode.INVALID_CONFIG),
    }
    stem = fresh("bad")
    rows = create(client, *({"name": f"{stem}-{name}", **row} for name, (row, _) in bad.items()))
    assert {row.name: row.error_code for row in rows} == {f"{stem}-{name}": code for name, (_, code) in bad.items()}
    twice = fresh("twice")
    assert {row.error_code for row in create(client, {"name": twice}, {"name": twice})} == {INVALID_REQUEST}
    assert [row.error_code for row in create(client, {"name": twice}, validate_only=True)] == [0]
    assert not {name for name in names(client) if name == twice or name.startswith(stem)}
    assert [row.error_code for row in create(client, {"name": twice, "assignments": placed})] == [0]
    assert [row.error_code for row in create(client, {"name": twice})] == [ErrorCode.TOPIC_ALREADY_EXISTS]
    for version in (2, 3):
        (told,) = create(client, {"name": fresh("old"), "num_partitions": 1, "replication_factor": 1}, version=version)
        assert told.error_code == 0


def test_pitfall_56_partitions_only_grow(client: Client) -> None:
    topic = client.topic(2)
    for count, error in ((2, ErrorCode.INVALID_PARTITIONS), (1, ErrorCode.INVALID_PARTITIONS), (4, 0)):
        rows = [{"name": topic, "count": count, "assignments": None}]
        told = client.call(ApiKey.CREATE_PARTITIONS, 3, topics=rows, timeout_ms=10_000)
        assert told.results[0].error_code == error
        assert len(client.metadata(topic).topics[0].partitions) == (2 if error else 4)
    assert client.produce(topic, partition=3).error_code == 0


def test_pitfall_57_a_deleted_topic_is_gone_at_once_and_the_next_one_is_another(client: Client, group: str) -> None:
    topic = client.topic()
    client.produce(topic, batch(b"a", b"b"))
    client.commit(group, topic, 2)
    old = client.topic_id(topic)
    assert delete(client, topic) == 0
    assert topic not in names(client)
    assert client.fetch(topic).error_code == UNKNOWN_TOPIC
    assert client.produce(topic).error_code == UNKNOWN_TOPIC
    by_id = fetch_fields(old, max_bytes=100, partition_max_bytes=100)
    assert client.call(ApiKey.FETCH, 13, **by_id).responses[0].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID
    assert client.committed(group, topic).committed_offset == -1
    assert delete(client, topic) == UNKNOWN_TOPIC
    client.create(topic)
    assert client.topic_id(topic) not in (old, ZERO_UUID)
    assert client.committed(group, topic).committed_offset == -1
    assert client.produce(topic).base_offset == 0
    assert client.call(ApiKey.FETCH, 13, **by_id).responses[0].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID


def test_pitfall_58_settings_change_one_by_one_or_as_a_whole(client: Client) -> None:
    topic = client.topic(cleanup_policy="delete")
    assert alter(client, topic, ("retention.ms", SET, "60000"), ("cleanup.policy", APPEND, "compact")) == 0
    told = settings_of(client, topic)
    assert (told["retention.ms"].value, told["cleanup.policy"].value) == ("60000", "delete,compact")
    assert alter(client, topic, ("cleanup.policy", SUBTRACT, "delete"), ("retention.ms", DELETE, None)) == 0
    told = settings_of(client, topic)
    assert (told["retention.ms"].value, told["cleanup.policy"].value) == ("604800000", "compact")
    for refused, changes in (
        (ErrorCode.INVALID_CONFIG, [("retention.ms", APPEND, "1")]),
        (ErrorCode.INVALID_CONFIG, [("retention.ms", SUBTRACT, "1")]),
        (INVALID_REQUEST, [("retention.ms", SET, "1"), ("retention.ms", SET, "2")]),
        (INVALID_REQUEST, [("retention.ms", SET, None)]),
        (ErrorCode.INVALID_CONFIG, [("segment.bytes", SET, "2000000"), ("no.such.key", SET, "1")]),
    ):
        assert alter(client, topic, *changes) == refused
    assert settings_of(client, topic) == told, "a refusal changes nothing"
    rows = [{"name": "retention.bytes", "value": "7"}]
    whole = [{"resource_type": TOPIC, "resource_name": topic, "configs": rows}]
    assert client.call(ApiKey.ALTER_CONFIGS, 2, resources=whole).responses[0].error_code == 0
    dynamic = [row.name for row in settings_of(client, topic).values() if row.config_source == DYNAMIC_TOPIC]
    assert dynamic == ["retention.bytes"], "what is not named is as by default again"


def test_pitfall_59_settings_as_they_are_told(client: Client) -> None:
    topic = client.topic(retention_ms="60000")
    every = settings_of(client, topic)
    assert every.keys() == settings_of(client, topic, configuration_keys=[]).keys()
    assert settings_of(client, topic, configuration_keys=["retention.ms"]).keys() == {"retention.ms"}
    assert {"retention.ms", "cleanup.policy", "segment.bytes", "max.message.bytes"} < every.keys()
    mine, default = every["retention.ms"], every["segment.bytes"]
    assert (mine.config_source, mine.value, mine.read_only, mine.is_sensitive) == (DYNAMIC_TOPIC, "60000", False, False)
    assert (default.config_source, default.value) == (DEFAULT, str(1 << 30))
    kinds = {row.name: row.config_type for row in every.values()}
    assert [kinds[name] for name in ("retention.ms", "cleanup.policy", "segment.bytes")] == [5, 7, 3]
    assert 0 not in kinds.values()
    assert all(row.synonyms == [] for row in every.values())
    assert settings_of(client, topic, include_synonyms=True)["retention.ms"].synonyms[0].value == "60000"
    node = str(client.metadata().brokers[0].node_id)
    listeners = settings_of(client, node, BROKER)["advertised.listeners"]
    assert (listeners.config_source, listeners.read_only) == (STATIC_BROKER, True)
    assert str(client.socket.getpeername()[1]) in listeners.value
    nobody = [{"resource_type": TOPIC, "resource_name": "nobody-has-it", "configuration_keys": None}]
    told = client.call(ApiKey.DESCRIBE_CONFIGS, 4, resources=nobody).results[0]
    assert (told.error_code, told.configs) == (UNKNOWN_TOPIC, [])


def test_pitfall_60_deleted_records_are_below_the_start_of_the_log(client: Client, topic: str) -> None:
    for _ in range(3):
        client.produce(topic, batch(b"a", b"b"))
    for offset, error, low in ((3, 0, 3), (7, ErrorCode.OFFSET_OUT_OF_RANGE, -1), (-1, 0, 6), (2, 0, 6)):
        told = client.delete_records(topic, offset)
        assert (told.error_code, told.low_watermark) == (error, low)
        start = 6 if offset in (-1, 2) else 3
        assert client.offset(topic, -2).offset == start
        assert client.fetch(topic, 6).log_start_offset == start
        assert client.fetch(topic, start - 1).error_code == ErrorCode.OFFSET_OUT_OF_RANGE


@pytest.mark.parametrize("version", [0, 1, 2])
def test_pitfall_61_a_leader_that_leads_need_not_be_elected(client: Client, topic: str, version: int) -> None:
    named = [{"topic": topic, "partitions": [0]}]
    told = client.call(ApiKey.ELECT_LEADERS, version, topic_partitions=named, timeout_ms=10_000)
    (row,) = told.replica_election_results
    assert (told.error_code, row.topic) == (0, topic)
    assert [place.error_code for place in row.partition_result] == [ErrorCode.ELECTION_NOT_NEEDED]
    everything = client.call(ApiKey.ELECT_LEADERS, version, topic_partitions=None, timeout_ms=10_000)
    assert everything.error_code == 0
    assert not [place for row in everything.replica_election_results for place in row.partition_result]


@pytest.mark.parametrize("version", range(6, 10))
def test_pitfall_62_what_is_committed_with_an_offset_comes_back(client: Client, group: str, version: int) -> None:
    topic = client.topic()
    note = "ü€😀 " + "x" * 4000
    assert client.commit(group, topic, 5, version, committed_metadata=note, committed_leader_epoch=7) == 0
    told = client.committed(group, topic, version)
    assert (told.committed_offset, told.committed_leader_epoch, told.metadata) == (5, 7, note)
    for size, error in ((4097, ErrorCode.OFFSET_METADATA_TOO_LARGE), (4096, 0)):
        assert client.commit(group, topic, 6, version, committed_metadata="x" * size) == error
        assert client.committed(group, topic, version).committed_offset == (5 if error else 6)


def test_pitfall_63_minus_one_is_the_brokers_retention_and_not_none() -> None:
    with Broker({"offsets.retention.check.interval.ms": 30}) as broker, Client(broker.port) as client:
        topic = client.topic()
        keeps = {version: fresh("keeps") for version in range(2, 5)}
        for version, group in keeps.items():
            assert client.commit(group, topic, 5, version, retention_time_ms=-1) == 0
        gone = fresh("goes")
        assert client.commit(gone, topic, 5, 4, retention_time_ms=1) == 0
        wait_for(lambda: client.committed(gone, topic).committed_offset == -1, "a sweep to come by", timeout_s=10)
        assert [client.committed(group, topic).committed_offset for group in keeps.values()] == [5, 5, 5]


def test_pitfall_64_what_is_allowed_is_told_to_who_asks(client: Client, topic: str, group: str) -> None:
    client.commit(group, topic)
    for wanted in (False, True):
        told = []
        for version in range(8, 14):
            answer = client.call(
                ApiKey.METADATA,
                version,
                topics=[{"name": topic}],
                include_topic_authorized_operations=wanted,
                include_cluster_authorized_operations=wanted,
            )
            told.append(answer.topics[0].topic_authorized_operations)
            told += [answer.cluster_authorized_operations] if version <= 10 else []
        for version in range(3, 7):
            answer = client.call(ApiKey.DESCRIBE_GROUPS, version, groups=[group], include_authorized_operations=wanted)
            told.append(answer.groups[0].authorized_operations)
        fields = {"endpoint_type": 1, "include_cluster_authorized_operations": wanted}
        told += [client.call(ApiKey.DESCRIBE_CLUSTER, v, **fields).cluster_authorized_operations for v in range(3)]
        assert all((value > 0) is wanted and (value != INT32_MIN) is wanted for value in told), told
