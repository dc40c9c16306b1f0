"""The stream: what is sent, how often, and what readers can do to it."""

from __future__ import annotations

import asyncio
import itertools
import json
import socket
import time
from collections.abc import Iterator
from typing import Any

import pytest
from msgspec.structs import replace

from ottla.broker.core.events import StateChanged
from ottla.clients import Consumer, Producer
from ottla.observe.http import stream
from ottla.observe.http.changes import MOST_GROUPS, Changes
from ottla.observe.http.parts import Parts
from ottla.observe.http.problems import Problem
from ottla.observe.http.stream import Feed, Reader
from ottla.observe.recorder import Recorder
from ottla.observe.sentinels.model import Alarm
from ottla.observe.snapshot import GroupBrief
from ottla.observe.why.model import Episode
from ottla.testing import Broker
from tests.observe.http.conftest import ask
from tests.observe.http.fakes import FakeHistory, FakeSentinels, FakeView, Lines, ManualClock
from tests.support.waiting import wait_for

Sent = list[tuple[str, Any]]


class Stage:
    """A feed on fakes, and its readers."""

    def __init__(self, limit_bytes: int = 1 << 20) -> None:
        self.view, self.clock, self.log = FakeView(), ManualClock(), Lines()
        self.recorder, self.history, self.sentinels = Recorder(1 << 20), FakeHistory(), FakeSentinels()
        self.changes = Changes()
        parts = Parts(
            self.view,
            self.clock,
            changes=self.changes,
            recorder=self.recorder,
            history=self.history,
            sentinels=self.sentinels,
        )
        self.feed = Feed(parts, self.log, limit_bytes)

    def happens(self, group_id: str) -> None:
        """Have the coordinator tell something of a group."""
        self.recorder(changed(group_id))
        self.changes(changed(group_id))


@pytest.fixture
def stage() -> Stage:
    return Stage()


def changed(group_id: str) -> StateChanged:
    return StateChanged(group_id=group_id, cause=1, before="Empty", after="Stable", generation=1)


async def sent(reader: Reader) -> Sent:
    """Everything that is due for a reader at once."""
    if not reader._due.is_set():
        return []
    return parsed(await reader.take())


def parsed(chunk: bytes) -> Sent:
    found = []
    for block in chunk.decode().split("\n\n"):
        fields = dict(line.partition(": ")[::2] for line in block.splitlines() if not line.startswith(":"))
        if fields:
            found.append((fields["event"], json.loads(fields["data"])))
    return found


def groups(found: Sent) -> tuple[list[str], list[str]]:
    """The ids of groups that changed, and of those that are gone, of one event."""
    [(event, data)] = found
    assert event == "groups"
    return [one["group_id"] for one in data["changed"]], data["removed"]


async def test_the_first_event_is_the_cluster_and_then_come_the_groups(stage: Stage) -> None:
    stage.view.put("a")
    stage.view.put("b")
    reader = stage.feed.open(None)
    [(event, data)] = await sent(reader)
    assert (event, data["cluster"]["groups"], data["user"]) == ("hello", 2, None)
    assert await sent(reader) == []
    stage.clock.advance(500)
    assert groups(await sent(reader)) == (["a", "b"], [])


async def test_changes_are_told_at_most_twice_a_second_and_once_each(stage: Stage) -> None:
    stage.view.put("a")
    reader = stage.feed.open(None)
    stage.clock.advance(500)
    await sent(reader)
    for number in range(100):
        stage.view.put("a", "Empty" if number % 2 else "Stable")
        stage.happens("a")
    assert await sent(reader) == []
    stage.clock.advance(500)
    assert groups(await sent(reader)) == (["a"], [])
    stage.happens("a")  # which changes nothing that one line shows
    stage.clock.advance(5_000)
    assert await sent(reader) == []


@pytest.mark.parametrize(
    ("sent", "after"), [("7", 7), ("3", 5), ("", 5), ("²", 5), ("-9", 5), ("9" * 5_000, 5), ("1e9", 5)]
)
async def test_a_last_event_id_that_is_none_of_ours_is_left_alone(sent: str, after: int) -> None:
    query = {"raw": "1", "group": "g", "after": 5}
    assert stream.EventStream(Stage().feed, query, sent)._after == after


