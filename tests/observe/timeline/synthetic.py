"""Episodes of groups that never were, small ones told step by step and big ones drawn from a seed."""

from __future__ import annotations

import random

from ottla.broker.core.events import OffsetsCommitted
from ottla.observe.snapshot import GroupState, MemberState
from ottla.observe.timeline.traffic import Traffic
from ottla.observe.why.model import Advice, Episode, MemberPart, Move, Trigger, Wait

T0 = 1_767_225_600_000  # the first of January 2026


def part(name: str, **fields: object) -> MemberPart:
    """A member called ``name`` with the fields that matter."""
    given = {"member_id": f"{name}-id", "client_id": name, "client_host": "10.0.0.1", **fields}
    return MemberPart(**given)  # type: ignore[arg-type]


def rebalance(number: int, at: int, took: int, members: list[MemberPart], **fields: object) -> Episode:
    """A rebalance at ``at`` ms after T0, with one join barrier of half its time and a sync barrier of the other."""
    half = took // 2
    given: dict[str, object] = {
        "number": number,
        "kind": "rebalance",
        "group_id": "billing",
        "started_ms": T0 + at,
        "duration_ms": took,
        "generation_before": number - 1,
        "generation_after": number,
        "outcome": "stable",
        "waits": [Wait("join", 0, half, 60_000), Wait("sync", half, took, 60_000)],
        "members": members,
    }
    return Episode(**{**given, **fields})  # type: ignore[arg-type]


def state(group_id: str = "billing", members: list[MemberState] | None = None, **fields: object) -> GroupState:
    """A Stable group."""
    given: dict[str, object] = {
        "group_id": group_id,
        "partition": 7,
        "state": "Stable",
        "generation": 3,
        "protocol_type": "consumer",
        "protocol_name": "range",
        "state_since_ms": T0 + 1_000,
        "members": members or [],
        "pending_members": [],
        "barrier": "",
        "barrier_age_ms": 0,
        "awaited": [],
    }
    return GroupState(**{**given, **fields})  # type: ignore[arg-type]


def member(name: str, partitions: int = 1, heard_ms: int = 500, **fields: object) -> MemberState:
    """A member of a group that is there now."""
    given: dict[str, object] = {
        "member_id": f"{name}-id",
        "group_instance_id": None,
        "client_id": name,
        "client_host": "10.0.0.1",
        "is_leader": False,
        "session_timeout_ms": 45_000,
        "rebalance_timeout_ms": 300_000,
        "heard_ms": heard_ms,
        "slack_ms": 45_000 - heard_ms,
        "waits_for": "",
        "is_gone": False,
        "protocols": ["range"],
        "topics": ["orders"],
        "assignment": {"orders": list(range(partitions))},
    }
    return MemberState(**{**given, **fields})  # type: ignore[arg-type]


CAUSES = (
    ("session_expired", "expired", "{who} was not heard of for {n} s and was removed"),
    ("member_left", "left", "{who} left the group: the consumer is being closed"),
    ("join_timeout", "dropped", "{who} did not rejoin within 5 min and was dropped"),
    ("member_joined", "new", "{who} joined the group"),
    ("subscription_changed", "stayed", "{who} changed its subscription from orders to orders, refunds"),
)


