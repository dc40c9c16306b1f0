"""The demo finds out when `ottla why` does not tell the truth."""

from __future__ import annotations

import asyncio
import contextlib
import re
import signal
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from examples.incidents import __main__ as demo
from examples.incidents import incidents
from examples.incidents import told as told_module
from examples.incidents.incidents import INCIDENTS
from examples.incidents.model import Incident, Told, Truth, Verdict
from examples.incidents.show import show
from examples.incidents.told import judge, typed
from ottla.observe.why.causes import Cause

CRASH = next(one for one in INCIDENTS if one.group == "payments")
TRUTH = Truth("payments-2", ("session-expired-connection-lost",), since_ms=1_000, words=("6.0 s",))
EPISODE: dict[str, Any] = {
    "number": 2,
    "kind": "rebalance",
    "group_id": "payments",
    "started_ms": 1_500,
    "cause": "session-expired-connection-lost",
    "culprit": 1,
    "triggers": [{"cause": "session-expired-connection-lost", "member": 1}],
    "members": [{"member_id": f"payments-{at}-x", "client_id": f"payments-{at}", "client_host": "/h"} for at in (1, 2)],
    "headline": "payments-2 crashed.",
    "sentences": ["Its session of 6.0 s ran out."],
    "advice": [{"text": "Lower session.timeout.ms."}],
}
TOLD = Told.of(EPISODE)
OVER = EPISODE | {"outcome": "stable", "members": [one | {"fate": "expired"} for one in EPISODE["members"]]}


def wrong(*told: Told) -> tuple[str, ...]:
    (finding,) = judge(CRASH, [TRUTH], list(told)).findings
    return finding.wrong


def test_the_truth() -> None:
    assert wrong(TOLD) == ()
    assert judge(CRASH, [TRUTH], [TOLD]).right


def test_what_came_before_does_not_count() -> None:
    assert wrong(replace(TOLD, started_ms=999)) == ("nothing is told",)
    assert wrong(replace(TOLD, started_ms=999, cause="unknown"), TOLD) == ()


def test_the_first_episode_must_tell_it() -> None:
    assert wrong(TOLD, replace(TOLD, started_ms=1_400, culprit="payments-1")) == (
        "it blames payments-1, not payments-2",
    )


@pytest.mark.parametrize(
    ("told", "complaint"),
    [
        (replace(TOLD, culprit=None), "it blames nobody, not payments-2"),
        (replace(TOLD, trigger="payments-1"), "it says that payments-1 triggered it, not payments-2"),
        (replace(TOLD, cause="unknown"), "it says unknown, not session-expired-connection-lost"),
        (replace(TOLD, kind="refusal"), "the first thing told is a refusal, not a rebalance"),
        (replace(TOLD, sentences=()), "it does not mention 6.0 s"),
    ],
)
def test_what_is_not_the_truth(told: Told, complaint: str) -> None:
    assert wrong(told) == (complaint,)
    assert not judge(CRASH, [TRUTH], [told]).right


def test_an_incident_of_which_nothing_is_known_is_not_right() -> None:
    assert not judge(CRASH, [], [TOLD]).right


BLAMES_ANOTHER = EPISODE | {"culprit": 0}


@pytest.mark.parametrize(
    ("looks", "told"),
    [
        ([[BLAMES_ANOTHER], [EPISODE]], (TOLD,)),
        ([[BLAMES_ANOTHER], [OVER]], (Told.of(BLAMES_ANOTHER),)),
        ([[EPISODE | {"triggers": []}], [OVER]], ()),
    ],
    ids=["it comes to be told", "it is never told so", "it was over"],
)
def test_a_question_while_it_lasts(looks: list[list[dict[str, Any]]], told: tuple[Told, ...]) -> None:
    """It is asked until it is told as it is, or is over. The last answer counts."""

    class Stage:
        async def recorded(self, group: str, since_ms: int, what: str, found: Callable[[Any], bool]) -> Any:
            return next(one for look in looks for one in look if found(one))

    waits = incidents.asked_while_waiting(Stage(), "payments", 0, "payments-2", trigger="payments-2")
    assert asyncio.run(waits) == told


def test_nobody_is_named_by_default() -> None:
    episode = {key: value for key, value in EPISODE.items() if key not in ("cause", "culprit", "triggers")}
    assert Told.of(episode).culprit is None
    assert Told.of(episode).cause == "unknown"


