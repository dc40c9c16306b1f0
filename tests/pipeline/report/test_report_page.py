"""The page: well-formed, of itself, safe, and its figures are the tables'."""

import re
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from ottla.pipeline.report import write
from tests.house.sources import ROOT
from tests.pipeline.report.reading_page import Element, read
from tests.pipeline.report.sample import HOSTILE, LONG, RIGHT_TO_LEFT, START, Sample, crowd, troubled


@pytest.fixture(scope="module")
def page(five: Sample) -> Element:
    return read(five.page)


@pytest.fixture(scope="module")
def crowded(many: Sample) -> Element:
    return read(many.page)


def rows(page: Element, section: str) -> dict[str, list[str]]:
    """The cells of a section's table by its rows' headers."""
    body = page.by_id(section).all("tbody")[0]
    return {row.all("th")[0].text: [cell.text for cell in row.all("td")] for row in body.all("tr")}


def facts(page: Element) -> dict[str, str]:
    (listed,) = page.all("header", "head")[0].all("dl")
    return {one.all("dt")[0].text: one.all("dd")[0].text for one in listed.all("div")}


def test_ids_are_there_and_once(page: Element, crowded: Element) -> None:
    for one in (page, crowded):
        ids = [element.attributes["id"] for element in one.walk() if "id" in element.attributes]
        assert len(ids) == len(set(ids))
        links = {(link.attributes["href"] or "")[1:] for link in one.all("a")}
        assert {"findings", "lag", "hot", "notes"} <= links <= set(ids)


@pytest.mark.parametrize("which", ["five", "many"])
def test_nothing_comes_from_elsewhere(which: str, request: pytest.FixtureRequest) -> None:
    sample = request.getfixturevalue(which)
    page, text = read(sample.page), sample.page.read_text()
    addresses = {element.attributes.get(key) for element in page.walk() for key in ("src", "href", "xlink:href")}
    assert {one for one in addresses if one is not None and not one.startswith("#")} == set()
    assert not re.search(r"(?:https?:)?//[a-z]|url\(|@import", text.replace("// ", ""))
    assert len(page.all("script")) == 1


def test_the_policy_allows_the_pages_own_script_only(page: Element) -> None:
    (policy,) = [one.attributes["content"] for one in page.all("meta") if "http-equiv" in one.attributes]
    assert policy is not None
    assert "default-src 'none'" in policy and re.search(r"script-src 'sha256-[\w+/=]{44}';", policy)


def test_the_head(five: Sample, page: Element) -> None:
    head = facts(page)
    assert head["Time (UTC)"] == "21 Nov 22:30 – 22 Nov 00:30 2026 · 2 h"
    assert head["Groups"] == "5"
    assert head["Findings"] == str(len(five.rows["findings"]))
    assert head["Breaches"] == str(len(five.rows["slo_breaches"]))
    last = five.ends - timedelta(minutes=1)
    now = [one for one in five.rows["lag_by_partition"] if one["minute"] == last]
    assert head["Records behind now"] == f"{sum(one['lag_records'] for one in now):,}"
    changes = [one for one in five.rows["rebalances"] if one["prev_generation"] is not None]
    assert head["Rebalances"] == f"{len(changes):,}"
    paused = sum(one["duration_ms"] for one in changes) / 1000
    assert head["Stood still in them"] == f"{round(paused) // 60} min {round(paused) % 60} s"
    (verdict,) = page.all("p", "verdict")
    assert verdict.text == (
        "3 of 5 groups had trouble, 2 of them still: payments stopped committing (since 21 Nov 23:40); fulfilment was "
        "in a rebalance storm (suspect fulfilment-c3); search-index reads slower than is written (since 21 Nov 22:55)."
    )


def test_findings_come_worst_first(five: Sample, page: Element) -> None:
    found = page.by_id("findings").all("li", "finding")
    kinds = [one.all("span", "chip")[0].text for one in found]
    assert kinds == ["stopped", "rebalance storm", "falling behind", "rolling restart"]
    evidence = {one["evidence"] for one in five.rows["findings"]}
    assert {one.all("p", "evidence")[0].text for one in found} == evidence
    assert "Suspect fulfilment-c3" in found[1].text
    target = found[0].all("a")[0].attributes["href"] or ""
    assert page.by_id(target[1:]).all("h3")[0].text == "payments"


def test_the_map_has_every_group_and_its_figures(five: Sample, page: Element) -> None:
    table = rows(page, "lag")
    assert next(iter(table)) == "paymentsstopped" and len(table) == 5
    worst: dict[str, float] = {}
    for one in five.rows["lag_by_partition"]:
        worst[one["group_id"]] = max(worst.get(one["group_id"], 0.0), one["lag_seconds"])
    shown = {name: cells[2] for name, cells in table.items()}
    assert shown["paymentsstopped"] == "50 min" and worst["payments"] == 3000.0
    assert shown["audit"] == f"{round(worst['audit'], 1):g} s"


