"""franz-go's kgo tests, fetched with the Go module proxy, in the version that tests/interop/franz_go asks for.

A test binary is built from a copy of the module and pointed at the broker by its own environment variables. Most of
its top-level tests are unit tests; those of groups, transactions, regular expressions, pausing, large batches and
changing partitions talk to the broker. ``--option run=REGEXP`` chooses tests, ``--option run=kip-848`` the eight of
groups of the consumer protocol. ``--option records=N`` says how many records the largest ones move (the default of the
tests is 500,000), ``--option chaos=1`` has them cut connections.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from tests.interop.go_programs import built_tests, copied_module, go_version, required, run_tests
from tests.interop.secured import PASSWORD, USER, secured
from tests.interop.suite import Place, Result, Run, Suite, needs

MODULE = "github.com/twmb/franz-go"
RECORDS = 100_000

KIP_848 = "Test848|TestGroupSimple/848|TestGroupETL|TestTxnEtl"
"""Of the last two also those of classic groups: each takes one of four places, and one that is left out keeps it."""
NO_SHARE_GROUPS = "share groups are not offered"
KNOWN = {
    "TestShareGroup*": NO_SHARE_GROUPS,
    "TestConsumeRegexShareSkipsInternal": NO_SHARE_GROUPS,
    "TestIssueProduceBrokerTooOldFailsRecords": "wants a broker that does not advertise Produce 2; Kafka does, too",
}


def version(place: Place) -> str:
    return required(place.source.parent / "franz_go", MODULE)


def prepare(place: Place) -> Path:
    source = copied_module(place, MODULE, version(place))
    return built_tests(place, f"kgo-{version(place)}", source, "./pkg/kgo", env={"GOFLAGS": "-buildvcs=false"})


def versions(place: Place) -> str:
    return f"franz-go {version(place).removeprefix('v')}, Go {go_version()}"


def run(run: Run) -> Iterator[Result]:
    folder = run.place.cache / f"franz-go-{version(run.place)}" / "pkg" / "kgo"
    environment = {
        "KGO_SEEDS": run.bootstrap,
        "KGO_TEST_RF": "1",
        "KGO_TEST_RECORDS": run.options.get("records", str(RECORDS)),
        "KGO_TEST_CHAOS": run.options.get("chaos", "0"),
        "KGO_LOG_LEVEL": run.options.get("log", "none"),
    }
    wanted = run.options.get("run", "")
    chosen = KIP_848 if wanted == "kip-848" else wanted
    with secured() as safe:
        environment["KGO_TEST_SCRAM_SEEDS"] = safe.told["SECURED_OPEN"]
        environment["KGO_TEST_SCRAM"] = f"{USER}:{PASSWORD}:512"
        yield from safe.judged(run_tests(prepare(run.place), "kgo", folder, environment, chosen))


SUITE = Suite(
    title="franz-go's kgo tests",
    language="Go",
    missing=needs("go"),
    prepare=prepare,
    versions=versions,
    settings={"auto.create.topics.enable": False, "group.min.session.timeout.ms": 100},
    run=run,
    known=KNOWN,
    foreign=True,
)
