"""sarama: its producers, consumer groups and cluster admin, in a small program of ours."""

from __future__ import annotations

from tests.interop.go_programs import build, go_version, required, run_scenarios
from tests.interop.suite import Place, Suite, needs

MODULE = "github.com/IBM/sarama"


def versions(place: Place) -> str:
    return f"sarama {required(place.source, MODULE).removeprefix('v')}, Go {go_version()}"


SUITE = Suite(
    name="sarama",
    title="sarama",
    language="Go",
    missing=needs("go"),
    prepare=build,
    versions=versions,
    settings={
        "auto.create.topics.enable": False,
        "group.min.session.timeout.ms": 500,
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": 500,
    },
    run=run_scenarios,
)