def test_the_map_tells_colours_apart_and_shows_what_is_not_known(five: Sample, page: Element) -> None:
    holds = {row.all("bdi")[0].text: row.all("div", "hold")[0] for row in page.by_id("lag").all("tbody")[0].all("tr")}
    values = (holds["fulfilment"].attributes["data-v"] or "").split(" ")
    assert len(values) == 120
    assert values[20:24] == ["?"] * 4 and "?" not in values[:20] + values[24:]
    # Nothing is drawn where nothing was sampled: the hatched ground is seen.
    drawn = [
        path.attributes["d"] or "" for path in holds["fulfilment"].all("path") if path.attributes["class"][0] == "k"
    ]
    covered = {
        at
        for moves in drawn
        for start, wide in re.findall(r"M(\d+) \d+h(\d+)", moves)
        for at in range(int(start), int(start) + int(wide))
    }
    assert covered == set(range(120)) - {20, 21, 22, 23}
    classes = [path.attributes["class"] for path in holds["payments"].all("path")]
    assert {"k0", "k3", "k4", "k5"} <= set(classes)
    ticks = holds["fulfilment"].all("path", "tick")[0].attributes["d"] or ""
    assert ticks.count("M") == 30
    assert (holds["fulfilment"].attributes["data-r"] or "").startswith("38:3 ")


def test_lag_that_is_a_minimum_is_marked(tmp_path: Path) -> None:
    sample = Sample(minutes=10)
    sample.lag("g", "t", [90.0] * 10)
    for row in sample.rows["lag_by_partition"]:
        row["lag_seconds_is_minimum"] = True
    page = read(write(sample.write(tmp_path), tmp_path / "out.html"))
    (row,) = page.by_id("lag").all("tbody")[0].all("tr")
    assert [cell.text for cell in row.all("td")][1:] == ["≥ 1 min 30 s", "≥ 1 min 30 s", "15,600"]
    assert row.all("path", "k3")[0].attributes["d"] == "M0 34h10v46h-10z"
    assert "at least that" in page.by_id("notes").text


def test_lanes_show_who_came_and_went(page: Element) -> None:
    (card,) = [one for one in page.all("section", "card") if one.all("h3")[0].text == "fulfilment"]
    lanes = {row.all("bdi")[0].text: row for row in card.all("tbody")[0].all("tr")}
    assert set(lanes) == {"fulfilment-c1", "fulfilment-c2", "fulfilment-c3", "fulfilment-c4"}
    suspect = lanes["fulfilment-c3"]
    assert "suspect" in (suspect.attributes["class"] or "")
    assert [cell.text for cell in suspect.all("td")][1:] == ["16", "30"]
    assert [cell.text for cell in lanes["fulfilment-c1"].all("td")][1:] == ["1", ""]
    assert (suspect.all("path", "dots")[0].attributes["d"] or "").count("M") == 30
    assert len(lanes["fulfilment-c1"].all("path", "owning")) == 1
    assert "suspect fulfilment-c3" in card.all("ul", "story")[0].text
    (restarted,) = [one for one in page.all("section", "card") if one.all("h3")[0].text == "billing"]
    assert all([cell.text for cell in row.all("td")][1:] == ["2", "2"] for row in restarted.all("tbody")[0].all("tr"))


def test_lists_hold_the_tables_figures(five: Sample, page: Element) -> None:
    breaches = rows(page, "breaches")
    assert breaches["fulfilment"] == ["orders", "2", "7", "2 min 10 s", "21 Nov 23:16 – 23:19"]
    assert list(breaches) == ["search-index", "payments", "fulfilment"]
    (forecast,) = rows(page, "forecast").values()
    assert forecast[2:5] == [f"{five.rows['lag_forecast'][0]['lag_now']:,}", "+91.7", "0.990"]
    partitions = rows(page, "partitions")
    assert partitions["payments"][0] == "orders" and partitions["payments"][1].startswith("STOP")
    assert partitions["payments"][2:4] == ["3: 0–2", "360,000"]
    hot = rows(page, "hot")
    assert hot["14"][1:] == ["2,400", "0.3", "45.9%", "1", "fulfilment 100%"]


def test_five_hundred_groups_fit(many: Sample, crowded: Element) -> None:
    assert many.page.stat().st_size < 2_000_000
    assert facts(crowded)["Groups"] == "500"
    table = rows(crowded, "lag")
    folded = next(reversed(table))
    assert folded == f"{500 - (len(table) - 1)} other groups" and len(table) < 45
    (compact,) = crowded.all("svg", "compact")
    assert len(compact.all("g")) == 500 - (len(table) - 1)
    assert len(crowded.all("section", "card")) == 12


