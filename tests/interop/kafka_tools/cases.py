"""Shared by the tests of the tools: their register, the stage to play on, small helpers."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from ottla.testing import BrokerProcess
from tests.interop.kafka_tools.tools import Printed, Tools
from tests.support.waiting import wait_for

Case = Callable[["Stage"], None]
CASES: dict[str, Case] = {}
MAX_MESSAGES = "--max-messages"


def case(test: Case) -> Case:
    """Make a function a test of the suite, under its own name. All share a broker: each has topics of its own."""
    assert test.__name__ not in CASES
    CASES[test.__name__] = test
    return test


@dataclass(slots=True)
class Stage:
    """A broker, the tools, and a directory for the files that some of them want."""

    tools: Tools
    bootstrap: str
    scratch: Path
    broker: BrokerProcess | None

    @property
    def addresses(self) -> list[str]:
        """Where each of the brokers is reached."""
        return self.bootstrap.split(",")

    def file(self, name: str, text: str = "") -> Path:
        path = self.scratch / name
        path.write_text(text, "utf-8")
        return path

    def topic(self, name: str, partitions: int = 1, **configs: object) -> str:
        """Create a topic. Underscores in the names of configs stand for dots."""
        more = [word for key, value in configs.items() for word in ("--config", f"{key.replace('_', '.')}={value}")]
        self.tools("topics", "--create", "--topic", name, "--partitions", partitions, *more)
        return name

    def produce(self, topic: str, values: Iterable[object]) -> None:
        """Send the values to partition 0 … of the topic, wherever the producer likes."""
        self.tools("console-producer", "--topic", topic, stdin="".join(f"{value}\n" for value in values))

    def consume(self, topic: str, count: int, *arguments: object) -> list[str]:
        """The first ``count`` lines that the console consumer prints of a whole topic."""
        printed = self.tools(
            "console-consumer", "--topic", topic, "--from-beginning", MAX_MESSAGES, count, "--timeout-ms", 10000,
            *arguments,
        )  # fmt: skip
        return printed.lines

    def offsets(self, topic: str, *arguments: object) -> dict[int, int]:
        """Offsets by partition, as get-offsets prints them."""
        found: dict[int, int] = {}
        for line in self.tools("get-offsets", "--topic", topic, *arguments).lines:
            name, partition, offset = line.rsplit(":", 2)
            assert name == topic, line
            found[int(partition)] = int(offset)
        return found

    def member(self, group: str, topic: str, *config: str) -> None:
        """Start a group member that runs until `members_leave`; returns once it owns a partition."""
        self.tools.bare("members", "start", self.bootstrap, group, topic, *config)

    def members_leave(self) -> None:
        self.tools.bare("members", "stop")

    def on_disk(self) -> None:
        """Have the records of the broker's journal in its segments."""
        if self.broker is not None:
            self.broker.restart()


def table(printed: Printed, *columns: str) -> list[list[str]]:
    """The named columns of the rows behind the heading that has them all, in the order of the rows.

    Raises:
        AssertionError: no heading has them.
    """
    heading: list[str] = []
    rows = []
    for words in printed.rows:
        if set(columns) <= set(words):
            heading = words
        elif heading:
            words += [""] * (len(heading) - len(words))  # the last columns may be empty
            rows.append([words[heading.index(column)] for column in columns])
    assert heading, f"no heading has {columns}: {printed}"
    return rows


def same(actual: object, expected: object, printed: object = "") -> None:
    assert actual == expected, f"expected {expected!r}, got {actual!r}\n{printed}"


def until(what: str, holds: Callable[[], bool]) -> None:
    wait_for(holds, what, timeout_s=15, pause_s=0.05)
