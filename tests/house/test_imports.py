"""Who may import whom: the contracts in pyproject.toml hold, and they can be broken."""

from __future__ import annotations

import ast
import os
import re
import shutil
import sys
import tomllib
from collections.abc import Collection
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

from tests.house.sources import ROOMS, ROOT, room_modules, tree
from tests.support.processes import run

CONFIG = ROOT / "pyproject.toml"
CONTRACTS = [contract["name"] for contract in tomllib.loads(CONFIG.read_text())["tool"]["importlinter"]["contracts"]]

RUN = "from importlinter.cli import lint_imports_command as run; run()"

PLANTED = [
    # (contract, the file that breaks it, what it imports)
    ("rooms", "protocol/framing.py", "ottla.clients.errors"),
    ("rooms", "clients/errors.py", "ottla.broker.clock"),
    ("rooms", "broker/settings.py", "ottla.clients.errors"),
    ("rooms", "testing/__init__.py", "ottla.cli.main"),
    ("rooms", "pipeline/tables.py", "ottla.cli.main"),
    ("pipeline", "pipeline/lake.py", "ottla.broker.clock"),
    ("broker", "broker/core/purgatory.py", "ottla.broker.handlers.heartbeat"),
    ("handlers", "broker/handlers/heartbeat.py", "ottla.broker.storage.memory"),
    ("dispatch", "broker/dispatch.py", "ottla.broker.runtime.reading"),
    ("broker", "broker/settings.py", "ottla.broker.core.effects"),
    ("dispatch", "broker/dispatch.py", "ottla.broker.core.effects"),
    ("broker", "broker/runtime/reading.py", "ottla.broker.handlers.heartbeat"),
    ("storage", "broker/storage/memory.py", "ottla.broker.core.purgatory"),
    ("asyncpg", "broker/storage/memory.py", "asyncpg"),
    ("net", "broker/net/connection.py", "ottla.protocol.apis"),
    ("net", "broker/net/connection.py", "ottla.broker.handlers.heartbeat"),
    ("core:", "broker/core/purgatory.py", "ottla.broker.clock"),
    ("rooms", "broker/runtime/reading.py", "ottla.observe.logs"),
    ("observe", "observe/logs.py", "ottla.clients.errors"),
    ("rooms", "observe/logs.py", "ottla.workbench"),
    ("core and protocol", "broker/core/purgatory.py", "time"),
    ("core and protocol", "protocol/framing.py", "socket"),
]


def lint(path: Path | None = None, code: int = 0) -> str:
    """Run import-linter on the sources that are installed, or on those in ``path``; what it prints."""
    env = os.environ | ({"PYTHONPATH": str(path)} if path else {}) | {"COLUMNS": "200", "NO_COLOR": "1"}
    return run(sys.executable, "-c", RUN, "--no-cache", "--config", CONFIG, cwd=path or ROOT, env=env, code=code)


def test_the_contracts_are_kept() -> None:
    assert f"Contracts: {len(CONTRACTS)} kept, 0 broken." in lint()


def test_every_room_is_under_contract() -> None:
    roots = tomllib.loads(CONFIG.read_text())["tool"]["importlinter"]["root_packages"]
    assert sorted(roots) == sorted(f"ottla.{room}" for room in ROOMS)


@pytest.fixture(scope="module")
def broken(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What import-linter says of a copy of the sources into which every import of `PLANTED` was put, and a new room."""
    copy = tmp_path_factory.mktemp("planted")
    for room in ROOMS:
        shutil.copytree(ROOT / room, copy / "ottla" / room, ignore=shutil.ignore_patterns("__pycache__"))
    for _, file, imported in PLANTED:
        target = copy / "ottla" / file
        target.write_text(target.read_text() + f"\nimport {imported}\n")
    (copy / "ottla/broker/newcomer.py").write_text('"""A room that nobody declared."""\n')
    return lint(path=copy, code=1)


@pytest.mark.parametrize("contract", CONTRACTS)
def test_a_contract_can_be_broken(broken: str, contract: str) -> None:
    assert f"{contract} BROKEN" in broken
    assert [name for name, _, _ in PLANTED if contract.startswith(name)], "no violation of it is planted"


@pytest.mark.parametrize(("contract", "file", "imported"), PLANTED)
def test_a_forbidden_import_is_reported(broken: str, contract: str, file: str, imported: str) -> None:
    importer = "ottla." + file.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    heading = next(name for name in CONTRACTS if name.startswith(contract))
    report = broken.split("Broken contracts")[-1].split(heading)[1]
    section = re.split("|".join(re.escape(name) for name in CONTRACTS), report)[0]
    assert re.search(rf"{re.escape(importer)} -> {re.escape(imported)}\b", section)


def test_a_new_room_must_be_declared(broken: str) -> None:
    assert re.search(r"not listed as layers:\s+- ottla\.broker\.newcomer\n", broken)


def imports_of(source: ast.Module, modules: Collection[str]) -> set[str]:
    """The modules of ours that a source imports, wherever it does: within functions and for types alone, too."""
    found = set()
    for node in ast.walk(source):
        if isinstance(node, ast.Import):
            found |= {one.name for one in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = {f"{node.module}.{one.name}" for one in node.names}
            found |= names & set(modules) or {node.module}
    return found & set(modules)


def test_no_modules_import_each_other_in_a_circle() -> None:
    modules = room_modules()
    graph = {one: imports_of(tree(path_of(one)), modules) - {one} for one in modules}
    assert sum(map(len, graph.values())) > 2_000
    TopologicalSorter(graph).prepare()  # raises an error that names the circle


def path_of(module: str) -> Path:
    path = ROOT.joinpath(*module.split(".")[1:])
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


def test_a_circle_for_types_alone_is_found() -> None:
    source = (
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from a.b import C\ndef f():\n    from a import d\n"
    )
    assert imports_of(ast.parse(source), ["a.b", "a.c", "a.d"]) == {"a.b", "a.d"}
    with pytest.raises(CycleError):
        TopologicalSorter({"a.b": {"a.c"}, "a.c": {"a.b"}}).prepare()
