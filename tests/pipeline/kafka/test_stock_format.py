"""``format("ottla")`` beside Spark's own ``format("kafka")`` on a user's topic: the same columns, the same rows.

Needs Maven (or what it fetched before) for the connector's jars, and pyspark of their version.
"""

import asyncio
import json
import os
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from ottla.clients import Producer
from ottla.testing import BrokerProcess
from tests.interop.run import place_of
from tests.interop.spark import suite
from tests.interop.suite import NotAvailable, Place
from tests.pipeline.kafka import stock
from tests.pipeline.source.reading import transact
from tests.support.processes import run

pytestmark = [pytest.mark.e2e, pytest.mark.slow]


@pytest.fixture(scope="module")
def place() -> Place:
    if missing := suite.missing():
        pytest.skip(f"Spark's Kafka connector cannot be fetched: {missing}")
    found = place_of("spark")
    try:
        suite.prepare(found)
    except NotAvailable as missing:
        pytest.skip(f"Spark's Kafka connector cannot be fetched: {missing}")
    return found


async def _fill(bootstrap: str) -> None:
    for codec in (None, "gzip", "snappy", "lz4", "zstd"):
        async with Producer(bootstrap_servers=bootstrap, compression_type=codec) as producer:
            for n in range(40):
                await producer.send(
                    "orders",
                    None if n % 7 == 0 else b"value %d \x00\xff" % n,
                    key=None if n % 5 == 0 else b"k%d" % n,
                    partition=n % 3,
                    timestamp_ms=1_760_000_000_123 + n,
                    headers=[] if n % 2 else [("a", b"\xff"), ("b", None), ("a", b"")],
                )


def stock_rows(place: Place, bootstrap: str) -> dict[str, Any]:
    python = str(place.cache / "venv" / "bin" / "python")
    jars = ",".join(str(jar) for jar in sorted((place.cache / "jars").glob("*.jar")))
    env = {**os.environ, "PYSPARK_PYTHON": python, "PYSPARK_DRIVER_PYTHON": python, "SPARK_LOCAL_IP": "127.0.0.1"}
    said = run(python, stock.__file__, bootstrap, "orders", jars, timeout_s=300, env=env)
    return dict(json.loads(said.splitlines()[-1]))


def test_rows_are_interchangeable(spark: SparkSession, place: Place, tmp_path: Path) -> None:
    with BrokerProcess(tmp_path / "data", topics={"orders": 3}) as broker:
        asyncio.run(_fill(broker.bootstrap_servers))
        # Both read what is not committed too, unless they are told otherwise, and neither shows markers.
        for end in ("abort", "commit"):
            transact(broker.bootstrap_servers, "t", "orders", end=end, records=1)
        theirs = stock_rows(place, broker.bootstrap_servers)
        reading = spark.read.format("ottla").option("kafka.bootstrap.servers", broker.bootstrap_servers)
        ours = stock.plain(reading.option("subscribe", "orders").option("includeHeaders", "true").load())
    assert len(ours["rows"]) == 202
    assert ours["schema"] == theirs["schema"]
    assert ours["rows"] == theirs["rows"]
