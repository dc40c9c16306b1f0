"""Stands in for aiokafka's own conftest, which starts Kafka in containers: here the broker runs already."""

import asyncio
import gc
import os
from collections.abc import Iterator
from types import SimpleNamespace

import pytest

TAKEN_FOR = "2.8.1"
"""Chooses which of their tests are for other versions of Kafka."""
NOT_HERE = (
    "kafka_ssl_port", "kafka_sasl_plain_port", "kafka_sasl_ssl_port", "ssl_folder", "acl_manager", "kerberos_utils",
    "kafka_config",
)  # fmt: skip


@pytest.fixture(scope="session")
def kafka_server() -> SimpleNamespace:
    hosts = os.environ["EXT_BOOTSTRAP"].split(",")
    host, _, port = hosts[0].rpartition(":")
    ports = {"ssl_port": None, "sasl_plain_port": None, "sasl_ssl_port": None}
    return SimpleNamespace(host=host, port=int(port), hosts=hosts, **ports)


@pytest.fixture(scope="class")
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    made = asyncio.new_event_loop()
    asyncio.set_event_loop(made)
    yield made
    if not made.is_closed():
        made.run_until_complete(made.shutdown_asyncgens())
        made.close()
    gc.collect()
    asyncio.set_event_loop(None)


@pytest.fixture(scope="session")
def ssl_folder() -> None:
    pytest.skip("TLS is not offered")


@pytest.fixture(scope="class")
def setup_test_class_serverless(request: pytest.FixtureRequest, loop: asyncio.AbstractEventLoop) -> None:
    request.cls.loop = loop


@pytest.fixture(scope="class")
def setup_test_class(
    request: pytest.FixtureRequest, loop: asyncio.AbstractEventLoop, kafka_server: SimpleNamespace
) -> None:
    given = {"kafka_host": kafka_server.host, "kafka_port": kafka_server.port, "hosts": kafka_server.hosts}
    for name, value in {"loop": loop, "kafka_version": TAKEN_FOR, **given, **dict.fromkeys(NOT_HERE)}.items():
        setattr(request.cls, name, value)
