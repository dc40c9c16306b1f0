"""Judges facts: the class of a cause, the member to be named, and when nothing can be said."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

from ottla.broker.core import events
from ottla.broker.core.events.reasons import Began, Reason
from ottla.observe.why.account import Account
from ottla.observe.why.blame import culprit
from ottla.observe.why.causes import Cause
from ottla.observe.why.departures import AT_CLOSE_MS, FLAPS, MOST_PER_MEMBER, RESTARTS
from ottla.observe.why.members import NEVER, Asked, Departure, Happening, Known
from ottla.observe.why.model import HERE, Episode, Trigger
from ottla.observe.why.plain import listed, ranges
from ottla.observe.why.reasons import joining_class, leaving_class, said
from ottla.observe.why.reconciling import Reconciled
from ottla.observe.why.run import Run
from ottla.protocol.consumer_protocol import PROTOCOL_TYPE

REPLACED = {
    "Stable": Cause.STATIC_MEMBER_REPLACED,
    "PreparingRebalance": Cause.STATIC_MEMBER_REPLACED,
    "CompletingRebalance": Cause.STATIC_REPLACED_WHILE_SYNCING,
}
"""The cause by the state in which a static member comes back."""
WRITES = {
    "changes": Cause.GROUP_WRITE_FAILED,
    "assignments": Cause.ASSIGNMENT_WRITE_FAILED,
    "new generation": Cause.GENERATION_WRITE_FAILED,
    "new group": Cause.GROUP_WRITE_FAILED,
}
"""The cause by the record that could not be written; others begin nothing."""
LOST_GENERATION = frozenset(("ILLEGAL_GENERATION", "UNKNOWN_MEMBER_ID"))
SAID = frozenset(
    (
        Cause.TOPIC_METADATA_CHANGED,
        Cause.REBALANCE_ENFORCED,
        Cause.COOPERATIVE_FOLLOW_UP,
        Cause.SUBSCRIPTION_CHANGED,
    )
)
"""Reasons of a client for a rejoin that are believed, whatever else is known."""
STALL_MS = 1_000
"""Who looks after a session so long after its end stood still."""
AFTER_LOAD_MS = 120_000
"""A generation that is refused this soon after a load was lost by it."""
MOST_MISSING = 5
"""So many topics that do not exist are named."""
MOST_COMPARED = 100
"""With so many topics of its group the name of a missing one is compared."""
POLL_EARLY_MS, POLL_LATE_MS = 5_500, 3_000
"""Most time between the last sign of an application and ``max.poll.interval.ms`` before its member leaves: clients
commit what was polled up to five seconds later, and look at the interval every now and then."""
_BEGAN = {
    Began.STATIC_ADDED: Cause.MEMBER_JOINED,
    Began.ADDED: Cause.MEMBER_JOINED,
    Began.LEADER_REJOINED: Cause.LEADER_REJOINED,
    Began.UPDATED: Cause.MEMBER_REJOINED,
    Began.STATIC_REPLACED: Cause.STATIC_REPLACED_WHILE_SYNCING,
    Began.PROTOCOL_CHANGED: Cause.STATIC_REPLACED_PROTOCOL_CHANGED,
    Began.EXPIRED: Cause.SESSION_EXPIRED,
    Began.UNSYNCED: Cause.SYNC_TIMEOUT,
    Began.ASSIGNMENT_FAILED: Cause.ASSIGNMENT_WRITE_FAILED,
    Began.GENERATION_FAILED: Cause.GENERATION_WRITE_FAILED,
    Began.OVER_CAPACITY: Cause.OVER_CAPACITY_ON_LOAD,
    Began.UNASSIGNED: Cause.UNASSIGNED_ON_LOAD,
    Began.DOWNGRADED: Cause.GROUP_DOWNGRADED,
    Began.DOWNGRADED_LATE: Cause.GROUP_DOWNGRADED,
    Began.NOT_UPGRADED: Cause.UNKNOWN,
}


def by_reason(account: Account, event: events.RebalanceStarted) -> Happening:
    """The class by the reason that the coordinator gave, where nothing else was seen of what began it."""
    reason = Reason.read(event.reason)
    if reason is None or reason.began is Began.JOINING:
        return Happening(Cause.UNKNOWN, None, event.reason, {})
    member_id = reason.member.partition(", ")[0]
    known = account.members.get(member_id)
    words = said(reason.said)
    if reason.began is Began.LEFT:
        cause = Cause.UNKNOWN if known is None else leaving_class(words)
    else:
        cause = _BEGAN[reason.began]
    facts = {} if known is not None or not member_id else {"member_id": member_id}
    if reason.began is Began.OVER_CAPACITY:
        facts = {"members": str(event.members)}
    return Happening(cause, known, words, facts)


# Who comes


def return_facts(before: Departure, event: events.Event) -> dict[str, str]:
    """The way in which a member that is back had gone, and the time that it was away."""
    facts = {"went": before.cause, "away_ms": str(event.wall_ms - before.wall_ms)}
    if before.heard_ms != NEVER:
        facts["heard_again_ms"] = str(before.heard_ms - before.at_ms)
    return facts


def missing_facts(missing: list[str], names: Iterable[str]) -> dict[str, str]:
    """Topics that a member subscribes to and that do not exist.

    Args:
        names: of topics of its group, one of which may be meant.
    """
    if not missing:
        return {}
    from difflib import get_close_matches  # few need it

    known = [*islice(dict.fromkeys(names), MOST_COMPARED)]
    like = next((found[0] for one in missing[:MOST_MISSING] if (found := get_close_matches(one, known, 1))), "")
    return {"missing": listed(missing, MOST_MISSING)} | ({"like": like} if like else {})


def replacement_facts(known: Known, event: events.MemberReplaced, join: events.JoinReceived | None) -> dict[str, str]:
    """The id that was replaced, and how long nobody was there."""
    facts = {"old_member_id": event.old_member_id}
    if known.lost_ms != NEVER:
        facts["away_ms"] = str(event.at_ms - max(known.lost_ms, known.heard_ms))
    if join is not None:
        offered = [protocol.name for protocol in join.protocols]
        if offered != known.asked.names and not known.asked.is_partial:
            facts |= {"before": ", ".join(known.asked.names), "after": ", ".join(offered)}
    return facts


def rejoin(account: Account, known: Known, before: Asked, join: events.JoinReceived) -> tuple[str, dict[str, str]]:
    """Why a member joins again."""
    after = known.asked
    given_up = {"held": str(len(after.held))}
    if before.topics is not None and after.topics is not None and before.topics != after.topics:
        came = [topic for topic in after.topics if topic not in before.topics]
        went = [topic for topic in before.topics if topic not in after.topics]
        facts = {"came": ", ".join(came), "went": ", ".join(went)}
        return Cause.SUBSCRIPTION_CHANGED, facts | _by_pattern(account, came, went, join)
    if before.names != after.names and not before.is_partial:
        return Cause.ASSIGNOR_LIST_CHANGED, {"before": ", ".join(before.names), "after": ", ".join(after.names)}
    by_words = joining_class(said(join.reason))
    if by_words in SAID:
        if by_words == Cause.TOPIC_METADATA_CHANGED:
            return by_words, _changed_topics(account, after, join)
        return by_words, given_up if by_words == Cause.COOPERATIVE_FOLLOW_UP else {}
    if account.state == "CompletingRebalance":
        return Cause.METADATA_CHANGED_WHILE_SYNCING, {}
    is_just_loaded = account.loaded_ms != NEVER and join.at_ms - account.loaded_ms <= AFTER_LOAD_MS
    if known.error in LOST_GENERATION and is_just_loaded:
        return Cause.GENERATION_LOST_ON_LOAD, {"error": known.error}
    if by_words is not None or known.error:
        return Cause.REJOINED_AFTER_ERROR, {"error": known.error} if known.error else {}
    if known.member_id == account.leader_id and (changed := _changed_topics(account, after, join)):
        return Cause.TOPIC_METADATA_CHANGED, changed  # librdkafka gives no reason
    if before.held != after.held and not before.is_partial:
        return Cause.COOPERATIVE_FOLLOW_UP, given_up
    if before.user_data != after.user_data and not before.is_partial:
        return Cause.USER_DATA_CHANGED, {}
    return Cause.LEADER_REJOINED if known.member_id == account.leader_id else Cause.MEMBER_REJOINED, {}


def _changed_topics(account: Account, asked: Asked, event: events.Event) -> dict[str, str]:
    """The change of a leader's topics that nobody in the group knew of; empty if there is none."""
    changes = account.topics.changed(asked.topics or (), event.at_ms)
    if not changes:
        return {}
    owned = {one for known in account.members.values() for one in known.partitions()}
    news = [seen for one in changes if (seen := one.seen_from(owned)) is not None]
    if not news:
        return {}
    more = {"more": str(len(news) - 1)} if len(news) > 1 else {}
    return news[0].facts(event.at_ms) | more


