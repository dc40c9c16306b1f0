"""What is on the pages of the console, and that it is kept up to date."""

from __future__ import annotations

import re
from typing import Any

import pytest

from ottla.observe.why.model import Advice
from tests.observe.console.conftest import DESKTOP, NARROW, Open
from tests.observe.console.stage import Show, Stage, now_ms, sample
from tests.observe.timeline.synthetic import member, part, rebalance, state

PATIENCE_MS = 20_000
OF_GROUPS = ("billing", "billing/timeline", "billing/members", "billing/offsets", "payments-eu-stuck")
PAGES = ["/", "/#/topics", "/#/topics/orders", "/#/alarms", *(f"/#/groups/{name}" for name in OF_GROUPS)]


def expect(what: Any) -> Any:
    """Waits until a part of a page is as it should be."""
    from playwright.sync_api import expect as wait_for

    wait_for.set_options(timeout=PATIENCE_MS)
    return wait_for(what)


@pytest.mark.parametrize("size", [DESKTOP, NARROW], ids=["desktop", "narrow"])
def test_every_page_fits(visit: Open, size: tuple[int, int]) -> None:
    """Nothing reaches beyond the page, nothing is complained about, and there is a heading."""
    scheme = "dark" if size == NARROW else "light"
    page = visit("/", size=size, color_scheme=scheme)
    for path in PAGES:
        page.goto(page.url.partition("#")[0] + path.lstrip("/"))
        expect(page.locator("main h1")).to_have_count(1)
        expect(page.locator("#live")).to_have_attribute("data-state", "live")
        assert page.evaluate("document.scrollingElement.scrollWidth") <= size[0], path


def test_a_group_that_is_not_there(visit: Open) -> None:
    page = visit("/#/groups/nobody", noted=404)
    expect(page.locator("main")).to_contain_text("There is no such group now")
    expect(page.locator("main")).to_contain_text("Nothing is remembered of this group")


def test_overview(visit: Open) -> None:
    page = visit()
    expect(page.locator(".facts")).to_contain_text("127.0.0.1:9092")
    expect(page.locator(".alarms li")).to_have_count(2)
    expect(page.locator("#alarm-count")).to_have_text("2")
    row = page.get_by_role("row").filter(has=page.get_by_role("link", name="billing"))
    expect(row).to_contain_text(re.compile(r"billingStable\d+"))
    expect(row.locator('[data-column="latest"]')).to_contain_text("ago")
    stuck = page.get_by_role("row").filter(has_text="payments-eu-stuck")
    page.get_by_role("searchbox", name="Only groups whose name contains").fill("STUCK")
    expect(page.get_by_role("row")).to_have_count(2)
    expect(stuck).to_contain_text("Preparing rebalance")
    expect(stuck).to_contain_text("pay-2 keeps 2 others waiting")


def test_groups_by_state_and_in_order(visit: Open) -> None:
    page = visit()
    page.locator(".filters").get_by_role("button", name="Empty").click()
    rows = page.locator(".tbody .tr")
    expect(rows.first).to_contain_text("Empty")
    assert all("Empty" in text for text in rows.all_inner_texts())
    page.locator(".filters").get_by_role("button", name="Empty").click()
    page.get_by_role("button", name="Members").click()
    expect(page.locator('.tbody .tr[aria-rowindex="2"]')).to_contain_text("billing")
    expect(page.get_by_role("columnheader", name="Members")).to_have_attribute("aria-sort", "descending")


