"""A broker that is killed again and again while stock clients use it, which live on through all of it."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from ottla.testing import BrokerProcess
from tests.chaos.crew import Crew
from tests.chaos.killing import PATIENCE_S, SETTINGS, Broken, Killing
from tests.chaos.ledger import Ledger, Place
from tests.chaos.load import COMES_AND_GOES, MIXED, PARTITIONS
from tests.chaos.readback import read_generations, read_offsets, read_on, read_topics

ONCE = ("confluent-once", "kafka-python-once", "aiokafka-once", "ottla-once", "raw-once")
OTHERS = ("confluent-acks-1", "kafka-python-acks-all", "aiokafka-acks-1", "ottla-acks-1")
TOPICS = (*ONCE, *OTHERS)
GROUPS = (MIXED, COMES_AND_GOES)
LOADS = {
    "confluent": "confluent",
    "kafka_python": "kafka_python",
    "aiokafka": "asyncio",
    "ottla": "asyncio",
    "raw": "raw",
}
"""Processes, and the modules that they run."""
CALM_EVERY = 10
"""After so many rounds every client must have got further before the next kill."""


class UnderLoad:
    """Rounds of kill and restart.

    Args:
        directory: the broker's data.
        seed: of the moments of the kills.
        say: is told how it goes.
    """

    def __init__(self, directory: Path, seed: int, say: Callable[[str], None]) -> None:
        self._say = say
        self.ledger = Ledger(TOPICS, ONCE)
        broker = BrokerProcess(directory, settings=SETTINGS, topics=dict.fromkeys(TOPICS, PARTITIONS))
        self._killing = Killing(broker, seed, self.ledger)

    def run(self, rounds: int) -> str:
        """Kill so many times, and give what was done in a few words.

        Raises:
            Broken: something acknowledged was lost, doubled or moved, or a client does not go on.
        """
        killing = self._killing
        with killing.broker as broker, Crew(self.ledger.take) as crew:
            wanted = [part for topic in TOPICS for part in ("--topic", topic)]
            for load, module in LOADS.items():
                crew.add(load, f"tests.chaos.load_{module}", "--bootstrap", broker.bootstrap_servers, *wanted)
            self._everyone_goes_on(crew)
            for number in range(1, rounds + 1):
                began = time.monotonic()
                before = dict(self.ledger.acked)
                killing.kill_and_restart()
                self._read(crew)
                if number % CALM_EVERY == 0:
                    self._everyone_goes_on(crew)
                else:
                    self._two_go_on(crew, before)
                    time.sleep(killing.chance.uniform(0, 0.8))
                self._say(f"round {number}: {time.monotonic() - began:.1f} s; {self.ledger.totals()}")
            self._everyone_goes_on(crew)
            self._end(crew)
        return self.ledger.totals()

    def _read(self, crew: Crew) -> None:
        """Hold what was promised by now against what is there."""
        crew.drain()
        with self._killing.reader() as client:
            read_offsets(client, self.ledger)
            read_topics(client, self.ledger)
            read_on(client, self.ledger)
        self._killing.check(crew)

    def _further(self, before: dict[str, int]) -> int:
        return sum(self.ledger.acked[topic] > count for topic, count in before.items())

    def _two_go_on(self, crew: Crew, before: dict[str, int]) -> None:
        self._killing.wait(crew, lambda: self._further(before) >= 2, "two producers to go on", self.ledger.totals)

    def _everyone_goes_on(self, crew: Crew) -> None:
        before = dict(self.ledger.acked)
        self._killing.wait(
            crew,
            lambda: self._further(before) == len(before),
            "every producer to go on",
            lambda: f"{self.ledger.acked} after {before}",
        )
        commits = self.ledger.committed()

        def stuck() -> list[tuple[str, Place]]:
            now = self.ledger.committed()
            return [
                (group, place)
                for group in GROUPS
                for place in self.ledger.stored
                if now.get(group, {}).get(place, 0) <= commits.get(group, {}).get(place, 0)
            ]

        self._killing.wait(crew, lambda: not stuck(), "every group to get further everywhere", stuck)

    def _end(self, crew: Crew) -> None:
        """Let everyone finish, kill once more, and read everything."""
        if late := crew.finish(PATIENCE_S):
            raise Broken(f"{', '.join(late)}: not finished within {PATIENCE_S:.0f} s")
        self._killing.kill_and_restart()
        with self._killing.reader() as client:
            read_on(client, self.ledger, again=True)
            read_offsets(client, self.ledger, final=True)
            read_topics(client, self.ledger)
            read_generations(client, self.ledger)
        self.ledger.check_seen()
        if missing := set(LOADS) - self.ledger.ended:
            self.ledger.problems.append(f"{', '.join(missing)} did not end well")
        self._killing.raise_problems()
