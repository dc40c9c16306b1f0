"""The steps of scenarios of the group coordinator; see `tests.core.steps`.

Clients remember what they are told (member id, generation, protocol) and what they were last given as options.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

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
from ottla.protocol.apis import ApiKey
from ottla.protocol.consumer_protocol import ConsumerTopicPartitions, Subscription, encode_subscription
from ottla.protocol.errors import ErrorCode
from ottla.protocol.groups import coordinator_partition
from ottla.protocol.offsets_topic import (
    CoordinatorRecord,
    GroupMemberValue,
    GroupValue,
    encode_group_value,
    group_key,
)
from tests.core.rendering import render_answer, render_group, render_record
from tests.core.scenario_text import duration
from tests.core.steps import Steps
from tests.core.world import Ctx, World
from tests.support.requests import (
    by_topic,
    commit_fields,
    delete_offsets_fields,
    heartbeat_fields,
    join_fields,
    leave_fields,
    offset_fetch_fields,
    request,
    sync_fields,
    txn_commit_fields,
)

LOUD_EVENTS = (StateChanged, GroupRemoved, MemberRejected)
"""Events that are shown even where they have no line of Kafka's."""
QUIET_EVENTS = (OwnershipChanged,)


@dataclass
class Client:
    """A client: what it was told, and the options that it used last."""

    name: str
    group: str = "g"
    member_id: str = ""
    generation: int = -1
    instance: str | None = None
    session_ms: int = 10_000
    rebalance_ms: int = 60_000
    protocol_type: str = "consumer"
    protocols: list[str] = field(default_factory=lambda: ["range"])
    metadata: str = "t"
    owned: str | None = None
    """The partitions that it says it has, if it says that: ``t-0,t-1``, or ``none``."""
    chosen: str | None = None
    version: int = 9
    """Of JoinGroup."""

    def encoded_protocols(self) -> dict[str, bytes]:
        if self.metadata.startswith("raw:"):
            data = self.metadata[4:].encode()
        else:
            topics = [topic for topic in self.metadata.split("+") if topic]
            if self.owned is None:
                data = encode_subscription(Subscription(topics=topics), 0)
            else:
                data = encode_subscription(Subscription(topics=topics, owned_partitions=named_partitions(self.owned)))
        return dict.fromkeys(self.protocols, data)


def named_partitions(text: str) -> list[ConsumerTopicPartitions]:
    """``t-0,t-1,u-0``, or ``none``, as members of the classic protocol say it."""
    names = by_topic(place(word) for word in text.split(",") if word not in ("", "none"))
    return [ConsumerTopicPartitions(topic=name, partitions=numbers) for name, numbers in names.items()]


def _or(absent: str | None) -> Callable[[str], str | None]:
    return lambda value: absent if value == "none" else value


def _names(value: str) -> list[str]:
    return [name for name in value.split(",") if name]


OPTIONS: dict[str, tuple[str, Callable[[str], Any]]] = {
    "group": ("group", str),
    "id": ("member_id", _or("")),
    "instance": ("instance", _or(None)),
    "session": ("session_ms", duration),
    "rebalance": ("rebalance_ms", duration),
    "type": ("protocol_type", str),
    "protocols": ("protocols", _names),
    "metadata": ("metadata", str),
    "owned": ("owned", str),
    "generation": ("generation", int),
    "chosen": ("chosen", _or(None)),
}
"""Option of a step → what of a client it says, and how."""


