"""Figures, times and spans as people read them; and the words for what is found."""

import re
from datetime import UTC, datetime, timedelta

import pytest

from ottla.pipeline.report.heat import LEVELS, level
from ottla.pipeline.report.markup import Html, between, count, duration, grouped, join, moment, name, number, tag, text
from ottla.pipeline.report.span import MOST_BUCKETS, SIZES, Span, as_time
from ottla.pipeline.report.words import KINDS, kind, severity
from tests.house.sources import ROOT

NOON = datetime(2026, 11, 22, 12, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (None, "–"), (0, "0 s"), (0.04, "0 s"), (0.44, "0.4 s"), (56.1, "56.1 s"), (59.94, "59.9 s"), (59.96, "1 min"),
        (250, "4 min 10 s"), (3599.7, "1 h"), (7500, "2 h 5 min"), (86400 * 3 + 4 * 3600, "3 d 4 h"), (86400, "1 d"),
    ],
)  # fmt: skip
def test_durations(seconds: float | None, said: str) -> None:
    assert duration(seconds) == said


def test_figures() -> None:
    assert [number(one) for one in (None, 0, 1234567)] == ["–", "0", "1,234,567"]
    assert number(91.66, 1) == "91.7"
    assert duration(90, minimum=True) == "≥ 1 min 30 s"
    assert [count(0, "group"), count(1, "group"), count(1200, "group")] == ["0 groups", "1 group", "1,200 groups"]


def test_figures_in_sentences() -> None:
    assert (
        grouped("no commit with 1036528 records unread, 71889.") == "no commit with 1,036,528 records unread, 71,889."
    )
    kept = "g-12345 on 10.0.0.1:12345, 12345.6, app-98765-x, 00012345, /12345, 9999"
    assert grouped(kept) == kept


def test_times() -> None:
    assert moment(NOON) == "22 Nov 12:00" and moment(NOON, day=False, seconds=True) == "12:00:00"
    assert "since " in between(NOON, None) and "at " in between(NOON, NOON)
    assert between(NOON, NOON + timedelta(minutes=5)).endswith(" · 5 min")
    assert between(NOON, NOON + timedelta(seconds=5)).count("12:00<") == 1


def test_markup_escapes_all_but_markup() -> None:
    assert text('<a href="x">&') == "&lt;a href=&quot;x&quot;&gt;&amp;"
    assert tag("b", "<", Html("<i>x</i>"), class_='"', data_x=None, hidden=True) == (
        '<b class="&quot;" hidden>&lt;<i>x</i></b>'
    )
    assert tag("br") == "<br>"
    assert join(1, None, False, ["<", [Html("<br>")]]) == "1&lt;<br>"
    assert text("a\x00b\ud800") == "a␀b?"
    assert text("cod\u202etxt.exe") == "cod[U+202E]txt.exe"
    assert name("x" * 25) == f'<bdi class="name" title="{"x" * 25}">{"x" * 25}</bdi>'


def test_colours_rise_with_lag() -> None:
    assert [level(one) for one in (0.0, 9.9, *LEVELS)] == [0, 0, 1, 2, 3, 4, 5, 6, 7, 8]
    assert level(1e9) == 8


@pytest.mark.parametrize("minutes", [1, 59, 180, 181, 1440, 10_080, 525_600, 5_256_000])
def test_a_span_has_few_columns_of_round_minutes(minutes: int) -> None:
    span = Span.of(NOON, NOON + timedelta(minutes=minutes))
    assert 1 <= span.buckets <= MOST_BUCKETS + 1
    assert span.bucket_minutes in SIZES or span.bucket_minutes % 1440 == 0
    assert span.start <= NOON and span.end >= NOON + timedelta(minutes=minutes)
    assert len(span.ticks()) <= 10
    assert span.part(span.start) == 0.0 and span.part(span.end + timedelta(days=1)) == 1.0


def test_ticks_are_round_and_name_the_day() -> None:
    span = Span.of(NOON - timedelta(hours=13, minutes=30), NOON)
    assert [tick.label for tick in span.ticks()] == [
        "22 Nov", "02:00", "04:00", "06:00", "08:00", "10:00",
    ]  # fmt: skip
    assert [round(tick.at, 3) for tick in span.ticks()][:2] == [0.111, 0.259]


def test_an_instant_is_a_span_of_a_minute() -> None:
    span = Span.of(NOON, NOON)
    assert (span.start, span.end, span.buckets) == (NOON, NOON + timedelta(minutes=1), 1)


def test_times_are_utc_unless_they_say_otherwise() -> None:
    assert as_time("2026-11-22T13:00+01:00", "since") == NOON
    assert as_time("2026-11-22T12:00", "since") == NOON
    assert as_time(None, "since") is None


def test_kinds_that_are_not_known_are_called_what_they_are() -> None:
    assert kind("lost_sheep").label == "lost sheep" and severity("lost_sheep") == 2
    assert {severity(one) for one in KINDS} == {1, 2, 3}


def test_all_kinds_of_gold_and_of_sentinels_are_known() -> None:
    from ottla.pipeline.gold import KINDS as OF_GOLD

    assert set(OF_GOLD) <= set(KINDS)
    text = (ROOT / "docs/sentinels.md").read_text()
    sentinels = set(re.findall(r"^\| `([a-z_]+)` \|", text, re.MULTILINE))
    shown_otherwise = {"rebalance_storm", "idle_partition", "offset_jump", "old_barrier"}
    assert len(sentinels) > 5 and sentinels - shown_otherwise <= set(KINDS)
