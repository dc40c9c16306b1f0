"""Clauses about triggers: the cause in a sentence about somebody, and the facts besides."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ottla.observe.why.causes import Cause
from ottla.observe.why.model import Fault, MemberPart, Trigger
from ottla.observe.why.plain import duration, limit, quoted

ALIKE = {one for one in Cause if one.row.of_many} | {
    Cause.MEMBER_JOINED,
    Cause.MEMBER_RETURNED,
    Cause.LEFT_WITH_REASON,
    Cause.LEFT_WITHOUT_REASON,
}
"""Causes that can happen to many at once, and are told of all together."""


def in_short(facts: Mapping[str, str]) -> str:
    """The way in which a member that came back had gone, in a few words; empty if it is not known."""
    return Cause(facts.get("went", "")).row.in_short


def span(facts: Mapping[str, str], name: str) -> str:
    """A fact that is a duration, in words; empty if it is not known."""
    value = facts.get(name, "")
    return duration(int(value)) if value.lstrip("-").isdigit() and int(value) >= 0 else ""


def phrase(trigger: Trigger, who: str, members: int = 1) -> str:
    """The clause; ``who`` may name several members."""
    row = Cause(trigger.cause).row
    words = (row.of_many if members > 1 else "") or row.clause
    who = who or "a member"
    change = topic_change(trigger.facts) if "topic" in trigger.facts else ""
    if trigger.cause == Cause.TOPIC_METADATA_CHANGED and trigger.member < 0:  # a consumer group sees it by itself
        return change or "topics of the group, or their partitions, changed"
    if change and trigger.cause == Cause.TOPIC_METADATA_CHANGED:
        return f"{change}, so the leader {who} joined again"
    if trigger.cause == Cause.REGEX_RESOLVED and trigger.facts.get("matched") == "0":
        words = "the regex of {who} matches no topic"
    elif trigger.cause == Cause.REGEX_RESOLVED and trigger.facts.get("first"):
        words = "the regex of {who} was held against the topics"
    if "node" in trigger.facts and (text := moved(trigger)):
        return text
    text = words.format(who=who, instance=trigger.facts.get("instance", ""))
    if trigger.cause == Cause.BROKER_STOOD_STILL:
        text = f"{broker(trigger)}{text.removeprefix('the broker')}, for {span(trigger.facts, 'stall_ms')} or more"
    return f"{text}, as {change}" if change else text


def broker(trigger: Trigger) -> str:
    """The broker that a trigger tells of: ``node 2`` where there are several."""
    return f"node {trigger.facts['node']}" if "node" in trigger.facts else "the broker"


def moved(trigger: Trigger) -> str:
    """The move of a coordinator from or to one of several nodes; empty for what is none."""
    facts = trigger.facts
    if trigger.cause == Cause.COORDINATOR_MOVED:
        return f"node {facts['node']} stopped, or its coordinator moved to another"
    if trigger.cause != Cause.COORDINATOR_LOADED:
        return ""
    return f"the coordinator {facts['came']} node {facts['node']}{'; nobody rebalanced' * bool(facts['settled'])}"


def topic_change(facts: Mapping[str, str]) -> str:
    """The change of a topic: ``orders had 3 partitions and has 6 now``."""
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
    went, away = in_short(trigger.facts), span(trigger.facts, "away_ms")
    text = f"{text}, {away} after {went}" if trigger.cause == Cause.MEMBER_RETURNED and went and away else text
    return f"{text} and subscribes to {missing}" if (missing := absent(trigger.facts)) else text


def absent(facts: Mapping[str, str]) -> str:
    """The topics of a subscription that do not exist: ``ordrs, which does not exist``; empty for none."""
    missing = facts.get("missing", "")
    return f"{missing}, which {'do' if ' ' in missing else 'does'} not exist" if missing else ""


def details(trigger: Trigger, part: MemberPart | None) -> list[str]:
    """The facts besides, a clause each."""
    make = _DETAILS.get(trigger.cause)
    clauses = make(trigger.facts) if make is not None else []
    if trigger.cause == Cause.LEFT_POLL_TIMEOUT and part is not None and part.rebalance_timeout_ms:
        clauses.append(f"its max.poll.interval.ms is {limit(part.rebalance_timeout_ms)}")
    if missing := absent(trigger.facts):
        clauses.append(f"it subscribes to {missing}")
    if like := trigger.facts.get("like"):
        clauses.append(f"did you mean {like}?")
    if trigger.reason and not trigger.cause.endswith("-write-failed"):
        whose = "it said" if trigger.member >= 0 else "the coordinator said"
        if trigger.cause == Cause.REMOVED_BY_ADMIN:
            whose = "the reason given was"
        clauses.append(f"{whose} {quoted(trigger.reason)}")
    return [clause for clause in clauses if clause]


def fault_phrase(fault: Fault, who: str = "") -> str:
    """The clause about a fault, without its name: ``a fault dropped the answer to SyncGroup of w2``."""
    whose = f"{fault.api} of {who}" if who else fault.api
    for what, named in (("the answer", f"the answer to {whose}"), ("the request", f"the {whose}")):
        if what in fault.done:
            return f"a fault {fault.done.replace(what, named, 1)}"
    return f"at the {whose} a fault {fault.done}"


def fault_name(fault: Fault) -> str:
    """Its name, to be put behind the clause."""
    return f"(fault {quoted(fault.name)})"


Details = Callable[[Mapping[str, str]], list[str]]


def _clause(fact: str, text: str) -> Details:
    """A clause that has facts in braces, told if the first of them is known."""
    return lambda facts: [text.format_map(facts)] if facts.get(fact) else []


_assignors = _clause("after", "it had {before} and has {after} now")
_error = _clause("error", "it had been answered {error}")
_write = _clause("error", "the error was {error}")
_full = _clause("members", "it has {members} members")
_session = _clause("session_timeout_ms", "it asked for {session_timeout_ms} ms")
_flapping = _clause("times", "it left or was removed {times} times within ten minutes")
_rolling = _clause("restarted", "{restarted} of them went and came back within ten minutes, each once")


def _type(facts: Mapping[str, str]) -> list[str]:
    return [f"it is of type {quoted(facts['protocol_type'])}", f"the group is of type {quoted(facts['group_type'])}"]


def _replaced(facts: Mapping[str, str]) -> list[str]:
    return [f"nobody had been there for {away}"] if (away := span(facts, "away_ms")) else []


def _returned(facts: Mapping[str, str]) -> list[str]:
    went = in_short(facts) or "it went"
    clauses = [f"{away} earlier {went}"] if (away := span(facts, "away_ms")) else []
    if again := span(facts, "heard_again_ms"):
        clauses.append(f"{again} after that it was heard of again under its old id, so its process had lived on")
    return clauses


def _left(facts: Mapping[str, str]) -> list[str]:
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


def _expired(facts: Mapping[str, str]) -> list[str]:
    clauses = []
    if lost := span(facts, "lost_ago_ms"):
        clauses.append(f"the connection was lost {lost} before")
    if unheard := span(facts, "unheard_ms"):
        clauses.append(f"it was not heard of since the broker started {unheard} before")
    elif heard := span(facts, "heard_ago_ms"):
        clauses.append(f"it was last heard of {heard} before")
    if session := limit(int(facts.get("session_timeout_ms", "0"))):
        which = "the session timeout of its group" if facts.get("session_of") == "group" else "its session.timeout.ms"
        clauses.append(f"{which} is {session}")
    return clauses


def _dropped(facts: Mapping[str, str]) -> list[str]:
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


def _subscription(facts: Mapping[str, str]) -> list[str]:
    clauses = []
    if came := facts.get("came"):
        clauses.append(f"it subscribed to {came}")
    if went := facts.get("went"):
        clauses.append(f"it unsubscribed from {went}")
    if ago := span(facts, "changed_ago_ms"):
        clauses.append(f"{facts['topic']} changed {ago} before, and a client that subscribes to a pattern sees that")
    return clauses


def _topics(facts: Mapping[str, str]) -> list[str]:
    more = facts.get("more", "")
    clauses = [f"{facts['topic']} changed {ago} before"] if (ago := span(facts, "changed_ago_ms")) else []
    return clauses + ([f"{more} more of its topics changed"] if more else [])


def _admin(facts: Mapping[str, str]) -> list[str]:
    by, place = facts.get("by", ""), facts.get("from", "").removeprefix("/")
    if by or place:
        return [f"the request came from {by or 'a client'}{f' at {place}' if place else ''}"]
    return []


def _mismatch(facts: Mapping[str, str]) -> list[str]:
    clauses = [f"it offers {facts.get('offered') or 'no assignor'}"]
    if group_has := facts.get("group_has"):
        clauses.append(f"all members of the group have {group_has}")
    if without := facts.get("without"):
        clauses.append(f"{without} {'have' if ',' in without else 'has'} nothing in common with it")
    return clauses


def _duplicate(facts: Mapping[str, str]) -> list[str]:
    if facts.get("refused"):
        return [f"{facts['refused']} was refused, as {facts.get('new', 'another one')} has it and has not left"]
    clauses = [f"{facts['new']} has it now"] if facts.get("new") else []
    if after := span(facts, "after_ms"):
        old = facts.get("old") or "the process that had it before"
        clauses.append(f"{old}, which had it before, still sent a {facts.get('api', 'request')} {after} later")
    if int(facts.get("replaced_times", "0") or 0) > 1:
        clauses.append(f"it changed hands {facts['replaced_times']} times within ten minutes")
    return clauses


def _unrevoked(facts: Mapping[str, str]) -> list[str]:
    clauses = [f"it had been told {span(facts, 'waited_ms')} earlier to give up {facts.get('partitions', '')}"]
    beats = facts.get("beats", "0")
    if beats == "0":
        clauses.append("it was not heard of since")
    elif heard := span(facts, "heard_ago_ms"):
        times = "once" if beats == "1" else f"{beats} times"
        clauses.append(f"it was heard of {times} meanwhile, the last time {heard} earlier, and had not given them up")
    if timeout := limit(int(facts.get("rebalance_timeout_ms", "0"))):
        clauses.append(f"its rebalance timeout, which is max.poll.interval.ms, is {timeout}")
    return clauses


def _fenced_epoch(facts: Mapping[str, str]) -> list[str]:
    received, known, says = facts.get("received", ""), facts.get("known", ""), facts.get("says")
    if not known:
        return []
    if known == "-2":
        return [f"it sent epoch {received}, and is away as a static member: it has to join again"]
    clauses = [f"it sent epoch {received}, and is at {known}"]
    if says == "nothing":
        clauses.append("that was its epoch before, but it did not say which partitions it has")
    elif says:
        clauses.append(f"that was its epoch before, but it says that it has {says}, which it was not given")
    return clauses


def _resolved(facts: Mapping[str, str]) -> list[str]:
    regex, matched = quoted(facts.get("regex", "")), facts.get("matched", "0")
    if "regex" not in facts:
        return []
    clauses = [f"it is {regex}"] if matched == "0" else [f"{regex} matches {matched} topic{'s' * (matched != '1')}"]
    came = facts.get("came", "")
    if came and facts.get("first"):
        return [f"{clauses[0]}{': ' if str(len(came.split(', '))) == matched else ', among them '}{came}"]
    if came:
        clauses.append(f"it did not match {came} before")
    if went := facts.get("went"):
        clauses.append(f"it does not match {went} any more")
    return clauses


def _regex(facts: Mapping[str, str]) -> list[str]:
    before, after = facts.get("before", ""), facts.get("after", "")
    return [f"it was {quoted(before) if before else 'none'} and is {quoted(after) if after else 'none'} now"]


def _invalid_regex(facts: Mapping[str, str]) -> list[str]:
    from ottla.broker.core.pattern import BadPattern, Pattern  # few need it

    regex = facts.get("regex", "")
    try:
        Pattern(regex)
    except BadPattern as error:
        return [f"it is {quoted(regex)}", str(error)]
    return [f"it begins with {quoted(regex)}"]  # the rest was not kept


def _not_back(facts: Mapping[str, str]) -> list[str]:
    away = span(facts, "away_ms")
    clauses = [f"it went {away} before, and its session had begun with its last heartbeat"] if away else []
    if session := limit(int(facts.get("session_timeout_ms", "0"))):
        clauses.append(f"the session timeout of its group is {session}")
    return clauses


def _away(facts: Mapping[str, str]) -> list[str]:
    session = limit(int(facts.get("session_timeout_ms", "0")))
    return [f"it may be away for {session} at most"] if session else []


def _over(facts: Mapping[str, str]) -> list[str]:
    if "members" not in facts:
        return []
    generation = f" and was at generation {facts['generation']}" if "generation" in facts else ""
    what = "the group" if "node" in facts else "it"
    return [f"{what} has {facts['members']} member{'s' * (facts['members'] != '1')}{generation}"]


def _converted(facts: Mapping[str, str]) -> list[str]:
    if "members" not in facts:
        return []
    members, told = facts["members"], facts.get("told_to_rejoin", "0")
    clauses = [f"it has {members} member{'s' * (members != '1')}"]
    return clauses + ([f"{told} of them had asked for something and were told to join again"] if told != "0" else [])


def _late(facts: Mapping[str, str]) -> list[str]:
    return [f"it had {waited}"] if (waited := span(facts, "waited_ms")) else []


_DETAILS: dict[str, Details] = {
    Cause.UPGRADE_REFUSED: _clause("problem", "{problem}"),
    Cause.DOWNGRADE_REFUSED: _clause("problem", "{problem}"),
    Cause.GROUP_UPGRADED: _converted,
    Cause.GROUP_DOWNGRADED: _converted,
    Cause.CLASSIC_REJOIN_MISSED: _late,
    Cause.CLASSIC_SYNC_MISSED: _late,
    Cause.REVOCATION_TIMEOUT: _unrevoked,
    Cause.FENCED_EPOCH: _fenced_epoch,
    Cause.REGEX_RESOLVED: _resolved,
    Cause.REGEX_CHANGED: _regex,
    Cause.RACK_CHANGED: _clause("topics", "those of {topics}"),
    Cause.STATIC_MEMBER_AWAY: _away,
    Cause.STATIC_MEMBER_NOT_BACK: _not_back,
    Cause.MEMBER_RETURNED: _returned,
    Cause.GROUP_STARTED: _returned,
    Cause.LEFT_CLOSED: _left,
    Cause.LEFT_POLL_TIMEOUT: _left,
    Cause.LEFT_WITHOUT_REASON: _left,
    Cause.REMOVED_BY_ADMIN: _admin,
    Cause.SESSION_EXPIRED_CONNECTION_LOST: _expired,
    Cause.SESSION_EXPIRED_SILENT: _expired,
    Cause.SESSION_EXPIRED: _expired,
    Cause.BROKER_STOOD_STILL: _expired,
    Cause.JOIN_BARRIER_MISSED: _dropped,
    Cause.SYNC_TIMEOUT: _dropped,
    Cause.LEADER_NEVER_SYNCED: _dropped,
    Cause.SUBSCRIPTION_CHANGED: _subscription,
    Cause.TOPIC_METADATA_CHANGED: _topics,
    Cause.ASSIGNOR_LIST_CHANGED: _assignors,
    Cause.REJOINED_AFTER_ERROR: _error,
    Cause.GENERATION_LOST_ON_LOAD: _error,
    Cause.ASSIGNMENT_WRITE_FAILED: _write,
    Cause.GENERATION_WRITE_FAILED: _write,
    Cause.GROUP_WRITE_FAILED: _write,
    Cause.REPLACEMENT_WRITE_FAILED: _write,
    Cause.STATIC_MEMBER_REPLACED: _replaced,
    Cause.STATIC_REPLACED_PROTOCOL_CHANGED: _assignors,
    Cause.STATIC_REPLACED_WHILE_SYNCING: _replaced,
    Cause.DUPLICATE_INSTANCE_ID: _duplicate,
    Cause.OVER_CAPACITY_ON_LOAD: _over,
    Cause.COORDINATOR_LOADED: _over,
    Cause.TURNED_AWAY_GROUP_FULL: _full,
    Cause.TURNED_AWAY_ASSIGNOR_MISMATCH: _mismatch,
    Cause.TURNED_AWAY_UNKNOWN_ASSIGNOR: _clause("offered", "it asks for {offered}"),
    Cause.TURNED_AWAY_INVALID_REGEX: _invalid_regex,
    Cause.TURNED_AWAY_CLASSIC: lambda facts: ["group.consumer.migration.policy is disabled"],
    Cause.TURNED_AWAY_PROTOCOL_TYPE: _type,
    Cause.INVALID_SESSION_TIMEOUT: _session,
    Cause.FLAPPING_MEMBER: _flapping,
    Cause.ROLLING_RESTART: _rolling,
}
