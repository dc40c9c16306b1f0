"""The flight recorder's ring: what it keeps, what it drops, and what that takes."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest

from ottla.broker.core.events import (
    Commit,
    CommitReceived,
    Event,
    EveryEvent,
    Observer,
    OffsetsCommitted,
    StateChanged,
    commit_event,
)
from ottla.broker.core.groups.config import GroupConfig
from ottla.observe.observers import Observers
from ottla.observe.recorder import Recorder
from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.offset_commit import OffsetCommitRequest
from tests.observe.http.fakes import Lines
from tests.observe.makers import event_of
from tests.observe.sentinels.stage import WatchedWorld
from tests.support.memory import allocations
from tests.support.requests import commit_fields, request


def moved(group_id: str, generation: int) -> StateChanged:
    of_group = {"group_id": group_id, "cause": generation, "generation": generation}
    return event_of(StateChanged, before="Stable", after="PreparingRebalance", **of_group)


def commit(group_id: str, offset: int) -> CommitReceived:
    return event_of(CommitReceived, group_id=group_id, number=offset, commits=[Commit("t", 0, offset, -1, "")])


def note(recorder: Recorder, kind: Callable[[str, int], Event], group_id: str, count: int) -> None:
    """Record so many events of a kind; their numbers count from 0."""
    for number in range(count):
        recorder(kind(group_id, number))


def generations(recorder: Recorder, group_id: str) -> list[int]:
    events = [msgspec.msgpack.decode(data) for _, data in recorder.events(group_id, limit=10**9)]
    return [one["generation"] for one in events if one["event"] == "StateChanged"]


def test_events_are_kept_by_group_in_their_order_with_their_numbers() -> None:
    recorder = Recorder(1 << 20)
    for number in range(100):
        recorder(moved("g", number))
        recorder(commit("g", number))
        recorder(moved("other", number))
    found = recorder.events("g")
    assert [seq for seq, _ in found] == [seq for seq in range(1, 301) if seq % 3]
    assert msgspec.msgpack.decode(found[0][1], type=StateChanged) == moved("g", 0)
    assert msgspec.msgpack.decode(found[1][1], type=CommitReceived) == commit("g", 0)
    assert (recorder.last_seq, recorder.dropped_events, recorder.group_ids()) == (300, 0, ["g", "other"])
    assert recorder.events("nobody") == []


@pytest.mark.parametrize("after", [0, 1, 2, 149, 150, 298, 299, 300])
def test_reading_goes_on_after_a_number_and_up_to_a_limit(after: int) -> None:
    recorder = Recorder(1 << 20)
    for number in range(150):
        recorder(moved("g", number))
        recorder(commit("g", number))
    assert [seq for seq, _ in recorder.events("g", after, 1000)] == list(range(after + 1, 301))
    assert [seq for seq, _ in recorder.events("g", after, 7)] == list(range(after + 1, min(after + 8, 301)))


def test_the_oldest_events_go_first_and_the_newest_stay() -> None:
    recorder = Recorder(64 << 10)
    note(recorder, moved, "g", 5000)
    kept = generations(recorder, "g")
    assert kept == list(range(5000 - len(kept), 5000))
    assert 300 < len(kept) < 1000
    assert recorder.dropped_events == 5000 - len(kept)


def test_long_names_are_counted_as_what_they_take() -> None:
    with allocations() as allocated:
        recorder = Recorder(2 << 20)
        for number in range(1_000):
            recorder(moved("😀" * 3_000 + str(number), number))
        said_bytes = recorder.memory_bytes
    assert said_bytes <= 2 << 20
    assert allocated.held_bytes < 1.1 * (2 << 20)


def test_a_busy_group_does_not_push_a_quiet_one_out() -> None:
    recorder = Recorder(64 << 10)
    note(recorder, moved, "quiet", 20)
    note(recorder, moved, "busy", 10_000)
    assert generations(recorder, "quiet") == list(range(20))
    assert len(generations(recorder, "busy")) > 100


def test_commits_do_not_push_rebalances_out() -> None:
    recorder = Recorder(256 << 10)
    note(recorder, moved, "g", 500)
    note(recorder, commit, "g", 10_000)
    assert generations(recorder, "g") == list(range(500))
    assert recorder.events("g", limit=10**9)[-1][0] == 10_500


def test_rebalances_leave_commits_their_share() -> None:
    recorder = Recorder(256 << 10)
    note(recorder, commit, "g", 10_000)
    note(recorder, moved, "g", 10_000)
    commits = sum(len(data) for seq, data in recorder.events("g", limit=10**9) if seq <= 10_000)
    assert 40 << 10 < commits < 64 << 10


def test_more_groups_than_there_is_room_for_lose_the_eldest() -> None:
    recorder = Recorder(64 << 10)
    for number in range(10_000):
        recorder(moved(f"group-{number}", number))
    kept = recorder.group_ids()
    assert kept == [f"group-{number}" for number in range(10_000 - len(kept), 10_000)]
    assert len(kept) > 80
    assert all(generations(recorder, group_id) for group_id in kept)


def test_an_event_larger_than_its_share_is_not_kept() -> None:
    recorder = Recorder(64 << 10)
    recorder(moved("g", 1))
    recorder(moved("x" * 10_000, 2))
    assert recorder.group_ids() == ["g"]
    assert (recorder.last_seq, recorder.dropped_events) == (2, 1)


@pytest.mark.parametrize("groups", [1000, *(pytest.param(count, marks=pytest.mark.slow) for count in (1, 50, 20_000))])
@pytest.mark.parametrize("of", ["rebalances", "commits", "both"])
def test_memory_is_as_configured(groups: int, of: str) -> None:
    budget_bytes = 4 << 20
    kinds: list[Callable[[str, int], Event]] = [] if of == "commits" else [moved]
    kinds += [] if of == "rebalances" else [commit]
    names = [f"group-{number}" for number in range(groups)]
    with allocations() as allocated:
        recorder = Recorder(budget_bytes)
        for number in range(40_000):
            for kind in kinds:
                recorder(kind(names[number % groups], number))
    assert recorder.dropped_events
    assert 0.9 * budget_bytes < allocated.held_bytes < 1.1 * budget_bytes
    assert recorder.memory_bytes <= budget_bytes


def test_followers_hear_every_event_until_they_unsubscribe() -> None:
    recorder = Recorder(1 << 20)
    heard: list[tuple[int, Event]] = []
    unsubscribe = recorder.subscribe(lambda *one: heard.append(one))
    recorder(moved("g", 1))
    unsubscribe()
    recorder(moved("g", 2))
    assert heard == [(1, moved("g", 1))]


def reported(log: Lines) -> list[str]:
    return [f"{said} {fields['of']}" for said, fields in log.of("error")]


def test_an_observer_that_fails_is_reported_and_hurts_nobody() -> None:
    def fails(one: Event) -> None:
        raise ValueError(one)

    heard: list[Event] = []
    log = Lines()
    Observers([EveryEvent(fails), EveryEvent(heard.append)], log)(moved("g", 1))
    assert heard == [moved("g", 1)]
    assert reported(log) == ["an observer failed StateChanged"]


class Turn:
    """The turns of an event loop."""

    def __init__(self) -> None:
        self.due: list[Callable[[], None]] = []

    def ends(self) -> None:
        due, self.due = self.due, []
        for function in due:
            function()


def deferred(*observers: Observer) -> tuple[Observers, Turn]:
    told, turn = Observers(observers, Lines()), Turn()
    told.defer(lambda function: turn.due.append(function))
    return told, turn


def test_those_who_can_wait_are_told_when_the_turn_is_over() -> None:
    recorder, patient, at_once = Recorder(1 << 20), Chooses(), list[Event]()
    told, turn = deferred(recorder, patient, EveryEvent(at_once.append))
    events = [moved("g", number) for number in range(3)]
    for event in events:
        told(event)
    assert (at_once, patient.heard, len(turn.due)) == (events, [], 1)
    turn.ends()
    assert patient.heard == events
    assert generations(recorder, "g") == [0, 1, 2]
    told(events[0])
    assert len(turn.due) == 1, "a turn later is another turn"


def test_who_asks_hears_of_all_that_happened() -> None:
    recorder = Recorder(1 << 20)
    told, _ = deferred(recorder)
    told(moved("g", 1))
    assert recorder.last_seq == 1
    told(moved("g", 2))
    assert generations(recorder, "g") == [1, 2]
    told(moved("other", 3))
    assert recorder.group_ids() == ["g", "other"]


@pytest.mark.parametrize("number", [1, 255, 256])
def test_not_too_many_wait(number: int) -> None:
    patient = Chooses()
    told, _ = deferred(patient)
    for generation in range(number):
        told(moved("g", generation))
    assert len(patient.heard) == (number if number == 256 else 0)


def test_nobody_waits_for_large_events() -> None:
    told, _ = deferred(recorder := Recorder(64 << 10))
    with allocations() as allocated:
        for number in range(50):
            large = commit("g", number)
            large.commits = [Commit("t", partition, number, -1, "x" * 30_000 + str(number)) for partition in range(20)]
            told(large)
    assert allocated.held_bytes < 2 << 20
    assert recorder.dropped_events == 50


def test_whoever_comes_later_hears_nothing_of_what_was_before() -> None:
    told, turn = deferred(patient := Chooses())
    told(moved("g", 1))
    told.add(late := Chooses())
    told(moved("g", 2))
    turn.ends()
    assert (patient.heard, late.heard) == ([moved("g", 1), moved("g", 2)], [moved("g", 2)])


def test_what_is_said_while_others_are_told_comes_after_it() -> None:
    class Answers(Chooses):
        def __call__(self, event: Event) -> None:
            if event == moved("g", 1):
                told(moved("g", 9))
            super().__call__(event)

    told, turn = deferred(Answers(), patient := Chooses())
    for generation in (1, 2):
        told(moved("g", generation))
    while turn.due:
        turn.ends()
    assert patient.heard == [moved("g", generation) for generation in (1, 2, 9)]


class Chooses(Observer):
    def __init__(self) -> None:
        self.heard: list[Event] = []

    def wants(self, kind: type[Event]) -> bool:
        return kind is StateChanged

    def __call__(self, event: Event) -> None:
        self.heard.append(event)


def test_an_observer_hears_only_what_it_wants() -> None:
    one = Chooses()
    observers = Observers([one], Lines())
    observers(OffsetsCommitted(group_id="g", cause=1, member_id="m", partitions=1))
    observers(moved("g", 1))
    assert one.heard == [moved("g", 1)]
    assert not observers.wants_requests
    assert Observers([one, Recorder(1 << 20)], Lines()).wants_requests


def world_of(*observers: Observer) -> WatchedWorld:
    """A world of one partition that is loaded."""
    world = WatchedWorld(GroupConfig(), 1, observers=Observers(observers, Lines()))
    world.load()
    return world


@pytest.mark.parametrize("wants_all", [False, True])
def test_without_a_file_it_goes_without_saying_that_a_commit_succeeds(wants_all: bool) -> None:
    recorder = Recorder(1 << 20, wants_all=wants_all)
    world = world_of(recorder)
    fields = commit_fields("g", [("t", 0, 0)])
    world.send("c", ApiKey.OFFSET_COMMIT, 7, fields)
    world.failing = ErrorCode.KAFKA_STORAGE_ERROR
    failed = world.send("c", ApiKey.OFFSET_COMMIT, 7, fields)
    assert failed.answer.topics[0].partitions[0].error_code
    found = [msgspec.msgpack.decode(data)["event"] for _, data in recorder.events("g")]
    succeeds = ["AppendFinished", "OffsetsCommitted", "RequestAnswered"] if wants_all else []
    assert found == ["CommitReceived", "GroupCreated", *succeeds, "CommitReceived", "AppendFinished", "RequestAnswered"]


class Counts(Chooses):
    wants_requests = True

    def __init__(self) -> None:
        super().__init__()
        self.counted: list[tuple[str, int]] = []

    def wants(self, kind: type[Event]) -> bool:
        return kind is OffsetsCommitted

    def count_commit(self, group_id: str, partitions: int, wall_ms: int) -> None:
        self.counted.append((group_id, partitions))


@pytest.mark.parametrize("wants_all", [False, True])
def test_a_commit_is_either_counted_or_told_and_one_that_moves_back_is_told(wants_all: bool) -> None:
    counts = Counts()
    world = world_of(Recorder(1 << 20, wants_all=wants_all), counts)
    for offset in (5, 7, 6):
        world.send("c", ApiKey.OFFSET_COMMIT, 7, commit_fields("g", [("t", 0, offset)]))
    told = [[one.offset for one in event.moved_back] for event in counts.heard if isinstance(event, OffsetsCommitted)]
    assert told == ([[], [], [7]] if wants_all else [[7]])
    assert counts.counted == ([] if wants_all else [("g", 1), ("g", 1)])


def test_one_that_fails_to_count_is_reported_and_the_others_count() -> None:
    class Fails(Counts):
        def count_commit(self, group_id: str, partitions: int, wall_ms: int) -> None:
            raise ValueError(group_id)

    counts, log = Counts(), Lines()
    Observers([Fails(), counts], log).count_commit("g", 2, 1)
    assert counts.counted == [("g", 2)]
    assert reported(log) == ["an observer failed a commit"]


@pytest.mark.parametrize("api_version", [2, 7, 9])
def test_a_commit_whose_bytes_are_at_hand_is_read_when_somebody_asks(api_version: int) -> None:
    fields = commit_fields("g", [("t", index, 7) for index in range(3)], generation=4, member_id="m", metadata="é")
    layout = OffsetCommitRequest.layout(api_version)
    encoded = layout.encode(request(ApiKey.OFFSET_COMMIT, fields))
    asked = api_version, "client é", "/127.0.0.1", encoded, layout.decode(encoded)
    refused = {("t", 1): ErrorCode.TOPIC_AUTHORIZATION_FAILED}
    recorder, told = Recorder(1 << 20), Recorder(1 << 20)
    for noted in ((1, 10, 20, *asked, {}, None), (2, 11, 21, *asked, refused, None)):
        recorder.note_commit(noted)
        told(commit_event(noted))
    assert recorder.events("g") == told.events("g")
    assert recorder.memory_bytes < told.memory_bytes
