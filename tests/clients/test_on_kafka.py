"""The included client against Apache Kafka itself: the live tests that need nothing but a broker, and those with
connections that break. Needs Java, and Kafka's jars (or Maven, to fetch them).
"""

import asyncio
import inspect
from collections.abc import Iterator
from types import ModuleType, SimpleNamespace

import pytest

from ottla.clients import Admin
from tests.clients import (
    test_live_admin,
    test_live_consumer,
    test_live_consumer_protocol,
    test_live_faults,
    test_live_group,
    test_live_producer,
)
from tests.clients.flaky import FlakyProxy
from tests.clients.live import PATIENCE_S
from tests.differential.real_kafka import RealKafka, skip_without_kafka

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

MODULES: tuple[ModuleType, ...] = (
    test_live_admin,
    test_live_consumer,
    test_live_consumer_protocol,
    test_live_group,
    test_live_producer,
)
SETTINGS = test_live_consumer_protocol.SETTINGS | {
    "group.initial.rebalance.delay.ms": 0,
    "group.min.session.timeout.ms": 100,
    "offsets.topic.num.partitions": 5,
    "transaction.state.log.num.partitions": 3,
}
"""The settings of the live tests' broker that differ from Kafka's defaults, and some that let Kafka start sooner."""


@pytest.fixture(scope="module", autouse=True)
def java() -> None:
    skip_without_kafka()


@pytest.fixture(scope="module")
def broker() -> Iterator[SimpleNamespace]:
    with RealKafka(SETTINGS) as running:
        bootstrap = f"127.0.0.1:{running.port}"
        asyncio.run(_coordinator_is_there(bootstrap))
        yield SimpleNamespace(bootstrap_servers=bootstrap)


async def _coordinator_is_there(bootstrap: str) -> None:
    """Ottla has the topic of its group coordinator from the start; Kafka makes it when it is first asked for one."""
    async with asyncio.timeout(PATIENCE_S), Admin(bootstrap_servers=bootstrap) as admin:
        await admin.list_group_offsets("nobody")


class FlakyKafka(FlakyProxy):
    """Apache Kafka behind a proxy that cuts connections."""

    async def start_broker(self) -> int:
        self.kafka = RealKafka(SETTINGS | {"advertised.listeners": f"PLAINTEXT://127.0.0.1:{self.port}"})
        await asyncio.to_thread(self.kafka.__enter__)
        self.broker_port = self.kafka.port
        await _coordinator_is_there(self.bootstrap_servers)
        async with Admin(bootstrap_servers=self.bootstrap_servers) as admin:
            await admin.create_topics(dict(self._topics))
        return self.kafka.port

    async def stop_broker(self) -> None:
        await asyncio.to_thread(self.kafka.__exit__, None, None, None)


@pytest.fixture
def breaking(monkeypatch: pytest.MonkeyPatch) -> None:
    """The tests of breaking connections get Kafka."""
    monkeypatch.setattr(test_live_faults, "FlakyBroker", FlakyKafka)


@pytest.mark.usefixtures("breaking")
async def test_an_idempotent_producer_over_breaking_connections() -> None:
    await test_live_faults.test_an_idempotent_producer_over_breaking_connections(seed=1)


@pytest.mark.usefixtures("breaking")
@pytest.mark.parametrize("kind", list(test_live_faults.GROUPS))
async def test_a_group_over_breaking_connections(kind: str) -> None:
    await test_live_faults.test_a_group_over_breaking_connections(kind)


@pytest.mark.usefixtures("breaking")
@pytest.mark.parametrize("v2", [False, True], ids=["v1", "v2"])
async def test_transactions_over_breaking_connections(v2: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    await test_live_faults.test_transactions_over_breaking_connections(1, v2, monkeypatch)


def needs_a_broker_only(candidate: object) -> bool:
    return (
        inspect.isfunction(candidate)
        and candidate.__name__.startswith("test_")
        and "broker" in inspect.signature(candidate).parameters
    )


for module in MODULES:
    globals().update({name: test for name, test in vars(module).items() if needs_a_broker_only(test)})
