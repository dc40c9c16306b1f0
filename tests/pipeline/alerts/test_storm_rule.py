"""Storms, by the rule alone: time is what the turns say."""

import msgspec
import pytest

from ottla.pipeline.alerts.storms import MEMBERS_KEPT, NAMES_KEPT, Storm, StormLimits, Turn, _count, feed, quiet

LIMITS = StormLimits()
START = 1_760_000_000_000


def turn(at_s: float, generation: int, members: str | None = None, **known: object) -> Turn:
    """A generation at a second; members by letters, each a client of its own."""
    named = None if members is None else {f"{one}-id": (f"client-{one}", f"/10.0.0.{ord(one)}") for one in members}
    return Turn("g", round(START + at_s * 1000), generation, named, **known)  # type: ignore[arg-type]


def run(*turns: Turn, limits: StormLimits = LIMITS) -> tuple[Storm, list[tuple[str, int]]]:
    storm, said = Storm(), []
    for one in turns:
        said += [(alert.state, alert.generations or 0) for alert in feed(storm, one, limits)]
    return storm, said


@pytest.mark.parametrize(
    ("turns", "raised"),
    [
        pytest.param([turn(59 * n, n) for n in range(1, 5)], False, id="four"),
        pytest.param([turn(59 * n, n) for n in range(1, 6)], True, id="five"),
        pytest.param([turn(60 * n, n) for n in range(1, 6)], True, id="a minute apart"),
        pytest.param([turn(60.001 * n, n) for n in range(1, 20)], False, id="a millisecond more"),
        # A group that was deleted unseen is counted from its first generation.
        pytest.param([turn(0, 800), *(turn(100 + n, n) for n in range(1, 6))], True, id="deleted unseen"),
        # Apache Kafka writes generation 0 when the first member asks for its id.
        pytest.param([turn(0, 0), *(turn(n, n) for n in range(1, 5))], False, id="a new group"),
        pytest.param([turn(-20 * n, n) for n in range(1, 6)], True, id="a clock that goes back"),
    ],
)
def test_five_generations_within_a_minute_of_each_other_are_a_storm(turns: list[Turn], raised: bool) -> None:
    assert run(*turns)[1] == ([("raised", 5)] if raised else [])


def test_a_storm_is_raised_once_however_long_it_lasts() -> None:
    storm, said = run(*(turn(10 * n, n) for n in range(1, 40)))
    assert said == [("raised", 5)]
    assert [(one.state, one.generations) for one in quiet(storm, "g", LIMITS)] == [("resolved", 39)]
    assert quiet(storm, "g", LIMITS) == []


def test_a_pause_in_the_log_ends_a_storm_without_a_clock_and_the_next_has_another_id() -> None:
    turns = [*(turn(n, n) for n in range(1, 6)), *(turn(1000 + n, n) for n in range(6, 11))]
    storm, ids = Storm(), []
    for one in turns:
        ids += [(alert.state, alert.id) for alert in feed(storm, one, LIMITS)]
    assert [state for state, _ in ids] == ["raised", "resolved", "raised"]
    assert ids[0][1] == ids[1][1] != ids[2][1]


def test_the_same_log_gives_the_same_alerts_to_the_letter() -> None:
    turns = [turn(3 * n, n, "ab" if n % 2 else "abc") for n in range(1, 8)]
    once, twice = Storm(), Storm()
    assert [feed(once, one, LIMITS) for one in turns] == [feed(twice, one, LIMITS) for one in turns]


def test_a_generation_written_twice_counts_once() -> None:
    """A static member that comes back has the record of its generation written again."""
    assert run(*(turn(n, 3, "ab") for n in range(30)))[1] == []
    storm, said = run(*(turn(n, 3) for n in range(5)), turn(500, 3), turn(501, 4))
    assert said == []
    assert storm.count == 1, "the late copy does not begin a run"


