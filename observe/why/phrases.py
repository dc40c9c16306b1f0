"""What each class of causes is in a sentence about somebody, and what is known besides."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ottla.observe.why.causes import CAUSES
from ottla.observe.why.model import MemberPart, Trigger
from ottla.observe.why.plain import duration, limit, quoted

PHRASES: dict[str, str] = {
    "group-started": "{who} started the group",
    "member-joined": "{who} joined",
    "static-member-joined": "{who} joined, for the first time under this group.instance.id",
    "member-returned": "{who} came back",
    "left-closed": "{who} was closed",
    "left-poll-timeout": "{who} left, since its application had not called poll() in time",
    "left-unsubscribed": "{who} unsubscribed from all topics",
    "left-with-reason": "{who} left",
    "left-without-reason": "{who} left without saying why",
    "removed-by-admin": "{who} was removed by an administrator",
    "session-expired-connection-lost": "{who} crashed: its connection was lost and its session ran out",
    "session-expired-silent": "{who} fell silent with its connection open, and its session ran out",
    "session-expired": "the session of {who} ran out",
    "new-member-expired": "{who} joined and was not in a generation within five minutes, so it was removed",
    "join-barrier-missed": "{who} did not rejoin in time and was dropped",
    "issued-id-unused": "{who} was given a member id and never came back with it",
    "issued-id-left": "{who} gave back the member id that it had been given, before it had joined with it",
    "nobody-rejoined": "no member rejoined in time",
    "subscription-changed": "{who} changed its subscription",
    "assignor-list-changed": "{who} changed its list of assignors",
    "cooperative-follow-up": "{who} gave up partitions, as its last assignment told it, and rejoined",
    "topic-metadata-changed": "the leader {who} saw that its topics or their partitions changed",
    "user-data-changed": "{who} rejoined with other data for its assignor",
    "rebalance-enforced": "the application of {who} asked for a rebalance",
    "rejoined-after-error": "{who} rejoined after an error",
    "leader-rejoined": "the leader {who} joined again, which always begins a rebalance",
    "member-rejoined": "{who} joined again with other metadata",
    "metadata-changed-while-syncing": "{who} changed its metadata before it had its assignment",
    "static-member-replaced": "{who} came back under its group.instance.id",
    "static-replaced-protocol-changed": "{who} came back under its group.instance.id with other assignors",
    "static-replaced-while-syncing": "{who} came back under its group.instance.id while assignments were awaited",
    "replacement-write-failed": "the new id of {who} could not be written",
    "duplicate-instance-id": "two processes use the group.instance.id {instance}",
    "sync-timeout": "{who} did not fetch its assignment in time and was dropped",
    "leader-never-synced": "the leader {who} did not send the assignments in time and was dropped",
    "assignment-write-failed": "the assignments could not be written to __consumer_offsets",
    "generation-write-failed": "the new generation could not be written to __consumer_offsets",
    "group-write-failed": "the group's first record could not be written to __consumer_offsets",
    "coordinator-loaded": "the broker took the group over and read it from its log",
    "coordinator-moved": "the broker stopped or gave the group up",
    "over-capacity-on-load": "the group was read from the log with more members than group.max.size allows",
    "unassigned-on-load": "the group was read from the log with a generation that never got its assignments",
    "generation-lost-on-load": "{who} had a generation that the log does not have",
    "turned-away-group-full": "{who} was turned away: the group is full",
    "turned-away-assignor-mismatch": "{who} was turned away: the members have no assignor in common with it",
    "turned-away-protocol-type": "{who} was turned away: it is of another kind than the group",
    "invalid-session-timeout": "{who} was turned away: its session.timeout.ms is outside of what the broker allows",
    "flapping-member": "{who} comes and goes",
    "rolling-restart": "the members are being restarted one after the other",
    "unknown": "what began it was not seen",
}
"""Class → a clause; {who} is a member's name."""
assert PHRASES.keys() == CAUSES.keys()

