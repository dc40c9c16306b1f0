"""Generations: one leader, one protocol, one set of members and one assignment each, and never a step back.

Two ids of one static member are one here: its instance id stands for it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ottla.broker.core.effects import Append, Reply
from ottla.broker.core.events import (
    BarrierClosed,
    BarrierOpened,
    GenerationStarted,
    OwnershipChanged,
    RequestAnswered,
    StateChanged,
    TimerFired,
)
from ottla.broker.core.groups.classic.group import ClassicGroup
from ottla.protocol.messages.join_group import JoinGroupResponse
from ottla.protocol.messages.sync_group import SyncGroupResponse
from tests.sim.check_answers import topics_of
from tests.sim.expected import COMPLETING, EMPTY, PREPARING, STABLE
from tests.sim.kernel import Violation
from tests.sim.views import GroupView, Step

if TYPE_CHECKING:
    from tests.sim.world import World

TIE_RANK = {"sticky": 0, "range": 1, "roundrobin": 2, "cooperative-sticky": 3, "custom": 4}
"""Which protocol wins among equals, see Kafka's order."""

TRANSITIONS = {
    (EMPTY, PREPARING),
    (COMPLETING, PREPARING),
    (STABLE, PREPARING),
    (PREPARING, COMPLETING),
    (COMPLETING, STABLE),
    (PREPARING, EMPTY),
}


def who_is(member_id: str) -> str:
    """The static member that an id belongs to, or the id."""
    name, _, tail = member_id.partition("-0000")
    return name if tail and name.startswith("i") else member_id


class Fact:
    """Everything that members were told of a generation."""

    __slots__ = ("assignments", "leader", "members", "owners", "protocol")

    def __init__(self) -> None:
        self.leader: str | None = None
        self.protocol: tuple[str | None, str | None] | None = None
        self.members: list[str] | None = None
        self.assignments: dict[str, bytes] | None = None
        self.owners: dict[str, str] = {}


