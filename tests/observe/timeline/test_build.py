"""Episodes, traffic and the present become lanes, marks and a flow."""

from __future__ import annotations

import msgspec
import pytest

from ottla.observe.timeline.build import build
from ottla.observe.timeline.model import FATES, Kind, Lane, Timeline
from ottla.observe.why.model import Episode, Fault, MemberPart, Trigger, Wait
from tests.observe.timeline.synthetic import T0, Crowd, member, part, rebalance, state
from tests.observe.why.story import Story


def told(timeline: Timeline, lane: Lane) -> list[str]:
    """The changes of a lane as words, with times after T0."""
    words = []
    for at, kind, count in zip(lane.changes[::3], lane.changes[1::3], lane.changes[2::3], strict=True):
        what = Kind(kind).name.lower()
        if kind == Kind.OWNING:
            what += f" {count}"
        elif kind == Kind.GONE:
            what += f" {FATES[count]}"
        words.append(f"{at + timeline.from_ms - T0} {what.strip()}")
    return words


def named(timeline: Timeline, client_id: str) -> list[Lane]:
    return [lane for lane in timeline.lanes if lane.client_id == client_id]


def story(*episodes: Episode, client: str = "a", **fields: object) -> list[str]:
    """What becomes of one member."""
    timeline = build("billing", episodes, **fields)  # type: ignore[arg-type]
    (lane,) = named(timeline, client)
    return told(timeline, lane)


def first(*names: str, at: int = 0, number: int = 1) -> Episode:
    return rebalance(number, at, 100, [part(one, fate="new", came_ms=20, synced_ms=60, after=2) for one in names])


def test_nothing_is_known() -> None:
    timeline = build("billing", [], now_ms=T0)
    assert (timeline.lanes, timeline.marks, timeline.flow) == ([], [], None)
    assert timeline.from_ms + timeline.until == T0


def test_a_new_member() -> None:
    assert story(first("a")) == ["20 joined", "50 syncing", "60 synced", "100 owning 2"]


def test_assignments_that_cannot_be_read_are_not_called_empty() -> None:
    """As of Kafka Connect's workers."""
    joins = rebalance(1, 0, 100, [part("a", fate="new", came_ms=20, synced_ms=60)])
    joins.partitions_known = False
    stays = rebalance(2, 1_000, 100, [part("a", came_ms=30, synced_ms=70)])
    stays.partitions_known = False
    told = story(joins, stays)
    assert (told[3], told[-1]) == ("100 owning -1", "1100 owning -1")
    assert story(stays)[0].endswith(" owning -1")
    present = state(members=[member("a", partitions=0, topics=None, assignment={})], protocol_type="connect")
    assert story(joins, state=present, now_ms=T0 + 10_000)[-1] == "100 owning -1"


def test_a_member_that_stays() -> None:
    stays = rebalance(2, 1_000, 100, [part("a", came_ms=30, synced_ms=70, before=2, after=1)])
    assert story(first("a"), stays)[4:] == [
        "1000 joining",
        "1030 joined",
        "1050 syncing",
        "1070 synced",
        "1100 owning 1",
    ]


def test_what_was_before_the_first_episode() -> None:
    """The beginning of the history is lost; the member says what it had."""
    stays = rebalance(9, 1_000, 100, [part("a", came_ms=30, synced_ms=70, before=4, after=1)])
    lines = story(stays)
    assert lines[0].endswith("owning 4")
    assert int(lines[0].split()[0]) < 1_000
    assert lines[1] == "1000 joining"


def test_a_member_whose_session_expires() -> None:
    """It is silent from when it was heard of, not from when that was noticed."""
    expires = rebalance(
        2,
        60_000,
        100,
        [
            part("a", fate="expired", heard_ms=T0 + 15_000, before=2),
            part("b", came_ms=10, synced_ms=60, before=2, after=4),
        ],
        triggers=[Trigger("session_expired", 0)],
    )
    assert story(first("a", "b"), expires)[-2:] == ["15000 silent", "60000 gone expired"]
    assert story(first("a", "b"), expires, client="b")[-1] == "60100 owning 4"


