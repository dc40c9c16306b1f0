"""aiokafka's tests, with a conftest of ours for theirs, which starts brokers in containers.

Its source distributions carry no tests. ``OTTLA_AIOKAFKA_TREE`` names a checkout of the version that is tried here.
``--option only=EXPRESSION`` chooses tests as pytest's -k does.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from tests.interop.programs import junit
from tests.interop.python_envs import environment, python_version
from tests.interop.suite import NotAvailable, Place, Result, Run, Suite

VERSION = "0.14.0"
TREE = "OTTLA_AIOKAFKA_TREE"
REQUIREMENTS = (f"aiokafka=={VERSION}", "pytest", "pytest-asyncio", "pytest-mock", "docker", "cramjam")
"""docker is imported by their helpers and does nothing here."""
PYTEST_INI = "[pytest]\nasyncio_mode = auto\nmarkers =\n    ssl: needs TLS\n"

NO_TEST = "got empty parameter set"
"""What pytest reports in place of a parametrized test without parameters, as of requests that have one version."""


def prepare(place: Place) -> None:
    """Lay their tests beside no source of aiokafka, so that the installed one is tried, with its compiled parts."""
    tree = os.environ.get(TREE)
    if not tree:
        raise NotAvailable(f"no release of aiokafka on PyPI carries its tests; {TREE} may name a checkout of {VERSION}")
    if _version_line(Path(tree)) != f'__version__ = "{VERSION}"':
        raise NotAvailable(f"{TREE} is not a checkout of aiokafka {VERSION}")
    environment(place, "venv", *REQUIREMENTS)
    beside = place.cache / "beside"
    shutil.rmtree(beside, ignore_errors=True)
    shutil.copytree(Path(tree) / "tests", beside / "tests")
    shutil.copy(place.source / "conftest.py", beside / "tests" / "conftest.py")
    (beside / "pytest.ini").write_text(PYTEST_INI, "utf-8")


def _version_line(tree: Path) -> str:
    try:
        return (tree / "aiokafka" / "__init__.py").read_text("utf-8").partition("\n")[0]
    except OSError:
        return ""


def versions(place: Place) -> str:
    return f"aiokafka {VERSION}, {python_version()}"


def run(run: Run) -> Iterator[Result]:
    chosen = "not ssl"
    if only := run.options.get("only"):
        chosen = f"({only}) and {chosen}"
    command = [str(environment(run.place, "venv", *REQUIREMENTS)), "-m", "pytest", "tests", "-q"]
    command += ["--ignore=tests/test_sasl.py", "-p", "no:cacheprovider", "-k", chosen]
    told = {"EXT_BOOTSTRAP": run.bootstrap}
    for result in junit(command, cwd=run.place.cache / "beside", env=told, timeout_s=900):
        if not result.reason.startswith(NO_TEST):
            yield result


SUITE = Suite(
    title="aiokafka's tests",
    language="Python",
    prepare=prepare,
    versions=versions,
    # As their own broker has them.
    settings={"node.id": 0, "num.partitions": 2, "group.min.session.timeout.ms": 6000},
    run=run,
    known_of_nodes={
        **dict.fromkeys(
            ("*::test_describe_cluster", "*::test_describe_configs_broker", "*::test_metadata"),
            "expects a cluster of one broker",
        ),
        **dict.fromkeys(
            ("*::test_concurrent_send_on_different_connection_groups", "*::test_no_concurrent_send_on_connection"),
            "fetches from any broker, which need not lead the partition",
        ),
    },
    foreign=True,
)
