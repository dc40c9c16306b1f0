"""A console over a broker that is made up: groups of any size and number, in states that tests choose.

``python -m tests.observe.console.stage`` serves one to look at.
"""

from __future__ import annotations

import asyncio
import random
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import msgspec

from ottla.broker.clock import LoopClock
from ottla.broker.settings import Settings
from ottla.observe.http.changes import Changes
from ottla.observe.http.parts import Parts
from ottla.observe.http.server import HttpPort
from ottla.observe.sentinels.model import Alarm
from ottla.observe.snapshot import (
    GroupState,
    OffsetState,
    PartitionState,
    TopicState,
)
from ottla.observe.timeline.build import build
from ottla.observe.timeline.traffic import Traffic
from ottla.observe.why.model import Advice, Episode, Wait
from tests.observe.http.fakes import FakeHistory, FakeSentinels, Lines, ShownView, now_ms
from tests.observe.timeline.synthetic import Crowd, member, part, rebalance, state


class Past(FakeHistory):
    """Episodes as tests put them in: words and all."""

    def explain(self, episode: Episode) -> Episode:
        return episode


class Show(ShownView):
    """Everything that the console asks for. Tests change it in the loop of the port (`Stage.do`)."""

    def __init__(self) -> None:
        super().__init__()
        self.traffic: dict[str, Traffic] = {}
        self.history = Past()
        self.sentinels = FakeSentinels()
        self.started_ms = now_ms() - 7_260_000

    async def told(self, group_id: str, pause: object, *, last: int | None, since_ms: int | None) -> bytes:
        """The JSON of a group's timeline."""
        return msgspec.json.encode(
            build(
                group_id,
                [one async for one in self.history.each(group_id, pause, last=last)],
                traffic=self.traffic.get(group_id),
                state=self.groups.get(group_id),
                now_ms=now_ms(),
            )
        )

    # -- what a test puts in

    def add_topic(self, name: str, partitions: int = 3, records: int = 1_000, **configs: str) -> None:
        """A topic with so many records in each partition."""
        parts = [PartitionState(one, 0, records, records, records, records * 120) for one in range(partitions)]
        internal = name.startswith("__")
        self.all_topics[name] = TopicState(name, f"id-of-{name}", internal, configs, parts)

    def add_group(self, group: GroupState, lag: int = 0, topic: str = "orders") -> None:
        """A group whose members share a topic, and have committed all of it."""
        free = 0
        for mate in group.members:
            count = sum(len(owned) for owned in mate.assignment.values())
            mate.assignment, mate.topics = {topic: list(range(free, free + count))}, [topic]
            free += count
        self.groups[group.group_id] = group
        self.committed[group.group_id] = [
            OffsetState(topic, one, 5_000, now_ms() - 4_000, "", 0, 5_000 + lag, lag, lag / 120.0, mate.member_id)
            for mate in group.members
            for one in mate.assignment.get(topic, [])
        ]

    def add_episodes(self, episodes: list[Episode]) -> int:
        """What became of groups, moved so that they end 20 s ago; gives by how much."""
        shift = now_ms() - max(one.started_ms + max(one.duration_ms, 0) for one in episodes) - 20_000
        for one in episodes:
            one.started_ms += shift
            for mate in one.members:
                mate.heard_ms += shift if mate.heard_ms else 0
        self.history.kept += episodes
        return shift


class Stage:
    """A `Show` behind an HTTP port of this machine, in a thread of its own."""

    def __init__(self, show: Show, port: int = 0) -> None:
        self.show = show
        self._loop = asyncio.new_event_loop()
        self._port = port
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self.url = ""

    def __enter__(self) -> Stage:
        self._thread.start()
        self.open()
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    def open(self) -> None:
        """Listen; again on the same port after `close`."""

        async def start() -> None:
            self._http = HttpPort(Settings(ottla_http_listen=f"127.0.0.1:{self._port}"), Lines())
            await self._http.start()
            show = self.show
            self._http.open(
                Parts(
                    view=show,
                    clock=LoopClock(self._loop),
                    changes=Changes(),
                    history=show.history,
                    timelines=show,
                    sentinels=show.sentinels,
                )
            )

        self._run(start())
        self._port = self._http.port
        self.url = self._http.url

    def close(self) -> None:
        """Be gone, as a broker that stops."""
        self._run(self._http.stop())

    def do(self, act: Callable[[], Any]) -> None:
        """Change the show in the loop."""

        async def run() -> None:
            act()

        self._run(run())

    def _run(self, work: Any) -> None:
        done: Future[None] = asyncio.run_coroutine_threadsafe(work, self._loop)
        done.result(10)


