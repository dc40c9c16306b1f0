"""Scenario files: their scenarios, durations, and the clients that the steps speak of."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

from ottla.protocol.consumer_protocol import Subscription, encode_subscription
from ottla.protocol.messages.join_group import JoinGroupRequestProtocol

INDENT = "    "
UNITS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


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


@dataclass
class Client:
    """What a client knows and last used."""

    name: str
    group: str = "g"
    member_id: str = ""
    generation: int = -1
    instance: str | None = None
    session_ms: int = 10_000
    rebalance_ms: int = 60_000
    protocol_type: str = "consumer"
    protocols: list[str] = field(default_factory=lambda: ["range"])
    metadata: str = "t"
    chosen: str | None = None
    version: int = 9
    """Of JoinGroup."""

    def encoded_protocols(self) -> list[JoinGroupRequestProtocol]:
        if self.metadata.startswith("raw:"):
            data = self.metadata[4:].encode()
        else:
            topics = [topic for topic in self.metadata.split("+") if topic]
            data = encode_subscription(Subscription(topics=topics), 0)
        return [JoinGroupRequestProtocol(name=name, metadata=data) for name in self.protocols]
