"""DescribeGroupHistory: what is asked for reaches whoever explains, and what cannot be answered says why."""

from __future__ import annotations

import asyncio
import json
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec import msgpack
from msgspec.json import Decoder

from ottla.broker.handlers import HANDLERS
from ottla.broker.handlers.api_versions import table
from ottla.broker.handlers.describe_group_history import handle
from ottla.broker.settings import Settings
from ottla.observe.observatory import Observatory
from ottla.observe.why.explain import Explanations, Told
from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.describe_group_history import DescribeGroupHistoryRequest, DescribeGroupHistoryResponse
from tests.observe.why.stories import played
from tests.observe.why.story import GROUP, Story
from tests.support.rules import OPEN

read_told = Decoder(Told).decode


class Recorded:
    """A recorder with three events."""

    def events(self, group_id: str, after: int = 0, limit: int = 1000) -> list[tuple[int, bytes]]:
        if group_id != GROUP:
            return []
        rows = [(seq, msgpack.encode({"event": "TimerFired", "at_ms": 10 * seq})) for seq in (4, 5, 9)]
        return [row for row in rows if row[0] > after][:limit]


class Drawn:
    async def told(self, group_id: str, pause: Any, *, last: int | None, since_ms: int | None) -> bytes:
        await pause()
        return json.dumps([group_id, last, since_ms]).encode()


def ask(explain: Any, refusal: ErrorCode = ErrorCode.NONE, **request: Any) -> DescribeGroupHistoryResponse:
    asked = DescribeGroupHistoryRequest(**{"group_id": GROUP, "view": "why"} | request)
    layout = DescribeGroupHistoryRequest.layout(0)
    groups = SimpleNamespace(shard_of=lambda group_id: SimpleNamespace(refusal=refusal))
    services: Any = SimpleNamespace(explain=explain, topics=SimpleNamespace(topics={}), groups=groups, **OPEN)
    context: Any = None
    return asyncio.run(handle(layout.decode(layout.encode(asked)), context, services))


@pytest.fixture(scope="module")
def story() -> Story:
    return played("flapping")


@pytest.fixture
def explain(story: Story) -> Explanations:
    recorder, timelines = Recorded(), Drawn()
    return Explanations(
        story.history,
        lambda: 77,
        recorder=recorder,  # type: ignore[arg-type]
        timelines=timelines,  # type: ignore[arg-type]
        is_group=lambda name: name == "quiet",
    )


def test_why(explain: Explanations, story: Story) -> None:
    told = read_told(ask(explain, last=2).body)
    assert (told.group_id, told.now_ms) == (GROUP, 77)
    assert told.episodes == story.history.episodes(GROUP, last=2)
    assert [one.number for one in read_told(ask(explain, generation=3).body).episodes] == [3]
    since_ms = story.episodes()[5].started_ms
    assert [one.number for one in read_told(ask(explain, since_ms=since_ms).body).episodes] == [6, 7]
    assert len(read_told(ask(explain).body).episodes) == 7


@pytest.mark.parametrize("asked", [{}, {"last": 2**31 - 1}, {"since_ms": 0}])
def test_of_a_long_history_the_latest_is_told(
    explain: Explanations, monkeypatch: pytest.MonkeyPatch, asked: dict[str, int]
) -> None:
    monkeypatch.setattr("ottla.observe.why.explain.MOST_EPISODES", 3)
    assert [one.number for one in read_told(ask(explain, **asked).body).episodes] == [5, 6, 7]


def test_timeline(explain: Explanations) -> None:
    assert json.loads(ask(explain, view="timeline", last=3, since_ms=5).body) == [GROUP, 3, 5]
    assert json.loads(ask(explain, view="timeline").body) == [GROUP, None, None]


def test_events(explain: Explanations) -> None:
    told = json.loads(ask(explain, view="events", after=4, last=1).body)
    assert told == {"group_id": GROUP, "events": [{"seq": 5, "event": "TimerFired", "at_ms": 50}]}
    assert [row["seq"] for row in json.loads(ask(explain, view="events").body)["events"]] == [4, 5, 9]


def test_a_group_to_which_nothing_happened(explain: Explanations) -> None:
    assert read_told(ask(explain, group_id="quiet").body).episodes == []


@pytest.mark.parametrize("view", ["why", "timeline", "events"])
def test_a_group_that_nobody_knows(explain: Explanations, view: str) -> None:
    answer = ask(explain, group_id="nobody", view=view)
    assert answer.error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert answer.error_message == "nothing is known of group 'nobody'"
    assert answer.body == b""


def test_what_cannot_be_asked(explain: Explanations) -> None:
    answer = ask(explain, view="weather")
    assert answer.error_code == ErrorCode.INVALID_REQUEST
    assert answer.error_message == "view 'weather': allowed are why, timeline, events"
    assert ask(explain, group_id="").error_code == ErrorCode.INVALID_GROUP_ID


def test_a_broker_that_keeps_nothing(story: Story) -> None:
    assert not Observatory(Settings(ottla_history_memory_bytes=0)).history.keeps
    answer = ask(None)
    assert answer.error_code == ErrorCode.UNSUPPORTED_VERSION
    assert "ottla.history.memory.bytes" in (answer.error_message or "")


def test_it_is_not_advertised() -> None:
    assert [key.name for key in HANDLERS if key.is_private] == ["DESCRIBE_GROUP_HISTORY", "WORKBENCH"]
    assert {key for key in ApiKey if key.is_private}.isdisjoint(row.api_key for row in table())
