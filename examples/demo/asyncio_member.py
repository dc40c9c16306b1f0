"""A member on the included client, or on aiokafka: they have the same names, so one loop serves both."""

from __future__ import annotations

import asyncio
import signal
from importlib.metadata import version
from typing import Any

from examples.asyncio_clients import kind_of
from examples.demo.member import BATCH, Member
from examples.demo.reports import Position, checksum
from examples.demo.security import asyncio_options, config_file


def run(member: Member) -> None:
    """Consume until told to stop, then commit and leave."""
    asyncio.run(consume(member))


async def consume(member: Member) -> None:
    """The loop of both kinds."""
    kind = kind_of(member.kind)
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, setattr, member, "stopping", True)
    loop.add_signal_handler(signal.SIGINT, lambda: None)  # Ctrl-C reaches the whole terminal; the demo says who stops
    consumer = kind.consumer(
        bootstrap_servers=member.bootstrap,
        client_id=member.name,
        group_id=member.group,
        session_timeout_ms=member.session_timeout_ms,
        heartbeat_interval_ms=member.heartbeat_interval_ms,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        partition_assignment_strategy=[kind.assignors["roundrobin"]],
        **asyncio_options(config_file(), member.kind),
    )

    async def commit() -> None:
        offsets = dict(member.pending)
        if not offsets:
            return
        try:
            await consumer.commit(
                {kind.place(member.topic, partition): offset for partition, offset in offsets.items()}
            )
        except kind.error as error:
            member.report.event("commit refused", error=repr(error))
        else:
            member.committed(offsets)

    class Listener(kind.listener):  # type: ignore[misc, name-defined]
        async def on_partitions_revoked(self, revoked: Any) -> None:
            await commit()
            if revoked:
                member.revoked()

        async def on_partitions_assigned(self, assigned: Any) -> None:
            member.assigned(tp.partition for tp in consumer.assignment())

    consumer.subscribe([member.topic], listener=Listener())
    await consumer.start()
    distribution = "ottla" if member.kind == "ottla" else "aiokafka"
    member.report.event("started", client=f"{distribution} {version(distribution)}")
    try:
        while not member.done:
            found = await consumer.getmany(timeout_ms=200, max_records=BATCH)
            positions = [
                Position(record.partition, record.offset, checksum(record.key, record.value))
                for records in found.values()
                for record in records
            ]
            if positions:
                member.saw(positions)
            if member.commit_due():
                await commit()
    finally:
        await commit()
        await consumer.stop()
