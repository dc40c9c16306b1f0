"""The clients against a broker whose connections break, and one that is restarted."""

import asyncio
import logging
import socket
from pathlib import Path
from typing import Any
from unittest.mock import AsyncMock

import pytest

from ottla.clients import (
    Admin,
    ClientClosed,
    Consumer,
    KafkaConnectionError,
    KafkaError,
    MemberState,
    Producer,
    TopicPartition,
)
from ottla.clients.client import Client
from ottla.clients.options import ClientOptions
from ottla.clients.transaction_calls import TransactionCalls
from ottla.protocol.messages.metadata import MetadataResponse
from ottla.testing import Broker, BrokerProcess
from tests.clients.flaky import FlakyBroker
from tests.clients.live import QUICK, collect, commits, fill, group_options, numbers, read, until
from tests.clients.transaction_scenarios import seen

pytestmark = pytest.mark.e2e

TRANSACTIONS = 40


@pytest.mark.parametrize("seed", range(3))
async def test_an_idempotent_producer_over_breaking_connections(seed: int) -> None:
    """Requests and answers are lost at every place; each record is there once, in the order of sending."""
    async with FlakyBroker({"t": 3}, seed=seed) as flaky:
        async with Producer(
            bootstrap_servers=flaky.bootstrap_servers, max_batch_size=300, linger_ms=1, **QUICK
        ) as producer:
            await producer.partitions_for("t")
            flaky.cut_after = 2_000
            flaky.cut_all()
            futures = []
            for n in range(3_000):
                futures.append(await producer.send("t", b"%d" % n, partition=n % 3))
                if n % 100 == 0:
                    await asyncio.sleep(0)
            places = await asyncio.gather(*futures)
            assert flaky.cuts > 10
            flaky.cut_after = 0
        for partition in range(3):
            offsets = [place.offset for place in places if place.partition == partition]
            assert offsets == list(range(1_000)), "acknowledged at the offsets that they have"
        async with Consumer(bootstrap_servers=flaky.bootstrap_servers, auto_offset_reset="earliest") as consumer:
            consumer.assign([TopicPartition("t", p) for p in range(3)])
            records = await read(consumer, 3_000)
            assert await consumer.getmany(timeout_ms=50) == {}
        for partition in range(3):
            assert numbers(r for r in records if r.partition == partition) == list(range(partition, 3_000, 3))


async def test_a_server_that_names_no_brokers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Client, "_ask_metadata", AsyncMock(return_value=MetadataResponse()))
    with pytest.raises(KafkaConnectionError, match=r"^no broker answers: broker\.test:9092 names no brokers$"):
        await Client(ClientOptions(bootstrap_servers="broker.test")).ask(None)


CLASSIC = {"heartbeat_interval_ms": 30}
GROUPS: dict[str, dict[str, Any]] = {
    "range": CLASSIC | {"partition_assignment_strategy": "range"},
    "cooperative-sticky": CLASSIC | {"partition_assignment_strategy": "cooperative-sticky"},
    "consumer": {"group_protocol": "consumer"},
}
"""Options of members, by the assignor or the protocol."""


@pytest.mark.parametrize("kind", list(GROUPS))
async def test_a_group_over_breaking_connections(kind: str) -> None:
    """Whatever breaks, everything is read, and what is committed at the end is everything."""
    async with FlakyBroker({"t": 4}, seed=5) as flaky:
        async with Producer(bootstrap_servers=flaky.bootstrap_servers, max_batch_size=200, linger_ms=1) as producer:
            for n in range(2_000):
                await producer.send("t", b"%d" % n, partition=n % 4)
        options = {
            "bootstrap_servers": flaky.bootstrap_servers,
            "group_id": "g",
            "auto_offset_reset": "earliest",
            "auto_commit_interval_ms": 50,
            "fetch_max_wait_ms": 20,
            "max_partition_fetch_bytes": 2_000,
            **QUICK,
            **GROUPS[kind],
        }
        seen: list[int] = []
        flaky.cut_after = 6_000
        consumers = [Consumer("t", **options) for _ in range(2)]
        jobs = []
        for consumer in consumers:
            await consumer.start()
            jobs.append(asyncio.ensure_future(collect(consumer, seen)))
        await until(lambda: len(set(seen)) == 2_000, "all read")
        assert flaky.cuts > 5
        flaky.cut_after = 0
        for consumer in consumers:
            await consumer.stop()
        await asyncio.gather(*jobs)
        committed = await commits(flaky.bootstrap_servers, "g")
        assert committed == {TopicPartition("t", partition): 500 for partition in range(4)}


