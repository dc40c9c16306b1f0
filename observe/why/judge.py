"""What the facts mean: which class a cause belongs to, who is to be named, and when nothing can be said."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ottla.broker.core.events import (
    Event,
    JoinReceived,
    LeaveReceived,
    MemberAdded,
    MemberReplaced,
    OwnershipChanged,
    RebalanceStarted,
    SessionExpired,
)
from ottla.observe.why.blame import culprit
from ottla.observe.why.departures import AT_CLOSE_MS, FLAPS, MOST_PER_MEMBER, RESTARTS
from ottla.observe.why.members import NEVER, Asked, Departure, Known, read_partitions
from ottla.observe.why.model import Episode, Trigger
from ottla.observe.why.plain import HERE
from ottla.observe.why.reasons import joining_class, leaving_class, said
from ottla.observe.why.run import Run
from ottla.protocol.consumer_protocol import PROTOCOL_TYPE

if TYPE_CHECKING:
    from ottla.observe.why.account import Account, Happening

REPLACED = {
    "Stable": "static-member-replaced",
    "PreparingRebalance": "static-member-replaced",
    "CompletingRebalance": "static-replaced-while-syncing",
}
"""By the state in which a static member comes back."""
WRITES = {
    "assignments": "assignment-write-failed",
    "new generation": "generation-write-failed",
    "new group": "group-write-failed",
}
"""By what could not be written; other records begin nothing."""
LOST_GENERATION = frozenset(("ILLEGAL_GENERATION", "UNKNOWN_MEMBER_ID"))
AFTER_LOAD_MS = 120_000
"""A generation that is refused this soon after a load was lost by it."""
POLL_EARLY_MS, POLL_LATE_MS = 5_500, 3_000
"""How far the last sign of an application may be from ``max.poll.interval.ms`` before its member leaves: clients
commit what was polled up to five seconds later, and look at the interval every now and then."""
_REASONS: tuple[tuple[str, str], ...] = (
    (r"Adding new member (\S+)", "member-joined"),
    (r"Leader (\S+) re-joining", "leader-rejoined"),
    (r"Updating metadata for static member (\S+)", "static-replaced-while-syncing"),
    (r"Updating metadata for member (\S+)", "member-rejoined"),
    (r"because static member (\S+)", "static-replaced-protocol-changed"),
    (r"explicit `LeaveGroup` request for \(([^,)]+)", "left-without-reason"),
    (r"removing member (\S+) on heartbeat expiration", "session-expired"),
    (r"^Removing ([^, ]+).* on pending sync request expiration", "sync-timeout"),
    (r"when storing group assignment.*\(member: ([^)]+)", "assignment-write-failed"),
    (r"when storing generation", "generation-write-failed"),
    (r"^Freshly-loaded group .* is over capacity", "over-capacity-on-load"),
    (r"was formed but not assigned", "unassigned-on-load"),
)


def by_reason(tracker: Account, event: RebalanceStarted) -> Happening:
    """The class by the coordinator's own words, where nothing else was seen of what began it."""
    from ottla.observe.why.account import Happening

    for pattern, cause in _REASONS:
        if (match := re.search(pattern, event.reason)) is None:
            continue
        member_id = match[1] if match.re.groups else ""
        known = tracker.members.get(member_id)
        _, _, client = event.reason.partition("client reason: ")
        words = said(client)
        if cause == "left-without-reason":
            cause = "unknown" if known is None else leaving_class(words)
        facts = {} if known is not None or not member_id else {"member_id": member_id}
        if cause == "over-capacity-on-load":
            facts = {"members": str(event.members)}
        return Happening(cause, known, words, facts)
    return Happening("unknown", None, event.reason, {})


def state_before(tracker: Account) -> str:
    """The state that the group was in before the input that is looked at."""
    return tracker.previous if tracker.state == "PreparingRebalance" else tracker.state


# Who comes


def return_facts(before: Departure, event: MemberAdded) -> dict[str, str]:
    """How the member went that is back, and how long it was away."""
    facts = {"went": before.cause, "away_ms": str(event.wall_ms - before.wall_ms)}
    if before.heard_ms != NEVER:
        facts["heard_again_ms"] = str(before.heard_ms - before.at_ms)
    return facts


