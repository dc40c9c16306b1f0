"""A PostgreSQL with a synchronous standby, as chaos has it: asked by SQL, and rebuilt after a promotion."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
from pathlib import Path
from typing import Any

import asyncpg

from examples.cluster import postgresql
from examples.cluster.postgresql import USER, PostgresServer
from tests.support.waiting import wait_for

FOLLOWS = "SELECT 1 FROM pg_stat_replication WHERE state = 'streaming' AND sync_state = 'quorum'"


class Servers(postgresql.Servers):
    """See the module. Use with ``with``."""

    def __enter__(self) -> Servers:
        self.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()

    def ask(self, query: str, *arguments: object, of: PostgresServer | None = None) -> list[Any]:
        """The rows of an answer, of the primary unless told otherwise."""

        async def answer() -> list[Any]:
            port = (of or self.primary).port
            connection = await asyncpg.connect(
                host="127.0.0.1", port=port, user=USER, database="postgres", ssl=False, timeout=30
            )
            try:
                return list(await connection.fetch(query, *arguments))
            finally:
                connection.terminate()

        return asyncio.run(answer())

    def activity(self) -> str:
        """What the connections to the primary do, and for whom they wait."""
        query = (
            "SELECT pid, application_name, state, wait_event, now() - query_start, pg_blocking_pids(pid), query"
            " FROM pg_stat_activity WHERE application_name LIKE 'ottla/%' ORDER BY 2"
        )
        return "\n".join(" ".join(map(str, row))[:300].replace("\n", " ") for row in self.ask(query))

    def follow(self) -> None:
        super().follow()
        self.wait()

    def wait(self) -> None:
        """Wait until the standby follows."""
        wait_for(lambda: self.ask(FOLLOWS), "the standby to follow", pause_s=0.05)

    def rebuild(self) -> None:
        """Make the old primary a standby of the new one."""
        self.standby.stop()
        shutil.rmtree(self.standby.data)
        self.follow()

    def signal_receiver(self, number: signal.Signals) -> None:
        """Send a signal to the process of the standby that receives what the primary writes."""
        for pid in children_of(self.standby.pid):
            if b"walreceiver" in Path(f"/proc/{pid}/cmdline").read_bytes():
                os.kill(pid, number)


def children_of(pid: int) -> list[int]:
    """The processes that a process has started (Linux)."""
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
