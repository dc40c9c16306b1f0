"""Faults and pauses: what somebody who tests the members of a group did to it, and which episode tells of that.

A fault belongs to the episode in which it took hold of a request, and to the next that a member began or added to whom
it had hit: it may have brought that about.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from math import inf

from msgspec.structs import replace

from ottla.broker.core.events import DeadlinesHeld, DeadlinesMoved, Event, FaultFired
from ottla.observe.why.causes import Cause
from ottla.observe.why.model import Episode, Fault, MemberPart, Pause, Trigger
from ottla.observe.why.plain import awaited

MOST_KEPT, MOST_TOLD = 256, 8
"""Kinds of faults that are remembered of a group, and that an episode names; of the others it has the number."""
MOST_PAUSES = 8
REACH_MS = 600_000
"""What a fault hit longer ago did not bring about what happens now."""
AT_ONCE_MS = 1_000
"""What no member did is brought about by a fault within this time."""
BACK_MS = 10_000
"""A client that a fault has hit joins anew within this time, if that is why it does."""
LONG_MS = 1_000
"""A barrier that waited for less did not wait for a fault."""
SELF_EXPLAINED = frozenset(
    (
        Cause.GROUP_STARTED,
        Cause.MEMBER_JOINED,
        Cause.STATIC_MEMBER_JOINED,
        Cause.LEFT_CLOSED,
        Cause.LEFT_UNSUBSCRIBED,
        Cause.LEFT_WITH_REASON,
        Cause.REMOVED_BY_ADMIN,
        Cause.SUBSCRIPTION_CHANGED,
        Cause.ASSIGNOR_LIST_CHANGED,
        Cause.COOPERATIVE_FOLLOW_UP,
        Cause.TOPIC_METADATA_CHANGED,
        Cause.REGEX_CHANGED,
        Cause.REGEX_RESOLVED,
        Cause.RACK_CHANGED,
        Cause.REBALANCE_ENFORCED,
    )
)
"""Causes that need no fault to be understood."""


@dataclass(slots=True, eq=False)
class Interference:
    """What was done to one group lately, oldest first."""

    faults: list[Fault] = field(default_factory=list)
    pauses: list[Pause] = field(default_factory=list)

    def fired(self, event: FaultFired) -> Fault:
        """A fault took hold of a request. Gives all that it did of this kind to this client."""
        new = Fault(event.fault, event.api, event.done, event.member_id, event.client_id, event.wall_ms, event.wall_ms)
        for one in reversed(self.faults):
            if _kind(one) == _kind(new) and event.wall_ms - one.last_ms <= REACH_MS:
                one.times += 1
                one.last_ms = event.wall_ms
                return one
        self.faults.append(new)
        del self.faults[:-MOST_KEPT]
        return new

    def held(self, event: DeadlinesHeld) -> None:
        """From now on no deadline of the group runs."""
        self.pauses.append(Pause(event.wall_ms))
        del self.pauses[:-MOST_PAUSES]

    def moved(self, event: DeadlinesMoved) -> None:
        """They run again."""
        if not self.pauses or self.pauses[-1].until_ms:
            self.pauses.append(Pause(event.wall_ms - event.by_ms))
        self.pauses[-1].until_ms = event.wall_ms

    @property
    def paused_ms(self) -> int:
        """Since when the group is paused, Unix time; 0 if it is not."""
        return self.pauses[-1].from_ms if self.pauses and not self.pauses[-1].until_ms else 0

    def heard_ms(self, event: Event, said_ms: int) -> int:
        """When a member was heard of: the coordinator knows when its session ends, which every pause made later."""
        for pause in reversed(self.pauses):
            if pause.until_ms and said_ms <= pause.until_ms - event.wall_ms + event.at_ms:
                said_ms -= pause.until_ms - pause.from_ms
        return said_ms

    def tell(self, episode: Episode) -> None:
        """Put what belongs to an episode into it. Once it is over, no other need look for its beginning in that."""
        led = [
            one
            for one in self.faults
            if any(may_have_led(one, episode, cause) or came_back(one, episode, cause) for cause in episode.triggers)
        ]
        put(episode, [*led, *(one for one in self.faults if one.last_ms >= episode.started_ms and one not in led)])
        heard = [episode.members[one.member].heard_ms for one in episode.triggers if one.member >= 0]
        self._put_pauses(episode, min([episode.started_ms - AT_ONCE_MS, *filter(None, heard)]))
        if episode.outcome != "running":
            self.faults = [one for one in self.faults if one not in led]

    def tell_since(self, episode: Episode) -> None:
        """Put what happened since the end of a group's last episode into it: nothing else tells of that yet."""
        ended_ms = episode.started_ms + max(episode.duration_ms, 0)
        put(episode, [one for one in self.faults if one.last_ms >= ended_ms])
        self._put_pauses(episode, ended_ms)

    def _put_pauses(self, episode: Episode, since_ms: int) -> None:
        mine = {one.from_ms: one for one in episode.pauses}
        mine |= {one.from_ms: replace(one) for one in self.pauses if not one.until_ms or one.until_ms >= since_ms}
        episode.pauses = list(mine.values())


