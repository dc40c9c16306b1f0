"""A broker that is killed and started again, and waiting for its clients to go on."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, Protocol

from ottla.testing import BrokerProcess
from tests.chaos.crew import Crew
from tests.chaos.ledger import Place
from tests.chaos.readback import Reader
from tests.support.waiting import wait_for

SETTINGS = {
    "group.initial.rebalance.delay.ms": 200,
    "group.min.session.timeout.ms": 1000,
    "group.consumer.min.session.timeout.ms": 1000,
    "group.consumer.min.heartbeat.interval.ms": 100,
    "group.consumer.heartbeat.interval.ms": 300,
    # Small segments, and compaction all the time, so that kills come in the middle of both.
    "log.segment.bytes": 30_000,
    "offsets.topic.segment.bytes": 10_000,
    "ottla.offsets.topic.min.compaction.lag.ms": 0,
    "transaction.state.log.segment.bytes": 5_000,
    "log.cleaner.backoff.ms": 200,
    "log.cleaner.min.cleanable.ratio": 0.05,
    "log.cleaner.delete.retention.ms": 1000,
}
PATIENCE_S = 90.0
"""Longest time in which clients must make progress after a restart."""
STOPPED = 0.1
"""Probability that a broker is told to stop, and is killed during or after that."""
INTERRUPTED = 0.1
"""Probability that a broker is killed while it starts, so that recovery begins again."""


class Broken(AssertionError):
    """A promise was broken; the message says which."""


class Account(Protocol):
    """The account of what the broker has promised."""

    problems: list[str]


class Killing:
    """The broker of a run, the moments of its kills, and the account that is kept.

    Args:
        broker: not yet started.
        seed: of the moments.
        account: has problems as soon as a promise is broken.
    """

    def __init__(self, broker: BrokerProcess, seed: int, account: Account) -> None:
        self.broker = broker
        self.chance = random.Random(seed)
        self._account = account

    @contextlib.contextmanager
    def running(self) -> Iterator[Any]:
        """The broker, from its start to its end."""
        with self.broker:
            yield self.broker

    def kill_and_restart(self) -> str:
        """SIGKILL the broker, sometimes while it stops; start it again, sometimes after another kill on the way.

        Gives what was done, in words.
        """
        if self.chance.random() < STOPPED:
            os.kill(self.broker.pid, signal.SIGTERM)
            time.sleep(self.chance.uniform(0, 0.5))
        self.broker.kill()
        if self.chance.random() < INTERRUPTED:
            self._start_and_kill(self.chance.uniform(0.05, 0.9))
        self.broker.restart()
        return "broker killed"

    def _start_and_kill(self, after_s: float) -> None:
        def kill() -> None:
            with contextlib.suppress(AssertionError, ProcessLookupError):
                os.kill(self.broker.pid, signal.SIGKILL)

        timer = threading.Timer(after_s, kill)
        timer.start()
        with contextlib.suppress(RuntimeError):
            self.broker.start()
        timer.join()
        self.broker.kill()

    def reader(self) -> Reader:
        """Reads what is stored."""
        return Reader(self.broker.bootstrap_servers)

    def stored(self) -> dict[Place, list[tuple[int, str]]]:
        """Offsets and values of all records, by place, as they are stored below the broker, where that can be seen."""
        return {}

    def wait(self, crew: Crew, condition: Callable[[], bool], what: str, show: Callable[[], object] = str) -> None:
        """Wait until the clients have got somewhere.

        Raises:
            AssertionError: they do not; or `Broken`: something is wrong.
        """

        def holds() -> bool:
            crew.drain()
            self.check(crew)
            return condition()

        wait_for(holds, what, timeout_s=PATIENCE_S, show=lambda: f"{show()}\n{self.broker.log_text()[-6000:]}")

    def check(self, crew: Crew) -> None:
        """Raises `Broken` if anything is wrong."""
        if ended := crew.ended():
            self._account.problems += ended
        self.raise_problems()

    def raise_problems(self) -> None:
        if self._account.problems:
            raise Broken("\n".join([*self._account.problems, "the broker's log:", self.broker.log_text()[-6000:]]))


class KillingOf(Protocol):
    """Makes the brokers of a run, with settings besides those of all runs."""

    def __call__(self, *, account: Account, settings: dict[str, Any], topics: dict[str, int]) -> Killing: ...
