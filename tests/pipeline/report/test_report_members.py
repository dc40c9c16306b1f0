"""Swim lanes: whose bar is in which lane, from when to when."""

from datetime import timedelta
from pathlib import Path

from ottla.pipeline.report.load import scene
from ottla.pipeline.report.members import DENSE, MOST_LANES, Picture, picture, worth_showing
from ottla.pipeline.report.reading import Tables
from ottla.pipeline.report.scene import Finding, Group, Rebalance
from tests.pipeline.report.sample import START, Sample


def drawn(sample: Sample, lake: Path, name: str = "g") -> Picture:
    tables = Tables(str(sample.write(lake)))
    found = scene(tables, None, None)
    (group,) = [one for one in found.groups if one.name == name]
    made = picture(tables, group, found.span)
    assert made is not None
    return made


def minutes(made: Picture, client: str) -> list[list[tuple[float, float]]]:
    """The bars of a client's lanes, in minutes from the start of the sample."""
    return [
        [((bar.start - START) / timedelta(minutes=1), (bar.end - START) / timedelta(minutes=1)) for bar in lane.bars]
        for lane in made.lanes
        if lane.identity == f"g-{client}"
    ]


def test_one_client_after_the_other_is_one_lane(tmp_path: Path) -> None:
    sample = Sample(minutes=30)
    steps = [(0.0, ["a", "b/0"]), (10.0, ["a"]), (12.0, ["a", "b/1"]), (20.0, ["a", "b/1"])]
    sample.generations("g", [(at, names, None, None) for at, names in steps])
    made = drawn(sample, tmp_path)
    last = (made.end - START) / timedelta(minutes=1)
    assert minutes(made, "a") == [[(0.0, last)]]
    assert minutes(made, "b") == [[(0.0, 10.0), (12.0, last)]] and last >= 20.0


def test_members_of_one_client_at_a_time_have_lanes_of_their_own(tmp_path: Path) -> None:
    """All members of many applications have the same client id."""
    sample = Sample(minutes=30)
    sample.generations("g", [(0.0, ["c/1", "c/2", "c/3"], None, None), (5.0, ["c/1", "c/3", "c/4"], "c/4", None)])
    for row in sample.rows["group_members"]:
        row["client_host"] = "10.0.0.1"
    made = drawn(sample, tmp_path)
    assert len(made.lanes) == 3
    # The fourth takes the place of the second.
    assert sorted(len({bar.member for bar in lane.bars}) for lane in made.lanes) == [1, 1, 2]


def test_a_member_that_owns_nothing_is_told_apart(tmp_path: Path) -> None:
    sample = Sample(minutes=30)
    sample.generations("g", [(0.0, ["a"], None, None), (5.0, ["a", "b", "c"], "b", None)], partitions=2)
    made = drawn(sample, tmp_path)
    owned = {lane.identity: [bar.partitions for bar in lane.bars] for lane in made.lanes}
    assert owned == {"g-a": [2], "g-b": [1], "g-c": [0]}


def test_a_generation_without_members_ends_all_bars(tmp_path: Path) -> None:
    sample = Sample(minutes=30)
    sample.generations("g", [(0.0, ["a"], None, None), (5.0, [], "a", None), (9.0, ["a/1"], "a/1", None)])
    made = drawn(sample, tmp_path)
    (lane,) = minutes(made, "a")
    assert [bar[0] for bar in lane] == [0.0, 9.0] and lane[0][1] == 5.0


def test_static_members_are_called_by_their_instance(tmp_path: Path) -> None:
    sample = Sample(minutes=30)
    sample.generations("g", [(0.0, ["a", "b"], None, None), (5.0, ["a"], "b", None)], static=True)
    made = drawn(sample, tmp_path)
    assert [(lane.identity, lane.static) for lane in made.lanes] == [("g-b", True), ("g-a", True)]


def test_the_suspect_comes_first_and_many_lanes_are_folded(tmp_path: Path) -> None:
    sample = Sample(minutes=60)
    sample.storm("g", 10.0, 20)
    everyone = [f"x{at:02d}" for at in range(40)]
    sample.generations("g", [(5.0, everyone, None, None), (6.0, everyone, None, None)], first=1)
    made = drawn(sample, tmp_path)
    assert made.lanes[0].identity == "g-c3" and made.lanes[0].suspect
    assert len(made.lanes) == MOST_LANES and made.more > 0


def test_the_window_is_about_the_storm(tmp_path: Path) -> None:
    sample = Sample(minutes=600)
    sample.lag("g", "t", [1.0] * 600, partitions=1)
    sample.storm("g", 300.0, 30)
    made = drawn(sample, tmp_path)
    assert START + timedelta(minutes=297) < made.start < START + timedelta(minutes=300)
    assert START + timedelta(minutes=311) < made.end < START + timedelta(minutes=315)
    # Who was there before is drawn from the window's edge on.
    assert {lane.bars[0].start for lane in made.lanes if lane.identity != "g-c3"} == {made.start}


def test_groups_that_only_start_and_stop_have_no_picture() -> None:
    few = [Rebalance(at, at == 1, START + timedelta(minutes=at), None, None, None, 2, 0) for at in range(1, DENSE)]
    assert not worth_showing(Group("g", []))
    assert not worth_showing(Group("g", [], rebalances=few))
    more = [*few, few[-1], few[-1]]
    assert worth_showing(Group("g", [], rebalances=more))
    assert worth_showing(Group("g", [], rebalances=few[:1], findings=[found("zombie")]))
    assert not worth_showing(Group("g", [], rebalances=few[:1], findings=[found("slow")]))


def found(kind: str) -> Finding:
    return Finding("g", kind, START, None, None, None, None, None)


def test_a_static_member_keeps_its_lane_on_another_host(tmp_path: Path) -> None:
    sample = Sample(minutes=30)
    steps = [(float(at), ["a", f"b/{at}"], None, None) for at in range(4)]
    sample.generations("g", steps, static=True)
    for row in sample.rows["group_members"]:
        row["client_host"] = f"/10.0.0.{row['member_id'][-1]}"
    made = drawn(sample, tmp_path)
    (lane,) = [lane for lane in made.lanes if lane.identity == "g-b"]
    assert len(lane.bars) == 4 and lane.hosts == ["10.0.0.0", "10.0.0.1", "10.0.0.2", "10.0.0.3"]
