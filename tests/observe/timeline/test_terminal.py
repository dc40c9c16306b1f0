"""Lanes of characters: what a terminal and a pipe get."""

from __future__ import annotations

import pytest

from ottla.observe.timeline.build import build
from ottla.observe.timeline.model import Timeline
from ottla.observe.timeline.scale import Scale
from ottla.observe.timeline.terminal import Drawing, names, shorten
from ottla.observe.timeline.traffic import Traffic
from ottla.observe.why.model import Episode, Fault, Trigger, Wait
from ottla.observe.why.plain import member_names
from tests.observe.timeline.synthetic import T0, Crowd, part, rebalance
from tests.observe.timeline.test_traffic import commit


def clock(wall_ms: int) -> str:
    """Seconds after T0."""
    return f"+{(wall_ms - T0) // 1000}s"


def drawn(timeline: Timeline, width: int = 100, *, is_ascii: bool = True, most: int = 40) -> list[str]:
    lines = Drawing(timeline, width, is_ascii=is_ascii, most=most, clock=clock).lines()
    return ["".join(text for text, _ in line).rstrip() for line in lines]


def story() -> list[Episode]:
    """Two start; b is slow, then expires; c holds the next barrier up."""
    start = [part(one, fate="new", came_ms=100, synced_ms=1_100, after=2) for one in "ab"]
    slow = [
        part("a", came_ms=10, synced_ms=3_100, before=2, after=2),
        part("b", came_ms=3_000, synced_ms=3_100, before=2, after=2),
    ]
    gone = [
        part("a", came_ms=500, synced_ms=1_600, before=2, after=4),
        part("b", fate="expired", heard_ms=T0 + 30_000, before=2),
    ]
    return [
        rebalance(1, 0, 2_000, start, headline="a started the group"),
        rebalance(
            2, 20_000, 4_000, slow, headline="b was slow", culprit=1, triggers=[Trigger("leader-rejoined", 0)],
            waits=[Wait("join", 0, 3_000, 60_000, [1]), Wait("sync", 3_000, 4_000, 60_000, [0])],
        ),
        rebalance(3, 75_000, 2_000, gone, headline="b expired", culprit=1, triggers=[Trigger("session-expired", 1)]),
    ]  # fmt: skip


def test_lanes_in_a_pipe() -> None:
    traffic = Traffic(1 << 20)
    commit(traffic, 10_000, "billing")
    traffic.lag("billing", 7, T0 + 10_000)
    lines = drawn(build("billing", story(), traffic=traffic))
    labels = [line[:10].strip() for line in lines]
    assert labels[:7] == ["time", "generation", "barrier", "a", "b", "commits", "lag"]
    rows = {line[:10].strip(): line[12:] for line in lines[:7]}
    assert "+0s" in rows["time"]
    assert rows["generation"].split() == ["1", "2", "3"]
    assert set(rows["barrier"]) == {" ", "-", "="}
    # A lane from left to right, each run of one sign as one.
    assert _runs(rows["a"]) == " jSs#>jSs#JjSs"
    # It joined, waited, synced, owned; was to blame for a rebalance that the other began; fell silent and was removed.
    assert _runs(rows["b"]) == " jSs#Js!#?x!"
    assert all(line.isascii() for line in lines)
    assert "9 = 1 commit in 5 s" in "\n".join(lines)
    assert [line.split("  ")[-1].strip() for line in lines[-3:]] == ["a started the group", "b was slow", "b expired"]


def test_a_group_of_both_protocols_has_generations_and_epochs() -> None:
    classic = [part("a", fate="new", came_ms=100, synced_ms=200, after=2)]
    both = [part("a", came_ms=10, synced_ms=20, before=2, after=1), part("b", fate="new", came_ms=10, after=1)]
    conversion = rebalance(2, 20_000, 0, classic, kind="conversion", generation_after=1, waits=[], outcome="converted")
    consumer = rebalance(3, 20_000, 5_000, both, generation_before=1, generation_after=2, protocol="consumer", waits=[])
    lines = drawn(build("billing", [rebalance(1, 0, 2_000, classic), conversion, consumer]))
    (numbers,) = [line for line in lines if line.startswith("gen/epoch")]
    assert numbers.split()[1:] == ["1", "2"]


def test_a_commit_is_drawn_once() -> None:
    """A bucket of 5 s is many columns wide where a few seconds are the whole picture."""
    traffic = Traffic(1 << 20)
    commit(traffic, 1_000, "billing")
    start = [part("a", fate="new", came_ms=100, synced_ms=200, after=2)]
    lines = drawn(build("billing", [rebalance(1, 0, 300, start)], traffic=traffic, now_ms=T0 + 2_000))
    row = next(line for line in lines if line.startswith("commits"))
    assert len(row[12:].split()) == 1
    assert len(row[12:].strip()) == 1


def _runs(row: str) -> str:
    """Each run of one sign as one."""
    return "".join(sign for at, sign in enumerate(row) if at == 0 or row[at - 1] != sign)


