#!/usr/bin/env python3
"""Run the benchmarks that the goals for speed are judged by, one after the other, and say which goals are reached.

Each leaves its section in RESULTS.md and its figures; from these come the pictures and the table of goals that the
file opens with. A goal is a ratio of medians of the same turns, or a figure of Ottla alone.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import chart
import click
from report import CALLED, FIGURES, Figures, describe, interval, plain, section
from servers import HERE, choose_cores

BEFORE = "c51d629"
"""The commit that commits and rebalances shall cost less than."""
RESULTS = HERE / "RESULTS.md"
BARE_LOAD, BARE_US = "heartbeat, 50 connections, window 1", 4.72
"""The CPU of a bare uvloop server for such a heartbeat on the machine for which goals of Ottla alone were set."""
STEPS = {
    "heartbeat.py": ("--rounds", "1", "--seconds", "0.5", "--warm-up", "1", "--connections", "50", "--window", "1"),
    "commits.py": ("--rounds", "1", "--seconds", "0.5", "--warm-up", "1", "--few"),
    "rebalances.py": ("--rounds", "1", "--rebalances", "1", "--warm-up", "1", "--members", "1000"),
    "consumer_groups.py": (
        "--rounds",
        "1",
        "--seconds",
        "0.5",
        "--warm-up",
        "1",
        "--connections",
        "50",
        "--members",
        "100",
        "--partitions",
        "1000",
    ),
    "records.py": ("--rounds", "1", "--scale", "0.1", "--warm-up", "1"),
    "security.py": (
        "--pairs",
        "1",
        "--seconds",
        "0.5",
        "--rounds",
        "1",
        "--exchanges",
        "50",
        "--warm-up",
        "1",
    ),
    "before.py": ("--pairs", "2", "--seconds", "0.3"),
    "nodes.py": ("--pairs", "2", "--seconds", "0.5"),
    "startup.py": ("--runs", "1"),
    "size.py": ("--members", "4000", "--seconds", "3", "--beside", "2", "--rebalanced", "1000", "--scale", "0.02"),
}
"""The benchmarks, and what makes each of them quick."""
ALWAYS = {
    "commits.py": ("--before", BEFORE),
    "rebalances.py": ("--before", BEFORE),
    "before.py": (BEFORE, "--only", "heartbeat"),
}
PICTURES = """# Results

{pictures}
Each table says which command measures it; where something was sampled by hand, the text says so. [README.md](README.md)
says how all of it is measured. Compare ratios, not microseconds, with your own machine.
"""
PICTURE = """<picture>
  <source media="(prefers-color-scheme: dark)" srcset="../docs/images/{name}-dark.svg">
  <img alt="{title}: {better}; the tables below have the same figures" src="../docs/images/{name}-light.svg">
</picture>
"""


class Goal(NamedTuple):
    """One goal: a figure of Ottla that shall be at most or at least so much, alone or in terms of another server's."""

    load: str
    quantity: str
    limit: float
    against: str = ""
    at_least: bool = False

    def judged(self, figures: Figures, pace: float | None) -> tuple[str, ...]:
        """A row of the table; ``pace`` is how much longer a bare server takes here than where the goals were set."""
        words = f"{'≥' if self.at_least else '≤'} {self.limit:,g}"
        words += f" of {CALLED[self.against]}" if self.against else ""
        name, digits = QUANTITIES[self.quantity]
        if self.against:
            value = figures.ratio(self.load, self.quantity, "ottla", self.against)
        else:
            value = figures.median(self.load, "ottla", self.quantity)
        if value is None:
            return self.load, name, words, "not measured", "", "", ""
        at_pace = value / pace if pace and not self.against and self.quantity in TIMES else None
        spread = figures.text(self.load, "ottla", self.quantity, digits)
        if self.against:
            spread += f" / {figures.text(self.load, self.against, self.quantity, digits)}"
        verdicts = {self._reaches(value)}
        if self.quantity in OF_PAIRS:
            ends = interval(figures.found[self.load, "ottla", self.quantity])
            spread = "95 %: {:,.{d}f} to {:,.{d}f}".format(*ends, d=digits)
            verdicts = {self._reaches(end) for end in ends}
        if len(verdicts) > 1:
            verdict = "cannot be told"
        elif verdicts == {True}:
            verdict = "reached"
        elif at_pace is not None and self._reaches(at_pace):
            verdict = "reached at that pace"
        else:
            verdict = f"**missed**: [why](#{self._reason()})"
        digits = max(digits, 2) if self.against else digits
        cells = (f"{value:,.{digits}f}", spread, "" if at_pace is None else f"{at_pace:,.{digits}f}", verdict)
        return self.load, name, words, *cells

    def _reaches(self, value: float) -> bool:
        return value >= self.limit if self.at_least else value <= self.limit

    def _reason(self) -> str:
        """The anchor of the section that says why this is missed, if it is."""
        heading = next(heading for prefix, heading in REASONS.items() if self.load.startswith(prefix))
        return anchor(heading)


