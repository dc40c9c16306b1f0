"""Clauses about what a consumer group waits for: who has not done what, since when, and who suffers (KIP-848)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ottla.observe.why.blame import LATE_MS
from ottla.observe.why.model import Episode, MemberWait
from ottla.observe.why.plain import duration, listed, ranges

REVOKES = frozenset(("told-to-revoke", "still-owns", "says-nothing"))
"""Kinds of waits for a member that has to give partitions up."""
_COMES = frozenset(("not-heard", "next-heartbeat"))
"""Kinds of waits for a member that has a new target."""
_OWES = frozenset(("must-rejoin", "must-sync"))
"""Kinds of waits for a member of the classic protocol that was told to do something."""
WORTH_SAYING_MS = 1_000
MOST_NAMED = 3
_ENDS_WELL = frozenset(("waits-for-release", "free", "next-heartbeat", "interval"))
"""Kinds of waits that nobody is removed for."""


class Waits:
    """The waits of an episode in words.

    Args:
        names: of its members.
        clock: says a time that is given as milliseconds after the start.
    """

    def __init__(self, episode: Episode, names: Sequence[str], clock: Callable[[int], str]) -> None:
        self._episode = episode
        self._names = names
        self._clock = clock
        self.present = [one for one in episode.member_waits if one.until_ms < 0]
        self._after_ms = episode.now_ms - episode.started_ms if episode.now_ms else -1
        """How long the episode has been running; -1 if that is not known."""

    def now(self) -> list[str]:
        """A sentence for each thing that is waited for now, without its end; a chain of them is one sentence."""
        return [self._now(one) for one in self.present if not self._is_part_of_a_chain(one)]

    def _now(self, wait: MemberWait) -> str:
        clauses = [self._clause(wait), self._blocked(wait)]
        if wait.kind not in _ENDS_WELL and (left := self._left(wait)):
            clauses.append(f"{self._who(wait)} is removed in {left}")
        return "; ".join(clause for clause in clauses if clause)

    def _left(self, wait: MemberWait) -> str:
        """How long it may last; empty if that is not known, or over."""
        left_ms = wait.limit_ms - self._after_ms if wait.limit_ms and self._after_ms >= 0 else 0
        return duration(left_ms) if left_ms > 0 else ""

    def _is_part_of_a_chain(self, wait: MemberWait) -> bool:
        """True if it is told with the wait at the end of its chain: somebody waits, and that says for whom."""
        return wait.kind == "waits-for-release" and any(wait.member in one.blocked for one in self.present)

    def over(self, wait: MemberWait) -> str:
        """A wait that is over, if it took long enough to be told."""
        if wait.kind == "not-subscribed":
            it = "it" if len(wait.partitions) == 1 else "them"
            return (
                f"{self._who(wait)} has {_parts(wait)} in its target and did not subscribe to {it}: nobody reads {it}"
            )
        if wait.kind == "no-target":
            return (
                f"the regex of {self._who(wait)} matches topics, and no target has their partitions: nobody reads them"
            )
        long_ms = wait.until_ms - wait.since_ms
        if long_ms < WORTH_SAYING_MS or wait.kind in ("away", "nobody-heartbeats", "nobody-joins"):
            return ""
        who, long = self._who(wait), duration(long_ms)
        if wait.kind == "interval":
            why = "targets have to be some time apart, and each is computed with somebody's heartbeat"
            return f"the target was computed {long} after it was wanted: {why}"
        if wait.kind in ("waits-for-release", "free"):
            if wait.is_cut_off:
                return f"{who} went without having got {_parts(wait)}, for which it had waited {long}"
            return f"{who} got {_parts(wait)}, which others had to give up first, after {long}"
        if wait.goes_on:
            what = "joined again" if wait.kind == "must-rejoin" else "come for its new target"
            what = f"given up {_parts(wait)}" if wait.kind in REVOKES else what
            return f"after {long} {who} still had not {what}{self._waited(wait)}"
        if wait.kind in _COMES:
            came = "was gone before it came" if wait.is_cut_off else "came"
            return f"{who} {came} for its new target after {long}{self._waited(wait)}" if wait.blocked else ""
        if wait.kind in _OWES:
            what = "join again" if wait.kind == "must-rejoin" else "fetch what it has"
            if wait.is_cut_off:
                return f"{who} had {long} to {what}{self._waited(wait)}, and was gone before it had"
            return f"{who} took {long} to {what}{self._waited(wait)}"
        if wait.is_cut_off:
            return f"{who} had {long} to give up {_parts(wait)}{self._waited(wait)}, and was gone before it had"
        return f"{who} gave up {_parts(wait)} after {long}{self._waited(wait)}"

    def longest(self) -> str:
        """The clause for the headline about the one that held others up for longest; empty if none did for long."""
        held = [one for one in self._episode.member_waits if one.until_ms >= 0]
        held = [one for one in held if one.kind in REVOKES or (one.kind in _COMES | _OWES and one.blocked)]
        worst = max(held, key=lambda one: one.until_ms - one.since_ms, default=None)
        return "" if worst is None else self.over(worst)

    def _clause(self, wait: MemberWait) -> str:
        who, since, parts = self._who(wait), self._clock(wait.since_ms), _parts(wait)
        it = "it" if len(wait.partitions) == 1 else "them"
        match wait.kind:
            case "told-to-revoke":
                is_early = 0 <= self._after_ms < wait.since_ms + LATE_MS
                silent = "" if is_early else ", and has not been heard of since"
                return f"{who} was told at {since} to give up {parts}{silent}"
            case "still-owns":
                return f"{who} has not given up {parts} since {since}; its heartbeats still report {it}"
            case "says-nothing":
                return f"{who} has not given up {parts} since {since}; its heartbeats come, and do not say that it has"
            case "not-heard":
                still = f", and still has {parts}, which others shall have" if wait.partitions else ""
                return f"{who} has not come for its new target since {since}{still}"
            case "next-heartbeat":
                loses = f", and then gives up {parts}, which others shall have" if wait.partitions else ""
                return f"{who} hears of its new target with its next heartbeat{self._within(wait)}{loses}"
            case "waits-for-release":
                return f"{who} has waited for {parts} since {since}"
            case "free":
                are = "it is" if len(wait.partitions) == 1 else "they are"
                gets = f"{who} gets {it} with its next heartbeat{self._within(wait)}"
                return f"{who} waits for {parts}; {are} free, and {gets}"
            case "away":
                return f"{who}, which has a group.instance.id, has been away since {since}; {parts} stand still"
            case "must-rejoin":
                return f"{who}, which is of the classic protocol, was told at {since} to join again, and has not"
            case "must-sync":
                return f"{who}, which is of the classic protocol, has joined at {since}, and not fetched what it has"
            case "interval":
                at = self._clock(wait.limit_ms)
                return f"a new target may be computed at {at} at the earliest, with the next heartbeat of anybody"
            case "nobody-joins":
                only = "only members of the classic protocol are left, and their heartbeats do not bring it"
                return f"a new target has been due since {since}, and is computed when somebody joins; {only}"
            case "nobody-heartbeats":
                return f"a new target has been due since {since}, and is computed with the next heartbeat of anybody"
        return f"the regex of {who} has not been held against the topics since {since}"

    def _within(self, wait: MemberWait) -> str:
        left = self._left(wait)
        return f", within {left}" if left else ""

    def _blocked(self, wait: MemberWait) -> str:
        if not wait.blocked:
            return ""
        return f"{self._listed(wait)} {'waits' if len(wait.blocked) == 1 else 'wait'} for that"

    def _waited(self, wait: MemberWait) -> str:
        if not wait.blocked:
            return ""
        return f", for which {self._listed(wait)} waited"

    def _listed(self, wait: MemberWait) -> str:
        return listed([self._names[at] for at in wait.blocked if at < len(self._names)], MOST_NAMED)

    def _who(self, wait: MemberWait) -> str:
        return self._names[wait.member] if 0 <= wait.member < len(self._names) else "a member"


def _parts(wait: MemberWait) -> str:
    if not wait.partitions:
        return "its partitions"
    return f"{listed(ranges(wait.partitions), MOST_NAMED)}{f' and {wait.untold:,} more' if wait.untold else ''}"
