"""The events of members that come and go, and what they change of a group's account."""

from __future__ import annotations

from ottla.broker.core import events
from ottla.observe.why import judge
from ottla.observe.why.account import Account
from ottla.observe.why.blame import NOBODYS_DOING
from ottla.observe.why.causes import Cause
from ottla.observe.why.episodes import finish
from ottla.observe.why.members import NEVER, Asked, Happening, Known
from ottla.observe.why.reasons import leaving_class, said
from ottla.observe.why.refusals import refused

# Members come


def on_member_id_issued(account: Account, event: events.MemberIdIssued) -> None:
    came = account.input
    if isinstance(came, events.RequestReceived):
        account.issued[event.member_id] = (came.client_id, came.client_host)
    else:
        account.issued[event.member_id] = ("", "")
    if account.run is not None and account.run.open_wait("join") is not None:
        account.run.waits_for([event.member_id], event)


def on_member_added(account: Account, event: events.MemberAdded) -> None:
    join = account.input if isinstance(account.input, events.JoinReceived) else None
    known = Known.added(event, join)
    known.heard(event.at_ms)
    account.issued.pop(event.member_id, None)
    before = account.departures.returned(known, event.wall_ms)
    account.members[event.member_id] = known
    facts: dict[str, str] = {}
    reason = "" if join is None else said(join.reason)
    if before is not None:
        facts |= judge.return_facts(before, event)
    if account.run is None and event.state == "Empty":
        cause = Cause.GROUP_STARTED
    elif before is not None:
        cause = Cause.MEMBER_RETURNED
    else:
        cause = Cause.STATIC_MEMBER_JOINED if known.group_instance_id is not None else Cause.MEMBER_JOINED
    fate = "new" if before is None else "returned"
    account.happenings.append(Happening(cause, known, reason, facts, fate))


def on_parked(account: Account, event: events.RequestParked) -> None:
    """A JoinGroup was accepted: whoever sent it holds no more than it says."""
    known = account.members.get(event.member_id) if event.api == "JoinGroup" else None
    if known is None:
        return
    join = account.last
    if isinstance(join, events.JoinReceived):
        before = known.ask(join)
        is_rejoin = join.member_id == known.member_id
        if is_rejoin and (before is not known.asked or account.state == "Stable"):
            _rejoined(account, known, before, join)
    account.joined.append(known)
    known.error = ""
    known.awaited_sync = -1
    if known.owned:
        account.stop(known, event.at_ms, known.asked.held, is_gone=False)


def _rejoined(account: Account, known: Known, before: Asked, join: events.JoinReceived) -> None:
    if account.happenings and account.happenings[-1].known is known:
        return  # it was added or replaced just now
    cause, facts = judge.rejoin(account, known, before, join)
    account.happenings.append(Happening(cause, known, said(join.reason), facts))


def on_member_replaced(account: Account, event: events.MemberReplaced) -> None:
    known = account.members.pop(event.old_member_id, None)
    join = account.input if isinstance(account.input, events.JoinReceived) else None
    facts = {"instance": event.group_instance_id, "state": event.state}
    if known is None:
        known = Known(event.old_member_id, "", "", event.group_instance_id)
    account.departures.replaced(known, event, len(account.members))
    facts |= judge.replacement_facts(known, event, join)
    known.member_id = event.member_id
    if account.state == "Stable" and known.lost_ms != NEVER:
        account.stop(known, max(known.lost_ms, known.heard_ms))
    if join is not None:
        known.client_id, known.client_host = join.client_id, join.client_host
    account.members[event.member_id] = known
    if account.run is not None:
        account.run.rename(event.old_member_id, known)
    known.heard(event.at_ms)
    cause = judge.REPLACED.get(event.state, Cause.STATIC_MEMBER_REPLACED)
    reason = "" if join is None else said(join.reason)
    account.happenings.append(Happening(cause, known, reason, facts))
    if event.state == "Stable":
        run = account.new_run("replacement", event)
        run.trigger(Cause.STATIC_MEMBER_REPLACED, known, event, reason, facts)
        run.part(known).fate = "replaced"
        account.replacing = event.member_id, run


