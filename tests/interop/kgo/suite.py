"""franz-go's kgo tests, fetched with the Go module proxy, in the version that tests/interop/franz_go asks for.

A test binary is built from a copy of the module and pointed at the broker by its own environment variables. Most of
its top-level tests are unit tests; those of groups, transactions, regular expressions, pausing, large batches and
changing partitions talk to the broker. ``--option run=REGEXP`` chooses tests, ``--option records=N`` says how many
records the largest ones move (the default of the tests is 500,000), ``--option chaos=1`` has them cut connections.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from tests.interop.go_programs import copied_module, go_version, required
from tests.interop.programs import go_test
from tests.interop.suite import Place, Result, Run, Suite, checked, needs

MODULE = "github.com/twmb/franz-go"
RECORDS = 100_000
TIMEOUT_S = 540

NO_KIP_848 = "the group protocol of KIP-848 is not offered"
NO_SHARE_GROUPS = "share groups are not offered"
NO_SASL = "SASL is not offered"
KNOWN = {
    "Test848*": NO_KIP_848,
    "*/848": NO_KIP_848,
    "*/848/*": NO_KIP_848,
    "TestShareGroup*": NO_SHARE_GROUPS,
    "TestConsumeRegexShareSkipsInternal": NO_SHARE_GROUPS,
    "TestSCRAMAuth*": NO_SASL,
    "TestIssueProduceBrokerTooOldFailsRecords": "wants a broker that does not advertise Produce 2; Kafka does, too",
}


def version(place: Place) -> str:
    return required(place.source.parent / "franz_go", MODULE)


def binary(place: Place) -> Path:
    return place.cache / f"kgo-{version(place)}.test"


def prepare(place: Place) -> None:
    source = copied_module(place, MODULE, version(place))
    if not binary(place).exists():
        built = binary(place).with_suffix(".building")
        checked(["go", "test", "-c", "-o", str(built), "./pkg/kgo"], cwd=source, env={"GOFLAGS": "-buildvcs=false"})
        built.replace(binary(place))


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
    command = ["go", "tool", "test2json", "-t", "-p", "kgo", str(binary(run.place)), "-test.v=test2json"]
    command += [f"-test.run={run.options.get('run', '')}", f"-test.timeout={TIMEOUT_S}s"]
    yield from go_test(command, cwd=folder, env=environment, timeout_s=TIMEOUT_S + 30)


SUITE = Suite(
    name="kgo",
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