MANY: dict[str, str] = {
    "left-closed": "{who} were closed",
    "left-poll-timeout": "{who} left, since their applications had not called poll() in time",
    "removed-by-admin": "{who} were removed by an administrator",
    "session-expired-connection-lost": "{who} crashed: their connections were lost and their sessions ran out",
    "session-expired-silent": "{who} fell silent with their connections open, and their sessions ran out",
    "session-expired": "the sessions of {who} ran out",
    "new-member-expired": "{who} joined and were not in a generation within five minutes, so they were removed",
    "join-barrier-missed": "{who} did not rejoin in time and were dropped",
    "sync-timeout": "{who} did not fetch their assignments in time and were dropped",
    "issued-id-unused": "{who} were given member ids and never came back with them",
    "issued-id-left": "{who} gave back the member ids that they had been given, before they had joined with them",
    "turned-away-group-full": "{who} were turned away: the group is full",
}
"""The same of several, where that is worded otherwise and can happen to several at once."""

ALIKE = MANY.keys() | {"member-joined", "member-returned", "left-with-reason", "left-without-reason"}
"""What can happen to many at once, and is told of all together."""

SHORT: dict[str, str] = {
    "left-closed": "it was closed",
    "left-poll-timeout": "it missed its poll deadline",
    "left-unsubscribed": "it unsubscribed",
    "left-with-reason": "it left",
    "left-without-reason": "it left",
    "removed-by-admin": "it was removed",
    "session-expired-connection-lost": "it was removed as crashed",
    "session-expired-silent": "it was removed as silent",
    "session-expired": "its session ran out",
    "new-member-expired": "it was too slow to get in",
    "join-barrier-missed": "it missed a join barrier",
    "sync-timeout": "it missed a sync barrier",
    "leader-never-synced": "it was dropped for sending no assignments",
    "static-member-replaced": "it was restarted",
}
"""How a member went, in a few words."""


def span(facts: Mapping[str, str], name: str) -> str:
    """A fact that is a duration, in words; empty if it is not known."""
    value = facts.get(name, "")
    return duration(int(value)) if value.lstrip("-").isdigit() and int(value) >= 0 else ""


def phrase(trigger: Trigger, who: str, members: int = 1) -> str:
    """The clause; ``who`` may name several members."""
    words = MANY.get(trigger.cause) if members > 1 else None
    words = words or PHRASES.get(trigger.cause, PHRASES["unknown"])
    who = who or "a member"
    change = topic_change(trigger.facts) if "topic" in trigger.facts else ""
    if change and trigger.cause == "topic-metadata-changed":
        return f"{change}, so the leader {who} joined again"
    text = words.format(who=who, instance=trigger.facts.get("instance", ""))
    return f"{text}, as {change}" if change else text


def topic_change(facts: Mapping[str, str]) -> str:
    """What became of a topic: ``orders had 3 partitions and has 6 now``."""
    topic, before, now = (facts.get(key, "") for key in ("topic", "partitions_before", "partitions"))
    if now == "0":
        return f"{topic} was deleted"
    partitions = f"{now} partition{'s' * (now != '1')}"
    if before == "0":
        return f"{topic} was created with {partitions}"
    return f"{topic} had {before} partition{'s' * (before != '1')} and has {now} now"


def brief(trigger: Trigger, who: str) -> str:
    """The clause for a headline: who came back is told with how it had gone, which is what people look for."""
    text = phrase(trigger, who)
    went, away = SHORT.get(trigger.facts.get("went", "")), span(trigger.facts, "away_ms")
    return f"{text}, {away} after {went}" if trigger.cause == "member-returned" and went and away else text


def details(trigger: Trigger, part: MemberPart | None) -> list[str]:
    """What is known besides, a clause each."""
    make = _DETAILS.get(trigger.cause)
    clauses = make(trigger.facts, part) if make is not None else []
    if trigger.reason and not trigger.cause.endswith("-write-failed"):
        whose = "it said" if trigger.member >= 0 else "the coordinator said"
        if trigger.cause == "removed-by-admin":
            whose = "the reason given was"
        clauses.append(f"{whose} {quoted(trigger.reason)}")
    return [clause for clause in clauses if clause]


