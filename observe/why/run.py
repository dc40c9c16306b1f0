"""An episode while it runs: its parts as they become known, and the partitions that stand still."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from ottla.broker.core.events import Event
from ottla.observe.why.blame import LATE_MS, Late, Still, beginner, divide
from ottla.observe.why.causes import Cause
from ottla.observe.why.members import NEVER, Known, Partition
from ottla.observe.why.model import Episode, MemberPart, Trigger, Wait

MOST_MOVES = 2_000
"""So many partitions that changed hands are named; of the others there is the number."""
MOST_TRIGGERS = 1_000
"""The same of what began a rebalance and added to it: a barrier may be open for hours while members come and go."""


MANY_LATE = 100
"""If more are late, what stood still is put on their accounts now and then, and not with every step of each of them."""
SHARED_EVERY_MS = 250
HELD_UP = frozenset((Cause.JOIN_BARRIER_MISSED, Cause.SYNC_TIMEOUT, Cause.LEADER_NEVER_SYNCED, Cause.NOBODY_REJOINED))
"""Causes that are told however much came before: they held everybody up."""
LEFT = frozenset(("left", "expired", "refused", "vanished"))
NEVER_LATE_MS = 1 << 62


@dataclass(slots=True, eq=False)
class Run:
    """See the module.

    Attributes:
        start_ms: when it began, on the broker's monotonic clock.
        gone: the members that were removed, with what they owned.
        free: the places of members that came and went when there was no trigger left to tell of it.
        told: of so many members triggers may tell; -1 while there are triggers left.
        awaited: whom a barrier waits for, since when, and from when on it is late; none of them is before
            ``none_late_before_ms``.
        late: who was late, as far as that is over.
        longest_ms: see `ottla.observe.why.blame.Accounts`; known once what stood still is charged.
        unshared: what stood still and is on nobody's account yet; shared_ms: when that was looked at last.
    """

    episode: Episode
    start_ms: int
    index: dict[str, int] = field(default_factory=dict)
    gone: dict[str, bytes] = field(default_factory=dict)
    free: list[int] = field(default_factory=list)
    told: int = -1
    awaited: dict[str, tuple[int, int]] = field(default_factory=dict)
    none_late_before_ms: int = NEVER_LATE_MS
    late: list[Late] = field(default_factory=list)
    longest_ms: dict[int, int] = field(default_factory=dict)
    unshared: list[Still] = field(default_factory=list)
    shared_ms: int = NEVER

    def at(self, event: Event) -> int:
        """Milliseconds after the start of the episode."""
        return event.at_ms - self.start_ms

    def place(self, known: Known) -> int:
        """A member's index; it gets a part if it has none."""
        index = self.index.get(known.member_id)
        if index is not None:
            return index
        if self.free:
            index = self.free.pop()
            self.episode.members[index] = known.part()
        else:
            index = len(self.episode.members)
            self.episode.members.append(known.part())
        self.index[known.member_id] = index
        return index

    def part(self, known: Known) -> MemberPart:
        """A member's part; it gets one if it has none."""
        index = self.index.get(known.member_id)
        return self.episode.members[self.place(known) if index is None else index]

    def part_of(self, member_id: str) -> MemberPart | None:
        """The part of a member that has one."""
        index = self.index.get(member_id)
        return None if index is None else self.episode.members[index]

    def rename(self, old_id: str, known: Known) -> None:
        """A static member has another id: it stays who it was."""
        index = self.index.pop(old_id, None)
        if index is None:
            return
        self.index[known.member_id] = index
        if old_id in self.awaited:
            self.awaited[known.member_id] = self.awaited.pop(old_id)
        part = self.episode.members[index]
        part.member_id = known.member_id
        part.topics = known.asked.topics or part.topics

    def came(self, known: Known, event: Event) -> None:
        """Its JoinGroup was accepted."""
        part = self.part(known)
        self.arrived(known.member_id, event)
        part.came_ms = event.at_ms - self.start_ms
        if known.asked.topics:
            part.topics = known.asked.topics
        part.session_timeout_ms = known.session_timeout_ms
        part.rebalance_timeout_ms = known.rebalance_timeout_ms

    def removed(self, known: Known, fate: str, event: Event, *, reason: str = "") -> None:
        """A member is no more."""
        part = self.part(known)
        self.arrived(known.member_id, event)
        part.fate = fate
        part.reason = reason
        shift = event.wall_ms - event.at_ms
        part.heard_ms = known.heard_ms + shift if known.heard_ms != NEVER else 0
        part.disconnected_ms = known.lost_ms + shift if known.lost_ms != NEVER else 0
        if known.assignment:
            self.gone[known.member_id] = known.assignment

    def trigger(self, cause: str, known: Known | None, event: Event, reason: str, facts: dict[str, str]) -> None:
        """Something began it, or added to it."""
        member = -1 if known is None else self.place(known)
        if len(self.episode.triggers) >= MOST_TRIGGERS and cause not in HELD_UP:
            self.episode.untold += 1
            if self.told < 0:
                self.told = len(self.episode.members)
            elif known is not None and member >= self.told and self.episode.members[member].fate in LEFT:
                del self.index[known.member_id]
                self.free.append(member)
            return
        self.episode.triggers.append(Trigger(cause, member, max(self.at(event), 0), reason, facts))

    # Barriers

    def waits_for(
        self, member_ids: Iterable[str], event: Event, *, is_again: bool = False, late_after_ms: int = LATE_MS
    ) -> None:
        """A barrier waits for these from now on; if it is open once more it did not wait long enough before."""
        late_ms = event.at_ms if is_again else event.at_ms + late_after_ms
        for member_id in member_ids:
            self.awaited[member_id] = event.at_ms, late_ms
            self.none_late_before_ms = min(self.none_late_before_ms, late_ms)

    def arrived(self, member_id: str, event: Event) -> None:
        """Nobody waits for a member any more: it came, or it is gone."""
        awaited = self.awaited.pop(member_id, None)
        if awaited is not None and event.at_ms >= max(awaited[1], awaited[0] + 1) and member_id in self.index:
            self.late.append(Late(self.index[member_id], awaited[0], event.at_ms))

    def late_until(self, at_ms: int) -> list[Late]:
        """Members that were late, and those that are."""
        if at_ms < self.none_late_before_ms:  # it is asked at each step of each of very many members
            return [*self.late]
        due = [(one, since_ms) for one, (since_ms, late_ms) in self.awaited.items() if late_ms <= at_ms]
        self.none_late_before_ms = min((late_ms for _, late_ms in self.awaited.values()), default=NEVER_LATE_MS)
        return [*self.late, *(Late(self.index[one], since_ms, at_ms) for one, since_ms in due if one in self.index)]

    def share(self, at_ms: int) -> None:
        """Put what stood still until now on the accounts of those who are to blame for it."""
        if not self.unshared:
            return
        unshared, self.unshared, self.shared_ms = self.unshared, [], at_ms
        accounts = divide(unshared, self.late_until(at_ms), at_ms)
        for index, for_ms in accounts.longest_ms.items():
            self.longest_ms[index] = max(self.longest_ms.get(index, 0), for_ms)
        for index, blamed_ms in accounts.blamed_ms.items():
            self.episode.members[index].blamed_ms += blamed_ms

    def share_some(self, at_ms: int) -> None:
        """The same, unless very many are late, and it was done a moment ago."""
        awaited = self.awaited if at_ms >= self.none_late_before_ms else ()
        if len(self.late) + len(awaited) <= MANY_LATE or at_ms >= self.shared_ms + SHARED_EVERY_MS:
            self.share(at_ms)

    def paused(self, since_ms: int, until_ms: int) -> None:
        """No deadline ran between two times: what is open is open for longer, and nobody was late meanwhile."""
        self.share(since_ms)
        if (wait := self.open_wait()) is not None:
            wait.limit_ms += until_ms - max(since_ms, self.start_ms + wait.opened_ms)
        for member_id, (from_ms, late_ms) in self.awaited.items():
            by_ms = until_ms - max(since_ms, from_ms)
            self.awaited[member_id] = from_ms + by_ms, late_ms + by_ms

    def opened(self, barrier: str, event: Event, deadline_ms: int) -> None:
        """A barrier opens; an initial delay that is extended stays one."""
        waits = self.episode.waits
        if waits and waits[-1].closed_ms < 0:
            last = waits[-1]
            if last.barrier == barrier:
                last.limit_ms = deadline_ms - self.start_ms - last.opened_ms
                return
            last.closed_ms = self.at(event)
        waits.append(Wait(str(barrier), self.at(event), limit_ms=deadline_ms - event.at_ms))

    def open_wait(self, barrier: str | None = None) -> Wait | None:
        """The barrier that is open now, if it is that one."""
        waits = self.episode.waits
        if not waits or waits[-1].closed_ms >= 0 or (barrier is not None and waits[-1].barrier != barrier):
            return None
        return waits[-1]

    def nobody_awaited(self, event: Event) -> None:
        """A barrier is over."""
        for member_id in list(self.awaited):
            self.arrived(member_id, event)

    def close_all(self, event: Event) -> None:
        """Whatever is open is so no longer."""
        for wait in self.episode.waits:
            if wait.closed_ms < 0:
                wait.closed_ms = self.at(event)
                self.nobody_awaited(event)
                if wait.barrier == "sync" and not wait.last:
                    wait.last = [at for at, part in enumerate(self.episode.members) if part.is_leader]


