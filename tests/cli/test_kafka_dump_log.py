"""Segments of ours read by Kafka's own dump tool, and its verdict held against `ottla log`. Needs Java, and Kafka's
jars (or Maven, to fetch them).
"""

from __future__ import annotations

import asyncio
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla.cli.segments import read_batches
from ottla.clients import Admin, Consumer, NewTopic, Producer
from ottla.testing.broker import Broker
from tests.cli.commands import HERE
from tests.differential.real_kafka import jars, skip_without_kafka
from tests.support.waiting import wait_for

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

TOOL = "org.apache.kafka.tools.DumpLogSegments"
RECORDS = 5_000
COMPACTED = 4_000
COMPLAINTS = re.compile(
    r"isvalid: false|mismatch|non-consecutive|is followed by|out of order|invalid bytes|corrupt|exception", re.I
)

# With records the tool says this of every segment that does not begin at 0, whoever wrote it.
FIRST_OFFSET = re.compile(r"Non-consecutive offsets in \S+\n(  -1 is followed by \d+\n)")


@pytest.fixture(scope="module")
def classpath() -> str:
    skip_without_kafka()
    return f"{jars()}/*"


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """What a broker leaves: several segments with indexes, compressed batches, transactions, offsets of a group."""
    directory = tmp_path_factory.mktemp("dump") / "data"
    settings = {
        "log.index.interval.bytes": 1000,
        "log.segment.bytes": 1 << 20,
        "transaction.state.log.num.partitions": 1,
        "log.cleaner.backoff.ms": 100,
    }
    with Broker(settings=settings, data_dir=directory, topics={"orders": 1, "results": 1}) as broker:
        asyncio.run(write(broker.bootstrap_servers))
        asyncio.run(write_compacted(broker.bootstrap_servers))
        wait_for(lambda: is_compacted(directory), "compaction")
    yield directory


async def write_compacted(bootstrap: str) -> None:
    """Many records of few keys, and a transaction that is aborted in between."""
    async with Admin(bootstrap_servers=bootstrap) as admin:
        configs = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01"}
        await admin.create_topics([NewTopic("compacted", 1, 1, configs)])
    for begin in (0, COMPACTED // 2):
        async with Producer(bootstrap_servers=bootstrap, linger_ms=5) as producer:
            for number in range(begin, begin + COMPACTED // 2):
                await producer.send("compacted", b"v" * 700, key=b"key %d" % (number % 100))
        async with Producer(bootstrap_servers=bootstrap, transactional_id="aborted", linger_ms=0) as producer:
            await producer.begin_transaction()
            await producer.send_and_wait("compacted", b"never", key=b"key 0")
            await producer.abort_transaction()


def is_compacted(data: Path) -> bool:
    """Whether all records of the topic have come to its segments, and few are left in the first."""
    segments = [list(read_batches(path)) for path in sorted(data.glob("logs/compacted-0/*.log"))]
    last = max((batch.header.last_offset for batches in segments for batch in batches), default=0)
    return last >= COMPACTED and sum(batch.header.record_count for batch in segments[0]) < 300


async def write(bootstrap: str) -> None:
    for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
        async with Producer(bootstrap_servers=bootstrap, compression_type=codec) as producer:
            for number in range(RECORDS // 5):
                value = bytes([65 + number % 26]) * 3000 if codec == "none" else b"value %d" % number * 40
                await producer.send("orders", value, key=b"key %d" % number)
    async with Producer(bootstrap_servers=bootstrap, transactional_id="tx", linger_ms=0) as producer:
        for commit in (True, False, True):
            await producer.begin_transaction()
            await producer.send_and_wait("results", b"result", key=b"k")
            await (producer.commit_transaction() if commit else producer.abort_transaction())
    async with Consumer("orders", bootstrap_servers=bootstrap, group_id="g", auto_offset_reset="earliest") as consumer:
        await consumer.getmany(timeout_ms=1000)
        await consumer.commit()


def dump(classpath: str, *options: str, files: list[Path]) -> str:
    """What the tool prints; fails where it finds fault."""
    done = subprocess.run(
        ["java", "-cp", classpath, TOOL, *options, "--files", ",".join(map(str, files))],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    said = FIRST_OFFSET.sub("", done.stdout + done.stderr)
    complaint = COMPLAINTS.search(said)
    assert complaint is None, said[max(0, complaint.start() - 500) : complaint.end() + 500]
    return done.stdout


def stored(data: Path, topic: str, suffix: str) -> list[Path]:
    found = sorted(path for path in data.glob(f"logs/{topic}-*/*{suffix}") if path.stat().st_size)
    assert found, f"no {suffix} of {topic}"
    return found


def test_records_are_read(classpath: str, data: Path) -> None:
    segments = stored(data, "orders", ".log")
    assert len(segments) > 1
    text = dump(classpath, "--print-data-log", files=segments)
    assert text.count("| offset: ") == RECORDS
    for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
        assert f"compresscodec: {codec}" in text


def test_ottla_prints_the_same_batches(classpath: str, data: Path) -> None:
    segments = stored(data, "orders", ".log")
    theirs = re.findall(
        r"baseOffset: (\d+) lastOffset: (\d+) count: (\d+) .* position: (\d+) .* crc: (\d+)",
        dump(classpath, files=segments),
    )
    ours = HERE.lines("log", "dump", *segments)
    fields = ("base_offset", "last_offset", "record_count", "position", "crc")
    assert [tuple(str(row[name]) for name in fields) for row in ours] == theirs
    HERE.run("log", "verify", "--records", data)


def test_indexes_are_sound(classpath: str, data: Path) -> None:
    indexes = stored(data, "orders", ".index") + stored(data, "orders", ".timeindex")
    checked = dump(classpath, "--index-sanity-check", files=indexes)
    assert checked.count("passed sanity check") == len(indexes)
    dump(classpath, "--verify-index-only", files=indexes)
    entries = dump(classpath, files=stored(data, "orders", ".index"))
    assert entries.count("position: ") > 50


def test_groups_are_decoded(classpath: str, data: Path) -> None:
    text = dump(classpath, "--offsets-decoder", files=stored(data, "__consumer_offsets", ".log"))
    assert '"group":"g","topic":"orders","partition":0' in text
    assert '"protocolType":"consumer"' in text


def test_transactions_are_decoded(classpath: str, data: Path) -> None:
    text = dump(classpath, "--transaction-log-decoder", files=stored(data, "__transaction_state", ".log"))
    assert '"transactionalId":"tx"' in text
    assert "CompleteCommit" in text or '"transactionStatus":4' in text
    markers = dump(classpath, "--print-data-log", files=stored(data, "results", ".log"))
    assert (markers.count("endTxnMarker: COMMIT"), markers.count("endTxnMarker: ABORT")) == (2, 1)


def test_compacted_segments_are_sound(classpath: str, data: Path) -> None:
    segments = stored(data, "compacted", ".log")
    text = dump(classpath, files=segments)
    assert 100 <= sum(map(int, re.findall(r" count: (\d+) ", text))) < COMPACTED
    indexes = [path for suffix in (".index", ".timeindex") for path in data.glob(f"logs/compacted-0/*{suffix}")]
    dump(classpath, "--index-sanity-check", files=indexes)
    dump(classpath, "--verify-index-only", files=[path for path in indexes if path.stat().st_size])