QUANTITIES = {
    "cpu_us": ("CPU, µs", 1),
    "per_second": ("per second", 0),
    "cpu_ms": ("CPU, ms per MB", 2),
    "process_cpu_ms": ("CPU, ms", 1),
    "mb_per_second": ("MB/s", 0),
    "grown": ("CPU more, share", 3),
    "kept": ("of the rate without, share", 2),
    "gained": ("times one node's rate", 2),
    "p99_ms": ("p99, ms", 1),
    "max_ms": ("longest, ms", 1),
    "of_a_core": ("share of a core", 2),
    "mb": ("memory, MB", 0),
    "cpu_s": ("CPU, s", 2),
    "seconds": ("seconds", 2),
}
"""What each is called, and how many digits of it are told."""


OF_PAIRS = frozenset({"grown", "kept", "gained"})
"""Each value is of one pair of turns, so the median of all has an interval."""
REASONS = {
    "commit, ": "Where a commit goes, and a rebalance",
    "rebalance, ": "Where a commit goes, and a rebalance",
    "commit with rules": "Security",
    "commits on ": "What several nodes cost, and what limits two",
    "heartbeats on ": "What several nodes cost, and what limits two",
    "heartbeat with rules": "Security",
    "heartbeat by TLS": "Security",
    "consume by TLS": "Security",
    "heartbeat of a consumer group": "Where the balance of a consumer group goes",
    "heartbeats beside ": "Where long waits come from",
    "100,000 members": "Where long waits come from",
    "1,000 members on": "Where the balance of a consumer group goes",
    "assignor": "Where the balance of a consumer group goes",
    "heartbeat": "Beside an earlier commit",
    "start with ": "Where a start goes",
    "`": "Where a start goes",
    "produce": "Where a produced megabyte goes",
    "consume": "Where a consumed megabyte goes",
}
"""By how loads begin, the section of RESULTS.md that says why their goals are missed, where they are."""


TIMES = frozenset({"cpu_us", "p99_ms", "max_ms", "of_a_core", "cpu_s", "seconds", "process_cpu_ms"})


def goals() -> Iterator[Goal]:
    """All of them."""
    of_commits = {"64": (0.75, 1.2, 1.5, 0.6), "1,024": (0.95, 1.05, 1.15, 0.85)}
    for connections, (kafka_cpu, kafka_rate, kfake_cpu, kfake_rate) in of_commits.items():
        load = f"commit, {connections} connections"
        yield Goal(load, "cpu_us", kafka_cpu, "kafka")
        yield Goal(load, "per_second", kafka_rate, "kafka", at_least=True)
        yield Goal(load, "cpu_us", kfake_cpu, "kfake")
        yield Goal(load, "per_second", kfake_rate, "kfake", at_least=True)
        yield Goal(load, "cpu_us", 0.45, "before")
    for members, (alone, kafka_cpu, kfake_cpu) in {"1,000": (65, 0.5, 1.15), "5,000": (70, 0.9, 0.55)}.items():
        load = f"rebalance, {members} members"
        yield Goal(load, "cpu_us", alone)
        yield Goal(load, "cpu_us", kafka_cpu, "kafka")
        yield Goal(load, "cpu_us", kfake_cpu, "kfake")
    yield Goal("heartbeat of a consumer group, 50 connections", "cpu_us", 1.3, "ottla-classic")
    yield Goal("1,000 members on 1,000 partitions, to balance", "cpu_s", 1, "ottla-classic")
    yield Goal("1,000 members on 10,000 partitions, to balance", "max_ms", 20)
    for assignor in ("uniform", "range"):
        for what in ("from nothing", "one more member"):
            yield Goal(f"assignor {assignor}, 10,000 partitions to 1,000 members, {what}", "seconds", 0.5)
    yield Goal("heartbeat", "grown", 0.02)
    for load in ("heartbeat with rules, 50 connections", "commit with rules, 64 connections"):
        yield Goal(load, "grown", 0.05)
    for window in (1, 10):
        yield Goal(f"heartbeat by TLS, 50 connections, window {window}", "kept", 0.5, at_least=True)
    yield Goal("consume by TLS, 10,000 bytes", "kept", 0.3, at_least=True)
    for beside in ("DescribeGroups of 10,000 groups", "a rebalance of 10,000 members"):
        yield Goal(f"heartbeats beside {beside}", "p99_ms", 20)
        yield Goal(f"heartbeats beside {beside}", "max_ms", 50)
    for quantity, limit in {"of_a_core": 0.45, "mb": 320, "max_ms": 50}.items():
        yield Goal("100,000 members heartbeat", quantity, limit)
    for quantity, limit in {"mb": 300, "cpu_s": 2.5}.items():
        yield Goal("start with 1,000,000 offsets of 10,000 groups", quantity, limit)
    for quantity, limit in {"mb": 1200, "seconds": 15}.items():
        yield Goal("start with 1,000,000 offsets of 1,000,000 groups", quantity, limit)
    for quantity, limit in {"process_cpu_ms": 120, "mb": 40}.items():
        yield Goal("`ottla serve` to its first answer", quantity, limit)
    yield Goal("`ottla --help`", "process_cpu_ms", 60)
    for connections in ("64", "1,024"):
        for what, limit in {"commits": 1.4, "heartbeats": 1.25}.items():
            yield Goal(f"{what} on {connections} connections, two nodes", "gained", limit, at_least=True)
    yield Goal("`Broker()` in memory, to where it serves", "process_cpu_ms", 5)
    for what in ("produce", "consume"):
        for size in ("100", "10,000"):
            yield Goal(f"{what}, {size} bytes", "mb_per_second", 1.3, "kafka", at_least=True)
            yield Goal(f"{what}, {size} bytes", "cpu_ms", 0.5, "kafka")
    yield Goal("produce, 10,000 bytes", "mb_per_second", 0.6, "mock", at_least=True)


