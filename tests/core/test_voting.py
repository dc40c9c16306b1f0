"""Votes, and ties as Java's hash map breaks them."""

from __future__ import annotations

import itertools

from ottla.broker.core.groups.classic.voting import elect
from ottla.broker.core.hash_order import bucket


def test_most_votes_win() -> None:
    assert elect(["range", "sticky", "range"]) == "range"
    assert elect(["cooperative-sticky", "range", "cooperative-sticky"]) == "cooperative-sticky"


def test_a_tie_goes_to_the_lower_bucket() -> None:
    order = ["uniform", "stream", "sticky", "range", "roundrobin", "cooperative-sticky"]
    for first, second in itertools.pairwise(order):
        assert elect([second, first]) == elect([first, second]) == first


def test_in_one_bucket_the_first_vote_wins() -> None:
    assert elect(["compatible", "default"]) == "compatible"
    assert elect(["default", "compatible"]) == "default"


def test_nobody_votes() -> None:
    assert elect([]) is None


def test_thirteen_names_are_spread_over_32_buckets() -> None:
    names = [f"p{number}" for number in range(1, 14)]
    winner = elect(names)
    assert winner == min(names, key=lambda name: (bucket(name, 32), names.index(name)))
    assert winner != min(names, key=lambda name: (bucket(name, 16), names.index(name)))
