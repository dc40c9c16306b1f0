"""Recordings played back: the scenarios of the coordinator, and the simulated world with all that goes wrong there."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from random import Random
from typing import Any

import pytest
from msgspec import msgpack
from msgspec.structs import replace

from ottla.broker.core.events import (
    AppendFinished,
    BarrierClosed,
    DeadlinesHeld,
    DeadlinesMoved,
    Event,
    EveryEvent,
    GenerationStarted,
    Input,
    JoinReceived,
    Observer,
    OwnershipChanged,
    StateChanged,
    TimerFired,
    TransactionEnded,
    TxnCommitReceived,
)
from ottla.broker.core.groups import removal
from ottla.broker.core.groups.config import GroupConfig
from ottla.broker.core.groups.coordinator import GroupCoordinator
from ottla.observe.recording import Header, open_recording
from ottla.observe.replay import Verdict, replay
from tests.core.consumer_groups.modern_scenario import ConsumerPlay
from tests.core.consumer_groups.modern_walk import Walk as ConsumerWalk
from tests.core.consumer_groups.test_consumer_scenarios import CASES as CONSUMER_CASES
from tests.core.scenario import Play
from tests.core.scenario_text import read_scenarios
from tests.core.test_random_walk import Walk
from tests.core.test_scenarios import CASES
from tests.core.world import World, join
from tests.observe.makers import HEADER
from tests.sim import exactly_once_world
from tests.sim.plan import draw
from tests.sim.runs import make_world
from tests.sim.watched import WatchedCoordinator


def header(config: GroupConfig, partitions: int, first_seq: int = 1) -> Header:
    return replace(HEADER, partitions=partitions, settings=asdict(config), first_seq=first_seq)


def played(config: GroupConfig, partitions: int, events: list[Event], first: int = 1) -> Verdict:
    """Replay events after the way through a file."""
    through = [(seq, msgpack.decode(msgpack.encode(event), type=type(event))) for seq, event in enumerate(events, 1)]
    return replay(header(config, partitions, first), through[first - 1 :])


class Tee(Observer):
    def __init__(self, *observers: Callable[[Event], Any]) -> None:
        self.observers = observers

    def __call__(self, event: Event) -> None:
        for observer in self.observers:
            observer(event)


@pytest.fixture
def lives(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, list[Event]]]:
    """Every coordinator of a scenario or simulation, with all of its events."""
    found: list[tuple[Any, list[Event]]] = []

    def watch(coordinator: Any) -> None:
        events: list[Event] = []
        machine = coordinator

        def keep(event: Event) -> None:
            if coordinator._started:
                events.append(replace(event))

        # One that is not started answers nobody and remembers nothing: its recording begins when it is.
        machine.observer = Tee(machine.observer, keep)
        found.append((coordinator, events))

    make, init = World.new_coordinator, WatchedCoordinator.__init__

    def new_coordinator(world: World) -> Any:
        coordinator = make(world)
        watch(coordinator)
        return coordinator

    def watched(self: WatchedCoordinator, *given: Any) -> None:
        init(self, *given)
        watch(self)

    monkeypatch.setattr(World, "new_coordinator", new_coordinator)
    monkeypatch.setattr(WatchedCoordinator, "__init__", watched)
    return found


@pytest.mark.parametrize(("path", "index", "title"), CASES, ids=[f"{path.stem}: {title}" for path, _, title in CASES])
def test_scenario(path: Any, index: int, title: str, lives: list[tuple[Any, list[Event]]]) -> None:
    Play().run(read_scenarios(path)[index])
    for coordinator, events in lives:
        verdict = played(coordinator.config, coordinator.partition_count, events)
        assert [str(one) for one in verdict.differences] == []
        assert verdict.compared == len(events)


@pytest.mark.parametrize("driven", [False, True])
@pytest.mark.parametrize("seed", range(12))
def test_simulated_world(
    seed: int, driven: bool, lives: list[tuple[Any, list[Event]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = draw(seed, driven=driven)
    make_world(plan).simulate()
    if plan.has("small batches"):
        monkeypatch.setattr(removal, "BATCH_RECORDS", 2)
    assert lives
    for coordinator, events in lives:
        config, partitions = coordinator.config, coordinator.partition_count
        verdict = played(config, partitions, events)
        assert [str(one) for one in verdict.differences] == []
        assert verdict.compared == len(events)
        if len(events) > 1:
            middle = Random(seed).randrange(2, len(events) + 1)
            verdict = played(config, partitions, events, middle)
            assert [str(one) for one in verdict.differences] == []


@pytest.mark.parametrize("seed", range(8))
def test_clients_that_do_anything_in_groups_that_are_held(seed: int, lives: list[tuple[Any, list[Event]]]) -> None:
    walk = Walk(seed)
    for _ in range(250):
        walk.step()
    walk.finish()
    assert {DeadlinesHeld, DeadlinesMoved} < {type(event) for _, events in lives for event in events}
    for coordinator, events in lives:
        config, partitions = coordinator.config, coordinator.partition_count
        verdict = played(config, partitions, events)
        assert [str(one) for one in verdict.differences] == []
        assert verdict.compared == len(events)
        for middle in Random(seed).sample(range(2, len(events) + 1), min(8, len(events) - 1)):
            verdict = played(config, partitions, events, middle)
            assert [str(one) for one in verdict.differences] == []


@pytest.mark.parametrize(("path", "index", "variant"), CONSUMER_CASES)
def test_scenario_of_consumer_groups(path: Any, index: int, variant: Any, lives: list[tuple[Any, list[Event]]]) -> None:
    ConsumerPlay().run(read_scenarios(path)[index], variant)
    for coordinator, events in lives:
        verdict = played(coordinator.config, coordinator.partition_count, events)
        assert [str(one) for one in verdict.differences] == []
        assert verdict.compared == len(events)


@pytest.mark.parametrize("seed", range(10))
def test_members_of_consumer_groups_that_do_anything(seed: int, lives: list[tuple[Any, list[Event]]]) -> None:
    walk = ConsumerWalk(seed)
    for _ in range(250):
        walk.step()
    walk.converge()
    for coordinator, events in lives:
        config, partitions = coordinator.config, coordinator.partition_count
        verdict = played(config, partitions, events)
        assert [str(one) for one in verdict.differences] == []
        assert verdict.compared == len(events)
        if len(events) > 1:
            verdict = played(config, partitions, events, Random(seed).randrange(2, len(events) + 1))
            assert [str(one) for one in verdict.differences] == []


def test_one_seed_gives_one_recording(lives: list[tuple[Any, list[Event]]]) -> None:
    recordings = []
    for _ in range(2):
        lives.clear()
        make_world(draw(3, driven=True)).simulate()
        recordings.append([msgpack.encode(events) for _, events in lives])
    assert recordings[0] == recordings[1]
    assert sum(map(len, recordings[0])) > 10_000


@pytest.mark.parametrize("seed", range(6))
def test_transactions_of_whole_brokers(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    lives: list[tuple[Any, list[Event]]] = []

    def coordinator(config: GroupConfig, new_id: Callable[[], str], partitions: int) -> GroupCoordinator:
        events: list[Event] = []
        made = GroupCoordinator(config, new_id, partitions, EveryEvent(events.append))
        lives.append((made, events))
        return made

    monkeypatch.setattr("tests.handlers.conftest.GroupCoordinator", coordinator)
    exactly_once_world.run(seed)
    assert {TxnCommitReceived, TransactionEnded} < {type(event) for _, events in lives for event in events}
    for made, events in lives:
        verdict = played(made.config, made.partition_count, events)
        assert [str(one) for one in verdict.differences] == []
        assert verdict.compared == len(events)


# What a replay notices

CONFIG = GroupConfig(group_initial_rebalance_delay_ms=100)


@pytest.fixture
def events() -> list[Event]:
    """A group of two, of which one leaves without a word."""
    world = World(CONFIG, 1)
    world.load()
    first = join(world, "").answer.member_id
    join(world, first)
    second = join(world, "").answer.member_id
    join(world, second)
    world.advance_to(60_000)
    return world.events


def test_what_was_recorded_comes_out_again(events: list[Event]) -> None:
    verdict = played(CONFIG, 1, events)
    assert verdict.is_same
    assert (verdict.events, verdict.compared, verdict.groups) == (len(events), len(events), {"g"})
    assert verdict.inputs == sum(isinstance(event, Input) for event in events)


@pytest.mark.parametrize("kind", [JoinReceived, TimerFired, OwnershipChanged])
def test_an_input_that_is_left_out_is_noticed(kind: type[Event], events: list[Event]) -> None:
    at = next(index for index, event in enumerate(events) if isinstance(event, kind))
    number = events[at].number  # type: ignore[attr-defined]
    kept = [event for event in events if number not in (event.cause, getattr(event, "number", None))]
    assert len(kept) < len(events)
    assert not played(CONFIG, 1, kept).is_same


@pytest.mark.parametrize(
    ("kind", "changes"),
    [
        (GenerationStarted, {"generation": 7}),
        (StateChanged, {"after": "Dead"}),
        (BarrierClosed, {"absent": ["x"], "absent_heard_ms": [1]}),
        (JoinReceived, {"session_timeout_ms": 1}),
        (TimerFired, {"at_ms": 99}),
        (AppendFinished, {"error": "KAFKA_STORAGE_ERROR"}),
    ],
)
def test_a_change_is_noticed(kind: type[Event], changes: dict[str, Any], events: list[Event]) -> None:
    at = next(index for index, event in enumerate(events) if isinstance(event, kind))
    verdict = played(CONFIG, 1, [*events[:at], replace(events[at], **changes), *events[at + 1 :]])
    assert not verdict.is_same
    assert verdict.differences[0].seq >= at


def test_other_settings_are_noticed(events: list[Event]) -> None:
    assert not played(GroupConfig(group_initial_rebalance_delay_ms=101), 1, events).is_same
    with pytest.raises(ValueError, match="group_max_size"):
        replay(replace(HEADER, settings={}), [])


def test_an_end_that_was_cut_off_is_no_difference(events: list[Event]) -> None:
    for end in range(len(events)):
        assert played(CONFIG, 1, events[:end]).is_same


def test_nothing_is_played_behind_a_gap(events: list[Event]) -> None:
    numbered = list(enumerate(events, 1))
    verdict = replay(header(CONFIG, 1), [*numbered[:10], *numbered[11:]])
    assert verdict.is_same
    assert verdict.missing == 11
    assert verdict.compared <= 10
    assert verdict.events == len(events) - 1


def test_events_of_unknown_kinds_are_no_gap(events: list[Event]) -> None:
    verdict = replay(header(CONFIG, 1), [(1, None), *enumerate(events, 2)])
    assert verdict.is_same
    assert (verdict.missing, verdict.compared) == (None, len(events))


def test_a_group_whose_beginning_is_missing_is_left_out(events: list[Event]) -> None:
    at = next(index for index, event in enumerate(events) if isinstance(event, GenerationStarted))
    verdict = played(CONFIG, 1, events, at)
    assert verdict.is_same
    assert (verdict.left_out, verdict.groups, verdict.compared) == ({"g"}, set(), 0)


def test_a_recording_of_an_earlier_version_is_read_and_replayed() -> None:
    recording = open_recording(Path(__file__).parent / "recordings/0.2.0.rec")
    verdict = replay(recording.header, recording.entries())
    assert verdict.is_same
    assert (verdict.compared, verdict.inputs, verdict.groups) == (264, 190, {"billing"})
    assert recording.notes == []
