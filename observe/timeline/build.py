"""Makes a timeline of what is known about a group: its episodes, its traffic, and what it is now."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ottla.observe.snapshot import GroupState, MemberState
from ottla.observe.timeline.lanes import Lanes, Track
from ottla.observe.timeline.model import UNREADABLE, Barrier, Fired, Kind, Mark, Timeline
from ottla.observe.timeline.traffic import Traffic
from ottla.observe.why.model import Episode, Fault, MemberPart, Wait
from ottla.observe.why.phrases import fault_name, fault_phrase
from ottla.observe.why.waits import REVOKES
from ottla.observe.why.words import PATTERNS

MAX_LANES = 1_000
LEAD = 0.04
"""Part of the whole that is shown before the first episode, to see what was there before."""
LEAST_LEAD_MS = 200
QUIET_MS = 600_000
"""The time that is shown of a group to which nothing has happened."""
REMOVED = {"left", "expired", "dropped", "unsynced", "replaced"}
QUIET = 0.5
"""The part of its session timeout for which a member may be unheard before it is shown as silent."""


def build(
    group_id: str,
    episodes: Sequence[Episode],
    *,
    traffic: Traffic | None = None,
    state: GroupState | None = None,
    now_ms: int | None = None,
    faults: Sequence[Fault] = (),
    max_lanes: int = MAX_LANES,
) -> Timeline:
    """The timeline of episodes, in order; for the rest see `Builder`. Commits and lag come from ``traffic``.

    Args:
        faults: those too that are in no episode.
    """
    builder = Builder(group_id, episodes, state=state, now_ms=now_ms, max_lanes=max_lanes)
    for episode in episodes:
        builder.add(episode)
    builder.add_faults(faults)
    return builder.finish(traffic)


def _edges(episodes: Sequence[Episode], state: GroupState | None, now_ms: int | None) -> tuple[int, int]:
    ends = [one.started_ms + max(one.duration_ms, 0) for one in episodes] + [one.last_ms for one in episodes]
    until_ms = max([*ends, now_ms or 0])
    if not episodes:
        return until_ms - QUIET_MS, until_ms
    first_ms = min(one.started_ms for one in episodes)
    before = [part.heard_ms for one in episodes for part in one.members if part.heard_ms]
    if state is not None and state.state_since_ms:
        before.append(state.state_since_ms)
    # A member may have been silent for long before the first episode: not all of that is worth the width.
    earliest_ms = max(min([first_ms, *before]), first_ms - max(until_ms - first_ms, 60_000))
    return earliest_ms - max(int((until_ms - earliest_ms) * LEAD), LEAST_LEAD_MS), until_ms


_WAITING = {"waits-for-release": Kind.JOINED, "free": Kind.JOINED, "away": Kind.SILENT, "regex": Kind.JOINED}
"""The state of a member of a consumer group while something is waited for; else others wait for it to do something."""


class Builder:
    """Makes a timeline episode by episode, so that whoever has many need not have them all at once.

    Args:
        known: the episodes, or at least the first; with ``now_ms`` it is enough.
        state: what the group is now; leave it out for a recording.
        now_ms: the right edge as Unix time; leave it out to end with the last episode.
        max_lanes: members beyond this have none; those that came first are left out.
    """

    def __init__(
        self,
        group_id: str,
        known: Sequence[Episode],
        *,
        state: GroupState | None = None,
        now_ms: int | None = None,
        max_lanes: int = MAX_LANES,
    ) -> None:
        self.from_ms, self.until_ms = _edges(known, state, now_ms)
        self.until = self.until_ms - self.from_ms
        self.lanes = Lanes(max_lanes)
        self.timeline = Timeline(
            group_id=group_id,
            from_ms=self.from_ms,
            until=self.until,
            is_live=now_ms is not None,
            lanes=self.lanes.shown,
        )
        self._state = state

    def finish(self, traffic: Traffic | None) -> Timeline:
        """After the last episode: the timeline."""
        timeline = self.timeline
        if self._state is not None:
            self._present(self._state)
            timeline.state, timeline.generation = self._state.state, self._state.generation
        else:
            timeline.generation = max((mark.generation for mark in timeline.marks), default=-1)
        timeline.hidden = self.lanes.hidden
        if traffic is not None:
            timeline.flow = traffic.flow(timeline.group_id, self.from_ms, self.until_ms)
        return timeline

    def add(self, episode: Episode) -> None:
        """Take the next episode."""
        start = min(max(episode.started_ms - self.from_ms, 0), self.until)
        end = self.until if episode.duration_ms < 0 else min(start + episode.duration_ms, self.until)
        waits = sorted(episode.waits, key=lambda one: one.opened_ms)
        joined = max((one.closed_ms for one in waits if one.barrier != "sync"), default=-1)
        synced = max((one.closed_ms for one in waits if one.barrier == "sync"), default=-1)
        is_join_open = any(one.closed_ms < 0 for one in waits if one.barrier != "sync")
        join_end = end if joined < 0 or is_join_open else min(start + joined, end)
        # A pattern is told at the end, of something that happened before.
        told = (one for one in episode.triggers if one.cause not in PATTERNS)
        left = {one.member: start + one.at_ms for one in told if one.member >= 0}
        tracks: list[Track | None] = [None] * len(episode.members)
        # Those that go make room for those that come.
        turns = sorted(enumerate(episode.members), key=lambda one: (one[1].fate not in REMOVED, one[1].came_ms))
        for index, part in turns:
            track = tracks[index] = self.lanes.of(part, episode.kind, start)
            if track is None:
                continue
            track.lane.blamed_ms += part.blamed_ms
            if part.disconnected_ms:
                track.lane.lost.append(max(part.disconnected_ms - self.from_ms, 0))
            if episode.kind == "loaded":
                track.change(start, Kind.OWNING, _share(episode, part.after))
            elif episode.protocol:
                until = min(left.get(index, end), end) if part.fate in REMOVED else end
                self._reconciled(track, index, part, start, until, episode)
            elif episode.kind == "rebalance":
                if part.fate in REMOVED:
                    barrier_end = {"dropped": join_end, "unsynced": start + synced if synced >= 0 else end}
                    at = min(left.get(index, start), end) if part.fate not in barrier_end else barrier_end[part.fate]
                    self._removed(track, part, start, at, join_end, _share(episode, part.before))
                elif part.fate != "refused":
                    self._stayed(track, part, start, join_end, end, episode)
        self.add_faults(episode.faults)
        self.timeline.marks.append(self._mark(episode, start, waits, tracks))

    def add_faults(self, faults: Iterable[Fault]) -> None:
        """Put faults on the lanes of their members; several episodes may tell of one."""
        for fault in faults:
            if fault.last_ms < self.from_ms or (lane := self.lanes.hit(fault)) is None:
                continue
            at, last = max(fault.first_ms - self.from_ms, 0), min(fault.last_ms - self.from_ms, self.until)
            words = f"{fault_phrase(fault)} {fault_name(fault)}"
            others = [one for one in lane.faults if (one.at, one.words) != (at, words)]
            lane.faults = [*others, Fired(at, last, fault.times, words)]

    def _stayed(self, track: Track, part: MemberPart, start: int, join_end: int, end: int, episode: Episode) -> None:
        """A member that is there at the end: joining, joined, syncing, synced, owning."""
        outcome, owns = episode.outcome, _share(episode, part.after)
        came = start + part.came_ms if part.came_ms >= 0 else -1
        if not track.is_gone and outcome == "stable" and track.at <= start <= came <= join_end:
            # By far the most frequent: it was there, came, got its share.
            synced = min(max(start + part.synced_ms, join_end), end) if part.synced_ms >= 0 else end
            track.through(start, came, join_end, synced, end, owns)
            return
        if track.is_gone and part.fate != "stayed":
            # It was not there before it came.
            if came < 0:
                return
            track.tenant(came, part.member_id)
        else:
            if track.is_gone:
                track.begin(part, _share(episode, part.before))
            track.change(start, Kind.JOINING)
        if came >= 0:
            track.change(min(came, join_end), Kind.JOINED)
        if join_end < end or outcome not in ("running", "superseded"):
            track.change(join_end, Kind.SYNCING)
            if part.synced_ms >= 0:
                track.change(min(max(start + part.synced_ms, join_end), end), Kind.SYNCED)
        if outcome == "superseded":
            # The next episode begins here, and says what the member does.
            track.change(end, Kind.JOINING)
        elif outcome != "running":
            track.change(end, Kind.OWNING, owns)

    def _reconciled(self, track: Track, index: int, part: MemberPart, start: int, end: int, episode: Episode) -> None:
        """A member of a consumer group: it owns its partitions all the while but for what others wait for it to do."""
        if part.fate == "refused" or episode.kind == "refusal":
            return
        if track.is_gone and part.fate in ("new", "returned"):
            track.tenant(start, part.member_id)
            track.change(start, Kind.JOINED)
        elif track.is_gone:
            track.begin(part, part.before)
        for wait in sorted((one for one in episode.member_waits if one.member == index), key=lambda one: one.since_ms):
            kind = _WAITING.get(wait.kind, Kind.JOINING)
            if kind is Kind.JOINING and not (wait.blocked or wait.kind in REVOKES):
                continue
            until = end if wait.until_ms < 0 else min(start + wait.until_ms, end)
            track.change(max(start + wait.since_ms, start), kind)
            if wait.until_ms >= 0 and until < end:
                track.change(until, Kind.OWNING, part.after if kind is Kind.JOINED else part.before)
        if part.fate in REMOVED:
            heard = part.heard_ms - self.from_ms
            if part.fate == "expired" and part.heard_ms and not episode.member_waits and heard < end:
                track.silent(max(heard, 0))
            track.gone(end, part.fate)
        elif episode.outcome == "stable" or episode.outcome == "replaced":
            track.change(end, Kind.OWNING, part.after)

    def _removed(self, track: Track, part: MemberPart, start: int, at: int, join_end: int, owned: int) -> None:
        has_come = track.is_gone and bool(track.lane.changes) and part.came_ms >= 0
        if has_come:
            # Another had the lane before; this one came and went while the rebalance ran.
            track.tenant(start + part.came_ms, part.member_id)
        elif track.is_gone:
            track.begin(part, owned)
        if part.fate == "replaced":
            return
        if at > start:
            if not has_come:
                track.change(start, Kind.JOINING)
            if part.came_ms >= 0:
                track.change(min(start + part.came_ms, at), Kind.JOINED)
                if at > join_end:
                    track.change(join_end, Kind.SYNCING)
        heard = part.heard_ms - self.from_ms
        if part.fate != "left" and part.heard_ms and heard < at:
            track.silent(max(heard, 0))
        track.gone(at, part.fate)

    def _mark(self, episode: Episode, start: int, waits: list[Wait], tracks: list[Track | None]) -> Mark:
        def lanes(indexes: Iterable[int]) -> list[int]:
            found = (tracks[one] for one in indexes if 0 <= one < len(tracks))
            return [one.index for one in found if one is not None]

        def lane(index: int) -> int:
            return next(iter(lanes([index])), -1)

        barriers = [
            Barrier(
                barrier=one.barrier,
                opened=start + one.opened_ms,
                closed=start + one.closed_ms if one.closed_ms >= 0 else -1,
                limit_ms=one.limit_ms,
                last=lanes(one.last),
                absent=lanes(one.absent),
                pending=len(one.pending_ids),
            )
            for one in waits
        ]
        barriers += [
            Barrier(
                barrier=one.kind,
                opened=start + max(one.since_ms, 0),
                closed=start + one.until_ms if one.until_ms >= 0 else -1,
                limit_ms=one.limit_ms - max(one.since_ms, 0) if one.limit_ms else 0,
                last=lanes([one.member]),
            )
            for one in episode.member_waits
            if one.blocked or one.member < 0
        ]
        for barrier in barriers:
            took = (barrier.closed if barrier.closed >= 0 else self.until) - barrier.opened
            for index in {*barrier.last, *barrier.absent} if barrier.barrier != "initial delay" else ():
                self.lanes.shown[index].held_ms += took
                self.lanes.shown[index].held += 1
        return Mark(
            number=episode.number,
            kind=episode.kind,
            start=start,
            end=-1 if episode.duration_ms < 0 else start + episode.duration_ms,
            last=min(episode.last_ms - self.from_ms, self.until) if episode.times > 1 else -1,
            generation=-1 if episode.kind == "refusal" else episode.generation_after,
            protocol=episode.protocol,
            outcome=episode.outcome,
            cause=episode.cause,
            culprit=lane(episode.culprit),
            trigger=lane(episode.triggers[0].member) if episode.triggers else -1,
            members=sum(1 for one in episode.members if one.fate not in REMOVED and one.fate != "refused"),
            stood_ms=episode.stood_ms,
            longest_ms=episode.longest_ms,
            stopped=episode.stopped,
            times=episode.times,
            barriers=barriers,
            headline=episode.headline,
            sentences=episode.sentences,
            advice=[one.text for one in episode.advice],
        )

    def _present(self, state: GroupState) -> None:
        """Bring the lanes to what the group is now: the history may have holes, and says nothing of the silent."""
        present = {}
        for member in state.members:
            track = self.lanes.now(member, self.until)
            if track is None:
                continue
            present[track.index] = member
            self._now(track, member, state)
        for track in self.lanes.tracks:
            if track.index not in present and not track.is_gone:
                track.gone(self.until, "")

    def _now(self, track: Track, member: MemberState, state: GroupState) -> None:
        lane = track.lane
        lane.is_present, lane.is_leader, lane.heard_ms = True, member.is_leader, member.heard_ms
        count = sum(len(partitions) for partitions in member.assignment.values())
        if member.topics is None and not count:
            count = UNREADABLE
        since = max(state.state_since_ms - self.from_ms, 0) if state.state_since_ms else self.until
        if track.is_gone or not lane.changes:
            track.tenant(min(since, self.until), member.member_id)
            track.change(min(since, self.until), Kind.OWNING, count)
        elif track.kind is Kind.OWNING and track.owns != count and state.state == "Stable":
            track.change(self.until, Kind.OWNING, count)
        if not member.waits_for and member.heard_ms > member.session_timeout_ms * QUIET:
            track.silent(max(self.until - member.heard_ms, 0))


def _share(episode: Episode, count: int) -> int:
    return count if episode.partitions_known else UNREADABLE
