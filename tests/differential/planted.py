"""Planted differences: Ottla with one mistake in it, which random traces must notice beside Apache Kafka.

``python -m tests.differential.planted NUMBER serve …`` serves as ``ottla serve`` does, with that mistake.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

from tests.differential.beside import Beside
from tests.sim.mutants import MUTANTS, Mutant, read_bugs

SIMULATED = {
    "a heartbeat between join and sync is told to rejoin",
    "commits are accepted between join and sync",
    "issued ids do not hold the join phase open",
    "a leader that rejoins unchanged starts no rebalance",
    "an emptied group keeps its generation",
}
"""Those that the simulation finds, too."""
PLANTED = [*(bug for bug in MUTANTS if bug.name in SIMULATED), *read_bugs("differential")]


def profile_to_find(planted: Mutant) -> str:
    """With which settings the traces run that find it."""
    return "secured" if planted.where.startswith(("security.", "ottla.broker.net.")) else "prompt"


class Mistaken(Beside):
    """A broker with a mistake, in a process of its own."""

    def __init__(self, number: int, settings: Mapping[str, object]) -> None:
        super().__init__(settings)
        self._number = number

    def command(self) -> list[str]:
        python, _, _, *arguments = super().command()
        paths = os.pathsep.join([str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", "")])
        here = ["env", f"PYTHONPATH={paths}", python, "-m", "tests.differential.planted"]
        return [*here, str(self._number), *arguments]


def main() -> None:
    from ottla.cli.main import main as ottla

    number, *arguments = sys.argv[1:]
    with PLANTED[int(number)].planted():
        sys.argv = ["ottla", *arguments]
        ottla()


if __name__ == "__main__":
    main()
