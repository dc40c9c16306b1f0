"""Durations as people write them."""

import pytest

from ottla.clients.durations import parse_duration_ms


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("PT1H30M", 5_400_000),
        ("P1DT0S", 86_400_000),
        ("P2W", 1_209_600_000),
        ("PT0.5S", 500),
        ("pt10m", 600_000),
        ("1h30m", 5_400_000),
        ("45s", 45_000),
        ("1d", 86_400_000),
        ("1.5s", 1_500),
        ("500ms", 500),
        ("1m500ms", 60_500),
        ("0", 0),
        (" 0.5s ", 500),
        ("2min", 120_000),
        ("0.5m", 30_000),
        ("10 s", 10_000),
        ("1 h 30 min", 5_400_000),
        ("1h 5ms", 3_600_005),
    ],
)
def test_durations(text: str, expected: int) -> None:
    assert parse_duration_ms(text) == expected


@pytest.mark.parametrize("text", ["10", " 0.5 ", "600000"])
def test_a_duration_without_a_unit_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=f"has no unit: write {text.strip()}ms, {text.strip()}s or"):
        parse_duration_ms(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "ms",
        "5ms1s",
        "P",
        "PT",
        "1.",
        "-1",
        "h",
        "1x",
        "PT1D",
        "-PT1H",
        "1h1h",
        "P1DT",
        "5 m s",
        "1mi",
        "1 0s",
        "1w" + " " * 2_000 + "x",
    ],
)
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is no duration"):
        parse_duration_ms(text)


@pytest.mark.parametrize("text", ["5201w", "9" * 400 + "h", "PT" + "9" * 400 + "H"])
def test_what_nobody_means_is_too_long(text: str) -> None:
    with pytest.raises(ValueError, match="is too long: at most 5200w"):
        parse_duration_ms(text)
