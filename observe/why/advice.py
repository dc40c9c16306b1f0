"""One concrete thing to do about an episode: the sentence, the setting that it is about, and its present value."""

from __future__ import annotations

from collections.abc import Mapping

from ottla.observe.why.advice_reconciling import ADVICE as _OF_RECONCILING
from ottla.observe.why.advice_reconciling import SLOW_MS, for_latecomer, for_unread, for_wait
from ottla.observe.why.case import Case, Make, crashed, say
from ottla.observe.why.causes import Cause
from ottla.observe.why.interference import explaining
from ottla.observe.why.model import Advice, Episode, Trigger
from ottla.observe.why.phrases import broker
from ottla.observe.why.plain import awaited, duration, member_names

WORTH_MS = 1_000
"""So many partition-milliseconds are worth another assignor."""
DELAY_MS = 1_000
"""The same for an initial delay."""
EAGER = frozenset(("range", "roundrobin", "sticky"))
"""The well-known assignors that make everybody stop; Kafka Streams has one of its own, which stops nobody."""


def advise(episode: Episode, facts: Mapping[str, str]) -> list[Advice]:
    """Advice about an episode; empty where there is nothing to do, as after a fault, or nothing is known."""
    if explaining(episode) is not None:
        return []
    names = member_names(episode)
    is_brokers = any(one.cause in _OF_BROKER for one in episode.triggers)
    if (waiting := for_wait(episode, names, facts)) is not None:
        return [waiting]
    if (unread := for_unread(episode, names)) is not None:
        return [unread]
    if episode.outcome == "running" and not is_brokers and (present := _for_awaited(episode, names)) is not None:
        return [present]
    latecomer = _for_latecomer(episode, names) or for_latecomer(episode, names)
    first = episode.culprit  # what others did beside it weighs less
    for trigger in sorted(episode.triggers, key=lambda one: (_rank(one.cause), first >= 0 and one.member != first)):
        if latecomer is not None and trigger.cause not in _FIRST:
            break
        make = _ADVICE.get(trigger.cause)
        if episode.protocol:
            make = _OF_RECONCILING.get(trigger.cause, make)
        if not episode.partitions_known and trigger.cause in _OF_CONSUMERS:
            make = _OF_OTHERS.get(trigger.cause)
        if "missing" in trigger.facts:
            make = _missing
        if make is not None and (advice := make(Case(episode, trigger, names, facts))) is not None:
            return [advice]
    return [] if latecomer is None else [latecomer]


_FIRST = (
    Cause.FLAPPING_MEMBER,
    Cause.LEADER_NEVER_SYNCED,
    Cause.SYNC_TIMEOUT,
    Cause.JOIN_BARRIER_MISSED,
    Cause.NOBODY_REJOINED,
    Cause.ROLLING_RESTART,
    Cause.ISSUED_ID_UNUSED,
)

_OF_BROKER = frozenset(
    (
        Cause.OVER_CAPACITY_ON_LOAD,
        Cause.ASSIGNMENT_WRITE_FAILED,
        Cause.GENERATION_WRITE_FAILED,
        Cause.GROUP_WRITE_FAILED,
    )
)
"""Causes that no member can mend: they come before the member that a rebalance waits for."""


def _rank(cause: str) -> int:
    return _FIRST.index(cause) if cause in _FIRST else len(_FIRST)


