"""Scenarios as text: steps at the left margin, and beneath each what came of it, indented.

```
setup initial_delay=0
join c1
    c1 < JoinGroup MEMBER_ID_REQUIRED member=c1-1
```

A step behind ``~`` prepares the ground: its outcome is not recorded. A `Steps` runs one scenario and yields the
recorded lines; the test compares them with those in the file, or writes them there when asked to
(``--record-scenarios``). The steps here are those that every coordinator knows.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, ClassVar

from ottla.protocol.errors import ErrorCode
from tests.core.rendering import quoted
from tests.core.scenario_text import INDENT, Scenario, Variant, duration
from tests.core.world import CoordinatorWorld, Ctx

MOST_RECORDS = 10


class Steps:
    """See the module."""

    SETTINGS: ClassVar[Mapping[str, str]]
    """Name in ``setup`` → setting."""

    def __init__(self) -> None:
        self.world: Any = None
        self.settings: dict[str, Any] = {}
        self.flags: list[str] = []

    def run(self, scenario: Scenario, variant: Variant | None = None) -> list[str]:
        """The scenario's lines with the outcome of each step as it is now."""
        out: list[str] = []
        for line in scenario.lines:
            if line.startswith(INDENT):
                continue
            out.append(line)
            step = re.sub(r"\$(\w+)", lambda found: (variant or {})[found[1]], line)
            if step.startswith("~ "):
                self.step(step[2:])
            elif not step.startswith(("#", "each ")):
                out.extend(INDENT + outcome for outcome in self.step(step))
        return out

    def step(self, line: str) -> list[str]:
        verb, *arguments = shlex.split(line)
        words = [word for word in arguments if "=" not in word]
        options = dict(word.split("=", 1) for word in arguments if "=" in word)
        if verb == "setup":
            assert self.world is None, "setup comes first"
            self.settings = {self.SETTINGS.get(name, name): self.setting(value) for name, value in options.items()}
            self.flags = words
            return []
        if self.world is None:
            self.world = self.new_world()
            if "unloaded" not in self.flags:
                self.world.load()
            self.forget(self.world)
        world = self.world
        before_ms = world.now_ms
        shown = list(getattr(self, "do_" + verb.replace("-", "_"))(world, words, options) or ())
        world.settle()
        shown = [*self.outcomes(world), *shown]
        world.check_log()
        assert verb == "advance" or world.now_ms == before_ms
        return shown

    def setting(self, value: str) -> Any:
        return duration(value) if re.match(r"-?\d", value) else value

    def new_world(self) -> CoordinatorWorld:
        """As ``settings`` say."""
        raise NotImplementedError

    def outcomes(self, world: Any) -> Iterator[str]:
        """The events, records and answers since the last step."""
        yield from self.events(world)
        for append in world.appends:
            for record in append.records[:MOST_RECORDS]:
                yield f"+ {self.render_record(record)}"
            if len(append.records) > MOST_RECORDS:
                yield f"+ … {len(append.records)} records in all"
        yield from self.asked_for(world)
        for ctx in world.answered:
            self.learn(ctx)
            yield f"{quoted(ctx.client)} < {self.render_answer(ctx.answer)}"
        self.forget(world)

    def events(self, world: Any) -> Iterable[str]:
        raise NotImplementedError

    def asked_for(self, world: Any) -> Iterable[str]:
        """Lines for what the coordinator asked for besides records."""
        return ()

    def render_record(self, record: Any) -> str:
        raise NotImplementedError

    def render_answer(self, answer: Any) -> str:
        raise NotImplementedError

    def learn(self, ctx: Ctx) -> None:
        """Clients remember what they are told."""

    def forget(self, world: Any) -> None:
        """Drop what was shown."""
        for seen in (world.events, world.appends, world.answered):
            seen.clear()

    def do_advance(self, world: CoordinatorWorld, words: list[str], options: dict[str, str]) -> list[str]:
        """``advance DURATION``: lines are marked with the time at which they came about."""
        end_ms = world.now_ms + duration(words[0])
        shown: list[str] = []
        while (at_ms := world.coordinator.next_deadline_ms()) is not None and at_ms <= end_ms:
            world.advance_to(max(at_ms, world.now_ms))
            shown.extend(f"@{world.now_ms} {line}" for line in self.outcomes(world))
        world.now_ms = end_ms
        return shown

    def do_deadline(self, world: CoordinatorWorld, words: list[str], options: dict[str, str]) -> list[str]:
        """``deadline``: when the coordinator wants to be called."""
        return [f"at {world.coordinator.next_deadline_ms()} ms"]

    def do_hold(self, world: CoordinatorWorld, words: list[str], options: dict[str, str]) -> None:
        """``hold``: appends wait for ``appended`` or ``release``."""
        world.hold = True

    def do_appended(self, world: CoordinatorWorld, words: list[str], options: dict[str, str]) -> None:
        """``appended``: the oldest append that is held succeeds."""
        world.complete()

    def do_append(self, world: CoordinatorWorld, words: list[str], options: dict[str, str]) -> None:
        """``append fails ERROR``: the oldest append that is held fails, or else the next one will."""
        error = ErrorCode[words[1]]
        if world.held:
            world.complete(error)
        else:
            world.failing = error

    def do_release(self, world: CoordinatorWorld, words: list[str], options: dict[str, str]) -> None:
        """``release``: what is held succeeds, and nothing is held any more."""
        world.hold = False
        while world.held:
            world.complete()

    def do_restart(self, world: CoordinatorWorld, words: list[str], options: dict[str, str]) -> None:
        """``restart``: a new coordinator replays the log."""
        world.restart()

    def do_begin_load(self, world: CoordinatorWorld, words: list[str], options: dict[str, str]) -> None:
        """``begin-load``: every partition starts loading."""
        world.begin_load()

    def do_finish_load(self, world: CoordinatorWorld, words: list[str], options: dict[str, str]) -> None:
        """``finish-load``: the log is replayed and the partitions are served."""
        world.finish_load()

    def do_fail_load(self, world: CoordinatorWorld, words: list[str], options: dict[str, str]) -> None:
        """``fail-load``: every partition fails to load."""
        for partition in range(world.partition_count):
            world.coordinator.load_failed(partition, world.now_ms)

    def do_unload(self, world: CoordinatorWorld, words: list[str], options: dict[str, str]) -> None:
        """``unload``: every partition is given up; appends that are held are heard of no more."""
        for partition in range(world.partition_count):
            world.coordinator.unload(partition, world.now_ms, world.wall_ms)
