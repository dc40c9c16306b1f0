"""A broker that is killed at any moment and started again on its directory has everything that it acknowledged, and
its clients go on by themselves.
"""

import os
import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import ConsumerGroupState

from ottla.testing import BrokerProcess
from tests.chaos.run import run
from tests.e2e.conftest import KAFKAS_DEFAULTS
from tests.support.cast import Cast, places
from tests.support.clients import confluent
from tests.support.kit import KINDS, produce
from tests.support.waiting import wait_for

pytestmark = pytest.mark.e2e

SEED = int(os.environ.get("OTTLA_SEED") or random.randrange(10**6))
KILLS = 4
PARTITIONS = 3


def test_nothing_acknowledged_is_lost() -> None:
    """A few rounds of what ``make chaos`` does at length."""
    run("load", KILLS, SEED)


def test_every_reader_sees_all_that_was_acknowledged(
    tmp_path: Path, show_log: Callable[[Callable[[], str]], None]
) -> None:
    """One reader of each kind, in a group of its own and with its client's automatic commits, lives through it all."""
    print(f"seed {SEED}: run again with OTTLA_SEED={SEED}")
    chance = random.Random(SEED)
    producers: dict[str, dict[str, Any]] = {
        "streamed": {"enable_idempotence": True},
        "safe": {"enable_idempotence": False, "acks": "all"},
    }
    topics = dict.fromkeys(producers, PARTITIONS)
    with BrokerProcess(tmp_path / "data", settings=KAFKAS_DEFAULTS, topics=topics) as broker:
        show_log(broker.log_text)
        bootstrap = broker.bootstrap_servers
        with Cast(bootstrap, "readers") as readers:
            for kind in KINDS:
                readers.everyone.append(Cast(bootstrap, f"readers-{kind}").join(kind, list(topics), name=kind))
            wait_for(lambda: all(one.owned for one in readers.everyone), "the readers to join", show=readers.describe)
            streams = {
                topic: confluent.Stream(bootstrap, topic, PARTITIONS, **options) for topic, options in producers.items()
            }

            def wait_for_progress() -> None:
                before = {topic: len(stream.acknowledged) for topic, stream in streams.items()}
                wait_for(
                    lambda: all(len(streams[topic].acknowledged) > count + 20 for topic, count in before.items()),
                    "the producers to go on",
                    show=lambda: f"{before} before\n{broker.log_text()[-4000:]}",
                )

            for _ in range(KILLS):
                wait_for_progress()
                time.sleep(chance.uniform(0, 0.5))  # the moment of the kill: anything may be under way
                broker.kill()
                broker.restart()
            wait_for_progress()
            for stream in streams.values():
                stream.stop()
            broker.kill()
            broker.restart()

            acknowledged = {
                (topic, *place, value)
                for topic, stream in streams.items()
                for value, place in stream.acknowledged.items()
            }

            def all_seen() -> bool:
                return all(acknowledged <= {seen[:4] for seen in one.seen} for one in readers.everyone)

            wait_for(all_seen, "every reader to see all", timeout_s=120, show=readers.describe)


def test_a_kill_in_the_middle_of_a_rebalance(tmp_path: Path, show_log: Callable[[Callable[[], str]], None]) -> None:
    """The broker dies while the group waits for its members to join; afterwards they find together by themselves."""
    topic = "shared"
    with BrokerProcess(tmp_path / "data", settings=KAFKAS_DEFAULTS, topics={topic: 6}) as broker:
        show_log(broker.log_text)
        bootstrap = broker.bootstrap_servers
        with Cast(bootstrap, topic) as cast:
            members = [cast.join(kind, assignor="roundrobin") for kind in ("confluent", "kafka-python", "aiokafka")]
            cast.wait_shared(members, places(topic, 6))
            values = [f"before {number}" for number in range(60)]
            produce(bootstrap, topic, values)
            cast.wait_seen_once(values)
            admin = confluent.admin(bootstrap)
            late = cast.join("ottla", assignor="roundrobin")

            def rebalances() -> bool:
                state = confluent.result(admin.describe_consumer_groups([topic])).state
                return bool(state == ConsumerGroupState.PREPARING_REBALANCING)

            wait_for(rebalances, "the rebalance to begin")
            broker.kill()
            broker.restart()
            cast.wait_shared([*members, late], places(topic, 6))
            values = [f"after {number}" for number in range(60)]
            produce(bootstrap, topic, values)
            cast.wait_seen_once(values)
            # Not the same admin: librdkafka 2.16 never asks again at a coordinator that was down when it looked.
            assert confluent.KIT(bootstrap).describe(topic)[1] == {one.role.name for one in cast.everyone}, (
                cast.describe()
            )