def test_silence_that_covers_a_rebalance() -> None:
    """Nothing was heard of it since before another rebalance began: what that one assumed is not so."""
    second = rebalance(2, 10_000, 100, [part("a", came_ms=-1, before=2, after=2)], outcome="superseded")
    third = rebalance(3, 10_100, 50, [part("a", fate="dropped", heard_ms=T0 + 9_000, before=2)])
    assert story(first("a"), second, third)[3:] == ["100 owning 2", "9000 silent", "10125 gone dropped"]


@pytest.mark.parametrize(
    ("goes", "triggers", "told"),
    [
        (part("a", fate="dropped", heard_ms=T0 + 1_050), [], ["1000 joining", "1050 silent", "1100 gone dropped"]),
        (part("a", fate="unsynced", came_ms=10, heard_ms=T0 + 1_010), [],
         ["1000 joining", "1010 silent", "1200 gone unsynced"]),
        (part("a", fate="left"), [Trigger("member_left", 0)], ["1000 gone left"]),
        (part("a", fate="left", came_ms=20), [Trigger("member_left", 0, 70)],
         ["1000 joining", "1020 joined", "1070 gone left"]),
    ],
    ids=["misses the join barrier", "misses the sync barrier", "leaves", "leaves while others join"],
)  # fmt: skip
def test_a_member_that_goes(goes: MemberPart, triggers: list[Trigger], told: list[str]) -> None:
    goes.before = 2
    assert story(first("a"), rebalance(2, 1_000, 200, [goes], triggers=triggers))[4:] == told


def test_the_same_client_has_its_lane_again() -> None:
    """A member that flaps has an id of its own each time."""
    leaves = rebalance(2, 1_000, 100, [part("a", fate="left", before=2)], triggers=[Trigger("member_left", 0)])
    returns = rebalance(3, 2_000, 100, [part("a", fate="new", member_id="a-2", came_ms=0, synced_ms=60, after=2)])
    timeline = build("billing", [first("a"), leaves, returns])
    (lane,) = timeline.lanes
    assert [(one.at + timeline.from_ms - T0, one.member_id) for one in lane.tenants] == [(20, "a-id"), (2_000, "a-2")]
    assert told(timeline, lane)[-5:] == [
        "1000 gone left",
        "2000 joined",
        "2050 syncing",
        "2060 synced",
        "2100 owning 2",
    ]


@pytest.mark.parametrize("pattern", ["rolling-restart", "flapping-member"])
def test_a_pattern_is_not_when_it_left(pattern: str) -> None:
    """The pattern is seen at the end of the barrier; the member was gone when it left."""
    restarts = rebalance(
        2,
        1_000,
        200,
        [
            part("a", fate="left", before=2),
            part("a", member_id="a-2", fate="returned", came_ms=60, synced_ms=150, after=2),
        ],
        cause=pattern,
        triggers=[Trigger("left-closed", 0), Trigger("member-returned", 1, 60), Trigger(pattern, 0, 100)],
    )
    timeline = build("billing", [first("a"), restarts])
    (lane,) = timeline.lanes
    assert told(timeline, lane)[4:] == ["1000 gone left", "1060 joined", "1100 syncing", "1150 synced", "1200 owning 2"]