def test_why(visit: Open) -> None:
    """The latest is open, with its story and its advice; parts of it open on demand."""
    page = visit("/#/groups/billing")
    first = page.locator(".episodes > li").first
    expect(first.locator(".story p")).to_have_count(3)
    expect(first.locator(".advice")).to_contain_text("max.poll.interval.ms")
    expect(first.locator(".barriers")).to_contain_text("Join barrier was open for")
    first.get_by_text("200 members").click()
    expect(first.locator("tbody tr")).to_have_count(25)
    first.get_by_role("button", name="Show 175 more").click()
    expect(first.locator("tbody tr")).to_have_count(200)
    second = page.locator(".episodes > li").nth(1)
    expect(second.locator(".story")).to_have_count(0)
    second.locator("summary").first.click()
    expect(second.locator(".story p")).to_have_count(3)
    page.get_by_role("button", name="Show earlier ones").click()
    expect(page.locator(".episodes > li")).to_have_count(300)


def test_what_somebody_opened_stays_open(blank: Open) -> None:
    """Everything is asked for again when the stream begins anew, which may be just after the page was opened."""
    show = sample(6, 12, 4)
    with Stage(show) as stage:
        page = blank(f"{stage.url}/#/groups/billing/why/8")
        opened = page.locator(".episodes details.episode[open]")
        eighth = opened.locator('a[href$="/timeline/8"]')
        expect(eighth).to_be_visible()
        stage.close()
        expect(page.locator("#live")).to_have_text("Disconnected")
        show.add_episodes([rebalance(13, 0, 900, [part("n", fate="new")], group_id="billing", headline="n joined")])
        stage.open()
        expect(page.locator(".episodes > li")).to_have_count(13)
        expect(eighth).to_be_visible()
        expect(opened).to_have_count(2)  # it, and the latest


def test_a_group_that_waits(visit: Open) -> None:
    page = visit("/#/groups/payments-eu-stuck")
    expect(page.locator(".now")).to_contain_text("The join barrier is open for")
    expect(page.locator(".now")).to_contain_text("waits for pay-2")
    expect(page.locator(".now")).to_contain_text("payments-3 asked to be let in, and the connection is lost")
    page.get_by_role("tab", name="Members").click()
    expect(page.get_by_role("row").filter(has_text="pay-1-id")).to_contain_text("waits for others")
    stands_out = page.locator('.tbody .tr[data-mark="grave"]')
    expect(stands_out.filter(has_text="pay-2-id")).to_contain_text("the group waits for it")
    expect(stands_out).to_have_count(2)
    expect(page.get_by_role("row").filter(has_text="pay-3-id")).to_contain_text("connection lost")
    meter = page.get_by_role("row").filter(has_text="pay-2-id").get_by_role("meter")
    expect(meter).to_have_attribute("aria-valuemax", "10000")
    page.get_by_role("tab", name="Offsets").click()
    expect(page.get_by_role("row").filter(has_text="payments 0")).to_contain_text("9,114")


def test_topics(visit: Open) -> None:
    page = visit("/#/topics")
    expect(page.locator(".tbody .tr")).to_have_count(2)
    page.get_by_label("internal ones").check()
    expect(page.locator(".tbody .tr")).to_have_count(3)
    page.get_by_role("link", name="payments", exact=True).click()
    expect(page.locator("h1")).to_have_text("payments")
    expect(page.locator(".tbody .tr")).to_have_count(6)
    expect(page.locator(".chips")).to_contain_text("payments-eu-stuck")


def test_alarms(visit: Open) -> None:
    page = visit("/#/alarms")
    expect(page.locator(".alarm.now")).to_have_count(2)
    expect(page.locator(".alarm.past")).to_contain_text("10 rebalances in 5 min")
    page.get_by_role("link", name="payments-eu-stuck").first.click()
    expect(page.locator("h1")).to_have_text("payments-eu-stuck")


