"""What `ottla serve` takes until it answers, and what it holds when idle; beside Apache Kafka and kfake.

    python bench/startup.py [--runs N] [--write bench/RESULTS.md]

Each run starts a broker, asks for its versions until it answers, reads the clock of its CPU, lets it idle for a second
and reads its resident memory from /proc. All kinds take turns: Ottla with --ephemeral and with a data directory that is
new each time, Apache Kafka with storage that was formatted before, and kfake, which keeps everything in memory; the
last two where Java and Go are there. Ottla is compiled, but for one kind. Between them come a Python with the libraries
that no start can do without, and `ottla --help`; at the end `Broker()` of ottla.testing, many times in one process.
"""

from __future__ import annotations

import compileall
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import beside
import click
from report import Figures, rewrite_section
from servers import COMMANDS, prepared

IDLE_S = 1.0
MIB = 1 << 20
ROOT = Path(__file__).resolve().parents[1]
ROOMS = ("broker", "cli", "clients", "observe", "protocol", "testing", "workbench")
BARE = "data directory, no bytecode"
OURS = ("ephemeral", "data directory", BARE)
KINDS = {
    "ephemeral": "Ottla, in memory",
    "data directory": "Ottla, data directory",
    BARE: "Ottla, data directory, without bytecode of its own",
    "kafka": "Apache Kafka",
    "kfake": "kfake, in memory",
}


COMMANDS_TO_THE_END = {
    "Python, asyncio, uvloop, msgspec": ["-c", "import asyncio, uvloop, msgspec"],
    "`ottla --help`": ["-m", "ottla.cli.main", "--help"],
}
EMBEDDED_BROKER = "`Broker()` in memory, to where it serves"
EMBEDDED = """
import statistics, time
from ottla.testing import Broker
def once():
    began = time.process_time()
    with Broker():
        return time.process_time() - began
once()
print(statistics.median(once() for _ in range(50)) * 1000)
"""


class Run(NamedTuple):
    """One start: milliseconds to the first answer and of CPU until then, resident bytes after a second."""

    start_ms: float
    cpu_ms: float
    rss_bytes: float


class Copies(NamedTuple):
    """The environments of two copies of Ottla: one that is compiled, as an installed one is, and one that is not."""

    compiled: dict[str, str]
    bare: dict[str, str]


def copied(folder: Path) -> Copies:
    """Copy the rooms twice. What is not Ottla has bytecode in both cases, and none is written."""
    environments = []
    for name in Copies._fields:
        for room in ROOMS:
            ignored = shutil.ignore_patterns("__pycache__", "docs")
            shutil.copytree(ROOT / room, folder / name / "ottla" / room, ignore=ignored)
        environments.append(os.environ | {"PYTHONPATH": str(folder / name), "PYTHONDONTWRITEBYTECODE": "1"})
    compileall.compile_dir(folder / "compiled", quiet=2)
    return Copies(*environments)


def cpu_ms(pid: int) -> float:
    """The CPU time that a process has taken, with all its threads; see clock_getcpuclockid(3)."""
    return time.clock_gettime_ns(~pid << 3 | 2) / 1e6


