"""Runs of pytest within tests, of files as users write them."""

from __future__ import annotations

import asyncio
from textwrap import dedent

import pytest

from ottla.clients import Consumer
from ottla.testing import Broker

RUNS_AS = ["-p", "no:cacheprovider", "--strict-markers", "-p", "no:hypothesispytest", "-p", "no:schemathesis"]
HEAD = """
import asyncio
import pytest
from ottla.clients import Consumer
from ottla.testing import Broker, assert_no_loss, assert_rebalances, assert_stable, count_rebalances

def consumer(broker, name="billing-1", group="billing", **options):
    return Consumer(
        "orders", bootstrap_servers=broker.bootstrap_servers, group_id=group, client_id=name,
        auto_offset_reset="earliest", enable_auto_commit=False, heartbeat_interval_ms=50, **options,
    )
"""


async def use_a_group(broker: Broker) -> None:
    async with Consumer("orders", bootstrap_servers=broker.bootstrap_servers, group_id="g") as client:
        await broker.group("g").wait_async(members=1)
        await client.commit()


@pytest.fixture(scope="session")
def loaded() -> None:
    """A run within a test forgets what it imported, and half of a client's modules may not be imported twice."""
    with Broker(topics=["orders"]) as broker:
        broker.produce("orders", "one")
        assert len(broker.records("orders")) == 1
        asyncio.run(use_a_group(broker))
        assert broker.group("g").why()


@pytest.fixture
def run(pytester: pytest.Pytester, loaded: None) -> Runner:
    pytester.makeini("[pytest]\nasyncio_mode = auto\nasyncio_default_fixture_loop_scope = function\n")
    return Runner(pytester)


class Runner:
    """Runs a test file as a user does."""

    def __init__(self, pytester: pytest.Pytester) -> None:
        self._pytester = pytester

    def __call__(self, text: str, *arguments: str, outside: bool = False, **counts: int) -> str:
        """What is printed, once the tests have ended as often as ``counts`` says."""
        self._pytester.makepyfile(HEAD + dedent(text))
        start = self._pytester.runpytest_subprocess if outside else self._pytester.runpytest_inprocess
        result = start(*RUNS_AS, *arguments)
        result.assert_outcomes(**counts)
        return result.stdout.str()
