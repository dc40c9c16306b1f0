"""How long `ottla serve` takes until it prints its address, and what it holds when idle.

    python bench/startup.py [--runs N] [--write bench/RESULTS.md]

Each run starts a broker, waits for its first line, lets it idle for a second and reads its resident memory from
/proc. Both kinds are measured in turn: --ephemeral, and a data directory that is new each time.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import click
from report import rewrite_section

IDLE_S = 1.0
MIB = 1 << 20


class Run(NamedTuple):
    """One start: milliseconds to the first line, resident bytes after a second."""

    start_ms: float
    rss_bytes: int


def measure(kind: str) -> Run:
    """Start a broker once."""
    with tempfile.TemporaryDirectory() as directory:
        where = ["--ephemeral"] if kind == "ephemeral" else ["--data-dir", directory]
        command = [sys.executable, "-m", "ottla.cli", "serve", "--listen", "127.0.0.1:0", *where]
        began = time.perf_counter()
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        assert process.stdout is not None
        if not process.stdout.readline():
            raise click.ClickException("the broker did not start; run `ottla serve` to see why")
        start_ms = (time.perf_counter() - began) * 1000
        time.sleep(IDLE_S)
        rss_kib = next(
            int(line.split()[1])
            for line in Path(f"/proc/{process.pid}/status").read_text().splitlines()
            if line.startswith("VmRSS")
        )
        process.terminate()
        process.wait()
        process.stdout.close()
        return Run(start_ms, rss_kib * 1024)


def as_markdown(results: dict[str, list[Run]], runs: int) -> str:
    """The section of RESULTS.md."""
    lines = [
        "## Start and memory",
        "",
        f"`python bench/startup.py --runs {runs} --write bench/RESULTS.md`, {datetime.now(UTC).date()}, "
        f"Python {sys.version.split()[0]}. From the command to its first line; resident memory after an idle second.",
        "",
        "| storage | start, median | fastest | slowest | memory |",
        "|---|--:|--:|--:|--:|",
    ]
    for kind, measured in results.items():
        starts = [run.start_ms for run in measured]
        memory = statistics.median(run.rss_bytes for run in measured) / MIB
        lines.append(
            f"| {kind} | {statistics.median(starts):.0f} ms | {min(starts):.0f} ms | {max(starts):.0f} ms "
            f"| {memory:.1f} MiB |"
        )
    return "\n".join(lines) + "\n"


@click.command()
@click.option("--runs", default=10, show_default=True, type=click.IntRange(1, 1000))
@click.option("--write", type=click.Path(dir_okay=False, path_type=Path), help="(Re)write the file's section.")
def main(runs: int, write: Path | None) -> None:
    """Measure the start and the idle memory of a broker."""
    results: dict[str, list[Run]] = {"ephemeral": [], "data directory": []}
    for kind in results:
        measure(kind)  # warms the disk cache; not counted
    for _ in range(runs):
        for kind, measured in results.items():
            measured.append(measure(kind))
    text = as_markdown(results, runs)
    print(text)
    if write is not None:
        rewrite_section(write, text)


if __name__ == "__main__":
    main()
