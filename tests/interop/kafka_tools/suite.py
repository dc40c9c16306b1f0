"""Kafka's own command-line tools: what each prints is checked."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from functools import partial

from tests.interop.jvm import compile_java, fetch_jars, jar_version, java_version
from tests.interop.kafka_tools import cluster, consumer_protocol, groups, loads, topics
from tests.interop.kafka_tools.cases import CASES, Stage
from tests.interop.kafka_tools.tools import Tools, class_path
from tests.interop.suite import QUICK_CONSUMER_GROUPS, Place, Result, Run, Suite, needs, played
from tests.support.rules import WITH_RULES

LIMIT_S = 60.0
# Importing them has filled CASES.
MODULES = (topics, groups, consumer_protocol, cluster, loads)


def prepare(place: Place) -> None:
    """Find out which release is the newest, fetch it and compile what calls the tools."""
    fetch_jars(place.source / "newest-pom.xml", place.cache / "newest")
    newest = jar_version(place.cache / "newest", "kafka-tools")
    fetch_jars(place.source / "pom.xml", place.cache / "jars", {"kafka.version": newest})
    compile_java((place.source / "src").rglob("*.java"), place.cache / "jars", place.cache / "classes")


def versions(place: Place) -> str:
    return f"Apache Kafka {jar_version(place.cache / 'jars', 'kafka-tools')}, {java_version()}"


def run(run: Run) -> Iterator[Result]:
    """``--option only=PART`` runs the tests that have it in their names."""
    with Tools(class_path(run.place.cache), run.bootstrap) as tools:
        stage = Stage(tools, run.bootstrap, run.scratch, run.broker)
        for name, test in CASES.items():
            if run.options.get("only", "") not in name:
                continue
            # A tool that never ends is ended with its JVM; the next test gets another.
            alarm = threading.Timer(LIMIT_S, tools.end)
            alarm.start()
            result = played(name, partial(test, stage))
            alarm.cancel()
            yield result


SUITE = Suite(
    title="Kafka's command-line tools",
    language="Java",
    missing=needs("java", "javac"),
    prepare=prepare,
    versions=versions,
    settings={
        "group.min.session.timeout.ms": 500,
        **WITH_RULES,
        **QUICK_CONSUMER_GROUPS,
        # A static member that is away shall be seen by a tool.
        "group.consumer.session.timeout.ms": 20_000,
    },
    run=run,
)
