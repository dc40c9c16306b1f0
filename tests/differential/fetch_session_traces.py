"""Fetch sessions, and topics that are named by their ids."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from ottla.protocol.apis import ApiKey
from ottla.protocol.primitives import ZERO_UUID
from tests.differential.log_calls import (
    WHO,
    batch,
    is_served,
    made,
    metadata,
    offsets,
    patched,
    produce,
    trim,
    until,
    wait_for,
)
from tests.differential.tracing import Trace
from tests.support.requests import produce_fields

NOBODY = UUID(int=1 << 70)
Wanted = tuple[str, int, int]  # topic, partition, offset
NAMES, IDS = 12, 18
LARGE = [batch(1, start=number, value=b"%d" % number * 300) for number in range(10)]


def identify(t: Trace, name: str) -> UUID:
    """Learn a topic's id, and wait until all its partitions are served."""
    (found,) = t.ask(ApiKey.METADATA, 12, topics=[{"name": name}]).topics
    t.topic_ids[name] = found.topic_id
    until(lambda: is_served(t, name, *range(len(found.partitions))))
    return UUID(int=found.topic_id.int)


class Session:
    """A consumer: its session's id and the epoch that comes next."""

    def __init__(self, t: Trace, version: int, who: str = WHO) -> None:
        self.t = t
        self.version = version
        self.who = who
        self.now = (0, 0)

    def fields(self, wanted: Sequence[Wanted], forgotten: Sequence[tuple[str, int]], options: dict[str, Any]) -> Any:
        session_id, epoch = options.pop("session", self.now)
        row = {"partition_max_bytes": 1 << 20} | options.pop("row", {})
        topics = [
            self.named(name) | {"partitions": [{"partition": index, "fetch_offset": offset, **row}]}
            for name, index, offset in wanted
        ]
        return {
            "max_wait_ms": 50,
            "min_bytes": 1,
            "max_bytes": 1 << 20,
            "session_id": session_id,
            "session_epoch": epoch,
            "topics": topics,
            "forgotten_topics_data": [self.named(name) | {"partitions": [index]} for name, index in forgotten],
        } | options

    def named(self, topic: str) -> dict[str, Any]:
        return {"topic": topic, "topic_id": self.t.id_of(topic)}

    def ask(self, *wanted: Wanted, forgotten: Sequence[tuple[str, int]] = (), **options: Any) -> Any:
        """Fetch, and go on with the session if that was its next request."""
        goes_on = "session" not in options
        fields = self.fields(wanted, forgotten, options)
        answer = self.t.call(self.who, ApiKey.FETCH, self.version, **fields)
        if goes_on and not answer.error_code:
            self.now = (answer.session_id, self.now[1] + 1)
        return answer

    def park(self, *wanted: Wanted, **options: Any) -> None:
        """Begin a fetch that waits; its answer is noted with the step that ends it."""
        self.t.start(self.who, ApiKey.FETCH, self.version, **self.fields(wanted, (), {"max_wait_ms": 20_000} | options))
        self.now = (self.now[0], self.now[1] + 1)


def both(t: Trace, count: int = 3) -> Any:
    """A consumer by name and one by id, each with a topic of its own."""
    for version in (7, 11, NAMES, 13, 15, IDS):
        name = made(t, f"v{version}", count)
        identify(t, name)
        yield Session(t, version), name


def trace_session_changes(t: Trace) -> None:
    for reader, name in both(t):
        reader.ask((name, 0, 0), (name, 1, 0), (name, 2, 0))
        reader.ask()
        produce(t, name, batch(2), partition=1)
        for _ in range(2):
            reader.ask()
        reader.ask((name, 1, 2))
        reader.ask()
        for index in (2, 0, 1):
            produce(t, name, batch(), partition=index)
        reader.ask()
        reader.ask((name, 0, 1), forgotten=[(name, 2)])
        reader.ask((name, 2, 0))
        reader.ask((name, 2, 1), (name, 1, 3))
        reader.ask()
        trim(t, name, 1, partition=1)
        for _ in range(2):
            reader.ask()
        reader.ask((name, 1, 0))
        reader.ask()
        reader.ask((name, 1, 3))
        reader.ask()
        reader.ask(forgotten=[(name, 0), (name, 1)])
        reader.ask(forgotten=[(name, 2)])
        reader.ask()


