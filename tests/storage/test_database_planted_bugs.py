"""The contract of the port counts only as long as it finds what may be wrong with the commands of a real database."""

from __future__ import annotations

import inspect
from contextlib import nullcontext
from importlib import import_module
from typing import Any

import pytest

from ottla.broker.storage.postgres import database as port
from tests.sim.mutants import Mutant, read_bugs
from tests.storage import test_database_contract as contract
from tests.storage import test_database_upkeep as upkeep
from tests.storage.database_clients import LOGS, A, Client, append, barrier, row

ARGUMENTS = {"epoch": 6, "base": 4}
STATEMENTS = {
    "barrier": barrier(A, 0),
    "same rows again": append(row(A, 0)),
    "ReadLogs": port.ReadLogs(),
    "ReadCatalog": port.ReadCatalog(),
    "Load": port.Load(A, 4),
}


@pytest.mark.slow
@pytest.mark.parametrize("bug", read_bugs("postgresql"), ids=lambda bug: bug.name)
def test_a_planted_bug_is_found(bug: Mutant, pairs: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is said to find it does. A bug is a change of the text of a command, or of a function."""
    from tests.storage.postgres_bench import PostgresBench

    module, _, name = bug.where.partition(":")
    text = vars(import_module(module)).get(name)
    if isinstance(text, str):
        assert bug.right in text, f"{name} has no {bug.right!r} any more"
        monkeypatch.setattr(f"{module}.{name}", text.replace(bug.right, bug.wrong))
    test = ({**vars(contract), **vars(upkeep)})[bug.focus[0]]
    statement = STATEMENTS[bug.focus[1]] if len(bug.focus) > 1 else None
    with nullcontext() if isinstance(text, str) else bug.planted():
        bench = PostgresBench(pairs.get(), LOGS, "first")
        try:
            given = {"bench": bench, "one": Client(bench), "two": Client(bench), "statement": statement, **ARGUMENTS}
            with pytest.raises(AssertionError) as found:
                test(**{name: given[name] for name in inspect.signature(test).parameters})
            assert "syntax" not in str(found.value) and "does not exist" not in str(found.value), "a bug of the bug"
        finally:
            bench.close()
