"""The lane of a node: what goes out when, and what its logs are told."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.broker.engine import Unavailable
from ottla.broker.storage.postgres.database import Head, Row, Stored
from ottla.broker.storage.postgres.lane import Busy, Diverged, Done, Fenced, Lane, Lost, Send

HEAD = bytes(range(61))


class Driven:
    """A lane that leads the logs 1 and 2 under epoch 5, and what came of it."""

    def __init__(self, **limits: int) -> None:
        self.lane = Lane(**limits)
        self.lane.lead(1, 5, 0)
        self.lane.lead(2, 5, 10)
        self.lane.connected()

    def append(self, token: str, log_id: int = 1, count: int = 1, size: int = 9) -> int:
        return self.lane.append(log_id, HEAD, bytes(size), count=count, max_timestamp_ms=7, token=token)

    def taken(self) -> list[Any]:
        effects, self.lane.effects = self.lane.effects, []
        return effects

    def sent(self) -> Send:
        (send,) = [effect for effect in self.taken() if isinstance(effect, Send)]
        return send

    def told(self) -> list[tuple[object, type | None]]:
        """Tokens, and the kind of error."""
        done = [effect for effect in self.lane.effects if isinstance(effect, Done)]
        self.lane.effects = [effect for effect in self.lane.effects if not isinstance(effect, Done)]
        return [(one.token, None if one.error is None else type(one.error)) for one in done]


@pytest.fixture
def driven() -> Driven:
    return Driven()


def bases(send: Send) -> list[tuple[int, int]]:
    return [(row.log_id, row.base_offset) for row in send.rows]


def test_an_append_goes_out_at_once_with_offset_and_epoch_in_place(driven: Driven) -> None:
    assert driven.append("a", count=3) == 0
    send = driven.sent()
    assert send.heads == (Head(1, 5, 0),) and not send.is_again
    (row,) = send.rows
    assert (row.base_offset, row.last_offset, row.leader_epoch, row.max_timestamp_ms) == (0, 2, 5, 7)
    assert row.head == bytes(8) + HEAD[8:12] + (5).to_bytes(4, "big") + HEAD[16:]


def test_one_statement_is_in_flight_and_the_next_takes_all_that_waits(driven: Driven) -> None:
    driven.append("a")
    driven.taken()
    assert (driven.append("b", count=2), driven.append("c", 2), driven.append("d")) == (1, 10, 3)
    assert driven.taken() == []
    driven.lane.answered([Stored(1, 5, 0)])
    assert driven.told() == [("a", None)]
    send = driven.sent()
    assert send.heads == (Head(1, 5, 1), Head(2, 5, 10)) and bases(send) == [(1, 1), (2, 10), (1, 3)]
    driven.lane.answered([Stored(1, 5, 1), Stored(2, 5, 10)])
    assert sorted(driven.told()) == [("b", None), ("c", None), ("d", None)]
    assert driven.lane.memory_bytes == 0


def test_statements_are_bounded_and_a_large_batch_goes_alone() -> None:
    driven = Driven(most_bytes=250, most_rows=2)
    driven.append("first")
    driven.taken()
    driven.append("small")
    driven.append("large", size=900)
    for token in "xyz":
        driven.append(token)
    sizes = []
    for base in (0, 1, 2, 3, 5):
        driven.lane.answered([Stored(1, 5, base)])
        sizes += [len(effect.rows) for effect in driven.taken() if isinstance(effect, Send)]
    assert sizes == [1, 1, 2, 1]


def test_what_was_there_already_is_done(driven: Driven) -> None:
    driven.append("a", count=4)
    driven.lane.answered([Stored(1, 5, 4)])
    assert driven.told() == [("a", None)]


def test_after_an_unknown_outcome_the_same_goes_out_again_alone(driven: Driven) -> None:
    driven.append("a")
    first = driven.sent()
    driven.append("b")
    driven.lane.lost()
    assert driven.told() == []
    driven.lane.connected()
    again = driven.sent()
    assert (again.heads, again.rows, again.is_again) == (first.heads, first.rows, True)
    driven.lane.rival()
    assert driven.sent() == again
    driven.lane.answered([Stored(1, 5, 1)])
    assert driven.told() == [("a", None)]
    assert bases(driven.sent()) == [(1, 1)]


def test_nothing_goes_out_without_a_connection(driven: Driven) -> None:
    driven.lane.lost()
    driven.append("a")
    assert driven.taken() == []
    driven.lane.connected()
    assert bases(driven.sent()) == [(1, 0)]


def test_a_fenced_log_is_lost_with_everything_that_waits(driven: Driven) -> None:
    driven.append("a")
    driven.append("b", 2)
    driven.append("c")
    driven.lane.barrier(1, "d")
    driven.lane.answered([Stored(1, 6, 9)])
    assert driven.told() == [("a", Fenced), ("c", Fenced), ("d", Fenced)]
    (lost,) = [effect for effect in driven.taken() if isinstance(effect, Lost)]
    assert (lost.log_id, lost.leader_epoch) == (1, 5)
    with pytest.raises(Fenced):
        driven.append("e")
    driven.lane.answered([Stored(2, 5, 10)])
    assert driven.told() == [("b", None)] and driven.lane.memory_bytes == 0


def test_a_deleted_log_is_unavailable(driven: Driven) -> None:
    driven.append("a")
    driven.lane.answered([])
    assert driven.told() == [("a", Unavailable)]


def test_a_barrier_is_a_head_without_rows(driven: Driven) -> None:
    driven.lane.barrier(2, "b")
    assert driven.sent() == Send((Head(2, 5, 10),), (), False)
    driven.append("a", 2)
    driven.lane.barrier(2, "c")
    driven.lane.answered([Stored(2, 5, 10)])
    assert driven.told() == [("b", None)]
    driven.lane.answered([Stored(2, 5, 10)])
    assert driven.told() == [("a", None), ("c", None)], "it is settled after what was queued before it"


def test_a_log_that_ends_elsewhere_stands_still_until_it_is_healed(driven: Driven) -> None:
    driven.append("a", 2, count=2)
    driven.append("b", 2)
    driven.append("c", 1)
    driven.taken()
    driven.lane.answered([Stored(2, 5, 8)])
    diverged, send = driven.taken()
    assert diverged == Diverged(2, 8, 10)
    assert bases(send) == [(1, 0)], "others go on"
    driven.lane.heal(2, [Row(2, 8, 9, 5, 0, HEAD, b"lost")])
    driven.lane.answered([Stored(1, 5, 0)])
    healing = driven.sent()
    assert healing.heads == (Head(2, 5, 8),) and bases(healing) == [(2, 8), (2, 10), (2, 12)]
    assert driven.told() == []
    driven.lane.answered([Stored(2, 5, 8)])
    assert driven.told() == [("a", None), ("b", None)] and driven.lane.memory_bytes == 0


def test_a_log_that_cannot_be_healed_is_given_up(driven: Driven) -> None:
    driven.append("a")
    driven.lane.answered([Stored(1, 5, 3)])
    driven.append("b")
    driven.taken()
    driven.lane.give_up(1, Fenced("it has other records"))
    assert driven.told() == [("a", Fenced), ("b", Fenced)] and driven.lane.memory_bytes == 0


def test_what_is_given_up_is_told_at_once_and_not_sent_again(driven: Driven) -> None:
    driven.append("a")
    driven.taken()
    driven.append("b", 1)
    driven.append("c", 2)
    driven.lane.answered([Stored(1, 5, 0)])
    both = driven.sent()
    driven.lane.lost()
    driven.lane.give_up(1, Fenced("taken"))
    assert driven.told() == [("b", Fenced)]
    driven.lane.connected()
    assert bases(both) == [(1, 1), (2, 10)]
    assert driven.sent() == Send((Head(2, 5, 10),), both.rows[1:], True)


def test_a_late_answer_of_an_epoch_that_was_given_up_says_nothing_of_the_next(driven: Driven) -> None:
    driven.append("a")
    driven.lane.lead(1, 7, 4)
    assert driven.told() == [("a", Fenced)]
    assert driven.append("b") == 4
    driven.taken()
    driven.lane.answered([Stored(1, 7, 4)])
    assert driven.told() == []
    assert driven.sent().heads == (Head(1, 7, 4),)


def test_memory_is_bounded_and_a_refused_append_has_no_offset() -> None:
    driven = Driven(most_memory_bytes=150)
    driven.append("a")
    driven.append("b")
    with pytest.raises(Busy):
        driven.append("c")
    driven.lane.answered([Stored(1, 5, 0)])
    assert driven.append("d") == 2


def test_a_batch_larger_than_the_bound_is_taken_when_nothing_waits() -> None:
    driven = Driven(most_memory_bytes=50)
    assert driven.append("a", size=500) == 0
    with pytest.raises(Busy):
        driven.append("b")