@dataclass(slots=True, eq=False)
class Standing:
    """Partitions that nobody consumes: since when, who gave them up, and whether that one is gone.

    They outlast an episode.
    """

    since: dict[Partition, tuple[int, str, bool]] = field(default_factory=dict)

    def stop(self, partitions: Iterable[Partition], at_ms: int, member_id: str, *, is_gone: bool) -> None:
        """Partitions stand still from a moment on, unless they did before."""
        for partition in partitions:
            self.since.setdefault(partition, (at_ms, member_id, is_gone))

    def resume(self, partitions: Iterable[Partition]) -> None:
        """Somebody consumes them again."""
        for partition in partitions:
            self.since.pop(partition, None)

    def resume_in(self, run: Run, partitions: Iterable[Partition], at_ms: int) -> None:
        """Somebody consumes partitions again, while others may stand: put what they stood on an episode's accounts."""
        again = Standing({one: self.since.pop(one) for one in partitions if one in self.since})
        if again.since:
            run.unshared += again.stood(run, at_ms)
            run.share_some(at_ms)

    def stood_ms(self, at_ms: int) -> int:
        """Partition-milliseconds in which they stood still until a moment, on no account so far."""
        return sum(max(0, at_ms - since_ms) for since_ms, _, _ in self.since.values())

    def charge(self, run: Run, at_ms: int) -> None:
        """Put what stood still until now on an episode's accounts; what goes on standing begins afresh."""
        run.unshared += self.stood(run, at_ms)
        run.share(at_ms)

    def stood(self, run: Run, at_ms: int) -> list[Still]:
        """Count what stood still until now for an episode; what goes on standing begins afresh.

        Returns:
            What is to be put on accounts.
        """
        episode = run.episode
        together: dict[tuple[int, str, bool], int] = {}
        for partition, row in self.since.items():
            since_ms, member_id, is_gone = row
            for_ms = at_ms - since_ms
            if for_ms <= 0:
                continue
            together[row] = together.get(row, 0) + 1
            episode.stood_ms += for_ms
            episode.stopped += 1
            if for_ms > episode.longest_ms:
                episode.longest_ms = for_ms
            if (part := run.part_of(member_id)) is not None:
                part.stood_ms += for_ms
            self.since[partition] = (at_ms, member_id, is_gone)
        began = beginner(episode.triggers)
        return [
            Still(since_ms, count, run.index.get(member_id, -1) if is_gone else began, at_ms)
            for (since_ms, member_id, is_gone), count in together.items()
        ]
