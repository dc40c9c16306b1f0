"""Joining: one trace for each rule, by kind of id and state of the group."""

from __future__ import annotations

from ottla.protocol.apis import ApiKey
from tests.differential.calls import (
    OTHER,
    SUBSCRIBED_V1,
    commit,
    commit_alone,
    delete,
    describe,
    enter,
    fetch,
    heartbeat,
    join,
    leave,
    listed,
    stable,
    sync,
)
from tests.differential.tracing import Trace


def trace_join_versions(t: Trace) -> None:
    for version in range(10):
        group = f"{t.name}-{version}"
        join(t, f"a{version}", version, member="", group=group)
        if version >= 4:
            join(t, f"a{version}", version, group=group)
        sync(t, f"a{version}", min(version, 5), assign={f"a{version}": b"x"}, group=group)
        join(t, f"b{version}", version, member="", group=group)
        if version >= 4:
            join(t, f"b{version}", version, group=group)
        heartbeat(t, f"a{version}", min(version, 4), group=group)
        join(t, f"a{version}", version, group=group)
        describe(t, min(version, 5), group, after_ms=0)
        leave(t, f"a{version}", min(version, 5), group=group)
        leave(t, f"b{version}", min(version, 5), group=group)
        describe(t, min(version, 5), group, after_ms=0)


def trace_join_refused(t: Trace) -> None:
    for version in (0, 4, 5, 7, 9):
        join(t, "a", version, group="", member="")
        join(t, "a", version, group="", member="x", session=1)
        join(t, "a", version, member="", session=299)
        join(t, "a", version, member="x", session=1_800_001)
        join(t, "a", version, member="nobody")
        join(t, "a", version, member="", protocols=())
        join(t, "a", version, member="nobody", protocols=())
        join(t, "a", version, member="", protocol_type="")
        join(t, "a", version, member="nobody", instance="i")
    stable(t, "m", "n")
    for version in (0, 4, 5, 7, 9):
        join(t, "b", version, member="", protocols=("other",))
        join(t, "b", version, member="nobody", protocols=("other",))
        join(t, "b", version, member="nobody")
        join(t, "b", version, member="nobody", instance="i")
        join(t, "b", version, member="", protocol_type="connect")
        join(t, "m", version, protocols=("other",))
        join(t, "m", version, protocol_type="connect")
        join(t, "m", version, instance="i")
        join(t, "n", version, protocols=())
    describe(t)


def trace_join_instance_of_old_versions(t: Trace) -> None:
    join(t, "a", 9, member="", instance="")
    describe(t)
    join(t, "b", 9, member="", instance="")
    describe(t, after_ms=0)


def trace_pending(t: Trace) -> None:
    join(t, "a", member="")
    describe(t)
    listed(t)
    heartbeat(t, "a", generation=0)
    sync(t, "a", generation=0)
    commit(t, "a", generation=0)
    commit(t, "a", generation=-1)
    fetch(t)
    join(t, "a", instance="i")
    join(t, "a", member="", protocols=())
    join(t, "a", protocols=())
    leave(t, "a")
    join(t, "a")
    leave(t, "a")
    delete(t)
    describe(t)


def trace_pending_in_stable(t: Trace) -> None:
    stable(t, "a", "b")
    join(t, "c", member="")
    for request in (heartbeat, sync, commit):
        request(t, "c", generation=2)
    describe(t)
    leave(t, "c")
    heartbeat(t, "a")
    join(t, "a")
    join(t, "b")
    describe(t, after_ms=0)


def trace_pending_holds_the_join(t: Trace) -> None:
    stable(t, "a")
    join(t, "c", member="")
    join(t, "a")
    heartbeat(t, "a")
    describe(t)
    join(t, "c")
    describe(t, after_ms=0)


def trace_pending_leaves_the_join(t: Trace) -> None:
    stable(t, "a")
    join(t, "c", member="")
    join(t, "a")
    leave(t, "c")
    describe(t, after_ms=0)


def trace_pending_expires(t: Trace) -> None:
    stable(t, "a")
    join(t, "c", member="", session=400)
    join(t, "a")
    describe(t, after_ms=900)
    join(t, "c")


def trace_rejoin_in_each_state(t: Trace) -> None:
    stable(t, "a", "b")
    join(t, "b")
    describe(t)
    join(t, "b", 9)
    join(t, "b", 0)
    join(t, "b", metadata=OTHER)
    describe(t)
    heartbeat(t, "a")
    heartbeat(t, "b")
    sync(t, "a")
    sync(t, "b")
    commit(t, "a")
    commit(t, "a", member="", generation=-1)
    join(t, "a")
    describe(t, after_ms=0)
    join(t, "a")
    join(t, "b", metadata=OTHER)
    describe(t)
    join(t, "b", metadata=SUBSCRIBED_V1)
    heartbeat(t, "a")
    join(t, "a")
    t.settle()
    sync(t, "b")
    join(t, "a", metadata=OTHER)
    t.settle()
    join(t, "b", metadata=SUBSCRIBED_V1)
    describe(t, after_ms=0)


