"""The log: nothing is told before it is durable, and what is durable is neither lost nor made up.

The ledger reads the records of each partition on its own, in the order of the log. Beside it a second coordinator
replays the same records: it must arrive at what the ledger has, and the live one must have it, too.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from ottla.broker.core.coordination.shard import ShardState
from ottla.broker.core.effects import Append, Reply
from ottla.broker.core.events import OwnershipChanged, TimerFired
from ottla.broker.core.groups.coordinator import GroupCoordinator
from ottla.protocol.consumer_protocol import PROTOCOL_TYPE
from ottla.protocol.errors import ErrorCode
from ottla.protocol.groups import coordinator_partition
from ottla.protocol.messages.delete_groups import DeleteGroupsResponse
from ottla.protocol.messages.join_group import JoinGroupResponse
from ottla.protocol.messages.offset_commit import OffsetCommitResponse
from ottla.protocol.messages.offset_fetch import OffsetFetchResponse
from ottla.protocol.messages.sync_group import SyncGroupResponse
from ottla.protocol.offsets_topic import (
    CoordinatorRecord,
    GroupKey,
    GroupValue,
    OffsetKey,
    OffsetValue,
    decode_key,
    decode_value,
)
from tests.core.durable import differences, durable_state
from tests.sim.check_generations import who_is
from tests.sim.expected import EMPTY, PREPARING, STABLE, unavailable
from tests.sim.kernel import Violation
from tests.sim.views import GroupView, Step
from tests.sim.watched import WatchedCoordinator, group_config

if TYPE_CHECKING:
    from tests.sim.world import World

COMPARE_EVERY = 16
"""Without an outcome of an append the durable state cannot change; that is looked at now and then."""

Offsets = dict[tuple[str, int], OffsetValue]


class Ledger:
    """The contents of a partition's log."""

    def __init__(self, world: World, partition: int) -> None:
        self.world = world
        self.partition = partition
        self.groups: dict[str, GroupValue] = {}
        self.offsets: dict[str, Offsets] = {}
        self.replica = GroupCoordinator(group_config(world), str, world.plan.partitions)
        self.replica.load_started(partition, 0)

    def apply(self, records: list[CoordinatorRecord], committed: set[tuple[str, str, int, int]]) -> None:
        touched: dict[str, None] = {}
        for record in records:
            self._read(record, committed, touched)
            if not self.replica.replay(self.partition, record, 0):
                raise Violation("replay", f"a record of partition {self.partition} cannot be read")
        for group_id in touched:
            self._compare(group_id)

    def _read(self, record: CoordinatorRecord, committed: set[Any], touched: dict[str, None]) -> None:
        key = decode_key(record.key)
        assert key is not None
        touched[key.group_id] = None
        if isinstance(key, GroupKey):
            before = self.groups.pop(key.group_id, None)
            if record.value is None:  # offsets have tombstones of their own
                self.world.watch.generations.forgotten(key.group_id)
                return
            value = decode_value(GroupValue, record.value)
            if before is not None and value.generation < before.generation:
                raise Violation(
                    "generations go up", f"{key.group_id} was logged with {before.generation}, then {value}"
                )
            self.groups[key.group_id] = value
            return
        offsets = self.offsets.setdefault(key.group_id, {})
        offsets.pop((key.topic, key.partition), None)
        if record.value is not None:
            offset = decode_value(OffsetValue, record.value)
            offsets[key.topic, key.partition] = offset
            committed.add((key.group_id, key.topic, key.partition, offset.offset))

    def _compare(self, group_id: str) -> None:
        group = self.replica.shards[self.partition].groups.get(group_id)
        value, offsets = self.groups.get(group_id), self.offsets.get(group_id, {})
        if group is None:
            if value is not None or offsets:
                raise Violation("replay", f"{group_id} is in the log, but not in a coordinator that read it")
            return
        told = {key: found.offset for key, found in offsets.items()}
        read = {(topic, partition): found.offset for topic, partition, found in group.offsets.items()}
        if told != read:
            raise Violation("replay", f"{group_id}: the log has {told}, its reader {read}")
        members = {} if value is None else {m.member_id: (m.group_instance_id, m.assignment) for m in value.members}
        read_members = {m.member_id: (m.group_instance_id, m.assignment) for m in group.members.values()}
        wanted = (0, None, None, {}) if value is None else (value.generation, value.protocol, value.leader, members)
        found = group.generation, group.protocol_name, group.leader_id, read_members
        if wanted != found or (group.state.value == STABLE) != bool(members):
            raise Violation("replay", f"{group_id}: the log has {wanted}, its reader {found}")


