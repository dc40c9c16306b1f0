"""Scenarios as text: steps at the left margin, and beneath each what came of it, indented.

```
setup initial_delay=0
join c1
    c1 < JoinGroup MEMBER_ID_REQUIRED member=c1-1
```

A step behind ``~`` prepares the ground: its outcome is not recorded.

Clients remember what they are told (member id, generation, protocol) and what they were last given as options.
`Play` runs one scenario and yields the recorded lines; the test compares them with those in the file, or writes them
there when asked to (`--record-scenarios`).
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from ottla.broker.core.events import (
    BarrierOpened,
    Event,
    GroupRemoved,
    MemberRejected,
    OwnershipChanged,
    RequestParked,
    StateChanged,
)
from ottla.broker.core.groups.config import GroupConfig
from ottla.protocol.consumer_protocol import Subscription, encode_subscription
from ottla.protocol.errors import ErrorCode
from ottla.protocol.groups import coordinator_partition
from ottla.protocol.messages.delete_groups import DeleteGroupsRequest
from ottla.protocol.messages.describe_groups import DescribeGroupsRequest
from ottla.protocol.messages.heartbeat import HeartbeatRequest
from ottla.protocol.messages.join_group import JoinGroupRequest
from ottla.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from ottla.protocol.messages.list_groups import ListGroupsRequest
from ottla.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from ottla.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from ottla.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopic
from ottla.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from ottla.protocol.offsets_topic import (
    CoordinatorRecord,
    GroupMemberValue,
    GroupValue,
    encode_group_value,
    group_key,
)
from tests.core.rendering import render_answer, render_group, render_record
from tests.core.scenario_text import INDENT, Client, Scenario, duration
from tests.core.scenario_transactions import TransactionSteps
from tests.core.world import Ctx, World

SETTINGS = {
    "initial_delay": "group_initial_rebalance_delay_ms",
    "min_session": "group_min_session_timeout_ms",
    "max_session": "group_max_session_timeout_ms",
    "max_size": "group_max_size",
    "max_metadata": "offset_metadata_max_bytes",
    "retention": "offsets_retention_ms",
    "check_interval": "offsets_retention_check_interval_ms",
    "persist": "group_generation_persist",
}
MOST_RECORDS = 10
LOUD_EVENTS = (StateChanged, GroupRemoved, MemberRejected)
"""Events that are shown even where they have no line of Kafka's."""
QUIET_EVENTS = (OwnershipChanged,)


