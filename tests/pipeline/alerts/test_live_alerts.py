"""A live broker, a group that churns and one that stops: the alerts come, and are resolved."""

import asyncio
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from ottla.clients import Admin, Consumer, OffsetAndMetadata, Producer, TopicPartition
from ottla.pipeline.alerts.run import AlertSettings, start
from ottla.pipeline.alerts.sinks import JsonLines
from ottla.pipeline.alerts.stopped import StoppedLimits
from ottla.pipeline.alerts.storms import StormLimits
from ottla.testing import BrokerProcess

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

PATIENCE_S = 180.0


def test_a_storm_and_a_stopped_group_are_told_of_and_resolved(spark: SparkSession, tmp_path: Path) -> None:
    out = tmp_path / "alerts.jsonl"
    events = {"ottla.group.events.enable": "true", "group.initial.rebalance.delay.ms": 0}
    with BrokerProcess(tmp_path / "data", settings=events, topics={"orders": 2}) as broker:
        settings = AlertSettings(
            {"kafka.bootstrap.servers": broker.bootstrap_servers, "sampleIntervalMs": "200"},
            str(tmp_path / "checkpoints"),
            StormLimits(gap_ms=15_000),
            StoppedLimits(intervals=2, after_ms=1000),
            starting="earliest",
            interval_ms=200,
        )
        queries = start(spark, settings, JsonLines(out), events=True)
        try:
            asyncio.run(_churn(broker.bootstrap_servers))
            asyncio.run(_commit(broker.bootstrap_servers, range(1, 6)))
            raised = _wait(out, queries, lambda: asyncio.run(_produce(broker.bootstrap_servers)), "raised")
            asyncio.run(_commit(broker.bootstrap_servers, [6]))
            resolved = _wait(out, queries, lambda: None, "resolved")
        finally:
            for query in queries.values():
                query.stop()
    storm, stopped = raised["storm", "churned"], raised["stopped", "steady"]
    assert storm["generations"] == 5
    assert (storm["suspect"], storm["pattern"]) == ("flapper", "storm")
    assert storm["cause"], "the broker says what the rebalances were about"
    assert resolved["storm", "churned"]["generations"] >= 10
    assert resolved["storm", "churned"]["paused_ms"] >= 0
    assert (stopped["topic"], stopped["partitions"]) == ("orders", 2)
    assert stopped["unread"] > 0
    assert {key: one["id"] for key, one in resolved.items()} == {key: one["id"] for key, one in raised.items()}
    assert len(out.read_text().splitlines()) == 4, "each once"


async def _churn(bootstrap: str) -> None:
    """One member stays, another joins and leaves five times."""
    options = {"bootstrap_servers": bootstrap, "group_id": "churned", "enable_auto_commit": False}
    async with asyncio.timeout(PATIENCE_S), Consumer("orders", client_id="steady", **options) as steady:
        for _ in range(5):
            async with Consumer("orders", client_id="flapper", **options) as flapper:
                while not flapper.assignment() or len(steady.assignment()) != 1:
                    await asyncio.gather(steady.getmany(timeout_ms=50), flapper.getmany(timeout_ms=50))
            while len(steady.assignment()) != 2:
                await steady.getmany(timeout_ms=50)


async def _commit(bootstrap: str, offsets: Any) -> None:
    async with Admin(bootstrap_servers=bootstrap) as admin:
        for offset in offsets:
            wanted = {TopicPartition("orders", partition): OffsetAndMetadata(offset) for partition in (0, 1)}
            await admin.alter_group_offsets("steady", wanted)


async def _produce(bootstrap: str) -> None:
    async with Producer(bootstrap_servers=bootstrap) as producer:
        for partition in (0, 1):
            for _ in range(10):
                await producer.send("orders", b"value", partition=partition)


def _wait(
    out: Path, queries: dict[str, Any], meanwhile: Callable[[], None], state: str
) -> dict[tuple[str, str], dict[str, Any]]:
    """Until both groups have an alert in this state."""
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        meanwhile()
        for query in queries.values():
            query.awaitTermination(1)
        lines = [json.loads(line) for line in out.read_text().splitlines()]
        found = {(one["kind"], one["group"]): one for one in lines if one["state"] == state}
        if found.keys() >= {("storm", "churned"), ("stopped", "steady")}:
            return found
    raise AssertionError(f"no alerts {state}: {out.read_text()}")
