"""The report in a browser that has no network: it asks for nothing, fits the window, and can be read by keys."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.observe.console import axe
from tests.pipeline.report.conftest import Browse
from tests.pipeline.report.sample import Sample

if TYPE_CHECKING:
    from playwright.sync_api import Page

FITS = "document.documentElement.scrollWidth <= innerWidth"
windows = pytest.mark.parametrize(
    ("which", "scheme", "width"), [("five", "light", 1280), ("five", "dark", 400), ("many", "dark", 1280)]
)


@windows
def test_it_fits_the_window(
    which: str, scheme: str, width: int, browse: Browse, request: pytest.FixtureRequest
) -> None:
    def look(page: Page) -> None:
        assert page.evaluate(FITS)
        ground, text = page.evaluate(
            "['backgroundColor', 'color'].map((key) => getComputedStyle(document.documentElement)[key])"
        )
        assert (_light(ground) > _light(text)) == (scheme == "light")
        strip = page.locator(".heat .strip").first.bounding_box()
        assert strip is not None and strip["width"] > 200
        assert page.locator("h1").inner_text() == "Consumer groups of orders-eu-1"

    file = request.getfixturevalue(which).page
    browse(file, look, color_scheme=scheme, viewport={"width": width, "height": 900})


def _light(colour: str) -> int:
    return sum(int(part) for part in colour.strip("rgb()").split(","))


def test_cells_have_their_colours_where_the_figures_say(five: Sample, browse: Browse) -> None:
    """The picture is stretched to the window: a column is where its time is."""

    def look(page: Page) -> Any:
        row = page.locator("#lag tbody tr", has_text="payments")
        return row.locator("path.k5").evaluate(
            """(path) => {
              const own = path.getBoundingClientRect(), all = path.ownerSVGElement.getBoundingClientRect();
              return [(own.left - all.left) / all.width, (own.right - all.left) / all.width];
            }"""
        )

    left, right = browse(five.page, look)
    # From 15 minutes on, which is 84 minutes after the start, to the end.
    assert left == pytest.approx(84 / 120, abs=0.005) and right == pytest.approx(1.0, abs=0.005)


def test_the_map_is_read_by_keys(five: Sample, browse: Browse) -> None:
    def look(page: Page) -> None:
        hold = page.locator("#lag .hold").first
        hold.focus()
        page.keyboard.press("End")
        tip = page.locator(".tip")
        assert tip.inner_text() == "11-22 00:29 · 50.0 min behind"
        page.keyboard.press("ArrowLeft")
        assert tip.inner_text() == "11-22 00:28 · 49.0 min behind"
        page.keyboard.press("Escape")
        assert not tip.is_visible()
        storm = page.locator("#lag tbody tr", has_text="fulfilment").locator(".hold")
        box = storm.bounding_box()
        assert box is not None
        page.mouse.move(box["x"] + box["width"] * 38.5 / 120, box["y"] + 5)
        assert tip.inner_text().startswith("11-21 23:08 · ") and tip.inner_text().endswith(" behind · 3 rebalances")
        assert "arrow keys" in (storm.get_attribute("aria-label") or "")

    browse(five.page, look)


def test_tables_are_sorted_by_their_heads(five: Sample, browse: Browse) -> None:
    def look(page: Page) -> None:
        names = page.locator("#breaches tbody th")
        assert names.all_inner_texts() == ["search-index", "payments", "fulfilment"]
        page.get_by_role("button", name="Worst lag").click()
        assert names.all_inner_texts() == ["payments", "search-index", "fulfilment"]
        page.get_by_role("button", name="Worst lag").click()
        assert names.all_inner_texts() == ["fulfilment", "search-index", "payments"]
        assert page.locator("#breaches [aria-sort]").get_attribute("aria-sort") == "ascending"

    browse(five.page, look)


@windows
def test_nothing_is_against_wcag(
    which: str, scheme: str, width: int, browse: Browse, request: pytest.FixtureRequest
) -> None:
    """WCAG 2.2 AA, as far as axe-core can tell."""
    assert request.config.cache is not None
    script = axe.source(Path(request.config.cache.mkdir("axe-core")))

    def look(page: Page) -> None:
        page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
        assert axe.violations(page, script) == []

    size = {"width": width, "height": 900}
    browse(request.getfixturevalue(which).page, look, color_scheme=scheme, viewport=size, bypass_csp=True)


def test_without_scripts_it_says_the_same(five: Sample, browse: Browse) -> None:
    def look(page: Page) -> None:
        assert page.locator("button, .tip").count() == 0
        assert page.locator("#lag tbody tr").count() == 5
        assert "worst 50 min" in page.locator("#lag .strip title").first.text_content()  # type: ignore[operator]
        page.locator("#findings a", has_text="fulfilment").click()
        assert page.locator(":target h3").inner_text() == "fulfilment"

    browse(five.page, look, java_script_enabled=False)


def test_hostile_names_do_nothing(many: Sample, browse: Browse) -> None:
    def look(page: Page) -> None:
        page.on("dialog", lambda dialog: pytest.fail("a name ran as a script"))
        page.locator("summary", has_text="a line for each").click()
        page.locator("summary", has_text="Their names").click()
        assert page.evaluate(FITS)
        link = page.locator("#lag a", has_text="<script>").first
        assert link.inner_text().startswith('<script>alert("x")')
        box = page.locator("#lag a", has_text="ggggg").first.bounding_box()
        assert box is not None and box["width"] < 320

    browse(many.page, look)


def test_it_prints(five: Sample, browse: Browse, tmp_path: Path) -> None:
    def look(page: Page) -> None:
        page.pdf(path=tmp_path / "report.pdf", format="A4", print_background=True)
        page.emulate_media(media="print")
        assert not page.locator(".top nav").is_visible()

    browse(five.page, look)
    assert (tmp_path / "report.pdf").read_bytes().startswith(b"%PDF")
