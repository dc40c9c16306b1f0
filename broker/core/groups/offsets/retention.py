"""Which committed offsets nobody needs any more (KIP-211).

Offsets live as long as somebody uses them and for a while after. What "uses" means depends on the group:

| group                                        | an offset's age counts from                    | kept regardless      |
|----------------------------------------------|------------------------------------------------|----------------------|
| had members, is Empty                        | the time it became Empty (if known)            |                      |
| consumers, Stable, subscriptions readable    | its commit                                     | topics subscribed to |
| only stores offsets                          | its commit                                     |                      |
| of the consumer protocol (KIP-848)           | its commit                                     | topics subscribed to |
| anything else (rebalancing, unreadable, …)   |                                                | everything           |

An Empty group is removed as soon as it has no offsets, however short it has been Empty, and issued ids do not hold
it back.
"""

from __future__ import annotations

from ottla.broker.core.groups.group import Group
from ottla.broker.core.groups.machine import Machine
from ottla.broker.core.groups.removal import Tombstones
from ottla.broker.core.groups.shard import GroupShard

SWEPT = 250
"""How many groups one part of a sweep looks at; fewer if there are many offsets, or if much has expired."""


def expired_partitions(group: Group, wall_ms: int, retention_ms: int) -> list[tuple[str, int]]:
    """The partitions whose offset has outlived its retention.

    Those with a write on its way, or with an offset pending in a transaction, are left alone.
    """
    rule = group.expiry_rule()
    if rule is None:
        return []
    since_ms, in_use = rule
    expired = []
    pending = group.offsets.pending_partitions()
    for topic, partition, committed in group.offsets.items():
        if topic in in_use or (topic, partition) in group.offsets.in_flight or (topic, partition) in pending:
            continue
        if committed.expire_timestamp_ms >= 0:
            is_over = wall_ms >= committed.expire_timestamp_ms
        else:
            is_over = wall_ms - (committed.commit_timestamp_ms if since_ms is None else since_ms) >= retention_ms
        if is_over:
            expired.append((topic, partition))
    return expired


def sweep(m: Machine, shard: GroupShard, first: str = "") -> str:
    """Write the tombstones that are due in a shard, a part of it at a time.

    Args:
        first: the id of the group to begin with. If there is no such group any more, the sweep begins anew.

    Returns:
        The id of the group with which to go on; empty at the end of the shard.
    """
    tombstones = Tombstones(m, shard, "expired")
    found = first not in shard.groups
    left = SWEPT
    for group in shard.groups.values():
        found = found or group.group_id == first
        if not found:
            continue
        if left <= 0 and group.group_id:
            tombstones.flush()
            return group.group_id
        expired = expired_partitions(group, m.wall_ms, m.config.offsets_retention_ms)
        offsets = group.offsets
        keeps_offsets = len(expired) < len(offsets) or bool(offsets.in_flight) or bool(offsets.pending)
        for topic, partition in expired:
            tombstones.add_offset(group, topic, partition)
        if group.is_empty and not keeps_offsets and not group.has_writes:
            tombstones.add_group(group)
        left -= 1 + len(offsets) // 8 + 4 * len(expired)
    tombstones.flush()
    return ""
