"""How long `ottla serve` takes until it answers, and what it holds when idle; beside Apache Kafka and kfake.

    python bench/startup.py [--runs N] [--write bench/RESULTS.md]

Each run starts a broker, asks for its versions until it answers, lets it idle for a second and reads its resident
memory from /proc. All kinds take turns: Ottla with --ephemeral and with a data directory that is new each time, Apache
Kafka with storage that was formatted before, and kfake, which keeps everything in memory; the last two where Java and
Go are there.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import beside
import click
from report import rewrite_section
from servers import COMMANDS, prepared

IDLE_S = 1.0
MIB = 1 << 20
KINDS = {
    "ephemeral": "Ottla, in memory",
    "data directory": "Ottla, data directory",
    "kafka": "Apache Kafka",
    "kfake": "kfake, in memory",
}


class Run(NamedTuple):
    """One start: milliseconds to the first answer, resident bytes after a second."""

    start_ms: float
    rss_bytes: float


def measure(kind: str) -> Run:
    """Start a broker once.

    Raises:
        click.ClickException: it did not start.
    """
    from kafka_server import answers, formatted, wait_for

    with tempfile.TemporaryDirectory() as directory:
        port = 0
        if kind == "kafka":
            command, port = formatted(Path(directory))
        elif kind == "kfake":
            command = COMMANDS["kfake"]
        else:
            command = [*COMMANDS["ottla"], *(["--ephemeral"] if kind == "ephemeral" else ["--data-dir", directory])]
        began = time.perf_counter()
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        assert process.stdin is not None and process.stdout is not None
        try:
            if not port:
                port = int(process.stdout.readline().rpartition(b":")[2] or 0)
            if kind == "kafka":
                wait_for(process, port, ready=False)
            elif not answers(port):
                raise click.ClickException(f"{KINDS[kind]} did not start")
            start_ms = (time.perf_counter() - began) * 1000
            time.sleep(IDLE_S)
            status = Path(f"/proc/{process.pid}/status").read_text("ascii")
            rss_kib = int(status.split("VmRSS:", 1)[1].split()[0])
        finally:
            process.kill() if kind == "kafka" else process.terminate()
            process.wait()
            process.stdin.close()
            process.stdout.close()
    return Run(start_ms, rss_kib * 1024)


def as_markdown(results: Mapping[str, list[Run]], missing: Mapping[str, str], runs: int) -> str:
    """The section of RESULTS.md."""
    others = beside.versions(results)
    lines = [
        "## Start and memory",
        "",
        f"`python bench/startup.py --runs {runs} --write bench/RESULTS.md`, {datetime.now(UTC).date()}, "
        f"Python {sys.version.split()[0]}{', ' * bool(others)}{others}. From the command to the first answer; resident "
        "memory after an idle second; both also as a multiple of Ottla's with a data directory.",
        "",
        "| broker | start, median | fastest | slowest | times Ottla's | memory | times Ottla's |",
        "|---|--:|--:|--:|--:|--:|--:|",
    ]
    medians = {
        kind: Run(*(statistics.median(figures) for figures in zip(*measured, strict=True)))
        for kind, measured in results.items()
    }
    ours = medians["data directory"]
    for kind, measured in results.items():
        starts, median = [run.start_ms for run in measured], medians[kind]
        lines.append(
            f"| {KINDS[kind]} | {median.start_ms:,.0f} ms | {min(starts):,.0f} ms | {max(starts):,.0f} ms "
            f"| {median.start_ms / ours.start_ms:.2f} | {median.rss_bytes / MIB:,.1f} MiB "
            f"| {median.rss_bytes / ours.rss_bytes:.2f} |"
        )
    lines += [f"| {KINDS[kind]} | skipped: {reason} | | | | | |" for kind, reason in missing.items()]
    return "\n".join(lines) + "\n"


@click.command()
@click.option("--runs", default=10, show_default=True, type=click.IntRange(1, 1000))
@click.option("--write", type=click.Path(dir_okay=False, path_type=Path), help="(Re)write the file's section.")
def main(runs: int, write: Path | None) -> None:
    """Measure the start and the idle memory of a broker, beside others."""
    others, missing = prepared(beside.OTHERS)
    results: dict[str, list[Run]] = {kind: [] for kind in ("ephemeral", "data directory", *others)}
    for kind in results:
        measure(kind)  # warms the disk cache; not counted
    for _ in range(runs):
        for kind, measured in results.items():
            measured.append(measure(kind))
    text = as_markdown(results, missing, runs)
    print(text)
    if write is not None:
        rewrite_section(write, text)


if __name__ == "__main__":
    main()
