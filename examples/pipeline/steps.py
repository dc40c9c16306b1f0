"""The commands of the pipeline, as one would type them, and what their tables have then."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from examples.demo.processes import Failed
from examples.demo.view import View
from examples.pipeline.ledger import Places

STOP_S = 60.0
OBJECTIVE_S = 20
LOOKED_AT = 10
"""A partition that was level in one of so many samples has not stopped; see ``pipeline/gold/partition_status.sql``."""
SPARK = ("--master", "local[2]", "--driver-memory", "1g")
LIVE = ("--trigger", "1s", "--sample-interval", "1s")


class Steps:
    """Runs `ottla pipeline …` on one lake; what it prints goes to a file.

    Args:
        directory: of the demo; the lake is in it.

    Attributes:
        took_s: the time that each step took.
    """

    def __init__(self, directory: Path, bootstrap: str, view: View) -> None:
        self.lake = directory / "lake"
        self.log = directory / "pipeline.log"
        self.took_s: dict[str, float] = {}
        self._bootstrap = bootstrap
        self._view = view
        self._stream: asyncio.subprocess.Process | None = None

    async def begin_stream(self) -> None:
        """Read what comes while it comes."""
        self._stream = await self._start("stream", "-b", self._bootstrap, *LIVE, *SPARK)

    def streams(self) -> bool:
        """Tell whether the stream has written anything yet; it takes a while to start.

        Raises:
            Failed: it ended.
        """
        if self._stream is not None and self._stream.returncode is not None:
            raise Failed("`ottla pipeline stream` ended by itself", self.log)
        return (self.lake / "silver" / "log_end_samples").is_dir()

    async def end_stream(self) -> None:
        """Ctrl-C, and wait for its end."""
        if self._stream is None:
            return
        began = time.monotonic()
        if self._stream.returncode is None:
            self._stream.send_signal(signal.SIGINT)
        try:
            async with asyncio.timeout(STOP_S):
                await self._stream.wait()
        except TimeoutError:
            await self.kill()
            raise Failed(f"`ottla pipeline stream` did not stop within {STOP_S:.0f} s", self.log) from None
        finally:
            self.took_s["stopping the stream"] = time.monotonic() - began

    async def kill(self) -> None:
        """End the stream, however it is."""
        if self._stream is not None and self._stream.returncode is None:
            os.killpg(self._stream.pid, signal.SIGKILL)
            await self._stream.wait()

    async def gold(self) -> None:
        """Make of it what operators ask for."""
        await self._run("gold", "--slo", f"{OBJECTIVE_S}s", *SPARK)

    async def query(self, name: str, group: str) -> str:
        """The answer to a named question."""
        return await self._run("query", name, "--group", group, *SPARK)

    async def report(self) -> Path:
        """Write the page."""
        return Path((await self._run("report")).strip())

    async def _run(self, step: str, *arguments: str) -> str:
        began = time.monotonic()
        self._view.note(f"ottla pipeline {step}")
        process = await self._start(step, *arguments, pipe=True)
        try:
            assert process.stdout is not None
            told = (await process.stdout.read()).decode()
            code = await process.wait()
        except asyncio.CancelledError:
            os.killpg(process.pid, signal.SIGKILL)
            raise
        self.took_s[step] = time.monotonic() - began
        with self.log.open("a", encoding="utf-8") as log:
            log.write(told)
        if code:
            raise Failed(f"`ottla pipeline {step}` failed with exit code {code}", self.log)
        return told

    async def _start(self, step: str, *arguments: str, pipe: bool = False) -> asyncio.subprocess.Process:
        command = [sys.executable, "-m", "ottla.cli", "pipeline", step, *arguments, "--lake", str(self.lake)]
        with self.log.open("a", encoding="utf-8") as log:
            log.write(f"$ ottla {' '.join(command[3:])}\n")
            log.flush()
            # A process group of its own: a JVM and its Python workers end with it.
            return await asyncio.create_subprocess_exec(
                *command, stdout=asyncio.subprocess.PIPE if pipe else log, stderr=log, process_group=0
            )

    # What is in the tables

    def rows(self, table: str) -> list[dict[str, Any]]:
        """A table, read as any program would, without Spark."""
        from ottla.pipeline.parquet_files import dataset
        from ottla.pipeline.tables import TABLES

        one = TABLES[table]
        found: list[dict[str, Any]] = dataset(str(self.lake / one.layer / one.name), one).to_table().to_pylist()
        return found

    def commits(self) -> Places:
        """The committed offsets that silver has, in the order of the log."""
        rows = sorted(self.rows("offset_commits"), key=lambda row: (row["log_partition"], row["log_offset"]))
        found: dict[tuple[str, str, int], list[int]] = {}
        for row in rows:
            if not row["is_tombstone"]:
                place = row["group_id"], row["topic"], row["partition"]
                found.setdefault(place, []).append(row["committed_offset"])
        return found

    def has_all(self, at_least: Mapping[tuple[str, str, int], int], stopped: Collection[str]) -> bool:
        """Tell whether silver has so many commits of each partition, and the reason of each generation.

        Also whether it has enough samples to tell that the ``stopped`` groups have stopped.

        Raises:
            Failed: the stream ended.
        """
        if not self.streams():
            return False
        commits = self.commits()
        if any(len(commits.get(place, ())) < count for place, count in at_least.items()):
            return False
        samples = self.rows("log_end_samples")
        for place in at_least:
            if place[0] in stopped:
                ends = [row["log_end_offset"] for row in samples if (row["topic"], row["partition"]) == place[1:]]
                if sum(end > commits[place][-1] for end in ends) < LOOKED_AT:
                    return False
        events = self.rows("group_events")
        told = {(row["group_id"], row["generation"]) for row in events if row["event"] == "rebalance_completed"}
        return all(
            (row["group_id"], row["generation"]) in told
            for row in self.rows("group_generations")
            if not row["is_tombstone"] and row["generation"]  # a group begins with generation 0, without a rebalance
        )
