"""What to do about members of consumer groups (KIP-848)."""

from __future__ import annotations

from collections.abc import Mapping

from ottla.observe.why.case import Case, Make, crashed, say
from ottla.observe.why.causes import Cause
from ottla.observe.why.model import Advice, Episode, Trigger
from ottla.observe.why.waits import REVOKES

SLOW_MS = 5_000
"""A member that was waited for longer is worth a word."""
_revokes = say(
    "max.poll.interval.ms",
    "See what keeps {who} from giving its partitions up, which a consumer does in poll(): its application is busy or "
    "blocked, or its rebalance listener takes long. Hand it fewer records at a time with max.poll.records, and keep "
    "short what is done when partitions are revoked. Others wait for it up to max.poll.interval.ms ({now}).",
)
_rejoins = say(
    "max.poll.interval.ms",
    "See what keeps {who} from joining again, which a consumer of the classic protocol does in poll(): its application "
    "is busy or blocked, or its rebalance listener takes long. Hand it fewer records at a time with max.poll.records, "
    "and keep short what is done when partitions are revoked. It has its rebalance timeout for that, which is "
    "max.poll.interval.ms ({now}) of most clients. With the consumer protocol it would not have to join again.",
)
_syncs = say(
    "max.poll.interval.ms",
    "See what kept {who} from asking for its assignment after it had joined, which a client does at once: it ended, "
    "lost its connection, or stood still. It has its rebalance timeout for that ({now}).",
)
_silent = say(
    "",
    "See whether {who} still runs and reaches the broker: it has not been heard of since it was told. If it ended it "
    "is removed when its session or its time to give up is over.",
)
_expired = say(
    "consumer.session.timeout.ms",
    "Look for pauses of {who}: garbage collection, a stopped container, a blocked event loop, too little CPU. If such "
    "pauses are normal, raise the session timeout ({session}): consumer.session.timeout.ms of the group, or "
    "session.timeout.ms of a client of the classic protocol.",
)
_crashed = crashed(
    "consumer.session.timeout.ms",
    "Find out why {who} ended without leaving. Let it call close() when it is stopped; a lower session timeout "
    "({session}) lets the group notice a crash sooner: consumer.session.timeout.ms of the group, or "
    "session.timeout.ms of a client of the classic protocol.",
)
_away = say(
    "group.consumer.session.timeout.ms",
    "Start {who} again, with the same group.instance.id: its partitions stand still until it is back or its session is "
    "over. If it shall not come back, remove it with `ottla groups evict`, kafka-consumer-groups or an Admin client.",
)
_not_back = say(
    "group.consumer.session.timeout.ms",
    "{who} has a group.instance.id and was away for longer than the session timeout ({session}). If that is the time "
    "that a restart takes, raise consumer.session.timeout.ms of the group; if it was to end for good, let it leave "
    "without group.instance.id, or remove it with `ottla groups evict`.",
)
_fenced = say(
    "",
    "See whether two processes use the member id of {who}, or whether it was restored from an old copy or stood still "
    "for long: only its own last epoch counts. A good client gives up all it has now and joins again by itself.",
)


def _restart(case: Case) -> Advice:
    is_classic = case.trigger.facts.get("protocol") == "classic"
    return case.advice(
        "group.instance.id",
        "If {who} is restarted, not stopped for good: give each member a group.instance.id of its own, so that it "
        "keeps its partitions while it is away for no longer than {which} ({session}).",
        which="its session.timeout.ms" if is_classic else "the session timeout of the group",
    )


def _rolling(case: Case) -> Advice | None:
    if case.episode.kind == "replacement":
        return None
    which = "consumer.session.timeout.ms of the group, and session.timeout.ms of a client of the classic protocol"
    if case.part.group_instance_id is not None:
        return case.advice(
            "consumer.session.timeout.ms",
            "Members have a group.instance.id and were away for longer than the session timeout ({session}): raise it "
            "above the time that a restart takes. That timeout is {which}.",
            which=which,
        )
    return case.advice(
        "group.instance.id",
        "Give each member a group.instance.id of its own (not set now), and let the session timeout ({session}) be "
        "above the time that a restart takes: then a restart needs no rebalance. That timeout is {which}.",
        which=which,
    )


def _stays(case: Case) -> Advice:
    policy = "group.consumer.migration.policy"
    by_itself = (
        f" With {policy}=bidirectional (or downgrade), for which the broker has to be restarted, it becomes one by "
        "itself."
    )
    return case.advice(
        policy,
        "Restart one of the members, or remove one with `ottla groups evict`, so that it joins again: without that "
        "nobody gets what becomes free in a consumer group whose members are all classic. To make it a classic group, "
        "stop all members and start them.{by_itself}",
        by_itself=by_itself if case.value(policy).lower() in ("upgrade", "disabled") else "",
    )


