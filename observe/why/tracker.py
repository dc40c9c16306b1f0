"""Follows a group through its events and makes episodes of them: which event changes what of its account."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ottla.broker.core import events
from ottla.observe.why import comings, consumer_groups, judge
from ottla.observe.why.account import Account
from ottla.observe.why.causes import Cause
from ottla.observe.why.episodes import end, finish, reconsider
from ottla.observe.why.interference import Interference, put
from ottla.observe.why.members import NEVER, Departure, Known, Partition, read_partitions
from ottla.observe.why.model import Move
from ottla.observe.why.run import MOST_MOVES, Run
from ottla.protocol.consumer_protocol import PROTOCOL_TYPE

# Inputs


def on_input(account: Account, event: events.Input) -> None:
    """Something came in: what the last input brought about is complete."""
    if account.happenings or account.joined:
        account.settle(event)
    account.last = event


def on_request(account: Account, event: events.RequestReceived) -> Known | None:
    """A request came in; its member shows that it lives. Returns it, None for who is none."""
    if account.happenings or account.joined:
        account.settle(event)
    account.last = event
    known = account.members.get(event.member_id)
    if known is not None and event.api != "Heartbeat":
        known.is_connected = True
        known.heard_ms = known.sign_ms = event.at_ms
        known.lost_ms = NEVER
    return known


def on_commit(account: Account, event: events.CommitReceived) -> None:
    """An OffsetCommit: the most frequent of all requests that leave an event."""
    on_input(account, event)
    known = account.members.get(event.member_id)
    if known is not None:
        known.heard_ms = known.sign_ms = event.at_ms


def on_join_received(account: Account, event: events.JoinReceived) -> None:
    on_request(account, event)
    if account.protocol_type is None or not account.members:
        account.protocol_type = event.protocol_type


def on_sync_received(account: Account, event: events.SyncReceived) -> None:
    known = on_request(account, event)
    if known is None or event.generation != account.generation:
        return
    known.awaited_sync = -1
    if account.run is None:
        if account.standing.since:
            account.standing.resume(known.partitions())
    elif (part := account.run.part_of(event.member_id)) is not None:
        part.synced_ms = event.at_ms - account.run.start_ms
        if account.run.awaited:
            account.run.arrived(event.member_id, event)


def on_session_extended(account: Account, event: events.SessionExtended) -> None:
    on_input(account, event)
    known = account.members.get(event.member_id)
    heard_ms = account.heard_ms(event, event.last_heard_ms)
    if known is not None and heard_ms > known.heard_ms:
        known.heard_ms = heard_ms
        if known.lost_ms < heard_ms:
            known.lost_ms = NEVER


def on_disconnected(account: Account, event: events.Disconnected) -> None:
    on_input(account, event)
    known = account.members.get(event.member_id)
    if known is None:
        if account.departures.closed(event) is not None and account.unsure is not None:
            reconsider(account, account.unsure)
        return
    known.lost_ms = event.at_ms
    if account.run is not None and (part := account.run.part_of(event.member_id)) is not None:
        part.disconnected_ms = event.wall_ms


# Faults and pauses


def on_fault_fired(account: Account, event: events.FaultFired) -> None:
    account.interference = account.interference or Interference()
    fault = account.interference.fired(event)
    if account.run is None and event.api == "SyncGroup":
        # It is what a rebalance ends with for this member, though the group is Stable already.
        last = account.unsure or account.newest(account.group_id)
        if last is not None and last.outcome == "stable":
            put(last, [fault])
            account.replace(last)


def on_deadlines_held(account: Account, event: events.DeadlinesHeld) -> None:
    on_input(account, event)
    account.interference = account.interference or Interference()
    account.interference.held(event)


def on_deadlines_moved(account: Account, event: events.DeadlinesMoved) -> None:
    on_input(account, event)
    account.interference = account.interference or Interference()
    account.interference.moved(event)
    if account.run is not None:
        account.run.paused(event.at_ms - event.by_ms, event.at_ms)


# The two barriers


def on_rebalance_started(account: Account, event: events.RebalanceStarted) -> None:
    happenings, account.happenings = account.happenings, []
    joined, account.joined = account.joined, []
    if account.run is not None:
        end(account, event, "superseded")
    account.replacing = None
    account.generation = event.generation
    run = account.run = account.new_run("rebalance", event)
    account.count_run(run)
    for known in account.members.values():
        run.place(known)
    if not happenings:
        happenings = [judge.by_reason(account, event)]
    for one in happenings:
        if one.cause == Cause.STATIC_MEMBER_REPLACED:
            one = one._replace(cause=Cause.STATIC_REPLACED_PROTOCOL_CHANGED)
        account.add(run, one, event, first=True)
    for known in joined:
        run.came(known, event)


def on_barrier_opened(account: Account, event: events.BarrierOpened) -> None:
    run = account.run
    if run is not None:
        # Of a sync barrier all others wait for nobody but the leader.
        leader = [account.leader_id] if account.leader_id in event.awaited else []
        is_again = any(wait.barrier == event.barrier for wait in run.episode.waits)
        run.waits_for(event.awaited if event.barrier == "join" else leader, event, is_again=is_again)
        run.opened(event.barrier, event, event.deadline_ms)
    elif event.barrier == "sync":
        return
    if event.barrier == "sync":
        for known in account.members.values():
            known.awaited_sync = account.generation


def on_barrier_closed(account: Account, event: events.BarrierClosed) -> None:
    if event.barrier == "sync":
        _sync_over(account, event)
        return
    # The members whose input closes the join barrier, if the time does not.
    closers = [known.member_id for known in account.joined]
    closers += [one.known.member_id for one in account.happenings if one.known is not None]
    account.settle(event)
    run = account.run or account.unseen(event)
    wait = run.open_wait()
    if event.barrier == "no member rejoined":
        run.trigger(Cause.NOBODY_REJOINED, None, event, "", {})
        if wait is not None:
            wait.closed_ms = run.at(event)
        return
    if wait is not None:
        wait.closed_ms = run.at(event)
    run.nobody_awaited(event)
    for member_id, heard_ms in zip(event.absent, event.absent_heard_ms, strict=False):
        _dropped(account, run, member_id, heard_ms, event)
    if wait is None or wait.barrier != "join":
        return
    wait.absent = [run.index[member_id] for member_id in event.absent if member_id in run.index]
    wait.last = list(wait.absent)
    if not event.absent:
        wait.last = [run.index[member_id] for member_id in dict.fromkeys(closers) if member_id in run.index]
        if isinstance(account.input, events.TimerFired) and not wait.last:
            # Static members that did not come stay; else it was an issued id that was awaited.
            wait.last = [run.index[one.member_id] for one in account.members.values() if run.part(one).came_ms < 0]
            if not wait.last:
                wait.pending_ids = list(account.issued) or list(filter(None, [account.input.member_id]))


def _dropped(account: Account, run: Run, member_id: str, heard_ms: int, event: events.Event) -> None:
    known = account.members.pop(member_id, None) or Known(member_id, "", "", None)
    heard_ms = account.heard_ms(event, heard_ms)
    stopped_ms = max(known.heard_ms, heard_ms)
    if not judge.is_unheard(account, known, heard_ms):
        known.heard_ms = stopped_ms
    run.removed(known, "dropped", event)
    facts = judge.dropped_facts(account, run, known, event)
    run.trigger(Cause.JOIN_BARRIER_MISSED, known, event, "", facts)
    account.departures.gone(
        Departure(known, Cause.JOIN_BARRIER_MISSED, event.at_ms, event.wall_ms), len(account.members)
    )
    account.stop(known, max(stopped_ms, known.lost_ms))


def _sync_over(account: Account, event: events.BarrierClosed) -> None:
    """Members that owe their SyncGroup are dropped, and another rebalance begins at once."""
    run = account.run
    wait = None if run is None else run.open_wait("sync")
    for member_id, heard_ms in zip(event.absent, event.absent_heard_ms, strict=False):
        known = account.members.pop(member_id, None)
        if known is None:
            continue
        known.heard_ms = max(known.heard_ms, account.heard_ms(event, heard_ms))
        is_leader = member_id == account.leader_id and run is not None
        cause = Cause.LEADER_NEVER_SYNCED if is_leader else Cause.SYNC_TIMEOUT
        account.gone(known, cause, "", judge.unsynced_facts(account, known, event), "unsynced", event)
        account.stop(known, max(known.heard_ms, known.lost_ms))
        if run is not None:
            run.removed(known, "unsynced", event)
            run.trigger(cause, known, event, "", account.happenings[-1].facts)
            if wait is not None:
                wait.absent.append(run.place(known))
    if wait is not None and run is not None:
        wait.closed_ms = run.at(event)
        run.nobody_awaited(event)
        leader = run.index.get(account.leader_id or "", -1)
        wait.last = [leader] if leader in wait.absent else list(wait.absent)


def on_generation_started(account: Account, event: events.GenerationStarted) -> None:
    account.settle(event)
    run = account.run or account.unseen(event)
    account.generation = event.generation
    account.leader_id = event.leader_id
    account.protocol_name = event.protocol_name or ""
    run.episode.generation_after = event.generation
    run.episode.protocol_name = account.protocol_name
    if (part := run.part_of(event.leader_id or "")) is not None:
        part.is_leader = True
    if not event.members:
        end(account, event, "empty")
        account.departures.emptied_ms = event.wall_ms


def on_assignment_received(account: Account, event: events.AssignmentReceived) -> None:
    run = account.run
    if run is None:
        return
    wait = run.open_wait("sync")
    if wait is not None and event.leader_id in run.index:
        wait.last = [run.index[event.leader_id]]


def on_published(account: Account, event: events.AssignmentsPublished) -> None:
    account.settle(event)
    run = account.run or account.unseen(event)
    owner_before: dict[Partition, str] = {}
    for member_id, assignment in run.gone.items():
        owner_before.update((one, member_id) for one in read_partitions(assignment) or ())
    given: dict[str, Sequence[Partition]] = {}
    is_known = is_consumer = account.protocol_type in (None, PROTOCOL_TYPE)
    for item in event.assignments:
        member_id, data = item.name, item.data
        known = account.members.get(member_id)
        if known is None:
            known = account.members[member_id] = Known(member_id, "", "", None)
        if known.owned:
            for one in known.partitions(again=True):
                owner_before[one] = member_id
        partitions = known.read
        if partitions is None or data != known.assignment:
            partitions = known.assign(data, is_readable=is_consumer)
            is_known = is_known and partitions is not None
        given[member_id] = partitions or ()
        run.part(known).after = known.owned
    run.episode.partitions_known = is_known
    account.formed_ms = event.at_ms
    account.standing.charge(run, event.at_ms)
    if is_known:
        _hand_over(account, run, owner_before, given, event.at_ms)
    end(account, event, "stable", charge=False)


def _hand_over(
    account: Account, run: Run, owner_before: dict[Partition, str], given: Mapping[str, Sequence[Partition]], at_ms: int
) -> None:
    """Partitions change hands; those that nobody has now go on standing still."""
    moves = []
    standing = account.standing.since
    for member_id, partitions in given.items():
        index = run.index[member_id]
        for one in partitions:
            before = owner_before.pop(one, "")
            if before != member_id:
                moves.append(Move(one[0], one[1], run.index.get(before, -1), index))
            standing.pop(one, None)
    wanted = {topic for known in account.members.values() for topic in known.asked.topics or ()}
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
        if account.members[member_id].awaited_sync >= 0:
            # It has not fetched what it was given.
            account.standing.stop(partitions, at_ms, member_id, is_gone=True)


# The group


def on_state_changed(account: Account, event: events.StateChanged) -> None:
    account.previous = event.before
    account.state = event.after
    if event.after != "Dead":
        return
    if isinstance(account.input, events.OwnershipChanged):  # the broker gives the group up
        run = account.run or account.new_run("stopped", event)
        account.run = run
        for known in account.members.values():
            run.place(known)
        run.trigger(Cause.COORDINATOR_MOVED, None, event, "", {"node": account.node} if account.node else {})
    end(account, event, "dead")
    account.forget()


def on_group_removed(account: Account, event: events.GroupRemoved) -> None:
    account.settle(event)
    end(account, event, "dead")
    account.forget()
    account.generation = -1


def on_group_loaded(account: Account, event: events.GroupLoaded) -> None:
    end(account, event, "dead")
    account.forget()
    account.state = event.state
    account.generation = event.generation
    account.protocol_type = event.protocol_type
    account.protocol_name = event.protocol_name or ""
    account.leader_id = event.leader_id
    account.loaded_ms = event.at_ms
    for member in event.loaded:
        account.members[member.member_id] = Known.loaded(member, event.protocol_type, event.protocol_name)
    if not account.members:
        return
    run = account.new_run("loaded", event)
    run.episode.generation_after = event.generation
    for known in account.members.values():
        part = run.part(known)
        part.after = known.owned
        part.is_leader = known.member_id == account.leader_id
    facts = {"members": str(len(account.members)), "generation": str(event.generation)}
    facts |= account.coming(is_settled=any(known.assignment for known in account.members.values()))
    run.trigger(Cause.COORDINATOR_LOADED, None, event, "", facts)
    finish(account, run, event, "loaded")


HANDLERS: dict[type[events.Event], Callable[[Account, Any], object]] = {
    events.AppendFinished: on_input,
    events.AssignmentReceived: on_assignment_received,
    events.AssignmentsPublished: on_published,
    events.BarrierClosed: on_barrier_closed,
    events.BarrierOpened: on_barrier_opened,
    events.CommitReceived: on_commit,
    events.ConsumerHeartbeatReceived: on_request,
    events.DeadlinesHeld: on_deadlines_held,
    events.DeadlinesMoved: on_deadlines_moved,
    events.Disconnected: on_disconnected,
    events.FaultFired: on_fault_fired,
    events.GenerationStarted: on_generation_started,
    events.GroupLoaded: on_group_loaded,
    events.GroupRemoved: on_group_removed,
    events.JoinReceived: on_join_received,
    events.LeaderChanged: comings.on_leader_changed,
    events.LeaveReceived: on_input,  # its sender may be a tool of an administrator, which names the member, too
    events.MemberAdded: comings.on_member_added,
    events.MemberIdIssued: comings.on_member_id_issued,
    events.MemberLeft: comings.on_member_left,
    events.MemberRejected: comings.on_rejected,
    events.OwnershipChanged: on_input,
    events.PendingMemberExpired: comings.on_pending_expired,
    events.RebalanceStarted: on_rebalance_started,
    events.ReplacementReverted: comings.on_replacement_reverted,
    events.RequestAnswered: comings.on_answered,
    events.RequestParked: comings.on_parked,
    events.RequestReceived: on_request,
    events.RequestRefused: comings.on_refused,
    events.SessionExtended: on_session_extended,
    events.StateChanged: on_state_changed,
    events.SyncReceived: on_sync_received,
    events.TimerFired: on_input,
    events.WriteFailed: comings.on_write_failed,
    **consumer_groups.HANDLERS,
}
"""The handler of each type of events; others are of no use."""
