"""`ottla transactions` against a broker, and what counts as hanging."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from ottla.broker.core.transactions.state import STATES as BROKERS_STATES
from ottla.cli.transactions import STATES, hanging
from ottla.clients import Producer, TopicPartition
from ottla.clients.admin_structs import ProducerDescription


@pytest.fixture
def open_transaction(broker: Any) -> Iterator[Callable[[], None]]:
    """A transaction ``tx`` with a record in orders-1; what is given commits it."""
    loop = asyncio.new_event_loop()
    producer = Producer(bootstrap_servers=broker.bootstrap_servers, transactional_id="tx", linger_ms=0)

    async def begin() -> None:
        await producer.start()
        await producer.begin_transaction()
        await producer.send_and_wait("orders", b"x", partition=1)

    loop.run_until_complete(begin())
    yield lambda: loop.run_until_complete(producer.commit_transaction())
    loop.run_until_complete(producer.stop())
    loop.close()


def test_without_transactions(ottla: Any) -> None:
    assert ottla.json("transactions", "list") == []
    assert "no transactional ids" in ottla.run("transactions", "list").stderr
    assert "No transaction hangs" in ottla.run("transactions", "find-hanging").stderr
    absent = ottla.run("transactions", "describe", "absent", expect=1).stderr
    assert (
        absent == "Error: There is no transactional id 'absent'.\n  `ottla transactions list` shows those that exist.\n"
    )
    nobody = ottla.run("transactions", "describe-producers", "-t", "orders", "--partition", "0")
    assert "No idempotent producer" in nobody.stderr


def test_an_open_transaction_is_shown(ottla: Any, open_transaction: Callable[[], None]) -> None:
    (listed,) = ottla.json("transactions", "list")
    assert (listed["transactional_id"], listed["coordinator"], listed["state"]) == ("tx", 1, "Ongoing")
    (described,) = ottla.json("transactions", "describe", "tx")
    assert described["partitions"] == [{"topic": "orders", "partition": 1}]
    assert described["start_time"] is not None
    (producer,) = ottla.json("transactions", "describe-producers", "--topic", "orders", "--partition", "1")
    assert producer["producer_id"] == listed["producer_id"] == described["producer_id"]
    assert producer["transaction_start_offset"] == 0
    assert ottla.rows("transactions", "list")[1] == ["tx", "1", str(listed["producer_id"]), "Ongoing"]
    assert "orders 1" in ottla.run("transactions", "describe", "--transactional-id", "tx").stdout
    assert len(ottla.rows("transactions", "describe-producers", "--topic", "orders", "--partition", "1")) == 2
    open_transaction()
    (producer,) = ottla.json("transactions", "describe-producers", "orders", "--partition", "1")
    assert producer["transaction_start_offset"] is None


def test_filters(ottla: Any, open_transaction: Callable[[], None]) -> None:
    for options, expected in (
        (["--state", "Ongoing"], 1),
        (["--state", "Empty"], 0),
        (["--transactional-id-pattern", "t."], 1),
        (["--transactional-id-pattern", "y.*"], 0),
        (["--duration-filter", "10m"], 0),
    ):
        assert len(ottla.json("transactions", "list", *options)) == expected, options


def test_filters_that_mean_nothing(ottla: Any) -> None:
    refused = ottla.run("transactions", "list", "--state", "Foo", expect=2).stderr
    assert all(state in refused for state in STATES)
    assert (
        "match '(': invalid regular"
        in ottla.run("transactions", "list", "--transactional-id-pattern", "(", expect=1).stderr
    )


def test_the_states_are_the_brokers() -> None:
    assert set(STATES) == set(BROKERS_STATES)


def test_a_transaction_that_is_known_does_not_hang(ottla: Any, open_transaction: Callable[[], None]) -> None:
    assert ottla.json("transactions", "find-hanging", "--max-transaction-timeout", "0s") == []
    assert ottla.json("transactions", "find-hanging", "orders", "--partition", "1") == []
    ottla.run("transactions", "find-hanging", "-t", "orders", "--partition", "9", expect=1)


def test_aborting_by_its_offset(ottla: Any, open_transaction: Callable[[], None]) -> None:
    at = ("--topic", "orders", "--partition", "1")
    refused = ottla.run("transactions", "abort", *at, "--start-offset", "5", expect=1)
    assert "No transaction is open from offset 5 in orders-1" in refused.stderr
    assert (
        "Aborted the transaction"
        in ottla.run("transactions", "abort", "orders", "--partition", "1", "--start-offset", "0").stdout
    )
    (producer,) = ottla.json("transactions", "describe-producers", *at)
    assert producer["transaction_start_offset"] is None


# -- what hangs

PLACE, ELSEWHERE = TopicPartition("t", 0), TopicPartition("t", 1)
NOW_MS = 10_000_000


def producer(producer_id: int, *, start: int | None = 5, last_ms: int = 0) -> ProducerDescription:
    return ProducerDescription(producer_id, 0, 1, last_ms, 0, start)


@pytest.mark.parametrize(
    ("state", "known_in", "expected"),
    [
        pytest.param(producer(7), None, [7], id="nobody knows the producer"),
        pytest.param(producer(7), [ELSEWHERE], [7], id="its transaction is elsewhere"),
        pytest.param(producer(7), [], [7], id="it has none"),
        pytest.param(producer(7), [PLACE], [], id="its transaction has the partition"),
        pytest.param(producer(7, start=None), None, [], id="nothing is open"),
        pytest.param(producer(7, last_ms=NOW_MS - 1000), None, [], id="it is young"),
    ],
)
def test_what_hangs(state: ProducerDescription, known_in: list[TopicPartition] | None, expected: list[int]) -> None:
    class Asked:
        async def describe_producers(self, places: Any) -> Any:
            return {PLACE: [state]}

        async def list_transactions(self, producer_ids: Any) -> Any:
            return [] if known_in is None else [SimpleNamespace(transactional_id="tx", producer_id=7)]

        async def describe_transactions(self, ids: Any) -> Any:
            return {"tx": SimpleNamespace(producer_id=7, partitions=known_in)} if ids else {}

    asked: Any = Asked()
    found = asyncio.run(hanging(asked, [PLACE], now_ms=NOW_MS, oldest_ms=900_000))
    assert [one["producer_id"] for one in found] == expected
    assert all(one["open_ms"] == NOW_MS for one in found)
