"""Who is to blame: what always holds of the accounts."""

from __future__ import annotations

from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from ottla.observe.why.blame import Late, Still, divide

TIMES = st.integers(0, 30)
STILL = st.builds(Still, TIMES, st.integers(0, 9), st.integers(-1, 3))
WAITS = st.dictionaries(st.integers(0, 5), st.tuples(TIMES, TIMES), max_size=5)


@given(st.lists(STILL, max_size=8), WAITS, TIMES)
def test_the_accounts_are_all_that_stood_still(
    still: list[Still], waits: dict[int, tuple[int, int]], until_ms: int
) -> None:
    """Each millisecond of each partition is put down once: to the late in equal parts, or else to whom it belongs."""
    late = [Late(member, min(pair), max(pair)) for member, pair in waits.items()]
    expected: dict[int, Fraction] = {}
    for row in still:
        for at_ms in range(row.since_ms, until_ms):
            present = [one.member for one in late if one.from_ms <= at_ms < one.until_ms]
            for member in present or [row.account]:
                expected[member] = expected.get(member, Fraction(0)) + Fraction(row.partitions, len(present) or 1)
    accounts = divide(still, late, until_ms).blamed_ms
    stood_ms = sum(row.partitions * max(until_ms - row.since_ms, 0) for row in still)
    assert sum(accounts.values()) == stood_ms - expected.get(-1, 0)
    for member in range(6):
        assert abs(accounts.get(member, 0) - expected.get(member, 0)) < 1
        if not expected.get(member):
            assert not accounts.get(member), "who only waited has no share"


def test_a_large_group_takes_one_pass() -> None:
    """As many moments as members: were each compared with each, this would take minutes."""
    count = 20_000
    still = [Still(at, 3, -1) for at in range(count)]
    late = [Late(at, at, 2 * count) for at in range(count)]
    accounts = divide(still, late, 2 * count).blamed_ms
    assert sum(accounts.values()) == sum(3 * (2 * count - at) for at in range(count))
