"""Plays scenarios one after another and prints a line of JSON for each. Runs in the client's environment."""

from __future__ import annotations

import json
import os
import re
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from tests.support.cast import Cast
from tests.support.kit import WholeKit, kit_of
from tests.support.waiting import wait_for

PATIENCE_S = 45.0
SESSION_MS = 2500
AT_ONCE = 3
_telling = threading.Lock()
_RUN = f"{time.time_ns() // 1_000_000:x}"


class Skipped(Exception):
    """The client has no such feature; the text says which."""


class Stage:
    """The stage of one scenario.

    Attributes:
        kit: the client.
        admin: the client that administers, if that one cannot.
        session_ms: how long those are missed who stop without leaving.
        topic, group: names that nobody else has.
        closing: is closed when the scenario ends, whatever its end.
    """

    def __init__(self, kit: Any, name: str, *, admin: WholeKit | None = None, session_ms: int = SESSION_MS) -> None:
        self.kit = kit
        self.admin: WholeKit = admin or kit
        self.session_ms = session_ms
        self.topic = self.group = f"{name.replace('_', '-')}-{_RUN}"
        self.closing = ExitStack()

    @property
    def nodes(self) -> dict[int, str]:
        """The address of each node by its id."""
        return dict(enumerate(self.kit.bootstrap.split(","), 1))

    def generation(self) -> int | None:
        """The generation of the group, where it can be seen; no client shows it."""
        return None

    def need(self, feature: str) -> None:
        """Skip the scenario if the client lacks a feature."""
        if reason := self.kit.lacks.get(feature):
            raise Skipped(reason)

    def cast(self) -> Cast:
        """Members of the group."""
        return self.closing.enter_context(Cast(self.kit.bootstrap, self.group))

    def restart_broker(self) -> None:
        """Have whoever runs the broker kill it and start it anew."""
        if not (asked := os.environ.get("RESTARTS")):
            raise Skipped("the broker cannot be restarted from here")
        name = f"{os.getpid()}-{self.topic}"
        done = Path(asked) / f"done-{name}"
        (Path(asked) / f"wanted-{name}").touch()
        wait_for(done.exists, "the broker's restart")
        assert not done.read_text("utf-8"), done.read_text("utf-8")


Scenario = Callable[[Stage], None]


def named(*scenarios: Scenario) -> list[tuple[str, Scenario]]:
    """Scenarios under the names of their functions."""
    return [(scenario.__name__, scenario) for scenario in scenarios]


def play(
    kind: str,
    scenarios: Iterable[tuple[str, Scenario]],
    *,
    alone: Iterable[tuple[str, Scenario]] = (),
    stage: Callable[[WholeKit, str], Stage] = Stage,
) -> None:
    """Play them, a few at the same time, and then those that need the broker for themselves.

    ``argv[1]`` is the broker; ``argv[2]`` is a regular expression that chooses some by name.
    """
    kit = kit_of(kind, sys.argv[1])
    chosen = re.compile(sys.argv[2] if len(sys.argv) > 2 else "")

    def one(named: tuple[str, Scenario]) -> None:
        name, scenario = named
        if chosen.search(name):
            _tell(name, *_play(stage(kit, name), name, scenario))

    with ThreadPoolExecutor(AT_ONCE) as pool:
        list(pool.map(one, scenarios))
    for named in alone:
        one(named)
    # Threads of a client that failed must not keep the program.
    os._exit(0)


def _play(stage: Stage, name: str, scenario: Scenario) -> tuple[str, str, float]:
    ended: list[tuple[str, str]] = []

    def play() -> None:
        try:
            with stage.closing:
                scenario(stage)
            ended.append(("passed", ""))
        except Skipped as reason:
            ended.append(("skipped", str(reason)))
        except BaseException:
            ended.append(("failed", traceback.format_exc()[-6000:]))

    began = time.monotonic()
    thread = threading.Thread(target=play, name=name, daemon=True)
    thread.start()
    thread.join(PATIENCE_S * 2)
    seconds = time.monotonic() - began
    if ended:
        return *ended[0], seconds
    frame = sys._current_frames().get(thread.ident or 0)
    return "failed", f"still running after {seconds:.0f} s\n{''.join(traceback.format_stack(frame))}", seconds


def _tell(name: str, outcome: str, reason: str, seconds: float) -> None:
    line = json.dumps({"test": name, "outcome": outcome, "reason": reason, "seconds": seconds})
    with _telling:
        print(line, flush=True)
