"""Chooses which of the latest episodes to tell if somebody asks why a group rebalanced, and says no more."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import tzinfo
from typing import NamedTuple

from ottla.observe.why.causes import Cause
from ottla.observe.why.model import HERE, Episode
from ottla.observe.why.plain import clock, epoch_of, plain_name

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
    """

    main: Episode
    later: list[Episode]


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
    for before in reversed(episodes[:at]):
        if is_return_of(newest, before):
            return Choice(before, [newest, *after])
    return Choice(newest, after)


def is_return_of(episode: Episode, before: Episode) -> bool:
    """True if members only came back in an episode, soon, and one before has how one of them went."""
    if episode.kind != "rebalance" or episode.outcome == "running" or not episode.triggers:
        return False
    if any(trigger.cause != Cause.MEMBER_RETURNED for trigger in episode.triggers):
        return False
    for trigger in episode.triggers:
        away = trigger.facts.get("away_ms", "")
        if not away.isdigit() or int(away) > SOON_MS or not 0 <= trigger.member < len(episode.members):
            continue
        went_ms = episode.started_ms + trigger.at_ms - int(away)
        began_ms, ended_ms = before.started_ms - SLACK_MS, before.started_ms + max(before.duration_ms, 0) + SLACK_MS
        name = plain_name(episode.members[trigger.member])
        gone = any(plain_name(one) == name and one.fate not in HERE for one in before.members)
        if gone and began_ms <= went_ms <= ended_ms:
            return True
    return False


def in_a_line(episode: Episode, zone: tzinfo | None = None) -> str:
    """The episodes after the one that is told in full."""
    when = clock(episode.started_ms, zone)
    if episode.kind in OF_BROKER:
        return f"Then, at {when}, {episode.headline[:1].lower()}{episode.headline[1:]}"
    which = f" ({epoch})" if (epoch := epoch_of(episode)) else ""
    return f"Then, {episode.kind} {episode.number}{which} at {when}: {episode.headline}"
