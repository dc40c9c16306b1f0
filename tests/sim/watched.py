"""The real coordinator with every entry observed: each becomes a `Step` that the checks look at."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from ottla.broker.core.coordination.shard import ShardState
from ottla.broker.core.effects import Append
from ottla.broker.core.events import EveryEvent
from ottla.broker.core.groups.config import GroupConfig
from ottla.broker.core.groups.coordinator import GroupCoordinator
from ottla.protocol.errors import ErrorCode
from ottla.protocol.offsets_topic import CoordinatorRecord
from ottla.protocol.records import BatchBuilder, decode_batch
from tests.sim.views import Step, Views, view

if TYPE_CHECKING:
    from tests.sim.world import World

REFUSES = {"commit", "delete offsets"}
OF_ONE_GROUP = {"join", "sync", "heartbeat", "leave", "commit", "delete offsets"}

RETENTION_MS = 20_000
RETENTION_CHECK_MS = 3_000
LONGEST_METADATA = 10


def group_config(world: World) -> GroupConfig:
    plan = world.plan
    expires = plan.has("expiration")
    return GroupConfig(
        group_initial_rebalance_delay_ms=plan.initial_delay_ms,
        group_max_size=plan.max_size,
        offset_metadata_max_bytes=LONGEST_METADATA,
        offsets_retention_ms=RETENTION_MS if expires else 10_080 * 60_000,
        offsets_retention_check_interval_ms=RETENTION_CHECK_MS if expires else 600_000,
        group_generation_persist="join" if plan.has("generations persisted at join") else "sync",
    )


def observed(kind: str, entry: Callable[..., Any]) -> Callable[..., Any]:
    """An entry with a request, as a step; what comes after the times is the refusals where there are any."""

    def step(self: WatchedCoordinator, request: Any, ctx: Any, *rest: Any) -> Any:
        seen = {"refused": rest[2]} if len(rest) > 2 and kind in REFUSES else {}
        return self._step(kind, partial(entry, self), request, ctx, *rest, request=request, ctx=ctx, **seen)

    return step


class WatchedCoordinator(GroupCoordinator):
    """See the module."""

    def __init__(self, world: World, name: str) -> None:
        self._events: list[Any] = []
        super().__init__(group_config(world), world.new_id, world.plan.partitions, EveryEvent(self._events.append))
        self.world = world
        self.name = name
        self.life = world.next_life()
        self._views: Views = {}

    @property
    def views(self) -> Views:
        """The groups after the last step."""
        return self._views

    def _step(self, kind: str, entry: Callable[..., Any], *args: Any, **seen: Any) -> Any:
        world = self.world
        step = Step(
            kind,
            self.life,
            world.now_ms,
            world.wall_ms,
            self._views,
            [shard.state for shard in self.shards],
            **seen,
        )
        had = len(self.effects)
        self._events.clear()
        answer = step.answer = entry(*args)
        step.touched = self._look(step)
        self._views = step.after
        step.effects = self.effects[had:]
        step.events = self._events
        world.watch.look(self, step)
        return answer

    def _look(self, step: Step) -> Sequence[str]:
        """Take views of the groups that may have changed."""
        groups = self.groups
        if step.kind not in OF_ONE_GROUP:
            step.after = {group_id: view(group) for group_id, group in groups.items()}
            return list(step.before | step.after)
        group_id = step.request.group_id
        if step.kind == "heartbeat":
            step.after = step.before  # it changes nothing that is seen here; if it did the next step would show it
            return (group_id,)
        step.after = dict(step.before)
        group = groups.get(group_id)
        if group is not None:
            step.after[group_id] = view(group)
        else:
            step.after.pop(group_id, None)
        return (group_id,)

    def heartbeat(self, request: Any, now_ms: int) -> int:
        return int(self._step("heartbeat", super().heartbeat, request, now_ms, request=request))

    join = observed("join", GroupCoordinator.join)
    sync = observed("sync", GroupCoordinator.sync)
    leave = observed("leave", GroupCoordinator.leave)
    commit_offsets = observed("commit", GroupCoordinator.commit_offsets)
    fetch_offsets = observed("fetch", GroupCoordinator.fetch_offsets)
    delete_offsets = observed("delete offsets", GroupCoordinator.delete_offsets)
    delete_groups = observed("delete groups", GroupCoordinator.delete_groups)
    describe_groups = observed("describe", GroupCoordinator.describe_groups)
    list_groups = observed("list", GroupCoordinator.list_groups)

    def commit_prepared(self, prepared: Any, offsets: Sequence[int], ctx: Any, now_ms: int, wall_ms: int) -> Any:
        """To the checks it is a commit that asks for an append as any other does."""
        take = super().commit_prepared
        group = self.groups.get(prepared.request.group_id)
        if group is None or group.shard.refusal or group.refuse_commit(*prepared.claim):
            return take(prepared, offsets, ctx, now_ms, wall_ms)
        numbers = iter(offsets)
        topics = [
            replace(topic, partitions=[replace(one, committed_offset=next(numbers)) for one in topic.partitions])
            for topic in prepared.request.topics
        ]
        writes = []

        def entry(*args: Any) -> None:
            write = take(*args)
            assert write is not None
            writes.append(write)
            builder = BatchBuilder()
            for body in write.bodies:
                builder.append_body(body, wall_ms)
            records = [CoordinatorRecord(bytes(one.key or b""), one.value) for one in decode_batch(builder.build())]
            self.effects.append(Append(write.shard.partition, records, write))

        request = replace(prepared.request, topics=topics)
        self._step("commit", entry, prepared, offsets, ctx, now_ms, wall_ms, request=request, ctx=ctx, refused={})
        del self.effects[-1]
        return writes[0]

    def topic_deleted(self, topic: str, now_ms: int, wall_ms: int, *topic_id: Any) -> None:
        self._step("topic deleted", super().topic_deleted, topic, now_ms, wall_ms, *topic_id, request=topic)

    def appended(self, token: object, error: ErrorCode, now_ms: int, wall_ms: int) -> None:
        self.world.watch.log.outcome(token, error)
        self._step("appended", super().appended, token, error, now_ms, wall_ms, token=token, error=error)

    def advance(self, now_ms: int, wall_ms: int) -> None:
        self._step("advance", super().advance, now_ms, wall_ms)

    def replay(self, partition: int, record: CoordinatorRecord, offset: int, producer_id: int = -1) -> bool:
        goes_on = super().replay(partition, record, offset, producer_id)
        self.world.watch.replayed(goes_on, partition, offset)
        return goes_on

    def activating(self, partition: int, now_ms: int, wall_ms: int) -> Iterator[None]:
        """All its pieces are one step."""
        is_loading = self.shards[partition].state is ShardState.LOADING
        pieces = super().activating(partition, now_ms, wall_ms)
        self._step("loaded", lambda: is_loading and not any(pieces), request=partition)
        return iter(())

    def unload(self, partition: int, now_ms: int, wall_ms: int, epoch: int | None = None) -> None:
        self._step("unload", super().unload, partition, now_ms, wall_ms, epoch, request=partition)
