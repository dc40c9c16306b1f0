"""The console in the system's Chromium, over a broker that is made up.

Playwright runs an event loop in the thread that it was started in, for as long as it lives; no other test could run one
there meanwhile. So it has a thread of its own, in which the tests that open pages run.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest

from tests.observe.console.stage import Stage, sample

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
DESKTOP, NARROW = (1280, 900), (400, 860)

Open = Callable[..., "Page"]


STAGE_HAND: pytest.StashKey[ThreadPoolExecutor] = pytest.StashKey()


def in_its_thread(config: pytest.Config, work: Callable[..., Any], *args: Any, **named: Any) -> Any:
    """Call something in Playwright's thread, and give its result."""
    return config.stash[STAGE_HAND].submit(work, *args, **named).result()


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    if "browser" not in pyfuncitem.fixturenames:
        return None
    given = {name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}
    in_its_thread(pyfuncitem.config, pyfuncitem.obj, **given)
    return True


@pytest.fixture(scope="session")
def browser(request: pytest.FixtureRequest) -> Iterator[Browser]:
    if CHROMIUM is None:
        pytest.skip("there is no Chromium on this machine: apt-get install chromium")
    from playwright.sync_api import sync_playwright

    def start() -> tuple[Any, Browser]:
        playwright = sync_playwright().start()
        return playwright, playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])

    config = request.config
    with ThreadPoolExecutor(1, thread_name_prefix="playwright") as thread:
        config.stash[STAGE_HAND] = thread
        playwright, browser = in_its_thread(config, start)
        yield browser
        in_its_thread(config, browser.close)
        in_its_thread(config, playwright.stop)


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    """A broker with 42 groups; ``billing`` has 200 members and 500 rebalances behind it."""
    with Stage(sample()) as stage:
        yield stage


@pytest.fixture
def blank(request: pytest.FixtureRequest, browser: Browser) -> Iterator[Open]:
    """Opens pages at an address; whatever they complain about fails the test."""
    contexts, complaints = [], []

    def open_page(url: str, *, size: tuple[int, int] = DESKTOP, noted: int = 0, **options: Any) -> Page:
        """``noted``: the status of answers that the page is about, and that the browser complains of."""

        def complain(text: str) -> None:
            # The browser's own notes on a broker that is gone: tests let it go.
            if "net::ERR_" not in text and not (noted and f"status of {noted}" in text):
                complaints.append(text)

        context = browser.new_context(viewport={"width": size[0], "height": size[1]}, **options)
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(15_000)
        page.on("pageerror", lambda error: complain(f"{url}: {error}"))
        page.on("console", lambda line: complain(f"{url}: {line.text}") if line.type in ("error", "warning") else None)
        page.goto(url)
        return page

    yield open_page
    for context in contexts:
        in_its_thread(request.config, context.close)
    assert complaints == []


@pytest.fixture
def visit(blank: Open, stage: Stage) -> Open:
    """Opens pages of the console."""
    return lambda path="/", **options: blank(stage.url + path, **options)
