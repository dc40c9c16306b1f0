"""The console without a mouse, in light and in dark."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tests.observe.console.conftest import Open
from tests.observe.console.test_console_pages import expect

pytestmark = pytest.mark.slow

CONSOLE = Path(__file__).parents[3] / "observe/console"


def test_search(visit: Open) -> None:
    page = visit()
    expect(page.locator(".tbody .tr").first).to_be_visible()
    page.keyboard.press("/")
    expect(page.locator("#search")).to_be_focused()
    page.keyboard.type("payments")
    options = page.get_by_role("option")
    expect(options.first).to_contain_text("payments")
    expect(options.nth(1)).to_be_visible()  # topics are asked for when the search begins
    page.keyboard.press("ArrowDown")
    chosen = page.locator('[role="option"][aria-selected="true"] .mono').inner_text()
    assert page.locator("#search").get_attribute("aria-activedescendant") == "hit-1"
    page.keyboard.press("Enter")
    expect(page.locator("h1")).to_have_text(chosen)
    page.keyboard.press("/")
    page.keyboard.type("nobody at all")
    expect(page.locator("#found")).to_contain_text("No group or topic")
    page.keyboard.press("Escape")
    page.keyboard.press("Escape")
    expect(page.locator("#found")).to_be_hidden()


def test_tables(visit: Open) -> None:
    """Arrows go from row to row, Enter opens."""
    page = visit()
    rows = page.locator(".tbody .tr")
    rows.first.focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    expect(page.locator('.tr[aria-rowindex="4"]')).to_be_focused()
    name = page.locator('.tr[aria-rowindex="4"] a').inner_text()
    page.keyboard.press("Enter")
    expect(page.locator("h1")).to_have_text(name)


def test_everything_is_reached_by_tab(visit: Open) -> None:
    """From the top of the page to the first group, in order."""
    page = visit()
    expect(page.locator(".tbody .tr").first).to_be_visible()
    seen = []
    for _ in range(40):
        page.keyboard.press("Tab")
        seen.append(page.evaluate("document.activeElement.className + ' ' + document.activeElement.textContent.trim()"))
        if page.evaluate("document.activeElement.matches('.tbody .tr')"):
            break
    assert "Skip to content" in seen[0]
    for wanted in ("Topics", "Alarms", "payments-eu-stuck", "Stable", "Most trouble first", "Cost in 1 h"):
        assert any(wanted in one for one in seen), wanted
    assert page.evaluate("document.activeElement.matches('.tbody .tr')")
    outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
    assert outline == "solid", "one sees where one is"


def test_pages_and_tabs_by_key(visit: Open) -> None:
    page = visit("/#/groups/billing")
    page.keyboard.press("2")
    expect(page.get_by_role("tab", name="Timeline")).to_have_attribute("aria-selected", "true")
    page.keyboard.press("4")
    expect(page.get_by_role("grid", name="Offsets")).to_be_visible()
    page.get_by_role("tab", name="Offsets").focus()
    page.keyboard.press("ArrowLeft")
    expect(page.get_by_role("grid", name="Members")).to_be_visible()
    expect(page.get_by_role("tab", name="Members")).to_be_focused()
    page.keyboard.press("o")
    expect(page.get_by_role("grid", name="Topics")).to_be_visible()
    page.keyboard.press("a")
    expect(page.get_by_text("2 alarms stand")).to_be_visible()
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_contain_text("fold quiet time")
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_be_hidden()


def test_light_and_dark(visit: Open) -> None:
    """As the system has it, until one chooses; what was chosen stays."""
    colour = "getComputedStyle(document.body.parentElement).backgroundColor"
    page = visit(color_scheme="dark")
    dark = page.evaluate(colour)
    page.get_by_role("button", name="Switch between light and dark").click()
    light = page.evaluate(colour)
    assert light != dark
    page.reload()
    assert page.evaluate(colour) == light
    page.keyboard.press("t")
    assert page.evaluate(colour) == dark


# -- how things are written


def test_numbers_in_words(visit: Open) -> None:
    """Durations, sizes and partitions as people write them."""
    page = visit("/#/alarms")
    durations = {
        0: "0 ms", 999: "999 ms", 1_000: "1 s", 1_250: "1.3 s", 9_949: "9.9 s", 9_951: "10 s", 59_400: "59 s",
        59_999: "59 s", 60_000: "1 min", 61_000: "1 min 1 s", 3_599_999: "59 min", 3_600_000: "1 h",
        5_400_000: "1 h 30 min", 86_399_999: "23 h", 86_400_000: "1 d", 90_000_000: "1 d 1 h", -1: "–",
    }  # fmt: skip
    called = (
        "async ([name, values]) => { const m = await import('/dom.js'); return values.map((one) => m[name](one)); }"
    )
    assert dict(zip(durations, page.evaluate(called, ["duration", list(durations)]), strict=True)) == durations
    steps = page.evaluate(called, ["duration", list(range(0, 200_000_000, 12_345))])
    assert all(re.fullmatch(r"[\d.]+ (ms|s|min|h|d)( \d+ (s|min|h))?", text) for text in steps)
    sizes = page.evaluate(called, ["bytes", [0, 1_023, 1_024, 10_240, 5 << 20, 3 << 40]])
    assert sizes == ["0 B", "1023 B", "1.0 KiB", "10 KiB", "5.0 MiB", "3.0 TiB"]
    assert page.evaluate(called, ["ranges", [[3, 1, 2, 7], [], [5]]]) == ["1–3, 7", "", "5"]


# -- colours, without a browser


def luminance(colour: str) -> float:
    """As WCAG defines it."""
    channels = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [one / 12.92 if one <= 0.04045 else ((one + 0.055) / 1.055) ** 2.4 for one in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    brighter, darker = sorted((luminance(one), luminance(other)), reverse=True)
    return (brighter + 0.05) / (darker + 0.05)


def test_the_contrast_of_black_and_white() -> None:
    assert contrast("#ffffff", "#000000") == pytest.approx(21)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.01)


def test_text_can_be_read() -> None:
    """WCAG AA: 4.5 for text; 3 for what is only seen."""
    blocks = re.findall(r":root[^{]*\{\s*color-scheme[^}]*\}", (CONSOLE / "base.css").read_text())
    light, by_system, by_choice = (dict(re.findall(r"--([\w-]+): ([^;]+);", block)) for block in blocks)
    assert by_system == by_choice
    pairs = [(text, ground) for text in ("text", "muted", "faint", "accent") for ground in ("bg", "surface")]
    pairs += [(tone, f"{tone}-soft") for tone in ("good", "warn", "bad", "violet", "accent")]
    pairs += [
        ("muted", "neutral-soft"),
        ("muted", "sunk"),
        ("text", "sunk"),
        ("bad", "surface"),
        ("text", "accent-soft"),
    ]
    for palette in (light, by_system):
        for text, ground in pairs:
            assert contrast(palette[text], palette[ground]) >= 4.5, (text, ground, palette[ground])
        for seen in ("lane-owning", "lane-joining", "lane-syncing", "lane-silent", "focus"):
            assert contrast(palette[seen], palette["surface"]) >= 3, seen
    assert set(by_system) <= set(light)


def test_nothing_comes_from_elsewhere() -> None:
    """No host is named, nothing is inline, and what is imported is there."""
    files = {path.name: path.read_text() for path in CONSOLE.iterdir()}
    for name, text in files.items():
        hosts = set(re.findall(r"(?:https?:)?//([\w.-]+\.\w+)", text)) - {"www.w3.org"}
        assert hosts == set(), name
        for imported in re.findall(r'^import .* from "\./([\w.-]+)";$', text, re.MULTILINE):
            assert imported in files, f"{name} imports {imported}"
    page = files["index.html"]
    assert not re.search(r"<script(?![^>]*\bsrc=)[^>]*>|<style|\sstyle=|\son\w+=", page)
    for linked in re.findall(r'(?:src|href)="([\w.-]+\.\w+)"', page):
        assert linked in files
    assert all(len(text.splitlines()) <= 500 for text in files.values())


def test_what_is_chosen_stays_so_when_topics_come(visit: Open) -> None:
    """They are asked for when the search begins, may come after the arrows were used, and stand first then."""
    page = visit()
    held: list[Any] = []
    page.route("**/v1/topics*", lambda route: held.append(route))
    expect(page.locator(".tbody .tr").first).to_be_visible()
    page.keyboard.press("/")
    page.keyboard.type("payments")
    options = page.get_by_role("option")
    expect(options.first).to_contain_text("payments-")
    before = options.count()
    page.keyboard.press("ArrowDown")
    chosen = page.locator('[role="option"][aria-selected="true"] .mono')
    name = chosen.inner_text()
    for route in held:
        route.continue_()
    expect(options).to_have_count(before + 1)
    expect(options.first).to_contain_text("topic")
    expect(chosen).to_have_text(name)