class LogCheck:
    """See the module."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.ledgers = [Ledger(world, partition) for partition in range(world.plan.partitions)]
        self.committed: set[tuple[str, str, int, int]] = set()
        """Every offset that ever was in the log; offsets are unique in a simulation."""
        self._asked: dict[object, tuple[int, int, int, list[CoordinatorRecord]]] = {}
        """Appends whose outcome is not known: token → its number, life, partition and records."""
        self._orphans: dict[object, tuple[int, int, int, list[CoordinatorRecord]]] = {}
        """Those whose coordinator will not hear of it; they may become durable nevertheless."""
        self._appends = 0
        self._failed: dict[str, int] = {}
        """Groups with a record that could not be written, and how many appends had been asked for then: the next ones
        may have been made of what was taken back."""
        self._retention_ms = group_config(world).offsets_retention_ms
        self._steps = 0

    # What goes into the log

    def outcome(self, token: object, error: ErrorCode) -> None:
        """An append is durable or has failed; called before the coordinator is told."""
        asked = self._asked.pop(token, None)
        number, _, partition, records = self._orphans.pop(token) if asked is None else asked
        for record in records:
            key = decode_key(record.key)
            if isinstance(key, GroupKey):
                if error:
                    self._failed[key.group_id] = self._appends
                elif number > self._failed.get(key.group_id, 0):
                    self._failed.pop(key.group_id, None)
        if not error:
            self.ledgers[partition].apply(records, self.committed)

    def survived(self, partition: int, records: list[CoordinatorRecord]) -> None:
        """Nobody was told, and the records are in the log nevertheless."""
        self.ledgers[partition].apply(records, self.committed)

    def given_up(self, life: int, partition: int | None = None) -> None:
        """A coordinator has lost a partition, or everything: what it asked for, it will not hear of."""
        for token, (_, asker, where, _) in list(self._asked.items()):
            if asker == life and partition in (None, where):
                self._orphans[token] = self._asked.pop(token)

    def on_its_way(self, life: int, group_id: str) -> set[tuple[str, int]]:
        """The offsets of a group that a coordinator has asked to be written or deleted."""
        found = set()
        for _, asker, _, records in self._asked.values():
            for record in records if asker == life else ():
                key = decode_key(record.key)
                if isinstance(key, OffsetKey) and key.group_id == group_id:
                    found.add((key.topic, key.partition))
        return found

    # What is said

    def step(self, coordinator: WatchedCoordinator, step: Step) -> None:
        if step.kind == "fetch":
            self._waits_if_stable(step)
        elif step.kind == "topic deleted":
            self._topic_deleted(step)
        elif step.kind == "unload":
            self.given_up(step.life, step.request)
        for effect in step.effects:
            if isinstance(effect, Append):
                self._appends += 1
                self._asked[effect.token] = self._appends, step.life, effect.partition, effect.records
                for record in effect.records:
                    self._belongs(effect.partition, record)
        for effect in step.effects:
            if isinstance(effect, Reply):
                self._said(step, effect.response)
        if step.answer is not None and step.ctx is not None:
            self._said(step, step.answer)
        if step.kind == "leave":
            self._left(step)
        elif step.kind == "join":
            self._is_born(step)
        for event in step.events:
            if isinstance(event, OwnershipChanged) and event.state == "loaded":
                self._loaded(step, event.partition)
            elif isinstance(event, TimerFired) and event.timer == "retention":
                self._swept(coordinator, step)
        self._steps += 1
        if step.kind == "appended":
            self.compare(coordinator, step.token.shard.partition)
            self._is_logged(coordinator, step.token.shard.partition)
        elif step.kind == "loaded" or self._steps % COMPARE_EVERY == 0:
            self.compare(coordinator)

    def ledger_of(self, group_id: str) -> Ledger:
        return self.ledgers[coordinator_partition(group_id, len(self.ledgers))]

    def _belongs(self, partition: int, record: CoordinatorRecord) -> None:
        key = decode_key(record.key)
        if key is None or coordinator_partition(key.group_id, len(self.ledgers)) != partition:
            raise Violation("partitions", f"{key} is written to partition {partition}")

    def _said(self, step: Step, response: Any) -> None:
        if isinstance(response, OffsetFetchResponse):
            self._fetched(step, response)
        elif isinstance(response, OffsetCommitResponse):
            self._acknowledged(step, response)
        elif isinstance(response, SyncGroupResponse) and not response.error_code:
            self._assigned(step, response)
        elif isinstance(response, JoinGroupResponse) and not response.error_code:
            self._announced(step, response)
        elif isinstance(response, DeleteGroupsResponse):
            self._deleted(response)

    def _acknowledged(self, step: Step, response: OffsetCommitResponse) -> None:
        if not any(not item.error_code for topic in response.topics for item in topic.partitions):
            return
        if step.kind != "appended":
            raise Violation("persist, then speak", f"a commit was acknowledged at {step.kind}")
        group_id = step.token.group_id
        accepted = {(topic, index): committed.offset for topic, index, committed in step.token.accepted}
        for topic in response.topics:
            for item in topic.partitions:
                key = topic.name, item.partition_index
                if not item.error_code and (group_id, *key, accepted[key]) not in self.committed:
                    raise Violation("persist, then speak", f"{group_id} {key} {accepted[key]} is not in the log")

    def _fetched(self, step: Step, response: OffsetFetchResponse) -> None:
        request = step.request if step.kind == "fetch" else None
        found: dict[str, list[tuple[str, Any]]] = {}
        if response.groups:
            for group in response.groups:
                if not group.error_code:
                    found[group.group_id] = [(t.name, p) for t in group.topics for p in t.partitions]
        elif request is not None and not response.error_code:
            found[request.group_id] = [(t.name, p) for t in response.topics for p in t.partitions]
        for group_id, partitions in found.items():
            stored = self.ledger_of(group_id).offsets.get(group_id, {})
            for topic, item in partitions:
                if item.error_code:
                    continue
                value = stored.get((topic, item.partition_index))
                told = item.committed_offset, item.metadata
                wanted = (-1, "") if value is None else (value.offset, value.metadata)
                if told != wanted:
                    raise Violation("committed offsets", f"{group_id} {topic} reads {told}, the log has {wanted}")

    def _waits_if_stable(self, step: Step) -> None:
        """A fetch that wants stable offsets waits for those that are on their way."""
        request = step.request
        if step.answer is None or not request.require_stable:
            return
        wanted = [group.group_id for group in request.groups] or [request.group_id]
        for group_id in wanted:
            if not unavailable(step, group_id) and group_id in step.before and self.on_its_way(step.life, group_id):
                raise Violation("committed offsets", f"a stable fetch of {group_id} did not wait")

    def _topic_deleted(self, step: Step) -> None:
        """All offsets of the topic go, those that are on their way as well."""
        topic = step.request
        gone = set()
        for effect in step.effects:
            for record in effect.records:
                key = decode_key(record.key)
                assert isinstance(key, OffsetKey) and record.value is None
                gone.add((key.group_id, key.topic, key.partition))
        for group_id in step.before:
            known = self.on_its_way(step.life, group_id) | set(self.ledger_of(group_id).offsets.get(group_id, ()))
            for name, index in known:
                if name == topic and (group_id, name, index) not in gone:
                    raise Violation("topic deletion", f"{group_id} keeps its offset of {name}-{index}")

    def _assigned(self, step: Step, response: SyncGroupResponse) -> None:
        for group_id, view in step.before.items():
            parked = [m.member_id for m in view.members.values() if m.parked_sync is not None]
            asker = step.request.member_id if step.kind == "sync" else None
            if asker in view.members or (step.kind == "appended" and step.token.group_id == group_id and parked):
                value = self.ledger_of(group_id).groups.get(group_id)
                if value is None or value.generation != view.generation:
                    raise Violation("persist, then speak", f"generation {view.generation} of {group_id} is not logged")
                stored = {who_is(member.member_id): member.assignment for member in value.members}
                if response.assignment not in stored.values():
                    raise Violation("persist, then speak", f"{response.assignment!r} of {group_id} is not logged")

    def _announced(self, step: Step, response: JoinGroupResponse) -> None:
        persists = self.world.plan.has("generations persisted at join")
        for group_id, view in step.after.items():
            if response.member_id not in view.members:
                continue
            value = self.ledger_of(group_id).groups.get(group_id)
            if persists and (value is None or value.generation < response.generation_id):
                raise Violation("persist, then speak", f"{group_id}: {response.generation_id} is not logged")
            if step.kind == "appended" and view.state == STABLE:
                logged = [] if value is None else [member.member_id for member in value.members]
                if response.member_id not in logged:
                    raise Violation("persist, then speak", f"{group_id}: {response.member_id} is not logged")

    def _left(self, step: Step) -> None:
        before, after = step.before.get(step.request.group_id), step.after.get(step.request.group_id)
        if before is None or after is None or step.answer is None:
            return
        if before.state != EMPTY and after.state == EMPTY:
            raise Violation("persist, then speak", f"{step.request.group_id} is Empty, and the leaver heard at once")

    def _is_born(self, step: Step) -> None:
        """A group that a JoinGroup brings about is logged at once."""
        group_id = step.request.group_id
        is_new = group_id not in step.before and group_id in step.after
        if is_new and not any(isinstance(effect, Append) for effect in step.effects):
            raise Violation("generations are logged", f"nothing tells the log of the new group {group_id}")

    def _deleted(self, response: DeleteGroupsResponse) -> None:
        if len(response.results) == 1 and not response.results[0].error_code:
            group_id = response.results[0].group_id
            ledger = self.ledger_of(group_id)
            if group_id in ledger.groups or ledger.offsets.get(group_id):
                raise Violation("persist, then speak", f"{group_id} was deleted and is still in the log")

    # Replay

    def compare(self, coordinator: WatchedCoordinator, partition: int | None = None) -> None:
        """The live state must be what the log says, in one partition or in all."""
        shards = coordinator.shards
        for shard in shards if partition is None else [shards[partition]]:
            if shard.state is not ShardState.ACTIVE:
                continue
            ledger = self.ledgers[shard.partition]
            replica = ledger.replica.shards[shard.partition].groups
            live: Any = SimpleNamespace(groups=shard.groups)
            read: Any = SimpleNamespace(groups=replica)
            if found := differences(durable_state(live), durable_state(read)):
                raise Violation("replay equals live", "; ".join(found))

    def _is_logged(self, coordinator: WatchedCoordinator, partition: int) -> None:
        """A generation that has come to an end of its forming is in the log, unless writing it failed."""
        life = coordinator.life
        writing = {
            key.group_id
            for _, asker, _, records in self._asked.values()
            for record in (records if asker == life else ())
            if isinstance(key := decode_key(record.key), GroupKey)
        }
        ledger = self.ledgers[partition]
        for group_id, view in coordinator.views.items():
            if view.group.shard.partition != partition or group_id in writing or self._failed.get(group_id):
                continue
            if view.state not in (STABLE, EMPTY) or not view.generation:
                continue
            value = ledger.groups.get(group_id)
            logged = None if value is None else (value.generation, [member.member_id for member in value.members])
            if logged != (view.generation, list(view.members)):
                raise Violation("generations are logged", f"{group_id} is {view.generation}, the log has {logged}")

    def _loaded(self, step: Step, partition: int) -> None:
        ledger = self.ledgers[partition]
        for group_id, value in ledger.groups.items():
            view = step.after.get(group_id)
            if view is None or view.generation != value.generation:
                raise Violation("generations go up", f"{group_id} was loaded as {view}, the log has {value}")
            over = len(value.members) > self.world.plan.max_size
            unassigned = self.world.plan.has("generations persisted at join") and not any(
                member.assignment for member in value.members
            )
            states = {PREPARING} if value.members and (over or unassigned) else {STABLE if value.members else EMPTY}
            if view.state not in states or list(view.members) != [member.member_id for member in value.members]:
                raise Violation("replay", f"{group_id} was loaded as {view.state} with {list(view.members)}")

    # Expiration

    def _swept(self, coordinator: WatchedCoordinator, step: Step) -> None:
        """Exactly what is over goes, but for what has a record on its way."""
        gone: set[tuple[str, str, int]] = set()
        groups: set[str] = set()
        for effect in step.effects:
            if isinstance(effect, Append):
                for record in effect.records:
                    key = decode_key(record.key)
                    if record.value is None and isinstance(key, GroupKey):
                        groups.add(key.group_id)
                    elif record.value is None and key is not None:
                        gone.add((key.group_id, key.topic, key.partition))
        swept = {
            shard.partition
            for shard in coordinator.shards
            for event in step.events_of(TimerFired)
            if event.timer == "retention" and shard.state is ShardState.ACTIVE
        }
        if len(swept) != 1:
            return  # which of them it was, the event does not say
        for group_id, view in step.after.items():
            in_flight = view.group.offsets.in_flight
            stored = self.ledger_of(group_id).offsets.get(group_id, {})
            over = {key for key, value in stored.items() if self._is_over(step, view, key, value)}
            swept_here = {(topic, partition) for name, topic, partition in gone if name == group_id}
            if not swept_here <= over:
                raise Violation("expiration", f"{group_id}: {swept_here - over} went too early")
            if missed := {key for key in over - swept_here if key not in in_flight}:
                raise Violation("expiration", f"{group_id}: {missed} should have gone")
            if group_id in groups and (view.state != EMPTY or set(stored) - over):
                raise Violation("expiration", f"{group_id} went while it was {view.state}")

    def _is_over(self, step: Step, view: GroupView, key: tuple[str, int], value: OffsetValue) -> bool:
        group = view.group
        if view.protocol_type is None:
            base_ms = value.commit_timestamp
        elif view.state == EMPTY:
            since = group.state_timestamp_ms
            base_ms = value.commit_timestamp if since is None else since
        elif view.state == STABLE and view.protocol_type == PROTOCOL_TYPE:
            topics = self.world.watch.generations.topics.get(group)
            if topics is None or key[0] in topics:
                return False
            base_ms = value.commit_timestamp
        else:
            return False
        if value.expire_timestamp >= 0:
            return step.wall_ms >= value.expire_timestamp
        return step.wall_ms - base_ms >= self._retention_ms
