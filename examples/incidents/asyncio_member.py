"""A member on the included client, or on aiokafka: they have the same names, so one loop serves both."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from examples.asyncio_clients import kind_of
from examples.incidents.member import Member


def run(member: Member) -> None:
    """Consume until told to stop, then leave."""
    asyncio.run(consume(member))


def stuck(base: Any, member: Member) -> Any:
    """An assignor that asks somebody who does not answer for a while, the first time that it assigns for all three.

    The others may come one after the other. If it hung for the first of them, the second would find it late to join.
    """

    class Stuck(base):  # type: ignore[misc]
        @classmethod
        def assign(cls, cluster: Any, members: Any) -> Any:
            if len(members) > 2 and member.stuck_s:
                wait_s, member.stuck_s = member.stuck_s, 0
                member.report.event("assignor hangs", seconds=wait_s)
                time.sleep(wait_s)
            return super().assign(cluster, members)

    return Stuck


async def consume(member: Member) -> None:
    """The loop of both kinds."""
    kind = kind_of(member.client)
    assignor, told = kind.assignors[member.assignor], member.options()
    if member.client == "aiokafka":  # other clients take max.poll.interval.ms for both
        told["rebalance_timeout_ms"] = member.rebalance_timeout_ms or member.max_poll_interval_ms
        assignor = stuck(assignor, member) if member.stuck_s else assignor
    consumer = kind.consumer(**told, partition_assignment_strategy=[assignor])

    class Listener(kind.listener):  # type: ignore[misc, name-defined]
        async def on_partitions_revoked(self, revoked: Any) -> None:
            member.revoked()
            wait_s, member.flush_s = member.flush_s, 0.0
            await asyncio.sleep(wait_s)

        async def on_partitions_assigned(self, assigned: Any) -> None:
            member.assigned(consumer.assignment())

    consumer.subscribe(member.topics, listener=Listener())
    try:
        await consumer.start()
        while not member.stopping:
            try:
                await consumer.getmany(timeout_ms=200, max_records=100)
            except kind.error as error:
                member.trouble(error)
                await asyncio.sleep(1)
            if command := member.command():
                match command:
                    case "work", seconds:
                        await asyncio.sleep(float(seconds))
                    case "flush", seconds:
                        member.flush_s = float(seconds)
                    case _, topics:
                        consumer.subscribe(topics.split(","), listener=Listener())
    except kind.error as error:
        member.trouble(error)
    finally:
        await consumer.stop()
