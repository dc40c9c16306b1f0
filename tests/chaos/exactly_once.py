"""Consume, transform, produce in transactions, while broker and applications are killed: exactly one result each."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Sequence

from ottla.protocol.records import Record
from tests.chaos import load_java
from tests.chaos.crew import Crew
from tests.chaos.killing import PATIENCE_S, Broken, KillingOf
from tests.chaos.pipeline import INPUT, KINDS, PARTITIONS, PROCESSES, SESSION_MS, group_of, output_of
from tests.chaos.readback import Reader, unfinished_transactions
from tests.chaos.results import Results
from tests.chaos.watch import WATCHERS

CALM_EVERY = 10
"""After so many rounds every application must have got further before the next kill."""
PAUSE_S = {False: 0.03, True: 0.1}
"""Between two bursts of the feeder, where there is one broker, and where several processes share the cores."""
FROZEN_ROUNDS = 3
"""Rounds for which an application is frozen before it returns as a zombie."""
BOTH, BROKER, FREEZE = 0.15, 0.5, 0.1
"""Probabilities that broker and application are killed, the broker alone, and that an application is frozen."""


class ExactlyOnce:
    """Rounds of kill and restart, of the broker and of applications.

    Args:
        killing_of: makes the broker.
        say: is told how it goes.
        several: there are several nodes, and something happens to one or another in each round.
        loads: whose applications are there.
    """

    def __init__(
        self, killing_of: KillingOf, say: Callable[[str], None], *, several: bool, loads: Sequence[str] = KINDS
    ) -> None:
        self._say = say
        self.results = Results()
        reason = load_java.missing()
        if reason:
            say(f"without Java: {reason}")
        self._kinds = [kind for kind in KINDS if kind in loads and not (reason and kind == "java")]
        topics = dict.fromkeys([INPUT, *map(output_of, self._kinds)], PARTITIONS)
        settings = {"group.consumer.session.timeout.ms": SESSION_MS}
        self._killing = killing_of(account=self.results, settings=settings, topics=topics)
        self._always = several
        self._frozen: dict[str, int] = {}
        self._counts = {"broker": 0, "application": 0, "zombie": 0}

    def run(self, rounds: int) -> str:
        """Kill so many times, and give what was done in a few words.

        Raises:
            Broken: a result is shown twice, or though it was aborted, or not at all.
        """
        with self._killing.running(), Crew(self.results.take) as crew:
            self._start(crew, "feed", "tests.chaos.feed", "--pause-s", str(PAUSE_S[self._always]))
            shown = [word for kind in self._kinds for word in ("--topic", output_of(kind))]
            self._start(crew, "watch", "tests.chaos.watch", *shown)
            for kind in self._kinds:
                for number in range(PROCESSES):
                    self._start_application(crew, kind, number)
            self._everyone_goes_on(crew)
            for number in range(1, rounds + 1):
                began = time.monotonic()
                what = self._round(crew, number)
                self._thaw(crew, number)
                if number % CALM_EVERY == 0:
                    self._everyone_goes_on(crew)
                else:
                    self._some_go_on(crew, self._killing.chance.choice([1, len(self._kinds)]))
                    time.sleep(self._killing.chance.uniform(0, 0.8))
                self._say(f"round {number}, {what}: {time.monotonic() - began:.1f} s; {self.results.totals()}")
            self._thaw(crew, None)
            self._end(crew)
        return f"{self.results.totals()}; killed: {self._counts}"

    # the parts

    def _start(self, crew: Crew, name: str, module: str, *arguments: str) -> None:
        crew.add(name, module, "--bootstrap", self._killing.broker.bootstrap_servers, *arguments)

    def _start_application(self, crew: Crew, kind: str, number: int) -> None:
        """The first process of each kind is a static member: one that restarts takes its partitions over at once."""
        seed = str(self._killing.chance.randrange(10**9))
        static = ["--static"] if number == 0 else []
        self._start(crew, f"{kind}-{number}", f"tests.chaos.app_{kind}", "--seed", seed, *static)

    # a round

    def _round(self, crew: Crew, number: int) -> str:
        chance = self._killing.chance
        kind, which = chance.choice(self._kinds), chance.randrange(PROCESSES)
        name = f"{kind}-{which}"
        draw = chance.random()
        done = []
        kill_broker = draw < FREEZE + BROKER + BOTH
        kill_application = not kill_broker or draw < FREEZE + BOTH
        if draw < FREEZE and not self._frozen:
            done.append(self._freeze(crew, kind, name, number))
            kill_broker = kill_application = False
        if kill_application:
            done.append(f"{name} killed")
            crew.workers[name].kill()
            crew.drain()
            self._frozen.pop(name, None)
            self._counts["application"] += 1
        if kill_broker or self._always:
            done.append(self._killing.kill_and_restart())
            self._counts["broker"] += 1
        if kill_application:
            self._start_application(crew, kind, which)
        return " and ".join(done)

    def _freeze(self, crew: Crew, kind: str, name: str, number: int) -> str:
        """Let a process stand still, in the middle of a transaction as like as not: either until others have taken its
        partitions over, or for some rounds of what else may happen.
        """
        os.kill(crew.workers[name].process.pid, signal.SIGSTOP)
        self._counts["zombie"] += 1
        if self._killing.chance.random() < 0.5:
            self._frozen[name] = number + FROZEN_ROUNDS
            return f"{name} frozen"
        self._frozen[name] = number
        before = self.results.reached(output_of(kind))

        def taken_over() -> bool:
            now = self.results.reached(output_of(kind))
            return len(now) == PARTITIONS and all(now[one] > before.get(one, 0) for one in now)

        self._killing.wait(crew, taken_over, f"others to take over from {name}", self.results.totals)
        return f"{name} frozen and replaced"

    def _thaw(self, crew: Crew, number: int | None) -> None:
        for name, until in list(self._frozen.items()):
            if number is None or until <= number:
                del self._frozen[name]
                os.kill(crew.workers[name].process.pid, signal.SIGCONT)

    def _shown(self) -> dict[tuple[str, str], int]:
        return {key: sum(values.values()) for key, values in self.results.shown.items()}

    def _some_go_on(self, crew: Crew, kinds: int) -> None:
        """Wait until so many kinds of applications have results that some watcher has seen."""
        before = self._shown()

        def go_on() -> bool:
            now = self._shown()
            return (
                len({topic for watcher, topic in now if now[watcher, topic] > before.get((watcher, topic), 0)}) >= kinds
            )

        self._killing.wait(crew, go_on, f"results of {kinds} kinds", self.results.totals)

    def _everyone_goes_on(self, crew: Crew) -> None:
        before = self._shown()

        def all_go_on() -> bool:
            now = self._shown()
            return all(now.get(key, 0) > before.get(key, 0) for key in self._watched())

        self._killing.wait(crew, all_go_on, "results of all, with both watchers", self.results.totals)

    def _watched(self) -> list[tuple[str, str]]:
        return [(watcher, output_of(kind)) for watcher in WATCHERS for kind in self._kinds]

    # the end

    def _end(self, crew: Crew) -> None:
        feed = crew.workers.pop("feed")
        feed.finish()
        if not feed.wait(PATIENCE_S):
            raise Broken("the feeder does not end")
        crew.drain()
        self._killing.wait(
            crew,
            lambda: all(self.results.missing(*key) <= 0 for key in self._watched()),
            "a result of every input",
            lambda: f"{[(*key, self.results.missing(*key)) for key in self._watched()]}",
        )
        time.sleep(0.5)  # for what must not come any more
        if late := crew.finish(PATIENCE_S):
            raise Broken(f"{', '.join(late)}: not finished within {PATIENCE_S:.0f} s")
        self._killing.kill_and_restart()
        for key in self._watched():
            self.results.check_complete(*key)
        reader = self._killing.reader()
        self._nothing_hangs(reader)
        for kind in self._kinds:
            self.results.check_offsets(group_of(kind), reader.all_committed(group_of(kind)), INPUT)
            stored = [reader.read_log(output_of(kind), number)[0] for number in range(PARTITIONS)]
            self._hold_rows(output_of(kind), stored)
            ends = sum(reader.end(output_of(kind), number) for number in range(PARTITIONS))
            self._say(f"{output_of(kind)}: {sum(map(len, stored))} records stored, {ends} offsets")
        self._killing.raise_problems()

    def _hold_rows(self, topic: str, read: Sequence[Sequence[Record]]) -> None:
        """What was read is what is stored."""
        for (name, number), records in self._killing.stored().items():
            shown = [(one.offset, (one.value or b"").decode()) for one in read[number]] if name == topic else records
            if shown != records:
                self.results.problems.append(f"inconsistent offset: {topic}-{number} shows others than are stored")

    def _nothing_hangs(self, reader: Reader) -> None:
        """No transaction is left open, and committed readers come to the end of every partition."""

        def left() -> list[str]:
            places = [(output_of(kind), number) for kind in self._kinds for number in range(PARTITIONS)]
            behind = [
                (topic, number)
                for topic, number in places
                if reader.read_log(topic, number, level=1)[1] < reader.end(topic, number)
            ]
            return [*unfinished_transactions(reader), *(f"{place} is held up" for place in behind)]

        deadline = time.monotonic() + PATIENCE_S
        while (found := left()) and time.monotonic() < deadline:
            time.sleep(0.1)
        self.results.problems += found
