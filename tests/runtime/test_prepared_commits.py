"""Prepared commits beside the ordinary path, which is their reference.

Two brokers get the same bytes at the same moments; one of them serves every commit the ordinary way. Whatever happens
to groups, topics, the disk and the connections between: answers, records, events and memory are the same.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterable
from typing import Any

import pytest

from ottla.broker.core.events import CommitNote, Event, Observer, commit_event
from ottla.broker.core.topics.producers import TransactionMarker
from ottla.broker.dispatch import Dispatcher
from ottla.broker.engine import StorageFull, Unavailable
from ottla.broker.net.connection import Connection
from ottla.broker.runtime import prepared_commits
from ottla.broker.runtime.prepared_commits import ALIKE, LENGTH_BYTES, LENGTHS, TRIES, PreparedCommits
from ottla.observe.metrics.dispatcher import MeasuredDispatcher
from ottla.observe.metrics.requests import Requests
from ottla.protocol.apis import ApiKey
from ottla.protocol.internal_topics import OFFSETS_TOPIC
from ottla.protocol.records import TopicPartition
from tests.handlers.conftest import World
from tests.shell.host import Transport, UnboundedHost
from tests.sim.mutants import Mutant
from tests.support.peer import request_frame
from tests.support.requests import (
    commit_fields,
    delete_offsets_fields,
    join_fields,
    leave_fields,
    offset_fetch_fields,
    request,
    sync_fields,
    txn_commit_fields,
)  # fmt: skip

GROUPS = ("a", "b", "c")
TOPICS = {"t": 3, "u": 2}
CONNECTIONS = 4
STEPS = 250
SERVE = "ottla.broker.runtime.prepared_commits:Shapes.serve"
APPENDED = "groups.offsets.prepared:appended_all"


class Notes(Observer):
    """Keeps all events, as they are told."""

    wants_requests = True

    def __init__(self, wants_all: bool) -> None:
        self.wants_all = wants_all
        self.seen: list[Any] = []

    def __call__(self, event: Event) -> None:
        self.seen.append(event)

    def note_commit(self, note: CommitNote) -> None:
        self.seen.append((commit_event(note), note[6]))

    def count_commit(self, *what: Any) -> None:
        self.seen.append(what)


class Served(UnboundedHost):
    """A broker with connections, whose storage finishes when it is told to."""

    def __init__(self, *, prepares: bool, batches: bool, wants_all: bool) -> None:
        super().__init__()
        self.world = World(group_initial_rebalance_delay_ms=0)
        self.notes = Notes(wants_all)
        self.prepares = prepares
        self.fails: Exception | None = None
        self.prepared_commits = 0
        if batches:
            new_host, soon = self.world.new_host, self.world.scheduled.append
            self.world.new_host = lambda: new_host(defer=soon)  # type: ignore[method-assign]

    async def start(self) -> Served:
        world = await self.world.start()
        world.engine.fault = lambda tp, base_offset: self.fails if tp.topic == OFFSETS_TOPIC else None
        coordinator = world.groups
        coordinator.observer, coordinator.observed, coordinator.recorded = self.notes, True, self.notes.wants_all
        take = coordinator.commit_prepared

        def counted(*args: Any) -> Any:
            write = take(*args)
            self.prepared_commits += write is not None
            return write

        coordinator.commit_prepared = counted
        for topic, partitions in TOPICS.items():
            await world.topic(topic, partitions)
        self.prepared: PreparedCommits = world.services.prepared
        self.prepared.take_ordinary_path("it is the reference", not self.prepares)
        self.receive = Dispatcher(world.services, world.log).receive
        self.open()
        return self

    def open(self) -> None:
        self.transports = [Transport() for _ in range(CONNECTIONS)]
        self.connections = [self.connect(transport) for transport in self.transports]

    def connect(self, transport: Transport) -> Connection:
        connection = Connection(self, self)  # type: ignore[arg-type]
        connection.connection_made(transport)  # type: ignore[arg-type]
        return connection

    def call_soon(self, callback: Any) -> None:
        self.world.scheduled.append(callback)

    def send(self, at: int, frame: bytes) -> None:
        self.connections[at].data_received(frame)

    def hang_up(self, at: int) -> None:
        self.connections[at].connection_lost(None)
        self.transports[at] = Transport()
        self.connections[at] = self.connect(self.transports[at])

    def said(self) -> list[bytes]:
        return [transport.take() for transport in self.transports]

    def state(self) -> Any:
        """All that a group has of members and offsets, and what the log has, with the lines of the audit."""
        groups = {
            group.group_id: (
                group.state,
                group.generation,
                list(group.offsets.items()),
                dict(group.offsets.in_flight),
                dict(group.offsets.pending),
                [(member.member_id, member.session_deadline_ms) for member in group.members.values()],
                len(group.shard.in_flight),
            )
            for group in self.world.groups.groups.values()
        }
        logs = [
            (partition.tp, partition.log.read(0, max_bytes=1 << 30))
            for partition in self.world.topics.topics[OFFSETS_TOPIC].partitions
            if partition.log.high_watermark
        ]
        return groups, logs, self.world.log.lines


class Pair:
    """Both brokers, and what is done to them."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        batches, wants_all = seed % 2 == 0, seed % 3 == 0
        self.prepared = Served(prepares=True, batches=batches, wants_all=wants_all)
        self.ordinary = Served(prepares=False, batches=batches, wants_all=wants_all)
        self.both = (self.prepared, self.ordinary)
        self.correlation_id = 0
        self.shapes: list[tuple[int, int, dict[str, Any]]] = []
        self.commits = 0

    async def start(self) -> Pair:
        for one in self.both:
            await one.start()
        return self

    def group(self, group_id: str) -> Any:
        return self.ordinary.world.groups.groups.get(group_id)

    def ask(self, at: int, key: ApiKey, version: int, fields: dict[str, Any]) -> None:
        self.correlation_id += 1
        message = request(key, fields)
        for one in self.both:
            one.send(at, request_frame(key, version, message, self.correlation_id, f"client{at}"))

    # -- the steps

    async def commit(self) -> None:
        """Of a shape that was sent before, nearly always; with other offsets."""
        rng = self.random
        self.shapes = [shape for shape in self.shapes if rng.random() < 0.99]
        if not self.shapes or rng.random() < 0.05:
            self.shapes.append((rng.randrange(CONNECTIONS), rng.randint(2, 10), self.new_shape()))
        at, version, shape = rng.choice(self.shapes)
        places = [(topic, partition, rng.choice((0, rng.getrandbits(40)))) for topic, partition in shape["places"]]
        rest = {name: value for name, value in shape.items() if name != "places"}
        fields = commit_fields(rest.pop("group"), places, name=self.named, **rest)
        if version < 7:
            fields["group_instance_id"] = None
        self.commits += 1
        self.ask(at, ApiKey.OFFSET_COMMIT, version, fields)

    def new_shape(self) -> dict[str, Any]:
        rng = self.random
        group_id = rng.choice(GROUPS)
        every = [(topic, partition) for topic, count in TOPICS.items() for partition in range(count + 1)]
        known = [place for place in every if place[1] < TOPICS[place[0]]]
        places = rng.sample(known if rng.random() < 0.9 else every, rng.randint(1, 4))
        group = self.group(group_id)
        shape: dict[str, Any] = {
            "group": group_id,
            "places": sorted(places),
            "metadata": rng.choice(("", "", None, "m", "é" * 20, "x" * 5000 if rng.random() < 0.1 else "y")),
            "leader_epoch": rng.choice((-1, 3)),
        }
        if group is not None and group.members and rng.random() < 0.9:
            member = rng.choice(list(group.members.values()))
            shape |= {"generation": group.generation - (rng.random() < 0.1), "member_id": member.member_id}
            shape["instance"] = member.group_instance_id
        elif rng.random() < 0.2:
            shape["retention_ms"] = 100_000
        return shape

    def named(self, topic: str) -> dict[str, Any]:
        return {"name": topic, "topic_id": self.ordinary.world.id_of(topic)}

    async def join(self) -> None:
        at = self.random.randrange(CONNECTIONS)
        instance = self.random.choice((None, f"i{at}"))
        version = 3 if instance is None else 5
        self.ask(at, ApiKey.JOIN_GROUP, version, join_fields(self.random.choice(GROUPS), instance=instance))

    async def sync(self) -> None:
        group = self.group(self.random.choice(GROUPS))
        for member_id in list(group.members) if group is not None else ():
            fields = sync_fields(group.group_id, group.generation, member_id, {member_id: b"x"})
            self.ask(self.random.randrange(CONNECTIONS), ApiKey.SYNC_GROUP, 3, fields)

    async def leave(self) -> None:
        group = self.group(self.random.choice(GROUPS))
        if group is not None and group.members:
            fields = leave_fields(group.group_id, (self.random.choice(list(group.members)), None))
            self.ask(0, ApiKey.LEAVE_GROUP, 2, fields)

    async def delete_offsets(self) -> None:
        places = [("t", self.random.randrange(3))]
        self.ask(1, ApiKey.OFFSET_DELETE, 0, delete_offsets_fields(self.random.choice(GROUPS), places))

    async def fetch(self) -> None:
        self.ask(3, ApiKey.OFFSET_FETCH, 7, offset_fetch_fields(self.random.choice(GROUPS), stable=True))

    async def delete_group(self) -> None:
        self.ask(2, ApiKey.DELETE_GROUPS, 1, {"groups_names": [self.random.choice(GROUPS)]})

    async def replace_topic(self) -> None:
        name = self.random.choice(list(TOPICS))
        for one in self.both:
            await one.world.topics.delete([name])
        if self.random.random() < 0.5:
            await self.commit()
        for one in self.both:
            await one.world.topic(name, TOPICS[name])

    async def transact(self) -> None:
        rng = self.random
        producer = rng.randrange(2)
        group_id = rng.choice(GROUPS)
        fields = txn_commit_fields("tx", (producer, 0), group_id, [("t", rng.randrange(3), rng.getrandbits(30))])
        for one in self.both:
            message = request(ApiKey.TXN_OFFSET_COMMIT, fields)
            one.world.groups.commit_transactional_offsets(message, _Nobody(), *one.world.host.now())
            one.world.host.settle()
        if rng.random() < 0.5:
            commit = rng.random() < 0.5
            for one in self.both:
                partition = one.world.groups.shard_of(group_id).partition
                marker = TransactionMarker(producer, 0, 0, commit)
                one.world.host.write_marker(TopicPartition(OFFSETS_TOPIC, partition), marker, lambda *_: None)

    async def fail(self) -> None:
        error = self.random.choice((None, None, Unavailable("failed"), StorageFull("full")))
        for one in self.both:
            one.fails = error

    async def hang_up(self) -> None:
        at = self.random.randrange(CONNECTIONS)
        for one in self.both:
            one.hang_up(at)

    async def move(self) -> None:
        """Give a shard up, and take it over again."""
        for one in self.both:
            partition = one.world.groups.shard_of(self.random_group()).partition
            one.world.groups.unload(partition, *one.world.host.now())
            one.world.host.settle()
            one.world.run()
            await one.world.host.log_of(OFFSETS_TOPIC).load(partition)
            one.world.host.settle()
        self._moving = None

    _moving: str | None = None

    def random_group(self) -> str:
        """The same group for both brokers."""
        if self._moving is None:
            self._moving = self.random.choice(GROUPS)
        return self._moving

    async def wait(self) -> None:
        by_ms = self.random.choice((1, 10, 20_000))
        for one in self.both:
            one.world.advance(by_ms)

    async def run(self) -> None:
        for one in self.both:
            one.world.run()
            one.fails = None

    async def play(self) -> None:
        usual = [self.commit] * 30 + [self.run] * 10 + [self.sync] * 2 + [self.fetch, self.join, self.wait, self.fail]
        rare = [self.leave, self.delete_offsets, self.delete_group, self.replace_topic]
        rare += [self.transact, self.hang_up, self.move]
        for _ in range(STEPS):
            await self.random.choice(usual + rare if self.random.random() < 0.5 else usual)()
            self.compare()
        await self.run()
        self.compare()

    def compare(self) -> None:
        assert self.prepared.said() == self.ordinary.said(), "answers"
        assert self.prepared.notes.seen == self.ordinary.notes.seen, "events"
        for one in self.both:
            one.notes.seen.clear()
        assert self.prepared.state() == self.ordinary.state()
        _check(self.prepared)