_poll_advice = say(
    "max.poll.interval.ms",
    "Let {who} call poll() more often: hand it fewer records at a time with max.poll.records, or do long work outside "
    "of the poll loop; raise max.poll.interval.ms ({now}) only if its work really takes so long.",
)
_crashed = crashed(
    "session.timeout.ms",
    "Find out why {who} ended without leaving. Let it call close() when it is stopped; a lower session.timeout.ms "
    "({now}) lets the group notice a crash sooner.",
)
_silent = say(
    "session.timeout.ms",
    "Look for pauses of {who}: garbage collection, a stopped container, a blocked event loop, too little CPU. If such "
    "pauses are normal, raise session.timeout.ms ({now}).",
)
_unheard = say(
    "",
    "See whether {who} still runs: it ended while the broker was down or just after, or it does not reach the broker "
    "any more. If it was stopped on purpose there is nothing to mend.",
)
_blocked_leader = say(
    "max.poll.interval.ms",
    "See what {who} does between JoinGroup and SyncGroup: as leader it computes the assignments there, and its "
    "rebalance listener or assignor is blocked. Others wait for it up to max.poll.interval.ms ({now}).",
)
_blocked = say(
    "max.poll.interval.ms",
    "See what {who} does between JoinGroup and SyncGroup, where it fetches its assignment: it is blocked there. The "
    "group waits up to max.poll.interval.ms ({now}) for it.",
)
_late = say(
    "max.poll.interval.ms",
    "See what keeps {who} from rejoining, which a member does when it calls poll(). If that takes long, hand it fewer "
    "records at a time with max.poll.records, and keep short what is done when partitions are revoked. The others wait "
    "for it up to max.poll.interval.ms ({now}).",
)
_full = say("group.max.size", "Stop a member that is not needed, or raise group.max.size ({now}) of the broker.")
_over = say("group.max.size", "The group is larger than group.max.size ({now}): raise it, or start fewer members.")


def _stalled(case: Case) -> Advice:
    return case.advice(
        "",
        "See what stopped {broker}, and not its members: SIGSTOP or a debugger, a container or machine that was "
        "paused, no CPU, or memory that was swapped out.",
        broker=broker(case.trigger),
    )


def _dropped(case: Case) -> Advice:
    if "unheard_ms" in case.trigger.facts:
        return _unheard(case)
    match case.trigger.facts.get("alive"):
        case "yes":
            return _poll_advice(case)
        case "lost":
            return _crashed(case)
    return _silent(case)


def _restart(case: Case) -> Advice:
    return case.advice(
        "group.instance.id",
        "If {who} is restarted, not stopped for good: give each member a group.instance.id of its own ({is_set} now), "
        "so that it comes back within session.timeout.ms ({session}) without a rebalance.",
        is_set="set" if case.part.group_instance_id else "not set",
    )


def _rolling(case: Case) -> Advice | None:
    if case.episode.kind == "replacement":
        return None
    if case.part.group_instance_id is not None:
        return case.advice(
            "session.timeout.ms",
            "Members have a group.instance.id and were away for longer than their session.timeout.ms ({now}): raise it "
            "above the time that a restart takes.",
        )
    return case.advice(
        "group.instance.id",
        "Give each member a group.instance.id of its own (not set now) and a session.timeout.ms ({session}) above the "
        "time that a restart takes: then a restart needs no rebalance.",
    )


def _joined(case: Case) -> Advice | None:
    if case.episode.protocol_name not in EAGER or not case.episode.stopped or case.episode.stood_ms < WORTH_MS:
        return None
    return case.advice(
        "partition.assignment.strategy",
        "If it was meant to join there is nothing to mend. With partition.assignment.strategy set to "
        "cooperative-sticky ({now}) the other members would have gone on consuming meanwhile.",
        value=case.episode.protocol_name,
    )


def _started(case: Case) -> Advice | None:
    delay = next((one for one in case.episode.waits if one.barrier == "initial delay"), None)
    if delay is None or (delay.limit_ms if delay.closed_ms < 0 else delay.closed_ms - delay.opened_ms) < DELAY_MS:
        return None
    return case.advice(
        "group.initial.rebalance.delay.ms",
        "A new group waits for group.initial.rebalance.delay.ms ({now}) so that its members start together; set it to "
        "0 where that does not matter, as in tests.",
    )


def _returned(case: Case) -> Advice | None:
    went = case.trigger.facts.get("went", "")
    if went == Cause.BROKER_STOOD_STILL:
        return None
    if make := _WENT.get(went):
        return make(case)
    return _restart(case) if case.part.group_instance_id is None else None


