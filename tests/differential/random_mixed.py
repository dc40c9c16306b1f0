"""Random traces of groups with members of both protocols, and of groups that are converted from one to the other.

There is one topic: where an answer names several, their order is that of their random ids. Everybody who asks for an
assignor asks for ``range``, so that the order of members is all that counts: a broker makes up the ids of classic
members, which begin with the name of the client.
"""

from __future__ import annotations

from random import Random
from typing import Any

from ottla.protocol.apis import ApiKey
from tests.differential.calls import MINE
from tests.differential.pairs import Move
from tests.differential.random_consumers import Crowd

LONG_MS = 300_000


class Mixed(Crowd):
    """What the clients of one trace do; some of them use the classic protocol.

    Args:
        is_classic: whether the group begins as one of the classic type.
    """

    def __init__(self, r: Random, *, is_classic: bool) -> None:
        self.is_classic = is_classic
        self.classic: dict[str, str | None] = {"k": None, "l": r.choice([None, "i0", "i1"])}
        if r.random() < 0.3:
            del self.classic["l"]
        self.lists = {name: r.choice([("range",), ("range",), ("range", "sticky")]) for name in self.classic}
        super().__init__(r, ["@t", "@none"], ["range"])

    def begin(self) -> None:
        if not self.is_classic or self.moves:
            super().begin()
            return
        for _ in range(self.r.choice([1, 2, 2])):
            for who in self.classic:
                self.join(who, honest=True)
        for who in [*self.classic, *list(self.classic)[:1]][: self.r.choice([0, 1, 3, 3])]:
            self.sync(who, honest=True)

    def classic_says(self, who: str, *, honest: bool) -> dict[str, Any]:
        draw = 1.0 if honest else self.r.random()
        # Who makes its id up is not told another one by a consumer group.
        own = MINE if self.is_classic or self.classic[who] else who
        found: dict[str, Any] = {"who": who, "instance": self.classic[who], "member": own}
        if draw < 0.04:
            found["member"] = "=" + self.r.choice([*self.classic, *self.names])
        elif draw < 0.07:
            found["instance"] = self.r.choice([None, "i0", "i1", "ix"])
        return found

    def join(self, who: str | None = None, *, honest: bool = False) -> None:
        r, who = self.r, who or self.r.choice(list(self.classic))
        odd = 1.0 if honest else r.random()
        fields = self.classic_says(who, honest=honest)
        if odd < 0.08 and self.classic[who]:
            fields["member"] = ""
        self.add(
            "classic_join",
            version=self.version(ApiKey.JOIN_GROUP, 5),
            topics=["@t"] if odd > 0.2 else r.choice([[], ["@t", "@none"], ["@none"]]),
            owns=r.random() < 0.6,
            form=r.choice([0, 1, 1, 2, 3, 3]),
            rack=None,
            protocols=self.lists[who] if odd > 0.05 else ("other",),
            protocol_type="consumer" if odd < 0.96 or honest else "connect",
            session=LONG_MS,
            rebalance=LONG_MS,
            **fields,
        )

    def sync(self, who: str | None = None, *, honest: bool = False) -> None:
        who = who or self.r.choice(list(self.classic))
        gives = {name: [("@t", 2 * number), ("@t", 2 * number + 1)] for number, name in enumerate(self.classic)}
        odd = 1.0 if honest else self.r.random()
        names = {"protocol_type": "consumer", "protocol_name": "range"}
        self.add("classic_sync", version=self.version(ApiKey.SYNC_GROUP, 5), gives=gives,
                 generation=self.epoch() if odd < 0.1 else None,
                 **(names if odd > 0.05 else {"protocol_type": None, "protocol_name": "other"}),
                 **self.classic_says(who, honest=honest))  # fmt: skip

    def heartbeat(self) -> None:
        who = self.r.choice(list(self.classic))
        generation = self.epoch() if self.r.random() < 0.2 else None
        says = self.classic_says(who, honest=False)
        self.add("heartbeat", version=self.version(ApiKey.HEARTBEAT, 3), generation=generation, **says)

    def go(self) -> None:
        who = self.r.choice(list(self.classic))
        entries = [self.r.choice([(MINE, None), ("", self.classic[who]), (MINE, self.classic[who])])]
        self.add("leave", who=who, version=self.version(ApiKey.LEAVE_GROUP, 3), entries=entries)

    def take_turns(self) -> None:
        super().take_turns()
        for who in self.classic:
            self.join(who, honest=True)
            self.sync(who, honest=True)

    def acts(self) -> list[Any]:
        found = [*super().acts(), *[self.join] * 7, *[self.sync] * 6, *[self.heartbeat] * 4, *[self.go] * 2]
        return [act for act in found if act != self.transaction]

    def change_topic(self) -> None:
        pass


def mixed(r: Random) -> list[Move]:
    """A group of the consumer protocol that classic members join."""
    return Mixed(r, is_classic=False).walk(r.choice([25, 40]))


def migrated(r: Random) -> list[Move]:
    """A classic group that members of the consumer protocol join."""
    return Mixed(r, is_classic=True).walk(r.choice([25, 40]))
