"""The view: what there is of groups, offsets and topics, as those outside see it."""

from __future__ import annotations

import dataclasses
import itertools
from types import SimpleNamespace

import pytest

from ottla.broker.core.groups.config import GroupConfig
from ottla.broker.core.topics.partition import Standing
from ottla.observe.record_times import AppendTimes
from ottla.observe.view import Identity, View
from ottla.protocol.apis import ApiKey
from ottla.protocol.consumer_protocol import Subscription, encode_subscription
from ottla.protocol.records import Record
from tests.handlers.conftest import NOW_MS, World
from tests.observe.why.story import assigned
from tests.support.batches import build_batch
from tests.support.requests import commit_fields, join_fields, request, sync_fields


class ViewedWorld(World):
    """A data plane with groups, and a view of it."""

    group_config = GroupConfig(group_initial_rebalance_delay_ms=0)

    async def start(self):
        self.member_ids = itertools.count(1)
        await super().start()
        self.view = View(
            Identity(1, self.engine.cluster_id, "0.1", "h:9092", NOW_MS - 5),
            self.groups,
            self.topics,
            self,
            server=SimpleNamespace(connections=range(3)),
            software_of=self.members.software_of,
        )
        return self

    def new_id(self):
        return str(next(self.member_ids))

    def advance(self, ms):
        super().advance(ms)
        self.run()

    def ask_now(self, key, fields, version):
        exchange = self.send(request(key, fields), version)
        self.run()
        return exchange

    def join(self, member_id="", topics=("t",), metadata=None, **options):
        metadata = encode_subscription(Subscription(topics=list(topics))) if metadata is None else metadata
        times = {"session_ms": 45_000, "rebalance_ms": 300_000}
        fields = join_fields("g", member_id=member_id, protocols={"range": metadata}, **times, **options)
        exchange = self.ask_now(ApiKey.JOIN_GROUP, fields, 3)
        self.advance(0)
        return exchange

    def sync(self, joined, assignment):
        answer = joined.response
        fields = sync_fields("g", answer.generation_id, answer.member_id, {answer.member_id: assignment})
        return self.ask_now(ApiKey.SYNC_GROUP, fields, 3)

    def stable(self, **owned):
        """A group of one member that owns some partitions."""
        joined = self.join(topics=tuple(owned))
        self.sync(joined, assigned(owned))
        return joined.response

    def commit(self, offsets, topic="t", member=None, group_id="g"):
        own = {} if member is None else {"generation": member.generation_id, "member_id": member.member_id}
        fields = commit_fields(group_id, [(topic, partition, offset) for partition, offset in offsets.items()], **own)
        exchange = self.ask_now(ApiKey.OFFSET_COMMIT, fields, 6)
        assert [row.error_code for row in exchange.response.topics[0].partitions] == [0] * len(offsets)

    def write(self, count=1, *, timestamp_ms=None, partition=0, topic="t"):
        """One batch."""
        at_ms = self.wall if timestamp_ms is None else timestamp_ms
        row = self.produced(build_batch([Record(0, at_ms, None, b"v")] * count), topic=topic, partition=partition)
        assert row.error_code == 0

    def note_appends(self):
        """Note the times of appends from now on, as a broker with metrics does."""
        times = self.view.record_times.noted = AppendTimes(100)
        for topic in self.topics.topics.values():
            for partition in topic.partitions:
                times.begin(partition.tp, partition.log.high_watermark, self.wall)
        passed_on = self.engine.on_appended

        def appended(tp):
            times.note(tp, self.engine.logs[tp].high_watermark, self.wall)
            passed_on(tp)

        self.engine.on_appended = appended

    def lag_seconds(self, group_id="g"):
        return [one.lag_seconds for one in self.view.offsets(group_id)]


@pytest.fixture
async def world():
    world = await ViewedWorld().start()
    await world.topic("t", partitions=2)
    return world


async def test_the_cluster(world):
    world.stable(t=[0])
    cluster = world.view.cluster()
    assert (cluster.node_id, cluster.version, cluster.listen, cluster.connections) == (1, "0.1", "h:9092", 3)
    assert (cluster.started_ms, cluster.now_ms) == (NOW_MS - 5, NOW_MS)
    assert (cluster.topics, cluster.groups, cluster.group_states) == (2, 1, {"Stable": 1})