Details = Callable[[Mapping[str, str], MemberPart | None], list[str]]


def _returned(facts: Mapping[str, str], part: MemberPart | None) -> list[str]:
    went = SHORT.get(facts.get("went", ""), "it went")
    clauses = [f"{went} {away} before"] if (away := span(facts, "away_ms")) else []
    if again := span(facts, "heard_again_ms"):
        clauses.append(f"{again} after that it was heard of again under its old id, so its process had lived on")
    return clauses


def _left(facts: Mapping[str, str], part: MemberPart | None) -> list[str]:
    if after := span(facts, "closed_after_ms"):
        return [f"it gave no reason, but its connection was closed {after} later"]
    if facts.get("evidence") == "awaited":
        return [
            f"it gave no reason, but its connection stayed open and the group had waited {span(facts, 'waited_ms')} "
            "for it to rejoin, so its application was busy or blocked"
        ]
    idle = span(facts, "idle_ms")
    if facts.get("evidence") == "connection open":
        return [
            f"it gave no reason, but its connection stayed open and its application had shown no sign of life for "
            f"{idle}"
        ]
    return []


def _poll(facts: Mapping[str, str], part: MemberPart | None) -> list[str]:
    clauses = _left(facts, part)
    if part is not None and part.rebalance_timeout_ms:
        clauses.append(f"its max.poll.interval.ms is {limit(part.rebalance_timeout_ms)}")
    return clauses


def _expired(facts: Mapping[str, str], part: MemberPart | None) -> list[str]:
    clauses = []
    if lost := span(facts, "lost_ago_ms"):
        clauses.append(f"the connection was lost {lost} before")
    if unheard := span(facts, "unheard_ms"):
        clauses.append(f"it was not heard of since the broker started {unheard} before")
    elif heard := span(facts, "heard_ago_ms"):
        clauses.append(f"it was last heard of {heard} before")
    if session := limit(int(facts.get("session_timeout_ms", "0"))):
        clauses.append(f"its session.timeout.ms is {session}")
    return clauses


def _dropped(facts: Mapping[str, str], part: MemberPart | None) -> list[str]:
    heard = span(facts, "heard_ago_ms")
    if unheard := span(facts, "unheard_ms"):
        return [f"it was not heard of since the broker started {unheard} before"]
    match facts.get("alive"):
        case "yes":
            return [f"it was heard of {heard} before, so its process lived and its application was busy or blocked"]
        case "no":
            return [f"it was last heard of {heard} before, so it was silent all the while"]
        case "lost":
            return [f"its connection was lost {span(facts, 'lost_ago_ms')} before"]
    return ["when it was last heard of is unknown"]


def _subscription(facts: Mapping[str, str], part: MemberPart | None) -> list[str]:
    clauses = []
    if came := facts.get("came"):
        clauses.append(f"it subscribed to {came}")
    if went := facts.get("went"):
        clauses.append(f"it unsubscribed from {went}")
    if ago := span(facts, "changed_ago_ms"):
        clauses.append(f"{facts['topic']} changed {ago} before, and a client that subscribes to a pattern sees that")
    return clauses


def _topics(facts: Mapping[str, str], part: MemberPart | None) -> list[str]:
    more = facts.get("more", "")
    clauses = [f"{facts['topic']} changed {ago} before"] if (ago := span(facts, "changed_ago_ms")) else []
    return clauses + ([f"{more} more of its topics changed"] if more else [])


def _assignors(facts: Mapping[str, str], part: MemberPart | None) -> list[str]:
    return [f"it had {facts['before']} and has {facts['after']} now"] if "after" in facts else []


def _error(facts: Mapping[str, str], part: MemberPart | None) -> list[str]:
    return [f"it had been answered {facts['error']}"] if facts.get("error") else []


def _write(facts: Mapping[str, str], part: MemberPart | None) -> list[str]:
    return [f"the error was {facts['error']}"] if facts.get("error") else []


