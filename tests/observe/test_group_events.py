"""What happens to groups becomes records: every kind, on injected time."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import msgspec
import pytest

from ottla.broker.core.events import (
    CommitReceived,
    Event,
    OffsetsCommitted,
    OffsetsRemoved,
    RequestReceived,
    SessionExtended,
    StateChanged,
)
from ottla.observe.group_events import MOST_CHARACTERS, GroupEvents, plain
from ottla.observe.recorder_hashes import Hashes
from ottla.observe.sentinels.model import Alarm
from ottla.observe.why.history import History
from tests.observe.why.story import GROUP, Story


class Written(History):
    """A history that is told after the records are made, as the broker's is."""

    def __init__(self, hashes: Hashes | None = None) -> None:
        super().__init__(budget_bytes=0)
        self.records: list[tuple[bytes, bytes, int]] = []
        self.events = GroupEvents(self, lambda *record: self.records.append(record), hashes)
        self.on_episode.append(self.events.on_episode)

    def __call__(self, event: Event) -> None:
        self.events(event)
        super().__call__(event)

    def rows(self, name: str = "") -> list[dict[str, Any]]:
        rows = [msgspec.json.decode(value) for _, value, _ in self.records]
        return [row for row in rows if name in ("", row["event"])]


class Told(Story):
    """A story whose records can be asked for."""

    def __init__(self, hashes: Hashes | None = None, **config: Any) -> None:
        self.written = Written(hashes)
        super().__init__(history=self.written, **config)

    def rows(self, name: str = "") -> list[dict[str, Any]]:
        return self.written.rows(name)

    def row(self, name: str) -> dict[str, Any]:
        [row] = self.rows(name)
        return row

    def forget(self) -> None:
        self.written.records.clear()


@pytest.fixture
def story() -> Told:
    """Two members, Stable in generation 2."""
    story = Told()
    story.start("a1")
    story.join("b2")
    story.wait(250)
    story.join("a1")
    story.sync("a1", "b2")
    return story


def test_a_join(story: Told) -> None:
    story.forget()
    story.join("c3", reason="a word of mine")
    first, second = story.rows("join_received")
    assert (first["member"], first["client"], first["host"]) == ("", "c3", "/10.0.0.1")
    assert (first["reason"], first["generation"], first["group"], first["v"]) == ("a word of mine", 2, GROUP, 1)
    assert second["member"] == story["c3"].member_id
    assert (second["session_timeout_ms"], second["rebalance_timeout_ms"]) == (45_000, 300_000)
    assert second["ts_ms"] == story.world.wall_ms
    assert {key for key, _, _ in story.written.records} == {GROUP.encode()}
    assert story.written.records[0][2] == first["ts_ms"]
    assert not {"duration_ms", "instance"} & first.keys()


def test_the_first_generation() -> None:
    story = Told()
    story.start("a1")
    started, completed = story.row("rebalance_started"), story.row("rebalance_completed")
    assert (started["generation"], started["members"], started["client"]) == (0, 1, "a1")
    assert (completed["generation"], completed["outcome"], completed["members"]) == (1, "stable", 1)
    assert (completed["cause"], completed["reason"], completed["client"]) == ("group-started", "group-started", "a1")
    assert completed["duration_ms"] == completed["ts_ms"] - started["ts_ms"] == 1
    assert completed["moved"] == 6
    assert (completed["trigger"], completed["culprit"]) == (story["a1"].member_id, "")


def test_a_rebalance_that_waits(story: Told) -> None:
    completed = story.rows("rebalance_completed")[-1]
    assert (completed["generation"], completed["duration_ms"], completed["cause"]) == (2, 250, "member-joined")
    assert (completed["member"], completed["client"], completed["host"]) == (story["b2"].member_id, "b2", "/10.0.0.0")
    assert completed["trigger"] == completed["culprit"] == completed["member"]
    assert completed["waited_for"] == [story["a1"].member_id]
    assert (completed["members"], completed["moved"]) == (2, 3)
    started = story.rows("rebalance_started")[-1]
    assert (started["generation"], started["client"], started["members"]) == (1, "b2", 2)


def test_a_member_leaves(story: Told) -> None:
    story.forget()
    member_id = story["b2"].member_id
    story.leave("b2", reason="the consumer is being closed")
    left = story.row("member_left")
    assert (left["member"], left["client"], left["host"]) == (member_id, "b2", "/10.0.0.0")
    assert (left["how"], left["reason"], left["generation"]) == ("left", "the consumer is being closed", 2)
    story.join("a1")
    story.sync("a1")
    completed = story.row("rebalance_completed")
    assert completed["reason"] == "left-closed: the consumer is being closed"
    assert (completed["client"], completed["members"]) == ("b2", 1)


