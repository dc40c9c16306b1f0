"""The included client against Apache Kafka itself: the live tests that need nothing but a broker. Needs Java, and
Kafka's jars (or Maven, to fetch them).
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Iterator
from types import ModuleType, SimpleNamespace

import pytest

from ottla.clients import Admin
from tests.clients import test_live_admin, test_live_consumer, test_live_group, test_live_producer
from tests.clients.live import PATIENCE_S
from tests.differential.real_kafka import NoJava, RealKafka, jars

pytestmark = [pytest.mark.e2e, pytest.mark.slow, pytest.mark.asyncio]

MODULES: tuple[ModuleType, ...] = (test_live_admin, test_live_consumer, test_live_group, test_live_producer)
SETTINGS = {
    "group.initial.rebalance.delay.ms": 0,
    "group.min.session.timeout.ms": 100,
    "offsets.topic.num.partitions": 5,
    "transaction.state.log.num.partitions": 3,
}
"""What the broker of the live tests has that differs from Kafka's defaults, and what lets Kafka start sooner."""


@pytest.fixture(scope="module")
def broker() -> Iterator[SimpleNamespace]:
    try:
        jars()
    except NoJava as missing:
        pytest.skip(f"Apache Kafka cannot be started: {missing}")
    with RealKafka(SETTINGS) as running:
        bootstrap = f"127.0.0.1:{running.port}"
        asyncio.run(_coordinator_is_there(bootstrap))
        yield SimpleNamespace(bootstrap_servers=bootstrap)


async def _coordinator_is_there(bootstrap: str) -> None:
    """Ottla has the topic of its group coordinator from the start; Kafka makes it when it is first asked for one."""
    async with asyncio.timeout(PATIENCE_S), Admin(bootstrap_servers=bootstrap) as admin:
        await admin.list_group_offsets("nobody")


def needs_a_broker_only(candidate: object) -> bool:
    return (
        inspect.isfunction(candidate)
        and candidate.__name__.startswith("test_")
        and "broker" in inspect.signature(candidate).parameters
    )


for module in MODULES:
    globals().update({name: test for name, test in vars(module).items() if needs_a_broker_only(test)})
