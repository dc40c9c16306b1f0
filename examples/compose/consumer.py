"""Consumes a topic as a member of a group, and prints what it got and every rebalance, until it is stopped.

OTTLA_BOOTSTRAP_SERVERS  where the broker is [localhost:9092]
OTTLA_COMMAND_CONFIG     a file of client properties: TLS, and who this is [none]
TOPIC                    what to read [lines]
GROUP                    the group; members share the partitions [readers]
REPORT_EVERY_S           how often to tell what was read [5]
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from ottla.clients import Consumer, ConsumerRebalanceListener, KafkaConnectionError, TopicPartition
from ottla.clients.properties import security_options

TOPIC = os.environ.get("TOPIC", "lines")
GROUP = os.environ.get("GROUP", "readers")
REPORT_EVERY_S = float(os.environ.get("REPORT_EVERY_S", "5"))


class Rebalances(ConsumerRebalanceListener):
    """Prints which partitions come and go."""

    def __init__(self, consumer: Consumer) -> None:
        self._consumer = consumer

    async def on_partitions_revoked(self, revoked: Iterable[TopicPartition]) -> None:
        if gone := numbers(revoked):
            print(f"rebalance: gave up partitions {gone}", flush=True)

    async def on_partitions_assigned(self, assigned: Iterable[TopicPartition]) -> None:
        print(
            f"rebalance: got partitions {numbers(assigned) or 'none'}; "
            f"now mine: {numbers(self._consumer.assignment()) or 'none'}",
            flush=True,
        )


def numbers(partitions: Iterable[TopicPartition]) -> str:
    return " ".join(str(tp.partition) for tp in sorted(partitions))


def security() -> dict[str, Any]:
    """How to connect, as the file of client properties says."""
    file = os.environ.get("OTTLA_COMMAND_CONFIG")
    lines = Path(file).read_text(encoding="utf-8").splitlines() if file else []
    return security_options({key: value for key, _, value in (line.partition("=") for line in lines)})


def on_signal(stop: Callable[[], object]) -> None:
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop)


async def main() -> None:
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    consumer = Consumer(
        bootstrap_servers=os.environ.get("OTTLA_BOOTSTRAP_SERVERS", "localhost:9092"),
        # It may start before the broker does: then it waits, with one line.
        bootstrap_timeout_ms=60_000,
        **security(),
        client_id=socket.gethostname(),
        group_id=GROUP,
        auto_offset_reset="earliest",
        # A member learns of a rebalance by its next heartbeat, and one that died is missed after the session timeout.
        heartbeat_interval_ms=1_000,
        session_timeout_ms=10_000,
        # Only the partitions that move stop; the others are read on during a rebalance.
        partition_assignment_strategy=["cooperative-sticky"],
    )
    consumer.subscribe([TOPIC], listener=Rebalances(consumer))
    count, told, last = 0, loop.time(), ""
    starting = asyncio.create_task(consumer.start())
    on_signal(starting.cancel)
    await starting
    on_signal(stopping.set)
    try:
        while not stopping.is_set():
            for records in (await consumer.getmany(timeout_ms=500)).values():
                count += len(records)
                last = f"{records[-1].key.decode()}: {records[-1].value.decode(errors='replace').strip()[:60]}"
            if loop.time() - told >= REPORT_EVERY_S:
                rate = count / (loop.time() - told)
                print(
                    f"{rate:.0f} lines a second from {len(consumer.assignment())} partitions; last {last}", flush=True
                )
                count, told = 0, loop.time()
    finally:
        await consumer.stop()
    print("left the group", flush=True)


if __name__ == "__main__":
    try:
        asyncio.run(main())
    except asyncio.CancelledError:
        print("stopped before it was in the group", flush=True)
    except KafkaConnectionError as error:
        sys.exit(str(error))
