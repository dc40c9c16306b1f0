"""Who is in trouble is seen first: in the overview, among members, in a timeline and in a saved one."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from msgspec.structs import replace

from ottla.observe.timeline.build import build
from ottla.observe.timeline.page import page as page_of
from ottla.observe.why.model import Advice, Episode, Trigger, Wait
from tests.observe.console.conftest import DESKTOP, NARROW, Open
from tests.observe.console.stage import Show, Stage, alarm, now_ms
from tests.observe.console.test_console_pages import expect
from tests.observe.console.test_console_timeline import COLOURS, VARIABLE
from tests.observe.timeline.synthetic import T0, member, part, rebalance, state

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.slow

LONG = "team-recommendations.pipelines.eu-central-1.production.feature-store-writer-v2.blue"


def blocked(group_id: str, number: int = 1, at: int = 0, stood_ms: int = 18_000) -> Episode:
    """c joins, and all wait for b, which is busy."""
    parts = [
        part("a", came_ms=10, synced_ms=6_010, before=2, after=2, is_leader=True),
        part("b", came_ms=6_000, synced_ms=6_010, before=2, after=1, blamed_ms=stood_ms),
        part("c", came_ms=0, synced_ms=6_010, fate="new", after=1),
    ]
    return rebalance(
        number, at, 6_016, parts, group_id=group_id, cause="member-joined", culprit=1, stood_ms=stood_ms,
        longest_ms=6_000, stopped=3, triggers=[Trigger("member-joined", 2)],
        headline="c joined, and b kept the others waiting",
        waits=[Wait("join", 0, 6_000, 300_000, [1]), Wait("sync", 6_000, 6_016, 300_000, [0])],
        advice=[Advice("Let b call poll() more often.")],
    )  # fmt: skip


def refused(group_id: str, at: int = 0) -> Episode:
    """Somebody is turned away again and again."""
    more: dict[str, Any] = {"kind": "refusal", "outcome": "refused", "waits": [], "cause": "turned-away-group-full"}
    parts = [part("late", fate="refused")]
    return rebalance(2, at, 0, parts, group_id=group_id, culprit=0, times=31, headline="late is refused", **more)


def town() -> Show:
    """Groups of every rank, with names in another order."""
    show = Show()
    for name in ("a-fine", "b-cheap", "c-dear", "d-alarmed", "e-stuck", "a-started", LONG):
        show.add_group(state(name, [member(f"{name}-1", 2), member(f"{name}-2", 1)]))
    stuck, started = show.groups["e-stuck"], show.groups["a-started"]
    for group, since_ms in ((stuck, 41_000), (started, -600_000)):
        group.state, group.barrier, group.state_since_ms = "PreparingRebalance", "join", now_ms() - since_ms
    for name, stood_ms in (("b-cheap", 18_000), ("c-dear", 90_000), ("a-fine", 200)):
        show.add_episodes([blocked(name, stood_ms=stood_ms)])
    text = "Group d-alarmed turned members away 245 times within 60 s, the last was late (10.0.0.9): the group is full"
    show.sentinels.standing = [alarm("refused_member", "d-alarmed", text, now_ms() - 9_000)]
    return show


def clear(show: Show) -> None:
    """What alarms tell of is over; the stream says so, as alarms that ended are listed."""
    show.sentinels.ended = [replace(one, cleared_ms=now_ms()) for one in show.sentinels.standing]
    show.sentinels.standing = []


def names(page: Page) -> list[str | None]:
    """The groups, from above."""
    rows = page.locator(".tbody .tr").all()
    at = {int(row.get_attribute("aria-rowindex") or 0): row.get_by_role("link").first for row in rows}
    return [at[index].get_attribute("aria-label") for index in sorted(at)]


def test_what_costs_most_comes_first(blank: Open) -> None:
    """Rebalances that run for long, alarms, what it cost lately, names; whoever sorts has that, and can go back."""
    with Stage(town()) as stage:
        page = blank(stage.url)
        expect(page.locator("#alarm-count")).to_have_text("1")
        first = page.locator(".tbody .tr[aria-rowindex='2']")
        expect(first).to_contain_text("e-stuck")
        expect(page.locator(".tbody .tr[aria-rowindex='4']")).to_contain_text("90 partition-s")
        ranked = ["e-stuck", "d-alarmed", "c-dear", "b-cheap", "a-fine", "a-started", LONG]
        assert names(page) == ranked
        alarmed = page.get_by_role("row").filter(has_text="d-alarmed")
        expect(alarmed).to_have_attribute("data-mark", "grave")
        expect(alarmed.locator(".chip.good")).to_have_count(0)
        expect(alarmed).to_contain_text("refused member")
        said = page.get_by_role("row").filter(has_text="c-dear").locator('[data-column="latest"]')
        expect(said).to_contain_text("3 partitions stood still up to 6 s. c joined")

        page.get_by_role("button", name="Group", exact=True).click()
        assert names(page) == sorted(ranked)
        page.get_by_role("link", name="c-dear").click()
        page.get_by_role("link", name="Groups").click()
        expect(page.get_by_role("columnheader", name="Group")).to_have_attribute("aria-sort", "ascending")
        stage.do(lambda: clear(stage.show))
        expect(page.locator("#alarm-count")).to_be_hidden()
        assert names(page) == sorted(ranked), "what somebody chose stays"
        page.get_by_role("button", name="Most trouble first").click()
        expect(first).to_contain_text("e-stuck")
        assert names(page)[:3] == ["e-stuck", "c-dear", "b-cheap"], "an alarm that is over counts no more"


@pytest.mark.parametrize("hours", [1, -1], ids=["ahead", "behind"])
def test_a_browser_whose_clock_is_wrong(blank: Open, hours: int) -> None:
    """How long something runs, and how long ago it was, is reckoned by the broker's clock."""
    show = town()
    show.add_episodes([shut := refused("a-fine")])
    shut.last_ms = now_ms() - 1_000
    with Stage(show) as stage:
        page = blank(stage.url)
        page.add_init_script(f"{{ const now = Date.now; Date.now = () => now() + {hours} * 3_600_000; }}")
        page.reload()
        expect(page.locator("#alarm-count")).to_have_text("1")
        expect(page.locator(".tbody .tr[aria-rowindex='4']")).to_contain_text("90 partition-s")
        assert names(page)[:3] == ["e-stuck", "d-alarmed", "c-dear"]
        assert names(page)[-2:] == ["a-started", LONG]
        row = page.get_by_role("row")
        expect(row.filter(has_text="c-dear").locator("time")).to_have_text(re.compile(r"\d\d s ago"))
        expect(row.filter(has_text="a-fine")).to_contain_text("Refused 31 times, ongoing")
        expect(page.locator(".facts div").filter(has_text="Up for")).to_contain_text("2 h 1 min")


