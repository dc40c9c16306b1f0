"""The console of a real broker with real consumers, from the wheel's own files."""

from __future__ import annotations

from pathlib import Path

import pytest

from ottla.testing.broker import Broker
from tests.cli.conftest import membership
from tests.observe.console.conftest import Open
from tests.observe.console.test_console_pages import expect
from tests.observe.console.test_console_timeline import drawn

pytestmark = [pytest.mark.e2e, pytest.mark.slow]


def test_a_group_from_its_first_member_on(blank: Open) -> None:
    """Everything comes by the stream: the group, its members, why it rebalanced, and the timeline."""
    with Broker(http=True, topics={"orders": 4}) as broker:
        page = blank(broker.http_url)
        expect(page.locator(".empty").last).to_contain_text("No groups yet")
        with membership(broker.bootstrap_servers, "billing", "alpha"):
            row = page.get_by_role("row").filter(has=page.get_by_role("link", name="billing"))
            expect(row).to_contain_text("Stable")
            expect(row).to_contain_text("alpha started the group")
            page.get_by_role("link", name="billing").click()
            with membership(broker.bootstrap_servers, "billing", "beta"):
                expect(page.locator(".episodes > li")).to_have_count(2)
                expect(page.locator(".episodes .headline").first).to_contain_text("beta joined")
                page.keyboard.press("3")
                rows = page.locator(".tbody .tr")
                expect(rows).to_have_count(2)
                expect(rows.first).to_contain_text("orders 0–1")
                expect(rows.last).to_contain_text("orders 2–3")
                expect(rows.last).to_contain_text("ottla ")  # which library it is
            expect(rows).to_have_count(1)
            page.keyboard.press("2")
            expect(page.locator("[data-drawn-ms]")).to_be_visible()
            assert "owning" in drawn(page)
            page.locator(".tl-stage").focus()
            page.keyboard.press("End")
            expect(page.locator(".tl-detail h3")).to_contain_text("beta was closed")
            page.keyboard.press("4")
            expect(page.locator(".tablebox")).to_be_visible()


def test_who_has_logged_in_logs_out(blank: Open, tmp_path: Path) -> None:
    file = tmp_path / "tokens"
    file.touch(0o600)
    file.write_text("alice a-token-of-alice\n")
    with Broker({"ottla.http.token.file": str(file)}, http=True) as broker:
        page = blank(broker.http_url, noted=401)
        page.get_by_label("Token").fill("a-token-of-alice")
        page.keyboard.press("Enter")
        out = page.get_by_role("button", name="Log out")
        expect(out).to_have_attribute("title", "Log out alice")
        assert len(page.context.cookies()) == 1
        out.click()
        expect(page.get_by_label("Token")).to_be_visible()
        assert page.context.cookies() == []
    with Broker(http=True) as broker:
        page = blank(broker.http_url)
        expect(page.locator(".empty").last).to_contain_text("No groups yet")
        expect(page.get_by_role("button", name="Log out")).to_have_count(0)
