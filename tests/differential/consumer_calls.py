"""Requests of consumer groups (KIP-848) in few words, for traces. A member's id is the name of its client."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from ottla.protocol.apis import ApiKey
from tests.differential.calls import MINE, generation_id, member_id
from tests.differential.tracing import Trace

LEAVES, IS_AWAY = -1, -2
Owned = list[dict[str, Any]]


def says(names: Sequence[str] | None = (), **fields: Any) -> dict[str, Any]:
    """What a member says that joins: names of topics, and more fields of the request."""
    named = None if names is None else list(names)
    return {"subscribed_topic_names": named, "rebalance_timeout_ms": 300_000} | fields


def beat(
    t: Trace,
    who: str,
    version: int = 1,
    *,
    joins: Mapping[str, Any] | None = None,
    member: str = MINE,
    epoch: int | str | None = None,
    instance: str | None = None,
    owned: str | None = None,
    group: str | None = None,
    **fields: Any,
) -> Any:
    """ConsumerGroupHeartbeat.

    Args:
        joins: what a member says besides that has no epoch, see `says`.
        epoch: as in `generation_id`.
        owned: see `_owned`.
    """
    t.member.setdefault(who, who)
    known = generation_id(t, who, epoch)
    if epoch is None and known == 0 and joins is not None:
        fields = fields | joins
        owned = "none"
    return t.do(
        who,
        ApiKey.CONSUMER_GROUP_HEARTBEAT,
        version,
        group_id=t.name if group is None else group,
        member_id=member_id(t, who, member),
        member_epoch=known,
        instance_id=instance,
        topic_partitions=_owned(t, who, owned),
        **fields,
    )


def _owned(t: Trace, who: str, word: str | None) -> Owned | None:
    """The partitions that a member reports: nothing (None), "none", "mine" as it was told last, "before", one "less",
    some "more".
    """
    if word is None:
        return None

    def name(topic_id: UUID) -> str:
        return str(t.tidy(ApiKey.CONSUMER_GROUP_HEARTBEAT, topic_id, "topic_id"))

    before, last = t.shares.get(who, ({}, {}))
    share = {topic_id: list(partitions) for topic_id, partitions in (before if word == "before" else last).items()}
    if word == "none":
        share = {}
    if word == "less" and share:
        share[max(share, key=name)].pop()
    if word == "more":
        of = min(share, key=name, default=t.id_of(f"{t.name}t"))
        share[of] = sorted({*share.get(of, ()), 0, 1})
    return [{"topic_id": topic_id, "partitions": partitions} for topic_id, partitions in share.items()]


def join(t: Trace, who: str, *names: str, version: int = 1, member: str = MINE, **fields: Any) -> Any:
    """Join, or join again, with names of topics."""
    instance = fields.pop("instance", None)
    return beat(t, who, version, member=member, epoch=0, instance=instance, owned="none", **says(names) | fields)


def leave_group(t: Trace, who: str, *, instance: str | None = None, epoch: int = LEAVES) -> Any:
    return beat(t, who, epoch=epoch, instance=instance)


def describe_consumers(t: Trace, version: int = 1, *groups: str, operations: bool = False) -> Any:
    """ConsumerGroupDescribe."""
    fields = {"group_ids": list(groups) or [t.name], "include_authorized_operations": operations}
    return t.call("admin", ApiKey.CONSUMER_GROUP_DESCRIBE, version, **fields)
