"""Members in their group: syncs, heartbeats, leaves, static members and timers; one trace for each rule."""

from __future__ import annotations

from typing import Any

from ottla.protocol.apis import ApiKey
from tests.differential.calls import (
    MINE,
    OTHER,
    commit,
    commit_alone,
    completing,
    delete,
    describe,
    enter,
    heartbeat,
    join,
    leave,
    listed,
    stable,
    sync,
)
from tests.differential.tracing import Trace


def trace_sync_in_each_state(t: Trace) -> None:
    sync(t, "a", generation=1, member="nobody")
    commit_alone(t)
    sync(t, "a", generation=0, member="nobody")
    enter(t, "a")
    for version in range(6):
        sync(t, "x", version, member="", generation=1)
        sync(t, "x", version, member="nobody", generation=1)
        sync(t, "a", version, generation=0)
        sync(t, "a", version, generation=2)
        sync(t, "a", version, group="")
        sync(t, "a", version, group=f"{t.name}-absent")
    sync(t, "a", 5, protocol_type=None)
    sync(t, "a", 5, protocol_name=None)
    sync(t, "a", 5, protocol_type="connect")
    sync(t, "a", 5, protocol_name="other")
    sync(t, "a", 3, instance="i")
    sync(t, "a", 5, assign={})
    describe(t)
    for version in range(6):
        sync(t, "a", version, assign={"a": b"ignored"})
        sync(t, "a", version, generation=5)
        sync(t, "a", version, member="nobody")


def trace_sync_follower_first(t: Trace) -> None:
    completing(t, "a", "b")
    t.settle()
    sync(t, "b", assign={"b": b"ignored"})
    heartbeat(t, "a")
    heartbeat(t, "b")
    commit(t, "b")
    describe(t)
    listed(t, states=["completingrebalance"])
    sync(t, "a", assign={"a": b"A"})
    describe(t, after_ms=0)


def trace_sync_interrupted(t: Trace) -> None:
    for cause in ("join", "leave", "static", "pending"):
        group = f"{t.name}-{cause}"
        a, b, c = f"a{cause}", f"b{cause}", f"c{cause}"
        completing(t, a, b, group=group)
        t.settle()
        sync(t, b, group=group)
        if cause == "join":
            enter(t, c, group=group)
        elif cause == "leave":
            leave(t, a, group=group)
        elif cause == "static":
            join(t, c, member="", instance="i", group=group)
        else:
            join(t, c, member="", group=group)
            leave(t, c, group=group)
        describe(t, 5, group, after_ms=30)


def trace_heartbeats(t: Trace) -> None:
    for version in range(5):
        heartbeat(t, "a", version, group="", member="x", generation=1)
        heartbeat(t, "a", version, member="x", generation=1)
        heartbeat(t, "a", version, member="", generation=1)
        heartbeat(t, "a", version, member="", generation=-1)
    commit_alone(t)
    heartbeat(t, "a", member="x", generation=0)
    stable(t, "a", "b")
    for version in range(5):
        heartbeat(t, "a", version)
        heartbeat(t, "a", version, generation=0)
        heartbeat(t, "a", version, generation=9)
        heartbeat(t, "a", version, member="nobody")
        heartbeat(t, "a", version, member="")
        heartbeat(t, "a", version, instance="i")
    join(t, "a")
    heartbeat(t, "b")
    heartbeat(t, "a")
    heartbeat(t, "b", generation=0)


def trace_leaves(t: Trace) -> None:
    for version in range(6):
        leave(t, "a", version, ("nobody", None))
        leave(t, "a", version, ("", None))
        leave(t, "a", version, ("", None), group="")
    leave(t, "a", 5, ("x", "i"), ("y", None))
    commit_alone(t)
    leave(t, "a", 5, ("x", "i"), ("y", None))
    stable(t, "a", "b", "c")
    leave(t, "a", 5, ("nobody", None), ("", "i"), ("", None), ("", ""))
    heartbeat(t, "a")
    leave(t, "b", 5, (MINE, None), (MINE, None))
    heartbeat(t, "a")
    leave(t, "a", 2)
    describe(t)
    leave(t, "c", 1, ("nobody", None))
    leave(t, "c", 0)
    describe(t, after_ms=0)
    delete(t)
    describe(t)


def trace_leave_with_instances(t: Trace) -> None:
    join(t, "a", member="", instance="ia")
    enter(t, "b")
    join(t, "a", instance="ia")
    t.settle()
    sync(t, "b")
    sync(t, "a", assign={"a": b"A", "b": b"B"}, instance="ia")
    leave(t, "a", 3, ("wrong", "ia"), (MINE, "ib"))
    leave(t, "b", 4, (MINE, "ia"))
    describe(t, 4)
    leave(t, "x", 5, ("", "ia"), ("", "ia"))
    join(t, "a", instance="ia")
    describe(t, 5)


def trace_leave_without_entries(t: Trace) -> None:
    t.call("a", ApiKey.LEAVE_GROUP, 3, group_id=t.name, members=[])
    stable(t, "a")
    t.call("a", ApiKey.LEAVE_GROUP, 3, group_id=t.name, members=[])
    t.call("a", ApiKey.LEAVE_GROUP, 5, group_id="", members=[])
    heartbeat(t, "a")


