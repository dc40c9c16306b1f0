"""The accounts of the chaos tests find what they are there to find."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.chaos.events import (
    Acked,
    Committed,
    Created,
    Deleted,
    Doubtful,
    Ended,
    Event,
    Generation,
    Saw,
    Trouble,
    event_of,
    line_of,
)
from tests.chaos.ledger import Ledger
from tests.chaos.results import Results

ONCE, PLAIN = ("once", 0), ("plain", 0)


def ledger() -> Ledger:
    """Three records of each topic's first partition, read back; the group has read and committed two of them."""
    made = Ledger(["once", "plain"], ["once"])
    for place in (ONCE, PLAIN):
        made.read(place, 0, [(0, "v0"), (1, "v3"), (2, "v6")])
        made.take(Acked(*place, 1, "v3"))
        for offset, value in ((0, "v0"), (1, "v3")):
            made.take(Saw("g", *place, offset, value))
        made.take(Committed("g", *place, 2))
    made.take(Generation("g", "m", 4))
    made.take(Created("made", 2))
    made.take(Created("gone", 2))
    made.take(Doubtful("gone"))
    made.take(Deleted("gone"))
    return made


def check(made: Ledger) -> list[str]:
    """All that is checked at the end, against what the broker should have."""
    for place in (ONCE, PLAIN):
        made.check_acked(place, made.promised(place))
        made.found_offsets("g", {place: 2}, {place: 2}, final=True)
    made.check_seen()
    made.found_generations("g", [1, 2, 2, 4])
    made.found_topics(*made.topics(), {"made": 2, "once": 3})
    return made.problems


def test_nothing_is_found_where_nothing_is_wrong() -> None:
    made = ledger()
    made.read(PLAIN, 0, [(0, "v0"), (1, "v3"), (2, "v6"), (3, "v3"), (4, "v6"), (5, "v9")])
    assert check(made) == [], "a retry may repeat what is not idempotent"


@pytest.mark.parametrize(
    ("event", "words"),
    [
        (Acked("once", 0, 2, "v9"), "lost write: ('once', 0): v9 was acknowledged at 2, where there is v6"),
        (Acked("once", 0, 3, "v9"), "lost write: ('once', 0): v9 was acknowledged at 3, where there is None"),
        (Acked("once", 0, 1, "v9"), "inconsistent offset: once-0: offset 1 was given to v3 and to v9"),
        (Saw("g", "once", 0, 2, "v9"), "phantom read: g saw v9"),
        (Saw("g", "once", 0, 1, "v9"), "inconsistent offset: g read v3, then v9"),
        (Generation("g", "m", 3), "generation: g: generation 3 of m after a later one"),
        (Generation("g", "n", 5), "generation: g: a member was in 5"),
        (Created("more", 1), "topic: more was created with 1 partitions, and has None"),
        (Deleted("once"), "topic: once was deleted, and is there"),
        (Trouble("something"), "client: something"),
    ],
)
def test_what_a_load_process_tells(event: Event, words: str) -> None:
    made = ledger()
    made.take(event)
    assert words in "\n".join(check(made))


@pytest.mark.parametrize(
    ("read", "words"),
    [
        (
            lambda made: made.read(ONCE, 0, [(0, "v0"), (1, "v3")]),
            "lost write: ('once', 0): it ends at 2, and had 3 records",
        ),
        (
            lambda made: made.read(ONCE, 0, [(0, "v0"), (1, "v6"), (2, "v6")]),
            "inconsistent offset: ('once', 0): offset 1 had v3 and has v6",
        ),
        (lambda made: made.read(ONCE, 3, [(4, "v9")]), "inconsistent offset: ('once', 0): offset 4 comes after 2"),
        (lambda made: made.read(ONCE, 3, [(3, "v3")]), "duplicate: ('once', 0): v3 is stored twice"),
        (lambda made: made.read(ONCE, 3, [(3, "v12")]), "nonmonotonic send: ('once', 0): v12 follows number 6"),
        (lambda made: made.read(PLAIN, 3, [(3, "v12")]), "nonmonotonic send: ('plain', 0): v12 follows number 6"),
        (
            lambda made: made.found_offsets("g", {ONCE: 2}, {ONCE: 1}),
            "lost commit: g: ('once', 0) was committed up to 2, and is at 1",
        ),
        (lambda made: made.found_offsets("g", {ONCE: 2}, {}), "was committed up to 2, and is at None"),
        (
            lambda made: made.found_offsets("g", {}, {ONCE: 3}, final=True),
            "unseen: g: ('once', 0) is at 3, and nobody saw [2]",
        ),
        (
            lambda made: made.found_offsets("g", {}, {ONCE: 9}, final=True),
            "phantom commit: g: ('once', 0) was at 9, and has 3 records",
        ),
        (
            lambda made: made.found_offsets("g", {}, {ONCE: 9}),
            "phantom commit: g: ('once', 0) was at 9, and has 3 records",
        ),
        (lambda made: made.found_generations("g", [1, 5, 4]), "generation: g: it fell"),
        (lambda made: made.found_generations("g", [1, 3]), "generation: g: a member was in 4"),
        (lambda made: made.found_topics(*made.topics(), {"made": 1}), "created with 2 partitions, and has 1"),
        (lambda made: made.found_topics(*made.topics(), {"made": 2, "gone": 2}), "gone was deleted, and is there"),
    ],
)
def test_what_is_read_back(read: Callable[[Ledger], None], words: str) -> None:
    made = ledger()
    read(made)
    assert words in "\n".join(check(made))