def test_an_administrator_removes_a_member(story: Told) -> None:
    story.forget()
    story.leave("b2", reason="member was removed by an admin: 12 of them", by="tool")
    assert story.row("member_left")["client"] == "b2"
    assert story.row("rebalance_started")["client"] == "tool"


def test_without_a_client_s_words(story: Told) -> None:
    story.forget()
    story.leave("b2", reason=None)
    assert story.row("member_left")["reason"] == ""
    story.join("a1")
    story.sync("a1")
    completed = story.row("rebalance_completed")
    assert completed["reason"] == completed["cause"] == "left-without-reason"


def test_the_last_member_leaves(story: Told) -> None:
    story.leave("b2")
    story.join("a1")
    story.sync("a1")
    story.forget()
    story.leave("a1")
    completed = story.row("rebalance_completed")
    assert (completed["outcome"], completed["generation"], completed["members"]) == ("empty", 4, 0)
    assert completed["client"] == "a1"


def test_a_member_is_not_heard_of(story: Told) -> None:
    story.forget()
    member_id = story["b2"].member_id
    story.wait(46_000, beating=["a1"])
    expired = story.row("heartbeat_expired")
    assert (expired["member"], expired["client"], expired["generation"]) == (member_id, "b2", 2)
    assert (expired["silent_ms"], expired["session_timeout_ms"]) == (45_000, 45_000)
    assert "duration_ms" not in expired
    story.join("a1")
    story.sync("a1")
    completed = story.row("rebalance_completed")
    assert completed["client"] == "b2"
    assert completed["cause"] == completed["reason"] != "unknown"


def test_a_member_misses_the_join_barrier(story: Told) -> None:
    story.forget()
    story.join("c3")
    story.wait(300_000, beating=["a1", "b2", "c3"])
    dropped = story.rows("member_left")
    assert {(row["client"], row["how"], row["reason"]) for row in dropped} == {
        ("a1", "dropped", "did not rejoin in time"),
        ("b2", "dropped", "did not rejoin in time"),
    }


def test_a_member_misses_the_sync_barrier(story: Told) -> None:
    story.forget()
    story.join("c3", "a1", "b2")
    story.sync("a1", "b2")
    story.wait(300_000, beating=["a1", "b2", "c3"])
    [unsynced] = [row for row in story.rows("member_left") if row["how"] == "unsynced"]
    assert (unsynced["client"], unsynced["reason"]) == ("c3", "sent no SyncGroup in time")


def test_an_id_that_nobody_came_back_with_is_no_member(story: Told) -> None:
    story.forget()
    story.join_once("c3")
    story.wait(46_000, beating=["a1", "b2"])
    assert [row["event"] for row in story.rows()] == ["join_received"]


def test_a_static_member_is_replaced() -> None:
    story = Told()
    story.new("s1", instance="place-1")
    story.start("s1")
    old = story["s1"].member_id
    story.forget()
    story["s1"].member_id = ""
    story.join("s1")
    story.wait(1)
    fenced = story.row("static_member_fenced")
    assert (fenced["member"], fenced["replaced_by"], fenced["instance"]) == (old, story["s1"].member_id, "place-1")
    assert (fenced["client"], fenced["generation"]) == ("s1", 1)
    assert story.row("join_received")["instance"] == "place-1"
    assert not story.rows("rebalance_completed")  # the generation is the same


def test_another_rebalance_begins_before_the_end(story: Told) -> None:
    story.forget()
    story.join("c3", "a1", "b2")
    story.join("d4")
    superseded = story.row("rebalance_superseded")
    assert (superseded["generation"], superseded["outcome"], superseded["client"]) == (3, "superseded", "c3")
    assert not story.rows("rebalance_completed")


def test_the_broker_stops_and_another_takes_over(story: Told) -> None:
    story.forget()
    story.restart()
    loaded = story.row("coordinator_moved")
    assert (loaded["reason"], loaded["generation"], loaded["members"]) == ("loaded", 2, 2)
    story.forget()
    story.world.coordinator.unload(0, story.world.now_ms, story.world.wall_ms)
    story.settle()
    given_up = story.row("coordinator_moved")
    assert (given_up["reason"], given_up["generation"], given_up["members"]) == ("given up", 2, 2)
    assert given_up["cause"] == "coordinator-moved"


def test_offsets_expire_and_are_deleted() -> None:
    written = Written()
    common: dict[str, Any] = {"group_id": "g", "cause": 1, "wall_ms": 77, "partitions": 3}
    written(OffsetsRemoved(reason="expired", **common))
    written(OffsetsRemoved(reason="deleted by a client", **common))
    [row] = written.rows()
    assert (row["event"], row["partitions"], row["ts_ms"], row["generation"]) == ("offset_expired", 3, 77, -1)


