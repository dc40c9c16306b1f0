"""A cluster over TCP and its log directory give the same rows, bit by bit."""

import logging
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ottla.pipeline.source.journal import Journal
from ottla.pipeline.source.logs import SourceError
from ottla.testing import Broker, BrokerProcess
from tests.pipeline.source.reading import commit, create, join, produce, read, transact
from tests.support.waiting import wait_for

SMALL = {
    "group.initial.rebalance.delay.ms": 0,
    "log.segment.bytes": 4_000,
    "log.index.interval.bytes": 500,
    "offsets.topic.segment.bytes": 4_000,
    "offsets.topic.num.partitions": 5,
    "log.cleaner.min.cleanable.ratio": "0.01",
    "ottla.offsets.topic.min.compaction.lag.ms": 0,
}
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
READS: tuple[dict[str, str], ...] = (
    {"decode": "commits"},
    {"decode": "groups"},
    {"decode": "quarantine"},
    {"decode": "log"},
    {"decode": "log", "isolation": "read_uncommitted"},
    {"decode": "raw", "subscribe": "orders,compact", "includeHeaders": "true"},
    {"decode": "raw", "subscribe": "orders,compact", "isolation": "read_committed"},
    {"decode": "raw", "subscribePattern": "ord.*", "minPartitions": "9", "isolation": "read_committed"},
)


def everything(place: Any) -> list[list[dict[str, Any]]]:
    return [read(place, **options) for options in READS]


@pytest.fixture(scope="module")
def compacted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data directory in which the cleaner has been at work."""
    path = tmp_path_factory.mktemp("data")
    with Broker(SMALL | {"log.cleaner.backoff.ms": 50}, data_dir=path, topics={"orders": 3}) as broker:
        servers = broker.bootstrap_servers
        create(servers, "compact", cleanup_policy="compact")
        for number in range(8):
            produce(servers, "compact", 60, **{"compression.type": CODECS[number % 5]})
            for group in ("g1", "g2"):
                commit(servers, group, "orders", {0: number, 1: number, 2: number})
        holes = lambda: len(read(broker, decode="raw", subscribe="compact")) < 470  # noqa: E731
        wait_for(holes, "the cleaner to leave holes")
    return path


@pytest.fixture(params=["stopped", "killed"])
def both(request: pytest.FixtureRequest, compacted: Path, tmp_path: Path) -> Iterator[tuple[Any, Path, Any]]:
    """What a broker told, its directory, and how it was ended."""
    path = tmp_path / "data"
    shutil.copytree(compacted, path)
    broker = BrokerProcess(path, settings=SMALL | {"log.cleaner.backoff.ms": 600_000})
    broker.start()
    try:
        servers = broker.bootstrap_servers
        for codec in CODECS:
            produce(servers, "orders", 40, **{"compression.type": codec})
        for name, end in (("t1", "commit"), ("t2", "abort"), ("t3", "commit"), ("t2", "abort")):
            transact(servers, name, "orders", end=end, group="g3")
        open_one = transact(servers, "t4", "orders", end="open", group="g4")
        produce(servers, "orders", 30)
        commit(servers, "g5", "orders", {0: 7})
        join(servers, "g6", "orders")
        told = everything(broker)
        end = broker.kill if request.param == "killed" else broker.stop
        yield told, path, (end, broker)
        del open_one
    finally:
        broker.kill()


def test_the_directory_of_a_broker_has_the_rows_that_the_broker_told(both: tuple[Any, Path, Any]) -> None:
    told, path, (end, broker) = both
    # While it runs: as soon as all is on the disk.
    wait_for(lambda: read(path, **READS[5]) == told[5], "the running broker's directory to have all records")
    assert told[0] and told[1] and told[3]
    assert len(told[3]) < len(told[4]), "transactional commits that are aborted or open count only uncommitted"
    assert len(told[7]) < sum(row["topic"] == "orders" for row in told[5])
    end()
    journal = Journal(path)
    assert journal.is_clean is (end == broker.stop)
    in_journal_alone = bool(journal.followed.places)
    assert in_journal_alone is (end == broker.kill), "what the killed broker wrote last is in its journal alone"
    for options, rows, stored in zip(READS, told, everything(path), strict=True):
        assert stored == rows, options
    if journal.is_clean:
        # One of Apache Kafka's has the partitions' directories right below.
        kafka = shutil.copytree(path / "logs", path.parent / "kafka-logs")
        assert everything(kafka) == told


def test_a_journal_that_is_damaged_before_its_end_is_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "data"
    with BrokerProcess(path, topics={"orders": 1}) as broker:
        for _ in range(8):
            produce(broker.bootstrap_servers, "orders", 5)
        broker.kill()
    assert len(read(path, subscribe="orders")) == 40
    (file,) = (path / "journal").glob("*.wal")
    places = Journal(path).followed.places["orders-0"]
    with file.open("r+b") as opened:
        opened.seek(places[3].position + 70)
        opened.write(b"\xff\xfe")
    with pytest.raises(SourceError, match=r"damaged at lsn \d+.*`ottla recover`.*failOnDataLoss=false"):
        read(path, subscribe="orders")
    with caplog.at_level(logging.WARNING, "ottla.pipeline.source"):
        assert [row["offset"] for row in read(path, subscribe="orders", failOnDataLoss="false")] == list(range(15))
    assert "is damaged at lsn" in caplog.text