def _by_pattern(account: Account, came: list[str], went: list[str], event: events.Event) -> dict[str, str]:
    """The change of a topic that explains one of a subscription: with a pattern the client does that by itself."""
    found = account.topics.changed([*came, *went], event.at_ms)
    changes = [one for one in found if one.at_ms > account.formed_ms]  # a pattern would have had the others before
    created = {one.topic for one in changes if one.partitions and not one.partitions_before}
    deleted = {one.topic for one in changes if not one.partitions}
    return changes[0].facts(event.at_ms) if changes and created >= {*came} and deleted >= {*went} else {}


# Who goes


def departure(known: Known, leave: events.LeaveReceived, cause: str, event: events.Event) -> tuple[str, dict[str, str]]:
    """Tell a member that left from one that was removed, by the sender of the LeaveGroup."""
    facts: dict[str, str] = {}
    by_other = bool(known.client_id and leave.client_id and leave.client_id != known.client_id)
    by_instance = any(one.group_instance_id == known.group_instance_id and not one.member_id for one in leave.leaving)
    if by_other or cause == Cause.REMOVED_BY_ADMIN or (known.group_instance_id is not None and by_instance):
        return Cause.REMOVED_BY_ADMIN, {"by": leave.client_id, "from": leave.client_host}
    if known.sign_ms != NEVER:
        facts["idle_ms"] = str(event.at_ms - known.sign_ms)
    return cause, facts


