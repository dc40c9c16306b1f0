"""Random traces of consumer groups (KIP-848): members that heartbeat rightly and wrongly, while topics come and go.

What a broker may decide freely must not show: which partitions of several topics a member gets from the assignor
``uniform`` depends on the ids of topics, which are random. So where several topics are subscribed to, everybody asks
for ``range``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Any

from ottla.protocol.apis import ApiKey
from tests.differential.consumer_calls import IS_AWAY, LEAVES, says
from tests.differential.moves import some_version
from tests.differential.pairs import Move, move

# Names whose order in Java's hash maps differs.
NAMES = (
    ("a", "b", "c", "d"),
    ("member-3", "member-1", "member-5", "member-2"),
    ("9sNhRQ2jQHyCH0JcU1PBxA", "JOZvZnkkTSuFPA8Qm7cvQA", "qWcVHqLwTuiSn4nVQYB3jQ", "A_kBUhqkQ2GmYw3s0o2f_g"),
    ("AaAa", "BBBB", "AaBB", "BBAa"),  # all with one hash
)
NOBODY = "nobody"
GROUP = 32
SETTINGS: tuple[tuple[str, int, str | None], ...] = (
    ("consumer.heartbeat.interval.ms", 0, "6000"),
    ("consumer.heartbeat.interval.ms", 0, "499"),
    ("consumer.session.timeout.ms", 0, "50000"),
    ("consumer.session.timeout.ms", 0, "4000"),
    ("consumer.assignment.interval.ms", 0, "15000"),
    ("consumer.assignment.interval.ms", 0, "0"),
    ("consumer.assignment.interval.ms", 1, None),
)


class Crowd:
    """What the clients of one trace do.

    Args:
        topics: that may be subscribed to, whether they are there or not.
        assignors: that members ask for; None where they ask for none.
        regexes: that members subscribe with, besides names.
    """

    def __init__(
        self, r: Random, topics: Sequence[str], assignors: Sequence[str | None], regexes: Sequence[str] = ()
    ) -> None:
        self.r = r
        self.topics, self.assignors, self.regexes = topics, assignors, regexes
        self.moves: list[Move] = []
        self.names = list(r.choice(NAMES)[: r.randint(1, 4)])
        self.instances = {name: r.choice([None, None, None, "i0", "i1"]) for name in self.names}
        self.joins = {name: self.subscription() for name in self.names}
        self.begin()

    def add(self, name: str, /, **fields: Any) -> None:
        self.moves.append(move(name, **fields))

    def version(self, key: ApiKey, least: int = 0) -> int:
        return some_version(self.r, key, least)

    def topic_names(self) -> list[str]:
        return self.r.sample(self.topics, self.r.choice([0, *[1] * 4, *range(1, len(self.topics) + 1)]))

    def subscription(self) -> dict[str, Any]:
        """What a member says that joins."""
        r = self.r
        more = {"server_assignor": r.choice(self.assignors), "rack_id": r.choice([None, None, None, "r1", ""])}
        if r.random() < 0.8:
            more["rack_id"] = None
        if not self.regexes or r.random() < 0.25:
            return says(self.topic_names(), **more)
        return says(r.choice([None, [], self.topic_names()]), subscribed_topic_regex=r.choice(self.regexes), **more)

    def begin(self) -> None:
        """A member without an instance id joins: then there is a group of this type."""
        who = f"first{len(self.moves)}"
        self.add("beat", who=who, version=1, joins=says(["@t"], server_assignor=self.assignors[-1]))
        if self.r.random() < 0.7:
            self.add("beat", who=who, epoch=LEAVES)

    # Heartbeats

    def of(self, who: str) -> dict[str, Any]:
        """Who a member says it is: mostly itself."""
        draw, instance = self.r.random(), self.instances[who]
        found: dict[str, Any] = {"who": who, "instance": instance}
        if draw < 0.03:
            found["member"] = self.r.choice([NOBODY, "", " "])
        elif draw < 0.07:
            found["member"] = "=" + self.r.choice(self.names)
        elif draw < 0.12:
            found["instance"] = self.r.choice([None, "i0", "i1", "ix", ""])
        return found

    def beat(self) -> None:
        who, r = self.r.choice(self.names), self.r
        fields: dict[str, Any] = {"joins": self.joins[who], "version": 1 if self.regexes or r.random() < 0.8 else 0}
        fields["owned"] = r.choice([None, None, None, "mine", "mine", "mine", "mine", "none", "less", "more", "before"])
        draw = r.random()
        if draw < 0.06:
            fields["epoch"] = r.choice(["+1", "-1", "-1", "-1", 99, -3, 0])
        elif draw < 0.12:
            fields |= self.joins[who] | {"epoch": 0, "owned": "none"}
        elif draw < 0.22:
            fields |= self.joins[who] | {"owned": "mine"}
        elif draw < 0.34:
            self.joins[who] = self.subscription()
            fields |= {key: value for key, value in self.joins[who].items() if key != "rebalance_timeout_ms"}
        elif draw < 0.38:
            fields |= r.choice(
                [{"server_assignor": "foo"}, {"server_assignor": ""}, {"rack_id": "r2"},
                 {"rebalance_timeout_ms": 60_000}, {"subscribed_topic_names": []}, {"group": ""},
                 {"group": "@absent", "epoch": 3}]
            )  # fmt: skip
        whom = self.of(who)
        if "member" in whom:
            fields["version"] = 1  # in version 0 the broker makes an id up, whose order in hash maps is not known
        self.add("beat", **whom, **fields)

    def leave(self) -> None:
        who = self.r.choice(self.names)
        self.add("beat", **self.of(who), epoch=self.r.choice([LEAVES, IS_AWAY] if self.instances[who] else [LEAVES]))

    def take_turns(self) -> None:
        """Everybody does what it should, until the group is stable or nearly so."""
        for _ in range(self.r.randint(1, 3)):
            for who in self.names:
                self.add("beat", who=who, instance=self.instances[who], joins=self.joins[who], owned="mine")

    # Administration

    def look(self) -> None:
        r = self.r
        match r.randrange(5):
            case 0 | 1 | 2:
                groups = r.choice([["@"], ["@"], ["@"], ["@", "@"], ["@absent", "@"], [""]])
                version = self.version(ApiKey.CONSUMER_GROUP_DESCRIBE)
                self.add("describe_consumers", groups=groups, version=version, operations=r.random() < 0.2)
            case 3:
                self.add("describe", version=self.version(ApiKey.DESCRIBE_GROUPS))
            case _:
                states = r.choice([[], [], ["Stable"], ["reconciling", "x"], ["Empty", "Assigning", "Dead"]])
                types = r.choice([[], ["consumer"], ["Consumer", "x"], ["classic"]])
                self.add("listed", version=self.version(ApiKey.LIST_GROUPS), states=states, types=types)

    def expel(self) -> None:
        version, r = self.version(ApiKey.LEAVE_GROUP), self.r
        entries = [(r.choice(["=" + r.choice(self.names), "", NOBODY]), None)]
        while version >= 3 and r.random() < 0.4:
            entries.append((r.choice(["", "=" + r.choice(self.names)]), r.choice([None, "i0", "i1"])))
        self.add("leave", who="admin", version=version, entries=entries)

    def remove(self) -> None:
        self.add("delete", version=self.version(ApiKey.DELETE_GROUPS))
        self.begin()

    # Offsets

    def commit(self) -> None:
        r, who = self.r, self.r.choice(self.names)
        offsets = [
            (r.choice([*self.topics[:2], "@absent"]), r.randrange(4), r.randrange(99)) for _ in range(r.randint(1, 2))
        ]
        says_who = self.of(who)
        least = 9 if r.random() < 0.8 else 5
        fields = {"member": "", "generation": -1} if r.random() < 0.15 else {"generation": self.epoch()}
        self.add("commit", offsets=offsets, metadata=r.choice([None, "", "m", "x" * 64]),
                 version=self.version(ApiKey.OFFSET_COMMIT, least), **says_who | fields)  # fmt: skip

    def epoch(self) -> int | str | None:
        return None if self.r.random() < 0.7 else self.r.choice(["+1", "-1", "-1", "-2", -1, 0])

    def fetch(self) -> None:
        r = self.r
        version, who = self.version(ApiKey.OFFSET_FETCH, 7), r.choice(self.names)
        self.add(
            "offsets",
            version=version,
            wanted=r.choice([{topic: [0, 1, 3] for topic in self.topics[:2]}, {"@absent": [0]}]),
            everything=r.random() < 0.4,
            stable=r.random() < 0.4,
            member=r.choice([None, "=" + who, "=" + who, NOBODY, ""]),
            epoch=r.choice([-1, "+0", "+0", "+0", "-1", "+1"]),
        )

    def transaction(self) -> None:
        r, who = self.r, self.r.choice(self.names)
        self.add("init", name="@a", version=4)
        producer = ("@a", 1, 0)
        self.add("add_offsets", name="@a", who=producer, version=3)
        of = {"member": "", "epoch": -1} if r.random() < 0.2 else {"member": "mine", "epoch": self.epoch()}
        instance = r.choice([None, self.instances[who]])
        for _ in range(r.randint(1, 2)):
            self.add("commit_offsets_of", name="@a", who=producer, topic=self.topics[0], partition=r.randrange(3),
                     offset=r.randrange(99), version=r.randint(3, 4), of=who, instance=instance, **of)  # fmt: skip
        for act in r.sample([self.fetch, self.beat, self.delete_offsets, self.commit], 2):
            act()
        self.add("end", name="@a", who=producer, version=4, commit=r.random() < 0.6)

    def delete_offsets(self) -> None:
        self.add("delete_offsets", wanted={topic: [0, 1] for topic in ("@absent", *self.topics[:2])})

    # The world around

    def change_topic(self) -> None:
        r, name = self.r, self.r.choice(self.topics)
        match r.randrange(5):
            case 0 | 1:
                counts = [(name, r.choice([4, 5, 6, 17]))]
                self.add("grow", counts=counts, version=3, only_check=False)
            case 2:
                self.add("delete_topics", names=[name], version=6, by_id=False)
            case _:
                self.add("create", rows=[(name, r.choice([1, 2, 3]), 1, {})], version=6, only_check=False)

    def set(self) -> None:
        changes = [self.r.choice(SETTINGS)]
        self.add("alter", name="@", changes=changes, kind=GROUP, version=1, only_check=False)

    def acts(self) -> list[Callable[[], None]]:
        """What may happen next, as often as it is likely."""
        acts = [self.beat] * 18 + [self.leave] * 2 + [self.take_turns] * 3 + [self.look] * 3 + [self.commit] * 3
        acts += [self.fetch] * 2 + [self.change_topic] * 2 + [self.expel, self.remove, self.set, self.delete_offsets]
        if not self.regexes:
            acts.append(self.transaction)
        return acts

    def walk(self, steps: int) -> list[Move]:
        acts = self.acts()
        while len(self.moves) < steps:
            self.r.choice(acts)()
        self.add("describe_consumers", groups=["@"], version=1)
        self.add("offsets", version=8, everything=True)
        return self.moves


def uniform(r: Random) -> list[Move]:
    """One topic, and names of topics that are not there."""
    return Crowd(r, ["@t"], r.choice([["uniform"], [None, "uniform"], [None, "range", "uniform"]])).walk(
        r.choice([25, 40, 60])
    )


def ranges(r: Random) -> list[Move]:
    """Several topics, by name."""
    return Crowd(r, ["@t", "@u", "@v"], ["range"]).walk(r.choice([25, 40, 60]))


def regexes(r: Random) -> list[Move]:
    """Several topics, by regex or by name."""
    patterns = ["@t", "@[tu]", "@[tu]", "@.*", "@(?i)T|@", "@[", "@(?=a)", "@t+", "@z.*", ""]
    return Crowd(r, ["@t", "@u", "@v"], ["range"], patterns).walk(r.choice([25, 40]))
