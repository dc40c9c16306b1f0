"""Incidents with confluent-kafka (librdkafka): `why`, its JSON and the timeline name the same trigger and culprit."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import msgspec
import pytest
from confluent_kafka.admin import NewPartitions, NewTopic

from ottla.broker.observe.recording import open_recording
from ottla.broker.observe.why.history import History
from ottla.broker.observe.why.model import Episode
from ottla.broker.observe.why.words import verdict
from ottla.testing import Broker
from tests.support.cast import Cast, places
from tests.support.clients import confluent
from tests.support.waiting import wait_for

pytestmark = [pytest.mark.e2e]

TOPIC = "orders"
PARTITIONS = 6
QUICK = {"heartbeat.interval.ms": 500, "topic.metadata.refresh.interval.ms": 500}


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker({"group.min.session.timeout.ms": 6_000}, topics={TOPIC: PARTITIONS}, http=True) as broker:
        yield broker


@pytest.fixture
def cast(broker: Broker) -> Iterator[Cast]:
    with Cast(broker.bootstrap_servers, "billing") as cast:
        yield cast


def joined(cast: Cast, *names: str, instances: dict[str, str] | None = None, **fields: Any) -> list[Any]:
    """A group of these, in which each has its share."""
    members: list[Any] = []
    for name in names:
        own = {"options": QUICK} | fields
        if instances:
            own["instance_id"] = instances[name]
        members.append(cast.join("confluent", [TOPIC], name=name, **own))
        cast.wait_shared(members, places(TOPIC, PARTITIONS))
    return members


def get(broker: Broker, what: str) -> bytes:
    with urlopen(f"{broker.http_url}/v1/groups/billing/{what}?last=100", timeout=30) as answer:
        body: bytes = answer.read()
        return body


def episodes(broker: Broker) -> list[Episode]:
    return msgspec.convert(json.loads(get(broker, "why"))["episodes"], list[Episode])


def recorded(broker: Broker, cast: Cast, cause: str, found: Callable[[Episode], bool] = lambda one: True) -> Episode:
    """Wait for an episode of a class that is over; the timeline must name the same culprit."""

    def there() -> Episode | None:
        over = (one for one in episodes(broker) if one.cause == cause and one.outcome != "running")
        return next(filter(found, over), None)

    def show() -> str:
        told = [verdict(one) for one in episodes(broker)]
        return "\n".join([*told, cast.describe()])

    episode = wait_for(there, f"an episode {cause}", show=show)
    assert sum(part.blamed_ms for part in episode.members) <= episode.stood_ms
    if episode.kind != "refusal":  # who is turned away has no lane
        timeline = json.loads(get(broker, "timeline"))
        mark = next(one for one in timeline["marks"] if one["number"] == episode.number)
        drawn = timeline["lanes"][mark["culprit"]]["client_id"] if "culprit" in mark else ""
        assert drawn == (episode.members[episode.culprit].client_id if episode.culprit >= 0 else "")
        assert mark["cause"] == cause
    return episode


def busy(one: Any) -> threading.Event:
    """Its application does something else than poll until the event is set."""
    begun, over = threading.Event(), threading.Event()

    def work(_: object) -> None:
        begun.set()
        over.wait(120)

    threading.Thread(target=one.ask, args=(work, 120), daemon=True).start()
    assert begun.wait(60)
    return over


def test_a_group_that_starts_and_is_closed(broker: Broker, cast: Cast) -> None:
    one, two = joined(cast, "one", "two")
    started = recorded(broker, cast, "group-started")
    assert verdict(started) == "cause group-started, triggered by one, no culprit"
    assert verdict(recorded(broker, cast, "member-joined")).startswith(
        "cause member-joined, triggered by two, culprit "
    )
    two.stop()
    closed = recorded(broker, cast, "left-closed")
    assert verdict(closed) == "cause left-closed, triggered by two, culprit two"
    one.stop()
    last = recorded(broker, cast, "left-closed", lambda one: one.outcome == "empty")
    assert verdict(last) == "cause left-closed, triggered by one, no culprit"


@pytest.mark.slow
def test_a_stopped_process(broker: Broker, cast: Cast) -> None:
    (one,) = joined(cast, "one")
    frozen = cast.join("confluent", [TOPIC], name="two", process=True, options=QUICK)
    cast.wait_shared([one, frozen], places(TOPIC, PARTITIONS))
    frozen.pause()
    told = recorded(broker, cast, "session-expired-silent")
    assert verdict(told) == "cause session-expired-silent, triggered by two, culprit two"


@pytest.mark.slow
def test_a_killed_process(broker: Broker, cast: Cast) -> None:
    (one,) = joined(cast, "one")
    doomed = cast.join("confluent", [TOPIC], name="two", process=True, options=QUICK)
    cast.wait_shared([one, doomed], places(TOPIC, PARTITIONS))
    doomed.kill()
    told = recorded(broker, cast, "session-expired-connection-lost")
    assert verdict(told) == "cause session-expired-connection-lost, triggered by two, culprit two"


@pytest.mark.slow
def test_a_static_member_that_is_back_in_time(broker: Broker, cast: Cast) -> None:
    static = {"one": "pod-1", "two": "pod-2"}
    one, two = joined(cast, "one", "two", instances=static, session_timeout_ms=45_000)
    two.stop()
    back = cast.join("confluent", [TOPIC], name="two", instance_id="pod-2", session_timeout_ms=45_000, options=QUICK)
    cast.wait_shared([one, back], places(TOPIC, PARTITIONS))
    told = recorded(broker, cast, "static-member-replaced")
    assert told.kind == "replacement"
    assert verdict(told) == "cause static-member-replaced, triggered by pod-2, culprit pod-2"


@pytest.mark.slow
def test_two_processes_with_one_instance_id(broker: Broker, cast: Cast) -> None:
    joined(cast, "one", "two", instances={"one": "pod-1", "two": "pod-2"}, session_timeout_ms=45_000)
    cast.join("confluent", [TOPIC], name="three", instance_id="pod-2", session_timeout_ms=45_000, options=QUICK)
    told = recorded(broker, cast, "duplicate-instance-id")
    assert told.kind == "refusal"
    assert told.culprit == told.triggers[0].member
    assert told.members[told.culprit].client_id == "three"


@pytest.mark.slow
def test_partitions_that_are_added(tmp_path: Path) -> None:
    """A recording tells the same afterwards."""
    path = tmp_path / "run.ottla"
    with (
        Broker({"ottla.recorder.file": str(path)}, topics={TOPIC: PARTITIONS}, http=True) as broker,
        Cast(broker.bootstrap_servers, "billing") as cast,
    ):
        members = joined(cast, "one", "two")
        admin = confluent.admin(broker.bootstrap_servers)
        admin.create_partitions([NewPartitions(TOPIC, 2 * PARTITIONS)])[TOPIC].result(30)
        cast.wait_shared(members, places(TOPIC, 2 * PARTITIONS))
        told = recorded(broker, cast, "topic-metadata-changed")
    assert told.culprit == -1
    assert told.members[told.triggers[0].member].is_leader
    assert told.headline.startswith("orders had 6 partitions and has 12 now, so the leader ")
    history = History()
    for event in open_recording(path).events():
        history(event)
    (again,) = [one for one in history.episodes("billing") if one.number == told.number]
    assert (again.headline, again.sentences) == (told.headline, told.sentences)


@pytest.mark.slow
def test_assignors_that_do_not_fit(broker: Broker, cast: Cast) -> None:
    joined(cast, "one", "two", assignor="range")
    cast.join("confluent", [TOPIC], name="three", assignor="cooperative-sticky", options=QUICK)
    told = recorded(broker, cast, "turned-away-assignor-mismatch")
    assert verdict(told) == "cause turned-away-assignor-mismatch, triggered by three, culprit three"


@pytest.mark.slow
def test_an_application_that_is_too_slow(broker: Broker, cast: Cast) -> None:
    _, slow = joined(cast, "one", "two", options=QUICK | {"max.poll.interval.ms": 6_000})
    over = busy(slow)
    told = recorded(broker, cast, "left-poll-timeout")
    over.set()
    assert verdict(told) == "cause left-poll-timeout, triggered by two, culprit two"


@pytest.mark.slow
def test_a_join_that_waits_for_a_busy_member(broker: Broker, cast: Cast) -> None:
    one, two = joined(cast, "one", "two")
    over = busy(two)
    cast.join("confluent", [TOPIC], name="three", options=QUICK)

    def runs() -> Episode | None:
        last = episodes(broker)[-1]
        is_late = last.outcome == "running" and last.culprit not in (-1, last.triggers[0].member)
        return last if is_late else None

    running = wait_for(runs, "somebody to be late", show=cast.describe)
    assert verdict(running) == "cause member-joined, triggered by three, culprit two"
    over.set()
    told = recorded(broker, cast, "member-joined", lambda episode: episode.number == running.number)
    assert verdict(told) == "cause member-joined, triggered by three, culprit two"
    shares = {part.client_id: part.blamed_ms for part in told.members}
    assert shares["two"] > 3 * 3_000 and not shares["one"], "one only waited"
    assert one.changes


@pytest.mark.slow
def test_a_subscription_that_changes(broker: Broker, cast: Cast) -> None:
    admin = confluent.admin(broker.bootstrap_servers)
    admin.create_topics([NewTopic("refunds", 2)])["refunds"].result(30)
    _, two = joined(cast, "one", "two")
    two.ask(lambda consumer: consumer.subscribe([TOPIC, "refunds"]))
    more = recorded(broker, cast, "subscription-changed")
    assert verdict(more) == "cause subscription-changed, triggered by two, culprit two"
    two.ask(lambda consumer: consumer.subscribe([TOPIC]))
    less = recorded(broker, cast, "subscription-changed", lambda episode: episode.number > more.number)
    assert verdict(less) == "cause subscription-changed, triggered by two, culprit two"


@pytest.mark.slow
def test_a_topic_that_matches_a_pattern(broker: Broker, cast: Cast) -> None:
    one = cast.join("confluent", ["^orders.*"], name="one", options=QUICK)
    cast.wait_shared([one], places(TOPIC, PARTITIONS))
    admin = confluent.admin(broker.bootstrap_servers)
    admin.create_topics([NewTopic("orders-eu", 3)])["orders-eu"].result(30)
    cast.wait_shared([one], [*places(TOPIC, PARTITIONS), *places("orders-eu", 3)])
    told = recorded(broker, cast, "subscription-changed")
    assert verdict(told) == "cause subscription-changed, triggered by one, no culprit"
    assert told.headline.startswith("one changed its subscription, as orders-eu was created with 3 partitions; ")


@pytest.mark.slow
def test_a_broker_that_is_started_again(tmp_path: Path) -> None:
    settings = {"group.min.session.timeout.ms": 6_000}
    with Broker(settings, topics={TOPIC: PARTITIONS}, data_dir=tmp_path, http=True) as first:
        cast, port = Cast(first.bootstrap_servers, "billing"), first.port
        joined(cast, "one", "two", session_timeout_ms=45_000)
    with Broker(settings, data_dir=tmp_path, port=port, http=True) as again, cast:
        told = recorded(again, cast, "coordinator-loaded")
        assert verdict(told) == "cause coordinator-loaded, no culprit"
        assert not told.triggers[0].facts.get("topic")