def test_names_of_any_kind(blank: Open) -> None:
    """Names may hold what means something in an address or in HTML."""
    name = "a/b ?#%41 <img src=x onerror=alert(1)> ü"
    show = Show()
    show.add_group(state(name, [member("m", 1)]))
    show.history.kept.append(rebalance(1, 0, 5, [part("m", fate="new")], group_id=name, headline="<b>bold</b>"))
    with Stage(show) as stage:
        page = blank(stage.url)
        page.get_by_role("link", name=name).click()
        expect(page.locator("h1")).to_have_text(name)
        expect(page.locator(".episodes .headline").first).to_have_text("<b>bold</b>")
        page.get_by_role("tab", name="Timeline").click()
        expect(page.locator("[data-drawn-ms]")).to_be_visible()
        page.reload()
        expect(page.locator("h1")).to_have_text(name)
        assert page.locator("img").count() == 0


def test_what_changes_is_shown(blank: Open) -> None:
    """States, new and removed groups, and what ends, by the stream alone."""
    show = sample(6, 12, 4)
    with Stage(show) as stage:
        page = blank(stage.url, noted=404)  # a group goes while it is looked at
        rows = page.locator(".tbody .tr")
        expect(rows).to_have_count(6)
        fresh = state("newcomer", [member("n", 1)], state="CompletingRebalance")
        stage.do(lambda: show.add_group(fresh))
        expect(rows).to_have_count(7)
        expect(page.get_by_role("row").filter(has_text="newcomer")).to_contain_text("Completing rebalance")
        fresh.state = "Stable"
        expect(page.get_by_role("row").filter(has_text="newcomer")).to_contain_text("Stable")

        page.get_by_role("link", name="newcomer").click()
        expect(page.locator(".empty").first).to_contain_text("Nothing has happened")
        episode = rebalance(1, 0, 900, [part("n", fate="new", after=1)], group_id="newcomer", headline="n started it")
        episode.started_ms = now_ms()
        episode.advice = [Advice("Nothing to do.")]
        stage.do(lambda: show.history.end(episode))
        expect(page.locator(".episodes > li")).to_have_count(1)
        expect(page.locator(".episodes .advice")).to_contain_text("Nothing to do.")

        stage.do(lambda: show.groups.pop("newcomer"))
        expect(page.locator(".now")).to_contain_text("no such group now")
        page.get_by_role("link", name="Groups").click()
        expect(rows).to_have_count(6)


def test_a_broker_that_goes_and_comes_back(blank: Open) -> None:
    """It is said that what is shown is old; once the broker is back everything is asked for again."""
    show = sample(6, 12, 4)
    with Stage(show) as stage:
        page = blank(stage.url)
        expect(page.locator("#live")).to_have_text("Live")
        stage.close()
        expect(page.locator("#live")).to_have_text("Disconnected")
        expect(page.get_by_role("alert")).to_contain_text("what is shown is from then")
        expect(page.locator(".tbody .tr")).to_have_count(6)
        show.add_group(state("meanwhile", [member("n", 1)]))
        stage.open()
        expect(page.locator("#live")).to_have_text("Live")
        expect(page.get_by_role("alert")).to_be_hidden()
        expect(page.get_by_role("row").filter(has_text="meanwhile")).to_be_visible()


def test_a_thousand_groups(blank: Open, record_property: Any) -> None:
    """Only the rows that can be seen are in the page, and they are there soon."""
    show = Show()
    for index in range(1_000):
        show.add_group(state(f"group-{index:04}", [member(f"m{index}-{one}", 3) for one in range(10)]))
    with Stage(show) as stage:
        page = blank(stage.url)
        rows = page.locator(".tbody .tr")
        expect(rows.first).to_contain_text("group-0000")
        shown_ms = page.evaluate("performance.now()")
        record_property("first_rows_ms", round(shown_ms))
        print(f"the first of 1,000 groups were there after {shown_ms:.0f} ms")
        assert shown_ms < 8_000
        assert rows.count() < 80
        assert page.get_by_role("grid").get_attribute("aria-rowcount") == "1001"
        page.keyboard.press("Tab")
        rows.first.focus()
        page.keyboard.press("End")
        expect(page.get_by_role("row").filter(has_text="group-0999")).to_be_focused()
        assert rows.count() < 80