def expiry(known: Known, event: events.SessionExpired) -> str:
    """The cause of a session that ran out."""
    if event.is_new:
        return Cause.NEW_MEMBER_EXPIRED
    if isinstance(known, Reconciled) and known.away_ms != NEVER:
        return Cause.STATIC_MEMBER_NOT_BACK
    is_lost = known.lost_ms != NEVER and known.lost_ms >= known.heard_ms
    late_ms = _late_ms(event)
    if late_ms >= STALL_MS and not (is_lost and known.lost_ms <= event.at_ms - late_ms):
        return Cause.BROKER_STOOD_STILL
    if is_lost:
        return Cause.SESSION_EXPIRED_CONNECTION_LOST
    return Cause.SESSION_EXPIRED_SILENT if known.is_connected else Cause.SESSION_EXPIRED


def _late_ms(event: events.SessionExpired) -> int:
    """For how long a session had been over when the broker looked: its timers are late after it stood still."""
    return event.at_ms - event.last_heard_ms - event.session_timeout_ms


def is_unheard(account: Account, known: Known, heard_ms: int) -> bool:
    """True if a member was read from the log and never heard of since: its session then begins with the load."""
    return known.heard_ms == NEVER and account.loaded_ms != NEVER and heard_ms <= account.loaded_ms


def expiry_facts(account: Account, known: Known, event: events.SessionExpired) -> dict[str, str]:
    """The time since it was last heard of, and its session timeout."""
    facts = {"session_timeout_ms": str(event.session_timeout_ms)}
    if not event.is_new and is_unheard(account, known, event.last_heard_ms):
        facts["unheard_ms"] = str(event.at_ms - account.loaded_ms)
    if known.heard_ms != NEVER:
        facts["heard_ago_ms"] = str(event.at_ms - known.heard_ms)
    if expiry(known, event) == Cause.BROKER_STOOD_STILL:
        facts |= {"stall_ms": str(_late_ms(event))} | ({"node": account.node} if account.node else {})
    if isinstance(known, Reconciled) and not known.is_classic:
        facts["session_of"] = "group"
    if isinstance(known, Reconciled) and known.away_ms != NEVER:
        return {"away_ms": str(event.at_ms - known.away_ms)} | facts
    if known.lost_ms != NEVER:
        facts["lost_ago_ms"] = str(event.at_ms - known.lost_ms)
    return facts


