"""Follows one group through its events and makes episodes of them: `Tracker`, and which event it does what with."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ottla.broker.core.events import (
    AppendFinished,
    AssignmentReceived,
    AssignmentsPublished,
    BarrierClosed,
    BarrierOpened,
    CommitReceived,
    Disconnected,
    Event,
    GenerationStarted,
    GroupLoaded,
    GroupRemoved,
    JoinReceived,
    LeaderChanged,
    LeaveReceived,
    MemberAdded,
    MemberIdIssued,
    MemberLeft,
    MemberRejected,
    MemberReplaced,
    PendingMemberExpired,
    RebalanceStarted,
    ReplacementReverted,
    RequestAnswered,
    RequestParked,
    RequestReceived,
    RequestRefused,
    SessionExpired,
    SessionExtended,
    StateChanged,
    SyncReceived,
    TimerFired,
    WriteFailed,
)
from ottla.observe.why import judge
from ottla.observe.why.comings import Comings
from ottla.observe.why.members import Departure, Known, Partition, read_partitions
from ottla.observe.why.model import Move
from ottla.observe.why.run import MOST_MOVES, Run
from ottla.protocol.consumer_protocol import PROTOCOL_TYPE


class Tracker(Comings):
    """The barriers of a group, and what becomes of it as a whole; see `Account` for its state."""

    # The two barriers

    def on_rebalance_started(self, event: RebalanceStarted) -> None:
        happenings, self.happenings = self.happenings, []
        joined, self.joined = self.joined, []
        if self.run is not None:
            self._end(event, "superseded")
        self.replacing = None
        self.generation = event.generation
        run = self.run = self._new_run("rebalance", event)
        self._count(run)
        for known in self.members.values():
            run.place(known)
        if not happenings:
            happenings = [judge.by_reason(self, event)]
        for one in happenings:
            if one.cause == "static-member-replaced":
                one = one._replace(cause="static-replaced-protocol-changed")
            self._add(run, one, event, first=True)
        for known in joined:
            run.came(known, event)

    def on_barrier_opened(self, event: BarrierOpened) -> None:
        run = self.run
        if run is not None:
            # Of a sync barrier all others wait for nobody but the leader.
            leader = [self.leader_id] if self.leader_id in event.awaited else []
            is_again = any(wait.barrier == event.barrier for wait in run.episode.waits)
            run.waits_for(event.awaited if event.barrier == "join" else leader, event, is_again=is_again)
            run.opened(event.barrier, event, event.deadline_ms)
        elif event.barrier == "sync":
            return
        if event.barrier == "sync":
            for known in self.members.values():
                known.awaited_sync = self.generation

    def on_barrier_closed(self, event: BarrierClosed) -> None:
        if event.barrier == "sync":
            self._sync_over(event)
            return
        closers = self._closers()
        self.settle(event)
        run = self.run or self._unseen(event)
        wait = run.open_wait()
        if event.barrier == "no member rejoined":
            run.trigger("nobody-rejoined", None, event, "", {})
            if wait is not None:
                wait.closed_ms = run.at(event)
            return
        if wait is not None:
            wait.closed_ms = run.at(event)
        run.nobody_awaited(event)
        for member_id, heard_ms in zip(event.absent, event.absent_heard_ms, strict=False):
            self._dropped(run, member_id, heard_ms, event)
        if wait is None or wait.barrier != "join":
            return
        wait.absent = [run.index[member_id] for member_id in event.absent if member_id in run.index]
        wait.last = list(wait.absent)
        if not event.absent:
            wait.last = [run.index[member_id] for member_id in dict.fromkeys(closers) if member_id in run.index]
            if isinstance(self.input, TimerFired) and not wait.last:
                # Static members that did not come stay; else it was an issued id that was awaited.
                wait.last = [run.index[one.member_id] for one in self.members.values() if run.part(one).came_ms < 0]
                if not wait.last:
                    wait.pending_ids = list(self.issued) or list(filter(None, [self.input.member_id]))

    def _closers(self) -> list[str]:
        """By whose input the join barrier closes, if it was not the time."""
        return [
            *(known.member_id for known in self.joined),
            *(one.known.member_id for one in self.happenings if one.known is not None),
        ]

    def _dropped(self, run: Run, member_id: str, heard_ms: int, event: Event) -> None:
        known = self.members.pop(member_id, None)
        if known is None:
            known = Known(member_id, "", "", None)
        stopped_ms = max(known.heard_ms, heard_ms)
        if not judge.is_unheard(self, known, heard_ms):
            known.heard_ms = stopped_ms
        run.removed(known, "dropped", event)
        facts = judge.dropped_facts(self, run, known, event)
        run.trigger("join-barrier-missed", known, event, "", facts)
        self.departures.gone(Departure(known, "join-barrier-missed", event.at_ms, event.wall_ms), len(self.members))
        self._stop(known, max(stopped_ms, known.lost_ms))

    def _sync_over(self, event: BarrierClosed) -> None:
        """Who owes its SyncGroup is dropped, and another rebalance begins at once."""
        run = self.run
        wait = None if run is None else run.open_wait("sync")
        for member_id, heard_ms in zip(event.absent, event.absent_heard_ms, strict=False):
            known = self.members.pop(member_id, None)
            if known is None:
                continue
            known.heard_ms = max(known.heard_ms, heard_ms)
            is_leader = member_id == self.leader_id and run is not None
            cause = "leader-never-synced" if is_leader else "sync-timeout"
            self._gone(known, cause, "", judge.unsynced_facts(self, known, event), "unsynced", event)
            self._stop(known, max(known.heard_ms, known.lost_ms))
            if run is not None:
                run.removed(known, "unsynced", event)
                run.trigger(cause, known, event, "", self.happenings[-1].facts)
                if wait is not None:
                    wait.absent.append(run.place(known))
        if wait is not None and run is not None:
            wait.closed_ms = run.at(event)
            run.nobody_awaited(event)
            leader = run.index.get(self.leader_id or "", -1)
            wait.last = [leader] if leader in wait.absent else list(wait.absent)

    def on_generation_started(self, event: GenerationStarted) -> None:
        self.settle(event)
        run = self.run or self._unseen(event)
        self.generation = event.generation
        self.leader_id = event.leader_id
        self.protocol_name = event.protocol_name or ""
        run.episode.generation_after = event.generation
        run.episode.protocol_name = self.protocol_name
        if (part := run.part_of(event.leader_id or "")) is not None:
            part.is_leader = True
        if not event.members:
            self._end(event, "empty")
            self.departures.emptied_ms = event.wall_ms

    def on_assignment_received(self, event: AssignmentReceived) -> None:
        run = self.run
        if run is None:
            return
        wait = run.open_wait("sync")
        if wait is not None and event.leader_id in run.index:
            wait.last = [run.index[event.leader_id]]

    def on_published(self, event: AssignmentsPublished) -> None:
        self.settle(event)
        run = self.run or self._unseen(event)
        owner_before: dict[Partition, str] = {}
        for member_id, assignment in run.gone.items():
            owner_before.update((one, member_id) for one in read_partitions(assignment) or ())
        given: dict[str, list[Partition]] = {}
        is_known = is_consumer = self.protocol_type in (None, PROTOCOL_TYPE)
        for member_id, data in ((one.name, one.data) for one in event.assignments):
            known = self.members.get(member_id)
            if known is None:
                known = self.members[member_id] = Known(member_id, "", "", None)
            if known.owned:
                owner_before.update((one, member_id) for one in read_partitions(known.assignment) or ())
            partitions = known.assign(data, is_readable=is_consumer)
            is_known = is_known and partitions is not None
            given[member_id] = partitions or []
            run.part(known).after = known.owned
        run.episode.partitions_known = is_known
        self.formed_ms = event.at_ms
        self.standing.charge(run, event.at_ms)
        if is_known:
            self._hand_over(run, owner_before, given, event.at_ms)
        self._end(event, "stable", charge=False)

    def _hand_over(
        self, run: Run, owner_before: dict[Partition, str], given: dict[str, list[Partition]], at_ms: int
    ) -> None:
        """Partitions change hands; those that nobody has now go on standing still."""
        moves = []
        standing = self.standing.since
        for member_id, partitions in given.items():
            index = run.index[member_id]
            for one in partitions:
                before = owner_before.pop(one, "")
                if before != member_id:
                    moves.append(Move(one[0], one[1], run.index.get(before, -1), index))
                standing.pop(one, None)
        wanted = {topic for known in self.members.values() for topic in known.asked.topics or ()}
        for one, before in owner_before.items():
            moves.append(Move(one[0], one[1], run.index.get(before, -1), -1))
            if one[0] in wanted:
                standing.setdefault(one, (at_ms, before, False))
        for one in [one for one in standing if one[0] not in wanted]:
            del standing[one]
        run.episode.moved = len(moves)
        run.episode.moves = moves[:MOST_MOVES]
        run.episode.unowned = len(standing)
        for member_id, partitions in given.items():
            if self.members[member_id].awaited_sync >= 0:
                # It has not fetched what it was given.
                self.standing.stop(partitions, at_ms, member_id, is_gone=True)

    # The group

    def on_state_changed(self, event: StateChanged) -> None:
        self.previous = event.before
        self.state = event.after
        if event.after != "Dead":
            return
        if judge.ownership(self):
            run = self.run or self._new_run("stopped", event)
            self.run = run
            for known in self.members.values():
                run.place(known)
            run.trigger("coordinator-moved", None, event, "", {})
        self._end(event, "dead")
        self.forget()

    def on_group_removed(self, event: GroupRemoved) -> None:
        self.settle(event)
        self._end(event, "dead")
        self.forget()
        self.generation = -1

    def on_group_loaded(self, event: GroupLoaded) -> None:
        self._end(event, "dead")
        self.forget()
        self.state = event.state
        self.generation = event.generation
        self.protocol_type = event.protocol_type
        self.protocol_name = event.protocol_name or ""
        self.leader_id = event.leader_id
        self.loaded_ms = event.at_ms
        for member in event.loaded:
            self.members[member.member_id] = Known.loaded(member, event.protocol_type, event.protocol_name)
        if not self.members:
            return
        run = self._new_run("loaded", event)
        run.episode.generation_after = event.generation
        for known in self.members.values():
            part = run.part(known)
            part.after = known.owned
            part.is_leader = known.member_id == self.leader_id
        run.trigger(
            "coordinator-loaded",
            None,
            event,
            "",
            {"members": str(len(self.members)), "generation": str(event.generation)},
        )
        self._finish_run(run, event, "loaded")


HANDLERS: dict[type[Event], Callable[[Tracker, Any], None]] = {
    AppendFinished: Tracker.on_input,
    AssignmentReceived: Tracker.on_assignment_received,
    AssignmentsPublished: Tracker.on_published,
    BarrierClosed: Tracker.on_barrier_closed,
    BarrierOpened: Tracker.on_barrier_opened,
    CommitReceived: Tracker.on_commit,
    Disconnected: Tracker.on_disconnected,
    GenerationStarted: Tracker.on_generation_started,
    GroupLoaded: Tracker.on_group_loaded,
    GroupRemoved: Tracker.on_group_removed,
    JoinReceived: Tracker.on_join_received,
    LeaderChanged: Tracker.on_leader_changed,
    LeaveReceived: Tracker.on_leave_received,
    MemberAdded: Tracker.on_member_added,
    MemberIdIssued: Tracker.on_member_id_issued,
    MemberLeft: Tracker.on_member_left,
    MemberRejected: Tracker.on_rejected,
    MemberReplaced: Tracker.on_member_replaced,
    PendingMemberExpired: Tracker.on_pending_expired,
    RebalanceStarted: Tracker.on_rebalance_started,
    ReplacementReverted: Tracker.on_replacement_reverted,
    RequestAnswered: Tracker.on_answered,
    RequestParked: Tracker.on_parked,
    RequestReceived: Tracker.on_request,
    RequestRefused: Tracker.on_refused,
    SessionExpired: Tracker.on_session_expired,
    SessionExtended: Tracker.on_session_extended,
    StateChanged: Tracker.on_state_changed,
    SyncReceived: Tracker.on_sync_received,
    TimerFired: Tracker.on_input,
    WriteFailed: Tracker.on_write_failed,
}
"""What a tracker does with an event; of other types it has no use."""
