"""kcat, the command-line client: -L, -P, -C, -G and -Q."""

import json
import shutil
import time
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from ottla.protocol.compression import Codec
from ottla.testing import Broker
from tests.e2e.inside import stored_batches
from tests.support.clients import confluent
from tests.support.clients.kcat import Kcat
from tests.support.kit import Row
from tests.support.waiting import wait_for

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(
        shutil.which("kcat") is None, reason="kcat is not installed (Debian, Ubuntu: apt-get install kcat)"
    ),
]


@pytest.fixture
def kcat(broker: Broker) -> Iterator[Kcat]:
    """kcat and the broker; what still runs when the test is over is ended."""
    with ExitStack() as closing:
        yield Kcat(broker.bootstrap_servers, closing)


@pytest.fixture
def topic(broker: Broker, name: str) -> str:
    confluent.create_topics(broker.bootstrap_servers, {name: 2})
    return name


def test_metadata(kcat: Kcat, broker: Broker, topic: str) -> None:
    text = kcat("-L")
    assert f"broker 1 at {broker.bootstrap_servers} (controller)" in text
    assert f'topic "{topic}" with 2 partitions:' in text
    assert "partition 1, leader 1, replicas: 1, isrs: 1" in text

    told: dict[str, Any] = json.loads(kcat("-L", "-J", "-t", topic))
    assert told["brokers"] == [{"id": 1, "name": broker.bootstrap_servers}]
    assert told["controllerid"] == 1
    (one,) = told["topics"]
    assert one["topic"] == topic
    assert [(each["partition"], each["leader"]) for each in one["partitions"]] == [(0, 1), (1, 1)]


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_produce_and_consume(codec: str, kcat: Kcat, broker: Broker, topic: str) -> None:
    lines = [f"key-{number}:value {number} " + "ottla " * 40 for number in range(50)]
    packing = [] if codec == "none" else ["-z", codec]
    options = ["-p", "1", "-K:", "-H", "origin=kcat", "-H", "empty=", "-X", "linger.ms=50"]
    kcat("-P", "-t", topic, *packing, *options, stdin="\n".join(lines))
    assert {batch.codec for batch in stored_batches(broker, topic, 1)} == {Codec[codec.upper()]}
    assert stored_batches(broker, topic, 0) == []

    read = kcat("-C", "-t", topic, "-p", "1", "-o", "beginning", "-e", "-q", "-f", "%o %k:%s %h\n").splitlines()
    assert read == [f"{at} {line} origin=kcat,empty=" for at, line in enumerate(lines)]
    as_json = [json.loads(line) for line in kcat("-C", "-t", topic, "-e", "-q", "-J").splitlines()]
    assert [(row["partition"], row["offset"], f"{row['key']}:{row['payload']}") for row in as_json] == [
        (1, at, line) for at, line in enumerate(lines)
    ]


def test_idempotent_producer(kcat: Kcat, broker: Broker, topic: str) -> None:
    kcat("-P", "-t", topic, "-p", "0", "-X", "enable.idempotence=true", stdin="a\nb\nc\n")
    assert all(batch.producer_id >= 0 for batch in stored_batches(broker, topic))
    assert kcat("-C", "-t", topic, "-p", "0", "-e", "-q").split() == ["a", "b", "c"]


def test_where_to_begin_and_to_end(kcat: Kcat, broker: Broker, topic: str) -> None:
    now = int(time.time() * 1000)
    times = [now - 5000 + 1000 * at for at in range(5)]
    records = [Row(f"record{at}".encode(), timestamp_ms=timestamp) for at, timestamp in enumerate(times)]
    confluent.KIT(broker.bootstrap_servers).produce(topic, records, partition=0)

    def read(*arguments: str) -> list[int]:
        text = kcat("-C", "-t", topic, "-p", "0", "-q", *arguments)
        return [int(line.removeprefix("record")) for line in text.split()]

    assert read("-o", "beginning", "-e") == [0, 1, 2, 3, 4]
    assert read("-o", "3", "-e") == [3, 4]
    assert read("-o", "-2", "-e") == [3, 4]
    assert read("-o", "end", "-e") == []
    assert read("-o", "beginning", "-c", "2") == [0, 1]
    assert read("-o", f"s@{times[2]}", "-e") == [2, 3, 4]
    assert read("-o", f"s@{times[1]}", "-o", f"e@{times[3]}") == [1, 2]

    for timestamp, offset in ((times[2], 2), (now, -1), (-2, 0), (-1, 5)):
        assert kcat("-Q", "-t", f"{topic}:0:{timestamp}").strip() == f"{topic} [0] offset {offset}"


def test_balanced_group(kcat: Kcat, topic: str) -> None:
    members = [kcat.member(topic, topic, "-X", "session.timeout.ms=6000") for _ in range(2)]
    first, second = members

    def notes() -> str:
        return "\n".join(member.notes for member in members)

    wait_for(lambda: len(first.owns) == len(second.owns) == 1, "each to have one partition", show=notes)
    for partition in ("0", "1"):
        kcat("-P", "-t", topic, "-p", partition, stdin="a\nb\n")
    wait_for(lambda: len(first.rows) == len(second.rows) == 2, "both to get theirs", show=notes)
    assert sorted(first.rows + second.rows) == [(0, 0, "a"), (0, 1, "b"), (1, 0, "a"), (1, 1, "b")]

    second.stop()
    wait_for(lambda: len(first.owns) == 2, "the first to have both", show=notes)
    for partition in ("0", "1"):
        kcat("-P", "-t", topic, "-p", partition, stdin="c\n")
    wait_for(lambda: len(first.rows) == 4, "the first to get all", show=notes)
    assert sorted(first.rows[2:]) == [(0, 2, "c"), (1, 2, "c")], "it goes on from what the second committed"
