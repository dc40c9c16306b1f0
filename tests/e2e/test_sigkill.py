"""A broker that is killed at any moment and started again on its directory has everything that it acknowledged, and
its clients go on by themselves.
"""

import os
import random
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import pytest
from confluent_kafka import ConsumerGroupState

from ottla.testing import BrokerProcess
from tests.e2e.conftest import KAFKAS_DEFAULTS
from tests.support.cast import Cast, places
from tests.support.client import Client, batch
from tests.support.clients import confluent
from tests.support.kit import KINDS, produce
from tests.support.members import Watched
from tests.support.persistent import Persistent
from tests.support.waiting import wait_for

pytestmark = pytest.mark.e2e

SEED = int(os.environ.get("OTTLA_SEED") or random.randrange(10**6))
KILLS = 4
PARTITIONS = 3
STREAMED, SAFE, RAW = "streamed", "safe", "raw"


class Raw:
    """Appends single records to a topic, and knows which were acknowledged and where."""

    def __init__(self, port: int) -> None:
        self.acknowledged: dict[str, tuple[int, int]] = {}
        self._loop = Persistent(port, self._append)
        self.stop = self._loop.stop

    def _append(self, client: Client, number: int) -> None:
        partition = number % PARTITIONS
        told = client.produce(RAW, batch(b"raw %d" % number, key=None), partition=partition)
        if told.error_code:
            raise OSError(f"produce: error {told.error_code}")
        self.acknowledged[f"raw {number}"] = (partition, told.base_offset)


class Committer:
    """Commits growing offsets, and knows the last that was sent and the last that was acknowledged."""

    def __init__(self, port: int, group: str) -> None:
        self.sent = self.acknowledged = 0
        self.group = group
        self._loop = Persistent(port, self._commit)
        self.stop = self._loop.stop

    def _commit(self, client: Client, number: int) -> None:
        self.sent = number
        if code := client.commit(self.group, RAW, number):
            raise OSError(f"commit: error {code}")
        self.acknowledged = number


def committed_offsets(broker: BrokerProcess, group: str) -> int:
    with Client(broker.port) as client:
        return client.all_committed(group).get((RAW, 0), 0)


def test_nothing_acknowledged_is_lost(tmp_path: Path, show_log: Callable[[Callable[[], str]], None]) -> None:
    print(f"seed {SEED}: run again with OTTLA_SEED={SEED}")
    chance = random.Random(SEED)
    topics = {STREAMED: PARTITIONS, SAFE: PARTITIONS, RAW: PARTITIONS}
    with BrokerProcess(tmp_path / "data", settings=KAFKAS_DEFAULTS, topics=topics) as broker:
        show_log(broker.log_text)
        bootstrap = broker.bootstrap_servers
        readers = Cast(bootstrap, "readers")
        with readers:
            for kind in KINDS:
                reader = Cast(bootstrap, f"readers-{kind}").add(kind, (STREAMED, SAFE, RAW), name=kind)
                readers.everyone.append(reader.start())
            streams = [
                confluent.Stream(bootstrap, STREAMED, PARTITIONS, enable_idempotence=True),
                confluent.Stream(bootstrap, SAFE, PARTITIONS, acks="all", enable_idempotence=False),
            ]
            raw = Raw(broker.port)
            committers = [Committer(broker.port, f"committer-{number}") for number in range(2)]
            workers: Sequence[confluent.Stream | Raw] = [*streams, raw]

            wait_for(lambda: all(one.owned for one in readers.everyone), "the readers to join", show=readers.describe)

            for _ in range(KILLS):
                let_them_work(broker, workers, committers)
                time.sleep(chance.uniform(0, 0.5))  # the moment of the kill: anything may be under way
                broker.kill()
                acknowledged = {one.group: one.acknowledged for one in committers}
                broker.restart()
                for one in committers:
                    found = committed_offsets(broker, one.group)
                    assert acknowledged[one.group] <= found <= one.sent, f"{one.group}: a commit is lost or invented"
            let_them_work(broker, workers, committers)
            for worker in (*workers, *committers):
                worker.stop()
            broker.kill()
            broker.restart()

            for one in committers:
                assert committed_offsets(broker, one.group) == one.acknowledged
            for topic, worker, exactly_once in (
                (STREAMED, streams[0], True),
                (SAFE, streams[1], False),
                (RAW, raw, True),
            ):
                check(bootstrap, topic, worker.acknowledged, exactly_once=exactly_once)
            for reader in readers.everyone:
                wait_for(partial(saw_all, reader, workers), f"{reader.role.name} to see all", show=readers.describe)


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


def let_them_work(
    broker: BrokerProcess, workers: Sequence[confluent.Stream | Raw], committers: Sequence[Committer]
) -> None:
    """Wait until everyone has got further: the broker serves all of them again."""
    before = [len(worker.acknowledged) for worker in workers]
    commits = [one.acknowledged for one in committers]
    wait_for(
        lambda: (
            all(len(worker.acknowledged) > count + 20 for worker, count in zip(workers, before, strict=True))
            and all(one.acknowledged > count + 20 for one, count in zip(committers, commits, strict=True))
        ),
        "producers and committers to go on",
        show=lambda: f"{[len(worker.acknowledged) for worker in workers]} after {before}\n{broker.log_text()[-4000:]}",
    )


def saw_all(reader: Watched, workers: Sequence[confluent.Stream | Raw]) -> bool:
    places = {(seen.topic, seen.partition, seen.offset) for seen in reader.seen}
    return all(
        (topic, *place) in places
        for topic, worker in zip((STREAMED, SAFE, RAW), workers, strict=True)
        for place in worker.acknowledged.values()
    )


def check(bootstrap: str, topic: str, acknowledged: dict[str, tuple[int, int]], *, exactly_once: bool) -> None:
    """Every acknowledged value is at its offset, offsets have no gaps, and nothing is there that nobody sent."""
    ends = {partition: confluent.watermarks(bootstrap, topic, partition)[1] for partition in range(PARTITIONS)}
    found = confluent.read_all(bootstrap, topic, *ends)
    stored: dict[tuple[int, int], str] = {}
    for partition, messages in found.items():
        assert [message.offset() for message in messages] == list(range(ends[partition]))
        stored |= {(partition, message.offset()): message.value().decode() for message in messages}
    wrong = {value: place for value, place in acknowledged.items() if stored.get(place) != value}
    assert not wrong, f"{topic}: {len(wrong)} of {len(acknowledged)} are not where they were acknowledged: {wrong}"
    if exactly_once:
        assert len(set(stored.values())) == len(stored), f"{topic}: something was stored twice"
    numbers = {partition: [int(message.value().split()[1]) for message in found[partition]] for partition in found}
    if exactly_once:
        assert all(series == sorted(series) for series in numbers.values()), f"{topic}: the order is lost"
