"""kcat. ``--option only=REGEXP`` chooses scenarios."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial

from tests.interop.kcat.scenarios import ALL, broker_restart
from tests.interop.suite import Place, Result, Run, Suite, checked, needs, played
from tests.support.clients.kcat import Kcat

AT_ONCE = 3


def versions(place: Place) -> str:
    found = re.search(r"Version (\S+) .*(librdkafka \S+)", checked(["kcat", "-V"]))
    return f"kcat {found[1]}, {found[2]}" if found else "kcat"


def run(run: Run) -> Iterator[Result]:
    chosen = re.compile(run.options.get("only", ""))
    names = [name for name in ALL if chosen.search(name)]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        yield from pool.map(lambda name: _play(run, name, ALL[name]), names)
    if chosen.search("broker_restart"):
        broker = run.broker
        if broker is None:
            yield Result("broker_restart", "skipped", "the broker cannot be restarted from here")
            return

        def restart() -> None:
            broker.kill()
            broker.restart()

        yield _play(run, "broker_restart", partial(broker_restart, restart=restart))


def _play(run: Run, name: str, scenario: Callable[[Kcat, str], None]) -> Result:
    def play() -> None:
        with ExitStack() as closing:
            scenario(Kcat(run.bootstrap, closing), f"{name.replace('_', '-')}-{time.time_ns() // 1_000_000:x}")

    return played(name, play)


SUITE = Suite(
    title="kcat",
    language="C",
    missing=needs("kcat"),
    versions=versions,
    settings={"group.min.session.timeout.ms": 500, "num.partitions": 2},
    run=run,
)
