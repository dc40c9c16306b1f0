"""Requests of real clients to a served broker, recorded in a file and replayed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import TopicPartition

from ottla.broker.core.events import Disconnected, Event, GroupLoaded, SessionExpired, TxnCommitReceived
from ottla.observe.recording import Recording, open_recording
from ottla.testing import BrokerProcess
from tests.e2e.test_transactions import PATIENCE_S, producer, send
from tests.interop.python.groups import values
from tests.support.cast import Cast, places
from tests.support.clients import confluent
from tests.support.kit import produce
from tests.support.processes import python
from tests.support.waiting import wait_for

pytestmark = pytest.mark.e2e

PARTITIONS = 6
SETTINGS = {"group.initial.rebalance.delay.ms": 300}


def replayed(path: Path) -> dict[str, Any]:
    """The output of `ottla replay`."""
    verdict: dict[str, Any] = json.loads(python("ottla.cli", "replay", str(path), "--format", "json"))
    assert verdict["differences"] == [], verdict
    return verdict


def life(broker: BrokerProcess, group: str) -> None:
    """A group of every kind of client: it grows, one is killed, one leaves; records are read and offsets committed."""
    confluent.create_topics(broker.bootstrap_servers, {group: PARTITIONS})
    with Cast(broker.bootstrap_servers, group) as cast:
        doomed = cast.join("confluent", process=True)
        staying = [cast.join(kind) for kind in ("aiokafka", "kafka-python")]
        cast.wait_shared([doomed, *staying], places(group, PARTITIONS))
        known = values("recorded")
        produce(broker.bootstrap_servers, group, known)
        cast.wait_seen(known)
        doomed.kill()
        cast.wait_shared(staying, places(group, PARTITIONS))


def commit_in_transaction(broker: BrokerProcess, group: str) -> None:
    """A record and an offset of a group without members, in one transaction."""
    made = producer(broker, "recorded")
    consumer = confluent.consumer(broker.bootstrap_servers, group)
    made.begin_transaction()
    send(made, group, "in a transaction")
    places = [TopicPartition(group, 0, 1)]
    made.send_offsets_to_transaction(places, consumer.consumer_group_metadata(), PATIENCE_S)
    made.commit_transaction(PATIENCE_S)
    consumer.close()


def kinds(recording: Recording) -> set[type[Event]]:
    return {type(event) for event in recording.events()}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["events.rec", "events.jsonl"])
def test_clients_of_all_kinds_and_a_restart(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    arguments = ("--record", str(path))
    with BrokerProcess(tmp_path / "data", settings=SETTINGS, arguments=arguments) as broker:
        life(broker, "first")
        commit_in_transaction(broker, "first")
        broker.stop()
        first = replayed(path)
        assert (first["groups"], first["left_out"], first["notes"]) == (["first"], [], [])
        assert first["compared"] + first["others"] == first["events"] > 100
        assert {Disconnected, SessionExpired, TxnCommitReceived} < kinds(open_recording(path))
        broker.start()
        life(broker, "second")
        broker.stop()
    second = replayed(path)
    earlier = tmp_path / f"events.000001{path.suffix}"
    assert second["groups"] == ["first", "second"]
    assert second["notes"] == [f"this is one run of the broker; what was before its start is in {earlier}"]
    assert second["compared"] + second["others"] == second["events"]
    assert GroupLoaded in kinds(open_recording(path))
    assert replayed(earlier) | {"parts": []} == first | {"parts": []}


def test_a_broker_that_was_killed_and_hides_names(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    hides = {"ottla.recorder.hash.group.ids": True, "ottla.recorder.hash.client.hosts": True}
    with BrokerProcess(settings=SETTINGS | hides, arguments=("--record", str(path))) as broker:
        life(broker, "secret")
        wait_for(lambda: "SessionExpired" in path.read_text(), "the expiry to be in the file")
        broker.kill()
    verdict = replayed(path)
    (group_id,) = verdict["groups"]
    assert "secret" not in group_id
    assert '"group_id":"secret"' not in path.read_text()
    assert "127.0.0.1" not in path.read_text()
    assert verdict["compared"] > 100


@pytest.mark.slow
def test_parts_that_begin_in_the_middle(tmp_path: Path) -> None:
    path = tmp_path / "events.rec"
    small = {"ottla.recorder.file.bytes": 20_000, "ottla.recorder.file.count": 1}
    with BrokerProcess(settings=SETTINGS | small, arguments=("--record", str(path))) as broker:
        life(broker, "early")
        for number in range(3):
            life(broker, f"late-{number}")
        broker.stop()
    verdict = replayed(path)
    assert len(verdict["parts"]) == 2
    assert "not there any more" in verdict["notes"][0]
    assert "early" not in verdict["groups"]
    assert "late-2" in verdict["groups"]