def test_one_that_comes_and_goes_within_a_rebalance() -> None:
    """Nobody waited for it before it came, and an id that nobody came back with is no member."""
    parts = [
        part("a", member_id="a-2", fate="left", came_ms=30),
        part("a", fate="left", before=2),
        part("a", member_id="a-3", fate="new", came_ms=60, synced_ms=150, after=2),
        part("a", member_id="a-4", fate="vanished"),
    ]
    triggers = [Trigger("left-closed", 1), Trigger("member-returned", 0, 30), Trigger("left-closed", 0, 40)]
    timeline = build("billing", [first("a"), rebalance(2, 1_000, 200, parts, triggers=triggers)])
    (lane,) = timeline.lanes
    assert [one.member_id for one in lane.tenants] == ["a-id", "a-2", "a-3"]
    assert told(timeline, lane)[4:8] == ["1000 gone left", "1030 joined", "1040 gone left", "1060 joined"]


def test_two_members_of_one_client_have_two_lanes() -> None:
    parts = [part("a", member_id=f"a-{n}", fate="new", came_ms=20, synced_ms=60, after=1) for n in range(2)]
    assert len(build("billing", [rebalance(1, 0, 100, parts)]).lanes) == 2


def test_one_goes_and_its_successor_comes_in_one_rebalance() -> None:
    """Whatever order they are told in, there is one lane, if one was gone before the other came."""
    gone = part("a", fate="left", before=2)
    comes = part("a", member_id="a-2", fate="new", came_ms=30, synced_ms=60, after=2)
    both = rebalance(2, 1_000, 100, [comes, gone], triggers=[Trigger("member_left", 1)])
    assert len(build("billing", [first("a"), both]).lanes) == 1
    # Here the successor came before the other was given up.
    gone.fate = "dropped"
    assert len(build("billing", [first("a"), both]).lanes) == 2


def test_a_static_member_keeps_its_lane() -> None:
    known = rebalance(1, 0, 100, [part("a", group_instance_id="i-1", fate="new", came_ms=20, synced_ms=60, after=2)])
    returns = rebalance(
        2,
        1_000,
        0,
        [part("z", client_host="10.9.9.9", group_instance_id="i-1", fate="returned", before=2, after=2)],
        kind="replacement",
        outcome="replaced",
        waits=[],
    )
    timeline = build("billing", [known, returns])
    (lane,) = timeline.lanes
    assert [one.member_id for one in lane.tenants] == ["a-id", "z-id"]
    assert told(timeline, lane)[-1] == "100 owning 2", "nothing stood still"
    assert [mark.kind for mark in timeline.marks] == ["rebalance", "replacement"]


def test_the_last_of_the_consumer_protocol_goes_with_the_downgrade_that_it_causes() -> None:
    happens = Story()
    happens.modern_join("a")
    happens.join("w1")
    happens.live8(12_000, "a")
    happens.go("a")
    episodes = happens.episodes()
    timeline = build("billing", episodes, now_ms=episodes[-1].started_ms + 5_000)
    (gone,), (stays,) = named(timeline, "a"), named(timeline, "w1")
    assert told(timeline, gone)[-1].endswith("gone left")
    assert gone.changes[-3] + timeline.from_ms == episodes[0].started_ms + 12_000
    assert Kind.GONE not in stays.changes[1::3]


def test_a_member_that_gives_nothing_up_is_seen_after_those_who_waited_are_gone() -> None:
    happens = Story()
    happens.modern_join("p")
    happens.live8(10_000, "p")
    happens.modern_join("q")
    happens.live8(5_000, "q")
    happens.hb("p")
    happens.live8(10_000, "q")
    happens.go("q")
    happens.live8(20_000)
    *_, joined, left = happens.episodes()
    timeline = build("billing", [joined, left], now_ms=left.started_ms + 20_000)
    (lane,) = named(timeline, "p")
    assert lane.changes[-2] == Kind.JOINING
    assert lane.held_ms == 15_000, "while q waited: for 5 s for its heartbeat, then for what it had to give up"


