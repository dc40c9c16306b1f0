"""What the parts of the exactly-once test agree on: topics, groups, and what an application does to a record."""

from __future__ import annotations

import argparse
import random
from collections.abc import Sequence
from dataclasses import dataclass

INPUT = "input"
PARTITIONS = 4
KINDS = ("confluent", "ottla")
PROCESSES = 2
BATCH = 40
ABORTS = 0.08
"""How often an application aborts a transaction of its own accord, when all of it is sent."""
WORK_S = 0.04
"""The longest that the work on a batch takes, between reading and committing."""
SESSION_MS = 2_000
TRANSACTION_TIMEOUT_MS = 15_000
PROMISED, TAKEN_BACK = "done:", "aborted:"
"""How a transformed record begins, in a transaction to be committed and in one to be aborted."""


def output_of(kind: str) -> str:
    return f"output-{kind}"


def group_of(kind: str) -> str:
    return f"group-{kind}"


@dataclass(frozen=True)
class Application:
    """One process of an application.

    Attributes:
        name: also its transactional id.
        static: it has its name as group.instance.id too.
    """

    name: str
    bootstrap: str
    kind: str
    static: bool
    chance: random.Random

    @property
    def output(self) -> str:
        return output_of(self.kind)

    @property
    def group(self) -> str:
        return group_of(self.kind)


def application_of(kind: str, arguments: Sequence[str] | None = None) -> Application:
    parser = argparse.ArgumentParser()
    parser.add_argument("--name", required=True)
    parser.add_argument("--bootstrap", required=True)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--static", action="store_true")
    given = parser.parse_args(arguments)
    return Application(given.name, given.bootstrap, kind, given.static, random.Random(given.seed))
