"""Transactions over connections that break: requests and answers are lost at every place."""

from __future__ import annotations

import asyncio

import pytest

from ottla.clients import Admin, Producer, TopicPartition
from ottla.clients.transaction_calls import TransactionCalls
from tests.clients.flaky import FlakyBroker
from tests.clients.transaction_scenarios import seen

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio]

QUICK = {"retry_backoff_ms": 5, "retry_backoff_max_ms": 20, "reconnect_backoff_ms": 5, "reconnect_backoff_max_ms": 20}
TRANSACTIONS = 40
PLACES = [TopicPartition("t", partition) for partition in range(3)]


@pytest.mark.parametrize("v2", [False, True], ids=["v1", "v2"])
@pytest.mark.parametrize("seed", range(2))
async def test_transactions_over_breaking_connections(seed: int, v2: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is committed is there once and in order, what is aborted is not, and the group's offset is the last one."""

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
            assert await seen(bootstrap, PLACES) == [value for values in expected for value in values]
            async with Admin(bootstrap_servers=bootstrap) as admin:
                offsets = await admin.list_group_offsets("g")
                assert {tp: one.offset for tp, one in offsets.items()} == {TopicPartition("input", 0): committed}
