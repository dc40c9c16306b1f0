"""The common part of the benchmarks' reports: what was measured, where and how, and the file of results."""

from __future__ import annotations

import contextlib
import json
import os
import platform
import random
import re
import shlex
import statistics
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

FIGURES = Path(__file__).resolve().parent / ".build" / "figures"
"""What each benchmark measured last, as JSON: acceptance.py and chart.py read it."""
CALLED = {
    "bare": "bare uvloop",
    "ottla": "Ottla",
    "ottla-os": "Ottla, durability=os",
    "ottla-classic": "Ottla, classic group",
    "before": "Ottla before",
    "kafka": "Apache Kafka",
    "kafka-flush": "Kafka, flush.messages=1",
    "kafka-classic": "Kafka, classic group",
    "kfake": "kfake",
    "kfake-classic": "kfake, classic group",
    "mock": "librdkafka's mock",
    "one-node": "Ottla, one node",
    "two-nodes": "Ottla, two nodes",
}


RESAMPLES, SEED = 10_000, 1


def interval(values: Sequence[float]) -> tuple[float, float]:
    """The 95 % interval of a median (bootstrap)."""
    chance = random.Random(SEED)
    medians = sorted(statistics.median(chance.choices(values, k=len(values))) for _ in range(RESAMPLES))
    return medians[int(0.025 * RESAMPLES)], medians[int(0.975 * RESAMPLES)]


class Figures:
    """What each round gave, by load, server and quantity: ``("commit, 64 connections", "ottla", "cpu_us")``."""

    def __init__(self, missing: Mapping[str, str] | None = None) -> None:
        self.found: dict[tuple[str, str, str], list[float]] = {}
        self.missing = dict(missing or {})

    def add(self, load: str, server: str, **quantities: float) -> None:
        """Take the figures of one turn."""
        for quantity, value in quantities.items():
            self.found.setdefault((load, server, quantity), []).append(value)

    def median(self, load: str, server: str, quantity: str) -> float | None:
        """The median of the rounds, if there were any."""
        values = self.found.get((load, server, quantity))
        return statistics.median(values) if values else None

    def ratio(self, load: str, quantity: str, of: str, to: str) -> float | None:
        """One server's median in terms of another's."""
        mine, theirs = self.median(load, of, quantity), self.median(load, to, quantity)
        return mine / theirs if mine is not None and theirs else None

    def text(self, load: str, server: str, quantity: str, digits: int = 1) -> str:
        """Median, lowest and highest; "" if there are none."""
        values = self.found.get((load, server, quantity))
        if not values:
            return ""
        median, low, high = (f"{value:,.{digits}f}" for value in (statistics.median(values), min(values), max(values)))
        return f"{median} ({low}–{high})" if len(values) > 1 else median

    def table(self, columns: Mapping[str, tuple[str, int]], rates: Sequence[str] = ()) -> list[tuple[str, ...]]:
        """A row for each load and server. ``columns`` are a heading, its quantity and how many digits follow the point;
        of each of ``rates`` a column more says what Ottla's is in terms of this server's.
        """
        of_ottla = [f"Ottla's {heading.split(',')[0]}, times this" for heading in rates]
        rows: list[tuple[str, ...]] = [("load", "server", *columns, *of_ottla)]
        for load, server in dict.fromkeys(key[:2] for key in self.found):
            cells = [self.text(load, server, quantity, digits) for quantity, digits in columns.values()]
            for heading in rates:
                ratio = self.ratio(load, columns[heading][0], "ottla", server)
                cells.append("" if ratio is None or server == "ottla" else f"{ratio:.2f}")
            rows.append((load, CALLED.get(server, server), *cells))
        return rows

    def save(self, name: str) -> None:
        """Leave it for those that put several benchmarks together."""
        FIGURES.mkdir(parents=True, exist_ok=True)
        found = [[*key, values] for key, values in self.found.items()]
        (FIGURES / f"{name}.json").write_text(json.dumps({"missing": self.missing, "found": found}))

    @classmethod
    def saved(cls, *names: str) -> Figures:
        """What benchmarks have left; those that have not been run leave nothing."""
        figures = cls()
        for name in names:
            with contextlib.suppress(FileNotFoundError):
                kept = json.loads((FIGURES / f"{name}.json").read_text())
                figures.missing |= kept["missing"]
                figures.found |= {(load, server, what): values for load, server, what, values in kept["found"]}
        return figures


def plain(table: Sequence[Sequence[str]]) -> str:
    """Aligned columns: two of words, the others of numbers."""
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    lines = []
    for row in table:
        cells = [cell.ljust(width) if at < 2 else cell.rjust(width)
                 for at, (cell, width) in enumerate(zip(row, widths, strict=True))]  # fmt: skip
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)


def section(heading: str, about: Mapping[str, str], table: Sequence[Sequence[str]], remarks: Sequence[str] = ()) -> str:
    """A section of RESULTS.md."""
    lines = [f"## {heading}", "", *(f"- {name}: {value}" for name, value in about.items()), ""]
    lines += ["| " + " | ".join(table[0]) + " |", "| --- | --- |" + " ---: |" * (len(table[0]) - 2)]
    lines += ["| " + " | ".join(row) + " |" for row in table[1:]]
    return "\n".join([*lines, *([""] if remarks else []), *(f"- {remark}" for remark in remarks)]) + "\n"


def tell(
    name: str,
    figures: Figures,
    heading: str,
    about: Mapping[str, str],
    table: Sequence[Sequence[str]],
    write: Path | None,
    remarks: Sequence[str] = (),
) -> None:
    """Print a benchmark's table; rewrite its section of a file, and keep its figures for the goals there."""
    remarks = [*remarks, *(f"skipped: {server}: {reason}" for server, reason in figures.missing.items())]
    print("\n".join([plain(table), "", *remarks]).rstrip())
    if write is not None:
        figures.save(name)
        rewrite_section(write, section(heading, about, table, remarks))


def rewrite_section(path: Path, section: str) -> None:
    """Put the section in the place of the one with its heading, or at the file's end."""
    text = path.read_text() if path.exists() else "# Results\n"
    heading = section.split("\n", 1)[0]
    pattern = re.compile(rf"^{re.escape(heading)}\n.*?(?=^## |\Z)", re.DOTALL | re.MULTILINE)
    if pattern.search(text):
        text = pattern.sub(lambda _: section + "\n", text, count=1)
    else:
        text = text.rstrip("\n") + "\n\n" + section
    path.write_text(text.rstrip("\n") + "\n")


def beneath(path: str | Path) -> str:
    """A path within the checkout as one sees it from there."""
    return str(path).removeprefix(f"{Path(__file__).resolve().parents[1]}/")


def describe(pinned: bool, others: str = "") -> dict[str, str]:
    """The machine, the versions, also those of other servers, and the command."""
    model = re.search(r"model name\s*: (.+)", Path("/proc/cpuinfo").read_text())
    cores = f"{os.cpu_count()} cores, server and generator {'each on one' if pinned else 'on any'}"
    names = []
    for distribution in ("ottla", "uvloop", "confluent-kafka"):
        with contextlib.suppress(PackageNotFoundError):
            names.append(f"{distribution} {version(distribution)}")
    command = [f"bench/{Path(sys.argv[0]).name}", *(beneath(one) for one in sys.argv[1:])]
    return {
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "machine": f"{model[1] if model else platform.machine()}, {cores}, Linux {platform.release()}",
        "versions": ", ".join([f"Python {platform.python_version()}", *names, *([others] if others else [])]),
        "command": f"`{shlex.join(command)}`",
    }
