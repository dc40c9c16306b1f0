"""The events of consumer groups (KIP-848), and what they change of a group's account.

An episode begins as the group's epoch rises, and ends when every member has arrived at a target of that epoch. What
raises the epoch before there is a target adds to the episode (R10.2).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ottla.broker.core import events
from ottla.broker.core.consumer_groups.facts import apply
from ottla.broker.core.consumer_groups.records import fact_of
from ottla.broker.core.consumer_groups.state import IS_AWAY, UNREVOKED, State
from ottla.observe.why import comings, judge
from ottla.observe.why.account import Account
from ottla.observe.why.blame import LATE_MS
from ottla.observe.why.causes import Cause
from ottla.observe.why.episodes import end, finish, settle
from ottla.observe.why.members import NEVER, Happening, Known, Partition
from ottla.observe.why.model import MemberWait, Move
from ottla.observe.why.reasons import leaving_class, said
from ottla.observe.why.reconciling import Reconciled, Reconciling, note
from ottla.observe.why.run import MOST_MOVES, Run
from ottla.protocol.consumer_group_records import decode_consumer_group_key
from ottla.protocol.consumer_protocol import PROTOCOL_TYPE, Assignment, ConsumerTopicPartitions, encode_assignment

_REASONS = {
    "topics changed": Cause.TOPIC_METADATA_CHANGED,
    "subscription changed": Cause.SUBSCRIPTION_CHANGED,
    "regex changed": Cause.REGEX_CHANGED,
    "regex resolved": Cause.REGEX_RESOLVED,
    "left": Cause.LEFT_CLOSED,
    "session expired": Cause.SESSION_EXPIRED,
    "revocation timed out": Cause.REVOCATION_TIMEOUT,
    "removed by LeaveGroup": Cause.REMOVED_BY_ADMIN,
    "did not join again in time": Cause.CLASSIC_REJOIN_MISSED,
    "did not sync in time": Cause.CLASSIC_SYNC_MISSED,
}
"""The cause by the coordinator's reason, where nothing else was seen."""


def _reconciling(account: Account) -> Reconciling:
    if account.reconciling is None:
        account.reconciling = Reconciling(account.members)
        account.protocol_type = PROTOCOL_TYPE
    return account.reconciling


def _member(account: Account, member_id: str) -> Reconciled:
    known = _reconciling(account).member(member_id)
    if known is None:  # the beginning was not seen
        known = account.members[member_id] = Reconciled(member_id, "", "", None)
    return known


# Members say what they want


def on_subscribed(account: Account, event: events.MemberSubscribed) -> None:
    reconciling = _reconciling(account)
    known = reconciling.member(event.member_id)
    if event.regex and event.regex not in reconciling.resolved:
        reconciling.asked_ms.setdefault(event.regex, event.at_ms)
    if known is None or event.is_new:
        _came(account, event)
        return
    names, regex = known.asked.topics or [], known.regex
    _take(account, known, event)
    if names != event.names:
        came = [topic for topic in event.names if topic not in names]
        went = [topic for topic in names if topic not in event.names]
        facts = {"came": ", ".join(came), "went": ", ".join(went)}
        facts |= judge.missing_facts(event.missing, reconciling.names.values())
        account.happenings.append(Happening(Cause.SUBSCRIPTION_CHANGED, known, "", facts))
    if regex != event.regex:
        facts = {"before": regex, "after": event.regex}
        account.happenings.append(Happening(Cause.REGEX_CHANGED, known, "", facts))


def _take(account: Account, known: Reconciled, event: events.MemberSubscribed) -> None:
    """Take over what a member says of itself; of its assignors only its request tells."""
    known.take(event)
    if isinstance(account.input, events.JoinReceived):
        known.asked.names = [protocol.name for protocol in account.input.protocols]


def _protocol(known: Reconciled) -> dict[str, str]:
    """The protocol of a member that is of the other one than its group."""
    return {"protocol": "classic"} if known.is_classic else {}


def _came(account: Account, event: events.MemberSubscribed) -> None:
    known = Reconciled(event.member_id, event.client_id, event.client_host, event.group_instance_id)
    _take(account, known, event)
    known.heard(event.at_ms)
    before = account.departures.returned(known, event.wall_ms)
    is_first = not account.members and account.run is None
    account.members[event.member_id] = known
    facts = {} if before is None else judge.return_facts(before, event)
    facts |= _protocol(known)
    facts |= judge.missing_facts(event.missing, _reconciling(account).names.values())
    if is_first:
        cause = Cause.GROUP_STARTED
    elif before is not None:
        cause = Cause.MEMBER_RETURNED
    else:
        cause = Cause.STATIC_MEMBER_JOINED if known.group_instance_id is not None else Cause.MEMBER_JOINED
    account.happenings.append(Happening(cause, known, "", facts, "new" if before is None else "returned"))