def test_what_the_stream_tells_while_groups_are_asked_for_is_newer(visit: Open) -> None:
    page = visit()
    states = page.evaluate(
        """async () => {
            const { Store } = await import("/store.js");
            const store = new Store();
            const answer = Promise.withResolvers();
            window.fetch = () => answer.promise;
            const loaded = store.load().catch(() => {});
            store.take("groups", { changed: [{ group_id: "a", state: "Stable" }], removed: ["b"] });
            const groups = ["a", "b", "c"].map((group_id) => ({ group_id, state: "PreparingRebalance" }));
            answer.resolve({ ok: true, json: async () => ({ groups, next: null, active: [], recent: [] }) });
            await loaded;
            return [...store.groups.values()].map((brief) => `${brief.group_id} ${brief.state}`);
        }"""
    )
    assert states == ["a Stable", "c PreparingRebalance"]


def test_a_group_that_is_gone_leaves_nothing_behind(visit: Open) -> None:
    """Neither what became of it, nor an answer or an episode that comes after."""
    left = visit().evaluate(
        """async () => {
            const { Store } = await import("/store.js");
            const store = new Store();
            const told = (group_id) => ({ group_id, number: 1, headline: "It rebalanced." });
            let answer;
            window.fetch = (path) => new Promise((resolve) => (answer = resolve));
            store.take("groups", { changed: ["a", "b", "c"].map((group_id) => ({ group_id })), removed: [] });
            store.take("episode", told("a"));
            store.take("episode", told("c"));
            store.latestOf("b");
            const asked = new Promise((resolve) => store.listen((what, id) => id === "b" && resolve()));
            store.take("groups", { changed: [], removed: ["a", "b"] });
            store.take("episode", told("a"));
            answer({ ok: true, json: async () => ({ episodes: [told("b")] }) });
            await asked;
            return [...store.latest.keys()];
        }"""
    )
    assert left == ["c"]


def test_an_alarm_leaves_an_error_where_it_is(visit: Open) -> None:
    said = visit().evaluate(
        """async () => {
            const { groupView } = await import("/group.js");
            const { Store } = await import("/store.js");
            window.fetch = async () => ({ ok: false, status: 503, json: async () => ({ detail: "Too many wait." }) });
            const store = new Store();
            const now = groupView(store, { name: "g", tab: "members" }).element.querySelector(".now");
            while (!now.textContent) await new Promise(requestAnimationFrame);
            store.tell("alarms");
            return now.textContent;
        }"""
    )
    assert said == "Too many wait."


def test_members_with_one_name_are_told_apart(blank: Open) -> None:
    """As with librdkafka, whose client.id is rdkafka unless somebody sets it."""
    ids = ["rdkafka-0123456789", "rdkafka-abcdefghij"]
    show = Show()
    here = [member("rdkafka", 1, member_id=one) for one in ids]
    show.add_group(state("g", here, state="PreparingRebalance", barrier="join", awaited=ids[1:]))
    then = rebalance(1, 0, 5, [part("rdkafka", member_id=one) for one in ids], group_id="g", headline="Told.")
    then.waits[0].last = [1]
    show.history.kept.append(then)
    with Stage(show) as stage:
        page = blank(f"{stage.url}/#/groups/g")
        expect(page.locator(".now")).to_contain_text("waits for rdkafka-abcdefgh.")
        expect(page.locator(".barriers")).to_contain_text("last came rdkafka-abcdefgh")


def test_time_that_passes_is_not_read_aloud(visit: Open) -> None:
    """What stands in a live region is left alone but for a part that is none."""
    page = visit("/#/groups/payments-eu-stuck")
    age = page.locator(".now [aria-live=off]")
    expect(age).to_contain_text(" s")
    before = age.text_content()
    page.evaluate("document.querySelector('.now p').dataset.kept = '1'")
    expect(age).not_to_have_text(before)
    expect(page.locator(".now p[data-kept]")).to_have_count(1)
