"""A share of the tests, as CI runs of the long ones."""

import sys

from tests.support.processes import run

OF = "tests/clients/test_durations.py"
COLLECT = """
import sys, pytest
sys.stderr = sys.stdout
for options in sys.argv[1:]:
    print("=== with", options)
    print("exit code", int(pytest.main(["--collect-only", "-q", "-p", "no:cacheprovider", *options.split()])))
"""
"""One process for all of them: to import what the tests need takes longest."""


def printed(*each: str) -> list[str]:
    """The output of collecting with some options, for each of these."""
    told = run(sys.executable, "-c", COLLECT, *(f"{options} {OF}" for options in each))
    return told.split("=== with")[1:]


def names(output: str) -> list[str]:
    return [line for line in output.splitlines() if "::" in line]


def test_a_share_is_another_one_each_day_and_never_nothing() -> None:
    days = [f"--share 1 --day {day}" for day in ("20261123", "20261123", "20261124", "20261125")]
    every, *by_day, half = map(names, printed("", *days, "--share 50"))
    assert [len(one) for one in by_day] == [1, 1, 1, 1]
    assert by_day[0] == by_day[1]
    assert len({*map(tuple, by_day)}) > 1
    assert len(half) == -(-len(every) // 2)


def test_what_is_no_share_is_refused() -> None:
    for output in printed("--share 0", "--share 101", "--share much"):
        assert not names(output)
        assert "--share" in output.partition("\n")[2]
        assert "exit code 0" not in output