def test_alarms_of_one_kind_are_one_chip(blank: Open) -> None:
    """A group of twenty topics that nobody reads has one chip, which tells of all."""
    show = town()
    show.sentinels.standing += [
        alarm("idle_topic", "c-dear", f"Group c-dear reads no partition of topic-{one}", now_ms()) for one in range(20)
    ]
    with Stage(show) as stage:
        page = blank(stage.url)
        chips = page.get_by_role("row").filter(has_text="c-dear").locator(".chip.bad")
        expect(chips).to_have_count(1)
        for link in (None, "c-dear"):
            if link:
                page.get_by_role("link", name=link).first.click()
                chips = page.locator(".group-head .chip.bad")
            expect(chips).to_have_text(["idle topic"])
            told = (chips.get_attribute("title") or "").split("\n")
            assert told[0] == "Group c-dear reads no partition of topic-0"
            assert (len(told), told[-1]) == (11, "and 10 more")


@pytest.mark.parametrize("size", [DESKTOP, NARROW], ids=["desktop", "narrow"])
def test_long_names_keep_both_ends(blank: Open, size: tuple[int, int]) -> None:
    with Stage(town()) as stage:
        page = blank(stage.url, size=size)
        link = page.get_by_role("link", name=LONG)
        expect(link).to_be_visible()
        expect(link.get_by_title(LONG)).to_have_count(1)
        start, end, edge = page.evaluate(  # all at once: a row may be drawn anew at any moment
            """(name) => {
                const link = document.querySelector(`.tbody a[aria-label="${name}"]`);
                const all = [...link.querySelectorAll(".middle > span"), link.closest(".tr")];
                return all.map((one) => one.getBoundingClientRect().toJSON());
            }""",
            LONG,
        )
        assert start["left"] < end["left"] < edge["right"]
        assert start["width"] > 40
        link.click()
        expect(page.locator("h1")).to_have_text(LONG)


def test_who_keeps_the_others_waiting_stands_out(blank: Open) -> None:
    """Whoever waits is calm, though nothing is heard of it; a member shows its library, timeouts, topics and lag."""
    busy = member("busy", 2, 300, client_software="librdkafka 2.6.1", rebalance_timeout_ms=300_000)
    waits = member("waits", 1, 44_000, waits_for="join", slack_ms=0, is_leader=True)
    show = Show()
    fields = {"state": "PreparingRebalance", "barrier": "join", "barrier_age_ms": 41_000, "awaited": ["busy-id"]}
    show.add_group(state("g", [waits, busy], **fields), lag=70)
    with Stage(show) as stage:
        page = blank(f"{stage.url}/#/groups/g/members")
        first = page.locator(".tbody .tr[aria-rowindex='2']")
        expect(first).to_contain_text("the group waits for it")
        for text in ("busy", "librdkafka 2.6.1", "session 45 s", "rejoin 5 min", "subscribes to orders", "140"):
            expect(first).to_contain_text(text)
        expect(first).to_have_attribute("data-mark", "grave")
        calm = page.get_by_role("row").filter(has_text="waits-id")
        expect(calm).to_contain_text("waits for others")
        expect(calm).to_have_attribute("data-mark", "")
        expect(calm.locator(".bad, .warn")).to_have_count(0)
        expect(calm.get_by_role("meter")).to_have_count(0)