def _replaced(facts: Mapping[str, str], part: MemberPart | None) -> list[str]:
    return [f"nobody had been there for {away}"] if (away := span(facts, "away_ms")) else []


def _admin(facts: Mapping[str, str], part: MemberPart | None) -> list[str]:
    by, place = facts.get("by", ""), facts.get("from", "").removeprefix("/")
    if by or place:
        return [f"the request came from {by or 'a client'}{f' at {place}' if place else ''}"]
    return []


def _mismatch(facts: Mapping[str, str], part: MemberPart | None) -> list[str]:
    clauses = [f"it offers {facts.get('offered') or 'no assignor'}"]
    if group_has := facts.get("group_has"):
        clauses.append(f"all members of the group have {group_has}")
    if without := facts.get("without"):
        clauses.append(f"{without} {'have' if ',' in without else 'has'} nothing in common with it")
    return clauses


def _type(facts: Mapping[str, str], part: MemberPart | None) -> list[str]:
    return [f"it is of type {quoted(facts['protocol_type'])}", f"the group is of type {quoted(facts['group_type'])}"]


def _full(facts: Mapping[str, str], part: MemberPart | None) -> list[str]:
    return [f"it has {facts['members']} members"] if "members" in facts else []


def _session(facts: Mapping[str, str], part: MemberPart | None) -> list[str]:
    return [f"it asked for {facts['session_timeout_ms']} ms"] if "session_timeout_ms" in facts else []


def _duplicate(facts: Mapping[str, str], part: MemberPart | None) -> list[str]:
    clauses = [f"{facts['new']} has it now"] if facts.get("new") else []
    if after := span(facts, "after_ms"):
        old = facts.get("old") or "the process that had it before"
        clauses.append(f"{old}, which had it before, still sent a {facts.get('api', 'request')} {after} later")
    if int(facts.get("replaced_times", "0") or 0) > 1:
        clauses.append(f"it changed hands {facts['replaced_times']} times within ten minutes")
    return clauses


def _flapping(facts: Mapping[str, str], part: MemberPart | None) -> list[str]:
    return [f"it left or was removed {facts.get('times', '?')} times within ten minutes"]


def _rolling(facts: Mapping[str, str], part: MemberPart | None) -> list[str]:
    return [f"{facts.get('restarted', '?')} of them went and came back within ten minutes, each once"]


def _over(facts: Mapping[str, str], part: MemberPart | None) -> list[str]:
    if "members" not in facts:
        return []
    generation = f" and was at generation {facts['generation']}" if "generation" in facts else ""
    return [f"it has {facts['members']} member{'s' * (facts['members'] != '1')}{generation}"]


_DETAILS: dict[str, Details] = {
    "member-returned": _returned,
    "group-started": _returned,
    "left-closed": _left,
    "left-poll-timeout": _poll,
    "left-without-reason": _left,
    "removed-by-admin": _admin,
    "session-expired-connection-lost": _expired,
    "session-expired-silent": _expired,
    "session-expired": _expired,
    "join-barrier-missed": _dropped,
    "sync-timeout": _dropped,
    "leader-never-synced": _dropped,
    "subscription-changed": _subscription,
    "topic-metadata-changed": _topics,
    "assignor-list-changed": _assignors,
    "rejoined-after-error": _error,
    "generation-lost-on-load": _error,
    "assignment-write-failed": _write,
    "generation-write-failed": _write,
    "group-write-failed": _write,
    "replacement-write-failed": _write,
    "static-member-replaced": _replaced,
    "static-replaced-protocol-changed": _assignors,
    "static-replaced-while-syncing": _replaced,
    "duplicate-instance-id": _duplicate,
    "over-capacity-on-load": _over,
    "coordinator-loaded": _over,
    "turned-away-group-full": _full,
    "turned-away-assignor-mismatch": _mismatch,
    "turned-away-protocol-type": _type,
    "invalid-session-timeout": _session,
    "flapping-member": _flapping,
    "rolling-restart": _rolling,
}