def trace_session_errors(t: Trace) -> None:
    for reader, name in both(t, 2):
        reader.ask((name, 0, 9), (name, 1, 0), (name, 7, 0))
        for _ in range(2):
            reader.ask()
        reader.ask((name, 0, 0))
        reader.ask()
        reader.ask((f"{t.name}-absent", 0, 0), forgotten=[(name, 7)])
        reader.ask()
        reader.ask((name, 1, 0), row={"current_leader_epoch": 5} if reader.version >= 9 else {})
        reader.ask()
        reader.ask((name, 1, 0))
        reader.ask()
        reader.ask(forgotten=[(f"{t.name}-absent", 0), (name, 1)])


def trace_session_epochs(t: Trace) -> None:
    for reader, name in both(t):
        everything = [(name, 0, 0), (name, 1, 0)]
        for session in ((77, 1), (0, 1), (0, -2), (77, -2), (-5, 1)):
            reader.ask(*everything, session=session)
        reader.ask(*everything, session=(77, -1))
        reader.ask(*everything, session=(77, 0))
        reader.ask(*everything)
        session_id, _ = reader.now
        for epoch in (2, 9, -2, -9):
            reader.ask(session=(session_id, epoch))
        reader.ask()
        reader.ask(session=(session_id, 1))
        reader.ask()
        renewed = reader.ask(*everything, session=(session_id, 0))
        reader.ask(session=(session_id, 3))
        reader.ask(session=(renewed.session_id, 1))
        reader.ask((name, 1, 0), session=(renewed.session_id, -1))
        reader.ask(session=(renewed.session_id, 2))
        reader.now = (0, 0)
        reader.ask()  # a session of nothing
        reader.ask()
        reader.now = (0, 0)
        reader.ask()
        reader.ask((name, 0, 0))


def trace_session_ids_at_the_edges(t: Trace) -> None:
    name = made(t)
    identify(t, name)
    for version in (7, IDS):
        for session_id in (2**31 - 9, 2**31 - 8, 2**31 - 1, -(2**28) + 2, -(2**28) + 1, -(2**31)):
            for epoch in (-2, -1, 1):
                Session(t, version).ask((name, 0, 0), session=(session_id, epoch))


def trace_session_ids_and_names(t: Trace) -> None:
    name = made(t, count=2)
    identify(t, name)
    for version, other in ((NAMES, 13), (IDS, NAMES)):
        reader = Session(t, version)
        reader.ask((name, 0, 0))
        reader.version = other
        reader.ask()
        reader.ask((name, 1, 0))
        reader.version = version
        reader.ask((name, 1, 0))


def trace_session_turns(t: Trace) -> None:
    """Who gave records goes to the end of the line."""
    for reader, name in both(t):
        for index in range(3):
            for data in LARGE[:2]:
                produce(t, name, data, partition=index)
        size = len(LARGE[0])
        for limit in (size, 2 * size, 3 * size + 10):
            reader.now = (0, 0)
            reader.ask((name, 2, 0), (name, 0, 0), (name, 1, 0), max_bytes=limit)
            for _ in range(5):
                reader.ask(max_bytes=limit)
            reader.ask((name, 0, 1), max_bytes=limit)
            reader.ask((name, 2, 2), max_bytes=limit)
            for _ in range(4):
                reader.ask(max_bytes=limit)
            reader.ask(max_bytes=limit, row={"partition_max_bytes": 1})