def replacement_facts(known: Known, event: MemberReplaced, join: JoinReceived | None) -> dict[str, str]:
    """The id that was replaced, and how long nobody was there."""
    facts = {"old_member_id": event.old_member_id}
    if known.lost_ms != NEVER:
        facts["away_ms"] = str(event.at_ms - max(known.lost_ms, known.heard_ms))
    if join is not None:
        offered = [protocol.name for protocol in join.protocols]
        if offered != known.asked.names and not known.asked.is_partial:
            facts |= {"before": ", ".join(known.asked.names), "after": ", ".join(offered)}
    return facts


def rejoin(tracker: Account, known: Known, before: Asked, join: JoinReceived) -> tuple[str, dict[str, str]]:
    """Why a member joins again."""
    after = known.asked
    if before.topics is not None and after.topics is not None and before.topics != after.topics:
        came = [topic for topic in after.topics if topic not in before.topics]
        went = [topic for topic in before.topics if topic not in after.topics]
        facts = {"came": ", ".join(came), "went": ", ".join(went)}
        return "subscription-changed", facts | _by_pattern(tracker, came, went, join)
    if before.names != after.names and not before.is_partial:
        return "assignor-list-changed", {"before": ", ".join(before.names), "after": ", ".join(after.names)}
    by_words = joining_class(said(join.reason))
    if by_words in ("topic-metadata-changed", "rebalance-enforced", "cooperative-follow-up", "subscription-changed"):
        if by_words == "topic-metadata-changed":
            return by_words, _changed_topics(tracker, after, join)
        return by_words, _given_up(before, after) if by_words == "cooperative-follow-up" else {}
    if tracker.state == "CompletingRebalance":
        return "metadata-changed-while-syncing", {}
    if known.error in LOST_GENERATION and _just_loaded(tracker, join):
        return "generation-lost-on-load", {"error": known.error}
    if by_words is not None or known.error:
        return "rejoined-after-error", {"error": known.error} if known.error else {}
    if known.member_id == tracker.leader_id and (changed := _changed_topics(tracker, after, join)):
        return "topic-metadata-changed", changed  # librdkafka gives no reason
    if before.held != after.held and not before.is_partial:
        return "cooperative-follow-up", _given_up(before, after)
    if before.user_data != after.user_data and not before.is_partial:
        return "user-data-changed", {}
    return "leader-rejoined" if known.member_id == tracker.leader_id else "member-rejoined", {}


def _changed_topics(tracker: Account, asked: Asked, event: Event) -> dict[str, str]:
    """What became of topics that a leader subscribes to, and nobody in the group knew of; empty if nothing did."""
    changes = tracker.topics.changed(asked.topics or (), event.at_ms)
    if not changes:
        return {}
    owned = {one for known in tracker.members.values() for one in read_partitions(known.assignment) or ()}
    news = [seen for one in changes if (seen := one.seen_from(owned)) is not None]
    if not news:
        return {}
    more = {"more": str(len(news) - 1)} if len(news) > 1 else {}
    return news[0].facts(event.at_ms) | more


def _by_pattern(tracker: Account, came: list[str], went: list[str], event: Event) -> dict[str, str]:
    """What became of a topic that explains a change of subscription: with a pattern the client does that by itself."""
    found = tracker.topics.changed([*came, *went], event.at_ms)
    changes = [one for one in found if one.at_ms > tracker.formed_ms]  # a pattern would have had the others before
    created = {one.topic for one in changes if one.partitions and not one.partitions_before}
    deleted = {one.topic for one in changes if not one.partitions}
    return changes[0].facts(event.at_ms) if changes and created >= {*came} and deleted >= {*went} else {}


def _given_up(before: Asked, after: Asked) -> dict[str, str]:
    return {"held": str(len(after.held))}


def _just_loaded(tracker: Account, event: Event) -> bool:
    return tracker.loaded_ms != NEVER and event.at_ms - tracker.loaded_ms <= AFTER_LOAD_MS


# Who goes