@pytest.mark.parametrize(
    ("event", "words"),
    [
        (Saw("g", *ONCE, 3, "v9"), "skipped poll: g was shown offset 3 of ('once', 0) after 1"),
        (Saw("g", *ONCE, 1, "v3"), "nonmonotonic poll: g was shown offset 1 of ('once', 0) after 1"),
        (Saw("g", *ONCE, 0, "v0"), "nonmonotonic poll: g was shown offset 0 of ('once', 0) after 1"),
        (Generation("g", "m", 5), "generation: g: m is in 5 after 4"),
        (Generation("g", "n", 5), "generation: g: n is in 5 after 4"),
    ],
)
def test_a_settled_group(event: Event, words: str) -> None:
    """Its generation stays, and each of its partitions has one reader, who goes on where he was."""
    made = ledger()
    made.settle("g")
    made.take(Saw("g", *ONCE, 0, "v0"))  # what it had read before is nobody's concern
    made.take(Saw("g", *ONCE, 1, "v3"))
    assert not made.problems
    made.take(event)
    assert made.problems == [words]


def test_a_group_that_is_told_to_end_may_move() -> None:
    made = ledger()
    made.settle("g")
    made.unsettle()
    made.take(Generation("g", "m", 5))
    assert not made.problems


def test_what_is_left_to_be_seen() -> None:
    made = ledger()
    assert made.unseen("g", ["once"]) == {ONCE: [2]}
    made.check_unseen("g", ["once"])
    assert made.problems == ["unseen: g: nobody saw [2] of ('once', 0)"]
    made.take(Saw("g", *ONCE, 2, "v6"))
    assert made.unseen("g", ["once"]) == {}


def test_whether_all_are_in_one_generation() -> None:
    made = ledger()
    assert not made.is_one("g", ["m", "n"])
    made.take(Generation("g", "n", 5))
    assert not made.is_one("g", ["m", "n"])
    made.take(Generation("g", "m", 5))
    assert made.is_one("g", ["m", "n"])


def results(*events: Event) -> Results:
    made = Results()
    for event in (
        Acked("input", 0, 0, "v0"),
        Acked("input", 0, 1, "v4"),
        Acked("input", 1, 0, "v1"),
        Saw("w", "output", 0, 0, "done:v0"),
        Saw("w", "output", 0, 5, "done:v4"),
        *events,
    ):
        made.take(event)
    made.check_complete("w", "output")
    made.check_offsets("g", {("input", 0): 2, ("input", 1): 1}, "input")
    return made


LAST = Saw("w", "output", 1, 3, "done:v1")


def test_exactly_one_result_each() -> None:
    assert results(LAST).problems == []


@pytest.mark.parametrize(
    ("events", "words"),
    [
        ([], "unseen: w: output lacks ['done:v1']"),
        ([LAST, Saw("w", "output", 1, 4, "done:v1")], "duplicate: w: ('output', 1) shows number 1 where 5 comes next"),
        ([LAST, Saw("w", "output", 1, 3, "done:v5")], "nonmonotonic poll: w: ('output', 1) shows offset 3 after 3"),
        ([LAST, Saw("w", "output", 1, 4, "aborted:v5")], "aborted read: w: ('output', 1) shows aborted:v5"),
        (
            [LAST, Saw("w", "output", 1, 4, "done:v9")],
            "skipped poll: w: ('output', 1) shows number 9 where 5 comes next",
        ),
        ([LAST, Saw("w", "output", 1, 4, "done:v5")], "phantom read: w: output has ['done:v5'] besides"),
        ([LAST, Acked("input", 1, 1, "v5")], "lost commit: g: committed are {('input', 0): 2, ('input', 1): 1}"),
        ([LAST, Trouble("something")], "client: something"),
    ],
)
def test_what_is_wrong_with_results(events: list[Event], words: str) -> None:
    assert words in "\n".join(results(*events).problems)


@pytest.mark.parametrize("event", [Acked("t", 1, 22, "v1"), Saw("g", "t", 0, 1, "v"), Deleted("t"), Ended("x")])
def test_events_as_lines(event: Event) -> None:
    assert event_of(line_of(event)) == event
    with pytest.raises(ValueError, match="not an event"):
        event_of(line_of(event) + "\tmore")