def trace_session_parked(t: Trace) -> None:
    for reader, name in both(t):
        reader.park((name, 0, 0), (name, 1, 0), (name, 7, 0))
        t.settle()
        produce(t, name, batch(), partition=1)
        for answer in t.settle().values():
            reader.now = (answer.session_id, 1)
        reader.park((name, 1, 1), (name, 2, 0), min_bytes=200)
        t.settle()
        produce(t, name, batch(), partition=0)
        t.settle()
        produce(t, name, batch(), partition=1)
        t.settle()
        produce(t, name, batch(), partition=2)
        t.settle()
        reader.ask((name, 0, 1), (name, 1, 2))
        # Another request of the session overtakes the one that waits.
        reader.ask((name, 2, 1))
        reader.park()
        t.settle()
        reader.ask(forgotten=[(name, 2)])
        produce(t, name, batch(), partition=0)
        t.settle()
        reader.ask()
        reader.ask()


def delete(t: Trace, name: str) -> None:
    t.ask(ApiKey.DELETE_TOPICS, 5, topic_names=[name], timeout_ms=5000)
    wait_for(t, name, gone=True)


def trace_session_of_a_deleted_topic(t: Trace) -> None:
    for reader, name in both(t, 2):
        other = made(t, f"other{reader.version}")
        identify(t, other)
        produce(t, name, batch(3))
        reader.ask((name, 0, 0), (other, 0, 0), (name, 1, 0))
        delete(t, name)
        for _ in range(2):
            reader.ask()
        former = t.id_of(name)
        made(t, f"v{reader.version}", 2)
        renewed = identify(t, name)
        produce(t, name, batch())
        for topic_id in (former, renewed):
            t.topic_ids[name] = topic_id
            reader.ask((name, 0, 0))
            for _ in range(2):
                reader.ask()
        t.topic_ids[name] = former
        reader.ask(forgotten=[(name, 0), (name, 1)])
        reader.ask()


def trace_session_of_committed_records(t: Trace) -> None:
    for reader, name in both(t):
        reader.ask((name, 0, 0), (name, 1, 0), isolation_level=1)
        produce(t, name, batch(2))
        reader.ask(isolation_level=1)
        reader.ask((name, 0, 2), isolation_level=1)
        reader.ask(isolation_level=0)
        reader.ask(isolation_level=2)
        reader.ask(isolation_level=1)


def trace_fetch_order(t: Trace) -> None:
    """Errors of what there is not come last, and what is named twice is read as it was named last."""
    a, b = made(t, "a", 2), made(t, "b", 2)
    for name in (a, b):
        identify(t, name)
        produce(t, name, batch(2), batch(1))
    absent = f"{t.name}-absent"
    for version in (4, NAMES, 13, IDS):
        for wanted in (
            [(a, 0, 0), (b, 0, 0), (a, 1, 0)],
            [(a, 0, 0), (a, 1, 0), (b, 1, 0)],
            [(absent, 0, 0), (a, 0, 0), (absent, 1, 0), (b, 7, 0), (a, 1, 1)],
            [(a, 7, 0), (a, -1, 0)],
            [(a, 0, 0), (b, 0, 0), (a, 0, 1)],
            [(a, 0, 9), (a, 0, 0)],
            [],
        ):
            reader = Session(t, version)
            reader.ask(*wanted, session=(0, -1))
            reader.ask(*wanted, session=(0, -1), min_bytes=10_000, max_bytes=100)
            topics = [reader.named(a) | {"partitions": []}]
            t.call(WHO, ApiKey.FETCH, version, max_wait_ms=50, min_bytes=1, max_bytes=100, topics=topics)


def trace_fetch_limits(t: Trace) -> None:
    """What a limit cuts off counts as read: for what a fetch waits for, and for the partitions behind."""
    name = made(t, count=2)
    identify(t, name)
    for index in range(2):
        for data in LARGE[:3]:
            produce(t, name, data, partition=index)
    size = len(LARGE[0])
    limits = [1, size - 1, size, size + 1, 2 * size - 1, 2 * size, 3 * size, 3 * size + 1, 4 * size + 9, 9 * size]
    for isolation in (0, 1):
        reader = Session(t, IDS)
        for limit in limits:
            for offset in (0, 2):
                wanted = [(name, 0, offset), (name, 1, 0)]
                reader.ask(*wanted, session=(0, -1), max_bytes=limit, isolation_level=isolation)
                reader.ask(*wanted, session=(0, -1), isolation_level=isolation, row={"partition_max_bytes": limit})
    for limit in limits:
        for least in (limit - 1, limit, limit + 1, 2 * limit):
            reader = Session(t, IDS)
            reader.park((name, 0, 0), session=(0, -1), min_bytes=least, row={"partition_max_bytes": limit},
                        max_wait_ms=100)  # fmt: skip
            t.settle()
            t.settle(120)


