"""Membership: how long members stay, and why they go.

Sessions are kept a second time here, from requests and answers alone: when each was last allowed to begin afresh.
A member that outlives that, or does not reach it, is a violation, and so is one that vanishes without a reason.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.core.events import (
    BarrierClosed,
    BarrierOpened,
    GroupRemoved,
    MemberAdded,
    MemberReplaced,
    OwnershipChanged,
    PendingMemberExpired,
    ReplacementReverted,
    RequestAnswered,
    SessionExpired,
    TimerFired,
)
from ottla.broker.core.groups.classic.group import ClassicGroup
from ottla.protocol.errors import ErrorCode
from tests.sim import expected
from tests.sim.kernel import Violation
from tests.sim.views import GroupView, MemberView, Step

if TYPE_CHECKING:
    from tests.sim.world import World

FIRST_JOIN_MS = 300_000
"""The longest wait of a member for its first generation."""

Key = tuple[int, str, str]
"""Life, group and member id."""


class Sessions:
    """See the module. Issued ids are kept like members."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.due: dict[Key, int] = {}

    def step(self, step: Step) -> None:
        self._requests(step)
        for event in step.events:
            self._event(step, event)
        slack = self.world.LATEST_TIMER_MS if self.world.plan.has("late timers") else 0
        for group_id in step.touched:
            group = step.after.get(group_id)
            if group is None:
                continue
            for member in group.members.values():
                if member.is_new or not member.is_parked:
                    self._is_in_time(step, group_id, member.member_id, slack)
            for member_id in group.pending:
                self._is_in_time(step, group_id, member_id, slack)

    def _is_in_time(self, step: Step, group_id: str, member_id: str, slack: int) -> None:
        due_ms = self.due.get((step.life, group_id, member_id))
        if due_ms is None:
            raise Violation("nobody outlives its session", f"{member_id} has no session")
        if due_ms + slack < step.now_ms:
            raise Violation("nobody outlives its session", f"{member_id} should be gone since {due_ms}")

    # When a session begins afresh

    def _start(self, step: Step, group_id: str, member: MemberView) -> None:
        self.due[step.life, group_id, member.member_id] = step.now_ms + member.session_timeout_ms

    def _requests(self, step: Step) -> None:
        request = step.request
        if step.kind == "join" and step.answer is not None:
            if step.answer.error_code == ErrorCode.MEMBER_ID_REQUIRED:
                key = step.life, request.group_id, step.answer.member_id
                self.due[key] = step.now_ms + request.session_timeout_ms
        elif step.kind == "heartbeat":
            group = step.before.get(request.group_id)
            accepted = step.answer in (ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS)
            if group is not None and accepted and request.member_id in group.members:
                self._start(step, request.group_id, group.members[request.member_id])
        elif step.kind == "commit":
            group = step.before.get(request.group_id)
            if group is not None and group.state in (expected.STABLE, expected.PREPARING):
                errors = expected.commit_partitions(step, 0).values()
                reaches = any(error in (ErrorCode.NONE, ErrorCode.OFFSET_METADATA_TOO_LARGE) for error in errors)
                if reaches and not expected.commit(step):
                    self._start(step, request.group_id, group.members[request.member_id])

    def _event(self, step: Step, event: object) -> None:
        if isinstance(event, OwnershipChanged):
            if event.state == "loaded":
                for group_id, group in step.after.items():
                    if group.group.shard.partition == event.partition:
                        for member in group.members.values():
                            self._start(step, group_id, member)
            return
        group_id = getattr(event, "group_id", "")
        group = step.after.get(group_id)
        if group is None:
            return
        if isinstance(event, MemberAdded):
            self.due[step.life, group_id, event.member_id] = step.now_ms + FIRST_JOIN_MS
        elif isinstance(event, MemberReplaced):
            old = step.before[group_id].members[event.old_member_id]
            self.due[step.life, group_id, event.member_id] = step.now_ms + old.session_timeout_ms
        elif isinstance(event, ReplacementReverted):
            self._start(step, group_id, group.members[event.old_member_id])
        elif isinstance(event, BarrierOpened) and event.barrier == "sync":
            for member in group.members.values():
                self._start(step, group_id, member)
        elif isinstance(event, RequestAnswered):
            self._answered(step, group_id, group, event)

    def _answered(self, step: Step, group_id: str, group: GroupView, event: RequestAnswered) -> None:
        member = group.members.get(event.member_id)
        if member is None:
            return
        if event.api == "SyncGroup":
            self._start(step, group_id, member)
        elif event.api == "JoinGroup" and step.kind == "appended":
            # A static replacement that is durable starts its session only if that was over meanwhile. A generation
            # that could not be written starts those of the members that waited for it.
            is_over = self.due[step.life, group_id, event.member_id] <= step.now_ms
            failed = event.error != "NONE" and not any(isinstance(e, ReplacementReverted) for e in step.events)
            if is_over or failed:
                self._start(step, group_id, member)

    # Expiries

    def is_over(self, step: Step, group_id: str, member_id: str) -> bool:
        return self.due.get((step.life, group_id, member_id), 0) <= step.now_ms

    def died(self, life: int) -> None:
        self.due = {key: due for key, due in self.due.items() if key[0] != life}


