"""Groups that behave well, that only look as if they did not, and that do not."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

import numpy as np

from ottla.protocol.offsets_topic import group_key, offset_key
from tests.core.consumer_groups.modern_scenario import ConsumerPlay
from tests.pipeline.generator import START_MS, Longs, Member, Topic, World


@dataclass
class Group:
    """A group with a topic of its own, while it is made.

    Attributes:
        rate: records per second and partition.
        every_s: between two commits.
        ends, done: log ends and what was read, ``[second, partition]``.
        until: from this second on it commits no more.
        pauses: spans of seconds in which nobody commits.
    """

    world: World
    name: str
    partitions: int
    every_s: float
    rate: float = 20.0
    size: int = 3
    capacity: float = 4.0
    number: int = 0
    ends: Longs = field(init=False)
    done: Longs = field(init=False)
    until: int = field(init=False)
    pauses: list[tuple[int, int]] = field(default_factory=list)
    members: list[Member] = field(init=False)

    def __post_init__(self) -> None:
        self.world.version = 3 + len(self.world.groups) % 2
        self.world.groups.append(self.name)
        self.until = self.world.seconds
        self.members = [self.member(f"{self.name}-c{one}") for one in range(self.size)]

    @property
    def topic(self) -> str:
        return f"{self.name}-topic"

    def member(self, client: str, host: str | None = None, instance: str | None = None) -> Member:
        """A new one; Kafka's ids are the client or instance id and a random UUID."""
        made = UUID(bytes=self.world.rng.bytes(16), version=4)
        return Member(
            f"{instance or client}-{made}", client, host or f"/10.0.0.{len(client) % 9}{client[-1]}", instance
        )

    def flow(self, factor: Any = 1.0) -> None:
        """Records come at the rate, times ``factor`` (of one number, of each second, or of seconds and partitions).
        They are read at ``capacity`` times the rate at most, a second later."""
        seconds = self.world.seconds
        mean = np.broadcast_to(self.rate * np.asarray(factor, dtype=float), (seconds, self.partitions))
        self.ends = 5000 + np.cumsum(self.world.rng.poisson(mean), axis=0)
        if self.rate == 0:
            self.ends = np.full((seconds, self.partitions), 700)
        able = np.round(np.arange(seconds) * self.rate * self.capacity).astype(np.int64)[:, None]
        late = np.vstack([self.ends[:1], self.ends[:-1]])
        # As fast as it can, but never past the end: the least of all "was level then, and at full speed since".
        self.done = able + np.minimum.accumulate(late - able, axis=0)

    def form(self, second: float, members: Sequence[Member] | None = None, **more: Any) -> None:
        """A new generation, with its event."""
        self.members = list(self.members if members is None else members)
        self.number += 1
        ts_ms = START_MS + round(second * 1000)
        duration = {"duration_ms": 1870} | more
        self.world.generation(self.name, ts_ms, self.number, self.owned())
        self.world.event(self.name, ts_ms + 3, "rebalance_completed", self.number, **duration)

    def owned(self) -> list[tuple[Member, str, Sequence[int]]]:
        shares = np.array_split(np.arange(self.partitions), max(len(self.members), 1))
        return [(one, self.topic, part.tolist()) for one, part in zip(self.members, shares, strict=False)]

    def finish(self) -> None:
        """Write the commits; how partitions are spread over batches is that of the first members."""
        self.world.topics[self.topic] = Topic(self.topic, self.ends)
        for share in np.array_split(np.arange(self.partitions), self.size):
            phase = self.world.rng.uniform(1, self.every_s)
            times = np.arange(phase, self.until, self.every_s)
            for begin, end in self.pauses:
                times = times[(times < begin) | (times >= end)]
            offsets = self.done[times.astype(np.int64)][:, share]
            ms = START_MS + np.round(times * 1000).astype(np.int64)
            self.world.commits(self.name, self.topic, share.tolist(), ms, offsets)

    def planted(self, kind: str, suspect: str | None = None) -> None:
        self.world.planted.add((self.name, kind))
        if suspect:
            self.world.suspects[self.name, kind] = suspect


Behaviour = Callable[[Group, int], None]


def healthy(group: Group, end: int) -> None:
    group.flow()
    group.form(0.5)


def storm(group: Group, end: int) -> None:
    """One client, the fourth, is thrown out and comes back again and again; its member ids are new each time."""
    group.flow()
    group.form(0.5)
    stay = [*group.members[:3], *group.members[4:]]
    client = group.members[3]
    reasons = {"cause": "poll_too_slow", "reason": "poll_too_slow: consumer poll timeout has expired."}
    second = end * 0.35
    for _ in range(15):
        group.form(second, stay, member=client.member_id, client=client.client_id, **reasons)
        client = group.member(client.client_id, client.host)
        again = {"cause": "join", "reason": "join"}
        group.form(second + 9, [*stay, client], member=client.member_id, client=client.client_id, **again)
        second += 21
    group.planted("storm", client.client_id)


