"""Apache Kafka with stock Java consumers that come and go, and what they and Kafka's AdminClient say of it."""

import json
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

from tests.differential.real_kafka import RealKafka, jars
from tests.interop.jvm import compile_java
from tests.support.processes import run

JAVA = Path(__file__).parent / "java"
RUN = [
    "java",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-Xmx512m",
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=error",
]
SETTINGS: dict[str, object] = {
    "group.initial.rebalance.delay.ms": 0,
    "group.min.session.timeout.ms": 100,
    "transaction.state.log.num.partitions": 3,
    "group.consumer.min.heartbeat.interval.ms": 100,
    "group.consumer.heartbeat.interval.ms": 200,
}


class Generation(NamedTuple):
    """What a member was told of a generation."""

    group: str
    generation: int
    member: str
    client: str
    assigned: tuple[int, ...]


class Truth(NamedTuple):
    """What the clients know.

    Attributes:
        commits: (group, topic, partition, offset), how often each.
        finals: what the AdminClient says was committed last, by group, topic and partition.
    """

    commits: Counter[tuple[str, str, int, int]]
    generations: list[Generation]
    finals: dict[tuple[str, str, int], int]


def churn(kafka: RealKafka, classes: Path, churns: int) -> Truth:
    """Let the consumers run to their end.

    Args:
        classes: where the program is compiled to.
        churns: how often a member comes and goes in group ``classic``.

    Raises:
        AssertionError: the program failed.
    """
    compile_java(JAVA.rglob("*.java"), jars(), classes)
    command = [*RUN, "-cp", f"{classes}:{jars()}/*", "ottla.pipeline.Groups", f"127.0.0.1:{kafka.port}", str(churns)]
    return _truth([json.loads(line) for line in run(*command, timeout_s=300).splitlines()])


def _truth(lines: list[dict[str, Any]]) -> Truth:
    commits: Counter[tuple[str, str, int, int]] = Counter()
    generations, finals = [], {}
    for line in lines:
        if line["kind"] == "commit":
            commits[line["group"], line["topic"], line["partition"], line["offset"]] += 1
        elif line["kind"] == "final":
            finals[line["group"], line["topic"], line["partition"]] = line["offset"]
        else:
            assigned = tuple(line["assigned"])
            generations.append(Generation(line["group"], line["generation"], line["member"], line["client"], assigned))
    return Truth(commits, generations, finals)