def sample(size: int = 200, times: int = 500, groups: int = 40) -> Show:
    """Groups of all sorts, one of them with ``size`` members and ``times`` rebalances."""
    show = Show()
    pick = random.Random(7)
    show.add_topic("orders", 456, 48_210, **{"cleanup.policy": "delete", "retention.ms": "604800000"})
    show.add_topic("payments", 6, 12_003)
    show.add_topic("__consumer_offsets", 50, 812)
    crowd = Crowd(size, times)
    episodes = crowd.episodes()
    shift_ms = show.add_episodes(episodes)
    show.traffic["billing"] = crowd.traffic(now_ms() - shift_ms, shift_ms)
    big = crowd.state()
    big.state_since_ms = episodes[-1].started_ms + episodes[-1].duration_ms
    show.add_group(big, lag=120)
    words = ("audit", "checkout", "emails", "fraud", "invoices", "ledger", "mailer", "payouts", "quotes", "search")
    for index in range(groups):
        name = f"{words[index % 10]}-{('eu', 'us', 'asia', 'test')[index // 10 % 4]}" + (
            f"-{index}" if index > 39 else ""
        )
        count = pick.randrange(6)
        kind = "Stable" if count else "Empty"
        group = state(name, [member(f"{name}-{one}", 3, pick.randrange(2_900)) for one in range(count)], state=kind)
        group.generation = pick.randrange(1, 90)
        show.add_group(group, lag=pick.choice((0, 0, 0, 3, 170, 22_000)), topic=pick.choice(("orders", "payments")))
        if index % 3 == 0:
            show.add_episodes([_small(name)])
    stuck = state(
        "payments-eu-stuck",
        [
            member("pay-1", 2, waits_for="join", is_leader=True),
            member("pay-2", 2, 9_800, session_timeout_ms=10_000),
            member("pay-3", 2, waits_for="join", is_gone=True, group_instance_id="payments-3"),
        ],
        state="PreparingRebalance",
        barrier="join",
        barrier_age_ms=41_200,
        awaited=["pay-2-id"],
    )
    show.add_group(stuck, lag=9_114, topic="payments")
    running = rebalance(
        8,
        0,
        -1,
        [part("pay-1", came_ms=40, before=2), part("pay-2", before=2), part("pay-3", came_ms=90, before=2)],
        group_id=stuck.group_id,
        outcome="running",
        cause="member_joined",
        culprit=1,
        waits=[Wait("join", 0, -1, 300_000, [1])],
        headline="pay-2 keeps 2 others waiting: it has not rejoined for 41 s",
        sentences=["pay-3 joined the group.", "The join barrier is open for 41 s and waits for pay-2."],
        advice=[
            Advice("Do less between two polls, or raise max.poll.interval.ms.", "max.poll.interval.ms", True, "300000")
        ],
    )
    running.started_ms = now_ms() - 41_200
    show.history.kept.append(running)
    since_ms = now_ms() - 11_000
    show.sentinels.standing = [
        alarm("old_barrier", stuck.group_id, "the join barrier is open for 41 s and waits for pay-2", since_ms),
        alarm("zombie", stuck.group_id, "pay-3 is parked in a join, and its connection is gone", since_ms),
    ]
    show.sentinels.ended = [alarm("rebalance_storm", "billing", "10 rebalances in 5 min", since_ms - 90_000, since_ms)]
    return show


def alarm(sentinel: str, group_id: str, text: str, since_ms: int, cleared_ms: int = 0) -> Alarm:
    """An alarm."""
    return Alarm(sentinel, group_id, "", since_ms, since_ms, text, cleared_ms=cleared_ms)


def _small(group_id: str) -> Episode:
    left = part("worker-1", fate="expired", before=3, stood_ms=90_000)
    stays = part("worker-2", came_ms=2_300, synced_ms=2_420, before=3, after=6, is_leader=True)
    return rebalance(
        4,
        0,
        2_460,
        [left, stays],
        group_id=group_id,
        cause="session_expired",
        culprit=0,
        stood_ms=98_000,
        waits=[Wait("join", 0, 2_300, 300_000, [1]), Wait("sync", 2_300, 2_460, 300_000, [1])],
        headline="worker-1 was not heard of for 45 s and was removed",
        sentences=[
            "worker-1 was not heard of for 45 s.",
            "Its 3 partitions stood still for 47 s, then worker-2 had them.",
        ],
        advice=[Advice("If it was killed, nothing is wrong; a static member would have kept its partitions.")],
    )


if __name__ == "__main__":
    with Stage(sample(), 18644) as stage:
        print(stage.url, flush=True)
        threading.Event().wait()