def _subscription(case: Case) -> Advice | None:
    if "topic" in case.trigger.facts:
        return None
    return case.advice(
        "topics",
        "Let all members of a group subscribe to the same topics, and change that in all of them at once: each member "
        "that changes its subscription is a rebalance of its own.",
    )


def _missing(case: Case) -> Advice:
    missing, like = case.trigger.facts["missing"], case.trigger.facts.get("like", "")
    return case.advice(
        "subscription",
        "Create {missing}, or mend the name in the subscription of {who}{meant}. {who} gets partitions as soon as "
        "there are any.",
        value=missing,
        missing=missing,
        meant=f" if {like} is meant" if like else "",
    )


def _assignors(case: Case) -> Advice:
    return case.advice(
        "partition.assignment.strategy",
        "Give all members the same partition.assignment.strategy; to change it, first add the new one to all members, "
        "then remove the old one.",
        value=case.trigger.facts.get("after", ""),
    )


def _unsynced(case: Case) -> Advice:
    return _crashed(case) if case.trigger.facts.get("alive") == "lost" else _blocked(case)


def _mismatch(case: Case) -> Advice:
    offered, has = case.trigger.facts.get("offered", ""), case.trigger.facts.get("group_has", "")
    return case.advice(
        "partition.assignment.strategy",
        "Let all members have one partition.assignment.strategy in common ({who} has {offered}).{add}",
        value=offered,
        offered=offered or "none",
        add=f" Add {has} to those of {case.who}." if has else "",
    )


def _type(case: Case) -> Advice:
    return case.advice(
        "group.id",
        "Give {who} another group.id ({now}): members of different kinds, such as consumers and Kafka Connect workers, "
        "cannot share a group.",
        value=case.episode.group_id,
    )


def _upgrade(case: Case) -> Advice:
    policy = "group.consumer.migration.policy"
    if policy in case.trigger.facts.get("problem", ""):
        return case.advice(
            policy,
            "Restart the broker with group.consumer.migration.policy=bidirectional (or upgrade), which cannot change "
            "while it runs. Until then start {who} with group.protocol=classic.",
        )
    return case.advice(
        "group.protocol",
        "Ask `ottla groups migrate` how to get out of the way what keeps the group classic. Until then start {who} "
        "with group.protocol=classic.",
    )


def _session(case: Case) -> Advice:
    low, high = case.value("group.min.session.timeout.ms"), case.value("group.max.session.timeout.ms")
    return case.advice(
        "session.timeout.ms",
        "Set session.timeout.ms ({now}) of {who} to what the broker allows{bounds}.",
        bounds=f", from {low} to {high}" if low and high else "",
    )


def _duplicate(case: Case) -> Advice:
    instance = case.trigger.facts.get("instance", "")
    return case.advice(
        "group.instance.id",
        "Give each process a group.instance.id of its own ({instance} now), and make sure that an old process has "
        "ended before its successor starts.",
        value=instance,
        instance=instance,
    )


def _unused(case: Case) -> Advice:
    return case.advice(
        "session.timeout.ms",
        "See why {who} asked to join and went away before it could: it is restarted at once, or gives up too early. "
        "Its id is awaited for its session.timeout.ms.",
        value="",
    )


def _flapping(case: Case) -> Advice:
    if case.trigger.facts.get("last", "") in (Cause.LEFT_POLL_TIMEOUT, Cause.JOIN_BARRIER_MISSED):
        return _poll_advice(case)
    return case.advice(
        "group.instance.id",
        "Look at {application} before anything else: each of its comings and goings is a rebalance for all. Until it "
        "is mended a group.instance.id of its own ({instance} now) keeps its restarts from the others.",
        application=case.application,
        instance=case.value("group.instance.id") or "not set",
    )


def _nobody(case: Case) -> Advice:
    timeouts = [part.rebalance_timeout_ms for part in case.episode.members if part.rebalance_timeout_ms]
    return case.advice(
        "max.poll.interval.ms",
        "See what keeps all members from calling poll(): none rejoined within max.poll.interval.ms ({now}). As static "
        "members they stay in the group until their session.timeout.ms is over.",
        value=str(max(timeouts, default="")),
    )