# The group


def on_epoch_bumped(account: Account, event: events.GroupEpochBumped) -> None:
    reconciling, run = _reconciling(account), account.run
    happenings, account.happenings = account.happenings, []
    is_assigning = reconciling.epoch > reconciling.assignment_epoch
    if run is not None and not (is_assigning and run.episode.kind == "rebalance"):
        end(account, event, "superseded")
        run = None
    if not is_assigning:
        reconciling.bumped_ms = event.at_ms
    is_first = run is None
    happenings = [*reconciling.unsaid, *happenings]
    reconciling.unsaid.clear()
    if run is None:
        run = account.run = account.new_run("rebalance", event)
        account.count_run(run)
        for known in account.members.values():
            run.place(known)
        for known in reconciling.revoking():
            _revokes(run, known, event)
    account.generation = reconciling.epoch = run.episode.generation_after = event.epoch
    for one in happenings or [_by_reason(account, event)]:
        account.add(run, one, event, first=is_first)
    if not event.members:
        end(account, event, "empty")
        account.departures.emptied_ms = event.wall_ms


def _by_reason(account: Account, event: events.GroupEpochBumped) -> Happening:
    reason = event.reasons[0] if event.reasons else ""
    cause = _REASONS.get(reason, Cause.UNKNOWN)
    if cause is not Cause.TOPIC_METADATA_CHANGED:
        return Happening(cause, None, "", {})
    topics = dict.fromkeys(topic for known in account.members.values() for topic in known.asked.topics or ())
    topics |= dict.fromkeys(topic for topic, _ in _reconciling(account).owners)
    changes = account.topics.changed(topics, event.at_ms)
    if changes and all(one.partitions == one.partitions_before for one in changes):
        return Happening(Cause.RACK_CHANGED, None, "", {"topics": ", ".join(one.topic for one in changes)})
    news = [one for one in changes if one.partitions != one.partitions_before]
    more = {"more": str(len(news) - 1)} if len(news) > 1 else {}
    return Happening(cause, None, "", news[0].facts(event.at_ms) | more if news else {})


def on_target_computed(account: Account, event: events.TargetComputed) -> None:
    reconciling, run, came = _reconciling(account), account.run, account.input
    since_ms, delayed = reconciling.bumped_ms, bool(reconciling.until_wall_ms)
    reconciling.targeted(event)
    account.protocol_name = event.assignor
    if run is None:
        return
    run.episode.protocol_name = event.assignor
    if delayed:
        note(run, MemberWait("interval", since_ms=since_ms), event)
    asking = came.member_id if isinstance(came, events.RequestReceived) else ""
    for known in reconciling.each():
        if known.member_id != asking and not known.giving_up:
            late_ms = reconciling.late_ms(known)
            run.waits_for([known.member_id], event, late_after_ms=late_ms - event.at_ms)


def _revokes(run: Run, known: Reconciled, event: events.Event) -> None:
    """A member has partitions to give up, whatever the newest target says: it is late some time after it was told."""
    late_ms = known.since_ms + LATE_MS
    run.waits_for([known.member_id], event, late_after_ms=max(late_ms - event.at_ms, 0))


def on_target_delayed(account: Account, event: events.TargetDelayed) -> None:
    _reconciling(account).until_wall_ms = event.until_ms


def on_regexes_resolved(account: Account, event: events.RegexesResolved) -> None:
    reconciling = _reconciling(account)
    unknown = {regex for regex in event.regexes if regex not in reconciling.resolved}
    for regex in event.regexes:
        reconciling.resolved.setdefault(regex, 0)
        reconciling.asked_ms.pop(regex, None)
    for change in event.changed:
        reconciling.resolved[change.regex] = change.matched
        user = next((known for known in reconciling.each() if known.regex == change.regex), None)
        facts = {"regex": change.regex, "matched": str(change.matched)}
        facts |= {"came": ", ".join(change.came), "went": ", ".join(change.went)}
        facts |= {"first": "yes"} if change.regex in unknown else {}
        if change.came or change.went:
            account.happenings.append(Happening(Cause.REGEX_RESOLVED, user, "", facts))
        elif not change.matched:
            # Who came with it began nothing, and whatever the regex comes to later is not of that.
            reconciling.unsaid = [one for one in reconciling.unsaid if reconciling.awaits_regex(one.known)]
            run = account.new_run("resolution", event)
            run.trigger(Cause.REGEX_RESOLVED, user, event, "", facts)
            finish(account, run, event, "resolved")


