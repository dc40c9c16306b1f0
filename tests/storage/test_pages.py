"""The tail and the pages of logs."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.broker.storage.postgres.database import Row
from ottla.broker.storage.postgres.pages import Fetch, Pages, Ready, Tail


def row(base: int, count: int = 1, log_id: int = 1, size: int = 39) -> Row:
    return Row(log_id, base, base + count - 1, 5, 0, bytes(61), bytes(size))


def bases(rows: Any) -> list[int] | None:
    return None if rows is None else [one.base_offset for one in rows]


def test_a_tail_has_what_was_added() -> None:
    tail = Tail()
    tail.lead(1, 10)
    tail.add(row(10, 3))
    tail.add(row(13))
    assert bases(tail.rows(1, 9)) is None
    assert [bases(tail.rows(1, offset)) for offset in (10, 12, 13, 14)] == [[10, 13], [10, 13], [13], []]
    tail.drop(1)
    assert tail.rows(1, 12) is None and tail.memory_bytes == 0


def test_a_full_tail_lets_the_oldest_rows_of_the_least_read_log_go() -> None:
    tail = Tail(memory_bytes=300)
    for log_id in (1, 2):
        tail.lead(log_id, 0)
    tail.add(row(0, log_id=1))
    tail.add(row(0, log_id=2))
    tail.add(row(1, log_id=2))
    assert tail.rows(1, 0) is not None
    tail.add(row(1, log_id=1))
    assert bases(tail.rows(2, 0)) is None and bases(tail.rows(2, 1)) == [1]
    assert bases(tail.rows(1, 0)) == [0, 1]


def test_a_full_tail_has_the_latest_rows_however_many_went() -> None:
    tail = Tail(memory_bytes=500)
    tail.lead(1, 0)
    for base in range(0, 60, 3):
        tail.add(row(base, 2))
        held = list(range(max(base - 12, 0), base + 1, 3))
        assert tail.rows(1, held[0] - 2) is None
        for offset in range(held[0], base + 4):
            assert bases(tail.rows(1, offset)) == [one for one in held if one + 1 >= offset]
        assert tail.memory_bytes == 100 * len(held)
    tail.drop(1)
    assert tail.memory_bytes == 0


def test_a_tail_keeps_what_comes_after_a_replacement() -> None:
    tail = Tail()
    tail.lead(1, 0)
    tail.add(row(0))
    tail.forget(1)
    tail.add(row(1))
    assert tail.rows(1, 0) is None and bases(tail.rows(1, 1)) == [1]


class Reading:
    """Pages of log 1, led under epoch 5."""

    def __init__(self, **limits: int) -> None:
        self.pages = Pages(**limits)
        self.pages.lead(1, 5)

    def taken(self) -> list[Any]:
        effects, self.pages.effects = self.pages.effects, []
        return effects

    def fetched(self) -> Any:
        (fetch,) = [effect for effect in self.taken() if isinstance(effect, Fetch)]
        return fetch.page


@pytest.fixture
def reading() -> Reading:
    return Reading()


def test_a_page_ends_below_the_high_watermark(reading: Reading) -> None:
    reading.pages.want(1, 4, 7, "a")
    page = reading.fetched()
    assert (page.leader_epoch, page.start_offset, page.upto_offset) == (5, 4, 7)
    reading.pages.came(page, [row(3, 2), row(5, 2), row(7)])
    assert reading.taken() == [Ready("a", 1)]
    assert bases(reading.pages.rows(1, 4)) == [3, 5]
    assert reading.pages.rows(1, 7) is None


def test_one_page_is_asked_for_at_a_time_and_serves_all_who_want_it(reading: Reading) -> None:
    for token, offset in (("a", 0), ("b", 1), ("c", 900)):
        reading.pages.want(1, offset, 1_000, token)
    page = reading.fetched()
    reading.pages.came(page, [row(index) for index in range(1_000)])
    assert reading.taken() == [Ready("a", 1), Ready("b", 1), Ready("c", 1)]


def test_after_a_page_the_next_is_read_ahead() -> None:
    reading = Reading(page_bytes=200)
    reading.pages.want(1, 0, 10, "a")
    reading.pages.came(reading.fetched(), [row(0), row(1)])
    ahead = reading.fetched()
    assert (ahead.start_offset, ahead.upto_offset) == (2, 10)
    reading.pages.came(ahead, [row(2), row(3)])
    assert reading.taken() == [], "one ahead, not all"


def test_rows_that_compaction_left_out_are_not_missed(reading: Reading) -> None:
    reading.pages.want(1, 3, 9, "a")
    reading.pages.came(reading.fetched(), [row(0), row(6)])
    assert bases(reading.pages.rows(1, 3)) == [6]
    assert reading.pages.rows(1, 8) is None
    reading.pages.came(reading.fetched(), [])
    assert bases(reading.pages.rows(1, 8)) == []


def test_a_page_ends_with_its_last_row_however_much_was_asked_for() -> None:
    reading = Reading(page_bytes=150)
    reading.pages.want(1, 0, 9, "a")
    reading.pages.came(reading.fetched(), [row(0)])
    assert bases(reading.pages.rows(1, 0)) == [0] and reading.pages.rows(1, 1) is None


def test_a_page_that_is_wanted_is_not_evicted() -> None:
    reading = Reading(memory_bytes=150, page_bytes=100)
    reading.pages.want(1, 0, 1, "a")
    reading.pages.came(reading.fetched(), [row(0)])
    reading.pages.want(1, 1, 2, "b")
    reading.pages.came(reading.fetched(), [row(1)])
    assert bases(reading.pages.rows(1, 0)) == [0] and bases(reading.pages.rows(1, 1)) == [1]
    reading.pages.answered(1, "a")
    assert reading.pages.rows(1, 0) is None and reading.pages.memory_bytes == 100


def test_nothing_is_left_of_an_earlier_epoch(reading: Reading) -> None:
    reading.pages.want(1, 0, 5, "a")
    old = reading.fetched()
    reading.pages.lead(1, 6)
    assert reading.taken() == [Ready("a", 1)]
    reading.pages.came(old, [row(0)])
    assert reading.pages.rows(1, 0) is None and reading.pages.memory_bytes == 0


def test_a_page_that_came_too_late_for_a_replacement_is_read_anew(reading: Reading) -> None:
    reading.pages.want(1, 0, 5, "a")
    old = reading.fetched()
    reading.pages.forget(1)
    new = reading.fetched()
    reading.pages.came(old, [row(0)])
    assert reading.pages.rows(1, 0) is None
    reading.pages.came(new, [row(4)])
    assert reading.taken() == [Ready("a", 1)] and bases(reading.pages.rows(1, 0)) == [4]


def test_who_waits_for_a_page_that_cannot_be_read_asks_again(reading: Reading) -> None:
    reading.pages.want(1, 0, 5, "a")
    reading.pages.failed(reading.fetched())
    assert reading.taken() == [Ready("a", 1)]
    reading.pages.want(1, 0, 5, "a")
    assert reading.fetched().start_offset == 0