class _Nobody:
    """Who asks for offsets in a transaction; nobody hears the answer."""

    client_id, client_host, api_version, encoded = "tx", "/127.0.0.1", 3, b""

    def reply(self, response: Any) -> None:
        """The answer."""


def _check(served: Served) -> None:
    """What is held is counted."""
    lengths = sum(len(one.prepared._by_length) for one in served.connections if one.prepared is not None)
    shapes = sum(shape.held_bytes for shape in served.prepared._shapes)
    assert served.prepared.held_bytes == shapes + lengths * LENGTH_BYTES


@pytest.mark.parametrize("first", range(0, 12, 4))
async def test_prepared_commits_are_as_ordinary_ones(first: int) -> None:
    prepared = commits = 0
    for seed in range(first, first + 4):
        pair = await Pair(seed).start()
        await pair.play()
        assert pair.ordinary.prepared_commits == 0
        prepared += pair.prepared.prepared_commits
        commits += pair.commits
    assert prepared > commits / 10, "hardly any commit was prepared"


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1000, 1200))
async def test_prepared_commits_are_as_ordinary_ones_at_length(seed: int) -> None:
    await (await Pair(seed).start()).play()


@pytest.mark.parametrize(
    ("where", "right", "wrong"),
    [
        (SERVE, "or shape.revision != common.topics.revision", ""),
        ("groups.offsets.prepared:prepare", "len(write.accepted) != len(asked) or", ""),
        ("groups.coordinator:GroupCoordinator.commit_prepared", "self.heard_of(group, prepared.member_id)", "pass"),
        (SERVE, "shape.told = tell_altered(common.audit, ctx, shape.prepared.group_id)", "pass"),
        (APPENDED, "waiter.done(m, NONE)", "pass"),
        (APPENDED, "in_flight.pop(write, True)", "in_flight.pop(write, None)"),
        (APPENDED, "write.tell(m, moved_back)", "pass"),
        (APPENDED, "counted = _count(m, counted)\n                write", "write"),
    ],
    ids=["a topic that is gone", "a partition that was refused", "a session that goes on", "the audit", "who waits",
         "a shard that was given up", "an offset that moved back", "the order of what is told"],
)  # fmt: skip
async def test_what_a_prepared_commit_must_not_forget(where: str, right: str, wrong: str) -> None:
    """The comparison counts as long as it finds what is left out."""
    with Mutant(right, where, right, wrong).planted(), pytest.raises((AssertionError, LookupError, ExceptionGroup)):
        for seed in range(20):
            await (await Pair(seed).start()).play()


