"""kcat. ``--option only=REGEXP`` chooses scenarios.

The librdkafka of distributions is older than the consumer protocol (KIP-848) and renews no sessions (KIP-368). For
scenarios of both kcat loads the one that confluent-kafka brings in its place.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import confluent_kafka

from tests.interop.kcat.scenarios import ALL, MODERN, broker_restart
from tests.interop.kcat.secured import SECURED
from tests.interop.secured import secured
from tests.interop.suite import (
    QUICK_CONSUMER_GROUPS,
    NotHere,
    Place,
    Result,
    Run,
    Suite,
    checked,
    needs,
    played,
)
from tests.support.clients.kcat import Kcat

AT_ONCE = 3


def versions(place: Place) -> str:
    found = re.search(r"Version (\S+) .*(librdkafka \S+)", checked(["kcat", "-V"]))
    newer = f"librdkafka {confluent_kafka.libversion()[0]} for newer KIPs"
    return f"kcat {found[1]}, {found[2]}, {newer}" if found else "kcat"


def run(run: Run) -> Iterator[Result]:
    chosen = re.compile(run.options.get("only", ""))
    names = [name for name in ALL if chosen.search(name)]
    libraries = newer_librdkafka(run.scratch)
    with ThreadPoolExecutor(AT_ONCE) as pool:
        yield from pool.map(lambda name: _play(run, name, ALL[name]), names)
        modern = [name for name in MODERN if chosen.search(name)]
        yield from pool.map(lambda name: _play(run, name, MODERN[name], libraries), modern)
        with secured() as safe:
            wanted = {name: partial(play, told=safe.told) for name, play in SECURED.items() if chosen.search(name)}
            yield from safe.judged(pool.map(lambda name: _play(run, name, wanted[name], libraries), wanted))
    if chosen.search("broker_restart"):
        broker = run.broker
        if broker is None:
            yield Result("broker_restart", "skipped", "the broker cannot be restarted from here")
            return

        def restart() -> None:
            broker.kill()
            broker.restart()

        yield _play(run, "broker_restart", partial(broker_restart, restart=restart))


def newer_librdkafka(scratch: Path) -> Path | NotHere:
    """A folder in which kcat finds the librdkafka of confluent-kafka, or why there is none."""
    brought = Path(confluent_kafka.__file__).parents[1] / "confluent_kafka.libs"
    found = sorted(brought.glob("librdkafka-*.so.1"))
    if not found:
        return NotHere(f"confluent-kafka brings no librdkafka that kcat could load: {brought} has none")
    (scratch / "librdkafka.so.1").symlink_to(found[0])
    return scratch


def _play(
    run: Run, name: str, scenario: Callable[[Kcat, str], None], libraries: Path | NotHere | None = None
) -> Result:
    def play() -> None:
        if isinstance(libraries, NotHere):
            raise libraries
        with ExitStack() as closing:
            topic = f"{name.replace('_', '-')}-{time.time_ns() // 1_000_000:x}"
            scenario(Kcat(run.bootstrap, closing, libraries), topic)

    return played(name, play)


SUITE = Suite(
    title="kcat",
    language="C",
    missing=needs("kcat"),
    versions=versions,
    settings={"group.min.session.timeout.ms": 500, "num.partitions": 2, **QUICK_CONSUMER_GROUPS},
    run=run,
)