def test_the_refused_have_no_lane() -> None:
    refusal = rebalance(
        2, 500, 0, [part("late", fate="refused")], kind="refusal", outcome="refused", culprit=0, waits=[], times=7,
        last_ms=T0 + 9_500,
    )  # fmt: skip
    timeline = build("billing", [first("a"), refusal])
    assert [lane.client_id for lane in timeline.lanes] == ["a"]
    mark = timeline.marks[1]
    assert (mark.culprit, mark.times, mark.generation) == (-1, 7, -1)
    assert (mark.start, mark.last) == (T0 + 500 - timeline.from_ms, T0 + 9_500 - timeline.from_ms)


def test_a_group_that_was_loaded() -> None:
    loaded = rebalance(1, 0, 0, [part("a", after=3)], kind="loaded", outcome="loaded", waits=[])
    assert story(loaded) == ["0 owning 3"]


def test_a_rebalance_that_runs() -> None:
    """One has come, the other is waited for; there is no end yet."""
    runs = rebalance(
        2,
        1_000,
        -1,
        [part("a", came_ms=30, before=2), part("b", before=2)],
        outcome="running",
        waits=[Wait("join", 0, -1, 60_000, last=[1])],
    )
    timeline = build("billing", [first("a", "b"), runs], now_ms=T0 + 5_000)
    assert told(timeline, named(timeline, "a")[0])[4:] == ["1000 joining", "1030 joined"]
    assert told(timeline, named(timeline, "b")[0])[4:] == ["1000 joining"]
    assert (timeline.marks[1].end, timeline.marks[1].barriers[0].closed) == (-1, -1)
    assert timeline.is_live
    assert named(timeline, "b")[0].held_ms == 4_000


def test_who_held_barriers_open() -> None:
    slow = rebalance(
        2,
        1_000,
        900,
        [part("a", came_ms=10, before=2, after=2), part("b", came_ms=800, before=2, after=2, blamed_ms=1_580)],
        waits=[Wait("join", 0, 800, 60_000, last=[1]), Wait("sync", 800, 900, 60_000, last=[0])],
    )
    timeline = build("billing", [first("a", "b"), slow])
    assert {lane.client_id: (lane.held, lane.held_ms) for lane in timeline.lanes} == {"a": (1, 100), "b": (1, 800)}
    assert {lane.client_id: lane.blamed_ms for lane in timeline.lanes} == {"a": 0, "b": 1_580}
    barrier = timeline.marks[1].barriers[0]
    assert [timeline.lanes[one].client_id for one in barrier.last] == ["b"]
    assert (barrier.opened + timeline.from_ms, barrier.closed + timeline.from_ms) == (T0 + 1_000, T0 + 1_800)


def test_what_the_group_is_now() -> None:
    now = state(members=[member("a", 2, 400, is_leader=True), member("b", 1, 30_000), member("c", 3, 10)])
    timeline = build("billing", [first("a", "b", "gone")], state=now, now_ms=T0 + 60_000)
    assert (timeline.state, timeline.generation) == ("Stable", 3)
    assert told(timeline, named(timeline, "a")[0])[-1] == "100 owning 2"
    assert named(timeline, "a")[0].is_leader
    assert told(timeline, named(timeline, "b")[0])[-1] == "30000 silent", "for two thirds of its session"
    assert told(timeline, named(timeline, "c")[0]) == ["1000 owning 3"], "unknown to the history"
    assert told(timeline, named(timeline, "gone")[0])[-1] == "60000 gone"


def test_lanes_are_bounded() -> None:
    timeline = build("billing", [first(*(f"m{n}" for n in range(20)))], max_lanes=5)
    assert (len(timeline.lanes), timeline.hidden) == (5, 15)