async def test_watched_groups_take_turns_where_there_are_many(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[str] = []
    group = stage.view.group

    def slow(group_id: str) -> Any:
        looked.append(group_id)
        stage.clock.now_ms += 15
        return group(group_id)

    names = [f"g{number}" for number in range(10)]
    for name in names:
        stage.view.put(name)
        stage.feed.open(name)
    monkeypatch.setattr(stage.view, "group", slow)
    for _ in range(12):
        before = len(looked)
        stage.clock.advance(500)
        assert len(looked) - before <= 2
    assert set(looked) == set(names)


async def test_names_that_somebody_makes_up_take_no_more_memory_than_others(stage: Stage) -> None:
    stage.view.put("a")
    stage.feed.open(None)
    waiting = stage.feed._dirty
    for number in range(20_000):
        stage.happens(f"nobody-{number}")
    assert len(waiting) == MOST_GROUPS


async def test_a_group_that_is_gone_is_told_of_once(stage: Stage) -> None:
    stage.view.put("a")
    reader = stage.feed.open(None)
    stage.clock.advance(500)
    await sent(reader)
    del stage.view.groups["a"]
    stage.clock.advance(2_000)
    assert groups(await sent(reader)) == ([], ["a"])


async def test_lag_is_seen_within_seconds_without_any_event(stage: Stage) -> None:
    for number in range(1_000):
        stage.view.put(f"g{number:04}")
    reader = stage.feed.open(None)
    stage.clock.advance(5_000)
    found = [one for _, data in (await sent(reader))[1:] for one in data["changed"]]
    assert len(found) == 1_000
    stage.view.put("g0777", lag=5)
    asked = len(stage.view.asked)
    stage.clock.advance(5_500)
    assert groups(await sent(reader)) == (["g0777"], [])
    assert len(stage.view.asked) - asked <= 11 * stream.SWEEP_PER_TICK


async def test_a_storm_is_worked_off_in_turns(stage: Stage) -> None:
    reader = stage.feed.open(None)
    await sent(reader)
    for number in range(1_200):
        stage.view.put(f"g{number}")
        stage.happens(f"g{number}")
    counts = []
    for _ in range(3):
        stage.clock.advance(500)
        counts.append(len(groups(await sent(reader))[0]))
    assert sum(counts) == 1_200
    assert max(counts) <= stream.DIRTY_PER_TICK + stream.SWEEP_PER_TICK


async def test_a_look_that_takes_long_is_broken_off_and_goes_on_next_time(stage: Stage) -> None:
    reader = stage.feed.open(None)
    await sent(reader)
    for number in range(12):
        stage.view.put(f"g{number:02}")
        if number < 6:
            stage.happens(f"g{number:02}")
    looked = stage.view.brief

    def slowly(group_id: str) -> GroupBrief | None:
        stage.clock.now_ms += 2
        return looked(group_id)

    stage.view.brief = slowly  # type: ignore[method-assign]
    told = []
    for _ in range(6):
        stage.clock.advance(500)
        told.append([one["group_id"] for _, data in await sent(reader) for one in data["changed"]])
    assert [len(one) for one in told] == [3, 3, 0, 0, 3, 3]  # in between those that were told of already
    assert list(itertools.chain(*told)) == list(stage.view.groups)


async def test_without_readers_nothing_is_looked_at(stage: Stage) -> None:
    stage.view.put("a")
    for _ in range(2):
        reader = stage.feed.open(None)
        assert stage.clock.pending() and stage.changes._groups is not None and stage.history.on_episode
        stage.feed.close(reader)
        assert not (stage.clock.pending() or stage.changes._groups is not None or stage.history.on_episode)
        stage.happens("a")
        stage.clock.advance(10_000)
    assert stage.view.asked == []


async def test_a_watched_group_comes_at_once_and_when_it_changes(stage: Stage) -> None:
    stage.view.put("a")
    reader, other = stage.feed.open("a"), stage.feed.open(None)
    first = await sent(reader)
    assert [event for event, _ in first] == ["hello", "group"]
    assert first[1][1]["group"]["state"] == "Stable"
    assert first[1][1]["offsets"][0]["lag"] == 0
    stage.clock.advance(10_000)
    assert [event for event, _ in await sent(reader)] == ["groups"]
    stage.view.put("a", "Empty")
    stage.happens("a")
    stage.clock.advance(500)
    assert [event for event, _ in await sent(reader)] == ["groups", "group"]
    stage.view.put("a", "Empty", lag=7)  # no event tells of it
    stage.clock.advance(2_000)
    assert (await sent(reader))[-1][1]["offsets"][0]["lag"] == 7
    del stage.view.groups["a"]
    stage.clock.advance(2_000)
    assert (await sent(reader))[-1] == ("group", {"group": None, "offsets": []})
    assert "group" not in [event for event, _ in await sent(other)]


async def test_episodes_go_to_those_who_watch_their_group_or_none(stage: Stage) -> None:
    everything, mine, others = stage.feed.open(None), stage.feed.open("a"), stage.feed.open("b")
    for reader in (everything, mine, others):
        await sent(reader)
    stage.history.ended(Episode(1, "rebalance", "a", 5, cause="member_joined"))
    stage.clock.advance(500)
    for reader in (everything, mine):
        [(event, data)] = await sent(reader)
        assert (event, data["headline"]) == ("episode", "explained: member_joined")
    assert await sent(others) == []


async def test_an_alarm_is_told_when_it_is_raised_and_when_it_is_over(stage: Stage) -> None:
    old, storm = Alarm("old_barrier", "a", "", 1, 1, "old"), Alarm("rebalance_storm", "a", "", 2, 2, "new")
    stage.sentinels.standing = [old]
    reader = stage.feed.open(None)
    await sent(reader)
    stage.sentinels.standing.append(storm)
    stage.clock.advance(1_000)
    [(event, data)] = await sent(reader)
    assert (event, data["text"], "cleared_ms" in data) == ("sentinel", "new", False)
    storm.last_ms, storm.times = 9, 4
    stage.clock.advance(2_000)
    assert await sent(reader) == []
    stage.sentinels.standing, stage.sentinels.ended = [old], [replace(storm, cleared_ms=9)]
    stage.clock.advance(2_000)
    [(event, data)] = await sent(reader)
    assert (event, data["text"], data["cleared_ms"]) == ("sentinel", "new", 9)


async def test_a_reader_that_falls_behind_is_dropped_and_the_others_are_not() -> None:
    stage = Stage(limit_bytes=20_000)
    slow, quick = stage.feed.open(None), stage.feed.open(None)
    for number in range(400):
        stage.view.put("a", lag=number)
        stage.happens("a")
        stage.clock.advance(500)
        await sent(quick)
    assert slow.ended
    assert not quick.ended
    assert await slow.take() == b""


async def test_a_group_that_takes_more_than_a_reader_may_be_behind_is_shown_to_who_reads() -> None:
    stage = Stage(limit_bytes=2_000)
    large = "g" * 1_700
    stage.view.put(large)
    reader = stage.feed.open(large)
    assert [event for event, _ in await sent(reader)] == ["hello", "group"]
    for number in range(3):
        stage.view.put(large, lag=number + 1)
        stage.happens(large)
        stage.clock.advance(500)
        assert [event for event, _ in await sent(reader)] == ["groups", "group"]
    assert not reader.ended


async def test_a_bug_is_logged_and_the_next_look_goes_well(stage: Stage) -> None:
    stage.view.put("a")
    reader = stage.feed.open(None)
    await sent(reader)
    stage.view.broken = True
    stage.clock.advance(500)
    assert stage.log.lines == [("error", "The stream could not be written")]
    stage.view.broken = False
    stage.happens("a")
    stage.clock.advance(500)
    assert groups(await sent(reader)) == (["a"], [])


# -- the recorder's events


async def test_raw_events_come_from_where_one_left_off_and_then_live(stage: Stage) -> None:
    for group_id in ("a", "b", "a", "a"):
        stage.happens(group_id)
    reader = stage.feed.open_raw("a", 1)
    chunk = await reader.take()
    assert [data["seq"] for _, data in parsed(chunk)] == [3, 4]
    assert b"id: 3\nevent: event\n" in chunk
    waiting = asyncio.ensure_future(reader.take())
    await asyncio.sleep(0)
    stage.happens("b")
    await asyncio.sleep(0)
    assert not waiting.done()
    stage.happens("a")
    [(_, data)] = parsed(await waiting)
    assert (data["seq"], data["event"], data["after"]) == (6, "StateChanged", "Stable")
    stage.feed.close(reader)
    assert not stage.recorder._followers


async def test_raw_events_are_taken_in_turns_and_none_is_left_out(stage: Stage) -> None:
    for _ in range(stream.RAW_PER_TURN * 2 + 7):
        stage.happens("a")
    reader = stage.feed.open_raw("a", 0)
    counts = [len(parsed(await reader.take())) for _ in range(3)]
    assert counts == [stream.RAW_PER_TURN, stream.RAW_PER_TURN, 7]


async def test_raw_needs_a_group(stage: Stage) -> None:
    with pytest.raises(Problem, match="add group=ID"):
        stage.feed.open_raw(None, 0)


async def test_readers_of_raw_events_keep_nobody_from_what_changes(stage: Stage) -> None:
    """The feed looks for the readers that it writes for, whoever else was there before, or goes."""
    raw = stage.feed.open_raw("a", 0)
    assert not stage.clock.pending(), "raw events need no looks"
    reader = stage.feed.open("a")
    for state in ("Stable", "Empty"):
        await sent(reader)
        stage.view.put("a", state)
        stage.happens("a")
        stage.clock.advance(500)
        assert [event for event, _ in await sent(reader)] == ["groups", "group"]
        stage.feed.close(raw)


# -- over HTTP


class Listening:
    """A reader of a stream on a socket."""

    def __init__(self, url: str, query: str = "", **headers: str) -> None:
        host, _, port = url.removeprefix("http://").rpartition(":")
        self._socket = socket.create_connection((host, int(port)), timeout=10)
        lines = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in headers.items())
        self._socket.sendall(f"GET /v1/stream{query} HTTP/1.0\r\nHost: localhost\r\n{lines}\r\n".encode())
        self._file = self._socket.makefile("rb")
        self.status = int(self._file.readline().split()[1])
        while self._file.readline().strip():
            pass

    def __iter__(self) -> Iterator[tuple[str, Any]]:
        block = b""
        while line := self._file.readline():
            block += line
            if line == b"\n":
                yield from parsed(block)
                block = b""

    def until(self, name_of_event: str, **wanted: Any) -> Any:
        """Wait for an event of a name with these fields; gives its data."""
        for name, data in self:
            if name == name_of_event and all(data.get(key) == value for key, value in wanted.items()):
                return data
        raise AssertionError("the stream ended")

    def close(self) -> None:
        self._file.close()
        self._socket.close()


