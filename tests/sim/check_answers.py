"""Every request is answered exactly once, and with what the tables say; or one knows why it never is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ottla.broker.core.effects import Reply
from ottla.protocol.consumer_protocol import PROTOCOL_TYPE, subscribed_topics
from ottla.protocol.errors import ErrorCode, MalformedFrame
from tests.sim import expected
from tests.sim.expected import PARKED
from tests.sim.kernel import Violation
from tests.sim.views import GroupView, Step

if TYPE_CHECKING:
    from tests.sim.world import World

WAITS_FOR_MEMBERS = ("join", "sync")


@dataclass(slots=True)
class Waiting:
    """A request without an answer yet, and whose it is (known for joins and syncs)."""

    kind: str
    group_id: str
    member_id: str
    since_ms: int


class Answers:
    """See the module."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.waiting: dict[int, dict[Any, Waiting]] = {}

    def step(self, step: Step) -> None:
        waiting = self.waiting.setdefault(step.life, {})
        if step.ctx is not None and step.answer is None:
            group_id = getattr(step.request, "group_id", "")
            waiting[step.ctx] = Waiting(step.kind, group_id, "", step.now_ms)
        for effect in step.effects:
            if isinstance(effect, Reply):
                if effect.ctx not in waiting:
                    raise Violation("answered once", f"{effect.ctx!r} is answered, but nothing waits for it")
                del waiting[effect.ctx]
        if any(entry.kind in WAITS_FOR_MEMBERS for entry in waiting.values()):
            self._nobody_is_forgotten(step, waiting)

    def _nobody_is_forgotten(self, step: Step, waiting: dict[Any, Waiting]) -> None:
        parked: dict[Any, tuple[str, str]] = {}
        for group_id, group in step.after.items():
            for member in group.members.values():
                for ctx in (member.parked_join, member.parked_sync):
                    if ctx is not None:
                        parked[ctx] = group_id, member.member_id
                        if ctx not in waiting:
                            raise Violation("answered once", f"{ctx!r} was answered and is still parked")
        for ctx, entry in list(waiting.items()):
            if entry.kind not in WAITS_FOR_MEMBERS:
                continue
            if ctx in parked:
                entry.member_id = parked[ctx][1]
            elif self._may_be_dropped(step, entry):
                del waiting[ctx]
            else:
                raise Violation("everyone is answered", f"{ctx!r} of {entry.member_id} waits, and nobody knows of it")

    def _may_be_dropped(self, step: Step, entry: Waiting) -> bool:
        """A newer request of the same member took its place, or LeaveGroup removed a member that syncs (as Kafka)."""
        if step.kind == entry.kind:
            return step.ctx is not None and entry.member_id == step.request.member_id
        return step.kind == "leave" and entry.kind == "sync"

    def died(self, life: int) -> None:
        self.waiting.pop(life, None)

    def at_rest(self, life: int) -> None:
        """Nothing may wait in a quiet world."""
        for ctx, entry in self.waiting.get(life, {}).items():
            raise Violation("everyone is answered", f"{ctx!r} ({entry.kind} since {entry.since_ms}) still waits")


