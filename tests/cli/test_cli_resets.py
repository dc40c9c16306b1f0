"""Where reset-offsets moves a group to."""

from __future__ import annotations

import pytest

from ottla.cli.resets import CannotReset, Move, Place, Target, To, move

LOG = {"log_start_offset": 10, "log_end_offset": 100}


@pytest.mark.parametrize(
    ("target", "committed", "expected"),
    [
        (Target(To.EARLIEST), 50, Move(10)),
        (Target(To.LATEST), None, Move(100)),
        (Target(To.OFFSET, 70), None, Move(70)),
        (Target(To.OFFSET, 100), 50, Move(100)),
        (Target(To.OFFSET, 101), 50, Move(100, "101 is beyond the log's end")),
        (Target(To.OFFSET, 9), 50, Move(10, "9 is before the log's start")),
        (Target(To.SHIFT, -5), 50, Move(45)),
        (Target(To.SHIFT, -41), 50, Move(10, "9 is before the log's start")),
        (Target(To.SHIFT, 51), 50, Move(100, "101 is beyond the log's end")),
        (Target(To.CURRENT), 50, Move(50)),
        (Target(To.CURRENT), None, Move(100, "nothing is committed: the log's end")),
        (Target(To.TIME, 1), 50, Move(100, "no record at or after that time: the log's end")),
    ],
)
def test_the_new_offset_stays_within_the_log(target: Target, committed: int | None, expected: Move) -> None:
    assert move(target, Place(**LOG, committed=committed)) == expected


def test_a_time_moves_to_the_first_record_from_then_on() -> None:
    assert move(Target(To.TIME, 1), Place(**LOG, at_time=33)) == Move(33)


def test_a_shift_needs_something_to_shift() -> None:
    with pytest.raises(CannotReset, match="--to-earliest"):
        move(Target(To.SHIFT, 1), Place(**LOG))
