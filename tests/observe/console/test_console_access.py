"""Nothing on any page is against WCAG 2.2 AA, as far as axe-core can tell: in light and dark, wide and narrow."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla.observe.timeline.build import build
from ottla.observe.timeline.page import page as page_of
from tests.observe.console import axe
from tests.observe.console.conftest import DESKTOP, NARROW, Open
from tests.observe.console.stage import Stage, sample
from tests.observe.console.test_console_pages import PAGES, expect
from tests.observe.timeline.synthetic import Crowd
from tests.observe.why.stories import played
from tests.observe.why.story import GROUP

pytestmark = pytest.mark.slow

LOOKS = pytest.mark.parametrize(
    ("size", "scheme"), [(DESKTOP, "light"), (NARROW, "dark"), (DESKTOP, "dark")], ids=["light", "narrow-dark", "dark"]
)
FINISHED = {
    "/": '.tbody .tr:has-text("pay-2 keeps 2 others waiting")',
    "/#/topics": '.tbody .tr:has-text("72,018")',
    "/#/topics/orders": '.configs:has-text("retention.ms")',
    "/#/alarms": '.alarm.past:has-text("10 rebalances in 5 min")',
    "/#/groups/billing": '.group-head:has-text("generation") ~ #panel .barriers:has-text("Join barrier was open for")',
    "/#/groups/billing/timeline": "#panel [data-drawn-ms]",
    "/#/groups/billing/members": '#panel [aria-label="Members"] .tbody .tr',
    "/#/groups/billing/offsets": '#panel [aria-label="Offsets"] .tbody .tr',
    "/#/groups/payments-eu-stuck": '.now:has-text("waits for pay-2") ~ #panel .story',
    "/#/groups/payments-eu-stuck/timeline": "#panel [data-drawn-ms]",
    "/#/groups/payments-eu-stuck/members": '#panel [aria-label="Members"] .tbody .tr',
    "/#/groups/payments-eu-stuck/offsets": '#panel [aria-label="Offsets"] .tbody .tr',
    "/#/groups/billing/why/8": '#panel details[open] a[href$="/timeline/8"]',
    "/#/nowhere": 'h1:has-text("There is no such page")',
    "/#/groups/nobody": '.now:has-text("There is no such group now") ~ #panel :text("Nothing is remembered")',
}
"""The pages, and what each has that the one before it has not, once all of it is there."""


@pytest.fixture(scope="session")
def script(request: pytest.FixtureRequest) -> str:
    """The source of axe-core, of pytest's cache."""
    assert request.config.cache is not None
    return axe.source(Path(request.config.cache.mkdir("axe-core")))


@pytest.fixture(scope="module")
def few() -> Iterator[Stage]:
    """A broker as all others have it, with less of everything: axe-core looks at each element."""
    with Stage(sample(6, 12, 4)) as stage:
        yield stage


@LOOKS
def test_the_console(blank: Open, few: Stage, script: str, size: tuple[int, int], scheme: str) -> None:
    page = blank(few.url, size=size, color_scheme=scheme, bypass_csp=True, noted=404)
    assert set(PAGES) < set(FINISHED)
    for path, there in FINISHED.items():
        page.goto(page.url.partition("#")[0] + path.lstrip("/"))
        expect(page.locator("main").locator(there).first).to_be_visible()
        expect(page.locator("main h1")).to_have_count(1)
        expect(page.get_by_text("Loading…").filter(visible=True)).to_have_count(0)
        page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
        assert axe.violations(page, script) == [], path
    page.keyboard.press("/")
    page.keyboard.type("pay")
    expect(page.get_by_role("option").first).to_be_visible()
    assert axe.violations(page, script) == [], "while searching"
    page.keyboard.press("Escape")
    page.keyboard.press("Escape")
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_be_visible()
    assert axe.violations(page, script) == [], "the keys"


@LOOKS
def test_saved_timelines(blank: Open, script: str, tmp_path: Path, size: tuple[int, int], scheme: str) -> None:
    crowd = Crowd(30, 20)
    timelines = [build("billing", crowd.episodes(), traffic=crowd.traffic(crowd.now), state=crowd.state())]
    for title in ("poll loop busy", "group full", "member joined"):
        timelines.append(build(GROUP, played(title).history.episodes(GROUP)))
    timelines.append(build("nothing", [], now_ms=crowd.now))
    for number, timeline in enumerate(timelines):
        path = tmp_path / f"{number}.html"
        path.write_text(page_of(timeline))
        page = blank(path.as_uri(), size=size, color_scheme=scheme, bypass_csp=True)
        expect(page.locator("[data-drawn-ms]")).to_be_visible()
        assert axe.violations(page, script) == [], timeline.group_id


def test_what_is_against_it_is_found(blank: Open, script: str, tmp_path: Path) -> None:
    """The tests above can fail."""
    path = tmp_path / "bad.html"
    path.write_text("<html lang=en><title>x</title><main><p style='color:#bbb'>pale</p><img src='data:,'></main>")
    found = axe.violations(blank(path.as_uri()), script)
    assert sorted(one.partition(":")[0] for one in found) == ["color-contrast", "image-alt"]
