"""The values of the demo: incidents, the truth about them, and what ``ottla why`` told."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from examples.incidents.stage import Stage


@dataclass(frozen=True)
class Told:
    """One episode, as ``ottla why --format json`` has it.

    Attributes:
        generation: that it led to or happened in, -1 if there is none.
        cause: the class of what the culprit did; of what began it, if that was nobody's doing.
        culprit: the client id, None if nobody is named; trigger: of who began it.
    """

    number: int
    kind: str
    started_ms: int
    cause: str
    culprit: str | None
    headline: str
    sentences: tuple[str, ...] = ()
    advice: tuple[str, ...] = ()
    generation: int = -1
    trigger: str | None = None

    @classmethod
    def of(cls, episode: dict[str, Any]) -> Told:
        """Read it. What has its default is left out there."""
        at = episode.get("culprit", -1)
        cause = episode.get("cause", "unknown")
        triggers = episode.get("triggers", ())
        # Who held a rebalance up is to blame for that, whoever began it.
        own = [one["cause"] for one in triggers if one.get("member", -1) == at >= 0]
        began = triggers[0].get("member", -1) if triggers else -1
        return cls(
            number=episode["number"],
            kind=episode["kind"],
            started_ms=episode["started_ms"],
            cause=own[0] if own and cause not in own else cause,
            culprit=episode["members"][at]["client_id"] if at >= 0 else None,
            headline=episode.get("headline", ""),
            sentences=tuple(episode.get("sentences", ())),
            advice=tuple(one["text"] for one in episode.get("advice", ())),
            generation=max(episode.get("generation_after", -1), -1),
            trigger=episode["members"][began]["client_id"] if began >= 0 else None,
        )

    @property
    def text(self) -> str:
        return "\n".join((self.headline, *self.sentences, *self.advice))


@dataclass(frozen=True)
class Truth:
    """The truth about an episode, which ``ottla why`` must tell.

    Attributes:
        culprit: the client id, None if nobody is to blame; trigger: of who began it, if that is somebody else, None for
            anybody.
        causes: classes of causes that name it; the first is the one that says most.
        since_ms: it began after this, in Unix time.
        kind: of the episode.
        words: must be somewhere in what is said.
        meanwhile: what was told while it lasted, if that is what counts: nothing, if it was over before it could be
            asked. What is told afterwards otherwise.
    """

    culprit: str | None
    causes: tuple[str, ...]
    since_ms: int
    kind: str = "rebalance"
    words: tuple[str, ...] = ()
    meanwhile: tuple[Told, ...] | None = None
    trigger: str | None = ""


Play = Callable[[Stage], Awaitable[list[Truth]]]


@dataclass(frozen=True)
class Incident:
    """An incident.

    Attributes:
        story: what happens, in two lines at most.
        partitions: of its topics, of which the first is named as the group.
    """

    heading: str
    group: str
    story: str
    play: Play
    topics: tuple[str, ...] = ()
    partitions: int = 6


@dataclass(frozen=True)
class Finding:
    """A truth, the episode that should tell it, and what is wrong with that.

    Attributes:
        told: None if there is no such episode.
        wrong: a sentence each; none if it was found.
    """

    truth: Truth
    told: Told | None
    wrong: tuple[str, ...] = ()


@dataclass(frozen=True)
class Verdict:
    """An incident with all that was found.

    Attributes:
        command, printed: the command typed in the end, and its output; empty if there was none.
    """

    incident: Incident
    findings: tuple[Finding, ...] = field(default_factory=tuple)
    command: str = ""
    printed: str = ""

    @property
    def right(self) -> bool:
        return bool(self.findings) and not any(finding.wrong for finding in self.findings)