# Members come to their targets


def on_reconciled(account: Account, event: events.MemberReconciled) -> None:
    reconciling, run, known = _reconciling(account), account.run, _member(account, event.member_id)
    wait, had = reconciling.wait_of(known, event.at_ms), known.has
    reconciling.stepped(known, event)
    known.heard_ms = event.at_ms
    lost = [one for one in had if one not in known.has]
    account.standing.stop(lost, event.at_ms, known.member_id, is_gone=False)
    if run is None:
        account.standing.resume(known.has)
        reconciling.owners.update(dict.fromkeys(known.has, known.member_id))
        return
    after = reconciling.wait_of(known, event.at_ms)
    if wait is not None and (after is None or (after.kind, after.since_ms) != (wait.kind, wait.since_ms)):
        note(run, wait, event)
    part = run.part(known)
    part.came_ms = run.at(event) if part.came_ms < 0 else part.came_ms
    run.arrived(known.member_id, event)
    if event.state == UNREVOKED.name:
        _revokes(run, known, event)
    elif known.member_id not in reconciling.behind:
        part.synced_ms = run.at(event)
    account.standing.resume_in(run, known.has, event.at_ms)
    _gain(account, known, [one for one in known.has if one not in had])
    settle(account, event)


def _gain(account: Account, known: Reconciled, gained: list[Partition]) -> None:
    """Partitions are a member's from now on."""
    run, owners = account.run, _reconciling(account).owners
    assert run is not None
    for one in gained:
        before = owners.get(one, "")
        if before != known.member_id:
            run.episode.moved += 1
            if len(run.episode.moves) < MOST_MOVES:
                move = Move(one[0], one[1], run.index.get(before, -1), run.index[known.member_id])
                run.episode.moves.append(move)
    owners.update(dict.fromkeys(known.has, known.member_id))


def on_revocation_awaited(account: Account, event: events.RevocationAwaited) -> None:
    known = _member(account, event.member_id)
    _reconciling(account).heard(known, event)
    known.heard_ms = event.at_ms


# Members of the classic protocol


def on_must_rejoin(account: Account, event: events.MemberMustRejoin) -> None:
    _owes(account, event.member_id, "must-rejoin", event.deadline_ms, event)


def on_must_sync(account: Account, event: events.MemberMustSync) -> None:
    _owes(account, event.member_id, "must-sync", event.deadline_ms, event)


def on_synced(account: Account, event: events.MemberSynced) -> None:
    _owes(account, event.member_id, "", 0, event)


def _owes(account: Account, member_id: str, what: str, deadline_ms: int, event: events.Event) -> None:
    known = _member(account, member_id)
    if account.run is not None:
        note(account.run, _reconciling(account).wait_of(known, event.at_ms), event)
        account.run.arrived(member_id, event)
        if what:
            account.run.waits_for([member_id], event)
    known.owes, known.owed_ms, known.owed_until_ms = what, event.at_ms, deadline_ms


# Conversions


def _asking(account: Account) -> Known | None:
    """Who sent the request that is looked at; it may be no member yet."""
    came = account.input
    if not isinstance(came, events.RequestReceived):
        return None
    known = account.members.get(came.member_id)
    known = known or next(
        (one.known for one in account.happenings if one.known and one.known.member_id == came.member_id), None
    )
    return known or Known(came.member_id, came.client_id, came.client_host, came.group_instance_id)


