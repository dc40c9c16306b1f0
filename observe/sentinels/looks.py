"""Findings about a group as it is at the moment."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator

from ottla.broker.core.consumer_groups.state import UNRELEASED
from ottla.broker.settings import Settings
from ottla.observe.sentinels.model import Finding, named, ranges, short
from ottla.observe.snapshot import GroupState, MemberState

PartitionCount = Callable[[str], int]
"""Gives the number of partitions of a topic; 0 if there is no such topic."""

Heirs = Callable[[str, str, list[int]], list[str]]
"""Gives the members of a consumer group that have some of these partitions of a topic in their targets."""

WAITS = UNRELEASED.name
"""The state of a member of a consumer group that waits for partitions of others, unless it is itself awaited."""


def look(group: GroupState, partition_count: PartitionCount, heirs: Heirs, settings: Settings) -> Iterator[Finding]:
    """Everything but offsets."""
    if group.barrier:
        yield from _waiting(group, settings)
    elif group.state == "Stable" and group.protocol_type == "consumer":
        owned: dict[str, set[int]] = {}
        for member in group.members:
            for topic, partitions in member.assignment.items():
                owned.setdefault(topic, set()).update(partitions)
        yield from _overlaps(group, owned)
        yield from _subscriptions(group, settings)
        yield from _unowned(group, owned, partition_count, heirs, settings)


def _waiting(group: GroupState, settings: Settings) -> Iterator[Finding]:
    if group.barrier_age_ms >= settings.ottla_sentinel_barrier_ms:
        yield Finding(
            "old_barrier",
            "",
            _unbalanced(group) if group.protocol == "consumer" else _at_barrier(group),
            {"barrier": group.barrier, "awaited": named(group.awaited), "age_ms": str(group.barrier_age_ms)},
        )
    gone = [member for member in group.members if member.waits_for == "join" and member.is_gone]
    if gone:
        names, ids = _names(group), named([member.member_id for member in gone])
        who = named([names[member.member_id] for member in gone])
        yield Finding(
            "zombie",
            "",
            f"Group {group.group_id} waits with members whose connection is gone: {who}",
            {"members": ids},
            settings.ottla_sentinel_zombie_ms,
        )


def _at_barrier(group: GroupState) -> str:
    names = _names(group)
    awaited = named([names.get(member_id, short(member_id)) for member_id in group.awaited])
    waited = f"Group {group.group_id} has waited {group.barrier_age_ms // 1000} s at the {group.barrier} barrier"
    return waited + (f" for {awaited}" if awaited else "")


def _unbalanced(group: GroupState) -> str:
    """Who holds a consumer group up, with what, and who waits for that."""
    names, holding = _names(group), dict.fromkeys(group.awaited)
    awaited = [one for one in group.members if one.member_id in holding]
    waited = f"Group {group.group_id} has not been balanced for {group.barrier_age_ms // 1000} s"
    if group.generation > group.assignment_epoch:
        return f"{waited}: no target has been computed for epoch {group.generation}"
    says = [f"{names[one.member_id]} has not given up {ranges(one.pending)}" for one in awaited if one.pending]
    if late := [names[one.member_id] for one in awaited if not one.pending]:
        says.append(f"{named(late)} {'has' if len(late) == 1 else 'have'} not come for the new target")
    waiting = [names[one.member_id] for one in group.members if one.state == WAITS and one.member_id not in holding]
    wait = f"; {named(waiting)} {'waits' if len(waiting) == 1 else 'wait'} for that" if waiting else ""
    return f"{waited}: {named(says)}{wait}"


def _overlaps(group: GroupState, owned: dict[str, set[int]]) -> Iterator[Finding]:
    assigned = sum(len(partitions) for member in group.members for partitions in member.assignment.values())
    if assigned == sum(map(len, owned.values())):
        return  # nobody shares any
    owners: dict[tuple[str, int], MemberState] = {}
    shared: dict[str, list[str]] = {}
    believers: dict[str, dict[str, None]] = {}
    for member in group.members:
        for topic, partitions in member.assignment.items():
            for partition in partitions:
                other = owners.setdefault((topic, partition), member)
                if other is not member:
                    shared.setdefault(topic, []).append(f"{topic}-{partition}")
                    believers.setdefault(topic, {}).update({other.member_id: None, member.member_id: None})
    names = _names(group) if shared else {}
    for topic, partitions_of in shared.items():
        who = named([names[member_id] for member_id in believers[topic]])
        what = named(list(dict.fromkeys(partitions_of)))
        yield Finding(
            "two_believers",
            topic,
            f"Group {group.group_id}: the leader assigned {what} to more than one member: {who}",
            {"partitions": what, "members": named(list(believers[topic])), "generation": str(group.generation)},
        )


def _subscriptions(group: GroupState, settings: Settings) -> Iterator[Finding]:
    wanted: dict[frozenset[str], list[str]] = {}
    before: list[str] | None = None  # those that say the same have the same list
    members: list[str] = []
    for member in group.members:
        if member.topics is not None:
            if member.topics is not before:
                before, members = member.topics, wanted.setdefault(frozenset(member.topics), [])
            members.append(member.member_id)
    if len(wanted) < 2:
        return
    kinds = sorted(wanted.items(), key=lambda item: (-len(item[1]), sorted(item[0])))
    most, others = kinds[0], kinds[1:]
    names = _names(group)
    differing = named(
        [
            f"{', '.join(names[member_id] for member_id in who)} to {named(sorted(topics)) or 'nothing'}"
            for topics, who in others
        ]
    )
    yield Finding(
        "mixed_subscriptions",
        "",
        f"Members of group {group.group_id} subscribe to different topics: {len(most[1])} of {len(group.members)} to "
        f"{named(sorted(most[0])) or 'nothing'}; {differing}",
        {"subscriptions": str(len(kinds)), "differing": differing},
        settings.ottla_sentinel_settle_ms,
    )


def _unowned(
    group: GroupState,
    owned: dict[str, set[int]],
    partition_count: PartitionCount,
    heirs: Heirs,
    settings: Settings,
) -> Iterator[Finding]:
    topics: dict[str, None] = {}
    before: list[str] | None = None
    regexes = list(dict.fromkeys(member.regex for member in group.members if member.regex and not member.topics))
    if regexes:
        yield Finding(
            "topic_without_owner",
            "",
            f"Group {group.group_id} subscribes to topics by regex, and no topic's whole name matches {named(regexes)}",
            {"topic": "", "partitions": "", "unowned": "0", "regexes": named(regexes)},
            settings.ottla_sentinel_settle_ms,
        )
    for member in group.members:
        if member.topics is not before:
            before = member.topics
            topics.update(dict.fromkeys(before or ()))
    for topic in topics:
        count, of_topic = partition_count(topic), owned.get(topic, set())
        missing = [index for index in range(count) if index not in of_topic]
        if count and not missing:
            continue
        what = named([str(index) for index in missing])
        whose = heirs(group.group_id, topic, missing)
        names = _names(group) if whose else {}
        given = named([names[one] for one in whose if one in names])
        yield Finding(
            "topic_without_owner",
            topic,
            f"Group {group.group_id} subscribes to {topic}, and nobody owns its partitions {what}"
            + (f": they are in the target of {given}, which did not subscribe" if given else "")
            if count
            else f"Group {group.group_id} subscribes to {topic}, and there is no such topic",
            {"topic": topic, "partitions": what, "unowned": str(len(missing))},
            settings.ottla_sentinel_settle_ms,
        )


def _names(group: GroupState) -> dict[str, str]:
    """Names of members in a sentence, as in `ottla why`, with the address that says whose it is.

    That is its instance id or its client id, with a piece of its member id where several share it.
    """
    plain = {one.member_id: one.group_instance_id or one.client_id for one in group.members}
    count = Counter(plain.values())
    return {
        one.member_id: (
            f"{name if (name := plain[one.member_id]) and count[name] == 1 else short(one.member_id)}"
            f" ({one.client_host.removeprefix('/')})"
        )
        for one in group.members
    }
