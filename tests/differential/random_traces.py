"""Random traces: a few clients that do anything, in any order, with good and bad ids. The seed is the trace's name."""

from __future__ import annotations

from calls import (
    MINE,
    OTHER,
    SUBSCRIBED,
    TOPIC,
    commit,
    commit_alone,
    delete,
    delete_offsets,
    describe,
    fetch,
    heartbeat,
    join,
    leave,
    listed,
    sync,
)
from random_transactions import transactions
from tracing import Trace

LISTS = (("range",), ("range",), ("range", "roundrobin"), ("roundrobin", "range"), ("roundrobin",), ("sticky",))


class Chaos:
    """What the clients of one trace do."""

    def __init__(self, t: Trace, clients: int) -> None:
        self.t = t
        self.r = t.random
        dynamic = self.r.randint(1, clients)
        self.instances: dict[str, str | None] = {f"d{n}": None for n in range(dynamic)}
        self.instances |= {f"s{n}": f"i{n}" for n in range(clients - dynamic)}
        self.names = list(self.instances)
        self.lists = {name: self.r.choice(LISTS[:3]) for name in self.names}
        self.metadata = dict.fromkeys(self.names, SUBSCRIBED)

    def instance(self, who: str) -> str | None:
        if self.r.random() < 0.08:
            return self.r.choice([None, "i0", "i1", "ix", ""])
        return self.instances[who]

    def member(self, who: str) -> str:
        draw = self.r.random()
        if draw < 0.85:
            return MINE
        if draw < 0.9:
            return "former"
        if draw < 0.94:
            return self.t.member.get(self.r.choice(self.names), "nobody")
        return self.r.choice(["nobody", ""])

    def generation(self, who: str) -> int | None:
        known = self.t.generation.get(who, 0)
        return None if self.r.random() < 0.88 else self.r.choice([-1, 0, known - 1, known + 1, 99])

    def join(self) -> None:
        who = self.r.choice(self.names)
        if self.r.random() < 0.1:
            self.lists[who] = self.r.choice(LISTS)
        if self.r.random() < 0.15:
            self.metadata[who] = self.r.choice([SUBSCRIBED, OTHER, b"", b"junk"])
        version = self.r.choice([0, 1, 2, 3, 4, 5, 6, 7, 7, 7, 8, 9, 9])
        if self.instances[who] is not None:
            version = max(version, 5)
        member = "" if self.r.random() < 0.12 else self.member(who)
        kind = "consumer" if self.r.random() < 0.97 else "connect"
        join(
            self.t,
            who,
            version,
            member=member,
            instance=self.instance(who) if version >= 5 else None,
            protocols=self.lists[who],
            metadata=self.metadata[who],
            protocol_type=kind,
        )

    def sync(self) -> None:
        who = self.r.choice(self.names)
        version = self.r.randrange(6)
        odd = self.r.random()
        sync(
            self.t,
            who,
            version,
            assign={name: f"{name}{self.r.randrange(9)}".encode() for name in self.names if self.r.random() < 0.9},
            member=self.member(who),
            instance=self.instance(who) if version >= 3 else None,
            generation=self.generation(who),
            protocol_type="consumer" if odd > 0.04 else self.r.choice([None, "connect"]),
            protocol_name=self.r.choice(["range", "roundrobin"]) if odd > 0.95 else self.chosen(who),
        )

    def chosen(self, who: str) -> str:
        return self.lists[who][0]

    def heartbeat(self) -> None:
        who = self.r.choice(self.names)
        version = self.r.randrange(5)
        instance = self.instance(who) if version >= 3 else None
        heartbeat(self.t, who, version, member=self.member(who), instance=instance, generation=self.generation(who))

    def leave(self) -> None:
        who = self.r.choice(self.names)
        version = self.r.randrange(6)
        entries = [(self.member(who), self.instance(who) if version >= 3 else None)]
        while version >= 3 and self.r.random() < 0.3:
            other = self.r.choice(self.names)
            entries.append((self.t.member.get(other, "") if self.r.random() < 0.8 else "", self.instance(other)))
        leave(self.t, who, version, *entries)

    def commit(self) -> None:
        if self.r.random() < 0.2:
            commit_alone(self.t, self.r.randint(2, 8))
            return
        who = self.r.choice(self.names)
        version = self.r.randint(2, 8)
        offsets = [
            (self.r.choice([TOPIC, TOPIC, TOPIC, "absent"]), self.r.randrange(4), self.r.randrange(1000))
            for _ in range(self.r.randint(1, 3))
        ]
        commit(
            self.t,
            who,
            version,
            offsets,
            member=self.member(who),
            instance=self.instance(who) if version >= 7 else None,
            generation=self.generation(who),
            metadata=self.r.choice([None, "", "m", "x" * 64, "x" * 65]),
            epoch=self.r.choice([-1, 0, 3]),
            retention=self.r.choice([-1, -1, 86_400_000]),
        )

    def look(self) -> None:
        t, r = self.t, self.r
        match r.randrange(4):
            case 0 | 1:
                describe(t, r.randrange(6))
            case 2:
                listed(t, r.randrange(5))
            case _:
                version = r.randint(1, 8)
                everything = version >= 2 and r.random() < 0.5
                fetch(t, version, stable=version >= 7 and r.random() < 0.5, everything=everything)

    def remove(self) -> None:
        if self.r.random() < 0.5:
            delete(self.t, self.r.randrange(3))
        else:
            delete_offsets(self.t, {self.r.choice([TOPIC, "absent"]): [self.r.randrange(4)], TOPIC: [0]})

    def run(self, steps: int) -> None:
        moves = [self.join] * 9 + [self.sync] * 7 + [self.heartbeat] * 3 + [self.leave] + [self.commit] * 3
        moves += [self.look] * 3 + [self.remove]
        for _ in range(steps):
            self.r.choice(moves)()
        self.t.settle()
        describe(self.t)
        fetch(self.t, everything=True)


def one(t: Trace) -> None:
    Chaos(t, 1).run(25)


def two(t: Trace) -> None:
    Chaos(t, 2).run(40)


def three(t: Trace) -> None:
    Chaos(t, 3).run(40)


KINDS = {"one": one, "two": two, "three": three, "transactions": transactions}