def on_converted(account: Account, event: events.GroupConverted) -> None:
    """The group is one of the other protocol from now on: what is known of it begins anew, with who is a member."""
    cause = Cause.GROUP_UPGRADED if event.after == "consumer" else Cause.GROUP_DOWNGRADED
    run = account.new_run("conversion", event)
    members = list(account.members.values())
    who = _asking(account)
    facts = {"before": event.before, "after": event.after, "members": str(len(members))}
    facts["told_to_rejoin"] = str(len(event.told_to_rejoin))
    for known in members:
        run.place(known)
    run.trigger(cause if members else Cause.TOOK_OVER_FROM_CLASSIC, who, event, "", facts)
    happenings, account.happenings = account.happenings, []
    for one in happenings:  # who left, and so let the others become a classic group
        account.add(run, one, event, first=True)
    run.episode.generation_after = event.generation
    if account.run is not None:
        end(account, event, "superseded")
    finish(account, run, event, "converted")
    account.forget()
    account.generation = event.generation
    if event.after == "consumer":
        reconciling = _reconciling(account)
        reconciling.epoch = reconciling.assignment_epoch = event.generation
    for known in members:
        other = _as_consumer(known) if event.after == "consumer" else _as_classic(known)
        account.members[known.member_id] = other


def _as_consumer(known: Known) -> Reconciled:
    other = Reconciled(known.member_id, known.client_id, known.client_host, known.group_instance_id)
    other.session_timeout_ms, other.rebalance_timeout_ms = known.session_timeout_ms, known.rebalance_timeout_ms
    other.asked, other.heard_ms = known.asked, known.heard_ms
    other.has, other.is_classic = dict.fromkeys(known.partitions()), True
    other.owned = len(other.has)
    return other


def _as_classic(known: Known) -> Known:
    other = Known(known.member_id, known.client_id, known.client_host, known.group_instance_id)
    other.session_timeout_ms, other.rebalance_timeout_ms = known.session_timeout_ms, known.rebalance_timeout_ms
    other.asked, other.heard_ms = known.asked, known.heard_ms
    numbers: dict[str, list[int]] = {}
    for topic, number in known.partitions():
        numbers.setdefault(topic, []).append(number)
    rows = [ConsumerTopicPartitions(topic=topic, partitions=has) for topic, has in numbers.items()]
    other.assign(encode_assignment(Assignment(assigned_partitions=rows)))
    return other


def on_conversion_refused(account: Account, event: events.ConversionRefused) -> None:
    cause = Cause.UPGRADE_REFUSED if event.kind == "classic" else Cause.DOWNGRADE_REFUSED
    run = account.new_run("refusal", event)
    who = _asking(account)
    run.trigger(cause, who, event, "", {"problem": event.reason})
    finish(account, run, event, "refused")


# Members go


def on_away(account: Account, event: events.StaticMemberAway) -> None:
    reconciling, known = _reconciling(account), _member(account, event.member_id)
    known.away_ms = known.heard_ms = event.at_ms
    known.giving_up, known.state, known.epoch = {}, known.state, IS_AWAY
    known.owned = len(known.has)
    reconciling.behind[event.member_id] = None
    account.standing.stop(known.has, event.at_ms, known.member_id, is_gone=True)
    run = account.run
    if run is None:
        run = account.run = account.new_run("replacement", event)
        account.count_run(run)
        for one in account.members.values():
            run.place(one)
    facts = {"partitions": str(known.owned), "session_timeout_ms": str(known.session_timeout_ms)}
    run.trigger(Cause.STATIC_MEMBER_AWAY, known, event, "", facts)


def on_replaced(account: Account, event: events.MemberReplaced) -> None:
    """A static member is back, maybe under another id."""
    reconciling = account.reconciling
    if reconciling is not None and (known := reconciling.member(event.old_member_id)) is not None:
        if account.run is not None:
            note(account.run, reconciling.wait_of(known, event.at_ms), event)
        reconciling.behind.pop(event.old_member_id, None)
        reconciling.behind[event.member_id] = None
        known.away_ms, known.epoch = NEVER, reconciling.assignment_epoch
        for one, owner in reconciling.owners.items():
            if owner == event.old_member_id:
                reconciling.owners[one] = event.member_id
    comings.on_member_replaced(account, event)


def on_session_expired(account: Account, event: events.SessionExpired) -> None:
    _leaves(account, event.member_id, event)
    comings.on_session_expired(account, event)


def on_fenced(account: Account, event: events.MemberFenced) -> None:
    _leaves(account, event.member_id, event)
    known = account.members.pop(event.member_id, None)
    if not isinstance(known, Reconciled):
        return  # its session ran out, which was told
    came, facts, fate = account.input, dict[str, str](), "left"
    cause: str = _REASONS.get(event.reason, Cause.LEFT_WITHOUT_REASON)
    reason = ""
    if isinstance(came, events.LeaveReceived):
        reason = said(came.reason)
        own = leaving_class(reason) if known.is_classic else Cause.REMOVED_BY_ADMIN
        cause, facts = judge.departure(known, came, own, event)
        facts |= _protocol(known)
    elif cause == Cause.REVOCATION_TIMEOUT:
        fate, facts = "expired", judge.unrevoked_facts(known, event)
    elif cause in (Cause.CLASSIC_REJOIN_MISSED, Cause.CLASSIC_SYNC_MISSED):
        fate, facts = "expired", {"waited_ms": str(event.at_ms - known.owed_ms)}
    account.gone(known, cause, reason, facts, fate, event)
    account.stop(known, event.at_ms)