def test_the_flapping_client_is_named_by_who_comes_and_goes() -> None:
    storm = Storm()
    alerts = [one for n in range(1, 9) for one in feed(storm, turn(5 * n, n, "ab" if n % 2 else "abc"), LIMITS)]
    assert (alerts[0].suspect, alerts[0].suspect_host, alerts[0].pattern) == ("client-c", "/10.0.0.99", "storm")
    assert (alerts[0].cause, alerts[0].paused_ms, alerts[0].members) == (None, None, 3)
    assert "client-c" in alerts[0].text


def test_a_rolling_restart_blames_nobody() -> None:
    storm, groups = Storm(), ["abcdefg", "bcdefg", "acdefg", "abdefg", "abcefg", "abcdfg"]
    ids = {one: f"{one}{n}-id" for n, one in enumerate("abcdefg")}
    said = []
    for n, letters in enumerate(groups, 1):
        members = {ids[one]: (f"client-{one}", "/h") for one in letters}
        said += feed(storm, Turn("g", START + n * 5000, n, members), LIMITS)
    assert [(one.pattern, one.suspect) for one in said] == [("rolling_restart", None)]


def test_events_bring_causes_and_durations_and_do_not_count_a_generation_again() -> None:
    storm, said = Storm(), []
    for n in range(1, 6):
        said += feed(storm, turn(5 * n, n, "ab"), LIMITS)
        told = {"client": ("client-z", "/10.0.0.9"), "cause": "poll_timeout", "duration_ms": 1500}
        said += feed(storm, turn(5 * n + 0.002, n, **told), LIMITS)
    assert storm.count == 5
    last = quiet(storm, "g", LIMITS)[0]
    assert (last.suspect, last.cause, last.paused_ms) == ("client-z", "poll_timeout", 7500)
    assert "poll_timeout" in last.text and "8 s" in last.text


@pytest.mark.parametrize("ahead", [True, False])
def test_either_source_may_be_ahead_of_the_other(ahead: bool) -> None:
    records = [turn(5 * n, n, "ab") for n in range(1, 7)]
    events = [turn(5 * n, n, client=("z", "/h"), cause="left", duration_ms=10) for n in range(1, 7)]
    storm, said = run(*(events + records if ahead else records + events))
    assert said == [("raised", 5)]
    assert (storm.count, storm.told, storm.paused_ms) == (6, 6, 60)


def test_a_late_event_of_the_run_before_is_not_counted_to_this_one() -> None:
    storm, _ = run(turn(0, 1), turn(500, 2), turn(0.1, 1, cause="left", duration_ms=9))
    assert (storm.told, storm.paused_ms) == (0, 0)


def test_a_deleted_group_resolves_its_storm_and_begins_anew() -> None:
    storm, said = run(*(turn(n, n) for n in range(1, 6)), Turn("g", START + 6000, deleted=True), turn(7, 1))
    assert said == [("raised", 5), ("resolved", 5)]
    assert (storm.count, storm.generation) == (1, 1)


def test_thresholds_are_options() -> None:
    limits = StormLimits(generations=2, gap_ms=1000)
    assert run(turn(0, 1), turn(1, 2), limits=limits)[1] == [("raised", 2)]
    assert run(turn(0, 1), turn(1.5, 2), limits=limits)[1] == []


def test_state_is_bounded_whatever_comes() -> None:
    storm = Storm()
    for n in range(1, 1500):
        members = {f"m{n}-{k}": (f"c{n}-{k}", "/h") for k in range(1200 if n % 500 == 0 else 2)}
        feed(storm, Turn("g", START + n * 1000, n, members, cause=f"cause {n}"), LIMITS)
    assert max(len(storm.changes), len(storm.causes)) <= NAMES_KEPT
    assert len(storm.members or ()) <= MEMBERS_KEPT
    assert msgspec.json.decode(msgspec.json.encode(storm), type=Storm) == storm


def test_a_client_of_more_than_its_share_survives_however_many_there_are() -> None:
    counts: dict[str, int] = {}
    for n in range(2000):
        _count(counts, "flapper" if n % 10 == 0 else f"other {n}")
    assert max(counts, key=lambda name: counts[name]) == "flapper"
