"""Group requests in few words, for traces. The group is the trace's name unless told otherwise."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from ottla.protocol.apis import ApiKey
from ottla.protocol.consumer_group_records import VALUES, ConsumerGroupKey, decode_consumer_group_key
from ottla.protocol.groups import coordinator_partition
from ottla.protocol.offsets_topic import GroupKey, GroupValue, OffsetKey, OffsetValue, decode_key, decode_value
from ottla.protocol.primitives import ZERO_UUID
from ottla.protocol.records import Record
from tests.differential.tracing import Trace
from tests.differential.wire import plain
from tests.support.client import Client
from tests.support.requests import (
    commit_fields,
    heartbeat_fields,
    join_fields,
    leave_fields,
    offset_fetch_fields,
    subscribed,
    sync_fields,
)

TOPIC = "orders"  # made before the traces run, with three partitions
SUBSCRIBED = subscribed(TOPIC)
GROUP_TOPIC = "__consumer_offsets"
GROUP_PARTITIONS = 16
READER = "reader"
OTHER = subscribed("other")  # a topic that is not there
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


def _place(t: Trace, who: str, group: str | None, generation: int | str | None, member: str) -> tuple[str, int, str]:
    """The group, generation and member id that a request names."""
    return t.name if group is None else group, generation_id(t, who, generation), member_id(t, who, member)


def join(
    t: Trace,
    who: str,
    version: int = 7,
    *,
    member: str = MINE,
    protocols: Sequence[str] = ("range",),
    metadata: bytes = SUBSCRIBED,
    session: int = 10_000,
    rebalance: int = 60_000,
    group: str | None = None,
    **options: Any,
) -> Any:
    fields = join_fields(
        t.name if group is None else group,
        member_id=member_id(t, who, member),
        protocols=[(name, metadata) for name in protocols],
        session_ms=session,
        rebalance_ms=rebalance,
        **options,
    )
    return t.do(who, ApiKey.JOIN_GROUP, version, **fields)


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
    generation: int | str | None = None,
    group: str | None = None,
    **options: Any,
) -> Any:
    """``assign`` has client names for its keys."""
    shares = [(t.member.get(name, name), value) for name, value in (assign or {}).items()]
    fields = sync_fields(*_place(t, who, group, generation, member), shares, **options)
    return t.do(who, ApiKey.SYNC_GROUP, version, **fields)


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
    fields = heartbeat_fields(*_place(t, who, group, generation, member), instance)
    return t.do(who, ApiKey.HEARTBEAT, version, **fields)


def leave(t: Trace, who: str, version: int = 5, *entries: tuple[str, str | None], group: str | None = None) -> Any:
    """``entries`` are (member id, instance id); without any, the client itself leaves."""
    members = [(member_id(t, who, member), instance) for member, instance in entries or ((MINE, None),)]
    return t.do(who, ApiKey.LEAVE_GROUP, version, **leave_fields(t.name if group is None else group, *members))


def commit(
    t: Trace,
    who: str,
    version: int = 8,
    offsets: Sequence[tuple[str, int, int]] = ((TOPIC, 0, 7),),
    *,
    member: str = MINE,
    generation: int | str | None = None,
    epoch: int = -1,
    retention: int = -1,
    group: str | None = None,
    **options: Any,
) -> Any:
    group_id, generation_id, member_id = _place(t, who, group, generation, member)
    options |= {"leader_epoch": epoch, "retention_ms": retention, "name": t.named}
    fields = commit_fields(group_id, offsets, generation=generation_id, member_id=member_id, **options)
    return t.do(who, ApiKey.OFFSET_COMMIT, version, **fields)


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
    epoch: int | str = -1,
) -> Any:
    of = member[1:] if member else ""
    fields = offset_fetch_fields(
        [t.name] if groups is None else groups,
        None if everything else {TOPIC: [0, 1]} if wanted is None else wanted,
        name=t.named,
        stable=stable,
        member_id=member and member_id(t, "", member),
        member_epoch=generation_id(t, of, epoch),
    )
    return t.call("admin", ApiKey.OFFSET_FETCH, version, **fields)


def describe(t: Trace, version: int = 5, *groups: str, operations: bool = False, after_ms: int | None = None) -> Any:
    """``after_ms``: let it settle first, as `Trace.settle` does."""
    if after_ms is not None:
        t.settle(after_ms)
    names = list(groups) or [t.name]
    return t.call("admin", ApiKey.DESCRIBE_GROUPS, version, groups=names, include_authorized_operations=operations)


def listed(t: Trace, version: int = 4, states: Sequence[str] = (), types: Sequence[str] = ()) -> Any:
    return t.call("admin", ApiKey.LIST_GROUPS, version, states_filter=list(states), types_filter=list(types))


def delete(t: Trace, version: int = 2, *groups: str) -> Any:
    return t.call("admin", ApiKey.DELETE_GROUPS, version, groups_names=list(groups) or [t.name])


def delete_offsets(t: Trace, wanted: dict[str, list[int]], group: str | None = None) -> Any:
    topics = [
        {"name": name, "partitions": [{"partition_index": item} for item in items]} for name, items in wanted.items()
    ]
    group_id = t.name if group is None else group
    return t.call("admin", ApiKey.OFFSET_DELETE, 0, group_id=group_id, topics=topics)


def log_end(t: Trace) -> int:
    """The current end of the log that holds this trace's group."""
    partition = coordinator_partition(t.name, GROUP_PARTITIONS)
    with Client(t.port_of(GROUP_TOPIC, partition), READER) as client:
        return int(client.offset(GROUP_TOPIC, partition=partition).offset)


