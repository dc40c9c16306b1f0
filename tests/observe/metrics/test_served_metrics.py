"""Metrics and sentinels of a broker that is served, with clients of our own."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from ottla.broker.dispatch import Dispatcher
from ottla.clients import Consumer, ConsumerRebalanceListener, Producer, TopicPartition
from ottla.observe.sentinels.watch import Sentinels
from ottla.testing import Broker
from tests.observe.http.conftest import ask
from tests.observe.http.fakes import Lines

COMPAT = {"ottla.metrics.compat": "kminion, kafka_exporter,lag_exporter"}


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    with Broker(COMPAT, topics={"orders": 2}, data_dir=tmp_path, http=True) as broker:
        yield broker


def scraped(broker: Broker) -> dict[str, dict[frozenset[str], float]]:
    """Sample name → values of the labels → value."""
    answer = ask(broker.http_url, "/metrics")
    assert answer.headers["content-type"].startswith("text/plain")
    found: dict[str, dict[frozenset[str], float]] = {}
    for family in text_string_to_metric_families(answer.body.decode()):
        for sample in family.samples:
            found.setdefault(sample.name, {})[frozenset(sample.labels.values())] = sample.value
    return found


def test_what_clients_do_is_counted(broker: Broker) -> None:
    async def use() -> dict[str, dict[frozenset[str], float]]:
        async with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
            for number in range(10):
                await producer.send_and_wait("orders", b"x", partition=number % 2)
        options = {"group_id": "billing", "auto_offset_reset": "earliest", "enable_auto_commit": False}
        async with Consumer("orders", bootstrap_servers=broker.bootstrap_servers, **options) as consumer:
            await consumer.getone()
            await consumer.commit()
            return await asyncio.to_thread(scraped, broker)

    found = asyncio.run(use())
    assert found["ottla_requests_total"][frozenset(("Produce", "NONE"))] == 10
    assert found["ottla_request_duration_seconds_count"][frozenset(("Produce",))] == 10
    assert found["ottla_request_duration_seconds_sum"][frozenset(("Produce",))] > 0
    assert found["ottla_requests_total"][frozenset(("JoinGroup", "MEMBER_ID_REQUIRED"))] == 1
    assert found["ottla_journal_sync_duration_seconds_count"][frozenset()] >= 10
    assert found["ottla_groups"][frozenset(("Stable",))] == 1
    assert found["ottla_member_changes_total"][frozenset(("joined",))] == 1
    assert found["ottla_offset_commits_total"][frozenset()] == 1
    assert sum(found["ottla_rebalances_total"].values()) == 1
    lags = found["ottla_group_lag_records"]
    assert sum(lags.values()) == 9
    assert lags == found["kafka_consumergroup_lag"] == found["kminion_kafka_consumer_group_topic_partition_lag"]
    assert sum(found["kafka_consumergroup_group_lag"].values()) == 9
    assert 0 < found["ottla_group_max_lag_seconds"][frozenset(("billing",))] < 60
    assert found["ottla_connections_opened_total"][frozenset()] >= 2
    assert sum(found["ottla_sentinels_active"].values()) == 0


class Slow(ConsumerRebalanceListener):
    """Gives partitions up when it is let."""

    def __init__(self) -> None:
        self.may_go = asyncio.Event()

    async def on_partitions_revoked(self, revoked: set[TopicPartition]) -> None:
        await self.may_go.wait()


def test_a_member_that_does_not_give_up_costs_while_it_does_not(broker: Broker) -> None:
    async def use() -> float:
        options = {"bootstrap_servers": broker.bootstrap_servers, "group_id": "g", "group_protocol": "consumer"}
        async with Consumer(**options) as one:
            one.subscribe(["orders"], listener=(slow := Slow()))
            while not one.assignment():
                await one.getmany(timeout_ms=50)
            async with Consumer("orders", **options) as other:
                polls = [asyncio.create_task(each.getmany(timeout_ms=60_000)) for each in (one, other)]
                stood = 0.0
                while not stood:
                    found = await asyncio.to_thread(scraped, broker)
                    stood = found["ottla_group_partition_unavailable_seconds_total"].get(frozenset(("g",)), 0.0)
                assert found["ottla_groups"][frozenset(("Reconciling",))] == 1, "it runs"
                slow.may_go.set()
                for poll in polls:
                    poll.cancel()
                return stood

    assert 0 < asyncio.run(use()) < 60


def test_lag_in_seconds_is_that_of_the_append_and_not_of_the_timestamp(broker: Broker) -> None:
    async def use() -> None:
        async with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
            await producer.send_and_wait("orders", b"x", partition=0, timestamp_ms=1_000_000)
        async with Consumer("orders", bootstrap_servers=broker.bootstrap_servers, group_id="old") as consumer:
            await consumer.commit({("orders", 0): 0})

    asyncio.run(use())
    lag = scraped(broker)["ottla_group_lag_seconds"][frozenset(("old", "orders", "0"))]
    assert 0 <= lag < 60


def test_without_http_nothing_is_measured() -> None:
    with Broker(topics={"orders": 1}) as broker:
        assert broker.observatory.measuring is None
        served = broker._running
        assert type(served._dispatcher) is Dispatcher
        assert served._engine.on_appended == served._appended


def test_an_alarm_is_seen_in_metrics_the_api_and_the_log() -> None:
    log = Lines()
    settings = {"ottla.sentinel.settle.ms": 0, "auto.create.topics.enable": "false"}
    with Broker(settings, topics={"orders": 1, "bills": 1}, http=True, log=log) as broker:

        async def use() -> list[Any]:
            options = {"bootstrap_servers": broker.bootstrap_servers, "group_id": "g"}
            async with Consumer("orders", **options) as one, Consumer("orders", "bills", **options) as other:
                deadline = asyncio.get_running_loop().time() + 30
                while asyncio.get_running_loop().time() < deadline:
                    await asyncio.gather(one.getmany(timeout_ms=100), other.getmany(timeout_ms=100))
                    alarms = (await asyncio.to_thread(ask, broker.http_url, "/v1/sentinels")).json
                    if found := alarms["active"]:
                        break
                assert scraped(broker)["ottla_sentinels_active"][frozenset(("mixed_subscriptions",))] == 1
                return found

        (alarm,) = asyncio.run(use())
    assert (alarm["sentinel"], alarm["group_id"]) == ("mixed_subscriptions", "g")
    told = [fields["sentinel"] for at, _, fields in log.told if at in ("warning", "error") and "sentinel" in fields]
    assert told == ["mixed_subscriptions"]


def test_sentinels_look_out_where_they_are_wanted(broker: Broker) -> None:
    served = broker.observatory
    assert isinstance(served.sentinels, Sentinels)
    assert broker.run(served.sentinels.board.active) == []
    with Broker({"ottla.sentinel.enable": "false"}, http=True) as another:
        assert another.observatory.sentinels is None
        assert "ottla_sentinels_active" not in scraped(another)