def rolling_restart(group: Group, end: int) -> None:
    """Every member leaves and comes back under the same client id, one after another."""
    group.flow()
    group.form(0.5)
    second = end * 0.4
    for index in range(group.size):
        old = group.members[0]
        group.form(second, group.members[1:], member=old.member_id, reason="left")
        new = group.member(f"{group.name}-c{index}", f"/10.1.0.{index}")
        group.form(second + 12, [*group.members, new], member=new.member_id, reason="joined")
        second += 30
    group.planted("rolling_restart")


def stopped(group: Group, end: int) -> None:
    healthy(group, end)
    group.until = round(end * 0.55)
    group.planted("stopped")


def stalled(group: Group, end: int) -> None:
    healthy(group, end)
    second = round(end * 0.5)
    group.done[second:, 1] = group.done[second, 1]
    group.planted("stalled")


def rewound(group: Group, end: int) -> None:
    """Set back by a tenth of the time, and level again soon."""
    healthy(group, end)
    second = round(end * 0.4)
    back = group.done[second - end // 10]
    able = back + np.round(np.arange(end - second) * group.rate * 4).astype(np.int64)[:, None]
    group.done[second:] = np.minimum(group.done[second:], able)
    group.planted("rewound")


def slow(group: Group, end: int) -> None:
    group.capacity = 0.7
    healthy(group, end)
    group.planted("slow")


def zombie(group: Group, end: int) -> None:
    """The coordinator waits for a client that is not there; only its own events tell."""
    healthy(group, end)
    at = START_MS + end * 400
    who = {"member": group.members[1].member_id, "client": group.members[1].client_id}
    group.world.event(
        group.name, at, "alarm_raised", 1, reason="zombie: waits for a JoinGroup whose client is gone", **who
    )
    group.world.event(group.name, at + 40_000, "alarm_cleared", 1, reason="zombie: out of the group", **who)
    group.form(end * 0.4 + 41, group.members, duration_ms=11_000, reason="session_expired", **who)
    group.planted("zombie", who["client"])


def oversized_barrier(group: Group, end: int) -> None:
    """All wait for one with a long rebalance timeout."""
    healthy(group, end)
    second, waited_s = end * 0.6, 95
    group.pauses = [(round(second) - waited_s, round(second))]
    begin, over = group.pauses[0]
    group.done[begin:over] = group.done[begin]
    who = group.members[2]
    group.form(second, duration_ms=waited_s * 1000, member=who.member_id, client=who.client_id, reason="join: barrier")
    group.planted("oversized_barrier", who.client_id)


def static_bounce(group: Group, end: int, times: int = 8) -> None:
    """Two processes share a group.instance.id: it gets a new member id each time, and there is no rebalance."""
    group.flow()
    group.members = [group.member(f"{group.name}-c{one}", instance=f"{group.name}-i{one}") for one in range(group.size)]
    group.form(0.5)
    twice = group.members[1]
    for index in range(times):
        again = group.member(twice.client_id, f"/10.2.0.{index % 2}", twice.instance)
        group.members[1] = again
        ts_ms = START_MS + round((end * 0.5 + 25 * index) * 1000)
        group.world.generation(group.name, ts_ms, group.number, group.owned())
        group.world.event(group.name, ts_ms, "static_member_fenced", group.number, member=twice.member_id)
    if times >= 4:
        group.planted("flapping_static_member", twice.instance)


def static_restart(group: Group, end: int) -> None:
    """A static member comes back once: as it is meant."""
    static_bounce(group, end, 1)


def hot_partition(group: Group, end: int) -> None:
    """One partition gets eight times what the others do, and twice what can be read."""
    factor = np.ones(group.partitions)
    factor[0] = 8
    group.flow(factor)
    group.form(0.5)
    group.planted("hot_partition")


def unread_deleted(group: Group, end: int) -> None:
    """It stopped, and retention went on."""
    healthy(group, end)
    group.until = round(end * 0.3)
    group.planted("stopped")
    group.planted("unread_deleted")


def two_storms(group: Group, end: int) -> None:
    """Nobody comes or goes, but all rejoin all the time, as when subscriptions change; nobody is to blame."""
    group.flow()
    group.form(0.5)
    for number in range(7):
        group.form(end * 0.2 + 15 * number, reason="rejoin", member=group.members[number % group.size].member_id)
    group.planted("storm")


# --- what only looks suspicious


def idle(group: Group, end: int) -> None:
    """Nothing is written; it commits the same offset for ever."""
    group.rate = 0
    healthy(group, end)


def scale_out(group: Group, end: int) -> None:
    """Three more members come nearly at once."""
    healthy(group, end)
    more = [group.member(f"{group.name}-n{one}") for one in range(3)]
    group.form(end * 0.3, [*group.members, more[0]], member=more[0].member_id)
    group.form(end * 0.3 + 3, [*group.members, *more[1:]], member=more[1].member_id)


def level_and_silent(group: Group, end: int) -> None:
    """Writing ended, it read all, committed that and was stopped."""
    seconds = np.arange(end)[:, None]
    group.flow(np.where(seconds < end * 0.5, 1.0, 0.0))
    group.form(0.5)
    group.until = round(end * 0.5) + 40


def burst(group: Group, end: int) -> None:
    """Four minutes of three times as much; it catches up in six."""
    seconds = np.arange(end)[:, None]
    group.capacity = 1.8
    group.flow(np.where((seconds > end * 0.3) & (seconds < end * 0.3 + 240), 3.0, 1.0))
    group.form(0.5)


def compacted(group: Group, end: int) -> None:
    """Of its generations few are left, as the cleaner has been there."""
    group.flow()
    for part, number in ((0.001, 2), (0.3, 17), (0.7, 40)):
        group.number = number
        group.form(end * part)


def deleted(group: Group, end: int) -> None:
    """Emptied and deleted; writing goes on."""
    healthy(group, end)
    group.until = round(end * 0.4)
    group.form(group.until + 1, [])
    keys = [(offset_key(group.name, group.topic, one), None) for one in range(group.partitions)]
    group.world.write(group.name, START_MS + (group.until + 30) * 1000, *keys, (group_key(group.name), None))


def reborn(group: Group, end: int) -> None:
    """Deleted, and there again under its name: generations are counted from 1."""
    members = group.members
    deleted(group, end)
    group.finish()
    group.number, group.until = 0, end
    group.pauses = [(0, round(end * 0.7))]
    group.form(end * 0.7 - 1, members)


def connect(group: Group, end: int) -> None:
    """Workers of Kafka Connect: a protocol of their own, no offsets."""
    group.flow()
    group.number, group.until = 1, 0
    group.world.generation(group.name, START_MS + 500, 1, group.owned(), "connect")


def batches(group: Group, end: int) -> None:
    """Commits every four minutes, which is usual for it."""
    healthy(group, end)
    group.every_s = 240


def overtaken(group: Group, end: int) -> None:
    """An asynchronous commit arrives after a later one; the next one puts it right."""
    healthy(group, end)
    second = round(end * 0.5)
    old = group.done[second - round(2 * group.every_s)]
    ms = np.array([START_MS + second * 1000])
    group.world.commits(group.name, group.topic, [0], ms, old[None, :1])


def consumer_protocol(world: World) -> None:
    """A group of the consumer protocol that one member joins, and that commits nothing; a coordinator wrote it."""
    play = ConsumerPlay()
    play.step("topic t 2")
    play.step("beat A join")
    world.write("g", START_MS + 1000, *((record.key, record.value) for _, record in play.world.log))


SPECIAL: tuple[tuple[str, Behaviour, dict[str, Any]], ...] = (
    ("storm", storm, {"size": 6}),
    ("rejoin", two_storms, {}),
    ("deploy", rolling_restart, {"size": 6}),
    ("stop", stopped, {}),
    ("stall", stalled, {}),
    ("rewind", rewound, {}),
    ("slow", slow, {}),
    ("zombie", zombie, {}),
    ("barrier", oversized_barrier, {}),
    ("static", static_bounce, {}),
    ("hot", hot_partition, {}),
    ("lost", unread_deleted, {}),
    ("idle", idle, {}),
    ("scale", scale_out, {}),
    ("level", level_and_silent, {}),
    ("burst", burst, {}),
    ("compacted", compacted, {}),
    ("deleted", deleted, {}),
    ("reborn", reborn, {}),
    ("connect", connect, {}),
    ("batch", batches, {}),
    ("overtaken", overtaken, {}),
    ("restart", static_restart, {}),
)


def make(*, minutes: int = 120, groups: int = 40, partitions: int = 16, every_s: float = 5.0) -> World:
    """A cluster with all behaviours, and as many healthy groups as it takes to be ``groups``."""
    world = World(minutes * 60, np.random.default_rng(1))
    plain = tuple((f"plain{one}", healthy, {}) for one in range(groups - len(SPECIAL)))
    for name, behave, more in (*SPECIAL, *plain):
        group = Group(world, f"g-{name}", partitions, every_s, **more)
        behave(group, world.seconds)
        group.finish()
        if behave is unread_deleted:
            kept_s = world.seconds // 4
            starts = np.zeros_like(group.ends)
            starts[kept_s:] = group.ends[:-kept_s]
            world.topics[group.topic].starts = starts
    consumer_protocol(world)
    for event in world.events[::7]:
        world.events.append(dict(event))  # a producer that tried again without being idempotent
    return world


def small() -> World:
    """Half an hour of 25 groups: some ten thousand records."""
    return make(minutes=30, groups=25, partitions=3, every_s=12.0)