def to_the_end(arguments: list[str], environment: Mapping[str, str]) -> float:
    """The CPU time in milliseconds of a Python that ends by itself."""
    process = subprocess.Popen([sys.executable, *arguments], env=environment, stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return (used.ru_utime + used.ru_stime) * 1000


def measure(kind: str, copies: Copies) -> Run:
    """Start a broker once.

    Raises:
        click.ClickException: it did not start.
    """
    from kafka_server import answers, formatted, wait_for

    with tempfile.TemporaryDirectory() as directory:
        port, environment = 0, dict(os.environ)
        if kind == "kafka":
            command, port = formatted(Path(directory))
        elif kind == "kfake":
            command = COMMANDS["kfake"]
        else:
            command = [*COMMANDS["ottla"], "--listen", "127.0.0.1:0"]
            command += ["--ephemeral"] if kind == "ephemeral" else ["--data-dir", directory]
            environment = copies.bare if kind == BARE else copies.compiled
        pipe = subprocess.PIPE
        began = time.perf_counter()
        process = subprocess.Popen(command, env=environment, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL)
        assert process.stdin is not None and process.stdout is not None
        try:
            if not port:
                port = int(process.stdout.readline().rpartition(b":")[2] or 0)
            if kind == "kafka":
                wait_for(process, port, ready=False)
            elif not answers(port):
                raise click.ClickException(f"{KINDS[kind]} did not start")
            start_ms, used_ms = (time.perf_counter() - began) * 1000, cpu_ms(process.pid)
            time.sleep(IDLE_S)
            status = Path(f"/proc/{process.pid}/status").read_text("ascii")
            rss_kib = int(status.split("VmRSS:", 1)[1].split()[0])
        finally:
            process.kill() if kind == "kafka" else process.terminate()
            process.wait()
            process.stdin.close()
            process.stdout.close()
    return Run(start_ms, used_ms, rss_kib * 1024)


def as_markdown(
    results: Mapping[str, list[Run]], commands: Mapping[str, list[float]], missing: Mapping[str, str], runs: int
) -> str:
    """The section of RESULTS.md."""
    others = beside.versions(results)
    lines = [
        "## Start and memory",
        "",
        f"`python bench/startup.py --runs {runs} --write bench/RESULTS.md`, {datetime.now(UTC).date()}, "
        f"Python {sys.version.split()[0]}{', ' * bool(others)}{others}. From the command to the first answer, and the "
        "CPU taken until then; resident memory after an idle second; also as multiples of Ottla's with a data "
        "directory.",
        "",
        "| broker | start, median | fastest | slowest | CPU, median | least | most | times Ottla's | memory "
        "| times Ottla's |",
        "|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|",
    ]
    medians = {
        kind: Run(*(statistics.median(figures) for figures in zip(*measured, strict=True)))
        for kind, measured in results.items()
    }
    ours = medians["data directory"]
    for kind, measured in results.items():
        median = medians[kind]
        lines.append(
            f"| {KINDS[kind]} | {spread([run.start_ms for run in measured])} "
            f"| {spread([run.cpu_ms for run in measured])} | {median.cpu_ms / ours.cpu_ms:.2f} "
            f"| {median.rss_bytes / MIB:,.1f} MiB | {median.rss_bytes / ours.rss_bytes:.2f} |"
        )
    lines += [f"| {KINDS[kind]} | skipped: {reason} | | | | | | | | |" for kind, reason in missing.items()]
    lines += ["", "| beside it, with bytecode | CPU, median | least | most |", "|---|--:|--:|--:|"]
    lines += [f"| {name} | {spread(figures)} |" for name, figures in commands.items()]
    return "\n".join(lines) + "\n"


def spread(figures: Sequence[float]) -> str:
    """Three cells: median, least and most."""
    return " | ".join(
        f"{one:,.{int(one < 10)}f} ms" for one in (statistics.median(figures), min(figures), max(figures))
    )


@click.command()
@click.option("--runs", default=10, show_default=True, type=click.IntRange(1, 1000))
@click.option("--write", type=click.Path(dir_okay=False, path_type=Path), help="(Re)write the file's section.")
def main(runs: int, write: Path | None) -> None:
    """Measure the start and the idle memory of a broker, beside others."""
    others, missing = prepared(beside.OTHERS)
    results: dict[str, list[Run]] = {kind: [] for kind in (*OURS, *others)}
    commands: dict[str, list[float]] = {name: [] for name in COMMANDS_TO_THE_END}
    with tempfile.TemporaryDirectory() as folder:
        copies = copied(Path(folder))
        for kind in results:
            measure(kind, copies)  # warms the disk cache; not counted
        for _ in range(runs):
            for kind, measured in results.items():
                measured.append(measure(kind, copies))
            for name, arguments in COMMANDS_TO_THE_END.items():
                commands[name].append(to_the_end(arguments, copies.compiled))
        embedded = [sys.executable, "-c", EMBEDDED]
        told = [subprocess.run(embedded, env=copies.compiled, check=True, capture_output=True).stdout for _ in range(3)]
    commands[EMBEDDED_BROKER] = [float(one) for one in told]
    figures = Figures()
    for run in results["data directory"]:
        figures.add("`ottla serve` to its first answer", "ottla", process_cpu_ms=run.cpu_ms, mb=run.rss_bytes / 1e6)
    for name, taken_ms in commands.items():
        for one in taken_ms:
            figures.add(name, "ottla", process_cpu_ms=one)
    text = as_markdown(results, commands, missing, runs)
    print(text)
    if write is not None:
        figures.save("startup")
        rewrite_section(write, text)


if __name__ == "__main__":
    main()