def test_alarms(story: Told) -> None:
    story.forget()
    alarm = Alarm("zombie", GROUP, "", 1_000, 1_000, "The group waits for b2.", {"member": "b2"})
    story.written.events.on_alarm(alarm)
    alarm.cleared_ms = 4_500
    story.written.events.on_alarm(alarm)
    raised, cleared = story.rows()
    assert (raised["event"], raised["reason"], raised["ts_ms"]) == (
        "alarm_raised",
        "zombie: The group waits for b2.",
        1_000,
    )
    assert (cleared["event"], cleared["ts_ms"], cleared["lasted_ms"]) == ("alarm_cleared", 4_500, 3_500)
    assert (raised["generation"], raised["client"]) == (2, "b2")
    assert "lasted_ms" not in raised


def test_hidden_names_are_nowhere() -> None:
    hashes = Hashes(b"key", group_ids=True, client_hosts=True)
    story = Told(hashes, group_max_size=2)
    story.start("a1")
    story.join("b2", "a1")
    story.sync("a1", "b2")
    story.restart(group_max_size=1)
    story.leave("b2")
    story.written.events.on_alarm(Alarm("zombie", GROUP, "orders", 1, 1, f"{GROUP} waits for 10.0.0.1"))
    told = b" ".join(part for key, value, _ in story.written.records for part in (key, value))
    assert GROUP.encode() not in told
    assert b"10.0.0" not in told
    assert {row["group"] for row in story.rows()} == {hashes.group(GROUP)}
    assert {key for key, _, _ in story.written.records} == {hashes.group(GROUP).encode()}
    assert "Freshly-loaded group group-" in story.rows("rebalance_started")[-1]["reason"]
    assert story.row("alarm_raised")["reason"] == "zombie: orders"
    assert {row["host"] for row in story.rows("join_received")} == {hashes.host("/10.0.0.9"), hashes.host("/10.0.0.0")}


@pytest.mark.parametrize(
    "name",
    [
        '"}{',
        "a\x00b\n\r\t",
        "\ud83d\ude00".encode("utf-16", "surrogatepass").decode("utf-16"),
        "x" * 30_000,
        "ä–ß" * 999,
    ],
)
def test_hostile_names(name: str) -> None:
    story = Told()
    story.new("a1", host=f"/{name}")
    story.join("a1", reason=name)
    story.wait(1)
    story.sync("a1")
    rows = story.rows()
    assert [row["event"] for row in rows][-1] == "rebalance_completed"
    assert rows[0]["reason"] in (name, f"{name[: MOST_CHARACTERS - 1]}…")
    assert max(len(value) for _, value, _ in story.written.records) < 6 * 4 * MOST_CHARACTERS


def test_a_client_s_words_that_differ_each_time() -> None:
    assert plain("need to revoke partitions [orders-1, orders-2] and more") == "need to revoke partitions … and more"
    assert plain("member c-77-aa  was idle for 3000 ms\n") == "member … was idle for … ms"
    assert plain("the consumer is being closed") == "the consumer is being closed"
    assert len(plain("word " * 5_000)) == MOST_CHARACTERS


def test_what_comes_with_heartbeats_and_commits_is_not_wanted() -> None:
    written = Written()
    for kind in (CommitReceived, OffsetsCommitted, RequestReceived, SessionExtended):
        assert not written.events.wants(kind)


@pytest.mark.parametrize("seed", range(6))
def test_each_generation_that_became_stable_is_told_once(seed: int) -> None:
    """Members come, go, fall silent and are replaced, at any time."""
    chance = random.Random(seed)
    story = Told()
    names = [f"m{number}" for number in range(5)]
    story.new("m0", instance="place")
    for _ in range(700):
        name = chance.choice(names)
        match chance.randrange(8):
            case 0 | 1:
                story.join(name)
            case 2 | 3:
                story.sync(name)
            case 4 if story[name].member_id:
                story.leave(name)
            case 5:
                story.wait(chance.choice((1, 700, 20_000, 50_000)), beating=chance.sample(names, 3))
            case 6:
                story[name].member_id = ""
            case _:
                for each in names:
                    story.join(each)
                story.sync(*names)
    generations = [
        event.generation
        for event in story.seen
        if isinstance(event, StateChanged) and event.after in ("Stable", "Empty") and event.before != event.after
    ]
    told = [row["generation"] for row in story.rows("rebalance_completed")]
    assert told == generations
    assert Counter(told).most_common(1)[0][1] == 1
    assert len(told) > 10
    assert all(row["duration_ms"] >= 0 and row["cause"] for row in story.rows("rebalance_completed"))