@pytest.mark.e2e
async def test_a_group_is_seen_as_it_comes_together() -> None:
    async with Broker(http=True, topics={"orders": 2}) as broker:
        reader = await asyncio.to_thread(Listening, broker.http_url, "?group=live%2Fone")
        raw = await asyncio.to_thread(Listening, broker.http_url, "?group=live%2Fone&raw=1")
        async with (
            Producer(bootstrap_servers=broker.bootstrap_servers) as producer,
            Consumer("orders", bootstrap_servers=broker.bootstrap_servers, group_id="live/one") as consumer,
        ):
            await producer.send("orders", b"one")
            assert (await anext(aiter(consumer))).value == b"one"

            def stable() -> Any:
                while True:
                    data = reader.until("group")
                    if data["group"] and data["group"]["state"] == "Stable":
                        return data["group"]

            group = await asyncio.to_thread(stable)
            assert group["members"][0]["assignment"] == {"orders": [0, 1]}
            found = await asyncio.to_thread(raw.until, "event", event="StateChanged", after="Stable")
            again = await asyncio.to_thread(
                Listening, broker.http_url, "?group=live%2Fone&raw=1", Last_Event_ID=str(found["seq"] - 1)
            )
            assert await asyncio.to_thread(next, iter(again)) == ("event", found)
        for one in (reader, raw, again):
            one.close()