def _kind(fault: Fault) -> tuple[str, ...]:
    return fault.name, fault.api, fault.done, fault.member_id, fault.client_id


def put(episode: Episode, faults: Iterable[Fault]) -> None:
    """Put faults into an episode, the first of them rather than the last if they are too many."""
    mine = {(_kind(one), one.first_ms): one for one in episode.faults}
    for one in faults:
        key = _kind(one), one.first_ms
        if key in mine or len(mine) < MOST_TOLD:
            mine[key] = replace(one)
        else:
            episode.faults_untold += one.times
    episode.faults = sorted(mine.values(), key=lambda one: one.first_ms)


def hit(fault: Fault, part: MemberPart) -> bool:
    """True if a fault took hold of a member's requests; of one that has no id yet, of its client's."""
    return part.member_id == fault.member_id or (not fault.member_id and part.client_id == fault.client_id)


def hit_by(fault: Fault, episode: Episode) -> int:
    """The index of the member whose requests a fault took hold of; -1 if nobody can tell."""
    same = [at for at, part in enumerate(episode.members) if part.member_id == fault.member_id]
    # A static member may have another id now, and a client had none when it first asked to join.
    same = same or [at for at, part in enumerate(episode.members) if part.client_id == fault.client_id]
    return same[0] if len(same) == 1 else -1


def may_have_led(fault: Fault, episode: Episode, trigger: Trigger) -> bool:
    """True if a fault came before a trigger, of the same member, and nothing was heard of that since."""
    at_ms = episode.started_ms + trigger.at_ms
    if fault.first_ms > at_ms:
        return False
    if trigger.member < 0:
        return fault.last_ms >= at_ms - AT_ONCE_MS
    part = episode.members[trigger.member]
    return hit(fault, part) and fault.last_ms >= max(part.heard_ms, at_ms - REACH_MS)


def came_back(fault: Fault, episode: Episode, trigger: Trigger) -> bool:
    """True if a client joined anew, under another id, soon after a fault had hit it."""
    if trigger.member < 0:
        return False
    part, at_ms = episode.members[trigger.member], episode.started_ms + trigger.at_ms
    is_its = bool(fault.client_id) and part.client_id == fault.client_id and part.member_id != fault.member_id
    return is_its and fault.last_ms <= at_ms <= fault.last_ms + BACK_MS


def explaining(episode: Episode) -> Fault | None:
    """The fault that explains an episode, or how long it took, where nothing else does."""
    for trigger in episode.triggers if episode.faults else ():
        if trigger.cause not in SELF_EXPLAINED:
            for fault in episode.faults:
                if may_have_led(fault, episode, trigger):
                    return fault
    for wait in episode.waits if episode.faults else ():
        if 0 <= wait.closed_ms < wait.opened_ms + LONG_MS:
            continue
        is_open = wait.closed_ms < 0
        members = awaited(episode, wait) if is_open else wait.absent or wait.last
        closed_ms = inf if is_open else episode.started_ms + wait.closed_ms
        for fault in episode.faults:
            if fault.first_ms <= closed_ms and any(hit(fault, episode.members[at]) for at in members):
                return fault
    return None
