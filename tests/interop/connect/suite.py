"""Kafka Connect in distributed mode and MirrorMaker 2, the newest of Maven Central.

``--option only=PART`` tells the stories that have it in their names. A step rests on those before it.
"""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from typing import Protocol, TypeVar

from tests.interop.connect import distributed, mirror
from tests.interop.jvm import fetch_jars, jar_version, java_version
from tests.interop.kafka_tools.cases import NotHere
from tests.interop.suite import Place, Result, Run, Suite, needs


class _Story(Protocol):
    def close(self) -> None:
        """End what runs for it."""


S = TypeVar("S", bound=_Story)


def prepare(place: Place) -> None:
    fetch_jars(place.source / "pom.xml", place.cache / "jars")


def versions(place: Place) -> str:
    jars = place.cache / "jars"
    connect, mirror = jar_version(jars, "connect-runtime"), jar_version(jars, "connect-mirror")
    return f"connect-runtime {connect}, connect-mirror {mirror}, {java_version()}"


def run(run: Run) -> Iterator[Result]:
    only = run.options.get("only", "")
    if only in "connect":
        yield from _tell("connect", distributed.Connect(run), distributed.STEPS)
    if only in "mirror":
        yield from _tell("mirror", mirror.Mirror(run), mirror.STEPS)


def _tell(name: str, story: S, steps: Sequence[Callable[[S], None]]) -> Iterator[Result]:
    failed = ""
    try:
        for step in steps:
            test = f"{name} {step.__name__}"
            if failed:
                yield Result(test, "failed", f"{failed} failed")
                continue
            began = time.monotonic()
            try:
                step(story)
                yield Result(test, "passed", "", time.monotonic() - began)
            except NotHere as absent:
                yield Result(test, "skipped", str(absent))
            except Exception:
                failed = step.__name__
                yield Result(test, "failed", traceback.format_exc()[-8000:], time.monotonic() - began)
    finally:
        story.close()


SUITE = Suite(
    name="connect",
    title="Kafka Connect and MirrorMaker 2",
    language="Java",
    missing=needs("java"),
    prepare=prepare,
    versions=versions,
    settings={"group.min.session.timeout.ms": 500},
    run=run,
)
