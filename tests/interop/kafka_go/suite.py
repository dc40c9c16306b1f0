"""kafka-go's own tests, fetched with the Go module proxy.

They look for a broker at ``localhost:9092``, and for SASL at the next port, so this suite's broker listens there, and
the suite is skipped while somebody else does. ``--option run=REGEXP`` chooses tests, ``--option sample=SEED`` a third
of them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

from ottla.clients.security_admin import SecurityAdmin
from ottla.protocol.sasl.scram import MECHANISMS
from ottla.testing.logins import Logins
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
PORTS = (9092, 9093)
ADDRESSES = f"PLAINTEXT://localhost:{PORTS[0]},SASL_PLAINTEXT://localhost:{PORTS[1]}"
PLAIN_USER = {"adminplain": "admin-secret"}
SCRAM_USERS = {f"adminscram{bits}": (f"admin-secret-{bits}", MECHANISMS[f"SCRAM-SHA-{bits}"]) for bits in (256, 512)}
TAKEN_FOR = "4.0.0"
"""The newest Kafka that they are run with."""
SAMPLED = 3

HALVES = "it wants half of the records for each of two readers, who share three partitions"
KNOWN = {
    "TestReaderConsumerGroup/consumer_group_rebalance": HALVES,
    "TestReaderConsumerGroup": HALVES,
    "TestReaderReadCompactedMessage": "it wants segment.bytes=200, which Kafka refuses, too, since 4.0 (KIP-1030)",
}
PANICS = "^TestReaderConsumerGroup$/^(verify_offset_committed|consumer_group_commits_on_close)"
"""A helper of theirs calls a function that it leaves nil, whatever the broker does; that ends all the other tests."""


def module(place: Place) -> Path:
    return copied_module(place, MODULE, required(place.source, MODULE))


def prepare(place: Place) -> tuple[Path, Path]:
    """The tests of the client, and of its mechanisms."""
    name, env = f"kafka-go-{required(place.source, MODULE)}", {"GOFLAGS": "-mod=mod -buildvcs=false"}
    whole, sasl = built_tests(place, name, module(place), ".", env=env), f"{name}-sasl"
    return whole, built_tests(place, sasl, module(place), "./sasl", env=env)


async def add_users(bootstrap: str) -> None:
    async with SecurityAdmin(bootstrap_servers=bootstrap) as admin:
        for user, (password, mechanism) in SCRAM_USERS.items():
            await admin.set_user(user, password, mechanism)


def versions(place: Place) -> str:
    return f"kafka-go {required(place.source, MODULE).removeprefix('v')}, Go {go_version()}"


def run(run: Run) -> Iterator[Result]:
    # Their own runs leave nettest out: it asks a broker to behave like a pipe.
    environment = {"KAFKA_VERSION": TAKEN_FOR, "KAFKA_SKIP_NETTEST": "1"}
    chosen = run.options.get("run", "")
    if seed := run.options.get("sample"):
        chosen = f"^({'|'.join(sampled(names_of_tests(module(run.place)), SAMPLED, seed, run.say))})$"
    asyncio.run(add_users(run.bootstrap))
    (whole, sasl), source = prepare(run.place), module(run.place)
    yield from run_tests(whole, "kafka", source, environment, chosen, f"-test.skip={PANICS}")
    yield from run_tests(sasl, "sasl", source / "sasl", environment, run.options.get("run", ""))


SUITE = Suite(
    title="kafka-go's tests",
    language="Go",
    missing=needs("go", ports=PORTS),
    prepare=prepare,
    versions=versions,
    # As their own broker has them.
    settings={
        "listeners": ADDRESSES,
        "advertised.listeners": ADDRESSES,
        "message.max.bytes": 200_000_000,
        **Logins("PLAIN", PLAIN_USER).settings(),
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
        **WITH_RULES,
        "super.users": ";".join(f"User:{user}" for user in ("ANONYMOUS", *PLAIN_USER, *SCRAM_USERS)),
    },
    run=run,
    known=KNOWN,
    alone="its tests have the ports of two listeners of one broker in them, side by side",
    foreign=True,
    sampled=True,
)
