"""Groups of the consumer protocol (KIP-848) with librdkafka: nobody waits at a barrier, and the broker assigns."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import ConsumerGroupState, ConsumerGroupType, KafkaException, TopicPartition

from ottla.testing import Broker, BrokerProcess
from tests.support.cast import Cast, places
from tests.support.clients import confluent
from tests.support.clients.confluent import CONSUMER_PROTOCOL, PATIENCE_S, Stream
from tests.support.kit import produce
from tests.support.waiting import wait_for

pytestmark = pytest.mark.e2e

PARTITIONS = 4
QUICK = {
    "group.consumer.session.timeout.ms": 3_000,
    "group.consumer.min.session.timeout.ms": 1_000,
    "group.consumer.heartbeat.interval.ms": 300,
    "group.consumer.min.heartbeat.interval.ms": 100,
}
"""Members that crash are soon noticed, and nobody has to wait long for what another one gives up."""


@pytest.fixture(scope="module")
def quick_broker() -> Iterator[Broker]:
    with Broker(QUICK) as broker:
        yield broker


@pytest.fixture
def cast(quick_broker: Broker, request: pytest.FixtureRequest) -> Iterator[Cast]:
    group = request.node.name.split("[")[0].replace("test_", "").replace("_", "-")
    confluent.create_topics(quick_broker.bootstrap_servers, {group: PARTITIONS})
    with Cast(quick_broker.bootstrap_servers, group) as cast:
        yield cast


def join(cast: Cast, **fields: Any) -> Any:
    return cast.join("confluent", options=CONSUMER_PROTOCOL, **fields)


def described(cast: Cast) -> Any:
    admin = confluent.admin(cast.bootstrap)  # its futures end with it
    return confluent.result(admin.describe_consumer_groups([cast.group]))


def test_members_join_share_and_leave(cast: Cast) -> None:
    """What was committed is not read again, and each partition has one reader at a time."""
    everything = places(cast.group, PARTITIONS)
    first = join(cast)
    cast.wait_shared([first], everything)
    stream = Stream(cast.bootstrap, cast.group, PARTITIONS)
    second = join(cast)
    cast.wait_shared([first, second], everything)
    group = described(cast)
    assert (group.state, group.type) == (ConsumerGroupState.STABLE, ConsumerGroupType.CONSUMER)
    assert {one.client_id for one in group.members} == {first.role.name, second.role.name}
    assert not any(change.kind == "lost" for change in first.changes)
    # It kept what it has, and was asked for the rest alone.
    assert [change.places for change in first.changes if change.kind == "revoked"] == [second.owned]
    second.stop()
    cast.wait_shared([first], everything)
    third = join(cast)
    cast.wait_shared([first, third], everything)
    cast.wait_seen_once(stream.stop())
    assert not any(one.troubles for one in cast.everyone), cast.describe()


def test_a_member_crashes(cast: Cast) -> None:
    """Its partitions stand still for a session, and nothing is lost."""
    everything = places(cast.group, PARTITIONS)
    survivor = join(cast)
    victim = join(cast, process=True)
    cast.wait_shared([survivor, victim], everything)
    stream = Stream(cast.bootstrap, cast.group, PARTITIONS)
    wait_for(lambda: victim.seen, "the victim to read", show=cast.describe)
    victim.kill()
    cast.wait_shared([survivor], everything)
    cast.wait_seen(stream.stop())


def test_a_static_member_comes_back(cast: Cast) -> None:
    """Nobody else notices, and it has what it had."""
    everything = places(cast.group, PARTITIONS)
    other = join(cast)
    static = join(cast, instance_id="one")
    cast.wait_shared([other, static], everything)
    had, before = static.owned, len(other.changes)
    static.stop()
    again = join(cast, instance_id="one")
    cast.wait_shared([other, again], everything)
    assert again.owned == had
    assert len(other.changes) == before, cast.describe()


def test_topics_of_a_regular_expression(quick_broker: Broker, cast: Cast) -> None:
    """Those that come later are read, too, once the group looks again."""
    one = join(cast, topics=[f"^{cast.group}.*"])
    cast.wait_shared([one], places(cast.group, PARTITIONS))
    assert described(cast).state is ConsumerGroupState.STABLE
    late = f"{cast.group}-late"
    confluent.create_topics(quick_broker.bootstrap_servers, {late: 1})
    cast.wait_shared([one], [*places(cast.group, PARTITIONS), (late, 0)])


def test_a_topic_grows(quick_broker: Broker, cast: Cast) -> None:
    members = [join(cast), join(cast)]
    cast.wait_shared(members, places(cast.group, PARTITIONS))
    grown = confluent.NewPartitions(cast.group, PARTITIONS + 2)
    admin = confluent.admin(quick_broker.bootstrap_servers)
    confluent.result(admin.create_partitions([grown]))
    cast.wait_shared(members, places(cast.group, PARTITIONS + 2))


def test_the_server_assigns_ranges_if_members_ask_for_them(cast: Cast) -> None:
    members = [join(cast, assignor="range"), join(cast, assignor="range")]
    cast.wait_shared(members, places(cast.group, PARTITIONS))
    shares = [sorted(partition for _, partition in one.owned) for one in members]
    assert sorted(shares) == [[0, 1], [2, 3]]


def test_nobody_commits_for_a_group_with_members(cast: Cast) -> None:
    """And offsets in it can be deleted of no topic that it reads; afterwards it can be deleted itself."""
    member = join(cast)
    cast.wait_shared([member], places(cast.group, PARTITIONS))
    produce(cast.bootstrap, cast.group, ["a", "b"])
    cast.wait_seen(["a", "b"])
    member.commit()
    with confluent.closing(confluent.consumer(cast.bootstrap, cast.group)) as outsider, pytest.raises(KafkaException):
        outsider.commit(offsets=[TopicPartition(cast.group, 0, 1)], asynchronous=False)
    admin = confluent.admin(cast.bootstrap)
    with pytest.raises(KafkaException):
        confluent.result(admin.delete_consumer_groups([cast.group]))
    member.stop()
    assert confluent.result(admin.delete_consumer_groups([cast.group])) is None
    assert cast.group not in {one.group_id for one in admin.list_consumer_groups().result(PATIENCE_S).valid}


@pytest.mark.parametrize("how", ["SIGTERM", "SIGKILL"])
def test_a_group_outlives_the_broker(how: str, tmp_path: Path, show_log: Callable[[Callable[[], str]], None]) -> None:
    """No member joins again: each goes on with its epoch and what it has."""
    broker = BrokerProcess(tmp_path / "data", settings=QUICK | {"group.consumer.session.timeout.ms": 45_000})
    show_log(lambda: broker.log_text())
    with broker:
        confluent.create_topics(broker.bootstrap_servers, {"g": PARTITIONS})
        with Cast(broker.bootstrap_servers, "g") as cast:
            members = [join(cast), join(cast)]
            cast.wait_shared(members, places("g", PARTITIONS))
            changes = [list(one.changes) for one in members]
            stream = Stream(broker.bootstrap_servers, "g", PARTITIONS, enable_idempotence=True)
            wait_for(lambda: stream.acknowledged, "the stream to begin")
            if how == "SIGTERM":
                assert broker.stop() == 0
            else:
                broker.kill()
            broker.restart()
            acknowledged = len(stream.acknowledged)
            wait_for(lambda: len(stream.acknowledged) > acknowledged + 20, "the stream to go on")
            cast.wait_seen_once(stream.stop())
            for one in members:
                one.commit()
            assert [list(one.changes) for one in members] == changes, cast.describe()
