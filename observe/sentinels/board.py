"""The alarms that stand and those that are over: each raised once, cleared once, and never too many."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from ottla.broker.core.events import Emit, SentinelCleared, SentinelRaised
from ottla.broker.logger import Logger
from ottla.broker.settings import Settings
from ottla.observe.sentinels.model import SENTINELS, Alarm, Finding, Now

RECENT = 200
"""Alarms that are over and still shown."""

Key: TypeAlias = tuple[str, str, bool]
"""Within a group: sentinel, subject, and whether it is about what happens, not about what lasts."""


@dataclass(slots=True)
class _Standing:
    alarm: Alarm
    raised_ms: int
    seen_ms: int


class Board:
    """See the module.

    Args:
        emit: is told of each alarm as an event.

    Attributes:
        raised: how many alarms each sentinel has raised.
        left_out: how many were not, as there were too many.
        on_alarm: called with each alarm as it is raised and as it is cleared.
    """

    def __init__(self, settings: Settings, log: Logger, emit: Emit) -> None:
        self.raised: Counter[str] = Counter(dict.fromkeys(SENTINELS, 0))
        self.left_out = 0
        self.on_alarm: list[Callable[[Alarm], None]] = []
        self._max_alarms = settings.ottla_sentinel_max_alarms
        self._quiet_ms = settings.ottla_sentinel_quiet_ms
        self._log = log
        self._emit = emit
        self._groups: dict[str, dict[Key, _Standing]] = {}
        self._seen: dict[str, dict[Key, int]] = {}
        """Findings that are no alarm yet, and since when."""
        self._count = 0
        self._recent: deque[Alarm] = deque(maxlen=RECENT)
        self._is_full = False

    def active(self) -> list[Alarm]:
        """Those that stand, the oldest first."""
        alarms = [standing.alarm for group in self._groups.values() for standing in group.values()]
        return sorted(alarms, key=lambda alarm: (alarm.since_ms, alarm.group_id, alarm.sentinel, alarm.subject))

    def active_by_sentinel(self) -> Mapping[str, int]:
        """Number of alarms of each sentinel that stand."""
        counts = Counter(alarm.sentinel for alarm in self.active())
        return {sentinel: counts[sentinel] for sentinel in SENTINELS}

    def recent(self) -> list[Alarm]:
        """Those that are over, the newest last; so many as are kept."""
        return list(self._recent)

    def groups(self) -> list[str]:
        """The groups of which something is shown, or may have to be."""
        return list(dict.fromkeys((*self._groups, *self._seen)))

    def happened(self, group_id: str, finding: Finding, now: Now, cause: int) -> None:
        """Something happened; if it has lately, the alarm that there is counts it."""
        key = finding.sentinel, finding.subject, True
        standing = self._groups.get(group_id, {}).get(key)
        if standing is None:
            self._raise(group_id, key, finding, now, cause)
            return
        standing.seen_ms = now.ms
        alarm = standing.alarm
        alarm.last_ms, alarm.times = now.wall_ms, alarm.times + 1
        alarm.text, alarm.facts = finding.text, finding.facts

    def looked(self, group_id: str, findings: Iterable[Finding], now: Now) -> None:
        """A group was looked at: what was found stands, or is raised in time, and what was not is over."""
        seen_before = self._seen.pop(group_id, {})
        seen: dict[Key, int] = {}
        found: set[Key] = set()
        standing = self._groups.get(group_id, {})
        for finding in findings:
            key = finding.sentinel, finding.subject, False
            found.add(key)
            if (known := standing.get(key)) is not None:
                known.seen_ms = now.ms
                known.alarm.last_ms = now.wall_ms
                known.alarm.text, known.alarm.facts = finding.text, finding.facts
                continue
            since_ms = seen_before.get(key, now.ms)
            if now.ms - since_ms >= finding.after_ms:
                self._raise(group_id, key, finding, now, 0)
            elif len(self._seen) < self._max_alarms:
                seen[key] = since_ms
        if seen:
            self._seen[group_id] = seen
        for key, known in list(self._groups.get(group_id, {}).items()):
            over = now.ms - known.seen_ms >= self._quiet_ms if key[2] else key not in found
            if over:
                self._clear(group_id, key, now)

    def gone(self, group_id: str, now: Now) -> None:
        """A group is no more, and so is what was wrong with it."""
        self._seen.pop(group_id, None)
        for key in list(self._groups.get(group_id, ())):
            self._clear(group_id, key, now)

    def _raise(self, group_id: str, key: Key, finding: Finding, now: Now, cause: int) -> None:
        if self._count >= self._max_alarms:
            self.left_out += 1
            if not self._is_full:
                self._is_full = True
                self._log.warning("Too many alarms, more are not told", alarms=self._count)
            return
        alarm = Alarm(
            finding.sentinel, group_id, finding.subject, now.wall_ms, now.wall_ms, finding.text, finding.facts
        )
        self._groups.setdefault(group_id, {})[key] = _Standing(alarm, now.ms, now.ms)
        self._count += 1
        self.raised[finding.sentinel] += 1
        self._log.warning(finding.text, sentinel=finding.sentinel, group_id=group_id, **finding.facts)
        self._emit(
            SentinelRaised(
                group_id=group_id,
                cause=cause,
                at_ms=now.ms,
                wall_ms=now.wall_ms,
                sentinel=finding.sentinel,
                subject=finding.subject,
            )
        )
        self._tell(alarm)

    def _clear(self, group_id: str, key: Key, now: Now) -> None:
        group = self._groups[group_id]
        standing = group.pop(key)
        if not group:
            del self._groups[group_id]
        self._count -= 1
        self._is_full = False
        alarm = standing.alarm
        alarm.cleared_ms = now.wall_ms
        self._recent.append(alarm)
        lasted_ms = now.ms - standing.raised_ms
        self._log.info("It is over", sentinel=alarm.sentinel, group_id=group_id, lasted_ms=lasted_ms, what=alarm.text)
        self._emit(
            SentinelCleared(
                group_id=group_id,
                cause=0,
                at_ms=now.ms,
                wall_ms=now.wall_ms,
                sentinel=alarm.sentinel,
                subject=alarm.subject,
                lasted_ms=lasted_ms,
            )
        )
        self._tell(alarm)

    def _tell(self, alarm: Alarm) -> None:
        for told in self.on_alarm:
            told(alarm)