class Play(TransactionSteps):
    """Runs the steps of one scenario."""

    def __init__(self) -> None:
        self.world: World | None = None
        self.settings: dict[str, Any] = {}
        self.partition_count = 50
        self.autoload = True
        self.trace = False
        self.clients: dict[str, Client] = {}

    def run(self, scenario: Scenario) -> list[str]:
        """The scenario's lines with the outcome of each step as it is now."""
        out: list[str] = []
        for line in scenario.lines:
            if line.startswith(INDENT):
                continue
            out.append(line)
            if line.startswith("~ "):
                self.step(line[2:])
            elif not line.startswith("#"):
                out.extend(INDENT + outcome for outcome in self.step(line))
        return out

    def step(self, line: str) -> list[str]:
        verb, *arguments = shlex.split(line)
        words = [word for word in arguments if "=" not in word]
        options = dict(word.split("=", 1) for word in arguments if "=" in word)
        if verb == "setup":
            self._setup(words, options)
            return []
        world = self._world()
        before_ms = world.now_ms
        shown = list(getattr(self, "do_" + verb.replace("-", "_"))(world, words, options) or ())
        world.settle()
        shown = [*self._outcomes(world), *shown]
        world.check_log()
        assert verb == "advance" or world.now_ms == before_ms
        return shown

    def _setup(self, words: list[str], options: dict[str, str]) -> None:
        assert self.world is None, "setup comes first"
        for name, value in options.items():
            if name == "partitions":
                self.partition_count = int(value)
            else:
                self.settings[SETTINGS[name]] = value if name == "persist" else duration(value)
        self.autoload = "unloaded" not in words
        self.trace = "trace" in words

    def _world(self) -> World:
        if self.world is None:
            self.world = World(GroupConfig(**self.settings), self.partition_count)
            if self.autoload:
                self.world.load()
            self.world.events.clear()
        return self.world

    def _outcomes(self, world: World) -> Iterator[str]:
        """What happened since the last step: events, records, answers."""
        for event in world.events:
            if shown := self._shown(event):
                yield f"* {shown}"
        world.events.clear()
        for append in world.appends:
            for record in append.records[:MOST_RECORDS]:
                yield f"+ {render_record(record)}"
            if len(append.records) > MOST_RECORDS:
                yield f"+ … {len(append.records)} records in all"
        world.appends.clear()
        for ctx in world.answered:
            self._learn(ctx)
            yield f"{ctx.client} < {render_answer(ctx.answer)}"
        world.answered.clear()

    def _shown(self, event: Event) -> str | None:
        if self.trace:
            return f"[{event.cause}] {event.summary()}"
        if isinstance(event, QUIET_EVENTS):
            return None
        if isinstance(event, StateChanged):
            return f"{event.group_id}: {event.before} -> {event.after}"
        if isinstance(event, LOUD_EVENTS):
            return event.line() or event.summary()
        if isinstance(event, RequestParked) and event.replaced:
            return event.summary()
        if isinstance(event, BarrierOpened) and event.barrier != "sync":
            return f"waits for {event.barrier} until {event.deadline_ms} ms"
        return event.line()

    def _learn(self, ctx: Ctx) -> None:
        client = self.clients.get(ctx.client)
        if client is None or type(ctx.answer).__name__ != "JoinGroupResponse":
            return
        if ctx.answer.error_code in (ErrorCode.NONE, ErrorCode.MEMBER_ID_REQUIRED):
            client.member_id = ctx.answer.member_id
        if not ctx.answer.error_code:
            client.generation = ctx.answer.generation_id
            client.chosen = ctx.answer.protocol_name

    def _client(self, name: str, options: dict[str, str], *, keep: bool = False) -> Client:
        """A client as the options say; unless they are to be kept it is a copy for one request."""
        client = self.clients.setdefault(name, Client(name))
        if not keep:
            client = replace(client)
        for option, value in options.items():
            match option:
                case "group":
                    client.group = value
                case "id":
                    client.member_id = "" if value == "none" else value
                case "instance":
                    client.instance = None if value == "none" else value
                case "session":
                    client.session_ms = duration(value)
                case "rebalance":
                    client.rebalance_ms = duration(value)
                case "type":
                    client.protocol_type = value
                case "protocols":
                    client.protocols = [name for name in value.split(",") if name]
                case "metadata":
                    client.metadata = value
                case "generation":
                    client.generation = int(value)
                case "chosen":
                    client.chosen = None if value == "none" else value
        return client

    # Steps

    def do_join(self, world: World, words: list[str], options: dict[str, str]) -> None:
        """``join CLIENT [id= instance= session= rebalance= type= protocols= metadata= reason= v=]``"""
        kept = {name: value for name, value in options.items() if name != "id"}
        version = self._client(words[0], kept, keep=True).version = int(
            options.get("v", self._client(words[0], {}).version)
        )
        client = self._client(words[0], options)
        request = JoinGroupRequest(
            group_id=client.group,
            session_timeout_ms=client.session_ms,
            rebalance_timeout_ms=client.rebalance_ms,
            member_id=client.member_id,
            group_instance_id=client.instance,
            protocol_type=client.protocol_type,
            protocols=client.encoded_protocols(),
            reason=options.get("reason"),
        )
        world.ask(client.name, "join", request, version)

    def do_enter(self, world: World, words: list[str], options: dict[str, str]) -> None:
        """``enter CLIENT …``: join, and again with the id that was issued."""
        self.do_join(world, words, options)
        if world.answered and world.answered[-1].answer.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self._learn(world.answered.pop())
            self.do_join(world, words, {})

    def do_sync(self, world: World, words: list[str], options: dict[str, str]) -> None:
        """``sync CLIENT [assign:MEMBER=BYTES …] [generation= id= type= chosen= v=]``"""
        assignments = []
        for option in [name for name in options if name.startswith("assign:")]:
            name = option.removeprefix("assign:")
            member_id = self.clients[name].member_id if name in self.clients else name
            data = options.pop(option).encode()
            assignments.append(SyncGroupRequestAssignment(member_id=member_id, assignment=data))
        client = self._client(words[0], options)
        named = "unnamed" not in words
        request = SyncGroupRequest(
            group_id=client.group,
            generation_id=client.generation,
            member_id=client.member_id,
            group_instance_id=client.instance,
            protocol_type=client.protocol_type if named else None,
            protocol_name=client.chosen if named else None,
            assignments=assignments,
        )
        world.ask(client.name, "sync", request, int(options.get("v", 5)))

    def do_heartbeat(self, world: World, words: list[str], options: dict[str, str]) -> list[str]:
        """``heartbeat CLIENT … [generation= id= instance=]``"""
        shown = []
        for name in words:
            client = self._client(name, options)
            request = HeartbeatRequest(
                group_id=client.group,
                generation_id=client.generation,
                member_id=client.member_id,
                group_instance_id=client.instance,
            )
            error = world.coordinator.heartbeat(request, world.now_ms)
            shown.append(f"{name} < Heartbeat {ErrorCode(error).name}")
        return shown

    def do_leave(self, world: World, words: list[str], options: dict[str, str]) -> None:
        """``leave ENTRY … [reason= v= group=]``: entries are ``CLIENT``, ``CLIENT/INSTANCE``, ``/INSTANCE``, ``-``."""
        entries = []
        asker = words[0].split("/")[0] or "admin"
        for word in words:
            name, _, instance = word.partition("/")
            member_id = self.clients[name].member_id if name in self.clients else name.replace("-", "", name == "-")
            entries.append(
                MemberIdentity(member_id=member_id, group_instance_id=instance or None, reason=options.get("reason"))
            )
        version = int(options.get("v", 5))
        group = options.get("group", self.clients[asker].group if asker in self.clients else "g")
        request = LeaveGroupRequest(group_id=group, member_id=entries[0].member_id, members=entries)
        world.ask(asker, "leave", request, version)

    def do_commit(self, world: World, words: list[str], options: dict[str, str]) -> None:
        """``commit CLIENT TOPIC-PARTITION=OFFSET[:METADATA] … [generation= id= epoch= retention= v=]``"""
        topics: dict[str, list[OffsetCommitRequestPartition]] = {}
        for option in [name for name in options if re.fullmatch(r".+-\d+", name)]:
            topic, _, partition = option.rpartition("-")
            offset, _, note = options.pop(option).partition(":")
            topics.setdefault(topic, []).append(
                OffsetCommitRequestPartition(
                    partition_index=int(partition),
                    committed_offset=int(offset),
                    committed_leader_epoch=int(options.get("epoch", "-1")),
                    committed_metadata=None if note == "null" else note,
                )
            )
        client = self._client(words[0], options)
        request = OffsetCommitRequest(
            group_id=client.group,
            generation_id_or_member_epoch=client.generation,
            member_id=client.member_id,
            group_instance_id=client.instance,
            retention_time_ms=duration(options.get("retention", "-1")),
            topics=[OffsetCommitRequestTopic(name=name, partitions=items) for name, items in topics.items()],
        )
        world.ask(client.name, "commit_offsets", request, int(options.get("v", 8)))

    def do_commit_many(self, world: World, words: list[str], options: dict[str, str]) -> None:
        """``commit-many CLIENT COUNT``: that many partitions of one topic."""
        self.do_commit(world, words[:1], {f"t-{partition}": "1" for partition in range(int(words[1]))})

    def do_fetch_count(self, world: World, words: list[str], options: dict[str, str]) -> list[str]:
        """``fetch-count GROUP``: how many offsets it has."""
        self.do_fetch(world, [*words, "all"], options)
        answer = world.answered.pop().answer
        return [f"{sum(len(topic.partitions) for topic in answer.groups[0].topics)} offsets"]

    def do_fetch(self, world: World, words: list[str], options: dict[str, str]) -> None:
        """``fetch GROUP[,GROUP] TOPIC-PARTITION …|all [stable] [v=]``"""
        version = int(options.get("v", 8))
        wanted: dict[str, list[int]] = {}
        for word in words[1:]:
            if word not in ("all", "stable"):
                topic, _, partition = word.rpartition("-")
                wanted.setdefault(topic, []).append(int(partition))
        request = OffsetFetchRequest(require_stable="stable" in words)
        if version >= 8:
            topics = [OffsetFetchRequestTopic(name=name, partition_indexes=items) for name, items in wanted.items()]
            request.groups = [
                OffsetFetchRequestGroup(group_id=group, topics=None if "all" in words else topics)
                for group in words[0].split(",")
            ]
        else:
            request.group_id = words[0]
            flat = [OffsetFetchRequestTopic(name=name, partition_indexes=items) for name, items in wanted.items()]
            request.topics = None if "all" in words else flat
        world.ask("admin", "fetch_offsets", request, version)

    def do_delete_offsets(self, world: World, words: list[str], options: dict[str, str]) -> None:
        """``delete-offsets GROUP TOPIC-PARTITION …``"""
        topics: dict[str, list[OffsetDeleteRequestPartition]] = {}
        for word in words[1:]:
            topic, _, partition = word.rpartition("-")
            topics.setdefault(topic, []).append(OffsetDeleteRequestPartition(partition_index=int(partition)))
        listed = [OffsetDeleteRequestTopic(name=name, partitions=items) for name, items in topics.items()]
        group_id = words[0].replace("''", "")
        world.ask("admin", "delete_offsets", OffsetDeleteRequest(group_id=group_id, topics=listed), 0)

    def do_delete_groups(self, world: World, words: list[str], options: dict[str, str]) -> None:
        """``delete-groups GROUP …``"""
        world.ask("admin", "delete_groups", DeleteGroupsRequest(groups_names=words), 2)

    def do_topic_deleted(self, world: World, words: list[str], options: dict[str, str]) -> None:
        """``topic-deleted TOPIC``"""
        world.coordinator.topic_deleted(words[0], world.now_ms, world.wall_ms)

    def do_describe(self, world: World, words: list[str], options: dict[str, str]) -> None:
        """``describe GROUP … [v=]``"""
        version = int(options.get("v", 5))
        world.ask("admin", "describe_groups", DescribeGroupsRequest(groups=words), version)

    def do_list(self, world: World, words: list[str], options: dict[str, str]) -> None:
        """``list [states=A,B] [types=A,B] [v=]``"""
        request = ListGroupsRequest(
            states_filter=[name for name in options.get("states", "").split(",") if name],
            types_filter=[name for name in options.get("types", "").split(",") if name],
        )
        world.ask("admin", "list_groups", request, int(options.get("v", 5)))

    def do_advance(self, world: World, words: list[str], options: dict[str, str]) -> list[str]:
        """``advance DURATION``: lines are marked with the time at which they came about."""
        end_ms = world.now_ms + duration(words[0])
        shown: list[str] = []
        while (at_ms := world.coordinator.next_deadline_ms()) is not None and at_ms <= end_ms:
            world.advance_to(max(at_ms, world.now_ms))
            shown.extend(f"@{world.now_ms} {line}" for line in self._outcomes(world))
        world.now_ms = end_ms
        return shown

    def do_hold(self, world: World, words: list[str], options: dict[str, str]) -> None:
        """``hold``: appends wait for ``appended`` or ``release``."""
        world.hold = True

    def do_appended(self, world: World, words: list[str], options: dict[str, str]) -> None:
        """``appended``: the oldest append that is held succeeds."""
        world.complete()

    def do_append(self, world: World, words: list[str], options: dict[str, str]) -> None:
        """``append fails ERROR``: the oldest append that is held fails, or else the next one will."""
        error = ErrorCode[words[1]]
        if world.held:
            world.complete(error)
        else:
            world.failing = error

    def do_release(self, world: World, words: list[str], options: dict[str, str]) -> None:
        """``release``: held appends succeed, and later ones are not held."""
        world.hold = False
        while world.held:
            world.complete()

    def do_preload(self, world: World, words: list[str], options: dict[str, str]) -> None:
        """``preload GROUP generation= leader= members=ID[/INSTANCE],… [session= rebalance= since= v=] [unassigned]``"""
        members = [
            GroupMemberValue(
                member_id=member_id,
                group_instance_id=instance or None,
                client_id="loaded",
                client_host="/10.0.0.1",
                rebalance_timeout=duration(options.get("rebalance", "60s")),
                session_timeout=duration(options.get("session", "10s")),
                subscription=encode_subscription(Subscription(topics=["t"]), 0),
                assignment=b"" if "unassigned" in words else member_id.encode(),
            )
            for member_id, _, instance in (name.partition("/") for name in options["members"].split(",") if name)
        ]
        value = GroupValue(
            protocol_type="consumer",
            generation=int(options["generation"]),
            protocol="range" if members else None,
            leader=options["leader"] if members else None,
            current_state_timestamp=int(options.get("since", "-1")),
            members=members,
        )
        encoded = encode_group_value(value, int(options.get("v", 3)))
        partition = coordinator_partition(words[0], world.partition_count)
        world.log.append((partition, CoordinatorRecord(group_key(words[0]), encoded)))
        world.restart()

    def do_restart(self, world: World, words: list[str], options: dict[str, str]) -> None:
        """``restart``: a new coordinator replays the log."""
        world.restart()

    def do_stop(self, world: World, words: list[str], options: dict[str, str]) -> None:
        """``stop``: the component is not started any more."""
        world.coordinator.stop()

    def do_begin_load(self, world: World, words: list[str], options: dict[str, str]) -> None:
        """``begin-load``: every partition starts loading."""
        world.begin_load()

    def do_finish_load(self, world: World, words: list[str], options: dict[str, str]) -> None:
        """``finish-load``: the log is replayed and the partitions are served."""
        world.finish_load()

    def do_fail_load(self, world: World, words: list[str], options: dict[str, str]) -> None:
        """``fail-load``: every partition fails to load."""
        for partition in range(world.partition_count):
            world.coordinator.load_failed(partition, world.now_ms)

    def do_unload(self, world: World, words: list[str], options: dict[str, str]) -> None:
        """``unload``: every partition is given up; appends that are held are heard of no more."""
        for partition in range(world.partition_count):
            world.coordinator.unload(partition, world.now_ms, world.wall_ms)

    def do_show(self, world: World, words: list[str], options: dict[str, str]) -> list[str]:
        """``show GROUP``: what memory has of it."""
        return render_group(world.coordinator, words[0])
