"""`ottla.testing`: brokers that tests start, stop, crash and start again."""

from __future__ import annotations

import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ottla.broker.settings import BadSetting
from ottla.testing import Broker, BrokerProcess
from tests.support.clients import confluent
from tests.support.kit import produce
from tests.support.waiting import wait_for

pytestmark = pytest.mark.e2e


def send(servers: str, topic: str, count: int) -> None:
    assert len(produce(servers, topic, [str(number) for number in range(count)])) == count


def topics(servers: str) -> dict[str, int]:
    found = confluent.admin(servers).list_topics(timeout=20).topics
    return {name: len(topic.partitions) for name, topic in found.items() if not name.startswith("__")}


def test_a_process_that_does_not_start_is_gone() -> None:
    process = BrokerProcess(settings={"no.such.setting": 1}, arguments=("--strict",))
    with pytest.raises(RuntimeError, match="did not start"):
        process.start()
    with pytest.raises(AssertionError, match="does not run"):
        _ = process.pid


def test_a_broker_in_a_with_block() -> None:
    with Broker(topics={"orders": 3}) as broker:
        send(broker.bootstrap_servers, "orders", 10)
        assert topics(broker.bootstrap_servers) == {"orders": 3}
        address = (broker.host, broker.port)
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(address, timeout=5)


async def test_a_broker_in_an_async_with_block() -> None:
    async with Broker(topics={"orders": 1}) as broker:
        assert broker.port > 0


def test_two_brokers_at_once_do_not_know_each_other() -> None:
    with Broker(topics={"a": 1}) as one, Broker(topics={"b": 1}) as two:
        assert topics(one.bootstrap_servers) == {"a": 1}
        assert topics(two.bootstrap_servers) == {"b": 1}


@pytest.mark.parametrize("end", ["stop", "crash"])
def test_data_outlives_the_broker(tmp_path: Path, end: str) -> None:
    broker = Broker(data_dir=tmp_path / "data").start()
    send(broker.bootstrap_servers, "kept", 100)
    getattr(broker, end)()
    with Broker(data_dir=tmp_path / "data") as again:
        assert topics(again.bootstrap_servers) == {"kept": 1}
        assert confluent.watermarks(again.bootstrap_servers, "kept") == (0, 100)


def test_a_typo_in_a_setting_is_refused() -> None:
    with pytest.raises(BadSetting, match=r"group\.max\.siez"):
        Broker({"group.max.siez": 3})


@pytest.mark.parametrize("kind", [Broker, BrokerProcess])
def test_topics_in_a_list_have_one_partition_each(kind: Any) -> None:
    with kind(topics=["orders", "refunds"]) as broker:
        assert topics(broker.bootstrap_servers) == {"orders": 1, "refunds": 1}


@pytest.mark.parametrize("kind", [Broker, BrokerProcess])
@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("orders", r"write topics=\['orders'\], or topics={'orders': 3} for three"),
        (3, r"write topics=\['orders'\]"),
        ([("orders", 3)], r"\('orders', 3\) is no name: write topics=\['orders'\], or topics={'orders': 3}"),
        ({"orders": "3"}, r"'orders' cannot have '3' partitions: write a number, as in {'orders': 3}"),
        ({"orders": 0}, "'orders' cannot have 0 partitions"),
    ],
)
def test_topics_that_are_none_say_what_was_meant(kind: Any, given: Any, said: str) -> None:
    with pytest.raises(TypeError, match=said):
        kind(topics=given)


def test_settings_that_are_none_say_what_was_meant() -> None:
    with pytest.raises(TypeError, match=r"topics are named by topics=\['orders'\]"):
        Broker(["orders"])  # type: ignore[arg-type]
    with pytest.raises(BadSetting, match=r"unknown setting 'num_partitions'; did you mean num.partitions\?"):
        Broker({"num_partitions": 3})


def test_using_a_broker_that_does_not_run_says_what_to_do() -> None:
    with pytest.raises(RuntimeError, match="with Broker"):
        _ = Broker().bootstrap_servers


def test_a_process_that_is_killed_and_restarted_keeps_its_address_and_data(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path / "data", topics={"t": 2}) as broker:
        before = broker.bootstrap_servers
        send(before, "t", 50)
        broker.kill()
        broker.restart()
        assert broker.bootstrap_servers == before
        broker.restart()  # of one that runs: it is stopped first
        assert broker.bootstrap_servers == before
        assert topics(before) == {"t": 2}
        assert broker.stop() == 0


def test_a_process_listens_where_its_settings_say() -> None:
    where = {"listeners": "PLAINTEXT://127.0.0.1:0,INNER://127.0.0.1:0"}
    with BrokerProcess(
        settings={**where, "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,INNER:PLAINTEXT"}
    ) as one:
        wait_for(lambda: "INNER://127.0.0.1:" in one.log_text(), "its listeners to be told")
        assert one.port == int(one.bootstrap_servers.removeprefix("127.0.0.1:"))


def test_a_process_that_cannot_start_says_why(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path / "data"), pytest.raises(RuntimeError, match="Cannot start"):
        BrokerProcess(tmp_path / "data").start()


def test_the_fixtures(ottla_broker: Broker, ottla_broker_factory: Callable[..., Broker]) -> None:
    other = ottla_broker_factory(topics={"t": 1})
    assert topics(other.bootstrap_servers) == {"t": 1}
    assert topics(ottla_broker.bootstrap_servers) == {}
