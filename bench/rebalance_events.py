#!/usr/bin/env python3
"""Measure what observers add to the CPU time of one member of a rebalance, without sockets and disk.

As `commit_events.py` does for commits: coordinators that differ in who observes them take turns, and each has a group
rebalance, all members of which join and sync again.
"""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Mapping
from typing import Any

import click
from commit_events import BUDGET_BYTES, TURNS, Silent, coordinator, deferred

from ottla.broker.core.effects import Append, Reply
from ottla.broker.core.events import UNOBSERVED, Event, Observer
from ottla.broker.core.groups.coordinator import GroupCoordinator
from ottla.broker.settings import Settings
from ottla.cli import garbage
from ottla.observe.group_events import GroupEvents
from ottla.observe.recorder import Recorder
from ottla.observe.sentinels.watch import Sentinels
from ottla.observe.timeline.traffic import Traffic
from ottla.observe.why.history import History
from ottla.protocol.consumer_protocol import (
    Assignment,
    ConsumerTopicPartitions,
    Subscription,
    encode_assignment,
    encode_subscription,
)
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from ottla.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment

GROUP = "bench-group"
REQUESTS_A_TURN = 16
"""So many requests of different connections one turn of the event loop handles."""
WHO = ("nobody", "events", "ring", "history", "topic", "all")


class Joins:
    """Who joins."""

    client_id, client_host, api_version, encoded = "bench", "/127.0.0.1", 9, b""


class Deaf(Observer):
    """Has every event made, and takes none."""

    wants_requests = True

    def wants(self, kind: type[Event]) -> bool:
        return False


def observers(who: str) -> Observer:
    """``nobody``, one that takes no ``events``, the ``ring``, the ``history``, that and the ``topic``, or ``all``."""
    silent: Any = Silent()
    if who == "nobody":
        return UNOBSERVED
    recorder, history = Recorder(BUDGET_BYTES), History(budget_bytes=BUDGET_BYTES)
    events = GroupEvents(history, lambda key, value, wall_ms: None)
    history.on_episode.append(events.on_episode)
    sentinels = Sentinels(silent, Settings(), silent, silent, recorder)
    found: Mapping[str, list[Observer]] = {
        "events": [Deaf()],
        "ring": [recorder],
        "history": [history],
        "topic": [events, history],
        "all": [recorder, events, history, Traffic(BUDGET_BYTES), sentinels],
    }
    return deferred(found[who])


class Group:
    """A group of so many members, in one coordinator."""

    def __init__(self, one: GroupCoordinator, members: int) -> None:
        self._one = one
        self._now_ms = 0
        self._protocols = [
            JoinGroupRequestProtocol(name="range", metadata=encode_subscription(Subscription(topics=["orders"])))
        ]
        self._ids = [""] * members
        self._answers: dict[int, Any] = {}
        self._requests = 0
        self.rebalance()

    def rebalance(self) -> float:
        """All members join and sync; CPU µs for each."""
        began, members = time.thread_time_ns(), len(self._ids)
        for at, member_id in enumerate(self._ids):
            self._join(at, member_id)
            if (answer := self._answers.get(at)) is not None and answer.error_code:
                self._ids[at] = self._answers.pop(at).member_id
                self._join(at, answer.member_id)
        for _ in range(3):  # the initial delay, which is extended as members come
            self._now_ms += 3_000
            while (self._one.next_deadline_ms() or self._now_ms + 1) <= self._now_ms:
                self._one.advance(self._now_ms, self._now_ms)
                self._settle()
        joined, self._answers = self._answers, {}
        leader = next(at for at in joined if joined[at].leader == joined[at].member_id)
        for at in [leader, *(at for at in joined if at != leader)]:
            self._sync(at, joined[at], members if at == leader else 0)
        self._settle()
        TURNS.end()
        assert len(self._answers) == members
        self._answers.clear()
        return (time.thread_time_ns() - began) / 1000 / members

    def _join(self, at: int, member_id: str) -> None:
        request = JoinGroupRequest(
            group_id=GROUP,
            session_timeout_ms=45_000,
            rebalance_timeout_ms=300_000,
            member_id=member_id,
            protocol_type="consumer",
            protocols=self._protocols,
        )
        self._answered(at, self._one.join(request, self._asks(at), self._now_ms, self._now_ms))

    def _sync(self, at: int, joined: Any, members: int) -> None:
        topics = [[ConsumerTopicPartitions(topic="orders", partitions=[one])] for one in range(members)]
        request = SyncGroupRequest(
            group_id=GROUP,
            generation_id=joined.generation_id,
            member_id=joined.member_id,
            protocol_type="consumer",
            protocol_name="range",
            assignments=[
                SyncGroupRequestAssignment(
                    member_id=self._ids[one], assignment=encode_assignment(Assignment(assigned_partitions=topics[one]))
                )
                for one in range(members)
            ],
        )
        self._answered(at, self._one.sync(request, self._asks(at), self._now_ms, self._now_ms))

    def _asks(self, at: int) -> Any:
        asks: Any = Joins()
        asks.at = at
        return asks

    def _answered(self, at: int, response: Any) -> None:
        if response is not None:
            self._answers[at] = response
        self._settle()
        self._requests += 1
        if not self._requests % REQUESTS_A_TURN:
            TURNS.end()

    def _settle(self) -> None:
        while effects := self._one.take_effects():
            for effect in effects:
                if isinstance(effect, Append):
                    self._one.appended(effect.token, ErrorCode.NONE, self._now_ms, self._now_ms)
                elif isinstance(effect, Reply):
                    asked: Any = effect.ctx
                    self._answers[asked.at] = effect.response


@click.command(help=__doc__)
@click.option("--rounds", default=11, show_default=True, type=click.IntRange(1))
@click.option("--members", default=1000, show_default=True, type=click.IntRange(2))
def main(rounds: int, members: int) -> None:
    gc.set_threshold(garbage.YOUNG, garbage.OLDER, garbage.NEVER)  # as `ottla serve` does
    groups = {who: Group(coordinator(observers(who)), members) for who in WHO}
    gc.freeze()
    figures: dict[str, list[float]] = {who: [] for who in WHO}
    for _ in range(rounds):
        for who, group in groups.items():
            figures[who].append(group.rebalance())
    for who, found in figures.items():
        more = statistics.median(mine - other for mine, other in zip(found, figures["nobody"], strict=True))
        click.echo(f"{who:8} {statistics.median(found):6.2f} µs a member  {more:+.2f} µs")


if __name__ == "__main__":
    main()
