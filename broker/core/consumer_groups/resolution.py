"""How the regexes of a consumer group come to be resolved: beside the requests, all of a group's at once (3.3)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from ottla.broker.core.consumer_groups.changes import Change
from ottla.broker.core.consumer_groups.facts import RegexResolved
from ottla.broker.core.consumer_groups.group import ConsumerGroup
from ottla.broker.core.consumer_groups.regexes import ResolvedRegex, Visible, is_resolution_due, resolve
from ottla.broker.core.coordination.machine import TimerKey
from ottla.broker.core.effects import Asker, Work
from ottla.broker.core.events import RegexChange, RegexesResolved, RegexResolutionStarted
from ottla.broker.core.groups import notes
from ottla.broker.core.groups.machine import Machine, Timer
from ottla.protocol.steps import finished

MOST_TOLD = 20
"""So many topics that came to a regex, or went from it, are named to observers."""


def start_if_due(change: Change, resolved: Mapping[str, ResolvedRegex], ctx: Asker, *, brings_new: bool) -> None:
    """Begin to resolve the regexes of a group if it is time; no answer waits for that (R3.11, R3.12).

    Args:
        resolved: the regexes that were resolved before the request.
        brings_new: the request brings one that no member had.
    """
    m, group, users = change.m, change.group, change.state.subscriptions.regexes
    if not users or group.resolving is not None or TimerKey(Timer.REGEX, group.group_id) in m.deadlines:
        return
    if is_resolution_due(
        resolved,
        len(users),
        brings_new=brings_new,
        newest_topic_version=m.topics.newest_version,
        refresh_interval_ms=m.config.group_consumer_regex_refresh_interval_ms,
        wall_ms=m.wall_ms,
    ):
        change.events.append(RegexResolutionStarted(group_id=group.group_id, regexes=list(users)))
        change.starts_resolution = True
        group.asker = ctx


@dataclass(slots=True, eq=False)
class Resolving:
    """A resolution under way: of a group, with the topics of some version, since some time."""

    group: ConsumerGroup
    version: int
    timestamp_ms: int


def begin(m: Machine, group: ConsumerGroup) -> None:
    """Have the regexes resolved beside everything else: one may need milliseconds for each topic."""
    resolving = group.resolving = Resolving(group, m.topics.version, m.wall_ms)
    regexes, names = list(group.state.subscriptions.regexes), list(m.topics.by_name)
    m.effects.append(Work(resolve(regexes, names, _visible(m, group)), resolving))


def _visible(m: Machine, group: ConsumerGroup) -> Visible | None:
    """The topics that the group may come to: those that the member may describe whose heartbeat began this, as in
    Kafka.
    """
    asker, group.asker = group.asker, None
    return None if m.visible_topics is None or asker is None else partial(m.visible_topics, asker)


def resolve_now(m: Machine, group: ConsumerGroup) -> None:
    """Resolve the regexes within this entry."""
    found = finished(resolve(list(group.state.subscriptions.regexes), m.topics.by_name, _visible(m, group)))
    finish(m, Resolving(group, m.topics.version, m.wall_ms), found)


def resume(m: Machine, resolving: Resolving, found: Mapping[str, tuple[str, ...]] | None) -> None:
    """The regexes are resolved. If that failed nothing changes, and a later heartbeat begins anew (R3.15)."""
    group = resolving.group
    if group.resolving is not resolving:
        return
    group.resolving = None
    if found is not None and m.groups.get(group.group_id) is group:
        m.begin(m.now_ms)
        notes.fired(m, TimerKey(Timer.REGEX, group.group_id))
        finish(m, resolving, found)


def finish(m: Machine, resolving: Resolving, found: Mapping[str, tuple[str, ...]]) -> None:
    """Write what the regexes that are still used came to, and let the group have another epoch if that changes its
    topics (R3.14).
    """
    group = resolving.group
    state = group.state
    topics = {regex: names for regex, names in found.items() if regex in state.subscriptions.regexes}
    if not topics:
        return
    changed, brings_change = [], False
    with Change(m, group) as change:
        for regex, names in topics.items():
            before = state.resolved.get(regex)
            if before is None or before.topics != names:
                changed.append(_change(regex, before, names))
            # One that matches nothing changes nothing.
            brings_change = brings_change or names != (before.topics if before is not None else ())
            change.add(RegexResolved(regex, ResolvedRegex(names, resolving.version, resolving.timestamp_ms)))
        change.events.append(RegexesResolved(group_id=group.group_id, regexes=list(topics), changed=changed))
        metadata_hash = m.topics.hash_of(change.state.subscriptions.topics())
        if brings_change or metadata_hash != change.state.metadata_hash:
            change.bump(metadata_hash, ["regex resolved"])
            change.is_due = False


def _change(regex: str, before: ResolvedRegex | None, after: Sequence[str]) -> RegexChange:
    known = frozenset(() if before is None else before.topics)
    still = frozenset(after)
    went = [] if before is None else [name for name in before.topics if name not in still]
    return RegexChange(regex, len(after), [name for name in after if name not in known][:MOST_TOLD], went[:MOST_TOLD])


def forget_unused(change: Change, regexes: Iterable[str]) -> None:
    """Delete what some regexes came to that nobody uses any more (R3.10)."""
    users = change.state.subscriptions.regexes
    for regex in dict.fromkeys(regexes):
        if regex and regex not in users:
            change.add(RegexResolved(regex, None))
