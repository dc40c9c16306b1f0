"""The assignors: the vectors of the specification, and what holds whatever the order (section 4)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.broker.core.consumer_groups.assignors import ASSIGNORS
from ottla.broker.core.consumer_groups.assignors.preferred import preferred_assignor
from ottla.broker.core.consumer_groups.assignors.spec import GroupSpec, MemberSpec, Pace, Target, same_partitions
from ottla.protocol.steps import finished
from tests.protocol.wire_values import examples

T, U = UUID(int=1), UUID(int=2)
Subscriptions = Mapping[str, Sequence[UUID]]
Targets = Mapping[str, Target]


def assign(
    subscriptions: Subscriptions,
    counts: Mapping[UUID, int],
    targets: Targets | None = None,
    *,
    assignor: str = "uniform",
    static: Mapping[str, str] | None = None,
) -> dict[str, Target]:
    """The new targets of members with these subscriptions."""
    members = [
        MemberSpec(member_id, (static or {}).get(member_id), topic_ids, (targets or {}).get(member_id, {}))
        for member_id, topic_ids in subscriptions.items()
    ]
    homogeneous = all(set(topic_ids) == set(members[0].topic_ids) for topic_ids in subscriptions.values())
    return finished(ASSIGNORS[assignor](GroupSpec(members, counts, homogeneous)))


def numbers(targets: Targets, topic_id: UUID = T) -> dict[str, list[int]]:
    """The partitions that members get of a topic."""
    return {member_id: list(target.get(topic_id, ())) for member_id, target in targets.items()}


HISTORIES: list[list[tuple[str, int, dict[str, list[int]]]]] = [
    # who is there, how many partitions there are, who gets what
    [("A", 3, {"A": [0, 1, 2]}), ("AB", 3, {"A": [0, 1], "B": [2]})],
    [("AB", 3, {"A": [0], "B": [1, 2]})],
    [
        ("A", 3, {"A": [0, 1, 2]}),
        ("AB", 3, {"A": [0, 1], "B": [2]}),
        ("ABC", 3, {"A": [0], "B": [2], "C": [1]}),
        ("ABCD", 3, {"A": [0], "B": [2], "C": [1], "D": []}),
    ],
    [
        ("A", 5, {"A": [0, 1, 2, 3, 4]}),
        ("AB", 5, {"A": [0, 1, 2], "B": [3, 4]}),
        ("ABC", 5, {"A": [0, 1], "B": [3, 4], "C": [2]}),
        ("ABCD", 5, {"A": [0, 1], "B": [3], "C": [2], "D": [4]}),
    ],
    [
        ("A", 6, {"A": [0, 1, 2, 3, 4, 5]}),
        ("AB", 6, {"A": [0, 1, 2], "B": [3, 4, 5]}),
        ("ABC", 6, {"A": [0, 1], "B": [3, 4], "C": [2, 5]}),
        ("AC", 6, {"A": [0, 1, 3], "C": [2, 4, 5]}),
        ("AC", 8, {"A": [0, 1, 3, 6], "C": [2, 4, 5, 7]}),
        ("ABC", 8, {"A": [0, 1, 3], "B": [6, 7], "C": [2, 4, 5]}),
    ],
    [("ABC", 10, {"A": [0, 1, 2], "B": [3, 4, 5], "C": [6, 7, 8, 9]})],
    [("A", 7, {"A": [*range(7)]}), ("ABC", 7, {"A": [0, 1, 2], "B": [3, 4], "C": [5, 6]})],
    [("ABC", 5, {"A": [0], "B": [1, 2], "C": [3, 4]})],
]


@pytest.mark.parametrize("history", HISTORIES)
def test_histories_of_uniform(history: list[tuple[str, int, dict[str, list[int]]]]) -> None:
    """4.3, R4.12; whoever is not there any more has no target."""
    targets: dict[str, Target] = {}
    for there, count, expected in history:
        members = {member_id: [T] for member_id in there}
        targets = assign(members, {T: count}, targets)
        assert numbers(targets) == expected


def test_range_sorts_static_members_first() -> None:
    """4.2, R4.9, S43: dynamic a and b, and c with instance id z."""
    counts, static = {T: 3, U: 3}, {"c": "z"}
    three = assign({name: [T, U] for name in "bca"}, counts, assignor="range", static=static)
    assert numbers(three, T) == numbers(three, U) == {"c": [0], "a": [1], "b": [2]}
    two = assign({name: [T, U] for name in "cb"}, counts, assignor="range", static=static)
    assert numbers(two, T) == numbers(two, U) == {"c": [0, 1], "b": [2]}


def test_range_of_different_subscriptions() -> None:
    """4.2: per topic among its subscribers."""
    targets = assign({"a": [T], "b": [T, U], "c": [U]}, {T: 3, U: 3}, assignor="range")
    assert numbers(targets, T) == {"a": [0, 1], "b": [2], "c": []}
    assert numbers(targets, U) == {"a": [], "b": [0, 1], "c": [2]}


def test_range_forgets_what_was() -> None:
    """R4.8."""
    before = {"a": {T: [2]}, "b": {T: [0, 1]}}
    assert numbers(assign({"a": [T], "b": [T]}, {T: 3}, before, assignor="range")) == {"a": [0, 1], "b": [2]}


def test_uniform_of_different_subscriptions() -> None:
    """R4.14, S44: disjoint ones, and one topic that is shared beside one that is not."""
    apart = assign({"A": [T], "B": [U]}, {T: 3, U: 3})
    assert apart == {"A": {T: [0, 1, 2]}, "B": {U: [0, 1, 2]}}
    shared = assign({"A": [T], "B": [T, U]}, {T: 3, U: 3})
    assert shared == {"A": {T: [0, 1, 2]}, "B": {U: [0, 1, 2]}}


def test_what_is_gone_is_dropped() -> None:
    """R4.4; a topic that is gone, and one that nobody subscribes to any more."""
    before = {"A": {T: [0, 1], U: [0]}, "B": {U: [1]}}
    for there in ({"A": [T], "B": [T]}, {"A": [T], "B": []}):
        after = assign(there, {T: 2}, before)
        assert all(U not in target for target in after.values())
        assert numbers(after)["A"][0] == 0


@pytest.mark.parametrize("assignor", ASSIGNORS)
def test_nothing_to_assign(assignor: str) -> None:
    """R4.5: everybody is told."""
    assert assign({}, {}, assignor=assignor) == {}
    assert assign({"A": [], "B": []}, {}, {"A": {T: [0]}}, assignor=assignor) == {"A": {}, "B": {}}


def test_a_target_that_stays_is_the_same_object() -> None:
    """So whoever compares them need not look."""
    before = assign({"A": [T], "B": [T]}, {T: 10})
    after = assign({"A": [T], "B": [T]}, {T: 10}, before)
    assert all(after[member_id] is before[member_id] for member_id in "AB")


def test_the_same_partitions_in_another_order() -> None:
    """R4.5."""
    assert same_partitions({T: [0, 1], U: [2]}, {U: [2], T: [1, 0]})
    assert not same_partitions({T: [0, 1]}, {T: [0]})
    assert not same_partitions({T: [0]}, {U: [0]})
    assert not same_partitions({T: [0]}, {})


@st.composite
def groups(draw: st.DrawFn) -> tuple[Subscriptions, dict[UUID, int], list[Subscriptions]]:
    """Topics, members that subscribe to some of them, and how the group changes."""
    topics = [UUID(int=draw(st.integers(0, 2**128 - 1))) for _ in range(draw(st.integers(1, 4)))]
    counts = {topic_id: draw(st.integers(1, 30)) for topic_id in topics}
    member_ids = st.text("abcdefghijXYZ0123456789-_", min_size=1, max_size=22)
    alike = draw(st.booleans())
    everything = st.just(list(counts))
    topic_ids = everything if alike else st.lists(st.sampled_from(topics), unique=True)
    stages: list[Subscriptions] = [
        draw(st.dictionaries(member_ids, topic_ids, min_size=1, max_size=9)) for _ in range(3)
    ]
    return stages[0], counts, stages[1:]


def owners(targets: Targets) -> dict[tuple[UUID, int], str]:
    """Who has which partition; none is had twice."""
    rows = [
        ((topic_id, partition), member_id)
        for member_id, target in targets.items()
        for topic_id, partitions in target.items()
        for partition in partitions
    ]
    assert len(dict(rows)) == len(rows)
    return dict(rows)


def load(target: Target) -> int:
    return sum(map(len, target.values()))


def check(subscriptions: Subscriptions, counts: Mapping[UUID, int], targets: Targets) -> None:
    """What holds for every assignor: all is assigned once, to those who want it."""
    wanted = {topic_id for topic_ids in subscriptions.values() for topic_id in topic_ids}
    expected = {(topic_id, partition) for topic_id in wanted for partition in range(counts[topic_id])}
    found = owners(targets)
    assert found.keys() == expected
    assert targets.keys() == subscriptions.keys()
    assert all(topic_id in subscriptions[member_id] for (topic_id, _), member_id in found.items())
    assert all(target.values() or not target for target in targets.values())


def alike(subscriptions: Subscriptions) -> Iterable[list[str]]:
    """Members that subscribe to the same."""
    by_topics: dict[frozenset[UUID], list[str]] = {}
    for member_id, topic_ids in subscriptions.items():
        by_topics.setdefault(frozenset(topic_ids), []).append(member_id)
    return by_topics.values()


@examples(60)
@given(groups())
def test_uniform_at_random(group: tuple[Subscriptions, dict[UUID, int], list[Subscriptions]]) -> None:
    """R4.10, R4.13: balance, and whoever is at or below its quota loses nothing."""
    subscriptions, counts, changes = group
    targets: dict[str, Target] = {}
    for there in (subscriptions, *changes):
        before, targets = targets, assign(there, counts, targets)
        check(there, counts, targets)
        for members in alike(there):
            loads = [load(targets[member_id]) for member_id in members]
            assert max(loads) - min(loads) <= 1
        if len(list(alike(there))) == 1:
            least = sum(counts[topic_id] for topic_id in next(iter(there.values()))) // len(there)
            for member_id in before.keys() & there.keys():
                kept = {topic_id: set(before[member_id].get(topic_id, ())) for topic_id in there[member_id]}
                lost = sum(len(partitions - set(targets[member_id].get(t, ()))) for t, partitions in kept.items())
                assert lost <= max(0, sum(map(len, kept.values())) - least)


@examples(60)
@given(groups())
def test_range_at_random(group: tuple[Subscriptions, dict[UUID, int], list[Subscriptions]]) -> None:
    """R4.8: consecutive, in the order of the ids, and the first ones have more."""
    subscriptions, counts, _ = group
    targets = assign(subscriptions, counts, assignor="range")
    check(subscriptions, counts, targets)
    for topic_id, count in counts.items():
        of_topic = [targets[member_id].get(topic_id, ()) for member_id in sorted(subscriptions)]
        shares = [partitions for name, partitions in zip(sorted(subscriptions), of_topic, strict=True)
                  if topic_id in subscriptions[name]]  # fmt: skip
        assert [partition for share in shares for partition in share] == [*range(count)] * bool(shares)
        assert sorted(map(len, shares), reverse=True) == [*map(len, shares)]
        assert not shares or len(shares[0]) - len(shares[-1]) <= 1


@pytest.mark.parametrize("assignor", ASSIGNORS)
@pytest.mark.parametrize("is_mixed", [False, True], ids=["homogeneous", "heterogeneous"])
def test_a_large_group_takes_many_steps(assignor: str, is_mixed: bool) -> None:
    """10,000 partitions and 1,000 members, so others get their turn; and the steps do not change what comes of it."""
    counts = {UUID(int=number): 100 for number in range(100)}
    topics = list(counts)
    members = [
        MemberSpec(f"member-{number}", None, topics[number % 10 if is_mixed else 0 :], {}) for number in range(1000)
    ]
    steps = ASSIGNORS[assignor](GroupSpec(members, counts, not is_mixed))
    count = 0
    with pytest.raises(StopIteration) as stop:
        while True:
            assert next(steps) is None
            count += 1
    assert count >= 10_000 // Pace.STEP // 2
    targets: dict[str, Target] = stop.value.value
    assert len(owners(targets)) == 10_000


@pytest.mark.parametrize(
    ("votes", "before", "after", "chosen"),
    [
        ({}, None, None, None),
        ({}, None, "range", "range"),
        ({"range": 1}, "range", None, None),
        ({"uniform": 1, "range": 2}, None, None, "range"),
        ({"uniform": 1, "range": 1}, None, "range", "range"),
        # S24: range, uniform, range; then one of them and uniform twice
        ({"range": 1, "uniform": 1}, None, "range", "range"),
        ({"range": 1, "uniform": 1}, None, "uniform", "uniform"),
        # equal counts
        ({"uniform": 1, "range": 1}, None, None, "uniform"),
        ({"range": 1}, None, "uniform", "uniform"),
        ({"uniform": 1}, None, "range", "range"),
        ({"uniform": 1, "range": 1}, "range", "range", "range"),
        ({"uniform": 2, "range": 2}, "range", "range", "uniform"),
        ({"range": 2}, "range", "uniform", "uniform"),
    ],
)
def test_the_preferred_assignor(votes: dict[str, int], before: str | None, after: str | None, chosen: str) -> None:
    """R2.24. Equal counts are as Kafka 4.3 decides them."""
    assert preferred_assignor(votes, before, after) == chosen
