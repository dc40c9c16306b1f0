"""franz-go: its client kgo and its admin client kadm, in a small program of ours."""

from __future__ import annotations

from tests.interop.go_programs import build, go_version, required, run_scenarios
from tests.interop.suite import Place, Suite, needs

MODULE = "github.com/twmb/franz-go"


def versions(place: Place) -> str:
    client, admin = (required(place.source, name).removeprefix("v") for name in (MODULE, f"{MODULE}/pkg/kadm"))
    return f"franz-go {client}, kadm {admin}, Go {go_version()}"


SUITE = Suite(
    name="franz_go",
    title="franz-go",
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