async def test_topics_and_their_partitions(world):
    await world.topic("u", cleanup_policy="compact")
    world.write(3, partition=1)
    topic = world.view.topic("t")
    assert (topic.topic, topic.is_internal, topic.configs) == ("t", False, {})
    first, second = topic.partitions
    assert (first.high_watermark, second.high_watermark, second.last_stable_offset) == (0, 3, 3)
    assert second.size_bytes > first.size_bytes == 0
    assert world.view.topic("u").configs == {"cleanup.policy": "compact"}
    assert [one.topic for one in world.view.topics()] == ["__consumer_offsets", "t", "u"]
    assert world.view.topic("nobody") is None


async def test_a_stable_group_and_its_members(world):
    joined = world.stable(t=[1, 0])
    world.advance(2_000)
    group = world.view.group("g")
    assert (group.state, group.generation, group.protocol_type, group.protocol_name) == (
        "Stable",
        1,
        "consumer",
        "range",
    )
    assert (group.barrier, group.barrier_age_ms, group.awaited, group.pending_members) == ("", 0, [], [])
    (member,) = group.members
    assert (member.member_id, member.is_leader, member.client_id) == (joined.member_id, True, "client")
    assert (member.heard_ms, member.slack_ms, member.session_timeout_ms) == (2_000, 43_000, 45_000)
    assert (member.topics, member.assignment, member.waits_for) == (["t"], {"t": [0, 1]}, "")
    assert world.view.group_ids() == ["g"]
    assert world.view.group("nobody") is None and world.view.brief("nobody") is None
    assert world.view.offsets("nobody") == []


async def test_a_group_at_the_join_barrier(world):
    first = world.stable(t=[0])
    waiting = world.join()
    world.advance(1_500)
    group = world.view.group("g")
    assert (group.state, group.barrier, group.barrier_age_ms) == ("PreparingRebalance", "join", 1_500)
    assert group.awaited == [first.member_id]
    assert [(one.waits_for, one.is_gone) for one in group.members] == [("", False), ("join", False)]
    waiting.hang_up()
    assert [one.is_gone for one in world.view.group("g").members] == [False, True]


async def test_a_group_at_the_sync_barrier(world):
    joined = world.join().response
    group = world.view.group("g")
    assert (group.state, group.barrier, group.awaited) == ("CompletingRebalance", "sync", [joined.member_id])


async def test_a_group_that_starts_waits_for_more(world):
    machine = world.groups
    machine.config = dataclasses.replace(machine.config, group_initial_rebalance_delay_ms=3_000)
    world.join()
    assert world.view.group("g").barrier == "initial delay"


@pytest.mark.parametrize(
    ("said", "assignment"),
    [
        ({"metadata": b"\0"}, b"\0"),
        ({"protocol_type": "connect", "metadata": encode_subscription(Subscription(topics=["t"]))}, b"whatever"),
    ],
    ids=["cannot be read", "another kind of member"],
)
async def test_topics_that_are_not_known_are_not_guessed(world, said, assignment):
    world.sync(world.join(**said), assignment)
    (member,) = world.view.group("g").members
    assert (member.topics, member.assignment) == (None, {})


async def test_offsets_and_lag(world):
    member = world.stable(t=[0])
    world.write(10)
    world.commit({0: 4, 1: 0}, member=member)
    first, second = world.view.offsets("g")
    assert (first.committed_offset, first.log_end_offset, first.lag, first.member_id) == (4, 10, 6, member.member_id)
    assert (second.lag, second.lag_seconds, second.member_id) == (0, 0.0, None)
    brief = world.view.brief("g")
    assert (brief.lag, brief.members, brief.topics, brief.state) == (6, 1, ["t"], "Stable")
    assert [tuple(one) for one in world.view.progress("g")] == [("t", 0, 4, 10), ("t", 1, 0, 0)]


async def test_a_commit_past_the_end_has_no_lag(world):
    world.write(3)
    world.commit({0: 9})
    (offset,) = world.view.offsets("g")
    assert (offset.lag, offset.lag_seconds) == (0, 0.0)
    assert [tuple(one) for one in world.view.progress("g")] == [("t", 0, 9, 3)]


@pytest.mark.parametrize("standing", [Standing.ELSEWHERE, Standing.LOADING, Standing.OFFLINE])
async def test_offsets_of_a_partition_that_is_not_led_here_have_an_unknown_lag(world, standing):
    world.commit({0: 4})
    world.topics.topics["t"].partitions[0].standing = standing
    (offset,) = world.view.offsets("g")
    assert (offset.committed_offset, offset.lag, offset.log_end_offset) == (4, None, None)
    assert offset.has_unknown_end
    assert world.view.brief("g").lag is None


