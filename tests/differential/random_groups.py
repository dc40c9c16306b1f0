"""Random traces of groups: a few clients that do anything, in any order, with good and bad ids."""

from __future__ import annotations

from functools import partial
from random import Random
from typing import Any

from ottla.protocol.apis import ApiKey
from tests.differential.calls import MINE, OTHER, SUBSCRIBED, TOPIC
from tests.differential.moves import some_version
from tests.differential.pairs import Move, move

LISTS = (("range",), ("range",), ("range", "roundrobin"), ("roundrobin", "range"), ("roundrobin",), ("sticky",))
LONG_MS, SHORT_MS = 300_000, 1_500


class Chaos:
    """What the clients of one trace do."""

    def __init__(self, r: Random, clients: int, session_ms: int = LONG_MS) -> None:
        self.r = r
        self.session_ms = session_ms
        self.moves: list[Move] = []
        dynamic = r.randint(1, clients)
        self.instances: dict[str, str | None] = {f"d{n}": None for n in range(dynamic)}
        self.instances |= {f"s{n}": f"i{n}" for n in range(clients - dynamic)}
        self.names = list(self.instances)
        self.lists = {name: r.choice(LISTS[:3]) for name in self.names}
        self.metadata = dict.fromkeys(self.names, SUBSCRIBED)
        # A group of which all that there is was refused is a row of docs/differences.md.
        self.exists = r.random() < 0.5
        if self.exists:
            self.add("commit_alone", version=8)

    def add(self, name: str, /, **fields: Any) -> None:
        self.moves.append(move(name, **fields))

    def version(self, key: ApiKey, least: int = 0) -> int:
        return some_version(self.r, key, least)

    def instance(self, who: str) -> str | None:
        if self.r.random() < 0.08:
            return self.r.choice([None, "i0", "i1", "ix", ""])
        return self.instances[who]

    def member(self) -> str:
        draw = self.r.random()
        if draw < 0.85:
            return MINE
        if draw < 0.9:
            return "former"
        if draw < 0.94:
            return "=" + self.r.choice(self.names)
        return self.r.choice(["nobody", ""])

    def generation(self) -> int | str | None:
        return None if self.r.random() < 0.88 else self.r.choice([-1, 0, "-1", "+1", 99])

    def says(self, who: str, version: int, instances_from: int) -> dict[str, Any]:
        """Who asks, and what it says of itself in a version of an API that may name instances from another one on."""
        return {
            "who": who,
            "version": version,
            "member": self.member(),
            "instance": self.instance(who) if version >= instances_from else None,
            "generation": self.generation(),
        }

    def join(self) -> None:
        who = self.r.choice(self.names)
        if self.r.random() < 0.1:
            self.lists[who] = self.r.choice(LISTS)
        if self.r.random() < 0.15:
            self.metadata[who] = self.r.choice([SUBSCRIBED, OTHER, b"", b"junk"])
        version = self.version(ApiKey.JOIN_GROUP, 0 if self.instances[who] is None else 5)
        self.add(
            "join",
            who=who,
            version=version,
            member="" if self.r.random() < 0.12 else self.member(),
            instance=self.instance(who) if version >= 5 else None,
            protocols=self.lists[who],
            metadata=self.metadata[who],
            protocol_type="consumer" if self.r.random() < 0.97 else "connect",
            session=self.session_ms,
        )

    def sync(self) -> None:
        who = self.r.choice(self.names)
        version = self.version(ApiKey.SYNC_GROUP)
        odd = self.r.random()
        self.add(
            "sync",
            assign={name: f"{name}{self.r.randrange(9)}".encode() for name in self.names if self.r.random() < 0.9},
            **self.says(who, version, 3),
            protocol_type="consumer" if odd > 0.04 else self.r.choice([None, "connect"]),
            protocol_name=self.r.choice(["range", "roundrobin"]) if odd > 0.95 else self.lists[who][0],
        )

    def heartbeat(self) -> None:
        self.add("heartbeat", **self.says(self.r.choice(self.names), self.version(ApiKey.HEARTBEAT), 3))

    def leave(self) -> None:
        who = self.r.choice(self.names)
        version = self.version(ApiKey.LEAVE_GROUP)
        entries = [(self.member(), self.instance(who) if version >= 3 else None)]
        while version >= 3 and self.r.random() < 0.3:
            other = self.r.choice(self.names)
            entries.append(("=" + other if self.r.random() < 0.8 else "", self.instance(other)))
        self.add("leave", who=who, version=version, entries=entries)

    def commit(self) -> None:
        version = self.version(ApiKey.OFFSET_COMMIT)
        if self.r.random() < 0.2:
            self.add("commit_alone", version=version)
            return
        who = self.r.choice(self.names)
        offsets = [
            (self.r.choice([TOPIC, TOPIC, TOPIC, "absent"]), self.r.randrange(4), self.r.randrange(1000))
            for _ in range(self.r.randint(1, 3))
        ]
        self.add(
            "commit",
            **self.says(who, version, 7),
            offsets=offsets,
            metadata=self.r.choice([None, "", "m", "x" * 64, "x" * (65 if self.exists else 64)]),
            epoch=self.r.choice([-1, 0, 3]),
            retention=self.r.choice([-1, -1, 86_400_000]),
        )

    def look(self) -> None:
        match self.r.randrange(4):
            case 0 | 1:
                self.add("describe", version=self.version(ApiKey.DESCRIBE_GROUPS))
            case 2:
                version = self.version(ApiKey.LIST_GROUPS)
                states = self.r.choice([[], [], ["Stable"], ["empty", "x"], ["PreparingRebalance", "Dead"]])
                types = self.r.choice([[], [], ["classic"], ["Consumer"], ["x"]])
                self.add("listed", version=version, states=states, types=types)
            case _:
                self.fetch()

    def fetch(self) -> None:
        version = self.version(ApiKey.OFFSET_FETCH)
        self.add(
            "offsets",
            version=version,
            wanted=self.r.choice([None, {TOPIC: [0, 3]}, {TOPIC: [1], "absent": [0]}, {TOPIC: []}, {}]),
            stable=version >= 7 and self.r.random() < 0.5,
            everything=version >= 2 and self.r.random() < 0.5,
            member=self.r.choice([None, None, "", "=" + self.r.choice(self.names), "nobody"]),
            epoch=self.r.choice([-1, -1, 0, 1, 99]),
        )

    def remove(self) -> None:
        if not self.exists and self.r.random() < 0.5:
            self.add("delete", version=self.version(ApiKey.DELETE_GROUPS))
        else:
            self.add("delete_offsets", wanted={self.r.choice([TOPIC, "absent"]): [self.r.randrange(4)], TOPIC: [0]})

    def walk(self, steps: int) -> None:
        acts = [self.join] * 9 + [self.sync] * 7 + [self.heartbeat] * 3 + [self.leave] + [self.commit] * 3
        acts += [self.look] * 3 + [self.remove]
        for _ in range(steps):
            self.r.choice(acts)()

    def end(self) -> list[Move]:
        self.add("describe", version=5)
        self.add("offsets", version=8, everything=True)
        return self.moves