def _leaves(account: Account, member_id: str, event: events.Event) -> None:
    reconciling = account.reconciling
    if reconciling is None:
        return
    if account.run is not None and (known := reconciling.member(member_id)) is not None:
        note(account.run, reconciling.wait_of(known, event.at_ms), event, is_cut_off=True)
        account.run.arrived(member_id, event)
    reconciling.behind.pop(member_id, None)
    reconciling.freed_ms = event.at_ms


# The log


def on_loaded(account: Account, event: events.ConsumerGroupLoaded) -> None:
    end(account, event, "dead")
    account.forget()
    state = _state_of(event)
    reconciling = _reconciling(account)
    account.state, account.generation, account.loaded_ms = event.state, event.generation, event.at_ms
    reconciling.epoch, reconciling.assignment_epoch = state.epoch, state.assignment_epoch
    reconciling.resolved = {regex: len(one.topics) for regex, one in state.resolved.items()}
    names = {one.topic_id: one.topic for one in event.topics}
    for member in state.members.values():
        known = Reconciled(member.member_id, member.client_id, member.client_host, member.instance_id)
        account.members[member.member_id] = known
        known.rebalance_timeout_ms, known.regex = member.rebalance_timeout_ms, member.regex
        known.subscribe(list(member.names))
        if member.classic is not None:
            known.is_classic = True
            known.asked.names = [name for name, _ in member.classic.protocols]
        known.epoch, known.previous_epoch, known.state = member.epoch, member.previous_epoch, member.state.name
        known.since_ms = event.at_ms
        for owned, held in ((known.has, member.assigned), (known.giving_up, member.pending)):
            for topic_id, partitions in held.items():
                topic = names.get(topic_id.bytes, topic_id.hex)
                owned.update(dict.fromkeys((topic, number) for number in partitions))
        known.owned = len(known.has) + len(known.giving_up)
        reconciling.owners.update(dict.fromkeys((*known.has, *known.giving_up), member.member_id))
        if member.epoch == IS_AWAY:
            known.away_ms = event.at_ms
        if known.state != "STABLE" or member.epoch != state.assignment_epoch:
            reconciling.behind[member.member_id] = None
    if not account.members:
        return
    run = account.new_run("loaded", event)
    run.episode.generation_after = event.generation
    for one in account.members.values():
        run.part(one).after = one.owned
    facts = {"members": str(len(account.members)), "generation": str(event.generation)}
    facts |= account.coming(is_settled=not reconciling.behind)
    run.trigger(Cause.COORDINATOR_LOADED, None, event, "", facts)
    finish(account, run, event, "loaded")


def _state_of(event: events.ConsumerGroupLoaded) -> State:
    state = State()
    for record in event.records:
        key = decode_consumer_group_key(record.key)
        if key is not None:
            apply(state, fact_of(key, record.value or None))
    return state


HANDLERS: dict[type[events.Event], Callable[[Account, Any], object]] = {
    events.ConsumerGroupLoaded: on_loaded,
    events.ConversionRefused: on_conversion_refused,
    events.GroupConverted: on_converted,
    events.GroupEpochBumped: on_epoch_bumped,
    events.MemberFenced: on_fenced,
    events.MemberMustRejoin: on_must_rejoin,
    events.MemberMustSync: on_must_sync,
    events.MemberReconciled: on_reconciled,
    events.MemberReplaced: on_replaced,
    events.MemberSubscribed: on_subscribed,
    events.MemberSynced: on_synced,
    events.RegexesResolved: on_regexes_resolved,
    events.RevocationAwaited: on_revocation_awaited,
    events.SessionExpired: on_session_expired,
    events.StaticMemberAway: on_away,
    events.TargetComputed: on_target_computed,
    events.TargetDelayed: on_target_delayed,
}
"""The handler of each type of events. Those of `MemberReplaced` and `SessionExpired` serve groups of both protocols."""
