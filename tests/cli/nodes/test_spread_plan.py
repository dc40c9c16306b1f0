"""Even homes: how many partitions each node gets, and how few are moved."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from ottla.broker.core.topics.homes import FOLLOWERS
from ottla.cli.spread import even
from ottla.protocol.internal_topics import GROUP_EVENTS_TOPIC, INTERNAL_TOPICS, OFFSETS_TOPIC, TRANSACTIONS_TOPIC


def moved(before: dict[str, list[int]], after: dict[str, list[int]]) -> int:
    return sum(old != new for name in before for old, new in zip(before[name], after[name], strict=True))


def test_a_broker_that_grew() -> None:
    before = {OFFSETS_TOPIC: [1] * 50, TRANSACTIONS_TOPIC: [1] * 50, GROUP_EVENTS_TOPIC: [1] * 50, "orders": [1] * 6}
    after = even(before, [1, 2, 3, 4])
    assert sorted(Counter(after[OFFSETS_TOPIC]).values()) == [12, 12, 13, 13]
    assert set(Counter(after[OFFSETS_TOPIC] + after[TRANSACTIONS_TOPIC]).values()) == {25}
    assert after[GROUP_EVENTS_TOPIC] == after[OFFSETS_TOPIC]
    assert sorted(Counter(after["orders"]).values()) == [1, 1, 2, 2]


def test_a_follower_goes_along_as_far_as_there_is_one_to_follow() -> None:
    before = {OFFSETS_TOPIC: [1, 1, 1, 1], GROUP_EVENTS_TOPIC: [1, 1]}
    after = even(before, [1, 2])
    assert after[GROUP_EVENTS_TOPIC] == after[OFFSETS_TOPIC][:2]


@pytest.mark.parametrize(
    "homes",
    [
        {"a": [1], "b": [1], "c": [2], "d": [2]},  # dealt again, two would change places
        {"a": [1, 2, 3], "b": [3, 1, 2]},
        {"a": [2]},
        {},
    ],
)
def test_what_is_even_stays(homes: dict[str, list[int]]) -> None:
    node_ids = sorted({one for all in homes.values() for one in all} | {1, 2})
    assert even(homes, node_ids) == homes


def test_nodes_that_go_give_away_what_is_theirs_and_nothing_else_moves() -> None:
    before = {"orders": [1, 2, 3, 4, 1, 2, 3, 4]}
    after = even(before, [1, 2])
    assert after["orders"] == [1, 2, 1, 2, 1, 2, 1, 2]
    assert moved(before, after) == 4


@pytest.mark.parametrize("seed", range(200))
def test_any_homes_become_even(seed: int) -> None:
    chance = random.Random(seed)
    names = [OFFSETS_TOPIC, TRANSACTIONS_TOPIC, GROUP_EVENTS_TOPIC, *"abcdef"]
    size = chance.randrange(1, 20)
    sizes = {name: size if name in (OFFSETS_TOPIC, GROUP_EVENTS_TOPIC) else chance.randrange(1, 20) for name in names}
    before = {name: [chance.randrange(1, 6) for _ in range(sizes[name])] for name in names}
    node_ids = list(range(1, chance.randrange(2, 7)))
    after = even(before, node_ids)
    assert {name: len(one) for name, one in after.items()} == sizes
    own = {name: one for name, one in after.items() if name not in FOLLOWERS}
    for kind in (True, False):
        counts = Counter(one for name, all in own.items() if (name in INTERNAL_TOPICS) == kind for one in all)
        held = [counts[one] for one in node_ids]
        assert max(held) - min(held) <= 1
        assert sum(held) == sum(counts.values())
    for one in own.values():
        held = [Counter(one)[node_id] for node_id in node_ids]
        assert max(held) - min(held) <= 1
    assert even(after, node_ids) == after