async def test_a_group_has_no_total_lag_if_that_of_a_partition_is_not_known(world):
    """One node's part of it was taken for all, though another partition was 10,000 behind."""
    world.write(3)
    world.commit({0: 1, 1: 0})
    assert world.view.brief("g").lag == 2
    world.topics.topics["t"].partitions[1].standing = Standing.ELSEWHERE
    assert world.view.brief("g").lag is None
    assert [(one.lag, one.has_unknown_end) for one in world.view.offsets("g")] == [(2, False), (None, True)]


async def test_offsets_of_a_topic_that_is_gone_have_no_lag(world):
    world.commit({0: 4})
    world.topics.topics.pop("t")
    (offset,) = world.view.offsets("g")
    assert (offset.committed_offset, offset.lag, offset.lag_seconds, offset.log_end_offset) == (4, None, None, None)
    assert world.view.brief("g").lag is None


async def test_who_owns_what(world):
    member = world.stable(t=[0])
    assert world.view.owners("g", {"t": [0, 1], "u": [0]}) == {("t", 0): member.member_id}
    assert world.view.owners("nobody", {"t": [0]}) == {}
    assert world.view.assignment("g", member.member_id) == {"t": [0]}
    assert world.view.assignment("g", "nobody") == {}
    assert (world.view.partition_count("t"), world.view.partition_count("nobody")) == (2, 0)


async def test_what_was_decoded_is_not_decoded_again_until_it_changes(world):
    member = world.stable(t=[0])
    before = world.view.group("g").members[0].assignment
    assert world.view.group("g").members[0].assignment is before
    joined = world.join(member.member_id)
    world.sync(joined, assigned({"t": [1]}))
    assert world.view.group("g").members[0].assignment == {"t": [1]}


# Lag in seconds


async def test_lag_in_seconds_is_exact_whatever_timestamps_the_producer_sets(world):
    world.note_appends()
    for minute in range(5):
        world.write(2, timestamp_ms=NOW_MS - 3_600_000 * minute)
        world.advance(60_000)
    for committed, age in ((0, 300.0), (1, 300.0), (2, 240.0), (7, 120.0), (9, 60.0), (10, 0.0)):
        world.commit({0: committed})
        assert world.lag_seconds() == [age], committed


async def test_records_that_were_there_before_are_as_old_as_their_timestamps(world):
    world.write(2, timestamp_ms=NOW_MS - 50_000)
    world.note_appends()
    world.advance(1_000)
    world.write(2, timestamp_ms=NOW_MS - 70_000)
    world.advance(4_000)
    world.commit({0: 0})
    assert world.lag_seconds() == [55.0]
    world.commit({0: 2})
    assert world.lag_seconds() == [4.0]


async def test_without_notes_the_timestamps_of_batches_count(world):
    world.write(2, timestamp_ms=NOW_MS - 50_000)
    world.write(2, timestamp_ms=NOW_MS - 20_000)
    world.commit({0: 2})
    assert world.lag_seconds() == [20.0]


async def test_log_append_time_is_exact_without_notes(world):
    await world.topic("l", message_timestamp_type="LogAppendTime")
    world.write(1, topic="l", timestamp_ms=NOW_MS - 99_000)
    world.advance(7_000)
    world.commit({0: 0}, topic="l")
    assert world.lag_seconds() == [7.0]


async def test_a_timestamp_of_tomorrow_is_not_older_than_now(world):
    world.write(1, timestamp_ms=NOW_MS + 3_000_000)
    world.commit({0: 0})
    assert world.lag_seconds() == [0.0]


async def test_lag_counts_from_the_log_start_where_records_were_deleted(world):
    world.note_appends()
    world.write(2)
    world.advance(50_000)
    world.write(2)
    world.advance(10_000)
    world.commit({0: 0})
    assert world.lag_seconds() == [60.0]
    await world.topics.topics["t"].partitions[0].log.trim(2)
    assert world.lag_seconds() == [10.0]
    await world.topics.topics["t"].partitions[0].log.trim(4)
    assert world.lag_seconds() == [0.0]
    assert [one.lag for one in world.view.offsets("g")] == [4]


async def test_a_batch_is_read_once_for_an_offset_that_stands_still(world):
    world.write(2)
    world.commit({0: 0})
    log, reads = world.engine.logs[("t", 0)], []
    read = log.read
    log.read = lambda *args, **kwargs: (reads.append(args), read(*args, **kwargs))[1]
    for _ in range(3):
        world.view.offsets("g")
    assert len(reads) == 1
    world.view.record_times.forget("t")
    world.view.offsets("g")
    assert len(reads) == 2


async def test_a_group_that_only_stores_offsets(world):
    world.commit({0: 0}, group_id="simple")
    group = world.view.group("simple")
    assert (group.state, group.protocol_type, group.members) == ("Empty", None, [])