def _regex(case: Case) -> Advice | None:
    if case.trigger.facts.get("matched") != "0":
        return None
    return case.advice(
        "subscription",
        "Compare the regex of {who} with the names of topics: it has to match the whole name, and upper and lower case "
        "differ. If the topic is yet to be created there is nothing to mend: regexes are held against topics again "
        "when one is created.",
        value=case.trigger.facts.get("regex", ""),
    )


def _returned(case: Case) -> Advice | None:
    went, away_ms = case.trigger.facts.get("went", ""), int(case.trigger.facts.get("away_ms", "0"))
    if case.episode.outcome == "running":
        return None  # whatever it waits for
    if went in (Cause.REVOCATION_TIMEOUT, Cause.STATIC_MEMBER_NOT_BACK):
        return (_revokes if went == Cause.REVOCATION_TIMEOUT else _not_back)(case)
    is_restart = away_ms <= case.part.session_timeout_ms and case.part.group_instance_id is None
    return _restart(case) if is_restart else None


ADVICE: dict[str, Make] = {
    Cause.REVOCATION_TIMEOUT: _revokes,
    Cause.CLASSIC_REJOIN_MISSED: _rejoins,
    Cause.CLASSIC_SYNC_MISSED: _syncs,
    Cause.STATIC_MEMBER_AWAY: lambda case: _away(case) if case.episode.outcome == "running" else None,
    Cause.STATIC_MEMBER_NOT_BACK: _not_back,
    Cause.SESSION_EXPIRED_SILENT: _expired,
    Cause.SESSION_EXPIRED_CONNECTION_LOST: _crashed,
    Cause.FENCED_EPOCH: _fenced,
    Cause.DOWNGRADE_REFUSED: _stays,
    Cause.REGEX_RESOLVED: _regex,
    Cause.LEFT_CLOSED: _restart,
    Cause.ROLLING_RESTART: _rolling,
    Cause.MEMBER_RETURNED: _returned,
    Cause.MEMBER_JOINED: lambda case: None,
    Cause.STATIC_MEMBER_JOINED: lambda case: None,
    Cause.GROUP_STARTED: lambda case: None,
    Cause.TURNED_AWAY_GROUP_FULL: say(
        "group.consumer.max.size",
        "Stop a member that is not needed, or raise group.consumer.max.size ({now}) of the broker.",
    ),
}
"""Advice by the cause, in place of that about groups of the classic protocol."""

UNREAD = frozenset(("not-subscribed", "no-target"))
_starts_anew = say(
    "subscription",
    "Stop {who}, and start it again some seconds later: meanwhile the broker divides all partitions anew. This comes "
    "of members that start together with different regexes, here as in Apache Kafka. One regex that all members share "
    "avoids it.",
)
_OF_WAITS: dict[str, Make] = {
    "not-heard": _silent,
    "away": _away,
    "told-to-revoke": _silent,
    "still-owns": _revokes,
    "says-nothing": _revokes,
}


def for_wait(episode: Episode, names: list[str], facts: Mapping[str, str]) -> Advice | None:
    """What to do about what a rebalance that runs waits for: a member that is away, or late, or somebody who joins.

    None where it waits for none of these.
    """
    present = [one for one in episode.member_waits if one.until_ms < 0]
    if any(one.kind == "nobody-joins" for one in present):
        return _stays(Case(episode, Trigger(Cause.UNKNOWN), names, facts))
    wait = next(iter(present), None)
    if wait is None or not 0 <= wait.member < len(episode.members):
        return None
    if wait.kind not in _OF_WAITS or (wait.member != episode.culprit and wait.kind != "away"):
        return None
    return _OF_WAITS[wait.kind](Case(episode, Trigger(Cause.UNKNOWN, wait.member), names, facts))


def for_unread(episode: Episode, names: list[str]) -> Advice | None:
    """What to do about partitions that nobody reads in a group that is Stable."""
    wait = next((one for one in episode.member_waits if one.kind in UNREAD), None)
    return None if wait is None else _starts_anew(Case(episode, Trigger(Cause.UNKNOWN, wait.member), names, {}))


def for_latecomer(episode: Episode, names: list[str]) -> Advice | None:
    """What to do about a culprit that was alive, and had not given partitions up for long."""
    for one in episode.member_waits:
        if one.kind not in REVOKES or one.member != episode.culprit or one.until_ms - one.since_ms <= SLOW_MS:
            continue
        if one.beats or not (one.is_cut_off or one.goes_on):
            return _revokes(Case(episode, Trigger(Cause.UNKNOWN, one.member), names, {}))
    return None