def test_hostile_names_are_text(many: Sample, crowded: Element) -> None:
    names = {one.text for one in crowded.by_id("lag").all("bdi")}
    assert {HOSTILE.replace("\u202e", "[U+202E]"), LONG, RIGHT_TO_LEFT} <= names
    assert not [one for one in crowded.all("b") if one.text == "x"]
    assert {element.name for element in crowded.walk()} <= KNOWN
    handlers = {key for element in crowded.walk() for key in element.attributes if key.startswith("on")}
    assert handlers == set()


KNOWN = {
    *("", "html", "head", "meta", "title", "style", "script", "body", "header", "main", "footer", "nav", "section"),
    *("h1", "h2", "h3", "p", "div", "span", "a", "b", "i", "q", "bdi", "code", "strong", "time", "ol", "ul", "li"),
    *("dl", "dt", "dd", "table", "caption", "thead", "tbody", "tr", "th", "td", "details", "summary", "figure"),
    *("figcaption", "svg", "g", "path", "rect", "text"),
}


def test_control_characters_and_lone_surrogates(tmp_path: Path) -> None:
    sample = Sample(minutes=3)
    sample.lag("a\x00b\x1b[31m\x7f", "t", [1.0] * 3)
    text = write(sample.write(tmp_path), tmp_path / "out.html").read_text()
    assert "a␀b␛[31m␡" in text and "\x00" not in text and "\x1b" not in text


def test_without_the_event_topic_it_is_said(tmp_path: Path) -> None:
    page = read(write(troubled(Sample(events=False)).write(tmp_path), tmp_path / "out.html"))
    notes = page.by_id("notes").text
    assert "There are no events of groups" in notes and "Apache Kafka does not" in notes
    assert facts(page)["Stood still in them"] == "not known"
    (card,) = [one for one in page.all("section", "card") if one.all("h3")[0].text == "fulfilment"]
    assert "how long is not known" in card.all("ul", "story")[0].text
    assert not card.all("path", "barrier") and card.all("path", "dots")


def test_with_it_nothing_is_said(page: Element) -> None:
    (line,) = page.by_id("notes").all("li")
    assert line.text == "No record was put in quarantine: all of __consumer_offsets that was read was understood."


def test_quarantined_records_are_counted(tmp_path: Path) -> None:
    sample = troubled(Sample())
    for offset in range(1500):
        sample.add("quarantine", START, log_partition=1, log_offset=offset, log_ts=START, error="key version 3")
    sample.add("quarantine", START, log_partition=1, log_offset=9999, log_ts=START, error="truncated <value>")
    notes = read(write(sample.write(tmp_path), tmp_path / "out.html")).by_id("notes").text
    assert "1,501 records were not understood" in notes
    assert "1,500 × key version 3, 1 × truncated <value>." in notes


def test_all_is_well(tmp_path: Path) -> None:
    sample = Sample(minutes=30)
    for name in ("a", "b"):
        sample.well(name)
    page = read(write(sample.write(tmp_path), tmp_path / "out.html"))
    assert page.all("p", "verdict")[0].text == "Nothing is wrong with 2 groups."
    assert page.all("section", "card") == []
    assert "Nothing was found" in page.by_id("findings").text


def test_long_spans_have_wider_columns(tmp_path: Path) -> None:
    sample = Sample(minutes=60 * 30)
    sample.lag("g", "t", [300.0 if at == 601 else 1.0 for at in range(sample.minutes)], partitions=1)
    page = read(write(sample.write(tmp_path), tmp_path / "out.html"))
    (row,) = page.by_id("lag").all("tbody")[0].all("tr")
    values = (row.all("div", "hold")[0].attributes["data-v"] or "").split(" ")
    assert len(values) == 180 and values.count("300") == 1 and values[60] == "300"
    assert "a column is 10 min, and shows its worst minute" in page.by_id("lag").text


def test_colours_are_the_consoles() -> None:
    """One family: what both name has one value, in light and in dark."""

    def colours(path: str) -> list[tuple[str, str]]:
        text = (ROOT / path).read_text()
        return re.findall(r"(--[a-z][a-z-]+): ([^;]+);", text[: text.index("\n*, *::before")])

    own, console = colours("pipeline/report/report.css"), colours("observe/console/base.css")
    assert len(own) > 60
    common = {name for name, _ in own} & {name for name, _ in console}
    assert len(common) > 30
    own, console = ([(name, value) for name, value in each if name in common] for each in (own, console))
    # The console has its dark colours twice, the second time for its switch.
    assert own == console[: len(own)]


def test_the_same_lake_gives_the_same_page(five: Sample, tmp_path: Path) -> None:
    made = re.compile(r"Made .* UTC from")
    again = write(five.lake, tmp_path / "again.html")
    assert made.sub("", again.read_text()) == made.sub("", five.page.read_text())


def test_the_crowd_is_five_hundred() -> None:
    sample = crowd(Sample(minutes=2))
    assert len({row["group_id"] for row in sample.rows["lag_by_partition"]}) == 500
    assert isinstance(sample.ends, datetime)
