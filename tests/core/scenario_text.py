"""Scenario files: their scenarios, and durations.

A line ``each NAME=VALUE|VALUE …`` makes a scenario several, one for each combination of values, which stand for
``$NAME`` in its steps. An outcome that not all of them have begins with those that do: ``[end=commit 'v=0|1']``.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import product
from math import prod
from pathlib import Path

INDENT = "    "
UNITS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}

Variant = dict[str, str]


@dataclass
class Scenario:
    """One scenario of a file: a title, the steps with their recorded outcome, and comments in their places."""

    title: str
    lines: list[str] = field(default_factory=list)

    def rules(self) -> list[str]:
        """The rules that its comments name."""
        found: list[str] = []
        for line in [self.title, *self.lines]:
            if line.startswith("#"):
                for names in re.findall(r"rules? ([\d.\-]+(?:, [\d.\-]+)*)", line):
                    found.extend(name.rstrip(".") for name in names.split(", "))
        return found

    def variants(self) -> list[Variant]:
        axes: dict[str, list[str]] = {}
        for line in self.lines:
            if line.startswith("each "):
                axes |= {
                    name: values.split("|") for name, values in (word.split("=", 1) for word in shlex.split(line)[1:])
                }
        return [dict(zip(axes, values, strict=True)) for values in product(*axes.values())]

    def of(self, variant: Variant) -> list[str]:
        """The lines that a variant comes out with."""
        found = []
        for line in self.lines:
            label, text = re.fullmatch(rf"(?:{INDENT}\[(.+?=.*?)\] )?(.*)", line).groups()  # type: ignore[union-attr]
            if label is None:
                found.append(text)
            elif all(
                variant[name] in values.split("|") for name, values in (w.split("=", 1) for w in shlex.split(label))
            ):
                found.append(INDENT + text)
        return found

    def recorded(self, run: Callable[[Scenario, Variant], list[str]]) -> list[str]:
        """The lines as all variants come out now."""
        variants = self.variants()
        runs = [list(_blocks(run(self, variant))) for variant in variants]
        lines = []
        for blocks in zip(*runs, strict=True):
            having: dict[tuple[str, ...], list[Variant]] = {}
            for (_, *outcomes), variant in zip(blocks, variants, strict=True):
                having.setdefault(tuple(outcomes), []).append(variant)
            lines.append(blocks[0][0])
            for outcomes, some in having.items():
                for label in _labels(some, variants):
                    lines += [label + line.removeprefix(INDENT) for line in outcomes]
        return lines


def _blocks(lines: list[str]) -> Iterator[list[str]]:
    """Each step, or comment, with its outcome."""
    block: list[str] = []
    for line in lines:
        if block and not line.startswith(INDENT):
            yield block
            block = []
        block.append(line)
    yield block


def _labels(some: list[Variant], variants: list[Variant]) -> list[str]:
    """Labels that tell some variants from the others: one if they are a rectangle, otherwise one each."""
    if len(some) == len(variants):
        return [INDENT]
    axes = {name: list(dict.fromkeys(variant[name] for variant in some)) for name in some[0]}
    if prod(map(len, axes.values())) != len(some):
        return [label for variant in some for label in _labels([variant], variants)]
    every = {name: {variant[name] for variant in variants} for name in axes}
    names = [f"{name}={'|'.join(values)}" for name, values in axes.items() if len(values) < len(every[name])]
    return [f"{INDENT}[{shlex.join(names)}] "]


def read_scenarios(path: Path) -> list[Scenario]:
    """The scenarios of a file; each begins with a line ``== title``."""
    scenarios: list[Scenario] = []
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.startswith("== "):
            scenarios.append(Scenario(line[3:]))
        elif line.strip():
            scenarios[-1].lines.append(line.rstrip())
    return scenarios


def written(scenarios: list[Scenario]) -> str:
    """The text of a file."""
    return "\n\n".join("\n".join([f"== {item.title}", *item.lines]) for item in scenarios) + "\n"


def compare(path: Path, index: int, outcome: list[str], *, record: bool) -> None:
    """Hold the outcome of a scenario of a file against the text, or write it there."""
    scenarios = read_scenarios(path)
    if record:
        scenarios[index].lines = outcome
        path.write_text(written(scenarios), encoding="utf-8")
    assert scenarios[index].lines == outcome


def duration(text: str) -> int:
    """``3s``, ``250ms`` or a plain number, in milliseconds."""
    match = re.fullmatch(r"(-?\d+)(ms|s|m|h|d)?", text)
    assert match is not None, f"not a duration: {text}"
    return int(match[1]) * UNITS[match[2] or "ms"]
