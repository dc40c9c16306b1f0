"""Kafka Connect in distributed mode and MirrorMaker 2, the newest of Maven Central.

``--option only=PART`` tells the stories that have it in their names. A step rests on those before it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

from tests.interop.connect import distributed, mirror
from tests.interop.jvm import fetch_jars, jar_version, java_version
from tests.interop.suite import Place, Result, Run, Suite, needs, told


def prepare(place: Place) -> None:
    fetch_jars(place.source / "pom.xml", place.cache / "jars")


def versions(place: Place) -> str:
    jars = place.cache / "jars"
    connect, mirror = jar_version(jars, "connect-runtime"), jar_version(jars, "connect-mirror")
    return f"connect-runtime {connect}, connect-mirror {mirror}, {java_version()}"


def run(run: Run) -> Iterator[Result]:
    stories = {"connect": (distributed.Connect, distributed.STEPS), "mirror": (mirror.Mirror, mirror.STEPS)}
    for name, (story, steps) in stories.items():
        if run.options.get("only", "") in name:
            with closing(story(run)) as at:
                yield from told(name, at, {step.__name__: step for step in steps})


SUITE = Suite(
    title="Kafka Connect and MirrorMaker 2",
    language="Java",
    missing=needs("java"),
    prepare=prepare,
    versions=versions,
    settings={"group.min.session.timeout.ms": 500},
    run=run,
)
