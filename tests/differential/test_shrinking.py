"""What differs is reduced to what it takes, and the same seed is the same trace."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from tests.differential.compare import first_difference, leaders_only, signature
from tests.differential.kinds import moves_of
from tests.differential.shrink import shrunk


@pytest.mark.parametrize("needed", [{0}, {39}, {3, 17, 29}, {0, 1, 2, 39}, set(range(10, 20)), set(range(40))])
def test_nothing_is_left_that_could_be_taken_out(needed: set[int]) -> None:
    asked: list[Sequence[int]] = []

    async def differs(keep: Sequence[int]) -> bool:
        asked.append(keep)
        return needed <= set(keep)

    assert asyncio.run(shrunk(40, differs)) == sorted(needed)
    assert len(asked) < 400


@pytest.mark.parametrize("seed", range(18))
def test_a_seed_is_a_trace(seed: int) -> None:
    moves = moves_of(seed)
    assert moves and moves == moves_of(seed)
    assert all(str(step) for step in moves)


def test_the_first_difference_that_has_no_reason() -> None:
    theirs = [("0 a PRODUCE v3", {"error_code": "UNKNOWN_SERVER_ERROR"}), ("1 a FETCH v4", {"error_code": "NONE"})]
    ours = [("0 a PRODUCE v3", {"error_code": "INVALID_RECORD"}), ("1 a FETCH v4", {"error_code": "NONE"})]
    assert first_difference(ours, theirs) is None
    ours[1] = ("1 a FETCH v4", {"error_code": "OFFSET_OUT_OF_RANGE"})
    assert first_difference(ours, theirs) == 1
    assert signature(ours, theirs, 1) == "FETCH: .error_code NONE | OFFSET_OUT_OF_RANGE"
    assert first_difference(ours[:1], theirs) == 1
    ours[0] = ("0 a PRODUCE v3", {"error_code": "NONE"})
    assert first_difference(ours, theirs) == 0


def test_who_leads_is_arbitrary_and_nothing_else_of_a_join() -> None:
    def joined(leader: str, generation: int = 1) -> list[tuple[str, object]]:
        answer = {"error_code": "NONE", "generation_id": generation, "leader": leader, "member_id": "b", "members": []}
        return [("0 b JOIN_GROUP v5", answer)]

    assert leaders_only(joined("a"), joined("b"), 0)
    assert not leaders_only(joined("a"), joined("b", 2), 0)
    assert not leaders_only(joined("a"), joined("a"), 0)
