"""What a newcomer stumbled over: the broker gone, keys without a focus, marks, and the way from why to the timeline."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from ottla.observe.timeline.build import build
from ottla.observe.timeline.page import page as page_of
from ottla.observe.why.causes import Cause
from tests.observe.console.conftest import Open
from tests.observe.console.stage import Show, Stage, now_ms, sample
from tests.observe.console.test_console_pages import expect
from tests.observe.console.test_console_trouble import refused
from tests.observe.timeline.synthetic import member, part, rebalance, state

pytestmark = pytest.mark.slow


def test_what_was_not_loaded_before_the_broker_went(blank: Open) -> None:
    """One message, no error of the browser's, and it comes by itself."""
    with Stage(sample(6, 12, 4)) as stage:
        page = blank(stage.url)
        expect(page.locator("#live")).to_have_text("Live")
        stage.close()
        expect(page.get_by_role("alert")).to_contain_text("The broker does not answer")
        for path in ("/topics", "/groups/billing/offsets", "/groups/billing/timeline", "/groups/billing"):
            page.evaluate("(path) => { location.hash = path; }", path)
            expect(page.get_by_text("This was not loaded before the broker went")).to_have_count(1)
            expect(page.locator("main")).not_to_contain_text("Failed to fetch")
            expect(page.locator("main")).not_to_contain_text("Loading")
        page.evaluate("location.hash = '/groups/billing/offsets'")
        stage.open()
        expect(page.get_by_role("row").nth(1)).to_contain_text("orders")


def test_a_page_that_is_not_there(visit: Open) -> None:
    expect(visit("/#/nonsense").locator("main")).to_contain_text("There is no such page")


def test_keys_need_no_focus(visit: Open) -> None:
    page = visit("/#/groups/billing/timeline")
    expect(page.locator("[data-drawn-ms]")).to_be_visible()
    expect(page.get_by_role("group", name=re.compile("200 rebalances"))).to_be_visible()
    page.keyboard.press("End")
    detail = page.locator(".tl-detail")
    expect(detail).to_contain_text("Generation500")
    page.keyboard.press("ArrowLeft")
    expect(detail).to_contain_text("Generation499")
    expect(detail.locator("h3")).to_be_in_viewport()
    assert page.evaluate("location.hash") == "#/groups/billing/timeline/499"


def test_an_address_of_one_rebalance(visit: Open) -> None:
    page = visit("/#/groups/billing/timeline/480")
    expect(page.locator(".tl-detail")).to_contain_text("Generation480")


def odd() -> Show:
    """A group that was loaded, and turns somebody away again and again."""
    show = Show()
    show.add_group(state("odd", [member("a", 1)]))
    loaded: dict[str, Any] = {"kind": "loaded", "outcome": "loaded", "waits": [], "cause": "coordinator-loaded"}
    late = refused("odd", 40_000)
    show.add_episodes([rebalance(1, 0, 0, [part("a", after=1)], group_id="odd", **loaded), late])
    late.last_ms = now_ms() - 1_000
    return show


def test_marks_that_are_no_rebalances(blank: Open) -> None:
    """They are counted, and a refusal is hit a few pixels beside it."""
    with Stage(odd()) as stage:
        page = blank(f"{stage.url}/#/groups/odd/timeline")
        label = page.get_by_role("group", name=re.compile("0 rebalances, 1 refusal, 1 restart of the broker"))
        expect(label).to_be_visible()
        red = page.evaluate("""() => {
            const canvas = document.querySelector('.tl-scroll canvas');
            const [x, y] = [0, 38 * devicePixelRatio];
            const row = canvas.getContext('2d').getImageData(x, y, canvas.width, 1).data;
            const is = (at) => row[at] > 150 && row[at + 1] < 80 && row[at + 2] < 80;
            return [...Array(canvas.width).keys()].filter((at) => is(4 * at)).at(-1) / devicePixelRatio;
        }""")
        box = label.bounding_box()
        assert box is not None
        page.mouse.click(box["x"] + 1 + red + 3, box["y"] + 40)
        expect(page.locator(".tl-detail h3")).to_have_text("late is refused")
        expect(page.locator(".tl-detail")).to_contain_text("Refused 31 times, ongoing")


def test_a_saved_timeline_does_not_say_that_something_goes_on(blank: Open, tmp_path: Path) -> None:
    file = tmp_path / "odd.html"
    file.write_text(page_of(build("odd", odd().history.kept)))
    detail = blank(f"file://{file}").locator(".tl-detail")
    expect(detail).to_contain_text("Refused 31 times")
    expect(detail).not_to_contain_text("ongoing")


def test_causes_have_the_brokers_words(visit: Open) -> None:
    said = visit("/").evaluate("""async () => (await import("/causes.js")).CAUSES""")
    assert said == {one: {"meaning": one.row.meaning, "gravity": one.row.gravity} for one in Cause}


def test_from_why_to_the_timeline_and_back(visit: Open) -> None:
    """The culprit is a link, and the address says which rebalance."""
    page = visit("/#/groups/billing/why/499")
    item = page.locator("li:has(a[href$='/timeline/499'])")
    expect(item.locator("details").first).to_have_attribute("open", "")
    expect(item).to_be_in_viewport()
    item.get_by_role("link", name="In the timeline").click()
    expect(page.locator(".tl-detail")).to_contain_text("Generation499")
    page.get_by_role("link", name="under Why").click()
    expect(page.locator("li:has(a[href$='/timeline/499']) details").first).to_have_attribute("open", "")
    page.keyboard.press("ArrowDown")
    assert page.evaluate("document.activeElement.tagName") == "SUMMARY"


def test_a_refusal_that_goes_on(blank: Open) -> None:
    """The row is not as green as all others, and can be sorted by time."""
    with Stage(odd()) as stage:
        stage.show.add_group(state("calm", [member("c", 1)]))
        page = blank(stage.url)
        row = page.get_by_role("row").filter(has_text="odd")
        expect(row).to_have_attribute("data-mark", "grave")
        expect(row).to_contain_text("31 times, ongoing")
        page.get_by_role("button", name="What happened last").click()
        expect(page.locator("[aria-rowindex='2']")).to_contain_text("odd")
        page.mouse.click(5, 700)
        page.keyboard.press("ArrowDown")
        page.keyboard.press("Enter")
        expect(page.locator("h1")).to_have_text("odd")


def test_the_first_rebalance_of_a_group(blank: Open) -> None:
    """It is not called nothing, and what runs says for how long."""
    show = Show()
    here = [member("a", 1, waits_for="join")]
    show.add_group(state("new", here, state="PreparingRebalance", barrier="initial delay", barrier_age_ms=100))
    with Stage(show) as stage:
        page = blank(f"{stage.url}/#/groups/new", noted=404)
        expect(page.locator("main")).to_contain_text("The group is being started")
        expect(page.locator("main")).not_to_contain_text("Nothing is remembered")
        running = rebalance(1, 0, -1, [part("a", came_ms=0, fate="new")], group_id="new", outcome="running")
        running.started_ms = now_ms() - 3_000
        stage.do(lambda: show.history.kept.append(running))
        age = page.locator("[data-running]")
        expect(age).to_contain_text("running for")
        before = age.inner_text()
        expect(age).not_to_have_text(before)
