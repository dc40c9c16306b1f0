"""Group requests in few words, for traces. The group is the trace's name unless told otherwise."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from ottla.protocol.apis import ApiKey, api
from ottla.protocol.groups import coordinator_partition
from ottla.protocol.messages.fetch import FetchPartition, FetchTopic
from ottla.protocol.messages.join_group import JoinGroupRequestProtocol
from ottla.protocol.messages.leave_group import MemberIdentity
from ottla.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsTopic
from ottla.protocol.messages.offset_commit import OffsetCommitRequestPartition, OffsetCommitRequestTopic
from ottla.protocol.messages.offset_delete import OffsetDeleteRequestPartition, OffsetDeleteRequestTopic
from ottla.protocol.messages.offset_fetch import OffsetFetchRequestGroup, OffsetFetchRequestTopic
from ottla.protocol.messages.sync_group import SyncGroupRequestAssignment
from ottla.protocol.offsets_topic import OffsetKey, decode_group_value, decode_key, decode_offset_value
from ottla.protocol.primitives import ZERO_UUID
from ottla.protocol.records import Record, decode_batch, iter_batches
from tests.differential.tracing import Trace
from tests.differential.wire import plain

TOPIC = "orders"  # made before the traces run, with three partitions
SUBSCRIBED = b"\0\0\0\0\0\1\0\6orders\xff\xff\xff\xff"  # Subscription version 0 of TOPIC
GROUP_TOPIC = "__consumer_offsets"
GROUP_PARTITIONS = 16
READER = "reader"
OTHER = b"\0\0\0\0\0\1\0\5other\xff\xff\xff\xff"  # and of a topic that is not there
SUBSCRIBED_V1 = b"\0\1\0\0\0\1\0\6orders\xff\xff\xff\xff\0\0\0\0"
MINE = "mine"  # the member id that this client was told last


def member_id(t: Trace, who: str, member: str) -> str:
    """``MINE``, "former", "=" and another client's name, or a member id as it is."""
    if member.startswith("="):
        return t.member.get(member[1:], "")
    return {MINE: t.member.get(who, ""), "former": t.former.get(who, "")}.get(member, member)


def generation_id(t: Trace, who: str, generation: int | str | None) -> int:
    """The client's own (None), one that is a few away from it ("+1"), or a number as it is."""
    known = t.generation.get(who, 0)
    return known if generation is None else known + int(generation) if isinstance(generation, str) else generation


def join(
    t: Trace,
    who: str,
    version: int = 7,
    *,
    member: str = MINE,
    instance: str | None = None,
    protocols: Sequence[str] = ("range",),
    metadata: bytes = SUBSCRIBED,
    protocol_type: str = "consumer",
    session: int = 10_000,
    rebalance: int = 60_000,
    group: str | None = None,
) -> Any:
    return t.do(
        who,
        ApiKey.JOIN_GROUP,
        version,
        group_id=t.name if group is None else group,
        session_timeout_ms=session,
        rebalance_timeout_ms=rebalance,
        member_id=member_id(t, who, member),
        group_instance_id=instance,
        protocol_type=protocol_type,
        protocols=[JoinGroupRequestProtocol(name=name, metadata=metadata) for name in protocols],
    )


def enter(t: Trace, who: str, version: int = 7, **options: Any) -> Any:
    """Join as a new dynamic member: both halves."""
    join(t, who, version, member="", **options)
    return join(t, who, version, **options)


def sync(
    t: Trace,
    who: str,
    version: int = 5,
    *,
    assign: dict[str, bytes] | None = None,
    member: str = MINE,
    instance: str | None = None,
    generation: int | str | None = None,
    protocol_type: str | None = "consumer",
    protocol_name: str | None = "range",
    group: str | None = None,
) -> Any:
    """``assign`` has client names for its keys."""
    return t.do(
        who,
        ApiKey.SYNC_GROUP,
        version,
        group_id=t.name if group is None else group,
        generation_id=generation_id(t, who, generation),
        member_id=member_id(t, who, member),
        group_instance_id=instance,
        protocol_type=protocol_type,
        protocol_name=protocol_name,
        assignments=[
            SyncGroupRequestAssignment(member_id=t.member.get(name, name), assignment=value)
            for name, value in (assign or {}).items()
        ],
    )