def trace_leave_while_parked(t: Trace) -> None:
    stable(t, "a", "b")
    join(t, "a")
    leave(t, "a")
    t.settle()
    join(t, "b")
    describe(t, after_ms=0)


def static_pair(t: Trace, version: int = 7, **options: Any) -> None:
    join(t, "a", version, member="", instance="ia", **options)
    join(t, "b", version, member="", instance="ib", **options)
    join(t, "a", version, instance="ia", **options)
    t.settle()


def static_stable(t: Trace, version: int = 7, *shares: str, **options: Any) -> None:
    static_pair(t, version, **options)
    sync(t, "b", instance="ib")
    sync(t, "a", instance="ia", assign={who: who.upper().encode() for who in shares or "a"})
    t.settle()


def trace_static_in_stable(t: Trace) -> None:
    for version in (5, 7, 9):
        t.name = f"{t.name}-{version}"
        static_stable(t, version, "a", "b")
        describe(t)
        join(t, "b", version, member="", instance="ib")
        describe(t)
        sync(t, "b", instance="ib")
        heartbeat(t, "b", member="former", instance="ib")
        heartbeat(t, "b", member="former")
        sync(t, "b", member="former", instance="ib")
        commit(t, "b", member="former", instance="ib")
        join(t, "b", version, member="former", instance="ib")
        leave(t, "b", 5, ("former", "ib"))
        join(t, "a", version, member="", instance="ia")
        describe(t)
        sync(t, "a", instance="ia")
        heartbeat(t, "b", instance="ib")
        join(t, "a", version, instance="ia")
        t.settle()
        join(t, "b", version, instance="ib")
        describe(t, after_ms=0)


def trace_static_with_another_protocol(t: Trace) -> None:
    both = ("range", "roundrobin")
    static_stable(t, protocols=both)
    join(t, "b", member="", instance="ib", protocols=("roundrobin",))
    describe(t)
    join(t, "a", instance="ia", protocols=both)
    describe(t, after_ms=0)


def trace_static_with_changed_metadata(t: Trace) -> None:
    static_stable(t)
    join(t, "b", member="", instance="ib", metadata=OTHER, session=12_000, rebalance=15_000)
    describe(t)
    join(t, "b", member="", instance="ib", protocols=("other",))
    join(t, "b", member="", instance="ib", protocol_type="connect")
    join(t, "b", instance="ib", metadata=OTHER)
    join(t, "b", instance="ib")
    describe(t)


def trace_static_in_completing(t: Trace) -> None:
    static_pair(t)
    sync(t, "b", instance="ib")
    join(t, "b2", member="", instance="ib")
    describe(t, after_ms=0)
    heartbeat(t, "a", instance="ia")
    join(t, "a", instance="ia")
    describe(t, after_ms=0)


def trace_static_in_preparing(t: Trace) -> None:
    static_stable(t)
    join(t, "a", instance="ia")
    join(t, "a2", member="", instance="ia")
    describe(t, after_ms=0)
    join(t, "b2", member="", instance="ib")
    describe(t, after_ms=0)


def trace_static_member_stays(t: Trace) -> None:
    options = {"rebalance": 700, "session": 6000}
    static_stable(t, 7, "a", "b", **options)
    join(t, "a", instance="ia", **options)
    describe(t, after_ms=1200)
    sync(t, "a", instance="ia", assign={"a": b"A", "b": b"B"})
    sync(t, "b", instance="ib")
    heartbeat(t, "b", instance="ib", generation=3)
    describe(t, after_ms=900)
    heartbeat(t, "b", instance="ib")


def trace_static_leader_stays_away(t: Trace) -> None:
    options = {"rebalance": 700, "session": 6000}
    join(t, "a", member="", instance="ia", **options)
    enter(t, "b", **options)
    join(t, "a", instance="ia", **options)
    t.settle()
    sync(t, "b")
    sync(t, "a", instance="ia", assign={"a": b"A", "b": b"B"})
    t.settle()
    join(t, "b", metadata=OTHER, **options)
    describe(t, after_ms=1200)


def trace_dynamic_member_dropped(t: Trace) -> None:
    stable(t, "a", "b", rebalance=700)
    join(t, "a", rebalance=700)
    heartbeat(t, "b")
    t.settle(1200)
    heartbeat(t, "b")
    describe(t)


def trace_sync_timeout(t: Trace) -> None:
    completing(t, "a", "b", rebalance=700)
    t.settle()
    sync(t, "b")
    t.settle(400)
    heartbeat(t, "a")
    describe(t, after_ms=700)
    heartbeat(t, "a")


def trace_sync_timeout_in_stable(t: Trace) -> None:
    completing(t, "a", "b", rebalance=700)
    t.settle()
    sync(t, "a", assign={"a": b"A", "b": b"B"})
    describe(t)
    t.settle(400)
    heartbeat(t, "b")
    t.settle(700)
    heartbeat(t, "b")
    describe(t)


def trace_session_expires(t: Trace) -> None:
    stable(t, "a", "b", session=800)
    t.settle(500)
    heartbeat(t, "a")
    t.settle(550)
    heartbeat(t, "b")
    heartbeat(t, "a")
    describe(t)
    join(t, "a", session=800)
    describe(t, after_ms=0)
    describe(t, after_ms=1200)