def departure(known: Known, leave: LeaveReceived, cause: str, event: Event) -> tuple[str, dict[str, str]]:
    """Whether a member left or was removed, by who sent the LeaveGroup."""
    facts: dict[str, str] = {}
    by_other = bool(known.client_id and leave.client_id and leave.client_id != known.client_id)
    by_instance = any(one.group_instance_id == known.group_instance_id and not one.member_id for one in leave.leaving)
    if by_other or cause == "removed-by-admin" or (known.group_instance_id is not None and by_instance):
        return "removed-by-admin", {"by": leave.client_id, "from": leave.client_host}
    if known.sign_ms != NEVER:
        facts["idle_ms"] = str(event.at_ms - known.sign_ms)
    return cause, facts


def expiry(known: Known) -> str:
    """How a session came to run out."""
    if known.lost_ms != NEVER and known.lost_ms >= known.heard_ms:
        return "session-expired-connection-lost"
    return "session-expired-silent" if known.is_connected else "session-expired"


def is_unheard(tracker: Account, known: Known, heard_ms: int) -> bool:
    """Whether a member was read from the log and never heard of since: its session then begins with the load."""
    return known.heard_ms == NEVER and tracker.loaded_ms != NEVER and heard_ms <= tracker.loaded_ms


def expiry_facts(tracker: Account, known: Known, event: SessionExpired) -> dict[str, str]:
    """When it was last heard of, and how long that was allowed to be."""
    facts = {"session_timeout_ms": str(event.session_timeout_ms)}
    if not event.is_new and is_unheard(tracker, known, event.last_heard_ms):
        facts["unheard_ms"] = str(event.at_ms - tracker.loaded_ms)
    if known.heard_ms != NEVER:
        facts["heard_ago_ms"] = str(event.at_ms - known.heard_ms)
    if known.lost_ms != NEVER:
        facts["lost_ago_ms"] = str(event.at_ms - known.lost_ms)
    return facts


def dropped_facts(tracker: Account, run: Run, known: Known, event: Event) -> dict[str, str]:
    """Whether somebody who missed a barrier was alive: a heartbeat since it opened shows that it was."""
    wait = run.episode.waits[-1] if run.episode.waits else None
    facts = _alive(known, event, run.start_ms + (wait.opened_ms if wait is not None else 0))
    if known.heard_ms == NEVER and tracker.loaded_ms != NEVER:
        facts["unheard_ms"] = str(event.at_ms - tracker.loaded_ms)
    if wait is not None:
        facts["waited_ms"] = str(run.at(event) - wait.opened_ms)
    return facts


def unsynced_facts(tracker: Account, known: Known, event: Event) -> dict[str, str]:
    """The same for the sync barrier."""
    run = tracker.run
    wait = None if run is None else run.open_wait("sync")
    since_ms = event.at_ms - known.rebalance_timeout_ms
    if run is not None and wait is not None:
        since_ms = run.start_ms + wait.opened_ms
    return _alive(known, event, since_ms) | {
        "generation": str(tracker.generation),
        "waited_ms": str(event.at_ms - since_ms),
    }


def _alive(known: Known, event: Event, since_ms: int) -> dict[str, str]:
    if known.heard_ms == NEVER:
        return {"alive": "unknown"}
    facts = {"heard_ago_ms": str(event.at_ms - known.heard_ms)}
    if known.lost_ms != NEVER and known.lost_ms >= known.heard_ms:
        return facts | {"alive": "lost", "lost_ago_ms": str(event.at_ms - known.lost_ms)}
    return facts | {"alive": "yes" if known.heard_ms > since_ms else "no"}


# The end of an episode


def ownership(tracker: Account) -> bool:
    """Whether what happens now is due to the broker taking the group over or giving it up."""
    return isinstance(tracker.input, OwnershipChanged)


def conclude(tracker: Account, run: Run, event: Event) -> None:
    """Name the cause and the culprit, now that everything about an episode is known."""
    episode = run.episode
    awaited_ms = {one.member: one.until_ms - one.from_ms for one in run.late}
    for trigger in episode.triggers:
        if trigger.cause == "left-without-reason":
            _look_closer(tracker, episode, trigger, awaited_ms.get(trigger.member, 0))
    if not episode.triggers:
        episode.triggers.append(Trigger("unknown"))
    episode.cause = episode.triggers[0].cause
    _see_pattern(tracker, run, event)
    if episode.kind not in ("loaded", "stopped"):  # which is the broker's own doing
        episode.culprit = culprit(episode, run.longest_ms, run.late)


