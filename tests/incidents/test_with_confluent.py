"""Incidents with confluent-kafka (librdkafka): `why`, its JSON and the timeline name the same trigger and culprit."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import msgspec
import pytest

from ottla.observe.recording import open_recording
from ottla.observe.why.history import History
from ottla.observe.why.model import Episode
from ottla.observe.why.words import verdict
from ottla.testing import Broker
from tests.support.cast import Cast, places
from tests.support.clients import confluent
from tests.support.members import ProcessMember
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


def join(cast: Cast, name: str, topic: str = TOPIC, **fields: Any) -> Any:
    return cast.join("confluent", [topic], name=name, **{"options": QUICK} | fields)


def joined(cast: Cast, *names: str, instances: dict[str, str] | None = None, **fields: Any) -> list[Any]:
    """A group of these, in which each has its share."""
    members: list[Any] = []
    for name in names:
        own = {"instance_id": instances[name]} if instances else {}
        members.append(join(cast, name, **fields, **own))
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


@contextmanager
def busy(one: Any) -> Iterator[None]:
    """Its application does something else than poll for as long as the block lasts."""
    begun, over = threading.Event(), threading.Event()

    def work(_: object) -> None:
        begun.set()
        over.wait(120)

    threading.Thread(target=one.ask, args=(work, 120), daemon=True).start()
    try:
        assert begun.wait(60)
        yield
    finally:
        over.set()


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
@pytest.mark.parametrize(("end", "cause"), [(ProcessMember.pause, "silent"), (ProcessMember.kill, "connection-lost")])
def test_a_process_that_is_stopped_or_killed(broker: Broker, cast: Cast, end: Any, cause: str) -> None:
    (one,) = joined(cast, "one")
    other = join(cast, "two", process=True)
    cast.wait_shared([one, other], places(TOPIC, PARTITIONS))
    end(other)
    told = recorded(broker, cast, f"session-expired-{cause}")
    assert verdict(told) == f"cause session-expired-{cause}, triggered by two, culprit two"


@pytest.mark.slow
def test_a_static_member_that_is_back_in_time(broker: Broker, cast: Cast) -> None:
    static = {"one": "pod-1", "two": "pod-2"}
    one, two = joined(cast, "one", "two", instances=static, session_timeout_ms=45_000)
    two.stop()
    back = join(cast, "two", instance_id="pod-2", session_timeout_ms=45_000)
    cast.wait_shared([one, back], places(TOPIC, PARTITIONS))
    told = recorded(broker, cast, "static-member-replaced")
    assert told.kind == "replacement"
    assert verdict(told) == "cause static-member-replaced, triggered by pod-2, culprit pod-2"


@pytest.mark.slow
def test_two_processes_with_one_instance_id(broker: Broker, cast: Cast) -> None:
    joined(cast, "one", "two", instances={"one": "pod-1", "two": "pod-2"}, session_timeout_ms=45_000)
    join(cast, "three", instance_id="pod-2", session_timeout_ms=45_000)
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
        confluent.KIT(broker.bootstrap_servers).grow(TOPIC, 2 * PARTITIONS)
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
    join(cast, "three", assignor="cooperative-sticky")
    told = recorded(broker, cast, "turned-away-assignor-mismatch")
    assert verdict(told) == "cause turned-away-assignor-mismatch, triggered by three, culprit three"


@pytest.mark.slow
def test_an_application_that_is_too_slow(broker: Broker, cast: Cast) -> None:
    _, slow = joined(cast, "one", "two", options=QUICK | {"max.poll.interval.ms": 6_000})
    with busy(slow):
        told = recorded(broker, cast, "left-poll-timeout")
    assert verdict(told) == "cause left-poll-timeout, triggered by two, culprit two"


@pytest.mark.slow
def test_a_join_that_waits_for_a_busy_member(broker: Broker, cast: Cast) -> None:
    _, two = joined(cast, "one", "two")

    def runs() -> Episode | None:
        last = episodes(broker)[-1]
        is_late = last.outcome == "running" and last.culprit not in (-1, last.triggers[0].member)
        return last if is_late else None

    with busy(two):
        join(cast, "three")
        running = wait_for(runs, "somebody to be late", show=cast.describe)
        assert verdict(running) == "cause member-joined, triggered by three, culprit two"
    told = recorded(broker, cast, "member-joined", lambda episode: episode.number == running.number)
    assert verdict(told) == "cause member-joined, triggered by three, culprit two"
    shares = {part.client_id: part.blamed_ms for part in told.members}
    assert shares["two"] > 3 * 3_000 and not shares["one"], "one only waited"


@pytest.mark.slow
def test_a_subscription_that_changes(broker: Broker, cast: Cast) -> None:
    confluent.create_topics(broker.bootstrap_servers, {"refunds": 2})
    _, two = joined(cast, "one", "two")
    two.ask(lambda consumer: consumer.subscribe([TOPIC, "refunds"]))
    more = recorded(broker, cast, "subscription-changed")
    assert verdict(more) == "cause subscription-changed, triggered by two, culprit two"
    two.ask(lambda consumer: consumer.subscribe([TOPIC]))
    less = recorded(broker, cast, "subscription-changed", lambda episode: episode.number > more.number)
    assert verdict(less) == "cause subscription-changed, triggered by two, culprit two"


@pytest.mark.slow
def test_a_topic_that_matches_a_pattern(broker: Broker, cast: Cast) -> None:
    one = join(cast, "one", "^orders.*")
    cast.wait_shared([one], places(TOPIC, PARTITIONS))
    confluent.create_topics(broker.bootstrap_servers, {"orders-eu": 3})
    cast.wait_shared([one], [*places(TOPIC, PARTITIONS), *places("orders-eu", 3)])
    told = recorded(broker, cast, "subscription-changed")
    assert verdict(told) == "cause subscription-changed, triggered by one, no culprit"
    assert told.headline.startswith("one changed its subscription, as orders-eu was created with 3 partitions; ")


@pytest.mark.slow
def test_a_broker_that_is_started_again(tmp_path: Path) -> None:
    settings = {"group.min.session.timeout.ms": 6_000}
    with ExitStack() as members:
        with Broker(settings, topics={TOPIC: PARTITIONS}, data_dir=tmp_path, http=True) as first:
            cast, port = members.enter_context(Cast(first.bootstrap_servers, "billing")), first.port
            joined(cast, "one", "two", session_timeout_ms=45_000)
        with Broker(settings, data_dir=tmp_path, port=port, http=True) as again, members.pop_all():
            told = recorded(again, cast, "coordinator-loaded")
            assert verdict(told) == "cause coordinator-loaded, no culprit"
            assert not told.triggers[0].facts.get("topic")