def trace_second_join_replaces_the_first(t: Trace) -> None:
    stable(t, "a", "b")
    join(t, "b", metadata=OTHER)
    join(t, "b", metadata=SUBSCRIBED_V1)
    join(t, "a")
    t.settle()
    sync(t, "b")
    sync(t, "b")
    sync(t, "a", assign={"a": b"A", "b": b"B", "stranger": b"C"})
    describe(t, after_ms=0)


def trace_protocol_votes(t: Trace) -> None:
    lists = [
        (("range", "roundrobin"), ("roundrobin", "range")),
        (("roundrobin", "range"), ("range", "roundrobin")),
        (("sticky", "range"), ("range", "sticky")),
        (("cooperative-sticky", "roundrobin"), ("roundrobin", "cooperative-sticky")),
        (("a", "b", "c"), ("c", "b", "a")),
        (("zz", "yx"), ("yx", "zz")),  # of names in one bucket of a hash map, such as zz and yy, member ids decide
        (("range", "x"), ("y", "range")),
    ]
    for number, (first, second) in enumerate(lists):
        group = f"{t.name}-{number}"
        enter(t, f"a{number}", group=group, protocols=first)
        enter(t, f"b{number}", group=group, protocols=second)
        join(t, f"a{number}", group=group, protocols=first)
        t.settle(20)
        t.settle()
    group = f"{t.name}-three"
    enter(t, "a", group=group, protocols=("range", "sticky"))
    enter(t, "b", group=group, protocols=("sticky", "range"))
    enter(t, "c", group=group, protocols=("sticky", "range", "other"))
    join(t, "a", group=group, protocols=("range", "sticky"))
    t.settle(20)
    t.settle()


def trace_null_client(t: Trace) -> None:
    t.call(None, ApiKey.JOIN_GROUP, 7, group_id=t.name, session_timeout_ms=10_000, rebalance_timeout_ms=1000,
           protocol_type="consumer")  # fmt: skip
    t.call(None, ApiKey.HEARTBEAT, 3, group_id=t.name)
    describe(t)
    join(t, "", member="")
    join(t, "")
    sync(t, "")
    describe(t)


def trace_type_stays(t: Trace) -> None:
    stable(t, "a")
    leave(t, "a")
    describe(t)
    listed(t)
    enter(t, "b", protocol_type="connect", protocols=("default",))
    sync(t, "b", protocol_type="connect", protocol_name="default")
    describe(t)
    listed(t)


def trace_large_rebalance_timeouts(t: Trace) -> None:
    enter(t, "a", rebalance=-1)
    describe(t, after_ms=50)
    enter(t, "b", group=f"{t.name}-zero", rebalance=0)
    describe(t, 5, f"{t.name}-zero", after_ms=50)


def trace_waiting_first_join(t: Trace) -> None:
    enter(t, "a")
    describe(t)
    heartbeat(t, "a", generation=0)
    sync(t, "a", generation=0)
    commit(t, "a", generation=0)
    commit_alone(t)
    leave(t, "nobody", 5, ("nobody", None))
    describe(t, after_ms=900)


def trace_waiting_second_joins(t: Trace) -> None:
    enter(t, "a")
    t.settle(300)
    enter(t, "b")
    describe(t, after_ms=450)
    describe(t, after_ms=700)
    enter(t, "c")
    join(t, "c", member="nobody")
    join(t, "c", member="", instance="ic")
    describe(t)


def trace_waiting_pending_leaves(t: Trace) -> None:
    enter(t, "a")
    join(t, "b", member="")
    leave(t, "b")
    describe(t, after_ms=250)
    t.settle(700)


def trace_waiting_pending_expires(t: Trace) -> None:
    enter(t, "a")
    join(t, "b", member="", session=300)
    describe(t, after_ms=420)
    describe(t, after_ms=600)


def trace_waiting_all_leave(t: Trace) -> None:
    enter(t, "a")
    leave(t, "a")
    describe(t)
    describe(t, after_ms=800)
    enter(t, "b")
    describe(t, after_ms=800)


def trace_waiting_full(t: Trace) -> None:
    for who in "abcd":
        join(t, who, member="")
    for who in "abcd":
        join(t, who)
    describe(t, after_ms=1500)
    join(t, "c")
    join(t, "e", member="")
    join(t, "a")
    join(t, "e", member="")
    join(t, "b")
    describe(t, after_ms=0)


def trace_waiting_full_without_ids(t: Trace) -> None:
    for who in "abc":
        join(t, who, 3, member="")
    describe(t, after_ms=1500)
    join(t, "d", 3, member="")
    join(t, "a", 3)
    join(t, "d", 3, member="")
    leave(t, "b", 2)
    t.settle()
    join(t, "d", 3, member="")
    describe(t, after_ms=0)