class Crowd:
    """A group of ``size`` members that rebalances ``times`` times, the same for the same seed."""

    def __init__(self, size: int = 200, times: int = 500, seed: int = 1, gap_ms: int = 20_000) -> None:
        self.random = random.Random(seed)
        self.size, self.times, self.gap_ms = size, times, gap_ms
        self.now = T0
        self.ids = 0
        self.present: list[MemberPart] = [self.new(index) for index in range(size)]
        self.shares: dict[str, int] = {}

    def new(self, index: int) -> MemberPart:
        """Somebody who comes for the first time."""
        self.ids += 1
        name = f"worker-{index:03d}"
        return MemberPart(
            member_id=f"{name}-{self.random.getrandbits(64):016x}",
            client_id=name,
            client_host=f"10.0.{index // 100}.{index % 100}",
            fate="new",
            topics=["orders"],
        )

    def episodes(self) -> list[Episode]:
        """All of them."""
        return [self.episode(number) for number in range(1, self.times + 1)]

    def episode(self, number: int) -> Episode:
        """The next one."""
        pick = self.random
        cause, fate, words = CAUSES[3] if number == 1 else pick.choice(CAUSES)
        chosen = pick.randrange(len(self.present))
        who = self.present[chosen].client_id
        join_ms = pick.choice((40, 90, 300, 1_200, 4_000))
        sync_ms = pick.choice((15, 40, 200))
        if fate == "dropped":
            join_ms = 9_000
        total = join_ms + sync_ms
        parts, survivors = [], []
        for index, one in enumerate(self.present):
            gone = index == chosen and fate in ("expired", "left", "dropped")
            before = self.shares.get(one.member_id, 0)
            parts.append(
                MemberPart(
                    member_id=one.member_id,
                    client_id=one.client_id,
                    client_host=one.client_host,
                    is_leader=index == 0,
                    came_ms=-1 if gone else min(int(pick.expovariate(4 / join_ms)), join_ms),
                    synced_ms=-1 if gone else join_ms + pick.randrange(sync_ms),
                    heard_ms=self.now - pick.randrange(3_000, 45_000) if gone and fate == "expired" else 0,
                    fate=fate if gone else ("new" if one.fate == "new" else "stayed"),
                    before=before,
                    after=0 if gone else 2 + (index < 56),
                    stood_ms=before * total,
                    topics=["orders"],
                )
            )
            if gone:
                # The same client comes back next time, with a new id.
                survivors.append(self.new(int(one.client_id.rpartition("-")[2])))
            else:
                one.fate = "stayed"
                survivors.append(one)
                self.shares[one.member_id] = 2 + (index < 56)
        critical = max(range(len(parts)), key=lambda index: parts[index].came_ms)
        parts[critical].came_ms = join_ms
        headline = words.format(who=who, n=pick.randrange(10, 46))
        dropped = [chosen] if fate == "dropped" else []
        waits = [
            Wait("join", 0, join_ms, 300_000, [] if dropped else [critical], dropped),
            Wait("sync", join_ms, total, 300_000, [0]),
        ]
        episode = self._told(number, cause, chosen, headline, waits, parts)
        self.present = survivors
        self.now += total + int(pick.expovariate(1 / self.gap_ms)) + 500
        return episode

    def _told(
        self, number: int, cause: str, culprit: int, headline: str, waits: list[Wait], parts: list[MemberPart]
    ) -> Episode:
        join_ms, total = waits[0].closed_ms, waits[1].closed_ms
        last = ", ".join(parts[index].client_id for index in [*waits[0].last, *waits[0].absent])
        return Episode(
            number=number,
            kind="rebalance",
            group_id="billing",
            started_ms=self.now,
            duration_ms=total,
            state_before="Stable" if number > 1 else "Empty",
            generation_before=number - 1,
            generation_after=number,
            outcome="stable",
            protocol_name="range",
            cause=cause,
            culprit=culprit,
            triggers=[Trigger(cause, culprit, 0, "", {"session.timeout.ms": "45000"})],
            waits=waits,
            members=parts,
            moves=[Move("orders", index, index % len(parts), (index + 1) % len(parts)) for index in range(3)],
            stood_ms=sum(one.stood_ms for one in parts),
            headline=headline,
            sentences=[
                f"{headline}.",
                f"The join barrier was open for {join_ms / 1000:.1f} s and waited for {last}.",
                f"456 partitions stood still for {total / 1000:.1f} s.",
            ],
            advice=[Advice("Raise max.poll.interval.ms, or do less between two polls.", "max.poll.interval.ms")],
        )

    def traffic(self, until_ms: int, shift_ms: int = 0) -> Traffic:
        """Commits and lag up to then, all of it moved by ``shift_ms``."""
        traffic = Traffic(1 << 20)
        for wall_ms in range(T0, until_ms, 1_000):
            event = OffsetsCommitted(
                group_id="billing", cause=1, wall_ms=wall_ms + shift_ms, member_id="", partitions=1
            )
            for _ in range(self.random.randrange(3)):
                traffic(event)
            if wall_ms % 5_000 == 0:
                traffic.lag("billing", self.random.randrange(2_000) + (wall_ms // 1_000) % 600 * 20, wall_ms + shift_ms)
        return traffic

    def state(self) -> GroupState:
        """What it is at the end."""
        members = [
            member(
                one.client_id,
                2 + (index < 56),
                self.random.randrange(4_000) if index != 3 else 31_000,
                member_id=one.member_id,
                client_host=one.client_host,
                is_leader=index == 0,
            )
            for index, one in enumerate(self.present)
            if one.fate != "new"
        ]
        return state(members=members, generation=self.times, state_since_ms=self.now)