@pytest.mark.parametrize("v2", [False, True], ids=["v1", "v2"])
@pytest.mark.parametrize("seed", range(2))
async def test_transactions_over_breaking_connections(seed: int, v2: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Committed records are there once and in order, aborted ones are not, and the group's offset is the last one."""

    async def speaks_v2(calls: TransactionCalls) -> bool:
        return v2

    monkeypatch.setattr(TransactionCalls, "_speaks_v2", speaks_v2)
    async with FlakyBroker({"t": 3, "input": 1}, seed=seed) as flaky:
        bootstrap = flaky.bootstrap_servers
        expected: list[list[str]] = [[], [], []]
        committed = 0
        async with Producer(bootstrap_servers=bootstrap, transactional_id="x", linger_ms=1, **QUICK) as producer:
            await producer.partitions_for("t")
            flaky.cut_after = 3_000
            flaky.cut_all()
            async with asyncio.timeout(60):
                for number in range(TRANSACTIONS):
                    await producer.begin_transaction()
                    for part in range(9):
                        await producer.send("t", f"{number} {part}".encode(), partition=part % 3)
                    await producer.send_offsets_to_transaction({TopicPartition("input", 0): number + 1}, "g")
                    if number % 4 == 3:
                        await producer.abort_transaction()
                        continue
                    await producer.commit_transaction()
                    committed = number + 1
                    for part in range(9):
                        expected[part % 3].append(f"{number} {part}")
            assert flaky.cuts > 5
            flaky.cut_after = 0
            assert await seen(bootstrap, [TopicPartition("t", partition) for partition in range(3)]) == [
                value for values in expected for value in values
            ]
            assert await commits(bootstrap, "g") == {TopicPartition("input", 0): committed}


async def test_a_restart_of_the_broker(tmp_path: Path) -> None:
    """Producer, member and admin go on by themselves; the member keeps its place in the group."""
    broker = await asyncio.to_thread(BrokerProcess(tmp_path, topics={"t": 2}).start)
    seen: list[int] = []
    async with (
        Producer(bootstrap_servers=broker.bootstrap_servers, **QUICK) as producer,
        Consumer("t", **{**group_options(broker.bootstrap_servers, "g"), **QUICK}) as consumer,
        Admin(bootstrap_servers=broker.bootstrap_servers, **QUICK) as admin,
    ):
        job = asyncio.ensure_future(collect(consumer, seen))
        for n in range(10):
            await producer.send_and_wait("t", b"%d" % n)
        await until(lambda: len(seen) == 10, "before")
        generation, member = consumer.generation_id, consumer.member_id
        await asyncio.to_thread(broker.kill)
        futures = [await producer.send("t", b"%d" % n) for n in range(10, 20)]
        await asyncio.sleep(0.2)
        assert not any(future.done() for future in futures)
        assert producer.unanswered_ms and consumer.unanswered_ms
        await asyncio.to_thread(broker.restart)
        try:
            async with asyncio.timeout(8):
                await asyncio.gather(*futures)
            await until(lambda: len(seen) == 20, "after")
            assert sorted(seen) == list(range(20))
            assert producer.unanswered_ms == consumer.unanswered_ms == 0
            assert (consumer.generation_id, consumer.member_id) == (generation, member)
            assert consumer.member_state is MemberState.STABLE
            assert list((await admin.describe_groups(["g"]))["g"].members)
            await consumer.stop()
            await job
        finally:
            await asyncio.to_thread(broker.stop)


async def test_a_coordinator_that_forgot_the_group_is_joined_anew() -> None:
    """A broker without a memory comes back at the same address: the member is unknown, and begins again."""
    broker = Broker(topics={"t": 1}).start()
    port = broker.port
    async with Consumer("t", **{**group_options(broker.bootstrap_servers, "g"), **QUICK}) as consumer:
        await fill(broker, "t", 3)
        assert numbers(await read(consumer, 3)) == [0, 1, 2]
        member = consumer.member_id
        await asyncio.to_thread(broker.crash)
        again = await asyncio.to_thread(Broker(topics={"t": 1}, port=port).start)
        try:
            await fill(again, "t", 2, first=100)
            assert numbers(await read(consumer, 2)) == [100, 101]
            # The new id comes before the new generation.
            while consumer.member_id in ("", member) or consumer.member_state is not MemberState.STABLE:
                await consumer.getmany(timeout_ms=10)
        finally:
            await consumer.stop()
            await asyncio.to_thread(again.stop)


async def test_an_admin_call_over_a_broken_connection() -> None:
    async with FlakyBroker({"t": 1}) as flaky, Admin(bootstrap_servers=flaky.bootstrap_servers, **QUICK) as admin:
        flaky.cut_all()
        assert await admin.list_topics(include_internal=False) == ["t"]
        flaky.cut_all()
        assert (await admin.create_topics({"u": 1}))["u"].num_partitions == 1


async def test_without_a_broker_an_admin_call_ends_in_time() -> None:
    with Broker() as broker:
        admin = Admin(bootstrap_servers=broker.bootstrap_servers, default_api_timeout_ms=300, **QUICK)
        await admin.start()
    async with asyncio.timeout(10):
        with pytest.raises(KafkaError, match="cannot connect"):
            await admin.list_groups()
    await admin.close()


async def test_without_a_broker_a_consumer_stops_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its records cannot be committed: it does not hold its process up for a whole request_timeout_ms."""
    monkeypatch.setattr("ottla.clients.coordinator.CLOSE_PATIENCE_MS", 100)
    with Broker(topics={"t": 1}) as broker:
        await fill(broker, "t", 1)
        consumer = Consumer("t", **group_options(broker, "g"))
        await consumer.start()
        assert numbers(await read(consumer, 1)) == [0]
    async with asyncio.timeout(10):
        await consumer.stop()


@pytest.mark.parametrize("kind", [Producer, Consumer, Admin])
async def test_a_start_waits_for_the_brokers_name(
    kind: type[Producer] | type[Consumer] | type[Admin],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A client that starts together with its broker: first nobody knows the name, then nobody listens."""
    loop = asyncio.get_running_loop()
    resolve, tries = loop.getaddrinfo, 0
    with Broker() as broker, socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))

        async def getaddrinfo(host: str, port: int, **options: Any) -> Any:
            nonlocal tries
            if host != "broker.test":
                return await resolve(host, port, **options)
            tries += 1
            if tries <= 3:
                raise socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")
            return await resolve("127.0.0.1", closed.getsockname()[1] if tries <= 6 else port, **options)

        monkeypatch.setattr(loop, "getaddrinfo", getaddrinfo)
        with caplog.at_level(logging.WARNING, "ottla.clients"):
            server = f"broker.test:{broker.port}"
            async with kind(bootstrap_servers=server, bootstrap_timeout_ms=20_000, **QUICK):
                assert tries == 7
    (said,) = caplog.messages
    assert said.endswith(
        f"no broker answers: cannot connect to {server}: [Errno -3] Temporary failure in name resolution; "
        "trying again for up to 20 s"
    )