def on_replacement_reverted(account: Account, event: events.ReplacementReverted) -> None:
    known = account.members.pop(event.member_id, None)
    if known is not None:
        known.member_id = event.old_member_id
        account.members[event.old_member_id] = known
    if account.replacing is not None and account.replacing[0] == event.member_id:
        run = account.replacing[1]
        account.replacing = None
        if known is not None:
            run.rename(event.member_id, known)
        run.trigger(Cause.REPLACEMENT_WRITE_FAILED, known, event, event.error, {"error": event.error})
        finish(account, run, event, "refused")


def on_answered(account: Account, event: events.RequestAnswered) -> None:
    if event.error != "NONE":
        if (known := account.members.get(event.member_id)) is not None:
            known.error = event.error
        return
    if account.replacing is not None and event.api == "JoinGroup" and event.member_id == account.replacing[0]:
        run = account.replacing[1]
        account.replacing = None
        account.happenings.clear()
        account.standing.charge(run, event.at_ms)
        for partition in [tp for tp, (_, who, _) in account.standing.since.items() if who in run.index]:
            del account.standing.since[partition]
        finish(account, run, event, "replaced")


def on_refused(account: Account, event: events.RequestRefused) -> None:
    if event.error in ("MEMBER_ID_REQUIRED", "NONE"):
        return
    known = account.members.get(event.member_id)
    if known is not None:
        known.error = event.error
    elif event.error == "UNKNOWN_MEMBER_ID":
        account.departures.heard(event)
    refused(account, event)


def on_rejected(account: Account, event: events.MemberRejected) -> None:
    """The group is full, even for one that was a member: who comes first to a barrier is in."""
    account.issued.pop(event.member_id, None)
    known = account.members.pop(event.member_id, None)
    if known is not None:
        account.gone(known, Cause.TURNED_AWAY_GROUP_FULL, "", {"members": str(event.members)}, "refused", event)
        account.stop(known, event.at_ms)


# Members go


def on_member_left(account: Account, event: events.MemberLeft) -> None:
    if event.was_pending:
        client_id, client_host = account.issued.pop(event.member_id, ("", ""))
        ghost = Known(event.member_id, client_id, client_host, None)
        account.happenings.append(Happening(Cause.ISSUED_ID_LEFT, ghost, said(event.reason), {}, "vanished"))
        return
    known = account.members.pop(event.member_id, None) or Known(event.member_id, "", "", event.group_instance_id)
    reason = said(event.reason)
    cause = leaving_class(reason)
    facts: dict[str, str] = {}
    if isinstance(account.input, events.LeaveReceived):
        cause, facts = judge.departure(known, account.input, cause, event)
    account.gone(known, cause, reason, facts, "left", event)
    account.stop(known, event.at_ms, is_gone=cause not in NOBODYS_DOING)


def on_session_expired(account: Account, event: events.SessionExpired) -> None:
    known = account.members.pop(event.member_id, None)
    if known is None:
        known = Known(event.member_id, "", "", None)
        known.session_timeout_ms = event.session_timeout_ms
    stopped_ms = known.heard_ms
    if not event.is_new:
        heard_ms = account.heard_ms(event, event.last_heard_ms)
        stopped_ms = max(stopped_ms, heard_ms)
        if not judge.is_unheard(account, known, heard_ms):
            known.heard_ms = stopped_ms
    cause = judge.expiry(known, event)
    account.gone(known, cause, "", judge.expiry_facts(account, known, event), "expired", event)
    if cause == Cause.BROKER_STOOD_STILL:  # which is on nobody's account
        account.standing.stop(known.partitions(), stopped_ms, "", is_gone=True)
    else:
        account.stop(known, max(stopped_ms, known.lost_ms))


def on_pending_expired(account: Account, event: events.PendingMemberExpired) -> None:
    client_id, client_host = account.issued.pop(event.member_id, ("", ""))
    if account.run is not None:
        ghost = Known(event.member_id, client_id, client_host, None)
        account.happenings.append(Happening(Cause.ISSUED_ID_UNUSED, ghost, "", {}, "vanished"))


def on_leader_changed(account: Account, event: events.LeaderChanged) -> None:
    account.leader_id = event.leader_id


def on_write_failed(account: Account, event: events.WriteFailed) -> None:
    cause = judge.WRITES.get(event.what)
    if cause is not None:
        account.happenings.append(Happening(cause, None, event.error, {"error": event.error}))