class Play(Steps):
    """Runs the steps of one scenario."""

    SETTINGS: ClassVar = {
        "initial_delay": "group_initial_rebalance_delay_ms",
        "min_session": "group_min_session_timeout_ms",
        "max_session": "group_max_session_timeout_ms",
        "max_size": "group_max_size",
        "max_metadata": "offset_metadata_max_bytes",
        "retention": "offsets_retention_ms",
        "check_interval": "offsets_retention_check_interval_ms",
        "persist": "group_generation_persist",
    }
    render_record = staticmethod(render_record)
    render_answer = staticmethod(render_answer)

    def __init__(self) -> None:
        super().__init__()
        self.clients: dict[str, Client] = {}

    def new_world(self) -> World:
        partitions = self.settings.pop("partitions", 50)
        return World(GroupConfig(**self.settings), partitions)

    def events(self, world: World) -> Iterator[str]:
        for event in world.events:
            if shown := self._shown(event):
                yield f"* {shown}"

    def _shown(self, event: Event) -> str | None:
        if "trace" in self.flags:
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

    def learn(self, ctx: Ctx) -> None:
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
        for option, (attribute, read) in OPTIONS.items():
            if option in options:
                setattr(client, attribute, read(options[option]))
        return client

    # Steps

    def do_join(self, world: World, words: list[str], options: dict[str, str]) -> None:
        """``join CLIENT [id= instance= session= rebalance= type= protocols= metadata= reason= v=]``"""
        kept = {name: value for name, value in options.items() if name != "id"}
        version = self._client(words[0], kept, keep=True).version = int(
            options.get("v", self._client(words[0], {}).version)
        )
        client = self._client(words[0], options)
        fields = join_fields(
            client.group,
            member_id=client.member_id,
            instance=client.instance,
            protocols=client.encoded_protocols(),
            protocol_type=client.protocol_type,
            session_ms=client.session_ms,
            rebalance_ms=client.rebalance_ms,
        )
        fields["reason"] = options.get("reason")
        world.send(client.name, ApiKey.JOIN_GROUP, version, fields)

    def do_enter(self, world: World, words: list[str], options: dict[str, str]) -> None:
        """``enter CLIENT …``: join, and again with the id that was issued."""
        self.do_join(world, words, options)
        if world.answered and world.answered[-1].answer.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self.learn(world.answered.pop())
            self.do_join(world, words, {})

    def do_sync(self, world: World, words: list[str], options: dict[str, str]) -> None:
        """``sync CLIENT [assign:MEMBER=BYTES …] [generation= id= type= chosen= v=]``"""
        assignments = []
        for option in [name for name in options if name.startswith("assign:")]:
            name = option.removeprefix("assign:")
            member_id = self.clients[name].member_id if name in self.clients else name
            assignments.append((member_id, self.assignment(options.pop(option))))
        client = self._client(words[0], options)
        named = "unnamed" not in words
        fields = sync_fields(
            client.group,
            client.generation,
            client.member_id,
            assignments,
            instance=client.instance,
            protocol_type=client.protocol_type if named else None,
            protocol_name=client.chosen if named else None,
        )
        world.send(client.name, ApiKey.SYNC_GROUP, int(options.get("v", 5)), fields)

    def assignment(self, text: str) -> bytes:
        """The bytes of an assignment that a leader gives."""
        return text.encode()

    def do_heartbeat(self, world: World, words: list[str], options: dict[str, str]) -> list[str]:
        """``heartbeat CLIENT … [generation= id= instance=]``"""
        shown = []
        for name in words:
            client = self._client(name, options)
            fields = heartbeat_fields(client.group, client.generation, client.member_id, client.instance)
            error = world.coordinator.heartbeat(request(ApiKey.HEARTBEAT, fields), world.now_ms)
            shown.append(f"{name} < Heartbeat {ErrorCode(error).name}")
        return shown

    def do_leave(self, world: World, words: list[str], options: dict[str, str]) -> None:
        """``leave ENTRY … [reason= v= group=]``: entries are ``CLIENT``, ``CLIENT/INSTANCE``, ``/INSTANCE``, ``-``."""
        entries = []
        asker = words[0].split("/")[0] or "admin"
        for word in words:
            name, _, instance = word.partition("/")
            member_id = self.clients[name].member_id if name in self.clients else name.replace("-", "", name == "-")
            entries.append((member_id, instance or None))
        group = options.get("group", self.clients[asker].group if asker in self.clients else "g")
        fields = leave_fields(group, *entries, reason=options.get("reason"))
        world.send(asker, ApiKey.LEAVE_GROUP, int(options.get("v", 5)), fields)

    def do_commit(self, world: World, words: list[str], options: dict[str, str]) -> None:
        """``commit CLIENT TOPIC-PARTITION=OFFSET[:METADATA] … [generation= id= epoch= retention= v=]``"""
        offsets = _offsets(options)
        client = self._client(words[0], options)
        fields = commit_fields(
            client.group,
            offsets,
            generation=client.generation,
            member_id=client.member_id,
            instance=client.instance,
            leader_epoch=int(options.get("epoch", "-1")),
            retention_ms=duration(options.get("retention", "-1")),
        )
        world.send(client.name, ApiKey.OFFSET_COMMIT, int(options.get("v", 8)), fields)

    def do_commit_many(self, world: World, words: list[str], options: dict[str, str]) -> None:
        """``commit-many CLIENT COUNT``: that many partitions of one topic."""
        self.do_commit(world, words[:1], {f"t-{partition}": "1" for partition in range(int(words[1]))})

    def do_txn_commit(self, world: World, words: list[str], options: dict[str, str]) -> None:
        """``txn-commit CLIENT TOPIC-PARTITION=OFFSET[:METADATA] … [producer= epoch= generation= id= v=]``"""
        offsets = _offsets(options)
        client = self._client(words[0], options)
        fields = txn_commit_fields(
            "tx",
            (int(options.get("producer", 1)), int(options.get("epoch", 0))),
            client.group.replace("''", ""),
            offsets,
            generation=client.generation,
            member_id=client.member_id,
            instance=client.instance,
        )
        world.send(client.name, ApiKey.TXN_OFFSET_COMMIT, int(options.get("v", 5)), fields)

    def do_end_txn(self, world: World, words: list[str], options: dict[str, str]) -> None:
        """``end-txn PRODUCER commit|abort [group=]``: the marker is in the log of the group's partition."""
        partition = coordinator_partition(options.get("group", "g"), world.partition_count)
        world.end_transaction(partition, int(words[0]), commit=words[1] == "commit")

    def do_fetch_count(self, world: World, words: list[str], options: dict[str, str]) -> list[str]:
        """``fetch-count GROUP``: how many offsets it has."""
        self.do_fetch(world, [*words, "all"], options)
        answer = world.answered.pop().answer
        return [f"{sum(len(topic.partitions) for topic in answer.groups[0].topics)} offsets"]

    def do_fetch(self, world: World, words: list[str], options: dict[str, str]) -> None:
        """``fetch GROUP[,GROUP] TOPIC-PARTITION …|all [stable] [v=]``"""
        wanted = by_topic(place(word) for word in words[1:] if word not in ("all", "stable"))
        topics = None if "all" in words else wanted
        fields = offset_fetch_fields(words[0].split(","), topics, stable="stable" in words)
        world.send("admin", ApiKey.OFFSET_FETCH, int(options.get("v", 8)), fields)

    def do_delete_offsets(self, world: World, words: list[str], options: dict[str, str]) -> None:
        """``delete-offsets GROUP TOPIC-PARTITION …``"""
        fields = delete_offsets_fields(words[0].replace("''", ""), map(place, words[1:]))
        world.send("admin", ApiKey.OFFSET_DELETE, 0, fields)

    def do_delete_groups(self, world: World, words: list[str], options: dict[str, str]) -> None:
        """``delete-groups GROUP …``"""
        world.send("admin", ApiKey.DELETE_GROUPS, 2, {"groups_names": words})

    def do_topic_deleted(self, world: World, words: list[str], options: dict[str, str]) -> None:
        """``topic-deleted TOPIC``"""
        world.coordinator.topic_deleted(words[0], world.now_ms, world.wall_ms)

    def do_describe(self, world: World, words: list[str], options: dict[str, str]) -> None:
        """``describe GROUP … [v=]``"""
        world.send("admin", ApiKey.DESCRIBE_GROUPS, int(options.get("v", 5)), {"groups": words})

    def do_list(self, world: World, words: list[str], options: dict[str, str]) -> None:
        """``list [states=A,B] [types=A,B] [v=]``"""
        filters = {f"{name}_filter": _names(options.get(name, "")) for name in ("states", "types")}
        world.send("admin", ApiKey.LIST_GROUPS, int(options.get("v", 5)), filters)

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

    def do_stop(self, world: World, words: list[str], options: dict[str, str]) -> None:
        """``stop``: the component is not started any more."""
        world.coordinator.stop()

    def do_show(self, world: World, words: list[str], options: dict[str, str]) -> list[str]:
        """``show GROUP``: what memory has of it."""
        return render_group(world.coordinator, words[0])


def place(word: str) -> tuple[str, int]:
    topic, _, partition = word.rpartition("-")
    return topic, int(partition)


def _offsets(options: dict[str, str]) -> list[tuple[str, int, int, str | None]]:
    """Takes the options that name partitions: topic, partition, offset and metadata."""
    found = []
    for option in [name for name in options if re.fullmatch(r".+-\d+", name)]:
        offset, _, note = options.pop(option).partition(":")
        found.append((*place(option), int(offset), None if note == "null" else note))
    return found
