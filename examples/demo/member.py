"""One member of the group, in a process of its own: ``python -m examples.demo.member --kind …``.

It reports every line it sees, and only then commits. SIGTERM makes it leave cleanly.
"""

from __future__ import annotations

import argparse
import logging
import os
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from examples.demo.reports import Position, Report

COMMIT_EVERY_S = 1.0
BATCH = 1000


@dataclass
class Member:
    """The state of a member of any kind: its options, the partitions it owns, and the offsets it may commit."""

    kind: str
    name: str
    bootstrap: str
    group: str
    topic: str
    session_timeout_ms: int
    report: Report
    parent: int
    owned: set[int] = field(default_factory=set)
    pending: dict[int, int] = field(default_factory=dict)
    stopping: bool = False
    commit_at: float = 0.0

    @property
    def heartbeat_interval_ms(self) -> int:
        return max(self.session_timeout_ms // 6, 100)

    def assigned(self, partitions: Iterable[int]) -> None:
        """A generation began; these are ours."""
        self.owned = set(partitions)
        self.pending = {}
        self.report.event("assigned", partitions=sorted(self.owned))

    def revoked(self) -> None:
        """A generation is over."""
        self.owned = set()
        self.pending = {}
        self.report.event("revoked")

    def saw(self, positions: list[Position]) -> None:
        """Report lines; from now on they may be committed."""
        self.report.positions(positions)
        for partition, offset, _ in positions:
            if partition in self.owned:
                self.pending[partition] = offset + 1

    def committed(self, offsets: dict[int, int]) -> None:
        for partition, offset in offsets.items():
            if self.pending.get(partition) == offset:
                del self.pending[partition]

    def commit_due(self) -> bool:
        now = time.monotonic()
        if not self.pending or now < self.commit_at:
            return False
        self.commit_at = now + COMMIT_EVERY_S
        return True

    @property
    def done(self) -> bool:
        """Told to stop, or the demo itself is gone."""
        return self.stopping or os.getppid() != self.parent


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kind", choices=["ottla", "aiokafka", "confluent-kafka"], required=True)
    for name in ("name", "bootstrap", "group", "topic"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--session-timeout-ms", type=int, required=True)
    parser.add_argument("--reports", type=Path, required=True)
    given = parser.parse_args()
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(asctime)s %(name)s %(levelname)s %(message)s")
    member = Member(
        kind=given.kind,
        name=given.name,
        bootstrap=given.bootstrap,
        group=given.group,
        topic=given.topic,
        session_timeout_ms=given.session_timeout_ms,
        report=Report(given.reports, given.name),
        parent=os.getppid(),
    )
    if member.kind == "confluent-kafka":
        from examples.demo.confluent_member import run
    else:
        from examples.demo.asyncio_member import run
    run(member)
    member.report.event("left")


if __name__ == "__main__":
    main()
