#!/usr/bin/env python3
"""Measure what rules add to a heartbeat inside one process: from its bytes to those of its answer, without a socket.

It says less about a server than security.py, and it is steady where other work disturbs whole servers. Two brokers, one
of which has an authorizer and a hundred rules and whose client has logged in, take turns.
"""

from __future__ import annotations

import contextlib
import socket
import statistics
import struct
import time
from pathlib import Path
from typing import Any

import click
from before import Row
from heartbeat_groups import form_groups, heartbeats
from report import describe, plain, rewrite_section, section
from security import GREETINGS, RULES, WITH_RULES, make_rules
from servers import Server, free_port

from ottla.testing import Broker

QUICK = {"group.initial.rebalance.delay.ms": 0}
DOOR = "SASL_PLAINTEXT"


class Member:
    """A member of a broker in this process, whose heartbeats are handed to its connection."""

    def __init__(self, broker: Broker, port: int, greetings: list[bytes]) -> None:
        self._broker = broker
        frame = heartbeats(form_groups(Server("ottla", 0, "127.0.0.1", broker.port), 1)).frames[0]
        self._data = struct.pack(">i", len(frame)) + frame
        self._socket = socket.create_connection(("127.0.0.1", port))
        for data in (*(struct.pack(">i", len(one)) + one for one in greetings), self._data, self._data):
            self._socket.sendall(data)
            self._socket.recv(1 << 16)
        self._connection: Any = broker.run(self._find)

    def _find(self) -> Any:
        """Its connection, as the broker has it."""
        assert self._broker._running is not None
        ours = self._socket.getsockname()
        connections: list[Any] = list(self._broker._running._server.connections)
        return next(one for one in connections if one._transport.get_extra_info("peername") == ours)

    def turn(self, heartbeats: int) -> float:
        """Microseconds of CPU for a heartbeat."""

        def work() -> float:
            receive, data, connection = self._connection._receive, self._data, self._connection
            began = time.thread_time()
            for _ in range(heartbeats):
                receive(data, 4, connection)
            return (time.thread_time() - began) / heartbeats * 1e6

        return self._broker.run(work)


@click.command(help=__doc__)
@click.option("--pairs", default=40, show_default=True, type=click.IntRange(2))
@click.option("--heartbeats", "count", default=5_000, show_default=True, type=click.IntRange(1), help="Of one turn.")
@click.option("--write", type=click.Path(dir_okay=False, path_type=Path), help="(Re)write the file's section.")
def main(pairs: int, count: int, write: Path | None) -> None:
    """See the module."""
    port = free_port()
    listeners = {"listeners": f"PLAINTEXT://127.0.0.1:0,{DOOR}://127.0.0.1:{port}"}
    row = Row("heartbeat")
    with contextlib.ExitStack() as stack:
        without = stack.enter_context(Broker(QUICK))
        ruled = stack.enter_context(Broker(QUICK | WITH_RULES | listeners))
        make_rules(Server("ottla", 0, "127.0.0.1", ruled.port))
        members = Member(without, without.port, []), Member(ruled, port, GREETINGS)
        for number in range(pairs):
            cpu_us = {at: members[at].turn(count) for at in ((0, 1) if number % 2 else (1, 0))}
            row.cpu_us.append((cpu_us[0], cpu_us[1]))
    before, now = (f"{statistics.median(side):.2f}" for side in zip(*row.cpu_us, strict=True))
    grown, low, high = (f"{1 + value:.3f}" for value in row.cost())
    load = f"heartbeat, {RULES} rules, in the process"
    table = [
        ("load", "what", "pairs", "without", "with", "with / without", "95 % interval"),
        (load, "CPU, µs", str(pairs), before, now, grown, f"{low} to {high}"),
    ]
    print(plain(table))
    if write is not None:
        rewrite_section(write, section("What rules add to a heartbeat", describe(pinned=False), table))


if __name__ == "__main__":
    main()
