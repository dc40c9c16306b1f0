"""Who is counted as in trouble, whether it lasts, and what one look at the ends of logs cannot tell."""

from datetime import timedelta
from pathlib import Path

import pytest

from ottla.pipeline.report import write
from tests.pipeline.report.reading_page import Element, read
from tests.pipeline.report.sample import START, Sample


def made(sample: Sample, folder: Path) -> Element:
    return read(write(sample.write(folder / "lake"), folder / "out.html"))


def verdict(page: Element) -> str:
    return page.all("p", "verdict")[0].text


def cards(page: Element) -> dict[str, list[str]]:
    return {
        card.all("h3")[0].text: [chip.text for chip in card.all("span", "chip")] for card in page.all("section", "card")
    }


@pytest.fixture
def sample() -> Sample:
    sample = Sample(minutes=60)
    for name in ("audit", "slow", "stuck"):
        sample.well(name)
    return sample


def test_a_status_and_a_breach_are_trouble_without_a_finding(sample: Sample, tmp_path: Path) -> None:
    sample.breach("stuck", "orders", 58, 2, 47.0)
    sample.status("stuck", "orders", "STOP", [7], 2554)
    sample.breach("slow", "orders", 10, 5, 31.0)
    page = made(sample, tmp_path)
    assert verdict(page) == (
        "2 of 3 groups had trouble, 1 of them still: stuck has partitions in STOP and was over its objective "
        "(worst 47 s); slow was over its objective (worst 31 s)."
    )
    assert "bad" in (page.all("p", "verdict")[0].attributes["class"] or "")
    assert cards(page) == {
        "stuck": ["STOP on 1 partition of orders", "over its objective"],
        "slow": ["over its objective"],
    }
    assert "No finding says why" in page.by_id("findings").text
    chips = [chip.text for chip in page.by_id("lag").all("tbody")[0].all("span", "chip")]
    assert chips == ["STOP", "over its objective"]


def test_what_lasts_comes_before_what_is_over(sample: Sample, tmp_path: Path) -> None:
    sample.storm("churn", 10.0, 6, "c3")
    sample.status("stuck", "orders", "STOP", [7], 2554)
    assert verdict(made(sample, tmp_path)) == (
        "2 of 4 groups had trouble, 1 of them still: stuck has partitions in STOP; "
        "churn was in a rebalance storm (suspect churn-c3)."
    )


def test_it_is_said_what_lasts(sample: Sample, tmp_path: Path) -> None:
    sample.storm("churn", 10.0, 6, "c3")
    sample.status("churn", "orders", "STOP", [7], 2554)
    assert verdict(made(sample, tmp_path)) == (
        "1 of 4 groups had trouble, 1 of them still: churn was in a rebalance storm (suspect churn-c3) "
        "and has partitions in STOP."
    )


def test_those_with_a_finding_come_first(sample: Sample, tmp_path: Path) -> None:
    sample.status("slow", "orders", "WARN", [1], 50)
    sample.finding("stuck", "stopped", 40, None, "no commit", topic="orders")
    assert verdict(made(sample, tmp_path)) == (
        "2 of 3 groups had trouble, 2 of them still: stuck stopped committing (since 21 Nov 23:10); "
        "slow has partitions in WARN."
    )


@pytest.mark.parametrize(("start", "said"), [(50.0, ", none of it lasts: "), (57.5, ", 1 of them still: ")])
def test_a_storm_that_is_over_does_not_last(start: float, said: str, sample: Sample, tmp_path: Path) -> None:
    """Gold knows its end from lag, which may end sooner than the log of generations does."""
    sample.storm("churn", start, 6, "c3")
    sample.rows["findings"][0]["ended_at"] = None
    page = made(sample, tmp_path)
    assert said in verdict(page)
    assert ("since" in page.by_id("findings").all("span", "when")[0].text) == ("still" in said)


def test_nobody_has_no_lane(tmp_path: Path) -> None:
    """A generation without members is a row of group_members that names nobody, and ends what was before."""
    sample = Sample(minutes=30)
    sample.storm("churn", 5.0, 6, "c3")
    end = START + timedelta(minutes=8)
    sample.add("group_members", end, group_id="churn", generation=99, log_ts=end, protocol="range")
    page = made(sample, tmp_path)
    (card,) = page.all("section", "card")
    lanes = card.all("tbody")[0].all("tr")
    assert {row.all("bdi")[0].text for row in lanes} == {f"churn-c{number}" for number in (1, 2, 3, 4)}


def test_one_sample_tells_no_seconds(tmp_path: Path) -> None:
    sample = Sample(minutes=3)
    sample.lag("g", "t", [0.0, 0.0, 0.0], partitions=1)
    sample.status("g", "t", "OK", [0], 1900)
    for row in sample.rows["lag_by_partition"]:
        row |= {"lag_seconds_is_minimum": True, "lag_records": 1900}
    sample.add("log_end_samples", START, sample_ts=START, topic="t", partition=0, log_end_offset=1900)
    page = made(sample, tmp_path / "once")
    shown = {one.all("dt")[0].text: one.all("dd")[0].text for one in page.all("dl")[0].all("div")}
    assert (shown["Furthest behind now"], shown["Records behind now"]) == ("unknown", "1,900")
    assert "available-now one a run" in verdict(page)
    assert verdict(page).startswith("Nothing was found with 1 group, but it is too early to tell. 1,900 records are ")
    for part in ("findings", "breaches", "forecast", "partitions"):
        assert "too few to tell" in page.by_id(part).text
    assert "is OK" not in page.by_id("partitions").text
    (row,) = page.by_id("lag").all("tbody")[0].all("tr")
    assert [cell.text for cell in row.all("td")][1:] == ["unknown", "unknown", "1,900"]
    # A second one is enough for the page to say what gold says.
    later = START + timedelta(seconds=10)
    sample.add("log_end_samples", later, sample_ts=later, topic="t", partition=0, log_end_offset=1900)
    assert "Every partition is OK." in made(sample, tmp_path / "twice").by_id("partitions").text


def test_groups_that_are_folded_are_behind_by_at_least_that_too(tmp_path: Path) -> None:
    sample = Sample(minutes=3)
    for number in range(13):
        sample.lag(f"g{number}", "t", [0.0] * 3, partitions=1)
    for row in sample.rows["lag_by_partition"]:
        row |= {"lag_seconds_is_minimum": True, "lag_records": 10}
    (row,) = made(sample, tmp_path).by_id("lag").all("tbody")[0].all("tr")
    assert [cell.text for cell in row.all("td")][1:] == ["unknown", "unknown", "130"]
