"""Lakes that are not there, are empty, or of another time; one group; one span."""

import json
import shutil
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest

from ottla.pipeline.report import NothingToReport, write
from ottla.pipeline.tables import VERSION
from tests.pipeline.report.reading_page import read
from tests.pipeline.report.sample import START, Sample, put


def refused(lake: Path, **options: object) -> str:
    with pytest.raises(NothingToReport) as error:
        write(lake, lake.parent / "never.html", **options)  # type: ignore[arg-type]
    assert not (lake.parent / "never.html").exists()
    return str(error.value)


def test_no_lake(tmp_path: Path) -> None:
    said = refused(tmp_path / "nowhere")
    assert f"there is no lake at {tmp_path}/nowhere" in said
    assert f"ottla pipeline backfill --bootstrap-server HOST:PORT --lake {tmp_path}/nowhere" in said


def test_an_empty_lake(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    lake.mkdir()
    assert "is empty; `ottla pipeline backfill" in refused(lake)


@pytest.mark.parametrize("backfilled", [False, True])
def test_gold_is_not_built(tmp_path: Path, backfilled: bool) -> None:
    """Backfills write beside what streams wrote."""
    lake = tmp_path / "lake"
    put(lake, "offset_commits", [{"group_id": "g", "log_ts": START, "log_date": START.date()}])
    if backfilled:
        table = lake / "silver/offset_commits"
        (table / "_backfill").mkdir()
        for day in table.glob("log_date=*"):
            shutil.move(day, table / "_backfill" / day.name)
    assert f"has no gold tables yet; `ottla pipeline gold --lake {lake}` builds them" in refused(lake)


def test_gold_without_rows_that_tell_a_time(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    put(lake, "member_sessions", [{"group_id": "g", "date": START.date()}])
    assert "hold nothing of any group" in refused(lake)


def test_a_lake_of_a_later_version(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    lake.mkdir()
    (lake / "lake.json").write_text(json.dumps({"version": 99}))
    assert f"of version 99, and this ottla knows version {VERSION}" in refused(lake)
    (lake / "lake.json").write_text("{")
    assert "lake.json cannot be read" in refused(lake)
    (lake / "lake.json").write_text("[]")
    assert "not the note of a lake" in refused(lake)


def test_a_file_system_that_is_not_known(tmp_path: Path) -> None:
    with pytest.raises(NothingToReport, match="gopher://lake cannot be read"):
        write("gopher://lake", tmp_path / "out.html")


def test_an_address_of_a_file_is_a_lake(five: Sample, tmp_path: Path) -> None:
    assert "orders-eu-1" in write(five.lake.as_uri(), tmp_path / "out.html").read_text()


def test_one_group(five: Sample, tmp_path: Path) -> None:
    page = read(write(five.lake, tmp_path / "out.html", group="billing"))
    assert [one.all("h3")[0].text for one in page.all("section", "card")] == ["billing"]
    assert page.all("h1")[0].text == "Consumer groups of orders-eu-1 · group billing"
    assert len(page.by_id("lag").all("tbody")[0].all("tr")) == 1
    text = "".join(page.by_id(part).text for part in ("findings", "lag", "breaches", "hot"))
    assert "payments" not in text and "fulfilment" not in text


def test_a_group_that_is_not_there(five: Sample) -> None:
    said = refused(five.lake, group="fulfillment")
    assert said == f"the lake {five.lake} has no group 'fulfillment' among its 5; like it: fulfilment"


def test_one_span(five: Sample, tmp_path: Path) -> None:
    page = read(write(five.lake, tmp_path / "out.html", since="2026-11-21T23:00", until=START + timedelta(minutes=60)))
    head = page.all("header", "head")[0].text
    assert "21 Nov 23:00 – 23:30" in head
    assert [one.all("strong")[0].text for one in page.all("li", "finding")] == ["fulfilment", "search-index"]
    (row,) = [one for one in page.by_id("lag").all("tbody")[0].all("tr") if "payments" in one.text]
    assert len((row.all("div", "hold")[0].attributes["data-v"] or "").split()) == 30


@pytest.mark.parametrize(
    "since", [date(2026, 11, 22), datetime(2026, 11, 22, tzinfo=UTC), "2026-11-22", "2026-11-22T01:00+01:00"]
)
def test_since_a_day(five: Sample, tmp_path: Path, since: date) -> None:
    page = read(write(five.lake, tmp_path / "out.html", since=since))
    assert "22 Nov 00:00 – 00:30" in page.all("header", "head")[0].text


def test_a_time_of_which_the_lake_has_nothing(five: Sample) -> None:
    assert "holds 2026-11-21 to 2026-11-22, and nothing of the time" in refused(five.lake, since="2026-12-01")
    assert "hold nothing of the time that was asked for" in refused(five.lake, until="2026-11-21T03:00")


def test_times_that_are_none(five: Sample, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="since is 'yesterday', and must be a day or a time in UTC"):
        write(five.lake, tmp_path / "out.html", since="yesterday")
    with pytest.raises(ValueError, match="must be before until"):
        write(five.lake, tmp_path / "out.html", since="2026-11-22", until=datetime(2026, 11, 21, tzinfo=UTC))


def test_a_long_lake_is_shown_from_a_week_ago(tmp_path: Path) -> None:
    sample = Sample(minutes=3)
    sample.lag("g", "t", [1.0] * 3)
    lake = sample.write(tmp_path / "lake")
    late = START + timedelta(days=30)
    row = {"group_id": "g", "topic": "t", "partition": 0, "lag_seconds": 2.0, "lag_records": 1}
    put(lake, "lag_by_partition", [{**row, "minute": late, "date": late.date()}])
    page = read(write(lake, tmp_path / "out.html"))
    assert "21 Dec 22:30 – 22:31" in page.all("header", "head")[0].text
    assert "The lake goes back to 21 Nov 2026" in page.by_id("notes").text
    whole = read(write(lake, tmp_path / "out.html", since="2026-11-01"))
    assert "30 d" in whole.all("header", "head")[0].text
    assert "goes back" not in whole.by_id("notes").text


def test_into_a_folder_and_over_a_file(five: Sample, tmp_path: Path) -> None:
    assert write(five.lake, tmp_path) == tmp_path / "report.html"
    deep = tmp_path / "not/yet/there.html"
    assert write(five.lake, deep) == deep
    assert write(five.lake, deep).read_text().startswith("<!doctype html>")
    assert [one.name for one in deep.parent.iterdir()] == ["there.html"]


def test_lag_without_rebalances_and_the_other_way_round(tmp_path: Path) -> None:
    """Without samples of the logs' ends there is no lag; without group records no rebalance."""
    sample = Sample(minutes=30)
    sample.storm("g", 4.0, 12)
    page = read(write(sample.write(tmp_path / "lake"), tmp_path / "out.html"))
    assert "There is no lag by partition" in page.by_id("notes").text
    assert "12 rebalances" in page.all("ul", "story")[0].text
    other = Sample(minutes=30)
    other.lag("g", "t", [1.0] * 30)
    page = read(write(other.write(tmp_path / "other"), tmp_path / "out.html"))
    assert "no commits of this time" in page.by_id("hot").text
