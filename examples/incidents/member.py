"""One member of a group, in a process of its own: ``python -m examples.incidents.member --client …``.

It is an ordinary consumer: it polls, works on what it gets, and commits. SIGTERM makes it leave cleanly. What shall
happen to it is told on its standard input, a line each:

``work 8``
    the next piece of work takes eight seconds, in which it does not poll
``flush 8``
    it takes eight seconds to let go of its partitions at the next rebalance (aiokafka, the included client, heartbeats)
``subscribe a,b``
    subscribe to other topics from now on
``restore``
    it sends the first epoch that it had, as after a restore from an old copy (heartbeats)
"""

from __future__ import annotations

import argparse
import logging
import os
import queue
import signal
import sys
import threading
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from examples.demo.reports import Report

SESSION_TIMEOUT_MS = 6_000
HEARTBEAT_INTERVAL_MS = 1_000
MAX_POLL_INTERVAL_MS = 300_000
CLIENTS = ("aiokafka", "confluent-kafka", "heartbeats", "kafka-python", "ottla")


@dataclass
class Member:
    """The state of a member of any kind.

    Attributes:
        assignor: Kafka's name of it.
        stuck_s: the time for which its assignor hangs when it first assigns for three members.
        flush_s: the time it takes to let go of its partitions the next time.
        commands: those it has not carried out yet, as (word, argument).
    """

    client: str
    name: str
    bootstrap: str
    group: str
    topics: list[str]
    assignor: str
    instance_id: str | None
    session_timeout_ms: int
    max_poll_interval_ms: int
    rebalance_timeout_ms: int | None
    stuck_s: float
    report: Report
    stopping: bool = False
    flush_s: float = 0.0
    commands: queue.SimpleQueue[tuple[str, str]] = field(default_factory=queue.SimpleQueue)

    def options(self) -> dict[str, Any]:
        """The options of every client, by the names that clients written in Python have for them."""
        told: dict[str, Any] = {
            "bootstrap_servers": self.bootstrap,
            "client_id": self.name,
            "group_id": self.group,
            "session_timeout_ms": self.session_timeout_ms,
            "heartbeat_interval_ms": HEARTBEAT_INTERVAL_MS,
            "max_poll_interval_ms": self.max_poll_interval_ms,
            "auto_offset_reset": "earliest",
            "auto_commit_interval_ms": 1_000,
        }
        if self.instance_id:
            told["group_instance_id"] = self.instance_id
        return told

    def command(self) -> tuple[str, str] | None:
        """The next thing to do, None for nothing out of the ordinary."""
        try:
            return self.commands.get_nowait()
        except queue.Empty:
            return None

    def assigned(self, partitions: Iterable[Any]) -> None:
        self.report.event("assigned", partitions=sorted(f"{one.topic}-{one.partition}" for one in partitions))

    def revoked(self) -> None:
        self.report.event("revoked")

    def trouble(self, error: object) -> None:
        """The client told of something that it does not get over by itself."""
        self.report.event("trouble", error=str(error))

    def stop(self, *_: object) -> None:
        self.stopping = True

    def listen(self) -> None:
        """Take in what standard input says. If it ends this process does, too."""

        def read() -> None:
            for line in sys.stdin:
                word, _, argument = line.strip().partition(" ")
                self.commands.put((word, argument))
            os._exit(1)  # who started it is gone, and the broker with it: there is nobody to take leave of

        threading.Thread(target=read, daemon=True).start()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--client", choices=CLIENTS, required=True)
    for name in ("name", "bootstrap", "group", "topics"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--assignor", default="roundrobin")
    parser.add_argument("--instance-id")
    parser.add_argument("--session-timeout-ms", type=int, default=SESSION_TIMEOUT_MS)
    parser.add_argument("--max-poll-interval-ms", type=int, default=MAX_POLL_INTERVAL_MS)
    parser.add_argument("--rebalance-timeout-ms", type=int, help="of aiokafka only; others take max.poll.interval.ms")
    parser.add_argument("--stuck-s", type=float, default=0)
    parser.add_argument("--reports", type=Path, required=True)
    given = vars(parser.parse_args())
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(asctime)s %(name)s %(levelname)s %(message)s")
    report = Report(given.pop("reports"), given["name"])
    member = Member(**given | {"topics": given["topics"].split(",")}, report=report)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole terminal; the demo says who stops when
    signal.signal(signal.SIGTERM, member.stop)
    member.listen()
    if member.client == "confluent-kafka":
        from examples.incidents.confluent_member import run
    elif member.client == "heartbeats":
        from examples.incidents.heartbeat_member import run
    elif member.client == "kafka-python":
        from examples.incidents.kafka_python_member import run
    else:
        from examples.incidents.asyncio_member import run
    run(member)
    member.report.event("left")


if __name__ == "__main__":
    main()