# -- the shapes of a connection


@pytest.fixture
async def served() -> Served:
    return await Served(prepares=True, batches=False, wants_all=False).start()


def commit(
    served: Served, offset: int, *, partitions: Iterable[int] = (0,), metadata: str = "", group: str = "g", at: int = 0
) -> int:
    """Commit, be answered, and return how many commits were prepared ones until now."""
    fields = commit_fields(group, [("t", partition, offset) for partition in partitions], metadata=metadata)
    served.send(at, request_frame(ApiKey.OFFSET_COMMIT, 8, request(ApiKey.OFFSET_COMMIT, fields), offset, "c"))
    served.world.run()
    assert served.transports[at].take(), "no answer"
    return served.prepared_commits


async def test_the_third_commit_of_a_shape_is_a_prepared_one(served: Served) -> None:
    assert [commit(served, number) for number in range(4)] == [0, 0, 1, 2]
    assert served.world.groups.groups["g"].offsets.get("t", 0).offset == 3


async def test_commits_of_changing_partitions(served: Served) -> None:
    for number in range(2):
        for partitions in ((0,), (1,), (0, 1), (0, 1, 2)):
            commit(served, number, partitions=partitions)
    before = served.prepared_commits
    for partitions in ((0,), (0, 1), (1,), (0, 1, 2), (1,)):
        commit(served, 100, partitions=partitions)
    assert served.prepared_commits >= before + 4


