"""The books of the migration demo: what it would miss if it counted wrongly."""

from __future__ import annotations

from typing import Any

from examples.migrate.books import Books


def event(name: str, at: float, **fields: Any) -> tuple[str, dict[str, Any]]:
    who, _, what = name.partition(" ")
    return who, {"event": what, "at": at, **fields}


def test_a_partition_that_is_given_up_before_it_is_taken_has_one_owner() -> None:
    books = Books()
    books.take([event("a took", 1, partitions=[0, 1]), event("a gave", 2, partitions=[1])])
    books.take([event("b took", 3, partitions=[1])])
    assert books.doubled == [] and books.owned == {"a": {0}, "b": {1}}


def test_two_owners_are_named() -> None:
    books = Books()
    books.take([event("a took", 1, partitions=[0]), event("b took", 2, partitions=[0])])
    assert books.doubled == [(0, "a", "b")]


def test_who_left_owns_nothing_and_who_lost_is_told() -> None:
    books = Books()
    books.take([event("a took", 1, partitions=[0]), event("a left", 2), event("b took", 3, partitions=[0])])
    books.take([event("b lost", 4, partitions=[0]), event("b commit refused", 5, error="no")])
    assert (books.doubled, books.lost, books.refused) == ([], [("b", 0)], ["b: no"])


def test_records_lost_and_repeated() -> None:
    books = Books()
    for offset in range(3):
        books.sent((0, offset))
    books.take([event("a saw", 1, places=[[0, 0], [0, 1]]), event("b saw", 2, places=[[0, 1]])])
    assert (books.records_sent, books.unseen, books.repeated) == (3, [(0, 2)], 1)


def test_the_longest_standstill_ends_in_the_time_asked_for() -> None:
    books = Books()
    books.take([event("a saw", at, places=[[0, int(at)]]) for at in (1.0, 2.0, 7.0, 8.0)])
    books.take([event("a saw", at, places=[[1, int(at)]]) for at in (6.0, 9.0)])
    assert books.longest_standstill(0, 10) == (5.0, 0)
    assert books.longest_standstill(0, 6) == (1.0, 0)
    assert books.longest_standstill(7, 10) == (3.0, 1)
    assert books.longest_standstill(10, 11) == (0.0, -1)
