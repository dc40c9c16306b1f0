"""kcat, the command-line client: -L, -P, -C, -G and -Q."""

import shutil
import time
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from ottla.protocol.compression import Codec
from ottla.testing import Broker
from tests.e2e.inside import stored_batches
from tests.interop.kcat.scenarios import ALL
from tests.support.clients import confluent
from tests.support.clients.kcat import Kcat
from tests.support.kit import Row

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


@pytest.mark.parametrize(
    "scenario",
    ["metadata", "produce_and_consume", "headers_keys_tombstones", "json_output", "read_from_timestamp",
     "where_to_begin_and_to_end", "group_join_and_leave", "commit_and_resume"],
)  # fmt: skip
def test_a_scenario(scenario: str, kcat: Kcat, topic: str) -> None:
    ALL[scenario](kcat, topic)


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_produce_and_consume(codec: str, kcat: Kcat, broker: Broker, topic: str) -> None:
    ALL[f"codec_{codec}"](kcat, topic)
    assert {batch.codec for batch in stored_batches(broker, topic, 1)} == {Codec[codec.upper()]}
    assert stored_batches(broker, topic, 0) == []


def test_idempotent_producer(kcat: Kcat, broker: Broker, topic: str) -> None:
    ALL["idempotent_producer"](kcat, topic)
    assert all(batch.producer_id >= 0 for batch in stored_batches(broker, topic))


def test_times_to_begin_and_to_end(kcat: Kcat, broker: Broker, topic: str) -> None:
    now = int(time.time() * 1000)
    times = [now - 5000 + 1000 * at for at in range(5)]
    records = [Row(f"record{at}".encode(), timestamp_ms=timestamp) for at, timestamp in enumerate(times)]
    confluent.KIT(broker.bootstrap_servers).produce(topic, records, partition=0)

    def read(*arguments: str) -> list[int]:
        text = kcat("-C", "-t", topic, "-p", "0", "-q", *arguments)
        return [int(line.removeprefix("record")) for line in text.split()]

    assert read("-o", f"s@{times[2]}", "-e") == [2, 3, 4]
    assert read("-o", f"s@{times[1]}", "-o", f"e@{times[3]}") == [1, 2]

    for timestamp, offset in ((times[2], 2), (now, -1), (-2, 0), (-1, 5)):
        assert kcat("-Q", "-t", f"{topic}:0:{timestamp}").strip() == f"{topic} [0] offset {offset}"