def test_a_terminal_has_other_signs_for_the_same() -> None:
    timeline = build("billing", story())
    plain, pretty = drawn(timeline), drawn(timeline, is_ascii=False)
    pairs = dict(zip("#JjSs?!>x_ ", "█▓░▚·╳◆▸✗▁ ", strict=True))
    for row in (3, 4):
        assert "".join(pairs[sign] for sign in plain[row][12:]) == pretty[row][12:]


@pytest.mark.parametrize("width", [40, 80, 133, 250])
def test_rows_fit(width: int) -> None:
    """Names are shortened, and no lane is wider than the line."""
    crowd = Crowd(60, 30)
    timeline = build("billing", crowd.episodes(), state=crowd.state(), now_ms=crowd.now)
    lines = drawn(timeline, width, most=10)
    lanes = [line for line in lines if line.startswith("worker-")]
    assert len(lanes) == 10
    assert all(len(line) <= width for line in lanes)
    assert any("and 50 more; --members 60" in line for line in lines)
    assert any("The last 20 of 30" in line for line in lines)


def test_the_slowest_members_come_first() -> None:
    """If not all are shown, those that held barriers up are."""
    parts = [part(f"m{one}", fate="new", came_ms=one * 10, synced_ms=60, after=1) for one in range(5)]
    episode = rebalance(1, 0, 100, parts, waits=[Wait("join", 0, 40, 60_000, [4]), Wait("sync", 40, 60, 60_000, [3])])
    lines = drawn(build("billing", [episode]), most=2)
    assert [line.split()[0] for line in lines[3:5]] == ["m4", "m3"]


def test_nothing_happened() -> None:
    lines = drawn(build("billing", [], now_ms=T0))
    assert len(lines) >= 3
    assert Scale(build("billing", [], now_ms=T0)).total > 0


def test_a_folded_scale() -> None:
    """It grows with time, there and back; quiet time takes little of it."""
    timeline = build("billing", story())
    scale = Scale(timeline)
    places = [scale.width(time) for time in range(0, timeline.until, 50)]
    assert places == sorted(places)
    assert all(scale.time(scale.width(time)) == pytest.approx(time) for time in range(0, timeline.until, 501))
    quiet = scale.width(timeline.marks[2].start) - scale.width(timeline.marks[1].end)
    assert quiet < scale.total / 4, "51 of 77 seconds"


def test_names() -> None:
    """Members of one name are told apart as the story does it; what others wrote is made harmless."""
    parts = [part("w", member_id=f"w-{one}", fate="new", came_ms=1, after=1) for one in ("aaaa", "bbbb")]
    parts.append(part("x\x1b[31m", fate="new", came_ms=1, after=1))
    timeline = build("billing", [rebalance(1, 0, 100, parts)])
    assert list(names(timeline).values()) == ["w-aaaa", "w-bbbb", "x\\x1b[31m"]
    twins = [part("w", member_id=f"w-{one}-7f11", fate="new", came_ms=1) for one in ("c29b0e06", "0a1b2c3d")]
    episode = rebalance(1, 0, 100, twins)
    assert list(names(build("billing", [episode])).values()) == member_names(episode) == ["w-c29b0e06", "w-0a1b2c3d"]
    assert shorten("consumer-of-orders-17", 12) == "consu..rs-17"
    assert len(shorten("consumer-of-orders-17", 12)) == 12


def test_a_culprit_that_is_gone_at_once_is_marked_beside_its_end() -> None:
    parts = [part("a", came_ms=5, synced_ms=9, before=1, after=2), part("b", fate="left", before=1)]
    told = [rebalance(1, 0, 10, parts, culprit=1, triggers=[Trigger("left-closed", 1)])]
    rows = drawn(build("billing", told, now_ms=T0 + 60_000), 20)
    assert [_runs(row[12:]) for row in rows if row.startswith("b ")] == ["#-!"]


def test_a_refusal_is_drawn_from_its_first_to_its_last_time() -> None:
    fields = {"kind": "refusal", "outcome": "refused", "waits": [], "times": 300, "last_ms": T0 + 600_000}
    lines = drawn(build("billing", [rebalance(1, 0, 0, [part("late", fate="refused")], **fields)]))
    (row,) = [line for line in lines if line.startswith("barrier")]
    assert row.count("r") - "barrier".count("r") > 50
    assert "r refused" in "".join(lines)


def test_faults_have_a_sign_and_a_line_each() -> None:
    episodes = story()
    deaf = Fault("deaf", "Heartbeat", "dropped the request", "b-id", "b", T0 + 31_000, T0 + 60_000, 12)
    lines = drawn(build("billing", episodes, faults=[deaf]))
    row = next(line for line in lines if line.startswith("b "))
    assert row.count("f") == 2, "the first time and the last"
    assert lines[-1].split("  ")[-1] == 'b: a fault dropped the Heartbeat (fault "deaf"), 12 times until +60s'
    assert lines[-1].split()[0] == "+31s"
    assert any(line.endswith("f fault") for line in lines)
    assert not any(line.endswith("f fault") for line in drawn(build("billing", episodes)))
