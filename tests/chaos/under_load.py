"""A broker that is killed again and again while stock clients use it, which live on through all of it."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from ottla.testing import BrokerProcess
from tests.chaos.crew import Crew
from tests.chaos.ledger import Ledger
from tests.chaos.load import PARTITIONS
from tests.chaos.readback import read_generations, read_offsets, read_on, read_topics
from tests.e2e.raw import RawClient

ONCE = ("confluent-once", "kafka-python-once", "aiokafka-once", "ottla-once")
OTHERS = ("confluent-acks-1", "kafka-python-acks-all", "aiokafka-acks-1", "ottla-acks-1")
TOPICS = (*ONCE, *OTHERS)
LOADS = ("confluent", "kafka_python", "aiokafka", "ottla")
SETTINGS = {"group.initial.rebalance.delay.ms": 200, "group.min.session.timeout.ms": 6000}
PATIENCE_S = 90.0
"""How long clients may take to go on after a restart before that is a failure."""
CALM_EVERY = 20
"""After so many rounds every client must have got further before the next kill."""


class Broken(AssertionError):
    """A promise was broken; the message says which."""


class UnderLoad:
    """Rounds of kill and restart.

    Args:
        directory: the broker's data.
        seed: of the moments of the kills.
        say: is told how it goes.
    """

    def __init__(self, directory: Path, seed: int, say: Callable[[str], None]) -> None:
        self._chance = random.Random(seed)
        self._say = say
        self.ledger = Ledger(TOPICS, ONCE)
        self.broker = BrokerProcess(directory, settings=SETTINGS, topics=dict.fromkeys(TOPICS, PARTITIONS))

    def run(self, rounds: int) -> None:
        """Kill so many times.

        Raises:
            Broken: something acknowledged was lost, doubled or moved, or a client does not go on.
        """
        with self.broker, Crew(self.ledger.take) as crew:
            wanted = [part for topic in TOPICS for part in ("--topic", topic)]
            for load in LOADS:
                crew.add(load, f"tests.chaos.load_{load}", "--bootstrap", self.broker.bootstrap_servers, *wanted)
            self._everyone_goes_on(crew)
            for number in range(1, rounds + 1):
                began = time.monotonic()
                before = dict(self.ledger.acked)
                self._kill_and_restart()
                crew.drain()
                with self._reader() as client:
                    read_offsets(client, self.ledger)
                    read_topics(client, self.ledger)
                    read_on(client, self.ledger)
                self._check(crew)
                if number % CALM_EVERY == 0:
                    self._everyone_goes_on(crew)
                else:
                    self._wait(crew, lambda before=before: self._further(before) >= 2, "two producers to go on")  # type: ignore[misc]
                    time.sleep(self._chance.uniform(0, 0.8))
                self._say(f"round {number}: {time.monotonic() - began:.1f} s; {self.ledger.totals()}")
            self._everyone_goes_on(crew)
            self._end(crew)

    def _kill_and_restart(self) -> None:
        os.kill(self.broker.pid, signal.SIGKILL)
        self.broker.kill()
        if self._chance.random() < 0.1:
            # Another kill while it starts: recovery is interrupted and has to begin again.
            self._start_and_kill(self._chance.uniform(0.05, 0.9))
        self.broker.restart()

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

    @contextlib.contextmanager
    def _reader(self) -> Iterator[RawClient]:
        client = RawClient(self.broker.port)
        try:
            yield client
        finally:
            client.close()

    def _further(self, before: dict[str, int]) -> int:
        return sum(self.ledger.acked[topic] > count for topic, count in before.items())

    def _everyone_goes_on(self, crew: Crew) -> None:
        before = dict(self.ledger.acked)
        self._wait(crew, lambda: self._further(before) == len(before), "every producer to go on")
        commits = self.ledger.committed()
        groups = set(commits) or {"any"}
        self._wait(
            crew,
            lambda: sum(self.ledger.committed().get(group) != commits.get(group) for group in groups) == len(groups),
            "every group to commit",
        )

    def _wait(self, crew: Crew, condition: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while True:
            crew.drain()
            self._check(crew)
            if condition():
                return
            if time.monotonic() > deadline:
                behind = dict(sorted(self.ledger.acked.items()))
                raise Broken(
                    f"waited {PATIENCE_S:.0f} s for {what}: {behind}, {self.ledger.committed()}\n"
                    f"{self.broker.log_text()[-6000:]}"
                )
            time.sleep(0.02)

    def _end(self, crew: Crew) -> None:
        """Let everyone finish, kill once more, and read everything."""
        if late := crew.finish(PATIENCE_S):
            raise Broken(f"{', '.join(late)}: not finished within {PATIENCE_S:.0f} s")
        self.broker.kill()
        self.broker.restart()
        with self._reader() as client:
            read_on(client, self.ledger, again=True)
            read_offsets(client, self.ledger, final=True)
            read_topics(client, self.ledger)
            read_generations(client, self.ledger)
        self.ledger.check_seen()
        if missing := set(LOADS) - self.ledger.ended:
            self.ledger.problems.append(f"{', '.join(missing)} did not end well")
        self._raise_problems()

    def _check(self, crew: Crew) -> None:
        if ended := crew.ended():
            self.ledger.problems += ended
        self._raise_problems()

    def _raise_problems(self) -> None:
        if self.ledger.problems:
            log = self.broker.log_text()[-6000:]
            raise Broken("\n".join([*self.ledger.problems, "the broker's log:", log]))
