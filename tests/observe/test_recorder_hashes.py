"""Group ids and client hosts that are hidden in what is recorded."""

from __future__ import annotations

import msgspec
import pytest

from ottla.broker.core.events import (
    Event,
    FetchParked,
    GroupLoaded,
    LoadedMember,
    MemberAdded,
    RebalanceStarted,
    StateChanged,
)
from ottla.observe.recorder import Recorder
from ottla.observe.recorder_hashes import Hashes
from ottla.protocol.groups import coordinator_partition


def added(group_id: str = "payments", host: str = "/10.1.2.3") -> MemberAdded:
    return MemberAdded(
        group_id=group_id,
        cause=1,
        member_id="m",
        group_instance_id=None,
        client_id="c",
        client_host=host,
        state="Empty",
        was_pending=False,
    )


def fetched() -> FetchParked:
    return FetchParked(
        group_id="payments",
        cause=0,
        number=1,
        api="OffsetFetch",
        api_version=9,
        client_id="c",
        client_host="/10.1.2.3",
        member_id="",
        group_instance_id=None,
        generation=-1,
        reason=None,
        wanted=["payments", "orders"],
    )


def loaded() -> GroupLoaded:
    return GroupLoaded(
        group_id="payments",
        cause=1,
        state="Stable",
        generation=1,
        protocol_type="consumer",
        protocol_name="range",
        leader_id="m",
        state_since_ms=None,
        loaded=[LoadedMember("m", None, "c", "/10.1.2.3", 1, 1, b"", b"")],
        commits=[],
    )


def rebalance() -> RebalanceStarted:
    reason = "Freshly-loaded group payments is over capacity (3 > 2)"
    return RebalanceStarted(group_id="payments", cause=1, generation=1, partition=3, members=3, reason=reason)


def text_of(event: Event) -> str:
    return msgspec.json.encode(event).decode()


@pytest.mark.parametrize("event", [added(), fetched(), loaded(), rebalance()], ids=lambda one: type(one).__name__)
@pytest.mark.parametrize("hides", ["groups", "hosts", "both"])
def test_no_hidden_name_is_left(event: Event, hides: str) -> None:
    before = text_of(event)
    hashes = Hashes(b"k", group_ids=hides != "hosts", client_hosts=hides != "groups")
    text = text_of(hashes(event))
    assert ("payments" in text) == (hides == "hosts")
    assert ("orders" in text) == (hides == "hosts" and isinstance(event, FetchParked))
    assert ("10.1.2.3" in text) == (hides == "groups" and "10.1.2.3" in before)
    assert text_of(event) == before, "others see the event as it is"


def test_the_same_name_is_hidden_alike_under_one_key_only() -> None:
    one, same, other = (Hashes(key, group_ids=True, client_hosts=True) for key in (b"a", b"a", b"b"))
    assert one.group("g") == same.group("g") != other.group("g")
    assert one.host("/h") == same.host("/h") != other.host("/h")
    assert one.group("g") != one.group("h")
    assert (one.group(""), one.host("")) == ("", "")


@pytest.mark.parametrize("partitions", [1, 7, 50])
def test_a_hidden_group_stays_in_its_partition(partitions: int) -> None:
    hashes = Hashes(b"k", group_ids=True, client_hosts=False)
    hashes.partition_count = partitions
    for number in range(100):
        group_id = f"group {number}"
        hidden = hashes.group(group_id)
        assert coordinator_partition(hidden, partitions) == coordinator_partition(group_id, partitions)


def test_who_knows_the_name_of_a_group_finds_its_events() -> None:
    recorder = Recorder(1 << 20, hashes=Hashes(b"k", group_ids=True, client_hosts=False))
    seen: list[str] = []
    recorder.subscribe(lambda seq, event: seen.append(event.group_id))
    recorder(StateChanged(group_id="payments", cause=1, before="Empty", after="Dead", generation=0))
    (hidden,) = recorder.group_ids()
    assert seen == [hidden]
    assert hidden != "payments"
    assert recorder.events("payments") == recorder.events(hidden) != []
