"""One concrete thing to do about an episode: the sentence, the setting that it is about, and its present value."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ottla.observe.why.causes import Cause
from ottla.observe.why.model import Advice, Episode, MemberPart, Trigger
from ottla.observe.why.plain import application, awaited, duration, member_names

SLOW_MS = 5_000
"""A member that was waited for this long is worth a word."""
WORTH_MS = 1_000
"""So many partition-milliseconds are worth another assignor."""
DELAY_MS = 1_000
"""The same for an initial delay."""
EAGER = frozenset(("range", "roundrobin", "sticky"))
"""The well-known assignors that make everybody stop."""


class Case:
    """The facts that advice is made from.

    Attributes:
        trigger: what it is about; part, who: the member that did it.
        facts: the broker's settings.
    """

    def __init__(self, episode: Episode, trigger: Trigger, names: list[str], facts: Mapping[str, str]) -> None:
        self.episode = episode
        self.trigger = trigger
        has_member = 0 <= trigger.member < len(episode.members)
        self.part = episode.members[trigger.member] if has_member else MemberPart("", "", "")
        self.who = names[trigger.member] if has_member else "the member"
        self.facts = facts

    @property
    def poll_interval(self) -> str:
        """``max.poll.interval.ms`` of the member, which it sent as its rebalance timeout; empty if unknown."""
        return str(self.part.rebalance_timeout_ms or "")

    @property
    def session_timeout(self) -> str:
        return str(self.part.session_timeout_ms or "")

    @property
    def is_eager(self) -> bool:
        """True if everybody stopped because of a known assignor that makes them.

        Of those with other names nobody knows: Kafka Streams has one of its own, which stops nobody.
        """
        return bool(self.episode.stopped and self.episode.protocol_name in EAGER)


def advise(episode: Episode, facts: Mapping[str, str]) -> list[Advice]:
    """Advice about an episode; empty where there is nothing to do or nothing is known."""
    names = member_names(episode)
    is_brokers = any(one.cause in _OF_BROKER for one in episode.triggers)
    if episode.outcome == "running" and not is_brokers and (present := _for_awaited(episode, names)) is not None:
        return [present]
    latecomer = _for_latecomer(episode, names)
    first = episode.culprit  # what others did beside it weighs less
    for trigger in sorted(episode.triggers, key=lambda one: (_rank(one.cause), first >= 0 and one.member != first)):
        if latecomer is not None and trigger.cause not in _FIRST:
            break
        make = _ADVICE.get(trigger.cause)
        if not episode.partitions_known and trigger.cause in _OF_CONSUMERS:
            make = _OF_OTHERS.get(trigger.cause)
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


def _now(value: str, unset: str = "not known") -> str:
    return f"{value} now" if value else unset


def _poll_advice(case: Case) -> Advice:
    limit = f" ({_now(case.poll_interval)})"
    return Advice(
        f"Let {case.who} call poll() more often: hand it fewer records at a time with max.poll.records, or do "
        f"long work outside of the poll loop; raise max.poll.interval.ms{limit} only if its work really takes so long.",
        "max.poll.interval.ms",
        value=case.poll_interval,
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


def _crashed(case: Case) -> Advice:
    return Advice(
        f"Find out why {case.who} ended without leaving. Let it call close() when it is stopped; a lower "
        f"session.timeout.ms ({_now(case.session_timeout)}) lets the group notice a crash sooner.",
        "session.timeout.ms",
        value=case.session_timeout,
    )


def _silent(case: Case) -> Advice:
    return Advice(
        f"Look for pauses of {case.who}: garbage collection, a stopped container, a blocked event loop, too little "
        f"CPU. If such pauses are normal, raise session.timeout.ms ({_now(case.session_timeout)}).",
        "session.timeout.ms",
        value=case.session_timeout,
    )


def _expired(case: Case) -> Advice:
    return _unheard(case) if "unheard_ms" in case.trigger.facts else _silent(case)


def _unheard(case: Case) -> Advice:
    return Advice(
        f"See whether {case.who} still runs: it ended while the broker was down or just after, or it does not reach "
        "the broker any more. If it was stopped on purpose there is nothing to mend."
    )


def _restart(case: Case) -> Advice:
    return Advice(
        f"If it is restarted, not stopped for good: give each member a group.instance.id of its own "
        f"({'not set' if not case.part.group_instance_id else 'set'} now), so that it comes back within "
        f"session.timeout.ms ({_now(case.session_timeout)}) without a rebalance.",
        "group.instance.id",
        value=case.part.group_instance_id or "",
    )


def _rolling(case: Case) -> Advice | None:
    if case.episode.kind == "replacement":
        return None
    if case.part.group_instance_id is not None:
        return Advice(
            f"Members have a group.instance.id and were away for longer than their session.timeout.ms "
            f"({_now(case.session_timeout)}): raise it above the time that a restart takes.",
            "session.timeout.ms",
            value=case.session_timeout,
        )
    return Advice(
        "Give each member a group.instance.id of its own (not set now) and a session.timeout.ms "
        f"({_now(case.session_timeout)}) above the time that a restart takes: then a restart needs no rebalance.",
        "group.instance.id",
    )


def _joined(case: Case) -> Advice | None:
    if not case.is_eager or case.episode.stood_ms < WORTH_MS:
        return None
    name = case.episode.protocol_name
    return Advice(
        "If it was meant to join there is nothing to mend. With partition.assignment.strategy set to "
        f"cooperative-sticky ({name} now) the other members would have gone on consuming meanwhile.",
        "partition.assignment.strategy",
        value=name,
    )


def _started(case: Case) -> Advice | None:
    delay = next((one for one in case.episode.waits if one.barrier == "initial delay"), None)
    if delay is None or (delay.limit_ms if delay.closed_ms < 0 else delay.closed_ms - delay.opened_ms) < DELAY_MS:
        return None
    value = case.facts.get("group.initial.rebalance.delay.ms", "")
    return Advice(
        f"A new group waits for group.initial.rebalance.delay.ms ({_now(value)}) so that its members start together; "
        "set it to 0 where that does not matter, as in tests.",
        "group.initial.rebalance.delay.ms",
        of_client=False,
        value=value,
    )


def _returned(case: Case) -> Advice | None:
    went = case.trigger.facts.get("went", "")
    if went in (Cause.LEFT_POLL_TIMEOUT, Cause.JOIN_BARRIER_MISSED):
        return _poll_advice(case)
    if went == Cause.LEADER_NEVER_SYNCED:
        return _blocked_leader(case)
    if went == Cause.SYNC_TIMEOUT:
        return _unsynced(case)
    if went == Cause.SESSION_EXPIRED_SILENT:
        return _silent(case)
    if went == Cause.SESSION_EXPIRED_CONNECTION_LOST:
        return _crashed(case)
    return _restart(case) if case.part.group_instance_id is None else None


def _subscription(case: Case) -> Advice | None:
    if "topic" in case.trigger.facts:
        return None
    return Advice(
        "Let all members of a group subscribe to the same topics, and change that in all of them at once: each member "
        "that changes its subscription is a rebalance of its own.",
        "topics",
    )


def _assignors(case: Case) -> Advice:
    return Advice(
        "Give all members the same partition.assignment.strategy; to change it, first add the new one to all members, "
        "then remove the old one.",
        "partition.assignment.strategy",
        value=case.trigger.facts.get("after", ""),
    )


def _blocked_leader(case: Case) -> Advice:
    return Advice(
        f"See what {case.who} does between JoinGroup and SyncGroup: as leader it computes the assignments there, and "
        f"its rebalance listener or assignor is blocked. Others wait for it up to max.poll.interval.ms "
        f"({_now(case.poll_interval)}).",
        "max.poll.interval.ms",
        value=case.poll_interval,
    )


def _unsynced(case: Case) -> Advice:
    if case.trigger.facts.get("alive") == "lost":
        return _crashed(case)
    return Advice(
        f"See what {case.who} does between JoinGroup and SyncGroup, where it fetches its assignment: it is blocked "
        f"there. The group waits up to max.poll.interval.ms ({_now(case.poll_interval)}) for it.",
        "max.poll.interval.ms",
        value=case.poll_interval,
    )


def _full(case: Case) -> Advice:
    value = case.facts.get("group.max.size", "")
    return Advice(
        f"Stop a member that is not needed, or raise group.max.size ({_now(value)}) of the broker.",
        "group.max.size",
        of_client=False,
        value=value,
    )


def _mismatch(case: Case) -> Advice:
    offered, has = case.trigger.facts.get("offered", ""), case.trigger.facts.get("group_has", "")
    add = f" Add {has} to those of {case.who}." if has else ""
    return Advice(
        f"Let all members have one partition.assignment.strategy in common ({case.who} has {offered or 'none'}).{add}",
        "partition.assignment.strategy",
        value=offered,
    )


def _type(case: Case) -> Advice:
    return Advice(
        f"Give {case.who} another group.id ({case.episode.group_id} now): members of different kinds, such as "
        "consumers and Kafka Connect workers, cannot share a group.",
        "group.id",
        value=case.episode.group_id,
    )


def _session(case: Case) -> Advice:
    low = case.facts.get("group.min.session.timeout.ms", "")
    high = case.facts.get("group.max.session.timeout.ms", "")
    bounds = f", from {low} to {high}" if low and high else ""
    return Advice(
        f"Set session.timeout.ms ({_now(case.session_timeout)}) of {case.who} to what the broker allows{bounds}.",
        "session.timeout.ms",
        value=case.session_timeout,
    )


def _duplicate(case: Case) -> Advice:
    instance = case.trigger.facts.get("instance", "")
    return Advice(
        f"Give each process a group.instance.id of its own ({instance} now), and make sure that an old process has "
        "ended before its successor starts.",
        "group.instance.id",
        value=instance,
    )


def _unused(case: Case) -> Advice:
    return Advice(
        f"See why {case.who} asked to join and went away before it could: it is restarted at once, or gives up too "
        "early. Its id is awaited for its session.timeout.ms.",
        "session.timeout.ms",
    )


def _flapping(case: Case) -> Advice:
    last = case.trigger.facts.get("last", "")
    if last in (Cause.LEFT_POLL_TIMEOUT, Cause.JOIN_BARRIER_MISSED):
        return _poll_advice(case)
    who = application(case.episode, case.trigger.member) if case.trigger.member >= 0 else case.who
    return Advice(
        f"Look at {who} before anything else: each of its comings and goings is a rebalance for all. Until it is "
        "mended a group.instance.id of its own "
        f"({case.part.group_instance_id or 'not set'} now) keeps its restarts from the others.",
        "group.instance.id",
        value=case.part.group_instance_id or "",
    )


def _nobody(case: Case) -> Advice:
    timeouts = [part.rebalance_timeout_ms for part in case.episode.members if part.rebalance_timeout_ms]
    value = str(max(timeouts, default=""))
    return Advice(
        "See what keeps all members from calling poll(): none rejoined within max.poll.interval.ms "
        f"({_now(value)}). As static members they stay in the group until their session.timeout.ms is over.",
        "max.poll.interval.ms",
        value=value,
    )


def _disk(case: Case) -> Advice:
    error = case.trigger.facts.get("error", "")
    return Advice(
        f"Look at the broker's log and its disk: __consumer_offsets could not be written ({error or 'unknown error'}).",
        of_client=False,
    )


def _over(case: Case) -> Advice:
    value = case.facts.get("group.max.size", "")
    return Advice(
        f"The group is larger than group.max.size ({_now(value)}): raise it, or start fewer members.",
        "group.max.size",
        of_client=False,
        value=value,
    )


_ADVICE: dict[str, Callable[[Case], Advice | None]] = {
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
    Cause.SESSION_EXPIRED: _expired,
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
    Cause.TURNED_AWAY_PROTOCOL_TYPE: _type,
    Cause.INVALID_SESSION_TIMEOUT: _session,
}


def _worker_late(case: Case) -> Advice:
    return Advice(
        f"See what kept {case.who} from rejoining: the group waits for it up to the rebalance timeout that it asked "
        f"for ({_now(case.poll_interval)}), with Kafka Connect rebalance.timeout.ms.",
        "rebalance.timeout.ms",
        value=case.poll_interval,
    )


def _worker_blocked(case: Case) -> Advice:
    return Advice(
        f"See what {case.who} does between JoinGroup and SyncGroup: it is blocked there. The group waits for it up to "
        f"the rebalance timeout that it asked for ({_now(case.poll_interval)}), with Kafka Connect "
        "rebalance.timeout.ms.",
        "rebalance.timeout.ms",
        value=case.poll_interval,
    )


def _worker_dropped(case: Case) -> Advice:
    return _worker_late(case) if case.trigger.facts.get("alive") == "yes" else _dropped(case)


def _worker_returned(case: Case) -> Advice | None:
    went = case.trigger.facts.get("went", "")
    if went == Cause.SESSION_EXPIRED_SILENT:
        return _silent(case)
    return _crashed(case) if went == Cause.SESSION_EXPIRED_CONNECTION_LOST else None


def _worker_flapping(case: Case) -> Advice:
    who = application(case.episode, case.trigger.member) if case.trigger.member >= 0 else case.who
    return Advice(f"Look at {who} before anything else: each of its comings and goings is a rebalance for all.")


_OF_OTHERS: dict[str, Callable[[Case], Advice | None]] = {
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
    return Advice(
        f"See what keeps {case.who} from rejoining, which a member does when it calls poll(). If that takes long, hand "
        "it fewer records at a time with max.poll.records, and keep short what is done when partitions are revoked. "
        f"The others wait for it up to max.poll.interval.ms ({_now(case.poll_interval)}).",
        "max.poll.interval.ms",
        value=case.poll_interval,
    )


def _for_latecomer(episode: Episode, names: list[str]) -> Advice | None:
    """Nobody was dropped, but somebody kept the others waiting."""
    for wait in episode.waits:
        if wait.barrier != "join" or wait.absent or wait.last != [episode.culprit]:
            continue
        part = episode.members[episode.culprit]
        if part.came_ms < SLOW_MS or wait.closed_ms - wait.opened_ms < SLOW_MS:
            continue
        value = str(part.rebalance_timeout_ms or "")
        if not episode.partitions_known:
            return _worker_late(Case(episode, Trigger(Cause.UNKNOWN, episode.culprit), names, {}))
        return Advice(
            f"{names[episode.culprit]} took {duration(part.came_ms)} to rejoin, which a member does when it calls "
            "poll(). Let it poll more often: hand it fewer records at a time with max.poll.records. The others wait "
            f"for it up to max.poll.interval.ms ({_now(value)}).",
            "max.poll.interval.ms",
            value=value,
        )
    return None
