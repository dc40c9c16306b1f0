"""Every order is billed exactly once, though the biller is killed, and the broker too.

``python -m examples.exactly_once`` starts a broker and a biller, kills each of them in the middle of their work, and
then counts the bills. The biller, `bill_orders`, is what an application of your own would look like.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from collections import Counter

from ottla.clients import Consumer, KafkaError, Producer, TransactionFailed
from ottla.testing import BrokerProcess

ORDERS = 3_000
PARTITIONS = 3
SETTINGS = {"group.min.session.timeout.ms": 1_000, "group.initial.rebalance.delay.ms": 0}


async def bill_orders(bootstrap: str) -> None:
    """Read orders, write bills: both count, or neither does."""
    producer = Producer(bootstrap_servers=bootstrap, transactional_id="biller")
    consumer = Consumer(
        "orders",
        bootstrap_servers=bootstrap,
        group_id="billing",
        auto_offset_reset="earliest",
        enable_auto_commit=False,  # the transaction commits
        isolation_level="read_committed",
        session_timeout_ms=1_500,
        heartbeat_interval_ms=300,
    )
    async with producer, consumer:
        while True:
            batches = await consumer.getmany(timeout_ms=1_000, max_records=50)
            if not batches:
                continue
            member = consumer.group_metadata()
            try:
                async with producer.transaction():
                    await asyncio.sleep(0.02)  # hard work
                    for records in batches.values():
                        for order in records:
                            await producer.send("bills", b"bill for " + order.value, key=order.value)
                    ends = {tp: records[-1].offset + 1 for tp, records in batches.items()}
                    await producer.send_offsets_to_transaction(ends, member)
            except TransactionFailed as failure:
                print(f"  taken back: {failure}")
                for tp in consumer.assignment():
                    consumer.seek(tp, await consumer.committed(tp) or 0)  # read again what did not count


async def take_orders(bootstrap: str) -> None:
    async with Producer(bootstrap_servers=bootstrap, linger_ms=5) as producer:
        for number in range(ORDERS):
            await producer.send("orders", b"order %d" % number, partition=number % PARTITIONS)


class Auditor:
    """Counts the bills that count."""

    def __init__(self, bootstrap: str) -> None:
        self.seen: Counter[bytes] = Counter()
        self.consumer = Consumer(
            "bills",
            bootstrap_servers=bootstrap,
            group_id="auditors",
            auto_offset_reset="earliest",
            isolation_level="read_committed",  # shows neither open nor aborted transactions
        )

    async def count(self, orders: int) -> None:
        """Until so many orders have a bill."""
        while len(self.seen) < orders:
            await self.count_more(1_000)

    async def count_more(self, timeout_ms: float) -> None:
        for records in (await self.consumer.getmany(timeout_ms=timeout_ms)).values():
            self.seen.update(record.key for record in records)


async def start_biller(bootstrap: str) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(sys.executable, "-m", __spec__.name, bootstrap)


async def main() -> int:
    with tempfile.TemporaryDirectory() as directory:
        topics = {"orders": PARTITIONS, "bills": PARTITIONS}
        with BrokerProcess(directory, settings=SETTINGS, topics=topics) as broker:
            bootstrap = broker.bootstrap_servers
            print(f"{ORDERS} orders come in, and the biller begins.")
            await take_orders(bootstrap)
            biller = await start_biller(bootstrap)
            auditor = Auditor(bootstrap)
            async with auditor.consumer:
                await auditor.count(ORDERS // 3)
                print(f"{len(auditor.seen)} are billed. The biller is killed, and another takes its place.")
                biller.kill()
                await biller.wait()
                biller = await start_biller(bootstrap)
                await auditor.count(ORDERS * 2 // 3)
                print(f"{len(auditor.seen)} are billed. The broker is killed and started again; the biller goes on.")
                broker.kill()
                broker.restart()
                await auditor.count(ORDERS)
                await auditor.count_more(2_000)  # there must not be any
            biller.kill()
            await biller.wait()
            seen = auditor.seen
    wanted = {b"order %d" % number for number in range(ORDERS)}
    missing, repeated = wanted - set(seen), [order for order, times in seen.items() if times > 1]
    print(f"{seen.total()} bills for {ORDERS} orders: {len(missing)} missing, {len(repeated)} billed twice.")
    exactly_once = set(seen) == wanted and not repeated
    print("Exactly once." if exactly_once else "NOT exactly once.")
    return 0 if exactly_once else 1


if __name__ == "__main__":
    try:
        sys.exit(asyncio.run(bill_orders(sys.argv[1]) if len(sys.argv) > 1 else main()))
    except KafkaError as error:
        sys.exit(f"{type(error).__name__}: {error}")