class Generations:
    """See the module."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.facts: dict[tuple[ClassicGroup, int], Fact] = {}
        self.newest: dict[ClassicGroup, int] = {}
        self.topics: dict[ClassicGroup, set[str] | None] = {}
        self.states: dict[ClassicGroup, str] = {}
        self.deadlines: dict[ClassicGroup, int] = {}
        """When the phase that runs must be over."""
        self.announced: dict[tuple[str, int], tuple[str, list[str]]] = {}
        """With generations persisted at join: what a number stands for, whoever coordinates."""

        self._handlers: dict[type, Callable[[Step, Any], None]] = {
            StateChanged: self._moved,
            GenerationStarted: self._started,
            BarrierOpened: self._opened,
            OwnershipChanged: self._owned,
        }

    def fact(self, group: ClassicGroup, generation: int) -> Fact:
        return self.facts.setdefault((group, generation), Fact())

    def step(self, step: Step) -> None:
        for event in step.events:
            handler = self._handlers.get(type(event))
            if handler is not None:
                handler(step, event)
        if step.kind == "sync":
            self._brought(step)
        told = [(effect.ctx, effect.response) for effect in step.effects if isinstance(effect, Reply)]
        if step.answer is not None and step.ctx is not None:
            told.append((step.ctx, step.answer))
        for ctx, answer in told:
            if isinstance(answer, JoinGroupResponse) and not answer.error_code:
                self._joined(step, ctx, answer)
            elif isinstance(answer, SyncGroupResponse) and not answer.error_code:
                self._synced(step, ctx, answer)
        for group_id in step.touched:
            group = step.after.get(group_id)
            if group is not None:
                self._in_time(step, group_id, group)
                self.states.setdefault(group.group, group.state)
                self._consistent(group)

    # The machine

    def _moved(self, step: Step, event: StateChanged) -> None:
        after = step.after.get(event.group_id)
        group = after.group if after is not None else None
        if (event.before, event.after) not in TRANSITIONS and event.after != "Dead":
            raise Violation("legal transitions", f"{event.group_id}: {event.before} → {event.after}")
        if after is None or group is None:
            return
        known = self.states.get(group, EMPTY)
        if known != event.before:
            raise Violation("legal transitions", f"{event.group_id} was {known}, not {event.before}")
        self.states[group] = event.after
        if event.after in (STABLE, EMPTY):
            self.deadlines.pop(group, None)
        elif event.after == PREPARING:
            longest = _longest_rebalance(after)
            if step.kind == "advance" and event.group_id in step.before:
                # Another deadline of the same moment may have taken somebody away since.
                longest = max(longest, _longest_rebalance(step.before[event.group_id]))
            if event.before == EMPTY:
                longest = max(longest, self.world.plan.initial_delay_ms)
            self.deadlines[group] = step.now_ms + longest
        elif event.after == COMPLETING:
            self.deadlines.pop(group, None)  # until it is announced

    def _opened(self, step: Step, event: BarrierOpened) -> None:
        view = step.after.get(event.group_id)
        if view is None:
            return
        longest = _longest_rebalance(view)
        if event.barrier == "sync":
            self.deadlines[view.group] = step.now_ms + longest
        elif event.barrier == "join" and not view.parked_joins:
            again_ms = step.now_ms + max(longest, 1)  # only absent static members are left
            self.deadlines[view.group] = max(again_ms, self.deadlines.get(view.group, 0))

    def _in_time(self, step: Step, group_id: str, view: GroupView) -> None:
        deadline_ms = self.deadlines.get(view.group)
        slack = self.world.LATEST_TIMER_MS * 2 if self.world.plan.has("late timers") else 0
        if deadline_ms is None or step.now_ms <= deadline_ms + slack:
            return
        if view.state == PREPARING:
            raise Violation("barriers open", f"{group_id} should have a generation since {deadline_ms}")
        if view.owes_sync:
            raise Violation("barriers open", f"{group_id} awaits {view.owes_sync} since {deadline_ms}")

    def _consistent(self, view: GroupView) -> None:
        if (view.state == EMPTY) != (not view.members) and view.state != PREPARING:
            raise Violation("members", f"{view.state} with {len(view.members)} members")
        if view.members and view.leader_id not in view.members:
            raise Violation("one leader", f"{view.leader_id} leads, but is no member")
        for instance, member_id in view.static_members.items():
            if member_id not in view.members:
                raise Violation("members", f"{instance} belongs to {member_id}, which is no member")

    # The start of a generation

    def _started(self, step: Step, event: GenerationStarted) -> None:
        after, before = step.after.get(event.group_id), step.before.get(event.group_id)
        if after is None:
            return
        known = self.newest.get(after.group, 0)
        if event.generation != known + 1:
            raise Violation("generations go up", f"{event.group_id} goes from {known} to {event.generation}")
        self.newest[after.group] = event.generation
        self.topics[after.group] = topics_of(after)
        if not event.members:
            return
        fact = self.fact(after.group, event.generation)
        fact.leader = who_is(event.leader_id or "")
        self._is_due(step, event, before, after)
        self._is_joined(step, event, after)
        if after.generation == event.generation and len(after.members) == event.members:
            self._is_elected(event, after)

    def _is_due(self, step: Step, event: GenerationStarted, before: GroupView | None, after: GroupView) -> None:
        """A phase ends when its time is up, or when everybody is here; the initial delay is not cut short."""
        timers = {fired.timer for fired in step.events_of(TimerFired) if fired.group_id == event.group_id}
        if timers & {"join", "initial delay"}:
            return
        absent = [
            name
            for closed in step.events_of(BarrierClosed)
            if closed.barrier == "join" and closed.group_id == event.group_id
            for name in closed.absent
        ]
        if absent or after.pending:
            raise Violation("barriers open", f"{event.group_id} did not wait for {absent or after.pending}")
        was_waiting = before is not None and before.state == PREPARING and before.previous_state == EMPTY
        if was_waiting and step.kind != "advance":
            raise Violation("barriers open", f"the initial delay of {event.group_id} was cut short by {step.kind}")

    def _is_joined(self, step: Step, event: GenerationStarted, after: GroupView) -> None:
        """Every member of a generation has joined it, except static ones; its leader always has."""
        joined = {
            answered.member_id
            for answered in step.events_of(RequestAnswered)
            if answered.api == "JoinGroup" and answered.group_id == event.group_id
        }
        joined.update(member.member_id for member in after.members.values() if member.parked_join is not None)
        for member in after.members.values():
            if member.group_instance_id is None and member.member_id not in joined:
                raise Violation("barriers open", f"{member.member_id} is in the generation, but has not joined")
        if event.leader_id not in joined:
            raise Violation("one leader", f"{event.leader_id} leads, but has not joined")

    def _is_elected(self, event: GenerationStarted, after: GroupView) -> None:
        votes: dict[str, int] = {}
        lists = [[name for name, _ in member.protocols] for member in after.members.values()]
        for names in lists:
            favourite = next((name for name in names if all(name in others for others in lists)), None)
            if favourite is None:
                raise Violation("one protocol", f"{event.group_id}: the members have no protocol in common")
            votes[favourite] = votes.get(favourite, 0) + 1
        best = max(votes, key=lambda name: (votes[name], -TIE_RANK[name]))
        if event.protocol_name != best:
            raise Violation("one protocol", f"{event.group_id} chose {event.protocol_name}, but the votes are {votes}")

    def _owned(self, step: Step, event: OwnershipChanged) -> None:
        if event.state != "loaded":
            return
        for view in step.after.values():
            if view.group.shard.partition != event.partition:
                continue
            self.states[view.group] = STABLE if view.members else EMPTY  # events tell if it moved on at once
            self.newest[view.group] = view.generation
            self.topics[view.group] = topics_of(view)
            if view.members:
                fact = self.fact(view.group, view.generation)
                fact.leader = who_is(view.leader_id or "")
                fact.assignments = {who_is(m.member_id): m.assignment for m in view.members.values()}

    # What members are told

    def _joined(self, step: Step, ctx: Any, answer: JoinGroupResponse) -> None:
        view = next((view for view in step.after.values() if answer.member_id in view.members), None)
        if view is None:
            raise Violation("told the truth", f"{answer.member_id} is told of a generation, but is no member")
        known = self.newest.get(view.group, 0)
        if answer.generation_id != known:
            raise Violation("generations go up", f"{answer.member_id} is told {answer.generation_id} after {known}")
        fact = self.fact(view.group, answer.generation_id)
        leader, members = who_is(answer.leader), [who_is(member.member_id) for member in answer.members]
        if view.state != PREPARING:  # else a static replacement came through late; it will have to join anew
            if fact.leader not in (None, leader):
                raise Violation("one leader", f"generation {known} has leaders {fact.leader} and {leader}")
            fact.leader = leader
            protocol = answer.protocol_type if ctx.api_version >= 7 else view.protocol_type, answer.protocol_name
            if fact.protocol not in (None, protocol):
                raise Violation("one protocol", f"generation {known} has {fact.protocol} and {protocol}")
            fact.protocol = protocol
        if members:
            if answer.leader != answer.member_id:
                raise Violation("one leader", f"{answer.member_id} is shown the members and does not lead")
            if view.state == PREPARING:
                pass  # likewise
            elif fact.members is None:
                fact.members = sorted(members)
                self._is_unique(view, answer.generation_id, fact)
            elif fact.members != sorted(members):
                raise Violation("one member list", f"generation {known} has {fact.members} and {sorted(members)}")
            shown = {member.member_id: member.metadata for member in answer.members}
            stored = {
                member.member_id: next((data for name, data in member.protocols if name == view.protocol_name), b"")
                for member in view.members.values()
            }
            if shown != stored:
                raise Violation("told the truth", f"the leader is shown {shown}, but the members have {stored}")
        elif answer.leader == answer.member_id:
            raise Violation("one leader", f"{answer.member_id} leads and is not shown the members")

    def _is_unique(self, view: GroupView, generation: int, fact: Fact) -> None:
        """With generations persisted at join a number never names two."""
        if not self.world.plan.has("generations persisted at join"):
            return
        key = view.group.group_id, generation
        assert fact.leader is not None and fact.members is not None
        meaning = fact.leader, fact.members
        if self.announced.setdefault(key, meaning) != meaning:
            raise Violation("generations are unique", f"{key} named {self.announced[key]} and now {meaning}")

    def forgotten(self, group_id: str) -> None:
        """The log has a tombstone of the group: its numbers may come again."""
        for key in [key for key in self.announced if key[0] == group_id]:
            del self.announced[key]

    # Assignments

    def _brought(self, step: Step) -> None:
        """A leader's SyncGroup that is being logged says what everybody must get."""
        request, view = step.request, step.before.get(step.request.group_id)
        if view is None or step.answer is not None or not step.events:
            return
        if any(isinstance(effect, Append) for effect in step.effects):
            if view.leader_id != request.member_id:
                raise Violation("one leader", f"{request.member_id} assigns, but {view.leader_id} leads")
            fact = self.fact(view.group, view.generation)
            fact.assignments = {who_is(item.member_id): item.assignment for item in request.assignments}
            fact.owners = {}

    def _synced(self, step: Step, ctx: Any, answer: SyncGroupResponse) -> None:
        who = self._asker(step, ctx)
        if who is None:
            raise Violation("told the truth", f"{ctx!r} is given an assignment, but its member is unknown")
        view, member_id = who
        fact = self.fact(view.group, view.generation)
        name = who_is(member_id)
        if fact.assignments is None:
            raise Violation("assignments", f"{member_id} is given {answer.assignment!r}, but nobody assigned")
        if answer.assignment != fact.assignments.get(name, b""):
            wanted = fact.assignments.get(name, b"")
            raise Violation("assignments", f"{member_id} is given {answer.assignment!r}, the leader said {wanted!r}")
        if view.state != STABLE:
            raise Violation("assignments", f"{member_id} is given an assignment while the group is {view.state}")
        for unit in answer.assignment.decode().partition(":")[2].split(","):
            owner = fact.owners.setdefault(unit, name)
            if unit and owner != name:
                raise Violation("one owner", f"{unit} belongs to {owner} and {name} in generation {view.generation}")

    def _asker(self, step: Step, ctx: Any) -> tuple[GroupView, str] | None:
        if step.ctx is ctx:
            view = step.after.get(step.request.group_id)
            return None if view is None else (view, step.request.member_id)
        for group_id, view in step.before.items():
            for member in view.members.values():
                if member.parked_sync is ctx and group_id in step.after:
                    return step.after[group_id], member.member_id
        return None


def _longest_rebalance(view: GroupView) -> int:
    return max((member.rebalance_timeout_ms for member in view.members.values()), default=0)