def trace_fetch_of_followers(t: Trace) -> None:
    name = made(t)
    identify(t, name)
    produce(t, name, batch(4))
    for version in (4, 11, 14, 15, 18):
        reader = Session(t, version)
        for replica in (-9, -2, -1, 0, 1, 5):
            who = {"replica_id": replica} if version < 15 else {"replica_state": {"replica_id": replica}}
            for offset in (0, 4, 99):
                reader.ask((name, 0, offset), session=(0, -1), **who)
            for epoch in (0, 7) if version >= 9 else ():
                reader.ask((name, 0, 0), session=(0, -1), row={"current_leader_epoch": epoch}, **who)


def trace_fetch_by_id(t: Trace) -> None:
    name = made(t, count=2)
    identify(t, name)
    for number in range(3):
        produce(t, name, batch(3, start=number * 10))
    for version in range(13, 19):
        reader = Session(t, version)
        for offset in (0, 4, 9, 10, -1):
            reader.ask((name, 0, offset), session=(0, -1))
            reader.ask((name, 0, offset), session=(0, -1), isolation_level=1)
        for epoch in (0, 1, 7):
            reader.ask((name, 0, 0), session=(0, -1), row={"current_leader_epoch": epoch})
            reader.ask((name, 0, 0), session=(0, -1), row={"last_fetched_epoch": epoch})
        for topic_id in (NOBODY, ZERO_UUID):
            topics = [{"topic_id": topic_id, "partitions": [{"partition": 0}]}]
            t.call(WHO, ApiKey.FETCH, version, max_wait_ms=50, min_bytes=1, max_bytes=100, topics=topics)


def trace_produce_by_id(t: Trace) -> None:
    name = made(t, count=2)
    known = identify(t, name)
    wrong = patched(batch(), 30, b"\xff", seal=False)
    for topic_id, index, data in (
        (known, 0, batch(2)),
        (known, 9, batch()),
        (known, 1, b""),
        (known, 1, wrong),
        (NOBODY, 0, batch()),
        (ZERO_UUID, 0, batch()),
    ):
        for acks in (-1, 1, 7):
            t.call(WHO, ApiKey.PRODUCE, 13, **produce_fields(topic_id, data, index, acks, timeout_ms=5000))
    offsets(t, name, -1, -2, -3, -4, -5, -6, version=11)
    delete(t, name)
    made(t, count=2)
    until(lambda: identify(t, name) != known)
    t.call(WHO, ApiKey.PRODUCE, 13, **produce_fields(known, batch(), timeout_ms=5000))
    metadata(t, 13, name, f"{t.name}-absent")
    metadata(t, 13, ids=[known, NOBODY])


def trace_newer_list_offsets(t: Trace) -> None:
    name = made(t)
    for filled in (False, True):
        for version in range(7, 12):
            for partition in (0, 7):
                offsets(t, name, *range(-8, 0), version=version, partition=partition)
                offsets(t, name, *range(-8, 0), version=version, partition=partition, isolation=1)
        if not filled:
            for number in range(3):
                produce(t, name, batch(3, start=number * 10))


def trace_newer_describe_cluster(t: Trace) -> None:
    for version in range(3):
        for kind in (1,) if version == 0 else range(4):
            for fenced in (False, True)[: 1 + (version >= 2)]:
                t.call(WHO, ApiKey.DESCRIBE_CLUSTER, version, endpoint_type=kind, include_fenced_brokers=fenced)