def _disk(case: Case) -> Advice:
    error = case.trigger.facts.get("error", "")
    return Advice(
        f"Look at the broker's log and its disk: __consumer_offsets could not be written ({error or 'unknown error'}).",
        of_client=False,
    )


_WENT: dict[str, Make] = {
    Cause.LEFT_POLL_TIMEOUT: _poll_advice,
    Cause.JOIN_BARRIER_MISSED: _poll_advice,
    Cause.LEADER_NEVER_SYNCED: _blocked_leader,
    Cause.SYNC_TIMEOUT: _unsynced,
    Cause.SESSION_EXPIRED_SILENT: _silent,
    Cause.SESSION_EXPIRED_CONNECTION_LOST: _crashed,
}
"""Advice about a member that came back, by the way in which it had gone."""
_ADVICE: dict[str, Make] = {
    Cause.FLAPPING_MEMBER: _flapping,
    Cause.ROLLING_RESTART: _rolling,
    Cause.NOBODY_REJOINED: _nobody,
    Cause.LEADER_NEVER_SYNCED: _blocked_leader,
    Cause.SYNC_TIMEOUT: _unsynced,
    Cause.JOIN_BARRIER_MISSED: _dropped,
    Cause.ISSUED_ID_UNUSED: _unused,
    Cause.LEFT_POLL_TIMEOUT: _poll_advice,
    Cause.SESSION_EXPIRED_CONNECTION_LOST: _crashed,
    Cause.SESSION_EXPIRED_SILENT: _silent,
    Cause.SESSION_EXPIRED: _dropped,
    Cause.BROKER_STOOD_STILL: _stalled,
    Cause.LEFT_CLOSED: _restart,
    Cause.LEFT_WITHOUT_REASON: _restart,
    Cause.LEFT_WITH_REASON: _restart,
    Cause.MEMBER_RETURNED: _returned,
    Cause.MEMBER_JOINED: _joined,
    Cause.STATIC_MEMBER_JOINED: _joined,
    Cause.GROUP_STARTED: _started,
    Cause.SUBSCRIPTION_CHANGED: _subscription,
    Cause.ASSIGNOR_LIST_CHANGED: _assignors,
    Cause.STATIC_REPLACED_PROTOCOL_CHANGED: _assignors,
    Cause.ASSIGNMENT_WRITE_FAILED: _disk,
    Cause.GENERATION_WRITE_FAILED: _disk,
    Cause.GROUP_WRITE_FAILED: _disk,
    Cause.REPLACEMENT_WRITE_FAILED: _disk,
    Cause.OVER_CAPACITY_ON_LOAD: _over,
    Cause.DUPLICATE_INSTANCE_ID: _duplicate,
    Cause.TURNED_AWAY_GROUP_FULL: _full,
    Cause.TURNED_AWAY_ASSIGNOR_MISMATCH: _mismatch,
    Cause.TURNED_AWAY_UNKNOWN_ASSIGNOR: say(
        "group.consumer.assignors",
        "Let {who} ask for an assignor that the broker has ({now}): set its group.remote.assignor, or leave it out.",
    ),
    Cause.TURNED_AWAY_INVALID_REGEX: say(
        "subscription",
        "Mend the regex of {who}: the broker reads it as RE2, which has no lookahead, no lookbehind and no references "
        "to groups. A pattern that the client matches itself, as Java's subscribe(Pattern) does, may have these.",
    ),
    Cause.TURNED_AWAY_CLASSIC: say(
        "group.consumer.migration.policy",
        "Start {who} with group.protocol=consumer. If it has to be classic, restart the broker with "
        "group.consumer.migration.policy=bidirectional (or downgrade), which cannot change while it runs, or stop all "
        "members and start them with group.protocol=classic.",
    ),
    Cause.TURNED_AWAY_PROTOCOL_TYPE: _type,
    Cause.INVALID_SESSION_TIMEOUT: _session,
    Cause.UPGRADE_REFUSED: _upgrade,
}


