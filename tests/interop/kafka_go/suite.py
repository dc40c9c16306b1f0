"""kafka-go's own tests, fetched with the Go module proxy.

They look for a broker at ``localhost:9092``, so this suite's broker listens there, and the suite is skipped while
somebody else does. ``--option run=REGEXP`` chooses tests, ``--option sample=SEED`` a third of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from tests.interop.go_programs import (
    built_tests,
    copied_module,
    go_version,
    names_of_tests,
    required,
    run_tests,
)
from tests.interop.suite import Place, Result, Run, Suite, needs, sampled
from tests.support.rules import WITH_RULES

MODULE = "github.com/segmentio/kafka-go"
PORT = 9092
TAKEN_FOR = "4.0.0"
"""The newest Kafka that they are run with."""
SAMPLED = 3

NO_SASL = "SASL is not offered"
HALVES = "it wants half of the records for each of two readers, who share three partitions"
KNOWN = {
    "TestUnsupportedSASLMechanism": NO_SASL,
    "TestWriter/writing_a_message_with_SASL_Plain_authentication": NO_SASL,
    "TestWriter": NO_SASL,  # which has that one in it
    "TestReaderConsumerGroup/consumer_group_rebalance": HALVES,
    "TestReaderConsumerGroup": HALVES,
    "TestReaderReadCompactedMessage": "it wants segment.bytes=200, which Kafka refuses, too, since 4.0 (KIP-1030)",
}
PANICS = "^TestReaderConsumerGroup$/^(verify_offset_committed|consumer_group_commits_on_close)"
"""A helper of theirs calls a function that it leaves nil, whatever the broker does; that ends all the other tests."""


def module(place: Place) -> Path:
    return copied_module(place, MODULE, required(place.source, MODULE))


def prepare(place: Place) -> Path:
    name = f"kafka-go-{required(place.source, MODULE)}"
    return built_tests(place, name, module(place), ".", env={"GOFLAGS": "-mod=mod -buildvcs=false"})


def versions(place: Place) -> str:
    return f"kafka-go {required(place.source, MODULE).removeprefix('v')}, Go {go_version()}"


def run(run: Run) -> Iterator[Result]:
    # Their own runs leave nettest out: it asks a broker to behave like a pipe.
    environment = {"KAFKA_VERSION": TAKEN_FOR, "KAFKA_SKIP_NETTEST": "1"}
    chosen = run.options.get("run", "")
    if seed := run.options.get("sample"):
        chosen = f"^({'|'.join(sampled(names_of_tests(module(run.place)), SAMPLED, seed, run.say))})$"
    skip = f"-test.skip={PANICS}"
    yield from run_tests(prepare(run.place), "kafka", module(run.place), environment, chosen, skip)


SUITE = Suite(
    title="kafka-go's tests",
    language="Go",
    missing=needs("go", ports=[PORT]),
    prepare=prepare,
    versions=versions,
    port=PORT,
    # As their own broker has them.
    settings={
        "advertised.listeners": f"PLAINTEXT://localhost:{PORT}",
        "message.max.bytes": 200_000_000,
        **WITH_RULES,
    },
    run=run,
    known=KNOWN,
    foreign=True,
    sampled=True,
)
