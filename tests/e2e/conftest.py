"""One broker for all tests of a worker, with Kafka's defaults but a short initial rebalance delay; tests take names
of their own for topics and groups. When a test fails, the end of its broker's log is shown with it.
"""

import io
from collections.abc import Callable, Iterator
from contextlib import closing
from itertools import count
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient
from kafka import KafkaAdminClient

from ottla.observe.logs import logger
from ottla.testing import Broker, BrokerProcess
from tests.differential.real_kafka import jars, skip_without_kafka
from tests.support.cast import Cast
from tests.support.clients import confluent
from tests.support.processes import run

INITIAL_DELAY_MS = 700
KAFKAS_DEFAULTS = {
    "group.initial.rebalance.delay.ms": INITIAL_DELAY_MS,
    "group.min.session.timeout.ms": 6000,
}
Tool = Callable[..., str]
LOGS = pytest.StashKey[list[Callable[[], str]]]()


@pytest.fixture(scope="session")
def broker_log() -> io.StringIO:
    return io.StringIO()


@pytest.fixture(scope="session")
def shared_broker(broker_log: io.StringIO) -> Iterator[Broker]:
    with Broker(KAFKAS_DEFAULTS, log=logger(stream=broker_log)) as broker:
        yield broker


@pytest.fixture
def show_log(request: pytest.FixtureRequest) -> Callable[[Callable[[], str]], None]:
    """Name a log that is shown when the test fails."""
    sources = request.node.stash.setdefault(LOGS, [])
    return lambda source: sources.append(source)


@pytest.fixture
def broker(
    shared_broker: Broker, broker_log: io.StringIO, show_log: Callable[[Callable[[], str]], None]
) -> Iterator[Broker]:
    """The worker's broker. No well-behaved client gives it a reason to complain.

    Tests of administration move offsets to and fro, which a sentinel tells of.
    """
    start = len(broker_log.getvalue())
    show_log(lambda: broker_log.getvalue()[start:])
    yield shared_broker
    lines = broker_log.getvalue()[start:].splitlines()
    complaints = [
        line for line in lines if "[info " not in line and "[debug " not in line and "sentinel=offset_jump" not in line
    ]
    assert not complaints, "\n".join(complaints)


@pytest.fixture
def admin(broker: Broker) -> AdminClient:
    return confluent.admin(broker.bootstrap_servers)


@pytest.fixture
def python_admin(broker: Broker) -> Iterator[KafkaAdminClient]:
    with closing(KafkaAdminClient(bootstrap_servers=broker.bootstrap_servers)) as client:
        yield client


@pytest.fixture(scope="session")
def kafkas_tool() -> Tool:
    """Runs one of Kafka's own tools, by the name of its class, against a broker; gives what it prints."""
    skip_without_kafka()
    java = ["java", "-Xmx256m", "-XX:TieredStopAtLevel=1", "-Dorg.slf4j.simpleLogger.defaultLogLevel=error"]

    def tool(broker: Broker | BrokerProcess, name: str, *arguments: str) -> str:
        return run(*java, "-cp", f"{jars()}/*", name, "--bootstrap-server", broker.bootstrap_servers, *arguments)

    return tool


_numbers = count(1)


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    """A name that no other test has, for topics and groups."""
    return f"{request.node.originalname.removeprefix('test_').replace('_', '-')[:60]}-{next(_numbers)}"


@pytest.fixture
def cast(broker: Broker, name: str) -> Iterator[Cast]:
    """The members of one group, all gone at the end of the test."""
    with Cast(broker.bootstrap_servers, name) as members:
        yield members


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[Any]:
    outcome = yield
    report = outcome.get_result()
    if report.failed:
        for at, source in enumerate(item.stash.get(LOGS, [])):
            report.sections.append((f"broker log {at}", source()[-12_000:]))