def test_why_names_trigger_and_culprit_as_the_broker_does(blank: Open) -> None:
    show = Show()
    show.add_group(state("g", [member("a", 2)]))
    show.add_episodes([blocked("g")])
    nobody = rebalance(2, 30_000, 10, [part("a", fate="new")], group_id="g", triggers=[Trigger("group-started", 0)])
    show.add_episodes([nobody])
    with Stage(show) as stage:
        page = blank(f"{stage.url}/#/groups/g/why/1")
        told = page.locator(".episodes > li").nth(1)
        expect(told.locator("summary").first).to_contain_text(
            "3 partitions stood still up to 6 s, 18 partition-seconds"
        )
        expect(told.locator("summary .chip.trigger + b")).to_have_text("c")
        expect(told.locator("summary .chip.culprit + b")).to_have_text("b")
        told.get_by_text("3 members").click()
        expect(told.locator("tr.culprit")).to_contain_text("b")
        expect(told.locator("tr.trigger")).to_contain_text("c")
        started = page.locator(".episodes > li").first
        expect(started.locator("summary .chip.trigger")).to_have_count(1)
        expect(started.locator("summary .chip.culprit")).to_have_count(0)


def calm(number: int, at: int) -> Episode:
    parts = [part("a", came_ms=2, synced_ms=9, before=2, after=2), part("b", came_ms=3, synced_ms=9, before=2, after=2)]
    return rebalance(
        number, at, 12, parts, group_id="g", cause="member-joined", triggers=[Trigger("leader-rejoined", 0)]
    )


def test_the_newest_trouble_is_chosen_and_can_be_seen(blank: Open) -> None:
    """Also among many; whoever chooses another keeps that."""
    show = Show()
    episodes = [calm(number, number * 60_000) for number in range(1, 25)]
    show.add_episodes([*episodes[:14], blocked("g", 15, 15 * 60_000), *episodes[15:]])
    with Stage(show) as stage:
        page = blank(f"{stage.url}/#/groups/g/timeline", noted=404)
        detail = page.locator(".tl-detail")
        expect(detail.locator("h3")).to_have_text("c joined, and b kept the others waiting")
        expect(detail).to_contain_text("3 partitions stood still up to 6 s, 18 partition-seconds in all")
        expect(detail.locator("div:has(> dt > .culprit) .link")).to_have_text("b")
        expect(detail.locator("div:has(> dt > .trigger) .link")).to_have_text("c")
        assert page.evaluate("location.hash") == "#/groups/g/timeline", "nobody has chosen anything"
        seen = page.evaluate(COLOURS)
        for name in ("bad", "trigger"):
            assert page.evaluate(VARIABLE, f"--{name}") in seen, f"{name}: who is named is marked"
        page.keyboard.press("ArrowRight")
        expect(detail).to_contain_text("Generation16")
        stage.do(lambda: show.history.end(blocked("g", 26, now_ms() - T0)))
        expect(page.get_by_role("group", name="25 rebalances")).to_be_visible()
        expect(detail).to_contain_text("Generation16")


def test_a_saved_timeline_says_when_what_and_what_to_do(blank: Open, tmp_path: Path) -> None:
    path = tmp_path / "g.html"
    path.write_text(page_of(build("g", [calm(1, 0), blocked("g", 2, 60_000), calm(3, 90_000)])))
    page = blank(path.as_uri(), offline=True, timezone_id="UTC")
    expect(page.locator("header")).to_contain_text("2025-12-31 23:59:56 to 2026-01-01 00:01:30 (UTC")
    verdict = page.get_by_role("region", name="Verdict")
    expect(verdict).to_contain_text("3 rebalances: 18 partition-seconds stood still, the most on account of b")
    expect(verdict).to_contain_text("c joined, and b kept the others waiting")
    expect(page.get_by_text("Let b call poll() more often.")).to_have_count(1)
    expect(page.locator(".tl-detail h3")).to_have_text("c joined, and b kept the others waiting")
    path.write_text(page_of(build("g", [calm(1, 0)])))
    page.reload()
    expect(verdict).to_contain_text("1 rebalance: partitions stood still for less than a partition-second in all.")
