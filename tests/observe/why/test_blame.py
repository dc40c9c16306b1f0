"""Who is to blame: what always holds of the accounts."""

from __future__ import annotations

from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from ottla.broker.core.events import Event
from ottla.observe.why.blame import LATE_MS, Late, Still, divide
from ottla.observe.why.members import Known
from ottla.observe.why.model import Episode
from ottla.observe.why.run import MANY_LATE, SHARED_EVERY_MS, Run, Standing

TIMES = st.integers(0, 30)
STILL = st.builds(Still, TIMES, st.integers(0, 9), st.integers(-1, 3), st.integers(0, 40))
WAITS = st.dictionaries(st.integers(0, 5), st.tuples(TIMES, TIMES), max_size=5)


@given(st.lists(STILL, max_size=8), WAITS, TIMES)
def test_the_accounts_are_all_that_stood_still(
    still: list[Still], waits: dict[int, tuple[int, int]], until_ms: int
) -> None:
    """Each millisecond of each partition is put down once: to the late in equal parts, or else to whom it belongs."""
    late = [Late(member, min(pair), max(pair)) for member, pair in waits.items()]
    expected: dict[int, Fraction] = {}
    for row in still:
        for at_ms in range(row.since_ms, min(row.until_ms, until_ms)):
            present = [one.member for one in late if one.from_ms <= at_ms < one.until_ms]
            for member in present or [row.account]:
                expected[member] = expected.get(member, Fraction(0)) + Fraction(row.partitions, len(present) or 1)
    accounts = divide(still, late, until_ms).blamed_ms
    stood_ms = sum(row.partitions * max(min(row.until_ms, until_ms) - row.since_ms, 0) for row in still)
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


def test_what_very_many_hold_up_is_put_on_their_accounts_now_and_then() -> None:
    """Each of a thousand that are late is on the accounts of each: with every step of each that would take seconds."""
    count = 2 * MANY_LATE
    members = [Known(f"m{at}", "", "", None) for at in range(count)]
    run, standing = Run(Episode(1, "rebalance", "g", 0), 0), Standing()
    for known in members:
        run.place(known)
    run.waits_for([known.member_id for known in members], Event(group_id="g"))
    standing.stop([("t", at) for at in range(count)], 0, "m0", is_gone=False)
    shared_ms = set()
    for at, known in enumerate(members):
        now_ms = LATE_MS + 1 + at
        run.arrived(known.member_id, Event(group_id="g", at_ms=now_ms))
        standing.resume_in(run, [("t", at)], now_ms)
        shared_ms.add(sum(part.blamed_ms for part in run.episode.members))
    assert len(shared_ms) <= 1 + count // SHARED_EVERY_MS
    standing.charge(run, LATE_MS + 1 + count)
    stood_ms = sum(LATE_MS + 1 + at for at in range(count))
    assert run.episode.stood_ms == stood_ms
    assert sum(part.blamed_ms for part in run.episode.members) == stood_ms
    blamed = [part.blamed_ms for part in run.episode.members]
    assert blamed == sorted(blamed) and blamed[-1] > blamed[0], "who came later is to blame for more"