async def test_a_connection_that_does_not_come_about_is_given_up_soon() -> None:
    """Long before a request would be: the address may be one that another machine had (KIP-601)."""
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        server = f"127.0.0.1:{silent.getsockname()[1]}"
        async with asyncio.timeout(10):
            with pytest.raises(KafkaConnectionError, match=f"no connection to {server} in 50 ms"):
                await Admin(bootstrap_servers=server, socket_connection_setup_timeout_ms=50).start()


@pytest.mark.parametrize("kind", [Admin, Consumer, Producer])
async def test_stop_ends_a_start_under_way(kind: type[Admin | Consumer | Producer]) -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        client = kind(bootstrap_servers=f"127.0.0.1:{silent.getsockname()[1]}", bootstrap_timeout_ms=60_000)
        async with asyncio.timeout(10):
            starting = asyncio.ensure_future(client.start())
            await asyncio.sleep(0.05)
            await client.stop()
            with pytest.raises(ClientClosed, match=r"was stopped while start\(\) was running"):
                await starting
        with pytest.raises(ClientClosed, match="that is stopped: make a new one"):
            await client.start()


async def test_a_start_that_failed_may_be_tried_again() -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        consumer = Consumer(bootstrap_servers=f"127.0.0.1:{closed.getsockname()[1]}", **QUICK)
        for _ in range(2):
            with pytest.raises(KafkaConnectionError):
                await consumer.start()


async def test_the_http_port_of_a_broker_is_recognised() -> None:
    with Broker(http=True) as broker:
        server = broker.http_url.removeprefix("http://")
        for most in (1024, 2**31 - 1):
            with pytest.raises(KafkaConnectionError, match=f"{server} .*speaks HTTP.*another port of the broker"):
                await Admin(bootstrap_servers=server, receive_message_max_bytes=most, request_timeout_ms=5_000).start()


async def test_a_start_does_not_wait_for_ever(caplog: pytest.LogCaptureFixture) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        server = f"127.0.0.1:{closed.getsockname()[1]}"
        for timeout_ms, lines in ((0, 0), (1_000, 1)):
            caplog.clear()
            async with asyncio.timeout(10):
                with pytest.raises(KafkaConnectionError, match=f"no broker answers: cannot connect to {server}"):
                    await Producer(bootstrap_servers=server, bootstrap_timeout_ms=timeout_ms, **QUICK).start()
            assert len(caplog.messages) == lines