def wild(clients: int, steps: int, r: Random) -> list[Move]:
    chaos = Chaos(r, clients)
    chaos.walk(steps)
    return chaos.end()


def timed(r: Random) -> list[Move]:
    """Short sessions: a few quick steps, and then everybody is silent for longer than a session."""
    chaos = Chaos(r, r.randint(1, 3), SHORT_MS)
    for _ in range(2):
        for name in chaos.names:
            if r.random() < 0.7:
                _enter(chaos, name)
        chaos.walk(r.randint(1, 6))
        chaos.add("nap", seconds=SHORT_MS / 1000 + 0.7)
        chaos.add("describe", version=5)
    return chaos.end()


def formed(r: Random) -> list[Move]:
    """A group whose members join and sync as they should, and what then befalls it."""
    chaos = Chaos(r, r.randint(1, 3))
    for name in chaos.names:
        _enter(chaos, name)
    for _ in range(2):
        for name in chaos.names:
            chaos.add("join", who=name, version=7, instance=chaos.instances[name], protocols=chaos.lists[name],
                      session=LONG_MS)  # fmt: skip
    assign = {name: name.encode() for name in chaos.names}
    for name in (*chaos.names, chaos.names[0]):
        chaos.add("sync", who=name, version=5, assign=assign, instance=chaos.instances[name],
                  protocol_name=None, protocol_type=None)  # fmt: skip
    chaos.walk(18)
    return chaos.end()


def _enter(chaos: Chaos, name: str) -> None:
    instance, lists, session = chaos.instances[name], chaos.lists[name], chaos.session_ms
    for member in ("", MINE) if instance is None else ("",):
        chaos.add("join", who=name, version=7, member=member, instance=instance, protocols=lists, session=session)


one, two, three = partial(wild, 1, 25), partial(wild, 2, 35), partial(wild, 3, 40)