def unrevoked_facts(known: Reconciled, event: events.Event) -> dict[str, str]:
    """Facts about a member that did not give partitions up in time."""
    facts = {
        "partitions": listed(ranges(f"{topic}-{number}" for topic, number in known.giving_up)),
        "beats": str(known.beats),
        "waited_ms": str(event.at_ms - known.since_ms),
        "rebalance_timeout_ms": str(known.rebalance_timeout_ms),
    }
    return facts | ({"heard_ago_ms": str(event.at_ms - known.heard_ms)} if known.heard_ms != NEVER else {})


def dropped_facts(account: Account, run: Run, known: Known, event: events.Event) -> dict[str, str]:
    """Facts about a member that missed a barrier: a heartbeat since it opened shows that it was alive."""
    wait = run.episode.waits[-1] if run.episode.waits else None
    facts = _alive(known, event, run.start_ms + (wait.opened_ms if wait is not None else 0))
    if known.heard_ms == NEVER and account.loaded_ms != NEVER:
        facts["unheard_ms"] = str(event.at_ms - account.loaded_ms)
    if wait is not None:
        facts["waited_ms"] = str(run.at(event) - wait.opened_ms)
    return facts


def unsynced_facts(account: Account, known: Known, event: events.Event) -> dict[str, str]:
    """The same for the sync barrier."""
    run = account.run
    wait = None if run is None else run.open_wait("sync")
    since_ms = event.at_ms - known.rebalance_timeout_ms
    if run is not None and wait is not None:
        since_ms = run.start_ms + wait.opened_ms
    return _alive(known, event, since_ms) | {
        "generation": str(account.generation),
        "waited_ms": str(event.at_ms - since_ms),
    }


def _alive(known: Known, event: events.Event, since_ms: int) -> dict[str, str]:
    if known.heard_ms == NEVER:
        return {"alive": "unknown"}
    facts = {"heard_ago_ms": str(event.at_ms - known.heard_ms)}
    if known.lost_ms != NEVER and known.lost_ms >= known.heard_ms:
        return facts | {"alive": "lost", "lost_ago_ms": str(event.at_ms - known.lost_ms)}
    return facts | {"alive": "yes" if known.heard_ms > since_ms else "no"}


# The end of an episode


def conclude(account: Account, run: Run, event: events.Event) -> None:
    """Name the cause and the culprit, now that everything about an episode is known."""
    episode = run.episode
    awaited_ms = {one.member: one.until_ms - one.from_ms for one in run.late}
    for trigger in episode.triggers:
        if trigger.cause == Cause.LEFT_WITHOUT_REASON:
            _look_closer(account, episode, trigger, awaited_ms.get(trigger.member, 0))
    if not episode.triggers:
        episode.triggers.append(Trigger(Cause.UNKNOWN))
    episode.cause = episode.triggers[0].cause
    _see_pattern(account, run, event)
    if episode.kind not in ("loaded", "stopped"):  # which is the broker's own doing
        episode.culprit = culprit(episode, run.longest_ms, run.late)


def is_unsure(episode: Episode) -> bool:
    """True if the connection of a member that left may yet tell why it did."""
    if episode.outcome == "empty" and episode.cause == Cause.LEFT_WITHOUT_REASON:
        return True
    return any(one.facts.get("evidence") == "awaited" for one in episode.triggers)


def reconsider(account: Account, episode: Episode) -> bool:
    """Something about a member that left became known after the episode had ended. Gives whether that told why."""
    before = [one.cause for one in episode.triggers]
    for trigger in episode.triggers:
        if trigger.cause == Cause.LEFT_WITHOUT_REASON or "evidence" in trigger.facts:
            _look_closer(account, episode, trigger, 0)
    if episode.cause == before[0]:  # and not that of a pattern
        episode.cause = episode.triggers[0].cause
    return before != [one.cause for one in episode.triggers]