def note_log(t: Trace, start: int) -> None:
    """Note the records of this trace's groups from ``start`` on in the coordinator's log, without their times."""
    if log_end(t) > start:
        partition = coordinator_partition(t.name, GROUP_PARTITIONS)
        with Client(t.port_of(GROUP_TOPIC, partition), READER) as client:
            found, _ = client.read_log(GROUP_TOPIC, partition, start)
        note_records(t, found)


def note_records(t: Trace, found: Sequence[Record]) -> None:
    """Note those records of a coordinator's log that are of this trace's groups."""
    rows: list[tuple[str, dict[str, Any], Any]] = []
    for record in found:
        key = decode_key(record.key or b"") or decode_consumer_group_key(record.key or b"")
        if key is None or not key.group_id.startswith(t.name):
            continue
        row = t.tidy(ApiKey.FETCH, (type(key).__name__, plain(key), _value(record.value, key)))
        if row[2] and "members" in row[2]:
            # Two members of one client whose joins were answered together cannot be told apart: what they have can.
            row[2]["members"].sort(key=lambda member: (str(member["member_id"]), str(member)))
        if rows and rows[-1][0] == "ConsumerGroupMetadataKey" and rows[-1][2] is None and row[0] == "GroupKey":
            # A consumer group became a classic one, which is led by whomever a hash map gives first.
            row[2]["leader"] = row[2]["leader"] and "anybody"
        rows.append(row)
    for (kind, is_deletion), run in itertools.groupby(rows, key=_run):
        # Kafka deletes in the order of a hash map, and twice what is named twice.
        ordered = list(run)
        if is_deletion or kind:
            ordered.sort(key=str)
        for before, row in zip([None, *ordered], ordered, strict=False):
            if row != before or not is_deletion:
                t.note("log", row)


def _run(row: tuple[str, dict[str, Any], Any]) -> tuple[str, bool]:
    """Rows that are alike in this and follow each other may stand in any order: consumer groups write a kind of record
    for one member after the other, as a hash map has them.
    """
    kind, _, value = row
    return kind if kind.startswith("ConsumerGroup") else "", value is None


def _value(data: bytes | None, key: OffsetKey | GroupKey | ConsumerGroupKey) -> Any:
    if data is None:
        return None
    is_offset = isinstance(key, OffsetKey)
    kinds: dict[Any, Any] = {OffsetKey: OffsetValue, GroupKey: GroupValue, **VALUES}
    decoded: Any = decode_value(kinds[type(key)], data)
    value = plain(decoded) | {
        "version": int.from_bytes(data[:2], "big")
    }  # in the place of that of the topics of a regex
    for field in ("assignment_timestamp", "timestamp"):
        if value.get(field):
            value[field] = "some time"
    for field in ("commit_timestamp", "expire_timestamp", "current_state_timestamp"):
        if field in value:
            value[field] = "none" if value[field] == -1 else "some time"
    if is_offset and value["topic_id"] != ZERO_UUID:
        value["topic_id"] = "<topic id>"
    if "members" in value:
        value["members"].sort(key=lambda member: str(member["client_id"]))
    return value


def completing(t: Trace, *who: str, **options: Any) -> None:
    """A group of these of whom nobody has synced; the first one leads."""
    for name in who:
        enter(t, name, **options)
    if who[1:]:
        join(t, who[0], **options)


def stable(t: Trace, *who: str, **options: Any) -> None:
    """A Stable group of these; the first one leads."""
    completing(t, *who, **options)
    for name in (*who[1:], who[0]):
        sync(t, name, assign={each: each.encode() for each in who})
