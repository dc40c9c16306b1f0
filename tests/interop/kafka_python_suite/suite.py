"""kafka-python's integration tests out of its source distribution.

They are told by environment variables that the broker runs already, and which Kafka it is to be taken for. Those of
SASL and TLS start brokers of their own: the folder ``installation`` stands in for one of Kafka, as far as they use it.
The source distribution lacks a small helper module, for which ``service.py`` stands in. ``--option only=EXPRESSION``
chooses tests as pytest's -k does.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator, Mapping

from tests.interop.programs import junit
from tests.interop.python_envs import environment, python_version, source
from tests.interop.suite import Place, Result, Run, Suite
from tests.support.rules import WITH_RULES

VERSION = "3.0.12"
TAKEN_FOR = "4.3.0"
"""The Kafka whose version table ours has to look like."""
TOOLS = ("pytest", "pytest-timeout", "py", "lz4", "zstandard", "python-snappy", "crc32c", "xxhash")

SECURED = ("test_sasl_integration.py", "test_ssl_integration.py")
KNOWN = {
    "*::test_describe_metadata_quorum": "DescribeQuorum is not offered: there is no KRaft quorum to describe",
    "*::test_kafka_consumer_offsets_for_time_old": "for Kafka before 0.10.1 only",
}


def prepare(place: Place) -> None:
    environment(place, "venv", *TOOLS)
    tests = source(place, f"kafka-python=={VERSION}") / "test"
    (tests / "__init__.py").touch()
    shutil.copy(place.source / "service.py", tests / "service.py")
    shutil.copytree(
        place.source / "installation" / "resources",
        tests.parent / "servers" / "resources" / "default",
        dirs_exist_ok=True,
    )


def versions(place: Place) -> str:
    return f"kafka-python {VERSION}, {python_version()}"


def run(run: Run) -> Iterator[Result]:
    told = {"KAFKA_ROOT": str(run.scratch), "KAFKA_URI": f"kafka://{run.bootstrap.split(',')[0]}"}
    yield from _tests(run, ["test/integration", *(f"--ignore=test/integration/{one}" for one in SECURED)], told)
    installation = {"KAFKA_ROOT": str(run.place.source / "installation"), "OTTLA_PYTHON": sys.executable}
    yield from _tests(run, [f"test/integration/{one}" for one in SECURED], installation)


def _tests(run: Run, which: list[str], told: Mapping[str, str]) -> Iterator[Result]:
    tree = source(run.place, f"kafka-python=={VERSION}")
    command = [str(environment(run.place, "venv", *TOOLS)), "-m", "pytest", *which, "-q"]
    command += ["--timeout=90", "--timeout-method=signal", "-o", "addopts=", "-p", "no:logging"]
    command += ["-p", "no:cacheprovider"]
    only = run.options.get("only", "")
    for result in junit([*command, "-k", only], cwd=tree, env={"KAFKA_VERSION": TAKEN_FOR, **told}, timeout_s=240):
        if not (only and "it collected no test" in result.reason):  # what was asked for is in the other part
            yield result


SUITE = Suite(
    title="kafka-python's integration tests",
    language="Python",
    prepare=prepare,
    versions=versions,
    settings={
        # As their own broker has them.
        "node.id": 0,
        "num.partitions": 4,
        "group.min.session.timeout.ms": 1000,
        **WITH_RULES,
    },
    run=run,
    known=KNOWN,
    known_of_nodes={"*::test_alter_partition_reassignments": "moves a partition, and they stay where they are at home"},
    foreign=True,
)