def test_what_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    show([judge(CRASH, [TRUTH], [TOLD]), judge(CRASH, [TRUTH], [])])
    text = capsys.readouterr().out
    assert "$ ottla why payments" in text
    assert "payments-2 crashed." in text and "What to do: Lower session.timeout.ms." in text
    assert "✓ the culprit is payments-2, and what it did is session-expired-connection-lost" in text
    assert "✗ payments-2, session-expired-connection-lost: nothing is told" in text


@pytest.mark.parametrize("by_default", [True, False])
def test_a_command_is_shown_with_what_it_printed(
    by_default: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async def why(bootstrap: str, group: str, *options: str) -> bytes:
        assert (bootstrap, group) == ("b:1", "payments")
        return b"the incident:\n  payments-2 crashed." if by_default or options else b"what came of it"

    monkeypatch.setattr(told_module, "_why", why)
    verdict = asyncio.run(typed("b:1", judge(CRASH, [TRUTH], [replace(TOLD, generation=7)])))
    show([verdict])
    text = capsys.readouterr().out
    assert f"$ ottla why payments{'' if by_default else ' --generation 7'}\n        the incident:\n" in text
    assert text.count("payments-2 crashed.") == 1


def test_groups_that_are_not_there_are_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["incidents", "--only", "orders,odrers"])
    with pytest.raises(SystemExit):
        demo.arguments()
    assert "no such group" in capsys.readouterr().err


@pytest.mark.parametrize(("told", "code"), [([TOLD], 0), ([], 1)])
def test_the_exit_code(
    told: list[Told], code: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async def run(*_: object) -> list[Verdict]:
        return [judge(CRASH, [TRUTH], [TOLD]), judge(CRASH, [TRUTH], told)]

    monkeypatch.setattr("sys.argv", ["incidents", "--directory", str(tmp_path / "run")])
    monkeypatch.setattr(demo, "run", run)
    assert demo.main() == code
    last = capsys.readouterr().out.splitlines()[-1]
    assert "2 of 2" in last if code == 0 else last.startswith("FAILED: 1 of 2") and last.endswith(": payments.")


def test_a_machine_that_was_too_slow_is_blamed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async def run(*_: object) -> list[Verdict]:
        return [judge(CRASH, [replace(TRUTH, meanwhile=()), TRUTH], [TOLD])]

    monkeypatch.setattr("sys.argv", ["incidents", "--directory", str(tmp_path / "run")])
    monkeypatch.setattr(demo, "run", run)
    assert demo.main() == 1
    assert "Try: make demo-why DEMO='--only payments'\nFAILED: 1 of 1" in capsys.readouterr().out


@pytest.mark.parametrize("mode", ["--keep", "--quiz"])
def test_ctrl_c_ends_what_is_kept_and_the_verdict_counts(
    mode: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    class Stage:
        bootstrap = console = recording = "x"
        view = None

        @contextlib.asynccontextmanager
        async def opened(self, _: object) -> AsyncIterator[None]:
            yield
            await asyncio.sleep(0)

        async def watch(self) -> None:
            signal.raise_signal(signal.SIGINT)
            await asyncio.Event().wait()

    async def play(*_: object) -> list[list[Truth]]:
        return [[TRUTH]]

    async def ask(*_: object) -> list[Told]:
        return [TOLD]

    async def typed(_: str, verdict: Verdict) -> Verdict:
        return verdict

    monkeypatch.setattr("sys.argv", ["incidents", "--only", "payments", mode, "--directory", str(tmp_path / "run")])
    monkeypatch.setattr(demo, "Stage", lambda *_: Stage())
    monkeypatch.setattr(demo, "_play", play)
    monkeypatch.setattr(demo, "ask", ask)
    monkeypatch.setattr(demo, "typed", typed)
    assert demo.main() == 0
    text = capsys.readouterr().out
    assert text.count("the culprit is payments-2") == 1
    assert "1 of 1" in text.splitlines()[-1]


def test_each_incident_has_a_group_of_its_own() -> None:
    assert len({incident.group for incident in INCIDENTS}) == len(INCIDENTS) >= 8
    assert all(isinstance(incident, Incident) and incident.story for incident in INCIDENTS)


def test_the_demo_blames_known_causes() -> None:
    source = Path(incidents.__file__).read_text(encoding="utf-8")
    named = set(re.findall(r'"([a-z]+(?:-[a-z]+)+)"', source)) & set(Cause)
    assert len(named) >= 10


def test_two_runs_do_not_share_a_directory(tmp_path: Path) -> None:
    """The second would remove the logs and reports of the first, which then waits for what is gone."""
    first = demo.hold(tmp_path / "incidents")
    assert first is not None
    assert demo.hold(tmp_path / "incidents") is None
    first.close()
    assert demo.hold(tmp_path / "incidents") is not None
