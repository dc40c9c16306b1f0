"""Brokers that are killed again and again while stock clients use them, which live on through all of it."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from tests.chaos import load_java
from tests.chaos.crew import Crew
from tests.chaos.killing import PATIENCE_S, Broken, KillingOf
from tests.chaos.ledger import Ledger, Place
from tests.chaos.load import COMES_AND_GOES, MIXED, PARTITIONS, STEADY, STEADY_MEMBERS, STEADY_SESSION_MS, steady
from tests.chaos.readback import read_generations, read_offsets, read_on, read_topics

OTHERS = ("confluent-acks-1", "kafka-python-acks-all", "aiokafka-acks-1", "ottla-acks-1")
LOADS = {
    "confluent": "confluent",
    "kafka-python": "kafka_python",
    "aiokafka": "asyncio",
    "ottla": "asyncio",
    "java": "java",
    "raw": "raw",
}
"""Processes, and the modules that they run. The first topic of each is named for it."""
CALM_EVERY = 10
"""After so many kills of the one broker every client must have got further before the next one."""
SETTINGS = {"group.consumer.session.timeout.ms": STEADY_SESSION_MS}


class UnderLoad:
    """Rounds of kill and restart.

    Args:
        killing_of: makes the brokers.
        say: is told how it goes.
        several: there are several nodes, and something happens to one or another in each round.
        loads: who is there.
        unordered: topics of producers that do not keep the order of their records.
    """

    def __init__(
        self,
        killing_of: KillingOf,
        say: Callable[[str], None],
        *,
        several: bool,
        loads: Sequence[str] = tuple(LOADS),
        unordered: Sequence[str] = (),
    ) -> None:
        self._say = say
        left_out = {"raw"} if several else set()  # it knows one broker
        if reason := load_java.missing():
            say(f"without Java: {reason}")
            left_out.add("java")
        self._loads = {load: module for load, module in LOADS.items() if load in loads and load not in left_out}
        once = [f"{load}-once" for load in self._loads]
        self._topics = [*once, *(topic for topic in OTHERS if topic.rpartition("-acks-")[0] in loads)]
        self._readers = dict.fromkeys((MIXED, COMES_AND_GOES), self._topics) | dict.fromkeys(STEADY, steady(once))
        self._steady_members = [one for one in STEADY_MEMBERS if one in self._loads]
        self._calm_every = 1 if several else CALM_EVERY
        self._pace = ["--pause-s", "0.2"] if several else []  # more processes share the cores, and all read everything
        self.ledger = Ledger(self._topics, once, unordered)
        topics = dict.fromkeys(self._topics, PARTITIONS)
        self._killing = killing_of(account=self.ledger, settings=SETTINGS, topics=topics)

    def run(self, rounds: int) -> str:
        """Kill so many times, and give what was done in a few words.

        Raises:
            Broken: something acknowledged was lost, doubled or moved, or a client does not go on.
        """
        killing = self._killing
        with killing.running() as broker, Crew(self.ledger.take) as crew:
            wanted = [part for topic in self._topics for part in ("--topic", topic)] + self._pace
            for load, module in self._loads.items():
                crew.add(load, f"tests.chaos.load_{module}", "--bootstrap", broker.bootstrap_servers, *wanted)
            self._settle(crew)
            for number in range(1, rounds + 1):
                began = time.monotonic()
                before = dict(self.ledger.acked)
                what = killing.kill_and_restart()
                self._read(crew)
                if number % self._calm_every == 0:
                    self._everyone_goes_on(crew)
                else:
                    self._two_go_on(crew, before)
                    time.sleep(killing.chance.uniform(0, 0.8))
                self._say(f"round {number}, {what}: {time.monotonic() - began:.1f} s; {self.ledger.totals()}")
            self._everyone_goes_on(crew)
            self._end(crew)
        return self.ledger.totals()

    def _settle(self, crew: Crew) -> None:
        """Wait until all who stay are in their groups."""

        def settled() -> bool:
            return all(self.ledger.is_one(group, self._steady_members) for group in STEADY)

        self._killing.wait(crew, settled, "all to be in their groups", self.ledger.totals)
        self._everyone_goes_on(crew)
        for group in STEADY:
            self.ledger.settle(group)

    def _read(self, crew: Crew) -> None:
        """Hold what was promised by now against what is there."""
        crew.drain()
        reader = self._killing.reader()
        read_offsets(reader, self.ledger)
        read_topics(reader, self.ledger)
        read_on(reader, self.ledger)
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
                for group, topics in self._readers.items()
                for place in self.ledger.stored
                if place[0] in topics and now.get(group, {}).get(place, 0) <= commits.get(group, {}).get(place, 0)
            ]

        self._killing.wait(crew, lambda: not stuck(), "every group to get further everywhere", stuck)

    def _all_seen(self, crew: Crew) -> None:
        """Wait until nothing is written any more, and every group has seen all of it."""

        def unseen() -> dict[str, dict[Place, list[int]]]:
            stored = list(map(len, self.ledger.stored.values()))
            self._read(crew)
            left = {group: self.ledger.unseen(group, topics) for group, topics in self._readers.items()}
            if stored != list(map(len, self.ledger.stored.values())):
                return left | {"written meanwhile": {}}
            return {group: places for group, places in left.items() if places}

        self._killing.wait(crew, lambda: not unseen(), "everything to be seen", unseen)

    def _end(self, crew: Crew) -> None:
        """Let everyone see everything and finish, kill once more, and read all of it."""
        crew.write_no_more()
        self._all_seen(crew)
        crew.drain()
        self.ledger.unsettle()
        if late := crew.finish(PATIENCE_S):
            raise Broken(f"{', '.join(late)}: not finished within {PATIENCE_S:.0f} s")
        self._killing.kill_and_restart()
        reader = self._killing.reader()
        read_on(reader, self.ledger, again=True)
        for place, records in self._killing.stored().items():
            if place in self.ledger.stored:
                self.ledger.read(place, 0, records)
        read_offsets(reader, self.ledger, final=True)
        read_topics(reader, self.ledger)
        read_generations(reader, self.ledger)
        self.ledger.check_seen()
        for group, topics in self._readers.items():
            self.ledger.check_unseen(group, topics)
        if missing := set(self._loads) - self.ledger.ended:
            self.ledger.problems.append(f"{', '.join(missing)} did not end well")
        self._killing.raise_problems()