@pytest.mark.e2e
def test_streams_end_at_once_when_the_broker_stops() -> None:
    broker = Broker(http=True).start()
    readers = [Listening(broker.http_url), Listening(broker.http_url, "?group=x&raw=1")]
    readers[0].until("hello")
    began = time.monotonic()
    broker.stop()
    assert time.monotonic() - began < 1.5
    for reader in readers:
        assert list(reader) == []
        reader.close()


@pytest.mark.e2e
def test_who_asks_for_the_head_gets_no_stream() -> None:
    with Broker(http=True) as broker:
        answer = ask(broker.http_url, "/v1/stream", "HEAD")
        assert (answer.status, answer.headers["content-type"]) == (200, "text/event-stream; charset=utf-8")
        assert ask(broker.http_url, "/v1/stream?raw=1").status == 400
        assert ask(broker.http_url, "/v1/stream?raw=2").status == 400


@pytest.mark.e2e
def test_a_reader_that_takes_nothing_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "STUCK_S", 0.2)
    monkeypatch.setattr(stream, "PING", b": ping\n\n" * 400_000)
    monkeypatch.setattr(stream, "PING_S", 0.01)
    with Broker(http=True) as broker:
        reader = Listening(broker.http_url)
        port = broker.observatory.http
        assert port is not None
        wait_for(lambda: broker.run(lambda: not port._state.connections), "the reader to be given up")
        reader.close()
        assert ask(broker.http_url, "/healthz").status == 200
