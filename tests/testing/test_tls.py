"""`Broker(tls=True)`: brokers with TLS in tests, and what tests connect with."""

from __future__ import annotations

import asyncio
import socket
import ssl
import sys
from typing import Any

import pytest

from ottla.clients import Consumer
from ottla.testing import Broker
from ottla.testing.authority import Authority

pytestmark = pytest.mark.e2e


@pytest.fixture(params=[True, "mutual"], scope="module")
def broker(request: pytest.FixtureRequest) -> Any:
    with Broker(topics={"orders": 2}, tls=request.param) as broker:
        yield broker


def test_the_verbs_of_tests_work(broker: Broker) -> None:
    broker.produce("orders", [b"a", b"b"], partition=0)
    assert [row.value for row in broker.records("orders")][:2] == [b"a", b"b"]


def test_our_client(broker: Broker) -> None:
    async def use() -> None:
        async with Consumer("orders", **broker.connection, group_id="g"):
            await broker.group("g").wait_async(members=1)
            (member_id,) = broker.group("g").members
            broker.group("g").evict(member_id)
            await broker.group("g").wait_async(members=0)

    asyncio.run(use())


def test_a_client_that_does_not_trust_the_authority() -> None:
    with Broker(tls=True) as broker, pytest.raises(ssl.SSLCertVerificationError):
        connect(broker, ssl.create_default_context())


def test_a_client_without_a_certificate() -> None:
    with Broker(tls="mutual") as broker:
        plain = ssl.create_default_context(cafile=broker.cafile)
        # In TLS 1.3 a client hears only when it reads that it is refused.
        with connect(broker, plain) as connection, pytest.raises(ssl.SSLError, match="CERTIFICATE_REQUIRED"):
            connection.recv(1)
        with connect(broker, broker.ssl_context("CN=alice,OU=billing")) as connection:
            assert connection.version() == "TLSv1.3"


def connect(broker: Broker, context: ssl.SSLContext) -> ssl.SSLSocket:
    return context.wrap_socket(socket.create_connection((broker.host, broker.port), 5), server_hostname="localhost")


def test_the_files_of_a_client(broker: Broker) -> None:
    files = broker.client_certificate("CN=alice,OU=billing,O=example")
    assert files is broker.client_certificate("CN=alice,OU=billing,O=example")
    assert files.cafile == broker.cafile
    with pytest.raises(ValueError, match=r"write CN=…"):
        broker.client_certificate("alice")


def test_what_there_is_only_with_tls() -> None:
    with Broker() as broker, pytest.raises(RuntimeError, match="Broker\\(tls=True\\)"):
        broker.ssl_context()
    with pytest.raises(TypeError, match="'mutual'"):
        Broker(tls="both")


def test_how_to_get_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "trustme", None)
    with pytest.raises(ModuleNotFoundError, match=r"pip install 'ottla\[test-tls\]'"):
        Authority()


def confluent(options: dict[str, Any]) -> set[str]:
    from confluent_kafka.admin import AdminClient

    return set(AdminClient(options).list_topics(timeout=20).topics)


def kafka_python(options: dict[str, Any]) -> set[str]:
    from kafka import KafkaAdminClient

    client = KafkaAdminClient(**options)
    try:
        return set(client.list_topics())
    finally:
        client.close()


def aiokafka(options: dict[str, Any]) -> set[str]:
    from aiokafka.admin import AIOKafkaAdminClient

    async def ask() -> set[str]:
        client = AIOKafkaAdminClient(**options)
        await client.start()
        try:
            return set(await client.list_topics())
        finally:
            await client.close()

    return asyncio.run(ask())


@pytest.mark.parametrize("ask", [confluent, kafka_python, aiokafka])
def test_configurations_of_clients(broker: Broker, ask: Any) -> None:
    assert "orders" in ask(broker.client_config(ask.__name__.replace("_", "-")))
