"""Java: kafka-clients (producer, consumers of both protocols, transactions, admin) and Kafka Streams, the newest."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from tests.interop.jvm import JAVA, compile_java, fetch_jars, jar_version, java_version
from tests.interop.programs import json_lines, scenarios
from tests.interop.suite import QUICK_CONSUMER_GROUPS, Place, Result, Run, Suite, needs

# What both programs are made of; Streams comes with its own release of the clients.
SHARED = ("Check", "Env", "Json", "Runner", "Scenario")
QUIET = "-Dorg.slf4j.simpleLogger.defaultLogLevel=off"


def prepare(place: Place) -> None:
    """Fetch the jars and compile both programs."""
    clients = sorted((place.source / "clients").rglob("*.java"))
    fetch_jars(place.source / "pom.xml", place.cache / "jars")
    compile_java(clients, place.cache / "jars", place.cache / "classes")
    shared = [file for file in clients if file.stem in SHARED]
    fetch_jars(place.source / "streams-pom.xml", place.cache / "streams-jars")
    streams = [*(place.source / "streams").rglob("*.java"), *shared]
    compile_java(streams, place.cache / "streams-jars", place.cache / "streams-classes")


def versions(place: Place) -> str:
    clients = jar_version(place.cache / "jars", "kafka-clients")
    streams = jar_version(place.cache / "streams-jars", "kafka-streams")
    return f"kafka-clients {clients}, kafka-streams {streams}, {java_version()}"


def class_path(cache: Path, prefix: str = "") -> str:
    return f"{cache / f'{prefix}classes'}:{cache / f'{prefix}jars'}/*"


def run(run: Run) -> Iterator[Result]:
    """``--option only=PATTERN`` runs the scenarios whose whole name the regular expression matches; for those of
    Streams it begins with ``streams_``.
    """
    only = run.options.get("only", "")
    java = [*JAVA, QUIET, f"-Donly={only}", "-cp"]
    cache = run.place.cache
    where = [run.bootstrap, str(run.scratch)]
    if not only.startswith("streams"):
        yield from scenarios(run, [*java, class_path(cache), "ottla.interop.Main", *where])
    if not only or only.startswith("streams"):
        yield from json_lines([*java, class_path(cache, "streams-"), "ottla.interop.StreamsMain", *where])


SUITE = Suite(
    title="Java clients and Kafka Streams",
    language="Java",
    missing=needs("java", "javac"),
    prepare=prepare,
    versions=versions,
    settings={"group.min.session.timeout.ms": 500, **QUICK_CONSUMER_GROUPS},
    run=run,
)