async def test_what_never_comes_again_is_not_learned_for_ever(served: Served) -> None:
    for number in range(1000):
        commit(served, number, metadata=f"{number:04}")
    assert served.prepared_commits == 0
    assert len(served.prepared._shapes) <= min(TRIES, ALIKE)
    for number in range(200):
        commit(served, number, metadata="x" * number)
    assert len(served.connections[0].prepared._by_length) <= LENGTHS


async def test_the_memory_of_all_connections_is_bounded(served: Served) -> None:
    served.prepared.most_bytes = 3 * 9000
    for number in range(4):
        for at in range(CONNECTIONS):
            commit(served, number, group=f"group{at}", at=at)
    _check(served)
    assert 0 < served.prepared.held_bytes <= 3 * 9000
    for at in range(CONNECTIONS):
        served.hang_up(at)
    assert served.prepared.held_bytes == 0 and not served.prepared._shapes


async def test_no_shape_is_worked_out_for_which_there_is_no_room(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    worked_out: list[int] = []
    work_out = prepared_commits._pieces
    monkeypatch.setattr(prepared_commits, "_pieces", lambda *given: worked_out.append(1) or work_out(*given))
    for number in range(5):
        for at in range(2):
            commit(served, number, group=f"group{at}", at=at)
    served.prepared.most_bytes = served.prepared.held_bytes + 1000
    for number in range(200):
        for at in range(3):
            commit(served, number, group=f"group{at}", at=at)
    _check(served)
    assert len(worked_out) <= TRIES < 200


async def test_rules_that_change_are_looked_at_again(served: Served) -> None:
    for number in range(3):
        commit(served, number)
    served.prepared.changed()
    assert [commit(served, number) for number in range(2)] == [1, 2], "learned again by the first"
    served.prepared.take_ordinary_path("a rule for faults", True)
    assert commit(served, 9) == 2
    served.prepared.take_ordinary_path("a rule for faults", False)
    assert commit(served, 9) == 3


async def test_a_bug_in_a_prepared_commit_is_answered(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(3):
        commit(served, number)

    def fail(*args: Any) -> None:
        raise LookupError("a bug of ours")

    monkeypatch.setattr(served.world.groups, "commit_prepared", fail)
    commit(served, 9)
    assert served.world.log.events[-1] == "request failed"
    assert served.connections[0].open is None
    monkeypatch.undo()
    assert commit(served, 10)


async def test_prepared_commits_are_counted_and_timed(served: Served) -> None:
    requests = Requests(lambda: 0)
    served.receive = MeasuredDispatcher(served.world.services, served.world.log, "fused", requests).receive
    assert [commit(served, number) for number in range(5)] == [0, 0, 1, 2, 3]
    served.fails = Unavailable("failed")
    assert commit(served, 9) == 4
    (counted,) = requests.served()
    assert counted.api == "OffsetCommit"
    assert counted.by_error() == {"NONE": 5, "COORDINATOR_NOT_AVAILABLE": 1}


async def test_shapes_do_not_outlive_their_topics(served: Served) -> None:
    for number in range(3):
        commit(served, number)
    await served.world.topics.delete(["t"])
    await asyncio.sleep(0)
    assert commit(served, 4) == 1
