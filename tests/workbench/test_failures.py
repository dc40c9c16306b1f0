"""Every failure of the library shows itself as its file says, with Ottla's client and with confluent-kafka."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest
from click.testing import CliRunner

from ottla.cli import fault_play
from ottla.testing.cast import Cast, prepare
from ottla.testing.ottla_cast import CAST as OTTLA
from ottla.testing.play import Line, Outcome, play
from ottla.workbench.failures import WORDS, BadFailure, Failure, load, names, text_of
from tests.house.sources import ROOT
from tests.workbench.confluent_cast import CAST as CONFLUENT

NAMES = names()
SMALL = """
title: A consumer reads
stands_for: []
story: It reads.
topics: {orders: 1}
consumers: {a: {}, b: {}}
steps:
  - produce: {orders: 2}
  - start: a
  - wait: {members: 1, read: {a: 2}}
expect:
  sees: {a: {read: 2}}
"""


@pytest.fixture(scope="module", autouse=True)
def processes() -> None:
    prepare(OTTLA, CONFLUENT)


def told(outcome: Outcome, lines: list[Line]) -> str:
    wrong = [one.text for one in outcome.findings if not one.is_so]
    return "\n".join([outcome.stuck, *wrong, "", *(f"{one.at_ms:>9} {one.who:>7} {one.text}" for one in lines)])


@pytest.mark.e2e
@pytest.mark.parametrize("cast", [OTTLA, CONFLUENT], ids=lambda cast: cast.name)
@pytest.mark.parametrize("name", NAMES)
def test_it_shows_itself(name: str, cast: Cast) -> None:
    lines: list[Line] = []
    outcome = play(load(name), cast, lines.append)
    assert outcome.is_right, told(outcome, lines)


@pytest.mark.parametrize("name", NAMES)
def test_it_says_what_it_stands_for_and_what_to_do(name: str) -> None:
    failure = load(name)
    assert all(one.url.startswith("https://") for one in failure.stands_for) and failure.stands_for
    assert "What to do: " in failure.story
    assert failure.expect.sees and not failure.title.endswith(".")


# what a file may say


@pytest.mark.e2e
def test_the_rest_of_the_words() -> None:
    """What no file of the library needs works all the same."""
    steps = SMALL.partition("expect:")[0]
    rest = """
  - commit: a
  - pause: billing
  - start: b
  - advance: {minutes: 2, hold: true}
  - wait: {state: Stable, members: 1}
  - resume: billing
  - wait: {members: 2, owns: {a: 1, b: 0}}
  - evict: b
  - wait: {members: 2}
  - begin_commit: a
  - wait: {done: [a], lag: 0}
  - restart: 0.1
  - pace: 2
  - wait: {members: 2}
  - pace: 0
expect:
  why: {removed-by-admin: b, coordinator-loaded: null}
