"""The steps of scenarios of consumer groups, besides those of `tests.core.scenario`.

Members choose their names as ids; they remember the epoch that they were told last.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from ottla.broker.core.events import (
    ConversionRefused,
    Event,
    GroupConverted,
    GroupEpochBumped,
    MemberFenced,
    MemberMustRejoin,
    RegexResolutionStarted,
    TargetDelayed,
)
from ottla.broker.core.groups.config import GroupConfig
from ottla.protocol import consumer_group_records as wire
from ottla.protocol.apis import ApiKey
from ottla.protocol.consumer_protocol import Assignment, encode_assignment
from ottla.protocol.errors import MalformedFrame
from ottla.protocol.groups import coordinator_partition
from ottla.protocol.offsets_topic import CoordinatorRecord
from tests.core.consumer_groups.modern_rendering import render_answer, render_record, topic_id
from tests.core.scenario import Play, named_partitions
from tests.core.scenario_text import duration
from tests.core.world import WALL_MS, Ctx, World
from tests.support.requests import request


@dataclass
class Modern:
    """A member of the consumer protocol, and what it was told last."""

    name: str
    epoch: int = 0
    group: str = "g"
    instance: str | None = None
    names: list[str] | None = None
    regex: str | None = None


class ConsumerWorld(World):
    """A world in which somebody else may have written to the log: the coordinator knows that when it has loaded it."""

    is_behind = False

    def check_log(self) -> None:
        if not self.is_behind:
            super().check_log()

    def load(self) -> None:
        super().load()
        self.is_behind = False


class ConsumerPlay(Play):
    """Runs the steps of one scenario."""

    SETTINGS: ClassVar = {
        **Play.SETTINGS,
        "interval": "group_consumer_assignment_interval_ms",
        "consumer_session": "group_consumer_session_timeout_ms",
        "consumer_max_size": "group_consumer_max_size",
        "assignors": "group_consumer_assignors",
        "protocols": "group_coordinator_rebalance_protocols",
        "max_batch": "message_max_bytes",
        "policy": "group_consumer_migration_policy",
    }

    render_record = staticmethod(render_record)
    render_answer = staticmethod(render_answer)

    def __init__(self) -> None:
        super().__init__()
        self.moderns: dict[str, Modern] = {}
        self.creations: dict[str, int] = {}

    def new_world(self) -> World:
        self.settings.setdefault("group_consumer_assignment_interval_ms", 0)
        partitions = self.settings.pop("partitions", 50)
        world = ConsumerWorld(GroupConfig(**self.settings), partitions)
        if "bare" not in self.flags:
            self._put_topic(world, "t", 2)
        return world

    def _shown(self, event: Event) -> str | None:
        if "trace" in self.flags:
            return super()._shown(event)
        match event:
            case GroupEpochBumped():
                return f"epoch {event.epoch}: {', '.join(event.reasons)}"
            case MemberFenced():
                return f"{event.member_id} is removed: {event.reason}"
            case TargetDelayed():
                return f"the target waits until {event.until_ms - WALL_MS} ms"
            case RegexResolutionStarted():
                return f"resolves {' '.join(event.regexes)}"
            case MemberMustRejoin():
                return f"{event.member_id} has to join again until {event.deadline_ms} ms"
            case GroupConverted():
                return f"{event.group_id} is a {event.after} group"
            case ConversionRefused():
                return f"{event.group_id} stays a {event.kind} group: {event.reason}"
        return super()._shown(event)

    def learn(self, ctx: Ctx) -> None:
        super().learn(ctx)
        answer = ctx.answer
        if type(answer).__name__ == "ConsumerGroupHeartbeatResponse" and not answer.error_code:
            member = self.moderns[ctx.client]
            member.epoch = answer.member_epoch
            assert answer.member_id is not None

    def assignment(self, text: str) -> bytes:
        """Of a leader: partitions, maybe with ``+USERDATA``; what begins with ``raw:`` as it is."""
        if text.startswith("raw:"):
            return text[4:].encode()
        names, _, data = text.partition("+")
        assignment = Assignment(assigned_partitions=named_partitions(names), user_data=data.encode() if data else None)
        return encode_assignment(assignment, 0)

    # Steps

    def do_topic(self, world: World, words: list[str], options: dict[str, str]) -> None:
        """``topic NAME PARTITIONS [racks=a+b,c]``: it is created, grows, or moves to these racks."""
        racks = [of.split("+") for of in options["racks"].split(",")] if "racks" in options else None
        self._put_topic(world, words[0], int(words[1]), racks)

    def _put_topic(self, world: World, name: str, partitions: int, racks: list[list[str]] | None = None) -> None:
        if name not in world.topics:
            self.creations[name] = self.creations.get(name, 0) + 1
        made = topic_id(name, self.creations[name])
        world.put_topic(name, made, racks or [[] for _ in range(partitions)])

    def do_topic_deleted(self, world: World, words: list[str], options: dict[str, str]) -> None:
        """``topic-deleted NAME``"""
        world.delete_topic(words[0])

    def do_set(self, world: World, words: list[str], options: dict[str, str]) -> None:
        """``set GROUP [KEY=VALUE …]``: what is set for a group."""
        world.coordinator.configure(world.config, {words[0]: options})

    def do_beat(self, world: World, words: list[str], options: dict[str, str]) -> None:
        """``beat MEMBER [join|full|leave|away] [epoch= names= regex= owned= instance= rack= assignor= timeout= group=
        id= v= host=]``: a heartbeat; without a word it says nothing but the epoch that was told last.

        Partitions are ``t-0,u-1``, or ``none``. Who joins subscribes to ``t`` unless it says otherwise.
        """
        name, *what = words
        member = self.moderns.setdefault(name, Modern(name))
        member.group = options.get("group", member.group)
        if "instance" in options:
            member.instance = options["instance"] if options["instance"] != "none" else None
        says = {option: options[option].replace("''", "") for option in options}
        fields: dict[str, Any] = {
            "group_id": member.group.replace("''", ""),
            "member_id": says.get("id", name),
            "member_epoch": {"join": 0, "leave": -1, "away": -2}.get(what[0], member.epoch) if what else member.epoch,
            "instance_id": member.instance,
        }
        if "epoch" in says:
            fields["member_epoch"] = int(says["epoch"])
        if "join" in what or "full" in what:
            fields["rebalance_timeout_ms"] = 300_000
            fields["topic_partitions"] = []
            if member.names is None and member.regex is None:
                fields["subscribed_topic_names"] = ["t"]
            else:
                fields |= {"subscribed_topic_names": member.names, "subscribed_topic_regex": member.regex}
        if "names" in says or "regex" in says:
            member.names = _list(says["names"]) if "names" in says else None
            fields["subscribed_topic_names"] = member.names
            member.regex = says.get("regex")
            fields["subscribed_topic_regex"] = member.regex
        if "owned" in says:
            fields["topic_partitions"] = None if says["owned"] == "null" else self._owned(world, says["owned"])
        if "timeout" in says:
            fields["rebalance_timeout_ms"] = duration(says["timeout"])
        for option, field in (("rack", "rack_id"), ("assignor", "server_assignor")):
            if option in says:
                fields[field] = says[option]
        version = int(says.get("v", 1))
        heartbeat = request(ApiKey.CONSUMER_GROUP_HEARTBEAT, fields)
        layout = type(heartbeat).layout(version)
        decoded = layout.decode(layout.encode(heartbeat))
        world.beat(Ctx(name, version, decoded, says.get("host", "/127.0.0.1")))

    def _owned(self, world: World, text: str) -> list[dict[str, Any]]:
        found: dict[str, list[int]] = {}
        for word in _list(text):
            name, _, partition = word.rpartition("-")
            found.setdefault(name, []).append(int(partition))
        return [
            {"topic_id": topic_id(name, self.creations.get(name, 1)), "partitions": numbers}
            for name, numbers in found.items()
        ]

    def do_state(self, world: World, words: list[str], options: dict[str, str]) -> None:
        """``state GROUP … [v=]``: ConsumerGroupDescribe."""
        names = [word.replace("''", "") for word in words]
        world.send("admin", ApiKey.CONSUMER_GROUP_DESCRIBE, int(options.get("v", 1)), {"group_ids": names})

    def do_fetch_as(self, world: World, words: list[str], options: dict[str, str]) -> None:
        """``fetch-as MEMBER|null EPOCH [stable] [v=] [group=]``: OffsetFetch of somebody who says who it is."""
        name = None if words[0] == "null" else words[0].replace("''", "")
        asked = {
            "group_id": options.get("group", "g"),
            "member_id": name,
            "member_epoch": int(words[1]),
            "topics": None,
        }
        fields = {"groups": [asked], "require_stable": "stable" in words}
        world.send("admin", ApiKey.OFFSET_FETCH, int(options.get("v", 9)), fields)

    def do_old_metadata(self, world: ConsumerWorld, words: list[str], options: dict[str, str]) -> None:
        """``old-metadata GROUP``: the log has a record of topics that Kafka 4.0 wrote, and is loaded anew."""
        value = wire.ConsumerGroupPartitionMetadataValue()
        key = wire.ConsumerGroupPartitionMetadataKey(group_id=words[0])
        self._log(world, words[0], key, value)
        world.restart()

    def do_log(self, world: ConsumerWorld, words: list[str], options: dict[str, str]) -> None:
        """``log current MEMBER EPOCH PARTITIONS [epochs=1,2 state= previous=]``, ``log target MEMBER PARTITIONS``,
        ``log member MEMBER [names=]``, ``log epoch N``, ``log target-epoch N``,
        ``log gone [member|current|target MEMBER]``: a record that somebody else has written.
        """
        what, *rest = words
        group = options.get("group", "g")
        key: Any
        value: Any = None
        match what, rest:
            case "current", [name, epoch, *owned]:
                key = wire.ConsumerGroupCurrentMemberAssignmentKey(group_id=group, member_id=name)
                epochs = [int(one) for one in options["epochs"].split(",")] if "epochs" in options else None
                value = wire.ConsumerGroupCurrentMemberAssignmentValue(
                    member_epoch=int(epoch),
                    previous_member_epoch=int(options.get("previous", 0)),
                    state=int(options.get("state", 0)),
                    assigned_partitions=[
                        wire.CurrentTopicPartitions(assignment_epochs=epochs, **topic)
                        for topic in self._owned(world, ",".join(owned) or "none")
                    ],
                )
            case "target", [name, *owned]:
                key = wire.ConsumerGroupTargetAssignmentMemberKey(group_id=group, member_id=name)
                value = wire.ConsumerGroupTargetAssignmentMemberValue(
                    topic_partitions=[
                        wire.TargetTopicPartitions(**topic) for topic in self._owned(world, ",".join(owned) or "none")
                    ]
                )
            case "member", [name]:
                key = wire.ConsumerGroupMemberMetadataKey(group_id=group, member_id=name)
                value = wire.ConsumerGroupMemberMetadataValue(
                    client_id=name,
                    client_host="/127.0.0.1",
                    subscribed_topic_names=_list(options.get("names", "t")),
                    subscribed_topic_regex="",
                    rebalance_timeout_ms=300_000,
                    classic_member_metadata=None,
                )
            case "epoch", [epoch]:
                key = wire.ConsumerGroupMetadataKey(group_id=group)
                value = wire.ConsumerGroupMetadataValue(epoch=int(epoch))
            case "target-epoch", [epoch]:
                key = wire.ConsumerGroupTargetAssignmentMetadataKey(group_id=group)
                value = wire.ConsumerGroupTargetAssignmentMetadataValue(assignment_epoch=int(epoch))
            case "gone", []:
                key = wire.ConsumerGroupMetadataKey(group_id=group)
            case "gone", [kind, name]:
                classes = {
                    "member": wire.ConsumerGroupMemberMetadataKey,
                    "current": wire.ConsumerGroupCurrentMemberAssignmentKey,
                    "target": wire.ConsumerGroupTargetAssignmentMemberKey,
                }
                key = classes[kind](group_id=group, member_id=name)
        self._log(world, group, key, value)

    def _log(self, world: ConsumerWorld, group: str, key: Any, value: Any) -> None:
        encoded = None if value is None else wire.encode_consumer_group_value(value)
        record = CoordinatorRecord(wire.encode_consumer_group_key(key), encoded)
        world.log.append((coordinator_partition(group, world.partition_count), record))
        world.is_behind = True

    def do_load(self, world: ConsumerWorld, words: list[str], options: dict[str, str]) -> list[str]:
        """``load``: a new coordinator reads the log; says if it cannot be read."""
        world.coordinator = world.new_coordinator()
        world.begin_load()
        shown = []
        for offset, (partition, record) in enumerate(world.log):
            try:
                world.coordinator.replay(partition, record, offset)
            except MalformedFrame as error:
                shown.append(f"not loaded: {error}")
                break
        for partition in range(world.partition_count):
            world.coordinator.loaded(partition, world.now_ms, world.wall_ms)
        world.is_behind = False
        return shown


def _list(text: str) -> list[str]:
    return [] if text in ("", "none") else text.split(",")
