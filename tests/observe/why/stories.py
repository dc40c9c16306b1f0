"""Stories as text: steps at the left margin, and beneath them, indented, what is told of the group.

```
stable w1 w2
leave w2 reason="lunch"
again w1
accounts
    cause left-with-reason, triggered by w2, culprit w2
```

The steps are the verbs of `Story`; what comes of one behind ``~`` is not recorded. ``wait 3s w1``: w1 heartbeats
meanwhile. ``tell`` prints the last episode as people read it, ``tell all`` prints all, and ``accounts`` what the words
were made from. ``stood w2 3*27800+20`` and ``blamed`` compare with what was computed by hand: partitions times
milliseconds. A story of a class of causes begins with a line ``# cause …, culprit …``. `--record-stories` writes the
texts anew; review the diff.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from datetime import UTC
from math import prod
from pathlib import Path
from typing import Any, NamedTuple

from ottla.observe.why.advice import advise
from ottla.observe.why.model import Episode
from ottla.observe.why.words import tell, verdict
from ottla.protocol.errors import ErrorCode
from tests.core.scenario_text import INDENT, Scenario, duration, read_scenarios
from tests.observe.why.story import Story

FILES = sorted((Path(__file__).parent / "stories").glob("*.story"))
CAUSE = re.compile(r"# cause (\S+?)(?:, culprit (\S+?))?(?:, began by (\S+))?")
READ: dict[str, Callable[[str], Any]] = {
    "topics": lambda text: tuple(text.split("+")),
    "assignors": lambda text: tuple(text.split("+")),
    "user_data": str.encode,
    "metadata_version": int,
    "generation": int,
    "version": int,
}
"""How options are read that are no text; those that end in ``_ms`` are durations."""


class Cause(NamedTuple):
    """A story of a class of causes.

    Attributes:
        cause: the class; culprit: the client id that is to be named, empty for nobody.
        began: the class of what began the episode, if that is another one.
    """

    title: str
    cause: str
    culprit: str
    began: str


def stories(name: str) -> list[Scenario]:
    """Those of a file."""
    return read_scenarios(FILES[0].with_name(f"{name}.story"))


def causes() -> list[Cause]:
    found = []
    for one in stories("causes"):
        match = CAUSE.fullmatch(one.lines[0])
        assert match is not None, one.title
        found.append(Cause(one.title, match[1], match[2] or "", match[3] or match[1]))
    return found


CAUSES = causes()


def played(title: str) -> Story:
    """The story of a cause, played."""
    (one,) = [one for one in stories("causes") if one.title == title]
    return play(one)[0]


def play(scenario: Scenario, begin: Callable[..., Story] = Story) -> tuple[Story, list[str]]:
    """The story, and the lines of the scenario with what is told now."""
    out: list[str] = []
    story: Story | None = None
    for line in scenario.lines:
        if line.startswith(INDENT):
            continue
        out.append(line)
        if line.startswith("#"):
            continue
        verb, *arguments = shlex.split(line.removeprefix("~ "))
        words = [word for word in arguments if "=" not in word]
        options = {name: _read(name, value) for name, _, value in (word.partition("=") for word in arguments) if value}
        if verb == "setup":
            topics = [pair.split(":") for pair in options.pop("partitions", "orders:6").split("+")]
            story = begin({topic: int(count) for topic, count in topics}, from_barrier="unseen" in words, **options)
            continue
        story = story or begin()
        told = [*_step(story, verb, words, options), *story.outcome()]
        out += [] if line.startswith("~") else [INDENT + text for text in told]
    assert story is not None, "nothing happens"
    return story, out


def _read(name: str, value: str) -> Any:
    if name.endswith("_ms"):
        return duration(value)
    return READ.get(name, lambda text: int(text) if text.isdigit() else text)(value)


def _step(story: Story, verb: str, words: list[str], options: dict[str, Any]) -> list[str]:
    match verb:
        case "new":
            for name in words:
                story.new(name, **options)
        case "change":
            vars(story[words[0]]).update(options)
        case "wait":
            story.wait(duration(words[0]), beating=words[1:])
        case "live8":
            story.live8(duration(words[0]), *words[1:])
        case "topic":
            story.topic(words[0], int(words[1]))
        case "fail":
            story.world.failing = ErrorCode[words[0]]
        case "tell":
            episodes = story.episodes()
            return [line for one in (episodes if words else episodes[-1:]) for line in written(one, story.settings)]
        case "accounts":
            last = story.episodes()[-int(words[0]) if words else -1 :]
            return [line for one in last for line in accounts(one, story.settings)]
        case "stood" | "blamed":
            *who, formula = words
            rows = [one for one in story.last.members if one.client_id in who] if who else [story.last]
            found = [one.stood_ms if verb == "stood" else one.blamed_ms for one in rows]
            assert found == [_computed(formula)], f"{verb} {words}: {found}"
        case _:
            VERBS[verb](story, *words, **options)
    return []


def _computed(formula: str) -> int:
    """A sum of products of whole numbers."""
    return sum(prod(map(int, term.split("*"))) for term in formula.split("+"))


VERBS: dict[str, Callable[..., Any]] = {
    "stable": Story.stable,
    "start": Story.start,
    "again": Story.again,
    "live": Story.live,
    "join": Story.join,
    "join-once": Story.join_once,
    "sync": Story.sync,
    "leave": Story.leave,
    "forget": Story.forget,
    "disconnect": Story.disconnect,
    "interfere": Story.interfere,
    "pause": Story.pause,
    "stall": Story.stall,
    "resume": Story.resume,
    "beat": Story.beat,
    "restart": Story.restart,
    "unload": Story.unload,
    "at-node": Story.at_node,
    "modern": Story.modern_join,
    "hb": Story.hb,
    "clock": Story.clock,
    "release": Story.release,
    "say": Story.say,
    "subscribe": Story.subscribe,
    "go": Story.go,
    "away": Story.away,
    "at-epoch": Story.at_epoch,
    "rack": Story.rack,
}


def written(episode: Episode, settings: dict[str, str]) -> list[str]:
    """As people read it."""
    headline, sentences = tell(episode, UTC)
    lines = [f"{episode.kind} {episode.number} {episode.outcome}, {verdict(episode)}", headline]
    lines += [f"  {text}" for text in sentences]
    return lines + [f"  > {one.text}" for one in advise(episode, settings)]


def accounts(episode: Episode, settings: dict[str, str]) -> list[str]:
    """What it cost whom; times are in milliseconds, and those of members are from the beginning on."""
    names = [one.client_id for one in episode.members]
    stood = f"stood {episode.stood_ms}, the longest {episode.longest_ms}, stopped {episode.stopped}"
    head = f"{episode.kind} {episode.number} {episode.outcome}: {verdict(episode)}"
    lines = [head, f"{stood}, unowned {episode.unowned}"]
    for trigger in episode.triggers:
        lines.append(f"trigger {trigger.cause} {names[trigger.member] if trigger.member >= 0 else '-'}")
    for wait in episode.waits:
        absent = ", ".join(names[one] for one in wait.absent) or "nobody"
        lines.append(f"barrier {wait.barrier}: {wait.opened_ms} to {wait.closed_ms}, {absent} is missing")
    for one in episode.member_waits:
        blocked = ", ".join(names[at] for at in one.blocked) or "nobody"
        who = names[one.member] if one.member >= 0 else "-"
        about = f" with {', '.join(one.partitions)}" if one.partitions else ""
        lines.append(
            f"{one.kind} {who}: {one.since_ms} to {one.until_ms}, at most {one.limit_ms}, {blocked} waits{about}"
        )
    for one in episode.members:
        share = f"{one.before} to {one.after}, stood {one.stood_ms}, blamed {one.blamed_ms}"
        last = [at_ms - episode.started_ms for at_ms in (one.heard_ms, one.disconnected_ms) if at_ms]
        lines.append(f"{one.client_id} {one.fate}: {share}" + (f", last signs at {last}" if last else ""))
    return lines + [f"advice {one.setting} {one.value}".rstrip() for one in advise(episode, settings)]
