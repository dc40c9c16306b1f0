"""Requests, each made in one place: their fields in few words, and messages out of fields.

A ``…_fields`` function gives the fields that every version has, so that one call serves them all; whoever wants others
adds them with ``|``. Structs within a request are dicts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any
from uuid import UUID

from ottla.protocol.apis import ApiKey, api
from ottla.protocol.schema import ArrayOf

Values = Mapping[str, Any]
Topic = str | UUID
"""A topic by its name, or by its id where the version names topics so."""


def message_of(cls: type[Any], values: Values) -> Any:
    """A message or struct with these fields, and defaults for the others; structs in it may be given as dicts."""
    made = cls()
    declared = {field.name: field.type for field in cls.__wire__}
    for name, value in values.items():
        setattr(made, name, _value(declared[name], value))
    return made


def _value(declared: Any, value: Any) -> Any:
    if isinstance(declared, ArrayOf) and value is not None:
        return [_value(declared.item, item) for item in value]
    return message_of(declared, value) if isinstance(value, dict) else value


def request(key: ApiKey, values: Values) -> Any:
    """A request with these fields."""
    return message_of(api(key).request, values)


def response(key: ApiKey, values: Values) -> Any:
    """A response with these fields."""
    return message_of(api(key).response, values)


def by_topic(rows: Iterable[tuple[Topic, Any]]) -> dict[Topic, list[Any]]:
    """Items grouped by topic, in the order in which topics are first named."""
    found: dict[Topic, list[Any]] = {}
    for topic, item in rows:
        found.setdefault(topic, []).append(item)
    return found


def named(topic: Topic) -> dict[str, Any]:
    """The field that names a topic."""
    return {"topic_id": topic} if isinstance(topic, UUID) else {"name": topic}


# Groups


Pairs = Mapping[str, bytes] | Sequence[tuple[str, bytes]]


def _pairs(of: Pairs) -> Iterable[tuple[str, bytes]]:
    return of.items() if isinstance(of, Mapping) else of


def subscribed(topic: str) -> bytes:
    """A subscription to a topic, version 0 of the consumer protocol."""
    name = topic.encode()
    return b"\0\0\0\0\0\1" + len(name).to_bytes(2, "big") + name + b"\xff\xff\xff\xff"


def join_fields(
    group: str,
    *,
    member_id: str = "",
    instance: str | None = None,
    protocols: Pairs | None = None,
    protocol_type: str = "consumer",
    session_ms: int = 30_000,
    rebalance_ms: int = 30_000,
) -> dict[str, Any]:
    """``protocols``: names and metadata; without any, the assignor range and a subscription to the topic wire."""
    chosen = {"range": subscribed("wire")} if protocols is None else protocols
    return {
        "group_id": group,
        "session_timeout_ms": session_ms,
        "rebalance_timeout_ms": rebalance_ms,
        "member_id": member_id,
        "group_instance_id": instance,
        "protocol_type": protocol_type,
        "protocols": [{"name": name, "metadata": metadata} for name, metadata in _pairs(chosen)],
    }


def sync_fields(
    group: str,
    generation: int,
    member_id: str,
    assignments: Pairs = (),
    *,
    instance: str | None = None,
    protocol_type: str | None = "consumer",
    protocol_name: str | None = "range",
) -> dict[str, Any]:
    """``assignments``: bytes by member id; only a leader has any."""
    rows = [{"member_id": member, "assignment": data} for member, data in _pairs(assignments)]
    names = {"protocol_type": protocol_type, "protocol_name": protocol_name}
    return heartbeat_fields(group, generation, member_id, instance) | names | {"assignments": rows}


def heartbeat_fields(group: str, generation: int, member_id: str, instance: str | None = None) -> dict[str, Any]:
    return {
        "group_id": group,
        "generation_id": generation,
        "member_id": member_id,
        "group_instance_id": instance,
    }


def consumer_heartbeat_fields(
    group: str, member_id: str, epoch: int = 0, *, names: Sequence[str] | None = None, instance: str | None = None
) -> dict[str, Any]:
    """By default nothing but that the member is alive; with ``names`` it joins, or says everything."""
    joins = {"rebalance_timeout_ms": 30_000, "topic_partitions": [], "subscribed_topic_names": names}
    says = {} if names is None else joins
    return {"group_id": group, "member_id": member_id, "member_epoch": epoch, "instance_id": instance} | says


def leave_fields(group: str, *members: tuple[str, str | None], reason: str | None = None) -> dict[str, Any]:
    """``members``: member id and instance id; versions before 3 take the first one."""
    rows = [{"member_id": member, "group_instance_id": instance, "reason": reason} for member, instance in members]
    return {"group_id": group, "member_id": members[0][0], "members": rows}


def commit_fields(
    group: str,
    offsets: Iterable[tuple[Any, ...]],
    *,
    generation: int = -1,
    member_id: str = "",
    instance: str | None = None,
    metadata: str | None = "m",
    leader_epoch: int = -1,
    retention_ms: int = -1,
    name: Callable[[Any], dict[str, Any]] = named,
) -> dict[str, Any]:
    """``offsets``: topic, partition, offset and, where it is not that of all, metadata. By default of a group without
    members.

    Args:
        name: what names a topic in the request.
    """
    return {
        "group_id": group,
        "generation_id_or_member_epoch": generation,
        "member_id": member_id,
        "group_instance_id": instance,
        "retention_time_ms": retention_ms,
        "topics": _offset_rows(offsets, metadata, leader_epoch, name),
    }


def _offset_rows(
    offsets: Iterable[tuple[Any, ...]], metadata: str | None, leader_epoch: int, name: Callable[[Any], dict[str, Any]]
) -> list[dict[str, Any]]:
    rows = by_topic(
        (
            topic,
            {
                "partition_index": partition,
                "committed_offset": offset,
                "committed_leader_epoch": leader_epoch,
                "committed_metadata": own[0] if own else metadata,
            },
        )
        for topic, partition, offset, *own in offsets
    )
    return [name(topic) | {"partitions": places} for topic, places in rows.items()]


def offset_fetch_fields(
    groups: str | Sequence[str],
    topics: Mapping[Any, Sequence[int]] | None = None,
    *,
    name: Callable[[Any], dict[str, Any]] = named,
    stable: bool = False,
    **of_group: Any,
) -> dict[str, Any]:
    """``topics``: partitions by topic; None for all there are. Versions before 8 take the first group, and names only.

    Args:
        of_group: more fields of each group, which are there since version 9.
    """
    asked = [groups] if isinstance(groups, str) else groups
    rows = old = None
    if topics is not None:
        rows = [name(topic) | {"partition_indexes": list(indexes)} for topic, indexes in topics.items()]
        old = [{field: value for field, value in row.items() if field != "topic_id"} for row in rows]
    batched = [{"group_id": group, "topics": rows} | of_group for group in asked]
    return {"group_id": asked[0] if asked else "", "topics": old, "groups": batched, "require_stable": stable}


def delete_offsets_fields(group: str, places: Iterable[tuple[str, int]]) -> dict[str, Any]:
    """``places``: topic and partition."""
    rows = by_topic((topic, {"partition_index": partition}) for topic, partition in places)
    return {"group_id": group, "topics": [{"name": topic, "partitions": items} for topic, items in rows.items()]}


# Transactions


Producer = tuple[int, int]
"""Producer id and epoch."""


def init_producer_fields(
    transactional_id: str | None, *, timeout_ms: int = 60_000, expected: Producer = (-1, -1)
) -> dict[str, Any]:
    """``expected``: the producer that goes on (KIP-360)."""
    who = {"producer_id": expected[0], "producer_epoch": expected[1]}
    return {"transactional_id": transactional_id, "transaction_timeout_ms": timeout_ms} | who


def of_transaction(transactional_id: str, who: Producer) -> dict[str, Any]:
    """The fields that say whose transaction it is."""
    return {"transactional_id": transactional_id, "producer_id": who[0], "producer_epoch": who[1]}


def add_partitions_fields(
    whose: Values, places: Iterable[tuple[str, int]], *, verify_only: bool = False
) -> dict[str, Any]:
    """``whose``: see `of_transaction`; ``places``: topic and partition."""
    topics = [{"name": topic, "partitions": indexes} for topic, indexes in by_topic(places).items()]
    fields = {**whose, "topics": topics}
    old = {f"v3_and_below_{name}": value for name, value in fields.items()}
    return {"transactions": [fields | {"verify_only": verify_only}]} | old


def txn_commit_fields(
    transactional_id: str,
    who: Producer,
    group: str,
    offsets: Iterable[tuple[Any, ...]],
    *,
    generation: int = -1,
    member_id: str = "",
    instance: str | None = None,
) -> dict[str, Any]:
    """``offsets``: topic, partition, offset and, if there is any, metadata. By default of nobody in particular."""
    member = {"generation_id": generation, "member_id": member_id, "group_instance_id": instance}
    rows = _offset_rows(offsets, "", -1, named)
    return of_transaction(transactional_id, who) | {"group_id": group} | member | {"topics": rows}


# Logs


def produce_fields(
    topic: Topic,
    data: bytes | None,
    partition: int = 0,
    acks: int = -1,
    transactional_id: str | None = None,
    timeout_ms: int = 10_000,
) -> dict[str, Any]:
    rows = [named(topic) | {"partition_data": [{"index": partition, "records": data}]}]
    return {"transactional_id": transactional_id, "acks": acks, "timeout_ms": timeout_ms, "topic_data": rows}


def fetch_fields(topic: Topic, offset: int = 0, *partitions: int, **options: Any) -> dict[str, Any]:
    """``partitions``: 0 unless told otherwise. ``options`` are fields of the request, or of its partitions."""
    place = {"current_leader_epoch": -1, "last_fetched_epoch": -1, "partition_max_bytes": 1 << 20}
    place |= {name: options.pop(name) for name in list(place) if name in options}
    places = [place | {"partition": partition, "fetch_offset": offset} for partition in partitions or (0,)]
    where = {"topic_id": topic} if isinstance(topic, UUID) else {"topic": topic}
    fields = {"max_wait_ms": 0, "min_bytes": 0, "max_bytes": 1 << 20, "session_epoch": -1}
    return fields | {"topics": [where | {"partitions": places}]} | options


def list_offsets_fields(
    topic: str, timestamp: int, *partitions: int, isolation: int = 0, leader_epoch: int = -1
) -> dict[str, Any]:
    """``partitions``: 0 unless told otherwise."""
    places = [
        {"partition_index": partition, "current_leader_epoch": leader_epoch, "timestamp": timestamp}
        for partition in partitions or (0,)
    ]
    topics = [{"name": topic, "partitions": places}]
    return {"replica_id": -1, "isolation_level": isolation, "topics": topics}


def create_fields(
    topics: Mapping[str, int], *, configs: Mapping[str, str | None] | None = None, timeout_ms: int = 10_000
) -> dict[str, Any]:
    """``topics``: partition counts by name. All have the same settings."""
    settings = [{"name": name, "value": value} for name, value in (configs or {}).items()]
    rows = [
        {"name": name, "num_partitions": count, "replication_factor": 1, "configs": settings}
        for name, count in topics.items()
    ]
    return {"topics": rows, "timeout_ms": timeout_ms}


def delete_records_fields(topic: str, offset: int, partition: int = 0, timeout_ms: int = 5_000) -> dict[str, Any]:
    rows = [{"partition_index": partition, "offset": offset}]
    return {"topics": [{"name": topic, "partitions": rows}], "timeout_ms": timeout_ms}
