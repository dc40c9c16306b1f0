"""What happens to groups becomes records: every kind, on injected time."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
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
from tests.core.scenario_text import compare, read_scenarios
from tests.core.world import WALL_MS
from tests.observe.why.stories import play
from tests.observe.why.story import GROUP, Story

STORIES = Path(__file__).with_name("group_events.story")
CASES = read_scenarios(STORIES)


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

    def __init__(
        self, partitions: dict[str, int] | None = None, *, hashes: Hashes | None = None, **config: Any
    ) -> None:
        self.written = Written(hashes)
        super().__init__(partitions, history=self.written, **config)

    def rows(self, name: str = "") -> list[dict[str, Any]]:
        return self.written.rows(name)

    def row(self, name: str) -> dict[str, Any]:
        [row] = self.rows(name)
        return row

    def outcome(self) -> list[str]:
        """The records that were made since the last step."""
        lines = []
        for (key, _, wall_ms), row in zip(self.written.records, self.rows(), strict=True):
            assert (key, wall_ms) == (GROUP.encode(), row["ts_ms"])
            assert (row.pop("group"), row.pop("v")) == (GROUP, 1)
            fields = msgspec.json.encode(row | {"ts_ms": row["ts_ms"] - WALL_MS}).decode()
            lines.append(f"{row['event']} {fields}")
        self.written.records.clear()
        return lines


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


@pytest.mark.parametrize("index", range(len(CASES)), ids=[one.title for one in CASES])
def test_story(index: int, record: bool) -> None:
    _, outcome = play(CASES[index], Told)
    compare(STORIES, index, outcome, record=record)


def test_offsets_expire_and_are_deleted() -> None:
    written = Written()
    common: dict[str, Any] = {"group_id": "g", "cause": 1, "wall_ms": 77, "partitions": 3}
    written(OffsetsRemoved(reason="expired", **common))
    written(OffsetsRemoved(reason="deleted by a client", **common))
    [row] = written.rows()
    assert (row["event"], row["partitions"], row["ts_ms"], row["generation"]) == ("offset_expired", 3, 77, -1)


def test_alarms(story: Told) -> None:
    story.written.records.clear()
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
    story = Told(hashes=hashes, group_max_size=2)
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
