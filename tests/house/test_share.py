"""A share of the tests, as CI runs of the long ones."""

import pytest

from tests.support.processes import python

OF = "tests/clients/test_durations.py"


def collected(*options: str) -> list[str]:
    printed = python("pytest", "--collect-only", "-q", "-p", "no:cacheprovider", *options, OF)
    return [line for line in printed.splitlines() if "::" in line]


def test_a_share_is_another_one_each_day_and_never_nothing() -> None:
    every = collected()
    days = [collected("--share", "1", "--day", day) for day in ("20261123", "20261123", "20261124", "20261125")]
    assert [len(one) for one in days] == [1, 1, 1, 1]
    assert days[0] == days[1]
    assert len({*map(tuple, days)}) > 1
    assert len(collected("--share", "50")) == -(-len(every) // 2)


@pytest.mark.parametrize("share", ["0", "101", "much"])
def test_what_is_no_share_is_refused(share: str) -> None:
    with pytest.raises(AssertionError, match="--share"):
        collected("--share", share)