_worker_late = say(
    "rebalance.timeout.ms",
    "See what kept {who} from rejoining: the group waits for it up to the rebalance timeout that it asked for ({now}), "
    "with Kafka Connect rebalance.timeout.ms.",
)
_worker_blocked = say(
    "rebalance.timeout.ms",
    "See what {who} does between JoinGroup and SyncGroup: it is blocked there. The group waits for it up to the "
    "rebalance timeout that it asked for ({now}), with Kafka Connect rebalance.timeout.ms.",
)


def _worker_dropped(case: Case) -> Advice:
    return _worker_late(case) if case.trigger.facts.get("alive") == "yes" else _dropped(case)


def _worker_returned(case: Case) -> Advice | None:
    went = case.trigger.facts.get("went", "")
    if went == Cause.SESSION_EXPIRED_SILENT:
        return _silent(case)
    return _crashed(case) if went == Cause.SESSION_EXPIRED_CONNECTION_LOST else None


def _worker_flapping(case: Case) -> Advice:
    return Advice(
        f"Look at {case.application} before anything else: each of its comings and goings is a rebalance for all."
    )


_OF_OTHERS: dict[str, Make] = {
    Cause.FLAPPING_MEMBER: _worker_flapping,
    Cause.LEADER_NEVER_SYNCED: _worker_blocked,
    Cause.SYNC_TIMEOUT: _worker_blocked,
    Cause.JOIN_BARRIER_MISSED: _worker_dropped,
    Cause.LEFT_POLL_TIMEOUT: _worker_late,
    Cause.MEMBER_RETURNED: _worker_returned,
}
"""Of members that are no consumers, such as Kafka Connect workers: these have no poll loop, no group.instance.id and no
assignors."""
_OF_CONSUMERS = _OF_OTHERS.keys() | {
    Cause.NOBODY_REJOINED,
    Cause.ROLLING_RESTART,
    Cause.LEFT_CLOSED,
    Cause.LEFT_WITHOUT_REASON,
    Cause.LEFT_WITH_REASON,
    Cause.SUBSCRIPTION_CHANGED,
    Cause.ASSIGNOR_LIST_CHANGED,
}
"""The causes whose advice is about settings that only consumers have."""


def _for_awaited(episode: Episode, names: list[str]) -> Advice | None:
    """Whatever began a rebalance that runs: what it waits for at present."""
    wait = next((one for one in episode.waits if one.closed_ms < 0), None)
    if wait is None or wait.barrier == "initial delay" or not (missing := awaited(episode, wait)):
        return None
    at = missing[0]
    part = episode.members[at]
    case = Case(episode, Trigger(Cause.UNKNOWN, at), names, {})
    if part.disconnected_ms:
        return _crashed(case)
    if wait.barrier == "sync":
        if not episode.partitions_known:
            return _worker_blocked(case)
        return _blocked_leader(case) if part.is_leader else _unsynced(case)
    if not episode.partitions_known:
        return _worker_late(case)
    return _late(case)


def _for_latecomer(episode: Episode, names: list[str]) -> Advice | None:
    """Nobody was dropped, but somebody kept the others waiting."""
    for wait in episode.waits:
        if wait.barrier != "join" or wait.absent or wait.last != [episode.culprit]:
            continue
        part = episode.members[episode.culprit]
        if part.came_ms < SLOW_MS or wait.closed_ms - wait.opened_ms < SLOW_MS:
            continue
        case = Case(episode, Trigger(Cause.UNKNOWN, episode.culprit), names, {})
        if not episode.partitions_known:
            return _worker_late(case)
        return case.advice(
            "max.poll.interval.ms",
            "{who} took {took} to rejoin, which a member does when it calls poll(). Let it poll more often: hand it "
            "fewer records at a time with max.poll.records. The others wait for it up to max.poll.interval.ms ({now}).",
            took=duration(part.came_ms),
        )
    return None
