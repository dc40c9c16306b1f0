"""Ottla's figures held against those of Apache Kafka and of kfake, measured in the same run."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
OTHERS = ("kafka", "kfake")
HEADINGS = ("load", "against", "requests per second, times theirs", "CPU per request, times theirs")
_CALLED = {"kafka": "Apache Kafka", "kfake": "kfake"}


@dataclass(frozen=True, slots=True)
class Figures:
    """The figures of one server under one load."""

    per_second: float
    cpu_us: float


@dataclass(frozen=True, slots=True)
class Beside:
    """One row: Ottla against another server, or why there are no figures."""

    load: str
    against: str
    throughput: float | None = None
    cpu: float | None = None
    missing: str = ""

    def cells(self) -> tuple[str, ...]:
        """The row, as text."""
        if self.throughput is None or self.cpu is None:
            return self.load, f"{_CALLED[self.against]}: skipped, {self.missing}", "", ""
        return self.load, _CALLED[self.against], f"{self.throughput:.2f}", f"{self.cpu:.2f}"


def compare(
    figures: Mapping[tuple[str, str], Figures], missing: Mapping[str, str], ours: Sequence[str] = ("ottla",)
) -> list[Beside]:
    """A row for each load (the first half of a key; the other is the server) and each other server."""
    rows = []
    for load, server in figures:
        if server not in ours:
            continue
        called = load if server == "ottla" else f"{load} ({server})"
        for other in OTHERS:
            theirs = figures.get((load, other))
            if theirs is not None:
                mine = figures[load, server]
                rows.append(Beside(called, other, mine.per_second / theirs.per_second, mine.cpu_us / theirs.cpu_us))
            elif other in missing:
                rows.append(Beside(called, other, missing=missing[other]))
    return rows


def as_plain(rows: Iterable[Beside]) -> str:
    """Aligned columns; "" if there is nothing to compare."""
    lines = [HEADINGS, *(row.cells() for row in rows)]
    if len(lines) == 1:
        return ""
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(
        "  ".join(cell.ljust(width) if place < 2 else cell.rjust(width)
                  for place, (cell, width) in enumerate(zip(line, widths, strict=True))).rstrip()
        for line in lines
    )  # fmt: skip


def as_markdown(rows: Sequence[Beside], about: str) -> str:
    """A table under a line that says what it holds; "" if there is nothing to compare."""
    if not rows:
        return ""
    lines = [about, "", "| " + " | ".join(HEADINGS) + " |", "| --- | --- | ---: | ---: |"]
    return "\n".join([*lines, *("| " + " | ".join(row.cells()) + " |" for row in rows)]) + "\n"


def versions(names: Iterable[str]) -> str:
    """Which releases of the others were measured; "" if none was."""
    said = []
    if "kafka" in names:
        from kafka_server import version

        java = subprocess.run(["java", "--version"], capture_output=True, text=True).stdout.split("\n", 1)[0]
        said.append(f"Apache Kafka {version()} on {java}")
    if "kfake" in names:
        required = (HERE / "kfake" / "go.mod").read_text("utf-8")
        of_kfake = required.split("/pkg/kfake v", 1)[1].split()[0]
        go = subprocess.run(["go", "env", "GOVERSION"], capture_output=True, text=True).stdout.strip()
        said.append(f"kfake {of_kfake} on {go}")
    return ", ".join(said)
