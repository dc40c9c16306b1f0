"""The topic of group events as clients see it: written for real clients, internal, and over when it is switched off."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaError, TopicPartition
from confluent_kafka.admin import NewPartitions
from kafka import KafkaAdminClient

from ottla.testing import Broker, BrokerProcess
from tests.e2e.inside import refusal
from tests.e2e.test_cleaning import read
from tests.support.cast import Cast, places
from tests.support.clients import confluent
from tests.support.clients.confluent import producer, watermarks
from tests.support.kit import produce
from tests.support.waiting import wait_for

pytestmark = pytest.mark.e2e

TOPIC = "__ottla_group_events"
ON = {"ottla.group.events.enable": True}


def rows(broker: Any, group: str = "") -> list[dict[str, Any]]:
    """The events of a group, in order."""
    found = []
    for _, key, value in read(broker, TOPIC):
        row = json.loads(value or b"")
        assert key == row["group"].encode()
        if group in ("", row["group"]):
            found.append(row)
    return found


def wait_rows(broker: Any, group: str, event: str, count: int = 1) -> list[dict[str, Any]]:
    """All events of a group when there are so many of one kind."""

    def there() -> list[dict[str, Any]]:
        found = rows(broker, group)
        return found if sum(row["event"] == event for row in found) >= count else []

    return wait_for(there, f"{count} x {event}", show=lambda: rows(broker))


def test_a_group_of_every_client() -> None:
    """It grows, one is killed, the others leave: each generation is told once, with who was to blame."""
    with Broker(ON, topics={"told": 6}) as broker, Cast(broker.bootstrap_servers, "told") as cast:
        members = []
        for kind in ("confluent", "aiokafka", "kafka-python"):
            members.append(cast.join(kind))
            cast.wait_shared(members, places("told", 6))
        doomed = cast.join("confluent", process=True, session_timeout_ms=1_000)
        cast.wait_shared([*members, doomed], places("told", 6))
        doomed.kill()
        found = wait_rows(broker, "told", "heartbeat_expired")
        cast.wait_shared(members, places("told", 6))
        for one in members:
            one.stop()
        found = wait_for(
            lambda: (told := rows(broker, "told"))[-1].get("outcome") == "empty" and told, "the group to be Empty"
        )
        completed = [row for row in found if row["event"] == "rebalance_completed"]
        generations = [row["generation"] for row in completed]
        assert generations == sorted(set(generations))
        assert len(generations) >= 5
        assert (completed[-1]["outcome"], completed[-1]["members"]) == ("empty", 0)
        assert {row["client"] for row in found if row["event"] == "join_received"} == {
            one.role.name for one in (*members, doomed)
        }
        [expired] = [row for row in found if row["event"] == "heartbeat_expired"]
        assert expired["client"] == doomed.role.name
        after = next(row for row in completed if row["ts_ms"] >= expired["ts_ms"])
        assert (after["client"], after["host"]) == (doomed.role.name, "/127.0.0.1")
        assert sum(row["event"] == "member_left" for row in found) == 3


def test_it_is_internal() -> None:
    with Broker(ON, topics={"t": 1}) as broker:
        admin = confluent.admin(broker.bootstrap_servers)
        assert sorted(admin.list_topics(timeout=30).topics) == ["__consumer_offsets", TOPIC, "t"]
        assert watermarks(broker.bootstrap_servers, TOPIC) == (0, 0)
        described = KafkaAdminClient(bootstrap_servers=broker.bootstrap_servers).describe_topics([TOPIC])
        assert described[0]["is_internal"] is True
        refusals = []
        for asked in (
            admin.delete_topics([TOPIC], operation_timeout=30),
            admin.create_partitions([NewPartitions(TOPIC, 3)]),
            admin.delete_records([TopicPartition(TOPIC, 0, 0)]),
        ):
            refusals += [refusal(lambda future=future: future.result(30)) for future in asked.values()]
        assert len(refusals) == 3
        outcomes: list[Any] = []
        writer = producer(broker.bootstrap_servers, linger_ms=2)
        writer.produce(TOPIC, b"mine", partition=0, on_delivery=lambda error, _: outcomes.append(error))
        writer.flush(30)
        assert [error.code() for error in outcomes] == [KafkaError.TOPIC_EXCEPTION]
        assert watermarks(broker.bootstrap_servers, TOPIC) == (0, 0)


def test_its_settings_and_those_of_the_offsets() -> None:
    with Broker({**ON, "ottla.group.events.topic.num.partitions": 3}) as broker:
        kit = confluent.KIT(broker.bootstrap_servers)
        assert len(kit.leaders(TOPIC)) == 3
        wanted = {"cleanup.policy": "delete", "retention.ms": "604800000", "retention.bytes": "67108864"}
        assert kit.configs(TOPIC).items() >= wanted.items()
        assert kit.configs("__consumer_offsets")["min.compaction.lag.ms"] == "86400000"
    with Broker({"ottla.offsets.topic.min.compaction.lag.ms": 0}) as broker:
        kit = confluent.KIT(broker.bootstrap_servers)
        assert kit.configs("__consumer_offsets")["min.compaction.lag.ms"] == "0"


@pytest.mark.parametrize(("killed", "reasons"), [(False, ["given up", "loaded"]), (True, ["loaded"])])
def test_a_restart(tmp_path: Path, killed: bool, reasons: list[str]) -> None:
    """Old events stay. The move of the group is recorded when it is given up, if it is, and when it is loaded."""
    with BrokerProcess(tmp_path, topics={"kept": 2}, settings={"group.initial.rebalance.delay.ms": 0}) as broker:
        with Cast(broker.bootstrap_servers, "kept") as cast:
            one = cast.join("confluent")
            cast.wait_shared([one], places("kept", 2))
            before = wait_rows(broker, "kept", "rebalance_completed")
            if killed:
                broker.kill()
            broker.restart()
            cast.wait_shared([one], places("kept", 2))
            found = wait_rows(broker, "kept", "coordinator_moved", len(reasons))
        assert found[: len(before)] == before
        moved = [row for row in found if row["event"] == "coordinator_moved"]
        assert [(row["reason"], row["members"], row["generation"]) for row in moved] == [
            (reason, 1, 1) for reason in reasons
        ]


def test_switched_off(tmp_path: Path) -> None:
    """There is no topic; one that was there stays readable, and nothing is added to it."""
    off = {"ottla.group.events.enable": False}
    with Broker(off, topics={"t": 1}) as broker:
        grow(broker, "t")
        admin = confluent.admin(broker.bootstrap_servers)
        assert TOPIC not in admin.list_topics(timeout=30).topics
    with Broker(ON, topics={"t": 1}, data_dir=tmp_path) as broker:
        grow(broker, "t")
        wait_rows(broker, "t", "rebalance_completed")
    with Broker(off, data_dir=tmp_path) as broker:
        before = rows(broker)
        grow(broker, "t")
        assert rows(broker) == before != []


def grow(broker: Any, group: str) -> None:
    with Cast(broker.bootstrap_servers, group) as cast:
        cast.wait_shared([cast.join("confluent")], places(group, 1))


def test_without_any_other_observer() -> None:
    """Causes and durations need no memory for histories."""
    alone = {
        **ON,
        "ottla.history.memory.bytes": 0,
        "ottla.recorder.memory.bytes": 0,
        "ottla.sentinel.enable": False,
        "ottla.timeline.memory.bytes": 0,
    }
    with Broker(alone, topics={"alone": 1}) as broker:
        grow(broker, "alone")
        found = wait_rows(broker, "alone", "rebalance_completed", 2)
        completed = [row for row in found if row["event"] == "rebalance_completed"]
        assert (completed[0]["outcome"], completed[0]["cause"]) == ("stable", "group-started")
        assert [row["event"] for row in found].count("join_received") == 2


def test_hidden_names() -> None:
    hidden = {**ON, "ottla.recorder.hash.group.ids": True, "ottla.recorder.hash.client.hosts": True}
    with Broker(hidden, topics={"secret-name": 1}) as broker:
        grow(broker, "secret-name")
        found = wait_for(lambda: len(told := rows(broker)) > 4 and told, "events")
        assert "secret-name" not in json.dumps(found)
        assert "127.0.0.1" not in json.dumps(found)
        assert found[0]["group"].startswith("group-")


def test_its_retention() -> None:
    """Segments that are too much go, whatever the policy of other topics."""
    small = {
        **ON,
        "ottla.group.events.topic.retention.bytes": 70_000,
        "log.cleanup.policy": "compact",
        "log.retention.check.interval.ms": 50,
    }
    with Broker(small, topics={"churned": 1}) as broker:
        produce(broker.bootstrap_servers, "churned", ["one"])
        for _ in range(40):
            long_name = "c" * 900
            with Cast(broker.bootstrap_servers, "churned") as cast:
                cast.wait_shared([cast.join("confluent", name=long_name)], places("churned", 1))
            if watermarks(broker.bootstrap_servers, TOPIC)[0]:
                break
        wait_for(lambda: watermarks(broker.bootstrap_servers, TOPIC)[0], "old events to go")
        found = read(broker, TOPIC, auto_offset_reset="earliest")
        assert found[0][0] > 0
        assert sum(len(value or b"") for _, _, value in found) < 4 * 70_000
