"""The services of examples/services run, and pass their tests, where a reader puts them: in a folder of their own."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from ottla.testing import Broker
from tests.house.sources import ROOT
from tests.support.processes import Child, run, without

FOLDER = ROOT / "examples/services"
SERVICES = {"billing": "orders", "shipping": "payments", "audit": "events"}
"""The services, whose groups have their names, and the topics that they read."""


@pytest.mark.e2e
@pytest.mark.parametrize("service", SERVICES)
def test_a_suite(service: str, tmp_path: Path) -> None:
    for name in (f"{service}.py", f"test_{service}.py"):
        shutil.copy(FOLDER / name, tmp_path)
    told = run(sys.executable, "-m", "pytest", "-q", cwd=tmp_path, env=without("PYTEST_", "OTTLA_"))
    assert re.search(r"^[5-9] passed\b(?!.*skipped)", told, re.MULTILINE), told


@pytest.mark.e2e
@pytest.mark.parametrize("service", SERVICES)
def test_a_service_leaves_when_it_is_told_to_end(service: str) -> None:
    printed: list[str] = []
    with Broker(topics=[SERVICES[service], "shipments"]) as broker:
        command = [sys.executable, f"{service}.py", broker.bootstrap_servers]
        child = Child(command, printed.append, subprocess.STDOUT, FOLDER)
        try:
            broker.group(service).wait(members=1)
            child.process.terminate()
            broker.group(service).wait(members=0)
            assert child.wait(10) and child.process.returncode == 0, printed
        finally:
            child.kill()


def test_every_suite_is_run() -> None:
    there = {path.stem for path in FOLDER.glob("*.py")}
    assert there == {name for service in SERVICES for name in (service, f"test_{service}")}
