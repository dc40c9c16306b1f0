"""Seeded traces of transactional producers that do anything, rightly or wrongly."""

from __future__ import annotations

from log_calls import made, produce
from tracing import Trace
from txn_calls import (
    NOBODY,
    Producer,
    add,
    add_offsets,
    batches,
    commit_offsets,
    describe,
    end,
    init,
    note_transactions,
    rest,
    served,
    transactional,
)

STEPS = 60


class Walk:
    """One trace: what each transactional id was told last, and whoever it was before."""

    def __init__(self, t: Trace) -> None:
        self.t = t
        self.topic = made(t, count=2)
        served(t, self.topic, 1)
        self.names = [f"{t.name}-{letter}" for letter in "ab"[: t.random.choice([1, 1, 2])]]
        self.known: dict[str, list[Producer]] = {name: [] for name in self.names}
        self.sequences: dict[tuple[Producer, int], int] = {}

    def who(self, name: str) -> Producer:
        """Mostly whoever it is now; at times a former one, or one that never was."""
        known, choose = self.known[name], self.t.random
        if not known or choose.random() < 0.02:
            return NOBODY
        if choose.random() < 0.8:
            return known[-1]
        found = choose.choice(known[-4:])
        return found.at(max(found.epoch + choose.choice([-1, 0, 0, 1, 2]), 0))

    def step(self) -> None:
        t, choose = self.t, self.t.random
        name = choose.choice(self.names)
        who = self.who(name)
        partitions = {self.topic: choose.sample([0, 1], choose.randint(1, 2))}
        action = choose.choices(
            ["init", "go on", "add", "verify", "offsets", "commit", "produce", "end", "end v2", "describe"],
            [6, 4, 12, 3, 4, 6, 14, 14, 14, 2],
        )[0]
        match action:
            case "init":
                self.told(name, init(t, choose.randint(0, 5), name=name))
            case "go on":
                self.told(name, init(t, choose.randint(3, 5), name=name, expected=who))
            case "add":
                add(t, who, partitions, choose.randint(0, 5), name=name)
            case "verify":
                add(t, who, partitions, choose.randint(4, 5), name=name, verify=True)
            case "offsets":
                add_offsets(t, who, choose.randint(0, 4), name=name)
            case "commit":
                commit_offsets(t, who, self.topic, len(t.transcript), choose.randint(0, 5), name=name)
            case "produce":
                self.produce(name, who)
            case "describe":
                describe(t, name)
            case _:
                after = end(t, who, 5 if action == "end v2" else choose.randint(0, 4), name=name,
                            commit=choose.random() < 0.6)  # fmt: skip
                self.told(name, after)
        rest(t, name)

    def produce(self, name: str, who: Producer) -> None:
        if who == NOBODY:
            return
        partition = self.t.random.randrange(2)
        sequence = self.sequences.get((who, partition), 0)
        version = self.t.random.choice([9, 11, 12, 12])
        answer = produce(self.t, self.topic, transactional(who, sequence), version=version, partition=partition,
                         transactional_id=name)  # fmt: skip
        if not answer.responses[0].partition_responses[0].error_code:
            self.sequences[who, partition] = sequence + 1

    def told(self, name: str, who: Producer) -> None:
        if who.id >= 0:
            self.known[name].append(who)


def transactions(t: Trace) -> None:
    walk = Walk(t)
    for number in range(STEPS):
        walk.step()
        if number % 15 == 14:
            for partition in (0, 1):
                for isolation in (0, 1):
                    batches(t, walk.topic, partition=partition, isolation=isolation)
    for name in walk.names:
        describe(t, name)
    note_transactions(t)
