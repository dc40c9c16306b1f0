"""Chooses which of the latest episodes to tell if somebody asks why a group rebalanced, and says no more."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import tzinfo
from typing import NamedTuple

from ottla.observe.why.causes import Cause
from ottla.observe.why.model import HERE, Episode, Trigger
from ottla.observe.why.plain import clock, epoch_of, partition_time, plain_name
from ottla.observe.why.words import felt

LOOK_BACK = 25
"""Among so many of the latest episodes the choice is made."""
OF_BROKER = frozenset(("loaded", "stopped"))
"""The kinds of episodes that are the broker's own doing."""
SOON_MS = 120_000
"""A member that was away for longer came back for itself: whoever asks then asks about the return."""
SLACK_MS = 5
"""Two times of one moment may be so far apart."""


class Choice(NamedTuple):
    """The episodes that are shown.

    Attributes:
        main: told in full; later: what came after it, told in a line each.
        earlier: what it ended, if that cost more: told in a line.
    """

    main: Episode
    later: list[Episode]
    earlier: Episode | None = None


def choose(episodes: Sequence[Episode]) -> Choice | None:
    """Choose among the latest episodes; None if there are none.

    The broker's own stop or start is told in full only if there is nothing before it, and the return of a member only
    if nothing is known of how it went, or if that was long ago.

    Args:
        episodes: the oldest first.
    """
    if not episodes:
        return None
    at = next((at for at in reversed(range(len(episodes))) if episodes[at].kind not in OF_BROKER), -1)
    if at < 0:
        return Choice(episodes[-1], [])
    newest = episodes[at]
    after = list(episodes[at + 1 :])
    main = at
    if at and newest.kind == "resolution" and _ended_ms(episodes[at - 1]) > newest.started_ms:
        main, after = at - 1, [newest, *after]  # it happened while that one ran
    for place in reversed(range(at)):
        if is_return_of(newest, episodes[place]):
            main, after = place, [one for one in episodes[place + 1 : at] if one.kind == "refusal"] + [newest, *after]
            break
    earlier = next((one for one in reversed(episodes[:main]) if one.kind != "refusal"), None)
    if earlier is None or earlier.outcome != "superseded" or earlier.stood_ms <= episodes[main].stood_ms:
        return Choice(episodes[main], after)
    return Choice(episodes[main], after, earlier if felt(earlier) else None)


def is_return_of(episode: Episode, before: Episode) -> bool:
    """True if members only came back in an episode, soon, and one before has how one of them went."""
    if episode.kind != "rebalance" or episode.outcome == "running" or not episode.triggers:
        return False
    if not all(map(_returns, episode.triggers)):
        return False
    for trigger in episode.triggers:
        away = trigger.facts.get("away_ms", "")
        if not away.isdigit() or int(away) > SOON_MS or not 0 <= trigger.member < len(episode.members):
            continue
        went_ms = episode.started_ms + trigger.at_ms - int(away)
        began_ms, ended_ms = before.started_ms - SLACK_MS, _ended_ms(before) + SLACK_MS
        name = plain_name(episode.members[trigger.member])
        gone = any(plain_name(one) == name and one.fate not in HERE for one in before.members)
        if gone and began_ms <= went_ms <= ended_ms:
            return True
    return False


def _returns(trigger: Trigger) -> bool:
    """True if a member came back; where the broker stood still all went, so that the first begins the group anew."""
    return trigger.cause == Cause.MEMBER_RETURNED or trigger.facts.get("went") == Cause.BROKER_STOOD_STILL


def _ended_ms(episode: Episode) -> int:
    return episode.started_ms + max(episode.duration_ms, 0)


def in_a_line(episode: Episode, zone: tzinfo | None = None, *, is_earlier: bool = False) -> str:
    """An episode after the one that is told in full, or the one before it with what it cost."""
    when = clock(episode.started_ms, zone)
    if episode.kind in OF_BROKER:
        return f"Then, at {when}, {episode.headline[:1].lower()}{episode.headline[1:]}"
    which = f" ({epoch})" if (epoch := epoch_of(episode)) else ""
    told = f"{episode.kind} {episode.number}{which} at {when}: "
    if not is_earlier:
        return f"Then, {told}{episode.headline}"
    return f"Before that, {told}{felt(episode)}{episode.headline} It cost {partition_time(episode.stood_ms)}."
