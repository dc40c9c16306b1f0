"""kafka-python's integration tests out of its source distribution.

They are told by environment variables that the broker runs already, and which Kafka it is to be taken for. The source
distribution lacks one small helper module, for which ``service.py`` stands in. ``--option only=EXPRESSION`` chooses
tests as pytest's -k does.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator

from tests.interop.programs import junit
from tests.interop.python_envs import environment, python_version, source
from tests.interop.suite import Place, Result, Run, Suite
from tests.support.rules import WITH_RULES

VERSION = "3.0.12"
TAKEN_FOR = "4.3.0"
"""The Kafka whose version table ours has to look like."""
TOOLS = ("pytest", "pytest-timeout", "py", "lz4", "zstandard", "python-snappy", "crc32c", "xxhash")

NO_TLS = "TLS is not offered"
NO_SASL = "SASL is not offered"
KNOWN = {
    "*test_ssl_integration*": NO_TLS,
    "*test_sasl_integration*": NO_SASL,
    "*::test_describe_metadata_quorum": "DescribeQuorum is not offered: there is no KRaft quorum to describe",
    "*::test_kafka_consumer_offsets_for_time_old": "for Kafka before 0.10.1 only",
}


def prepare(place: Place) -> None:
    environment(place, "venv", *TOOLS)
    tests = source(place, f"kafka-python=={VERSION}") / "test"
    (tests / "__init__.py").touch()
    shutil.copy(place.source / "service.py", tests / "service.py")


def versions(place: Place) -> str:
    return f"kafka-python {VERSION}, {python_version()}"


def run(run: Run) -> Iterator[Result]:
    tree = source(run.place, f"kafka-python=={VERSION}")
    command = [str(environment(run.place, "venv", *TOOLS)), "-m", "pytest", "test/integration", "-q"]
    command += [
        "--timeout=45",
        "--timeout-method=signal",
        "-o",
        "addopts=",
        "-p",
        "no:logging",
        "-p",
        "no:cacheprovider",
    ]
    if only := run.options.get("only"):
        command += ["-k", only]
    told = {"KAFKA_ROOT": str(run.scratch), "KAFKA_VERSION": TAKEN_FOR, "KAFKA_URI": f"kafka://{run.bootstrap}"}
    yield from junit(command, cwd=tree, env=told, timeout_s=240)


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
    foreign=True,
)
