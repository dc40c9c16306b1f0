"""librdkafka's own test runner, built with the librdkafka beside it.

The sources are those that the crate rdkafka-sys carries; ``OTTLA_LIBRDKAFKA_TREE`` may name another checkout, which is
copied. Building takes a C++ compiler and, the first time, minutes. The tests that need no broker are left out.
``--option tests=0012,0081`` chooses some, ``--option sample=SEED`` a quarter of them.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

from tests.interop.crates import copied_crate
from tests.interop.programs import Program
from tests.interop.suite import NotAvailable, Outcome, Place, Result, Run, Suite, checked, needs, sampled
from tests.support.rules import WITH_RULES

CRATE, VERSION = "rdkafka-sys", "4.10.0+2.12.1"
TREE = "OTTLA_LIBRDKAFKA_TREE"
TAKEN_FOR = "4.0.0"
SAMPLED = 4
"""One in so many tests is in a sample."""
TIMEOUT_S = 600
FAULTY = ("0049", "0075", "0076", "0086", "0088", "0094")
"""Those that use sockem: a test that ends while sockem closes a socket now and then locks up the whole runner."""

RUNNER = 'trap "" PIPE; exec ./test-runner -L -Q -p4'
"""A connection that is closed while sockem, its faulty network, writes to it would end the runner with SIGPIPE."""

CONFIGURED = ("--disable-gssapi", "--disable-curl", "--disable-ssl", "--disable-lz4-ext")
_ESCAPES = re.compile(r"\x1b\[[0-9;]*m")
_ROW = re.compile(r"\| +(\d\S+) +\| +(\w+) +\| +([\d.]+)s +\| *(.*)")
_OUTCOMES: dict[str, Outcome] = {"PASSED": "passed", "FAILED": "failed", "SKIPPED": "skipped"}
_ENDED_EARLY = {"RUNNING": "the runner ended before it", "DNS": "the runner ended before it began"}

LEFT_OUT = "Filtered due to negative test flags"
"""What the runner says of tests that need no broker."""

KAFKAS_SCRIPTS = "runs Kafka's own scripts out of an installation"
LOCKS_UP = "its faulty network, sockem, now and then locks up the whole runner"
THREE_REPLICAS = "wants topics with three replicas"
KNOWN = {
    "0052_msg_timestamps": KAFKAS_SCRIPTS,
    "0077_compaction": KAFKAS_SCRIPTS,
    "0109_auto_create_topics": KAFKAS_SCRIPTS,
    "0115_producer_auth": KAFKAS_SCRIPTS,
    "0119_consumer_auth": KAFKAS_SCRIPTS,
    "0103_transactions": THREE_REPLICAS,
    "0129_fetch_aborted_msgs": THREE_REPLICAS,
    **{f"{number}_*": LOCKS_UP for number in FAULTY},
}


def tree(place: Place) -> Path:
    """Where it is built."""
    given = os.environ.get(TREE)
    if not given:
        return place.cache / f"librdkafka-{VERSION}"
    return place.cache / f"librdkafka-of-{Path(given).resolve().as_posix().strip('/').replace('/', '-')}"


def prepare(place: Place) -> None:
    target = tree(place)
    if not target.exists():
        given = os.environ.get(TREE)
        source = Path(given) if given else copied_crate(place, CRATE, VERSION) / "librdkafka"
        if not (source / "tests" / "test.c").exists():
            raise NotAvailable(f"{source} is not a checkout of librdkafka: it has no tests/test.c")
        building = place.cache / "building"
        shutil.rmtree(building, ignore_errors=True)
        shutil.copytree(source, building, symlinks=True)
        os.replace(building, target)
    if not (target / "tests" / "test-runner").exists():
        checked(["./configure", *CONFIGURED], cwd=target)
        checked(["make", "-j2", "libs"], cwd=target, timeout_s=1800)
        checked(["make", "-j2", "-C", "tests", "test-runner"], cwd=target, timeout_s=1800)


def versions(place: Place) -> str:
    header = (tree(place) / "src" / "rdkafka.h").read_text("utf-8")
    found = re.search(r"#define RD_KAFKA_VERSION\s+0x(..)(..)(..)", header)
    number = ".".join(str(int(part, 16)) for part in found.groups()) if found else "of an unknown version"
    return f"librdkafka {number}, cc {checked(['cc', '-dumpfullversion', '-dumpversion']).strip()}"


def numbers(folder: Path) -> list[str]:
    """``0001``, ``0002``…: the tests that run unless others are asked for."""
    return sorted({path.name[:4] for path in folder.glob("0*-*.c*")})


def chosen(run: Run, folder: Path) -> list[str]:
    """The tests of this run; nothing stands for all."""
    if tests := run.options.get("tests"):
        return tests.split(",")
    if not (seed := run.options.get("sample")):
        return []
    return sampled(numbers(folder), SAMPLED, seed, run.say)


def run(run: Run) -> Iterator[Result]:
    folder = tree(run.place) / "tests"
    told = run.scratch / "test.conf"
    told.write_text(f"metadata.broker.list={run.bootstrap}\ntest.topic.random=true\n", "utf-8")
    environment = {
        "RDKAFKA_TEST_CONF": str(told),
        "TEST_KAFKA_VERSION": TAKEN_FOR,
        "LD_LIBRARY_PATH": f"{folder.parent / 'src'}:{folder.parent / 'src-cpp'}",
        "TESTS": ",".join(chosen(run, folder)),
        "TESTS_SKIP": ",".join(FAULTY),
    }
    if not environment["TESTS"]:
        del environment["TESTS"]
    program = Program(["sh", "-c", RUNNER], folder, environment, TIMEOUT_S)
    said = 0
    for line in program.lines():
        plain = _ESCAPES.sub("", line)
        program.last.append(plain)
        if row := _ROW.fullmatch(plain.rstrip()):
            said += 1
            reason = row[4].strip() or _ENDED_EARLY.get(row[2], "")
            if reason != LEFT_OUT:
                yield Result(row[1], _OUTCOMES.get(row[2], "failed"), reason, float(row[3]))
    if program.timed_out or not said:
        yield Result("(program)", "failed", f"{program.ending() or 'it reported no test'}\n{program.tail()}")


SUITE = Suite(
    title="librdkafka's tests",
    language="C",
    missing=needs("cargo", "make", "cc", "c++"),
    prepare=prepare,
    versions=versions,
    settings={
        "group.min.session.timeout.ms": 3000,
        "num.partitions": 4,
        **WITH_RULES,
    },
    run=run,
    known=KNOWN,
    known_of_nodes={"0081_admin": "wants topics with as many replicas as there are nodes"},
    foreign=True,
    sampled=True,
)
