"""How long the questions of `ottla pipeline query` take, each from a shell, cold.

    python bench/queries.py LAKE [--runs N] [--before PYTHON LAKE] [QUESTION …]

A lake with gold tables is needed: `make demo-pipeline` leaves one in .demo/pipeline/lake. With --before, the Python of
an environment that has another version asks the same of a lake of its own, in turns.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

import click

from ottla.pipeline.queries import QUERIES

_SUBREAPER = 36
"""PR_SET_CHILD_SUBREAPER of prctl(2): orphans of children become children of this process."""


class Took(NamedTuple):
    """Seconds from the start of the process to its end, and those of processors, of Java too."""

    wall_s: float
    cpu_s: float


def ask(python: str, question: str, lake: str) -> Took:
    """Ask once.

    Raises:
        click.ClickException: it failed.
    """
    began, before = time.monotonic(), _cpu_s()
    command = [python, "-m", "ottla.cli", "pipeline", "query", question, "--lake", lake]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd="/")
    wall_s = time.monotonic() - began
    if done.returncode:
        raise click.ClickException(f"{question}: {done.stderr.strip()}")
    with contextlib.suppress(ChildProcessError):
        while True:
            os.wait()  # Java outlives the process that started it by a moment, and is ours then
    return Took(wall_s, _cpu_s() - before)


def _cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


@click.command()
@click.argument("lake", type=click.Path(exists=True, file_okay=False, resolve_path=True))
@click.argument("questions", nargs=-1)
@click.option("--runs", default=5, show_default=True, help="How often each is asked; the median counts.")
@click.option("--before", nargs=2, metavar="PYTHON LAKE", help="Ask another version too, in turns.")
def main(lake: str, questions: tuple[str, ...], runs: int, before: tuple[str, str] | None) -> None:
    """Print a table of medians."""
    who = {"s": (sys.executable, lake)} | ({"s, before": (before[0], str(Path(before[1]).resolve()))} if before else {})
    ctypes.CDLL(None).prctl(_SUBREAPER, 1, 0, 0, 0)
    print(f"load average: {os.getloadavg()[0]:.1f} before", flush=True)
    print(
        f"| question | {' | '.join(f'wall {name} | CPU {name}' for name in who)} |\n| --- |{' ---: |' * 2 * len(who)}"
    )
    for question in questions or QUERIES:
        took: dict[str, list[Took]] = {name: [] for name in who}
        for _ in range(runs):
            for name, (python, of) in who.items():
                took[name].append(ask(python, question, of))
        cells = [f"{statistics.median(each):.1f}" for name in who for each in zip(*took[name], strict=True)]
        print(f"| {question} | {' | '.join(cells)} |", flush=True)
    print(f"load average: {os.getloadavg()[0]:.1f} after")


if __name__ == "__main__":
    main()
