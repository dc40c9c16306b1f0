"""Counts things that happen again and again: rebalances, refusals, and members that come and go."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from ottla.broker.core.events import Event, RequestReceived, RequestRefused
from ottla.broker.settings import Settings
from ottla.observe.sentinels.model import Finding, short
from ottla.observe.why.model import Episode
from ottla.observe.why.plain import limit

REFUSALS = {
    "GROUP_MAX_SIZE_REACHED": "the group is full",
    "INCONSISTENT_GROUP_PROTOCOL": "it has no assignor that all others have, too, or no classic ones are let in",
    "INVALID_REGULAR_EXPRESSION": "its regex is none for the broker",
    "INVALID_SESSION_TIMEOUT": "its session.timeout.ms is outside of what the broker allows",
    "UNSUPPORTED_ASSIGNOR": "the broker does not have the assignor that it asks for",
    "UNRELEASED_INSTANCE_ID": "another process uses its group.instance.id",
    "FENCED_INSTANCE_ID": "another process uses its group.instance.id",
}
"""The errors that turn a member away for good, and what they say of it. Others are a client's daily life."""


class _Times:
    """Times of one kind of thing in one group: the newest, and the number of all."""

    __slots__ = ("count", "finding", "first_ms", "newest")

    def __init__(self, most: int, now_ms: int) -> None:
        self.newest: deque[int] = deque(maxlen=most)
        self.first_ms = now_ms
        self.count = 0
        self.finding: Finding | None = None

    def often(self) -> tuple[str, int]:
        """The number and the time within which it happened, in words, and that time in seconds."""
        ms = self.newest[-1] - self.first_ms
        return f"{self.count:,} times within {limit(max(ms // 1_000, 1) * 1_000)}", max(1, ms // 1_000)


class Repeats:
    """Counts what repeats itself. Of each group a bounded number of times is kept, until it has been quiet for long.

    An alarm stands from ``most`` times within ``ottla.sentinel.storm.window.ms`` on, and until there are fewer.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._groups: dict[str, dict[str, _Times]] = {}
        self._last_join: RequestReceived | None = None

    def join_received(self, event: RequestReceived) -> None:
        """Remember who asked, in case that it is refused."""
        self._last_join = event

    def rebalanced(self, event: Event) -> None:
        """A rebalance began."""
        self._again("rebalance_storm", event, self._settings.ottla_sentinel_storm_rebalances)

    def refused(self, event: RequestRefused) -> None:
        """A member was turned away; see `REFUSALS`."""
        times = self._again("refused_member", event, self._settings.ottla_sentinel_refusals)
        asked = self._last_join
        if asked is None or asked.number != event.cause:
            asked = None
        instance = None if asked is None else asked.group_instance_id
        name = short(event.member_id) if asked is None else instance or asked.client_id or short(asked.member_id)
        who = name if asked is None else f"{name} ({asked.client_host.removeprefix('/')})"
        often, seconds = times.often()
        text = f"Group {event.group_id} turned members away {often}, the last was {who}: {REFUSALS[event.error]}"
        facts = {"refused": str(times.count), "within_s": str(seconds), "error": event.error, "member": name}
        times.finding = Finding("refused_member", "", text, facts)

    def ended(self, episode: Episode, now_ms: int) -> None:
        """A rebalance is over: whether a member flaps is found where rebalances are explained."""
        from ottla.observe.why.causes import Cause  # a broker has rebalances before it needs the table

        flapping = next((one for one in episode.triggers if one.cause == Cause.FLAPPING_MEMBER), None)
        if flapping is None or not 0 <= flapping.member < len(episode.members):
            return
        part = episode.members[flapping.member]
        name = part.group_instance_id or part.client_id or short(part.member_id)
        times = self._times("flapping_member", episode.group_id, 1, now_ms)
        times.newest.append(now_ms)
        often = flapping.facts.get("times", "several")
        text = (
            f"Group {episode.group_id}: {name} ({part.client_host.removeprefix('/')}) leaves and comes back again and "
            f"again, {often} times within ten minutes"
        )
        facts = {"member": name, "member_id": part.member_id, "times": often}
        times.finding = Finding("flapping_member", "", text, facts)

    def look(self, group_id: str, now_ms: int) -> Iterator[Finding]:
        """Findings about what has been repeated often and lately."""
        window_ms = self._settings.ottla_sentinel_storm_window_ms
        for kind, times in self._groups.get(group_id, {}).items():
            if len(times.newest) < (times.newest.maxlen or 0) or now_ms - times.newest[0] > window_ms:
                continue
            if kind == "rebalance_storm":
                often, seconds = times.often()
                text = f"Group {group_id} rebalanced {often}"
                yield Finding(kind, "", text, {"rebalances": str(times.count), "within_s": str(seconds)})
            elif times.finding is not None:
                yield times.finding

    def forget(self, group_id: str) -> None:
        """A group is no more."""
        self._groups.pop(group_id, None)

    def forget_quiet(self, now_ms: int) -> None:
        """Let go of what has not happened within the window."""
        since_ms = now_ms - self._settings.ottla_sentinel_storm_window_ms
        for group_id, kinds in list(self._groups.items()):
            for kind in [one for one, times in kinds.items() if times.newest[-1] < since_ms]:
                del kinds[kind]
            if not kinds:
                del self._groups[group_id]

    def _again(self, kind: str, event: Event, most: int) -> _Times:
        times = self._times(kind, event.group_id, most, event.at_ms)
        times.newest.append(event.at_ms)
        times.count += 1
        return times

    def _times(self, kind: str, group_id: str, most: int, now_ms: int) -> _Times:
        kinds = self._groups.setdefault(group_id, {})
        times = kinds.get(kind)
        if times is None:
            times = kinds[kind] = _Times(most, now_ms)
        return times