@pytest.mark.parametrize("seed", range(5))
def test_lanes_of_a_crowd(seed: int) -> None:
    """Times never go back, members that are present own something at the end, and it survives JSON."""
    crowd = Crowd(30, 60, seed)
    episodes = crowd.episodes()
    timeline = build("billing", episodes, traffic=crowd.traffic(crowd.now), state=crowd.state(), now_ms=crowd.now)
    assert len(timeline.lanes) == 30, "whoever comes back has its lane again"
    assert len(timeline.marks) == 60
    for lane in timeline.lanes:
        times = lane.changes[::3]
        assert times == sorted(times)
        assert 0 <= times[0] <= times[-1] <= timeline.until
        assert [one.at for one in lane.tenants] == sorted(one.at for one in lane.tenants)
        assert lane.is_present == (lane.changes[-2] in (Kind.OWNING, Kind.SILENT))
    assert msgspec.json.decode(msgspec.json.encode(timeline), type=Timeline) == timeline


def test_who_is_to_blame_and_who_began_it_are_those_of_the_episode() -> None:
    """Their lanes, whatever else they did."""
    parts = [part("a", came_ms=5, before=1), part("b", fate="new", came_ms=0), part("c", came_ms=2_000, before=3)]
    told = [
        rebalance(1, 0, 2_100, parts, culprit=2, triggers=[Trigger("member-joined", 1)], stopped=4, longest_ms=1_900),
        rebalance(2, 9_000, 10, parts, triggers=[Trigger("unknown")]),
        rebalance(3, 19_000, 10, parts),
    ]
    timeline = build("billing", told)
    lanes = [lane.client_id for lane in timeline.lanes]
    first, *others = timeline.marks
    assert (lanes[first.culprit], lanes[first.trigger], first.stopped, first.longest_ms) == ("c", "b", 4, 1_900)
    assert [(mark.culprit, mark.trigger) for mark in others] == [(-1, -1), (-1, -1)]


def test_one_that_all_waited_for_and_that_left_is_seen_waited_for() -> None:
    """It is of the first episode that is shown, so it begins there as one that owned."""
    busy = part("busy", fate="left", before=4)
    others = [part("new", came_ms=0, fate="new", after=4), part("a", came_ms=600, before=5, after=5)]
    triggers = [Trigger("member-joined", 1), Trigger("left-poll-timeout", 0, 57_000)]
    waits = [Wait("join", 0, 57_000, 60_000, [0])]
    left = rebalance(9, 0, 57_400, [busy, *others], triggers=triggers, waits=waits)
    assert story(left, client="busy")[1:] == ["0 joining", "57000 gone left"]


def fault(client: str, at: int, name: str = "deaf", member_id: str = "", **fields: int) -> Fault:
    return Fault(
        name, "Heartbeat", "dropped the request", member_id or f"{client}-id", client, T0 + at, T0 + at, **fields
    )


def test_faults_are_on_the_lanes_of_their_members() -> None:
    episodes = [first("a", "b"), rebalance(2, 1_000, 100, [part("a"), part("b")], faults=[fault("b", 900)])]
    once_more = fault("b", 900, times=3)
    once_more.last_ms = T0 + 5_000
    of_none, too_old = fault("c", 950), fault("a", -90_000)
    unnamed = fault("a", 20, "no id", member_id="?")
    timeline = build("billing", episodes, now_ms=T0 + 9_000, faults=[once_more, of_none, too_old, unnamed])
    found = {
        lane.client_id: [(one.at + timeline.from_ms - T0, one.last + timeline.from_ms - T0, one.times, one.words)
                         for one in lane.faults]
        for lane in timeline.lanes
    }  # fmt: skip
    words = "a fault dropped the Heartbeat (fault {})".format
    assert found == {"a": [(20, 20, 1, words('"no id"'))], "b": [(900, 5_000, 3, words('"deaf"'))]}


def test_of_two_members_with_one_name_a_fault_must_name_one() -> None:
    parts = [part("a", member_id="a-1", fate="new", came_ms=20), part("a", member_id="a-2", fate="new", came_ms=20)]
    timeline = build("billing", [rebalance(1, 0, 100, parts)], faults=[fault("a", 50, member_id="a-2"), fault("a", 60)])
    assert [len(lane.faults) for lane in timeline.lanes] == [0, 1]