def anchor(heading: str) -> str:
    """What links to a heading."""
    return re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-")


def open_with(path: Path, pictures: str, goals: str) -> None:
    """Begin a file of results with the pictures, its contents and the goals; what follows stays."""
    rest = re.sub(r"\A.*?(?=^## (?!Goals\n))", "", path.read_text("utf-8"), count=1, flags=re.DOTALL | re.MULTILINE)
    headings = ["Goals", *re.findall(r"^## (.+)$", rest, flags=re.MULTILINE)]
    contents = "\n".join(f"- [{heading}](#{anchor(heading)})" for heading in headings)
    path.write_text(f"{pictures}\n{contents}\n\n{goals}\n{rest}", "utf-8")


@click.command(help=__doc__)
@click.option("--quick", is_flag=True, help="See only whether everything runs; nothing is written.")
@click.option("--only", multiple=True, type=click.Choice([*STEPS]), help="Benchmarks to run; repeatable.")
@click.option("--write/--no-write", default=True, help="Write RESULTS.md and the pictures.")
def main(quick: bool, only: tuple[str, ...], write: bool) -> None:
    write, failed = write and not quick, []
    if write and not only:
        shutil.rmtree(FIGURES, ignore_errors=True)  # all are to be of this run
    for script in only or STEPS:
        command = [sys.executable, str(HERE / script), *ALWAYS.get(script, ()), *(STEPS[script] if quick else ())]
        if write:
            command += ["--write", str(RESULTS)]
        click.echo(f"\n=== {script}", err=True)
        if subprocess.run(command).returncode:
            failed.append(script)
    if write:
        _judge()
    if failed:
        raise click.ClickException(f"could not measure: {', '.join(failed)}")


def _judge() -> None:
    """Hold what was measured against the goals, and begin RESULTS.md with that and the pictures."""
    figures = Figures.saved(
        "heartbeats",
        "commits",
        "rebalances",
        "consumer_groups",
        "records",
        "security",
        "before",
        "nodes",
        "size",
        "startup",
    )
    bare_us = figures.median(BARE_LOAD, "bare", "cpu_us")
    pace = None if bare_us is None else bare_us / BARE_US
    head = ("load", "what", "goal", "measured", "spread of Ottla / of the other", "at the goals' pace", "verdict")
    table = [head, *(goal.judged(figures, pace) for goal in goals())]
    click.echo(plain(table))
    chart.draw_all(chart.IMAGES)
    pictures = "\n".join(PICTURE.format(name=p.name, title=p.title, better=p.better) for p in chart.PICTURES)
    about = describe(choose_cores()[0] is not None)
    verdicts = [row[-1] for row in table[1:]]
    reached = f"{verdicts.count('reached')} of {len(verdicts)}"
    if unclear := verdicts.count("cannot be told"):
        reached += f"; of {unclear} it cannot be told, as the goal lies within the interval of what was measured"
    if pace is not None:
        more = verdicts.count("reached at that pace")
        reached += f", and {more} more at the pace of the machine that they were set for"
        about["pace"] = (
            f"goals of Ottla alone were set for a machine on which a bare uvloop server needs {BARE_US} µs for a "
            f"heartbeat; here it needs {pace:.2f} times that, so these figures are told once more, divided by this"
        )
    about |= {"before": BEFORE, "reached": reached}
    open_with(RESULTS, PICTURES.format(pictures=pictures), section("Goals", about, table))


if __name__ == "__main__":
    main()