class Membership:
    """Members go for a reason, and groups stay within their size."""

    def __init__(self, world: World, sessions: Sessions) -> None:
        self.world = world
        self.sessions = sessions
        self.synced: set[tuple[ClassicGroup, int, str]] = set()
        """Group, generation and member id of each successful SyncGroup."""
        self.replaced: dict[tuple[ClassicGroup, str], MemberView] = {}
        """Group and id → a static member as it was before another id took its place."""

    def step(self, step: Step) -> None:
        self._note_syncs(step)
        for group_id in step.touched:
            before, after = step.before.get(group_id), step.after.get(group_id)
            if before is None:
                continue
            if after is None or after.group is not before.group:
                self._group_is_gone(step, group_id, before)
                continue
            for member in before.members.values():
                if member.member_id not in after.members and not self._may_go(step, group_id, before, member):
                    raise Violation("members go for a reason", f"{member.member_id} is gone after {step.kind}")
            for member_id in before.pending:
                if member_id not in after.pending and not self._id_may_go(step, group_id, after, member_id):
                    raise Violation("members go for a reason", f"the issued id {member_id} is gone after {step.kind}")
        for group_id in step.touched:
            group = step.after.get(group_id)
            if group is not None and group.state == expected.PREPARING:
                # Static members that come back late are let in on top, as in Kafka.
                dynamic = sum(m.parked_join is not None and m.group_instance_id is None for m in group.members.values())
                if dynamic > self.world.plan.max_size:
                    raise Violation("group size", f"{group_id} collects {dynamic} members")
        for event in step.events:
            if isinstance(event, (SessionExpired, PendingMemberExpired)):
                self._expired(step, event.group_id, event.member_id)
            elif isinstance(event, MemberReplaced):
                before = step.before[event.group_id]
                self.replaced[before.group, event.old_member_id] = before.members[event.old_member_id]
            elif isinstance(event, ReplacementReverted):
                self._reverted(step, event)

    def _reverted(self, step: Step, event: ReplacementReverted) -> None:
        """A replacement that could not be logged leaves no trace of what it wanted."""
        group = step.after[event.group_id]
        old, now = self.replaced[group.group, event.old_member_id], group.members.get(event.old_member_id)
        if now is None or (now.protocols, now.session_timeout_ms) != (old.protocols, old.session_timeout_ms):
            raise Violation("replacements are taken back", f"{event.old_member_id} was {old} and is now {now}")

    def _note_syncs(self, step: Step) -> None:
        request = step.request
        if step.kind == "sync" and (step.answer is None or not step.answer.error_code):
            self.synced.add((step.before[request.group_id].group, request.generation_id, request.member_id))

    def _group_is_gone(self, step: Step, group_id: str, before: GroupView) -> None:
        if step.kind == "unload" or not before.members:
            return
        failed_at_birth = step.kind == "appended" and step.error and before.generation == 0
        removed = any(isinstance(event, GroupRemoved) and event.group_id == group_id for event in step.events)
        if not (failed_at_birth and removed):
            raise Violation("members go for a reason", f"{group_id} is gone with its members after {step.kind}")

    def _may_go(self, step: Step, group_id: str, before: GroupView, member: MemberView) -> bool:
        request = step.request
        if step.kind == "leave" and request.group_id == group_id:
            instance = member.group_instance_id
            return any(
                member_id == member.member_id or (not member_id and instance is not None and instance_id == instance)
                for member_id, instance_id in expected.leave_entries(step)
            )
        if step.kind == "join" and step.answer is not None:
            full = step.answer.error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
            return full and request.member_id == member.member_id
        for event in step.events:
            if isinstance(event, MemberReplaced) and event.old_member_id == member.member_id:
                return True
            if isinstance(event, (ReplacementReverted, SessionExpired)) and event.member_id == member.member_id:
                return True
            if isinstance(event, TimerFired) and event.group_id == group_id:
                if event.timer == "sync":
                    key = before.group, before.generation, member.member_id
                    if member.member_id in before.owes_sync and key not in self.synced:
                        return True
                elif event.timer in ("join", "initial delay") and self._is_late(step, member):
                    return True
        return False

    def _is_late(self, step: Step, member: MemberView) -> bool:
        absent = [name for event in step.events_of(BarrierClosed) if event.barrier == "join" for name in event.absent]
        return member.group_instance_id is None and member.parked_join is None and member.member_id in absent

    def _id_may_go(self, step: Step, group_id: str, after: GroupView, member_id: str) -> bool:
        if member_id in after.members:
            return step.kind == "join"
        if step.kind == "leave":
            return any(name == member_id for name, _ in expected.leave_entries(step))
        if step.kind == "join" and step.answer is not None:
            return bool(step.answer.error_code == ErrorCode.GROUP_MAX_SIZE_REACHED)
        if step.kind in ("delete groups", "appended"):
            return True  # with the group
        timers = step.events_of(TimerFired)
        if any(event.timer == "retention" for event in timers):
            return True  # likewise
        return any(event.timer == "session" and event.member_id == member_id for event in timers)

    def _expired(self, step: Step, group_id: str, member_id: str) -> None:
        if not self.sessions.is_over(step, group_id, member_id):
            raise Violation("sessions last", f"{member_id} expired before its time")
        group = step.before.get(group_id)
        member = group.members.get(member_id) if group is not None else None
        if member is not None and member.is_parked and not member.is_new:
            raise Violation("sessions last", f"{member_id} expired while its request was parked")