def is_unsure(episode: Episode) -> bool:
    """Whether the connection of a member that left may yet tell why it did."""
    if episode.outcome == "empty" and episode.cause == "left-without-reason":
        return True
    return any(one.facts.get("evidence") == "awaited" for one in episode.triggers)


def reconsider(tracker: Account, episode: Episode) -> bool:
    """Something about a member that left became known after the episode had ended. Gives whether that told why."""
    before = [one.cause for one in episode.triggers]
    for trigger in episode.triggers:
        if trigger.cause == "left-without-reason" or "evidence" in trigger.facts:
            _look_closer(tracker, episode, trigger, 0)
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


def _look_closer(tracker: Account, episode: Episode, trigger: Trigger, awaited_ms: int) -> None:
    """Clients without KIP-800 give no reason: what their connection did, and when, tells more.

    A member that heartbeats and does not rejoin, though the group waits (for ``awaited_ms``), is busy.
    """
    if not 0 <= trigger.member < len(episode.members):
        return
    gone = tracker.departures.of(episode.members[trigger.member].member_id)
    if gone is None or gone.cause not in ("left-without-reason", "left-closed", "left-poll-timeout"):
        return
    if gone.closed_ms != NEVER and gone.closed_ms - gone.at_ms <= AT_CLOSE_MS:
        trigger.cause = gone.cause = "left-closed"
        trigger.facts["closed_after_ms"] = str(gone.closed_ms - gone.at_ms)
        trigger.facts.pop("evidence", None)
        return
    known = gone.known
    if tracker.protocol_type not in (None, PROTOCOL_TYPE):
        return  # it polls nothing
    if gone.closed_ms != NEVER or known.lost_ms != NEVER:
        return
    if awaited_ms:
        trigger.cause = gone.cause = "left-poll-timeout"
        trigger.facts |= {"evidence": "awaited", "waited_ms": str(awaited_ms)}
        return
    if known.sign_ms == NEVER:
        return
    late_ms = gone.at_ms - known.sign_ms - known.rebalance_timeout_ms
    early_ms = min(POLL_EARLY_MS, known.rebalance_timeout_ms // 3)
    if known.rebalance_timeout_ms and -early_ms <= late_ms <= POLL_LATE_MS:
        trigger.cause = gone.cause = "left-poll-timeout"
        trigger.facts["evidence"] = "connection open"


def _see_pattern(tracker: Account, run: Run, event: Event) -> None:
    """Whether it is one of several of a kind."""
    episode = run.episode
    for trigger in episode.triggers[:8]:
        if not 0 <= trigger.member < len(episode.members) or episode.members[trigger.member].fate == "stayed":
            continue
        member_id = episode.members[trigger.member].member_id
        known = tracker.members.get(member_id)
        gone = tracker.departures.of(member_id)
        known = known or (gone.known if gone is not None else None)
        if known is None or not known.departures:
            continue
        departures = tracker.departures
        if (flaps := departures.flaps(known, event.wall_ms)) >= FLAPS:
            often = f"{flaps} or more" if flaps == MOST_PER_MEMBER else str(flaps)
            facts = {"times": often, "last": trigger.facts.get("went", trigger.cause)}
            _name_pattern(run, "flapping-member", trigger.member, event, facts)
            return
        if not (trigger.cause in RESTARTS or trigger.cause == "member-returned"):
            continue
        restarted = departures.restarted(event.wall_ms)
        size = len(tracker.members)
        if restarted >= 2 and 2 * restarted >= size:
            facts = {"restarted": str(restarted), "members": str(size), "last": trigger.cause}
            _name_pattern(run, "rolling-restart", trigger.member, event, facts)
            return


def _name_pattern(run: Run, cause: str, member: int, event: Event, facts: dict[str, str]) -> None:
    run.episode.cause = cause
    run.episode.triggers.append(Trigger(cause, member, run.at(event), "", facts))
