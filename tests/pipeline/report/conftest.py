"""Made-up lakes and reports of them, made once; and Chromium without a network."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ottla.pipeline.report import write
from tests.pipeline.report.sample import Sample, crowd, troubled

if TYPE_CHECKING:
    from playwright.sync_api import Page

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)

Browse = Callable[..., Any]


@pytest.fixture(scope="session")
def five(tmp_path_factory: pytest.TempPathFactory) -> Sample:
    """Five groups, and what they are made of; ``lake`` and ``page`` say where."""
    return _made(troubled(Sample()), tmp_path_factory.mktemp("five"))


@pytest.fixture(scope="session")
def many(tmp_path_factory: pytest.TempPathFactory) -> Sample:
    """Five hundred groups, three of them with hostile names."""
    return _made(crowd(Sample()), tmp_path_factory.mktemp("many"))


def _made(sample: Sample, folder: Path) -> Sample:
    sample.lake = sample.write(folder / "lake")
    sample.page = write(sample.lake, folder / "report.html")
    return sample


@pytest.fixture(scope="session")
def browse() -> Iterator[Browse]:
    """Calls something with a page that was opened, in a thread of Playwright's own: it keeps an event loop there."""
    if CHROMIUM is None:
        pytest.skip("there is no Chromium on this machine: apt-get install chromium")
    pytest.importorskip("playwright", reason="playwright is not installed: pip install 'ottla[test]'")
    from playwright.sync_api import sync_playwright

    def start() -> tuple[Any, Any]:
        playwright = sync_playwright().start()
        return playwright, playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])

    with ThreadPoolExecutor(1, thread_name_prefix="playwright") as thread:
        playwright, browser = thread.submit(start).result()

        def call(file: Path, work: Callable[[Page], Any], **options: Any) -> Any:
            """What ``work`` gives; whatever the page complains about or asks for fails the test."""
            return thread.submit(_visit, browser, file, work, options).result()

        yield call
        thread.submit(browser.close).result()
        thread.submit(playwright.stop).result()


def _visit(browser: Any, file: Path, work: Callable[[Page], Any], options: dict[str, Any]) -> Any:
    seen: list[str] = []
    context = browser.new_context(offline=True, **{"viewport": {"width": 1280, "height": 900}, **options})
    try:
        page = context.new_page()
        page.set_default_timeout(15_000)
        page.on("pageerror", lambda error: seen.append(str(error)))
        page.on("console", lambda line: seen.append(line.text) if line.type in ("error", "warning") else None)
        page.on("request", lambda request: seen.append(request.url) if not request.is_navigation_request() else None)
        page.goto(file.as_uri())
        result = work(page)
        assert seen == []
        return result
    finally:
        context.close()
