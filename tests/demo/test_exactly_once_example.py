"""The example of exactly-once runs by itself and comes to the right verdict."""

import pytest

from tests.support.processes import python

pytestmark = [pytest.mark.e2e, pytest.mark.slow]


def test_the_example() -> None:
    text = python("examples.exactly_once")
    assert "3000 bills for 3000 orders: 0 missing, 0 billed twice.\nExactly once." in text