def heartbeat(
    t: Trace,
    who: str,
    version: int = 4,
    *,
    member: str = MINE,
    instance: str | None = None,
    generation: int | str | None = None,
    group: str | None = None,
) -> Any:
    return t.do(
        who,
        ApiKey.HEARTBEAT,
        version,
        group_id=t.name if group is None else group,
        generation_id=generation_id(t, who, generation),
        member_id=member_id(t, who, member),
        group_instance_id=instance,
    )


def leave(t: Trace, who: str, version: int = 5, *entries: tuple[str, str | None], group: str | None = None) -> Any:
    """``entries`` are (member id, instance id); without any, the client itself leaves."""
    entries = entries or ((MINE, None),)
    return t.do(
        who,
        ApiKey.LEAVE_GROUP,
        version,
        group_id=t.name if group is None else group,
        member_id=member_id(t, who, entries[0][0]) if version < 3 else "",
        members=[
            MemberIdentity(member_id=member_id(t, who, member), group_instance_id=instance)
            for member, instance in entries
        ],
    )


def commit(
    t: Trace,
    who: str,
    version: int = 8,
    offsets: Sequence[tuple[str, int, int]] = ((TOPIC, 0, 7),),
    *,
    member: str = MINE,
    instance: str | None = None,
    generation: int | str | None = None,
    metadata: str | None = "m",
    epoch: int = -1,
    retention: int = -1,
    group: str | None = None,
) -> Any:
    topics: dict[str, list[OffsetCommitRequestPartition]] = {}
    for topic, partition, offset in offsets:
        topics.setdefault(topic, []).append(
            OffsetCommitRequestPartition(
                partition_index=partition,
                committed_offset=offset,
                committed_leader_epoch=epoch,
                committed_metadata=metadata,
            )
        )
    return t.do(
        who,
        ApiKey.OFFSET_COMMIT,
        version,
        group_id=t.name if group is None else group,
        generation_id_or_member_epoch=generation_id(t, who, generation),
        member_id=member_id(t, who, member),
        group_instance_id=instance,
        retention_time_ms=retention,
        topics=[
            OffsetCommitRequestTopic(name=name, topic_id=t.id_of(name), partitions=items)
            for name, items in topics.items()
        ],
    )


def commit_alone(t: Trace, version: int = 8, **options: Any) -> Any:
    """A commit from outside of any generation."""
    return commit(t, "admin", version, member=options.pop("member", ""), generation=-1, **options)


def fetch(
    t: Trace,
    version: int = 8,
    wanted: dict[str, list[int]] | None = None,
    *,
    stable: bool = False,
    groups: Sequence[str] | None = None,
    everything: bool = False,
    member: str | None = None,
    epoch: int = -1,
) -> Any:
    wanted = {TOPIC: [0, 1]} if wanted is None else wanted
    if version < 8:
        old = [OffsetFetchRequestTopic(name=name, partition_indexes=items) for name, items in wanted.items()]
        one = t.name if groups is None else groups[0]
        topics = None if everything else old
        return t.call("admin", ApiKey.OFFSET_FETCH, version, group_id=one, topics=topics, require_stable=stable)
    new = [
        OffsetFetchRequestTopic(name=name, topic_id=t.id_of(name), partition_indexes=items)
        for name, items in wanted.items()
    ]
    several = [
        OffsetFetchRequestGroup(
            group_id=group,
            member_id=member and member_id(t, "", member),
            member_epoch=epoch,
            topics=None if everything else new,
        )
        for group in ([t.name] if groups is None else groups)
    ]
    return t.call("admin", ApiKey.OFFSET_FETCH, version, groups=several, require_stable=stable)


def describe(t: Trace, version: int = 5, *groups: str, operations: bool = False) -> Any:
    names = list(groups) or [t.name]
    return t.call("admin", ApiKey.DESCRIBE_GROUPS, version, groups=names, include_authorized_operations=operations)


def listed(t: Trace, version: int = 4, states: Sequence[str] = (), types: Sequence[str] = ()) -> Any:
    return t.call("admin", ApiKey.LIST_GROUPS, version, states_filter=list(states), types_filter=list(types))


