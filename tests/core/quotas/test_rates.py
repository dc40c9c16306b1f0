"""Rates over windows and buckets of tokens: the numbers are those of Kafka's Rate, SampledStat and TokenBucket."""

from __future__ import annotations

import pytest

from ottla.broker.core.quotas.rates import Rate, TokenBucket, Window, rounded
from ottla.broker.settings import INT32_MAX

WINDOW = Window(11, 1000)


def test_a_first_record_is_spread_over_all_windows_but_the_present_one() -> None:
    rate = Rate(WINDOW)
    rate.record(50_000, 7_000)
    assert rate.covered_ms(7_000) == 10_000
    assert rate.per_second(7_000) == 5_000
    assert rate.throttle_ms(1_000, 7_000) == 40_000
    assert rate.throttle_ms(5_000, 7_000) == 0


def test_the_time_within_a_window_counts() -> None:
    rate = Rate(WINDOW)
    rate.record(1_000, 0)
    rate.record(1_000, 999)
    assert rate.covered_ms(999) == 10_999
    assert rate.covered_ms(1_000) == 10_000  # a whole window has passed, and there is one fewer to be added
    assert rate.covered_ms(3_500) == 10_500


def test_what_is_older_than_all_windows_is_forgotten() -> None:
    rate = Rate(WINDOW)
    rate.record(1_000, 0)
    rate.record(500, 5_000)
    assert rate.per_second(10_999) * rate.covered_ms(10_999) == pytest.approx(1_500_000)
    assert rate.per_second(11_000) * rate.covered_ms(11_000) == pytest.approx(500_000)
    assert rate.per_second(40_000) == 0


def test_a_window_is_used_again() -> None:
    rate = Rate(Window(2, 1000))
    for second in range(20):
        rate.record(100, second * 1000)
    assert rate.covered_ms(19_000) == 1_000  # the window before the present one: what is older is forgotten
    assert rate.per_second(19_000) == 200


def test_a_window_counts_as_a_whole_while_something_of_it_is_young_enough() -> None:
    rate = Rate(Window(2, 1000))
    for moment in range(0, 2_900, 100):
        rate.record(10, moment)
    assert rate.covered_ms(2_850) == 2_850
    assert rate.per_second(2_850) == pytest.approx(290 / 2.85)


def test_taking_back_is_as_if_nothing_was_recorded() -> None:
    rate = Rate(WINDOW)
    rate.record(5_000, 0)
    rate.record(90_000, 10)
    rate.record(-90_000, 10)
    assert rate.per_second(10) == pytest.approx(5_000 / 10.01)


def test_one_window_is_enough() -> None:
    rate = Rate(Window(1, 1000))
    rate.record(10, 0)
    assert rate.covered_ms(0) == 1
    assert rate.covered_ms(500) == 500


def test_a_bucket_is_full_at_first_and_never_fuller() -> None:
    bucket = TokenBucket(WINDOW)
    assert bucket.tokens(2, 123_456) == 22
    assert bucket.tokens(2, 999_999) == 22
    bucket.take(5, 2, 999_999)
    assert bucket.tokens(2, 1_000_499) == 18
    assert bucket.tokens(2, 1_010_000) == 22


def test_what_was_taken_beyond_the_bucket_is_waited_for() -> None:
    bucket = TokenBucket(WINDOW)
    bucket.take(22, 2, 0)
    assert bucket.throttle_ms(2, 0) == 0
    bucket.take(7, 2, 0)
    assert bucket.throttle_ms(2, 0) == 3_500
    assert bucket.throttle_ms(2, 1_500) == 2_000
    assert bucket.throttle_ms(2, 3_500) == 0


def test_a_smaller_limit_makes_the_bucket_smaller() -> None:
    bucket = TokenBucket(WINDOW)
    assert bucket.tokens(100, 0) == 1_100
    assert bucket.tokens(1, 0) == 11


@pytest.mark.parametrize(("value", "whole"), [(2.5, 3), (2.4999, 2), (-0.5, 0), (float("nan"), 0), (float("inf"), 0)])
def test_rounding(value: float, whole: int) -> None:
    assert rounded(value) == whole


@pytest.mark.parametrize("limit", [1e-6, 5e-324])
def test_nobody_waits_longer_than_an_answer_can_say(limit: float) -> None:
    bucket, rate = TokenBucket(WINDOW), Rate(WINDOW)
    bucket.take(3, limit, 0)
    rate.record(1e9, 0)
    assert bucket.throttle_ms(limit, 0) == INT32_MAX
    assert rate.throttle_ms(limit, 0) == INT32_MAX


def test_huge_windows_make_no_longer_waits() -> None:
    rate = Rate(Window(INT32_MAX, INT32_MAX * 1000))
    rate.record(1e18, 0)
    assert rate.throttle_ms(1e-3, 0) == INT32_MAX