def preview(run: Run, at_ms: int) -> None:
    """Name the cause of an episode that still runs, and the culprit as it is at a moment.

    A member that came is not, as long as those that it waits for may still come in time.
    """
    episode = run.episode
    if episode.triggers:
        episode.cause = episode.triggers[0].cause
        late = run.late_until(at_ms)
        found = culprit(episode, run.longest_ms, late)
        is_early = bool(run.awaited) and not late and found >= 0 and episode.members[found].fate in HERE
        episode.culprit = -1 if is_early else found


def _look_closer(account: Account, episode: Episode, trigger: Trigger, awaited_ms: int) -> None:
    """Clients without KIP-800 give no reason: what their connection did, and when, tells more.

    A member that heartbeats and does not rejoin, though the group waits (for ``awaited_ms``), is busy.
    """
    if not 0 <= trigger.member < len(episode.members):
        return
    gone = account.departures.of(episode.members[trigger.member].member_id)
    if gone is None or gone.cause not in (Cause.LEFT_WITHOUT_REASON, Cause.LEFT_CLOSED, Cause.LEFT_POLL_TIMEOUT):
        return
    if gone.closed_ms != NEVER and gone.closed_ms - gone.at_ms <= AT_CLOSE_MS:
        trigger.cause = gone.cause = Cause.LEFT_CLOSED
        trigger.facts["closed_after_ms"] = str(gone.closed_ms - gone.at_ms)
        trigger.facts.pop("evidence", None)
        return
    known = gone.known
    if account.protocol_type not in (None, PROTOCOL_TYPE):
        return  # it polls nothing
    if gone.closed_ms != NEVER or known.lost_ms != NEVER:
        return
    if awaited_ms:
        trigger.cause = gone.cause = Cause.LEFT_POLL_TIMEOUT
        trigger.facts |= {"evidence": "awaited", "waited_ms": str(awaited_ms)}
        return
    if known.sign_ms == NEVER:
        return
    late_ms = gone.at_ms - known.sign_ms - known.rebalance_timeout_ms
    early_ms = min(POLL_EARLY_MS, known.rebalance_timeout_ms // 3)
    if known.rebalance_timeout_ms and -early_ms <= late_ms <= POLL_LATE_MS:
        trigger.cause = gone.cause = Cause.LEFT_POLL_TIMEOUT
        trigger.facts["evidence"] = "connection open"


def _see_pattern(account: Account, run: Run, event: events.Event) -> None:
    """Find out if the episode is one of several of a kind."""
    episode = run.episode
    for trigger in episode.triggers[:8]:
        if not 0 <= trigger.member < len(episode.members) or episode.members[trigger.member].fate == "stayed":
            continue
        member_id = episode.members[trigger.member].member_id
        known = account.members.get(member_id)
        gone = account.departures.of(member_id)
        known = known or (gone.known if gone is not None else None)
        if known is None or not known.departures:
            continue
        departures = account.departures
        if (flaps := departures.flaps(known, event.wall_ms)) >= FLAPS:
            often = f"{flaps} or more" if flaps == MOST_PER_MEMBER else str(flaps)
            facts = {"times": often, "last": trigger.facts.get("went", trigger.cause)}
            _name_pattern(run, Cause.FLAPPING_MEMBER, trigger.member, event, facts)
            return
        if not (trigger.cause in RESTARTS or trigger.cause == Cause.MEMBER_RETURNED):
            continue
        restarted = departures.restarted(event.wall_ms)
        size = len(account.members)
        if restarted >= 2 and 2 * restarted >= size:
            facts = {"restarted": str(restarted), "members": str(size), "last": trigger.cause}
            _name_pattern(run, Cause.ROLLING_RESTART, trigger.member, event, facts)
            return


def _name_pattern(run: Run, cause: str, member: int, event: events.Event, facts: dict[str, str]) -> None:
    run.episode.cause = cause
    run.episode.triggers.append(Trigger(cause, member, run.at(event), "", facts))
