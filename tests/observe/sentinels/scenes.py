"""Scenes of a group as text: steps at the left margin, and beneath them, indented, which alarms are raised and cleared.

```
form a=orders:0+1+2 b=orders:2+3
wait 2s
    + two_believers orders: Partitions of orders are assigned to more than one member: …
```

``commit a 0:5 2:7`` commits offsets by partition; what is refused is told. ``beat a b`` is of members of the consumer
protocol: they join, or heartbeat and give nothing up before ``release a``. `--record-stories` writes the texts anew.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from ottla.observe.sentinels.model import Alarm
from ottla.protocol.errors import ErrorCode
from tests.core.scenario_text import INDENT, Scenario, duration
from tests.observe.sentinels.stage import Assigned, Stage

SCENES = Path(__file__).with_name("alarms.scene")


class Scene:
    """Plays one scene."""

    def __init__(self) -> None:
        self.topics: dict[str, list[str]] = {}
        self.assigned: Assigned = {}
        self.told: list[str] = []
        self.times: dict[str, int] = {}
        self.set_up({"orders": 4})

    def set_up(self, topics: Mapping[str, int]) -> None:
        self.stage = Stage(topics)
        self.stage.sentinels.board.on_alarm.append(self.tell)

    def tell(self, alarm: Alarm) -> None:
        """An alarm is raised, or over."""
        over = f"- {alarm.sentinel}"
        self.told.append(
            over if alarm.cleared_ms else f"+ {alarm.sentinel} {alarm.subject}: {alarm.text}{_facts(alarm)}"
        )

    def play(self, scenario: Scenario) -> list[str]:
        """The lines of the scenario, with what comes of it now."""
        out: list[str] = []
        for line in scenario.lines:
            if not line.startswith(INDENT):
                verb, *words = line.split()
                out.append(line)
                out += [INDENT + text for text in [*self.step(verb, words), *self.alarms()]]
        return out

    def step(self, verb: str, words: list[str]) -> list[str]:
        stage = self.stage
        match verb:
            case "setup":
                self.set_up({topic: int(count) for topic, count in (word.split("=") for word in words)})
            case "subscribe":
                self.topics[words[0]] = words[1:]
            case "form":
                self.assigned = dict(map(_shares, words))
                stage.form(self.assigned, **self.topics)
            case "join":
                stage.join(words[0])
            case "beat":
                names, regex = [word for word in words if "=" not in word], [word for word in words if "=" in word]
                for name in names:
                    stage.beat(name, regex=regex[0].removeprefix("regex=") if regex else None)
            case "leave":
                stage.modern[words[0]].leave()
                del stage.modern[words[0]]
            case "release":
                stage.modern[words[0]].let_go()
                stage.beat(words[0])
            case "hang-up":
                stage.joining[words[0]].is_gone = True
            case "sync":
                stage.sync(words[0], self.assigned if words[1:] else {})
            case "write":
                stage.write(int(words[0]), int(words[1]))
            case "wait":
                stage.wait(duration(words[0]))
            case "commit":
                name, *rows = words
                old = {"generation": int(rows.pop().removeprefix("generation="))} if "=" in rows[-1] else {}
                error = stage.commit(
                    name, {int(at): int(offset) for at, offset in (row.split(":") for row in rows)}, **old
                )
                return [f"{name} hears {ErrorCode(error).name}"] if error else []
            case _ if verb != "#":
                raise AssertionError(f"no step: {verb}")
        return []

    def alarms(self) -> list[str]:
        """What has become of alarms since the last step."""
        active = self.stage.sentinels.board.active()
        again = [one for one in active if one.times > self.times.get(one.sentinel, one.times)]
        self.times = {one.sentinel: one.times for one in active}
        out = [*self.told, *(f"{one.sentinel} {one.times} times{_facts(one)}" for one in again)]
        self.told.clear()
        return out


def _facts(alarm: Alarm) -> str:
    return f" ({', '.join(f'{name}={value}' for name, value in alarm.facts.items())})"


def _shares(word: str) -> tuple[str, dict[str, list[int]]]:
    """``a=orders:0+1,bills:0`` is what a is given."""
    name, _, given = word.partition("=")
    pairs = (one.split(":") for one in given.split(","))
    return name, {topic: [int(partition) for partition in partitions.split("+")] for topic, partitions in pairs}