def delete(t: Trace, version: int = 2, *groups: str) -> Any:
    return t.call("admin", ApiKey.DELETE_GROUPS, version, groups_names=list(groups) or [t.name])


def delete_offsets(t: Trace, wanted: dict[str, list[int]], group: str | None = None) -> Any:
    topics = [
        OffsetDeleteRequestTopic(
            name=name, partitions=[OffsetDeleteRequestPartition(partition_index=item) for item in items]
        )
        for name, items in wanted.items()
    ]
    group_id = t.name if group is None else group
    return t.call("admin", ApiKey.OFFSET_DELETE, 0, group_id=group_id, topics=topics)


def log_end(t: Trace) -> int:
    """Where the log of this trace's group ends at this moment."""
    partition = ListOffsetsPartition(partition_index=coordinator_partition(t.name, GROUP_PARTITIONS), timestamp=-1)
    topics = [ListOffsetsTopic(name=GROUP_TOPIC, partitions=[partition])]
    wire = t.wire(READER)
    wire.send(ApiKey.LIST_OFFSETS, 5, api(ApiKey.LIST_OFFSETS).request(replica_id=-1, topics=topics))
    return int(wire.answer(10).topics[0].partitions[0].offset)


def note_log(t: Trace, start: int) -> None:
    """Note the records of this trace's groups from ``start`` on in the coordinator's log, without their times."""
    end, found = log_end(t), []
    while start < end:
        partition = FetchPartition(
            partition=coordinator_partition(t.name, GROUP_PARTITIONS), fetch_offset=start, partition_max_bytes=1 << 20
        )
        topics = [FetchTopic(topic=GROUP_TOPIC, partitions=[partition])]
        wire = t.wire(READER)
        request = api(ApiKey.FETCH).request(max_wait_ms=100, min_bytes=1, max_bytes=1 << 20, topics=topics)
        wire.send(ApiKey.FETCH, 11, request)
        records = bytes(wire.answer(10).responses[0].partitions[0].records or b"")
        for header, batch in iter_batches(records):
            start = header.base_offset + header.last_offset_delta + 1
            found += [] if header.is_control else decode_batch(batch)
        if not records:
            break
    note_records(t, found)


def note_records(t: Trace, found: Sequence[Record]) -> None:
    """Note those records of a coordinator's log that are of this trace's groups."""
    rows: list[tuple[dict[str, Any], Any]] = []
    for record in found:
        key = decode_key(record.key or b"")
        if key is None or not key.group_id.startswith(t.name):
            continue
        row = t.tidy(ApiKey.FETCH, (plain(key), _value(record.value, isinstance(key, OffsetKey))))
        if row[1] and "members" in row[1]:
            # Two members of one client whose joins were answered together cannot be told apart: what they have can.
            row[1]["members"].sort(key=lambda member: (str(member["member_id"]), str(member)))
        rows.append(row)
    for is_deletion, run in itertools.groupby(rows, key=lambda row: row[1] is None):
        # Kafka deletes in the order of a hash map, and twice what is named twice.
        ordered = list(run)
        if is_deletion:
            ordered.sort(key=str)
        for before, row in zip([None, *ordered], ordered, strict=False):
            if row != before or not is_deletion:
                t.note("log", row)


def _value(data: bytes | None, is_offset: bool) -> Any:
    if data is None:
        return None
    decoded: Any = decode_offset_value(data) if is_offset else decode_group_value(data)
    value = plain(decoded) | {"version": int.from_bytes(data[:2], "big")}
    for field in ("commit_timestamp", "expire_timestamp", "current_state_timestamp"):
        if field in value:
            value[field] = "none" if value[field] == -1 else "some time"
    if is_offset and value["topic_id"] != ZERO_UUID:
        value["topic_id"] = "<topic id>"
    if "members" in value:
        value["members"].sort(key=lambda member: str(member["client_id"]))
    return value


def stable(t: Trace, *who: str, **options: Any) -> None:
    """A Stable group of these; the first one leads."""
    enter(t, who[0], **options)
    for name in who[1:]:
        enter(t, name, **options)
    if who[1:]:
        join(t, who[0], **options)
    for name in (*who[1:], who[0]):
        sync(t, name, assign={each: each.encode() for each in who})
