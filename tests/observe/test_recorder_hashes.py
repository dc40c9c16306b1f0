"""Group ids and client hosts that are hidden in what is recorded."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from ottla.broker.core.consumer_groups.facts import MemberSaid
from ottla.broker.core.consumer_groups.records import record_of
from ottla.broker.core.consumer_groups.state import Member
from ottla.broker.core.events import (
    ConsumerGroupLoaded,
    Event,
    FetchParked,
    GroupLoaded,
    LoadedMember,
    LoggedRecord,
    MemberAdded,
    RebalanceStarted,
    SettingsChanged,
    StateChanged,
)
from ottla.observe.recorder import Recorder
from ottla.observe.recorder_hashes import Hashes
from ottla.protocol.groups import coordinator_partition
from tests.observe.makers import event_of

WHO: dict[str, Any] = {"group_id": "payments", "client_host": "/10.1.2.3"}
REASON = "Freshly-loaded group payments is over capacity (3 > 2)"
SAID = record_of("payments", MemberSaid(Member("m", client_host="/10.1.2.3")))
EVENTS = [
    event_of(
        ConsumerGroupLoaded,
        group_id="payments",
        members=1,
        topics=[],
        records=[LoggedRecord(SAID.key, SAID.value or b"")],
    ),
    event_of(SettingsChanged, group_id="", settings={}, groups={"payments": {}}),
    event_of(MemberAdded, **WHO),
    event_of(FetchParked, **WHO, wanted=["payments", "orders"]),
    event_of(GroupLoaded, group_id="payments", loaded=[LoadedMember("m", None, "c", "/10.1.2.3", 1, 1, b"", b"")]),
    event_of(RebalanceStarted, group_id="payments", partition=3, members=3, reason=REASON),
]


def text_of(one: Event) -> str:
    return msgspec.msgpack.encode(one).decode(errors="replace")


@pytest.mark.parametrize("one", EVENTS, ids=lambda one: type(one).__name__)
@pytest.mark.parametrize("hides", ["groups", "hosts", "both"])
def test_no_hidden_name_is_left(one: Event, hides: str) -> None:
    before = text_of(one)
    hashes = Hashes(b"k", group_ids=hides != "hosts", client_hosts=hides != "groups")
    text = text_of(hashes(one))
    assert ("payments" in text) == (hides == "hosts")
    assert ("orders" in text) == (hides == "hosts" and isinstance(one, FetchParked))
    assert ("10.1.2.3" in text) == (hides == "groups" and "10.1.2.3" in before)
    assert text_of(one) == before, "others see the event as it is"


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
