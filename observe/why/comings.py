"""How members come and go: `Comings`."""

from __future__ import annotations

from ottla.broker.core.events import (
    JoinReceived,
    LeaderChanged,
    LeaveReceived,
    MemberAdded,
    MemberIdIssued,
    MemberLeft,
    MemberRejected,
    MemberReplaced,
    PendingMemberExpired,
    ReplacementReverted,
    RequestAnswered,
    RequestParked,
    RequestReceived,
    RequestRefused,
    SessionExpired,
    WriteFailed,
)
from ottla.observe.why import judge
from ottla.observe.why.account import Account, Happening
from ottla.observe.why.blame import NOBODYS_DOING
from ottla.observe.why.members import NEVER, Asked, Known
from ottla.observe.why.reasons import leaving_class, said


class Comings(Account):
    """What a group's members do, as `Account` has it."""

    # Members come

    def on_member_id_issued(self, event: MemberIdIssued) -> None:
        came = self.input
        if isinstance(came, RequestReceived):
            self.issued[event.member_id] = (came.client_id, came.client_host)
        else:
            self.issued[event.member_id] = ("", "")
        if self.run is not None and self.run.open_wait("join") is not None:
            self.run.waits_for([event.member_id], event)

    def on_member_added(self, event: MemberAdded) -> None:
        join = self.input if isinstance(self.input, JoinReceived) else None
        known = Known.added(event, join)
        known.heard(event.at_ms)
        self.issued.pop(event.member_id, None)
        before = self.departures.returned(known, event.wall_ms)
        self.members[event.member_id] = known
        facts: dict[str, str] = {}
        reason = "" if join is None else said(join.reason)
        if before is not None:
            facts |= judge.return_facts(before, event)
        if self.run is None and event.state == "Empty":
            cause = "group-started"
        elif before is not None:
            cause = "member-returned"
        else:
            cause = "static-member-joined" if known.group_instance_id is not None else "member-joined"
        fate = "new" if before is None else "returned"
        self.happenings.append(Happening(cause, known, reason, facts, fate))

    def on_parked(self, event: RequestParked) -> None:
        """A JoinGroup was accepted: whoever sent it holds no more than it says."""
        known = self.members.get(event.member_id)
        if event.api != "JoinGroup" or known is None:
            return
        join = self.input
        if isinstance(join, JoinReceived):
            before = known.ask(join)
            is_rejoin = join.member_id == known.member_id
            if is_rejoin and (before is not known.asked or self.state == "Stable"):
                self._rejoined(known, before, join)
        self.joined.append(known)
        known.error = ""
        known.awaited_sync = -1
        self._stop(known, event.at_ms, known.asked.held, is_gone=False)

    def _rejoined(self, known: Known, before: Asked, join: JoinReceived) -> None:
        if self.happenings and self.happenings[-1].known is known:
            return  # it was added or replaced just now
        cause, facts = judge.rejoin(self, known, before, join)
        self.happenings.append(Happening(cause, known, said(join.reason), facts))

    def on_member_replaced(self, event: MemberReplaced) -> None:
        known = self.members.pop(event.old_member_id, None)
        join = self.input if isinstance(self.input, JoinReceived) else None
        facts = {"instance": event.group_instance_id, "state": event.state}
        if known is None:
            known = Known(event.old_member_id, "", "", event.group_instance_id)
        self.departures.replaced(known, event, len(self.members))
        facts |= judge.replacement_facts(known, event, join)
        known.member_id = event.member_id
        if self.state == "Stable" and known.lost_ms != NEVER:
            self._stop(known, max(known.lost_ms, known.heard_ms))
        if join is not None:
            known.client_id, known.client_host = join.client_id, join.client_host
        self.members[event.member_id] = known
        if self.run is not None:
            self.run.rename(event.old_member_id, known)
        known.heard(event.at_ms)
        cause = judge.REPLACED.get(event.state, "static-member-replaced")
        reason = "" if join is None else said(join.reason)
        self.happenings.append(Happening(cause, known, reason, facts))
        if event.state == "Stable":
            run = self._new_run("replacement", event)
            run.trigger("static-member-replaced", known, event, reason, facts)
            run.part(known).fate = "replaced"
            self.replacing = event.member_id, run

    def on_replacement_reverted(self, event: ReplacementReverted) -> None:
        known = self.members.pop(event.member_id, None)
        if known is not None:
            known.member_id = event.old_member_id
            self.members[event.old_member_id] = known
        if self.replacing is not None and self.replacing[0] == event.member_id:
            run = self.replacing[1]
            self.replacing = None
            if known is not None:
                run.rename(event.member_id, known)
            run.trigger("replacement-write-failed", known, event, event.error, {"error": event.error})
            self._finish_run(run, event, "refused")

    def on_answered(self, event: RequestAnswered) -> None:
        if event.error != "NONE":
            if (known := self.members.get(event.member_id)) is not None:
                known.error = event.error
            return
        if self.replacing is not None and event.api == "JoinGroup" and event.member_id == self.replacing[0]:
            run = self.replacing[1]
            self.replacing = None
            self.happenings.clear()
            self.standing.charge(run, event.at_ms)
            for partition in [tp for tp, (_, who, _) in self.standing.since.items() if who in run.index]:
                del self.standing.since[partition]
            self._finish_run(run, event, "replaced")

    def on_refused(self, event: RequestRefused) -> None:
        if event.error in ("MEMBER_ID_REQUIRED", "NONE"):
            return
        known = self.members.get(event.member_id)
        if known is not None:
            known.error = event.error
        elif event.error == "UNKNOWN_MEMBER_ID":
            self.departures.heard(event)
        self.refusals.refused(self, event)

    def on_rejected(self, event: MemberRejected) -> None:
        """The group is full, even for one that was a member: who comes first to a barrier is in."""
        self.issued.pop(event.member_id, None)
        known = self.members.pop(event.member_id, None)
        if known is not None:
            self._gone(known, "turned-away-group-full", "", {"members": str(event.members)}, "refused", event)
            self._stop(known, event.at_ms)

    # Members go

    def on_member_left(self, event: MemberLeft) -> None:
        if event.was_pending:
            client_id, client_host = self.issued.pop(event.member_id, ("", ""))
            ghost = Known(event.member_id, client_id, client_host, None)
            self.happenings.append(Happening("issued-id-left", ghost, said(event.reason), {}, "vanished"))
            return
        known = self.members.pop(event.member_id, None)
        if known is None:
            known = Known(event.member_id, "", "", event.group_instance_id)
        reason = said(event.reason)
        cause = leaving_class(reason)
        facts: dict[str, str] = {}
        if isinstance(self.input, LeaveReceived):
            cause, facts = judge.departure(known, self.input, cause, event)
        self._gone(known, cause, reason, facts, "left", event)
        self._stop(known, event.at_ms, is_gone=cause not in NOBODYS_DOING)

    def on_session_expired(self, event: SessionExpired) -> None:
        known = self.members.pop(event.member_id, None)
        if known is None:
            known = Known(event.member_id, "", "", None)
            known.session_timeout_ms = event.session_timeout_ms
        stopped_ms = known.heard_ms
        if not event.is_new:
            stopped_ms = max(stopped_ms, event.last_heard_ms)
            if not judge.is_unheard(self, known, event.last_heard_ms):
                known.heard_ms = stopped_ms
        cause = "new-member-expired" if event.is_new else judge.expiry(known)
        self._gone(known, cause, "", judge.expiry_facts(self, known, event), "expired", event)
        self._stop(known, max(stopped_ms, known.lost_ms))

    def on_pending_expired(self, event: PendingMemberExpired) -> None:
        client_id, client_host = self.issued.pop(event.member_id, ("", ""))
        if self.run is not None:
            ghost = Known(event.member_id, client_id, client_host, None)
            self.happenings.append(Happening("issued-id-unused", ghost, "", {}, "vanished"))

    def on_leader_changed(self, event: LeaderChanged) -> None:
        self.leader_id = event.leader_id

    def on_write_failed(self, event: WriteFailed) -> None:
        cause = judge.WRITES.get(event.what)
        if cause is not None:
            self.happenings.append(Happening(cause, None, event.error, {"error": event.error}))
