"""Groups of the consumer protocol in the console: who holds up whom, what members subscribe to, and their words."""

from __future__ import annotations

import re

import pytest

from ottla.observe.why.model import MemberWait
from tests.observe.console.conftest import Open
from tests.observe.console.stage import Show, Stage
from tests.observe.console.test_console_pages import expect
from tests.observe.timeline.synthetic import member, part, rebalance, state

pytestmark = pytest.mark.slow


@pytest.fixture
def show() -> Show:
    """anna does not give up half of what it has, for which ben and cora wait; dora comes with its next heartbeat."""
    show = Show()
    members = [
        member("anna", 6, state="UNREVOKED_PARTITIONS", pending={"orders": list(range(6, 12))}, epoch=3),
        member("ben", 0, state="UNRELEASED_PARTITIONS", epoch=4),
        member("cora", 0, state="UNRELEASED_PARTITIONS", epoch=4, regex="ord.*"),
        member("dora", 0, state="STABLE", epoch=3, regex="odrers.*"),
    ]
    show.add_group(
        state(
            "g",
            members,
            state="Reconciling",
            protocol="consumer",
            barrier="target",
            barrier_age_ms=11_200,
            awaited=["anna-id", "dora-id"],
        )
    )
    members[-1].topics = []
    waits = [
        MemberWait("still-owns", "", 0, 682, member=0, blocked=[1]),
        MemberWait("interval", "", 700, 5_700),
    ]
    parts = [part(one, before=3, after=3) for one in ("anna", "ben")]
    show.add_episodes([rebalance(1, 0, 6_000, parts, group_id="g", protocol="consumer", waits=[], member_waits=waits)])
    return show


def test_the_page_tells_who_holds_the_group_up_and_who_waits_for_that(blank: Open, show: Show) -> None:
    with Stage(show) as stage:
        page = blank(f"{stage.url}/#/groups/g")
        told = "anna has not given up orders 6–11; dora has yet to come for the new target (ben, cora wait)."
        expect(page.locator(".now")).to_have_text(re.compile(rf"Not balanced for \d+ s: {re.escape(told)}"))
        expect(page.locator(".episodes summary").first).to_contain_text("epoch 0 → 1")


def test_members_show_their_regexes_and_what_their_times_are(blank: Open, show: Show) -> None:
    with Stage(show) as stage:
        page = blank(f"{stage.url}/#/groups/g/members")
        rows = {name: page.get_by_role("row").filter(has_text=f"{name}-id") for name in ("anna", "cora", "dora")}
        for text in ("has to give up orders 6–11", "give up 5 min", "subscribes to orders"):
            expect(rows["anna"]).to_contain_text(text)
        expect(rows["cora"]).to_contain_text("subscribes to the regex ord.*: orders")
        expect(rows["cora"]).to_contain_text("waits for others")
        expect(rows["dora"]).to_contain_text("subscribes to the regex odrers.*, which matches no topic")
        expect(rows["dora"]).to_contain_text("comes with its next heartbeat")


def test_waits_of_the_timeline_are_sentences(blank: Open, show: Show) -> None:
    with Stage(show) as stage:
        page = blank(f"{stage.url}/#/groups/g/timeline/1")
        waits = page.locator(".tl-detail .barriers li")
        expect(waits).to_have_text(
            [
                "anna had not given partitions up for 682 ms.",
                "The group had to wait for its assignment interval for 5 s.",
            ]
        )
