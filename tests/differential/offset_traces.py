"""Offsets and what administrators ask of groups; one trace for each rule."""

from __future__ import annotations

from ottla.protocol.apis import ApiKey
from ottla.protocol.groups import coordinator_partition
from ottla.protocol.messages.list_groups import ListGroupsRequest
from tests.differential.calls import (
    GROUP_PARTITIONS,
    OTHER,
    TOPIC,
    commit,
    commit_alone,
    delete,
    delete_offsets,
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

TYPES = (["classic"], ["Classic", "consumer"], ["CONSUMER"], ["nonsense"], [""], ["share"], [" classic"])


def trace_commit_keeps_the_session(t: Trace) -> None:
    stable(t, "a", session=800)
    t.settle(500)
    commit(t, "a")
    t.settle(500)
    heartbeat(t, "a")
    t.settle(500)
    sync(t, "a")
    t.settle(550)
    heartbeat(t, "a")


def trace_commits_to_the_empty_group(t: Trace) -> None:
    """Alone: other traces describe, fetch and delete this group as one that is not there."""
    for version in range(2, 10):
        commit_alone(t, version, group="")
        describe(t, 5, "")
    delete(t, 2, "")
    describe(t, 5, "")


def trace_commits(t: Trace) -> None:
    for version in range(2, 10):
        commit_alone(t, version)
        commit(t, "a", version, member="", generation=0, group=f"{t.name}-absent")
        commit(t, "a", version, member="x", generation=5, group=f"{t.name}-absent")
        commit(t, "a", version, member="x", generation=5)
        commit(t, "a", version, member="x", generation=-1)
        commit(t, "a", version, member="", generation=0)
        commit_alone(t, version, offsets=())
        commit_alone(t, version, offsets=[("absent", 0, 1)])
        commit_alone(
            t, version, offsets=[("absent", 0, 1), (TOPIC, 1, 5), (TOPIC, 3, 5), (TOPIC, -1, 5), (TOPIC, 2, -9)]
        )
        commit_alone(t, version, offsets=[(TOPIC, 0, version), (TOPIC, 0, version + 100)], epoch=version)
        fetch(t, wanted={TOPIC: [0, 1, 2, 3, 4]})
    commit(t, "a", 7, member="x", generation=-1, instance="i")
    describe(t)


def trace_commits_of_members(t: Trace) -> None:
    enter(t, "a")
    for version in (2, 7, 8):
        commit(t, "a", version)
        commit(t, "a", version, generation=0)
        commit(t, "a", version, generation=-1)
        commit_alone(t, version)
        commit(t, "a", version, member="nobody")
        commit(t, "a", version, member="nobody", offsets=())
        commit(t, "a", version, member="nobody", offsets=[("absent", 0, 1)])
    sync(t, "a", assign={"a": b"A"})
    for version in (2, 7, 8):
        commit(t, "a", version)
        commit(t, "a", version, generation=0)
        commit(t, "a", version, generation=-1)
        commit_alone(t, version)
        commit(t, "a", version, member="", generation=1)
        commit(t, "a", version, member="nobody")
    commit(t, "a", 7, instance="i")
    commit(t, "a", 7, instance="i", member="", generation=-1)
    join(t, "b", member="")
    join(t, "a")
    commit(t, "a", 8, [(TOPIC, 0, 77)])
    fetch(t)
    leave(t, "b")
    t.settle()
    leave(t, "a")
    commit_alone(t)
    commit(t, "a")
    fetch(t)


def trace_commit_metadata(t: Trace) -> None:
    for text in (None, "", "x" * 64, "x" * 65, "é" * 64, "é" * 65, "😀" * 32, "😀" * 33, "a\0b"):
        commit_alone(t, metadata=text)
        fetch(t)
    commit_alone(t, offsets=[("absent", 0, 1), (TOPIC, 0, 1)], metadata="x" * 65)
    commit_alone(t, metadata="x" * 65, group=f"{t.name}-new")
    # Kafka shows the group, which has no record, once something is written to its partition.
    number = next(
        n
        for n in range(999)
        if coordinator_partition(f"{t.name}-{n}", GROUP_PARTITIONS)
        == coordinator_partition(f"{t.name}-new", GROUP_PARTITIONS)
    )
    commit_alone(t, group=f"{t.name}-{number}")
    describe(t, 5, f"{t.name}-new")
    listed(t)


def trace_commit_retention(t: Trace) -> None:
    commit_alone(t, 2, retention=86_400_000, epoch=5)
    fetch(t)
    commit_alone(t, 4, retention=0)
    fetch(t)
    commit_alone(t, 6, epoch=5)
    fetch(t, 5)


def trace_offset_fetches(t: Trace) -> None:
    for version in range(1, 10):
        fetch(t, version)
        fetch(t, version, {})
        if version >= 2:
            fetch(t, version, everything=True)
    commit_alone(t, 8, offsets=[(TOPIC, 0, 5), (TOPIC, 2, 9)], epoch=3)
    for version in range(1, 10):
        for steady in (False, True) if version >= 7 else (False,):
            fetch(t, version, stable=steady)
            fetch(t, version, {}, stable=steady)
            fetch(t, version, {"absent": [0], TOPIC: [2, 0, 0, 77, -1]}, stable=steady)
            fetch(t, version, groups=[""], stable=steady)
            if version >= 2:
                fetch(t, version, everything=True, stable=steady)
                fetch(t, version, everything=True, groups=[f"{t.name}-absent"], stable=steady)
    fetch(t, 8, groups=[])
    fetch(t, 8, groups=[t.name, f"{t.name}-absent", "", t.name])
    fetch(t, 8, groups=[t.name, f"{t.name}-absent"], everything=True, stable=True)


def trace_offset_deletes(t: Trace) -> None:
    delete_offsets(t, {TOPIC: [0]})
    delete_offsets(t, {TOPIC: [0]}, group="")
    delete_offsets(t, {})
    commit_alone(t, 8, offsets=[(TOPIC, 0, 5), (TOPIC, 1, 6), (TOPIC, 2, 9)])
    delete_offsets(t, {})
    delete_offsets(t, {TOPIC: [0, 0, 7], "absent": [0]})
    fetch(t, everything=True)
    stable(t, "a", metadata=OTHER)
    delete_offsets(t, {TOPIC: [1]})
    fetch(t, everything=True)
    join(t, "a")
    t.settle()
    delete_offsets(t, {TOPIC: [2], "absent": [0], "other": [0]})
    sync(t, "a")
    delete_offsets(t, {TOPIC: [2, 9]})
    join(t, "a", metadata=b"junk")
    t.settle()
    delete_offsets(t, {TOPIC: [2]})
    fetch(t, everything=True)
    leave(t, "a")
    delete_offsets(t, {TOPIC: [2]})
    fetch(t, everything=True)
    delete(t)
    delete_offsets(t, {TOPIC: [2]})


def trace_offset_deletes_of_other_types(t: Trace) -> None:
    enter(t, "a", protocol_type="connect")
    delete_offsets(t, {TOPIC: [0], "absent": [0]})
    sync(t, "a", protocol_type="connect")
    delete_offsets(t, {TOPIC: [0]})
    leave(t, "a")
    delete_offsets(t, {TOPIC: [0]})


def trace_group_deletes(t: Trace) -> None:
    for version in range(3):
        delete(t, version, "", t.name, t.name, f"{t.name}-absent")
    commit_alone(t)
    enter(t, "a")
    delete(t)
    sync(t, "a")
    delete(t, 1)
    leave(t, "a")
    delete(t, 2, t.name, t.name)
    fetch(t, everything=True)
    describe(t)
    heartbeat(t, "a")
    commit(t, "a")
    join(t, "a")


def trace_describes(t: Trace) -> None:
    commit_alone(t, group=f"{t.name}-simple")
    stable(t, "a", "b")
    join(t, "s", member="", instance="is", group=f"{t.name}-static")
    t.settle(30)
    for version in range(7):
        describe(t, version)
        describe(t, version, f"{t.name}-absent", "", f"{t.name}-simple", f"{t.name}-static", t.name, t.name)
        if version >= 3:
            describe(t, version, operations=True)
            describe(t, version, f"{t.name}-absent", f"{t.name}-simple", operations=True)
        t.call("admin", ApiKey.DESCRIBE_GROUPS, version, groups=[])


def trace_lists(t: Trace) -> None:
    commit_alone(t, group=f"{t.name}-simple")
    stable(t, "a")
    enter(t, "b", group=f"{t.name}-completing", protocol_type="connect")
    join(t, "c", member="", group=f"{t.name}-pending")
    for version in ListGroupsRequest.versions:
        listed(t, version)
    for states in (["Stable"], ["stable", "EMPTY"], [" Empty "], ["nonsense"], ["Dead"], [""], ["Stable", "nonsense"]):
        listed(t, 4, states)
    for types in TYPES:
        listed(t, 5, (), types)
        listed(t, 5, ["Stable"], types)


def trace_find_coordinator(t: Trace) -> None:
    for version in range(7):
        for kind in (0, 2, 3, -1) if version else (0,):
            keys = [t.name, "", "x", t.name]
            if version < 4:
                for key in keys[:2]:
                    t.call("admin", ApiKey.FIND_COORDINATOR, version, key=key, key_type=kind)
            else:
                t.call("admin", ApiKey.FIND_COORDINATOR, version, coordinator_keys=keys, key_type=kind)
                t.call("admin", ApiKey.FIND_COORDINATOR, version, coordinator_keys=[], key_type=kind)