"""
    outcome = play(Failure.read("rest", steps.rstrip() + rest), OTTLA)
    assert outcome.is_right, outcome
    words = {step.word for name in NAMES for step in load(name).steps}
    assert {*WORDS} - words == {"pause", "resume", "evict", "restart", "pace", "begin_commit"}


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("start: a", "stort: a", "x, step 2: there is no step 'stort'; did you mean start?"),
        ("start: a", "start: {}", "x, step 2, start: Expected `str | array`, got `object`"),
        ("start: a", "start: c", "x, step 2, start: role 'c' is none of a, b"),
        ("start: a", "begin: a", "x, step 2, begin: role 'a' is none of those that there are: there is none"),
        ("start: a", "release: f", "x, step 2, release: fault 'f' is none of those that there are: there is none"),
        ("start: a", "advance: {silent: [a]}", "x, step 2, advance: say by how much, such as seconds: 6"),
        ("start: a", "coordinator: gone", "x, step 2, coordinator: 'gone' is none of away, back"),
        ("start: a", "pause: others", "x, step 2, pause: group 'others' is none of billing"),
        ("start: a", "fault: {api: Fetch, drop: request}", "x, step 2, fault: a fault here needs a name"),
        (
            "start: a",
            "fault: {name: f, api: Fetch}",
            "x, step 2, fault: a fault does one thing: there is none; write one of error, delay, drop, close, hold, "
            "corrupt, throttle, elsewhere, restart",
        ),
        (
            "start: a",
            "fault: {name: f, api: SyncGroup, member: $c, drop: request}",
            "x, step 2, fault: role 'c' is none of a, b",
        ),
        ("members: 1", "member: 1", "x, step 3, wait: Object contains unknown field `member`"),
        (
            "members: 1",
            "state: Well",
            "x, step 3, wait: state 'Well' is none of Empty, PreparingRebalance, CompletingRebalance, Assigning, "
            "Reconciling, Stable, Dead",
        ),
        ("{read: 2}", "{red: 2}", "x: Object contains unknown field `red` - at `$.expect.sees[...]`"),
        ("story: It reads.", "", "x: Object missing required field `story`"),
    ],
)
def test_what_is_not_known_is_refused(old: str, new: str, message: str) -> None:
    assert old in SMALL
    with pytest.raises(BadFailure) as caught:
        Failure.read("x", SMALL.replace(old, new, 1))
    assert str(caught.value) == message


# verdicts


@pytest.mark.e2e
@pytest.mark.parametrize(
    ("expected", "wrong"),
    [
        ("sees: {a: {read: 3}}", "a sees 3 records, not 2"),
        ("sees: {a: {errors: [ILLEGAL_GENERATION]}}", "a sees ILLEGAL_GENERATION, not none"),
        ("why: {member-joined: a}", "`ottla why` tells of member-joined by a, not group-started"),
        ("why: {group-started: b}", "`ottla why` tells of group-started by b, and names a"),
        ("rebalances: 2", "the group rebalances twice, not 1"),
        ("offsets: {orders-0: 2}", "orders-0 is committed up to 2, not nothing"),
    ],
)
def test_a_verdict_says_what_is_wrong(monkeypatch: pytest.MonkeyPatch, expected: str, wrong: str) -> None:
    monkeypatch.setattr("ottla.testing.play.SETTLE_S", 0.0)
    outcome = play(Failure.read("x", SMALL.replace("sees: {a: {read: 2}}", expected)), OTTLA)
    assert not outcome.is_right
    assert [one.text for one in outcome.findings if not one.is_so] == [wrong]


@pytest.mark.e2e
def test_a_fault_that_never_fires_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ottla.testing.play.PATIENCE_S", 0.2)
    monkeypatch.setattr("ottla.testing.play.SETTLE_S", 0.0)
    text = SMALL.replace("start: a", "fault: {name: f, api: Heartbeat, drop: request}\n  - wait: {fault: f}")
    outcome = play(Failure.read("x", text), OTTLA)
    assert outcome.stuck.startswith("waited 0.2 s for the fault 'f' to fire 1 time; Group 'billing': Dead")
    assert "the fault 'f' fires" in [one.text for one in outcome.findings if not one.is_so]


@pytest.mark.e2e
def test_a_role_that_does_not_run_is_told() -> None:
    outcome = play(Failure.read("x", SMALL.replace("start: a", "commit: a")), OTTLA)
    assert outcome.stuck == "role a does not run: start it first"


# commands


def test_the_failures_are_listed() -> None:
    listed = CliRunner().invoke(fault_play.play)
    assert listed.exit_code == 0
    assert [line.split()[0] for line in listed.stdout.splitlines()[1:]] == NAMES


def test_a_file_is_shown() -> None:
    shown = CliRunner().invoke(fault_play.show, ["lost-sync-answer"])
    assert shown.stdout == text_of("lost-sync-answer")


@pytest.mark.e2e
def test_a_failure_is_played(tmp_path: Path) -> None:
    played = CliRunner().invoke(fault_play.play, ["commit-not-coordinator"])
    assert played.exit_code == 0, played.output
    for line in (
        "0.0 s  › a is to commit",
        "0.0 s  a has committed",
        "A fault answered NOT_COORDINATOR",
        "a: assigned once; read 3 records",
        "a started the group; generation 1 was Stable after 0 ms.",
        "✓ orders-0 is committed up to 3",
    ):
        assert line in played.stdout
    own = tmp_path / "own.yaml"
    own.write_text(SMALL.replace("{a: {read: 2}}", "{a: {read: 1}}"))
    wrong = CliRunner().invoke(fault_play.play, [str(own), "--cast", "tests.workbench.confluent_cast:CAST"])
    assert wrong.exit_code == 1
    assert "✗ a sees 1 record, not 2" in wrong.stdout
    assert "did not show itself as its file says" in wrong.stderr


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["lost-sync-answr"], "There is no failure 'lost-sync-answr'; did you mean lost-sync-answer?"),
        (["nowhere.yaml"], "No such file or directory: 'nowhere.yaml'"),
        (["zombie-commit", "--cast", "nowhere"], "--cast nowhere: No module named 'nowhere'; write MODULE:NAME"),
        (["zombie-commit", "--cast", "asyncio:run"], "--cast asyncio:run is no Cast of ottla.testing.cast"),
    ],
)
def test_what_cannot_be_played_is_refused(words: list[str], message: str) -> None:
    refused = CliRunner().invoke(fault_play.play, words)
    assert refused.exit_code != 0
    assert message in " ".join(refused.stderr.split())


def test_the_page_is_fresh() -> None:
    printed = runpy.run_path(str(ROOT / "docs" / "make_failures.py"))
    assert printed["render"]() == printed["PAGE"].read_text(encoding="utf-8"), "run `make docs`"
