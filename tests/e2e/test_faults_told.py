"""What a fault or a pause did to a real client is told by `why`, the timeline and recordings."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec import json

from ottla.observe.recording import open_recording
from ottla.observe.replay import replay
from ottla.observe.timeline.model import Timeline
from ottla.observe.timeline.offline import timeline_of
from ottla.testing import Broker
from tests.support.cast import Cast
from tests.support.waiting import wait_for

pytestmark = pytest.mark.e2e

GROUP = "billing"
QUICK = {"session_timeout_ms": 1_500, "options": {"heartbeat.interval.ms": 200}}


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    return tmp_path / "events.rec"


@pytest.fixture
def broker(recording: Path) -> Iterator[Broker]:
    with Broker({"ottla.recorder.file": str(recording)}, topics={"orders": 4}) as running:
        yield running


@pytest.fixture
def cast(broker: Broker) -> Iterator[Cast]:
    with Cast(broker.bootstrap_servers, GROUP) as members:
        yield members


def drawn(broker: Broker) -> Timeline:
    """The timeline as the broker tells it."""

    async def told() -> bytes:
        return await broker.observatory.timelines.told(GROUP, lambda: asyncio.sleep(0), last=None, since_ms=None)

    return json.decode(broker.call(told()), type=Timeline)


def words(timeline: Timeline) -> dict[str, set[str]]:
    """What faults did, by the client id of their lane."""
    return {lane.client_id: {one.words for one in lane.faults} for lane in timeline.lanes if lane.faults}


def test_a_session_that_ends_since_its_heartbeats_are_lost(broker: Broker, cast: Cast, recording: Path) -> None:
    group = broker.group(GROUP)
    cast.join("confluent", ["orders"], name="well", **QUICK)
    group.wait(members=1, lag=None)
    with broker.fault("Heartbeat", client_id="deaf", drop="request", name="lost beats"):
        cast.join("confluent", ["orders"], name="deaf", **QUICK)
        wait_for(lambda: "session ran out" in group.why(last=9), "the session to run out", show=group.why)
    told = group.why(last=9)
    assert "; a fault dropped the Heartbeat of deaf; " in told
    assert ' a fault dropped the Heartbeat of deaf (fault "lost beats")' in told
    expected = {"deaf": {'a fault dropped the Heartbeat (fault "lost beats")'}}
    assert words(drawn(broker)) == expected
    broker.stop()
    recorded = open_recording(recording)
    timeline = timeline_of(recorded.events(), GROUP)
    assert timeline is not None
    assert words(timeline) == expected
    verdict = replay(recorded.header, recorded.entries())
    assert verdict.is_same, verdict.differences
    assert verdict.others > 0


def test_an_answer_that_is_late_at_the_end_of_a_rebalance(broker: Broker, cast: Cast) -> None:
    """The group was Stable when the fault fired."""
    with broker.fault("SyncGroup", group=GROUP, delay=0.2, on="response", times=1, name="slow answer") as fault:
        cast.join("confluent", ["orders"], name="one", **QUICK)
        fault.wait()
    told = broker.group(GROUP).why()
    assert ' a fault delayed the answer to SyncGroup of one by 0.2 s (fault "slow answer").' in told


def test_a_pause_that_holds_a_member_back(broker: Broker, cast: Cast) -> None:
    group = broker.group(GROUP)
    cast.join("confluent", ["orders"], name="one", **QUICK)
    group.wait(members=1, lag=None)
    group.pause()
    cast.join("confluent", ["orders"], name="two", **QUICK)
    wait_for(lambda: "a fault held the JoinGroup of two" in group.why(), "a join to be held", show=group.why)
    assert "the group was paused, and still was when this was told" in group.why()
    group.resume()
    group.wait(members=2, lag=None)
    told = group.why(last=1)
    assert "the group was paused until " in told
    assert "a fault let the JoinGroup of two go" in told


def test_a_client_that_is_told_that_it_is_no_member(broker: Broker, cast: Cast) -> None:
    """It joins anew, and the group waits for the member that it was: the fault is to blame, and no advice is given."""
    group = broker.group(GROUP)
    cast.join("confluent", ["orders"], name="told", **QUICK)
    group.wait(members=1, lag=None)
    with broker.fault("Heartbeat", group=GROUP, error="UNKNOWN_MEMBER_ID", times=1, name="ghost") as fault:
        fault.wait()
    group.wait(state="PreparingRebalance", members=2)
    told = group.why()
    assert "a fault answered UNKNOWN_MEMBER_ID, and nothing was done; the rebalance has been running" in told
    assert '(fault "ghost")' in told
    assert "What to do" not in told