class Table:
    """See `tests.sim.expected`."""

    def __init__(self, world: World) -> None:
        self.world = world
        self._later: dict[Any, dict[tuple[str, int], int]] = {}
        """The contents of answers that wait for records, if the records become durable."""

    def step(self, step: Step) -> None:
        check = getattr(self, "_" + step.kind.replace(" ", "_"), None)
        if check is not None:
            check(step)
        for effect in step.effects:
            if isinstance(effect, Reply) and (wanted := self._later.pop(effect.ctx, None)) is not None:
                # If a record failed the answer tells of that; which part of it was written is not said.
                failed = step.kind != "appended" or step.error or getattr(effect.response, "error_code", 0)
                if not failed:
                    self._expect(step, _codes(wanted), _by_partition(effect.response))

    def _expect(self, step: Step, wanted: object, found: object) -> None:
        """Hold what was answered against the tables."""
        if wanted != found:
            group = step.before.get(getattr(step.request, "group_id", ""))
            state = f"{group.state} in generation {group.generation}" if group is not None else "no group"
            names = f"{_name(wanted)}, but got {_name(found)}"
            raise Violation("state table", f"{step.kind} {step.ctx!r} with {state}: expected {names}")

    def _join(self, step: Step) -> None:
        wanted, member_id = expected.join(step, self.world.plan.max_size)
        answer = step.answer
        if wanted == PARKED:
            self._expect(step, None, answer)
            return
        self._expect(step, wanted, PARKED if answer is None else answer.error_code)
        if member_id is not None:
            self._expect(step, member_id, answer.member_id)
        elif not answer.member_id.endswith(self.world.last_id):
            raise Violation("state table", f"{answer.member_id} is not a new id")

    def _sync(self, step: Step) -> None:
        wanted = expected.sync(step)
        self._expect(step, wanted, PARKED if step.answer is None else step.answer.error_code)

    def _heartbeat(self, step: Step) -> None:
        self._expect(step, int(expected.heartbeat(step)), step.answer)

    def _leave(self, step: Step) -> None:
        error, entries = expected.leave(step)
        answer = step.answer
        if answer is None:
            self._expect(step, error, ErrorCode.NONE)
            if not any(entry == ErrorCode.NONE for entry in entries):
                raise Violation("state table", f"leave {step.ctx!r} waits, but nobody left")
        elif error or step.ctx.api_version >= 3:
            self._expect(step, error, answer.error_code)
            self._expect(step, [int(entry) for entry in entries], [int(item.error_code) for item in answer.members])
        else:
            self._expect(step, entries[0], answer.error_code)

    def _commit(self, step: Step) -> None:
        partitions = expected.commit_partitions(step, PARKED)
        undecided = any(error == PARKED for error in partitions.values())
        error = expected.commit(step) if undecided else ErrorCode.NONE
        partitions = expected.commit_partitions(step, error)
        if step.answer is None:
            self._expect(step, error, ErrorCode.NONE)
            self._later[step.ctx] = partitions
        elif not error and any(not found for found in partitions.values()):
            raise Violation("persist, then speak", f"commit {step.ctx!r} was answered at once")
        else:
            self._expect(step, _codes(partitions), _by_partition(step.answer))

    def _delete_offsets(self, step: Step) -> None:
        group = step.before.get(step.request.group_id)
        subscribed = {topic.name: self._uses(group, topic.name) for topic in step.request.topics}
        error, partitions = expected.delete_offsets(step, subscribed)
        if step.answer is None:
            self._expect(step, error, ErrorCode.NONE)
            self._later[step.ctx] = partitions
            return
        self._expect(step, error, step.answer.error_code)
        self._expect(step, _codes(partitions), _by_partition(step.answer))

    def _uses(self, group: GroupView | None, topic: str) -> bool:
        """True if the group subscribed to the topic in its last generation."""
        if group is None or group.protocol_type != PROTOCOL_TYPE:
            return False
        topics = self.world.watch.generations.topics.get(group.group)
        return True if topics is None else topic in topics

    def _delete_groups(self, step: Step) -> None:
        wanted = expected.delete_groups(step)
        if step.answer is None:
            self._expect(step, True, ErrorCode.NONE in wanted.values())
            return
        found = {result.group_id: int(result.error_code) for result in step.answer.results}
        self._expect(step, {key: int(code) for key, code in wanted.items()}, found)
        if ErrorCode.NONE in wanted.values():
            raise Violation("persist, then speak", f"delete groups {step.ctx!r} was answered at once")

    def _describe(self, step: Step) -> None:
        for described in step.answer.groups:
            group = step.before.get(described.group_id)
            if error := expected.unavailable(step, described.group_id):
                self._expect(step, (error, ""), (described.error_code, described.group_state))
            elif group is None:
                self._expect(step, (0, "Dead", []), (described.error_code, described.group_state, described.members))
            else:
                stable = group.state == expected.STABLE
                self._expect(step, group.state, described.group_state)
                self._expect(step, (group.protocol_name or "") if stable else "", described.protocol_data)
                self._expect(
                    step,
                    [
                        (member.member_id, member.group_instance_id, member.client_id, member.assignment)
                        for member in group.members.values()
                    ],
                    [
                        (item.member_id, item.group_instance_id, item.client_id, item.member_assignment)
                        for item in described.members
                    ],
                )

    def _list(self, step: Step) -> None:
        if any(state == "loading" for state in step.shards):
            self._expect(step, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, step.answer.error_code)
            self._expect(step, [], step.answer.groups)
            return
        states = [state.lower() for state in step.request.states_filter]
        wanted = [
            (group_id, group.protocol_type or "", group.state)
            for group_id, group in step.before.items()
            if not states or group.state.lower() in states
        ]
        self._expect(
            step, sorted(wanted), sorted((i.group_id, i.protocol_type, i.group_state) for i in step.answer.groups)
        )


def topics_of(group: GroupView) -> set[str] | None:
    """The topics that the members of a group subscribe to; None if that is not known."""
    if group.protocol_type != PROTOCOL_TYPE:
        return None
    found: set[str] = set()
    try:
        for member in group.members.values():
            metadata = next((data for name, data in member.protocols if name == group.protocol_name), b"")
            found.update(subscribed_topics(metadata))
    except MalformedFrame:
        return None
    return found


def _by_partition(answer: Any) -> dict[tuple[str, int], int]:
    return {
        (topic.name, item.partition_index): int(item.error_code) for topic in answer.topics for item in topic.partitions
    }


def _codes(partitions: dict[tuple[str, int], int]) -> dict[tuple[str, int], int]:
    return {key: int(code) for key, code in partitions.items()}


def _name(value: object) -> str:
    if value == PARKED:
        return "to wait"
    if isinstance(value, int) and not isinstance(value, bool):
        return ErrorCode(value).name
    return str(value)
