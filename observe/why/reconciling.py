"""A consumer group on its way to its target (KIP-848): how far each member is, and who waits for whom.

There is no barrier that all wait at. Each member comes to its target with its own heartbeats, and what one has to give
up first another one waits for. So the question is who has not done what, since when, and who suffers.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice

from ottla.broker.core.events import (
    Event,
    MemberReconciled,
    MemberSubscribed,
    RevocationAwaited,
    TargetComputed,
    TopicPartitions,
)
from ottla.observe.why.blame import LATE_MS
from ottla.observe.why.members import NEVER, Asked, Happening, Known, Partition
from ottla.observe.why.model import MemberWait
from ottla.observe.why.run import Run
from ottla.observe.why.waits import REVOKES

HEARD_EVERY_MS = 5_000
"""Members are heard of this often if it is not known what they were told."""
MARGIN_MS = 1_000
"""A heartbeat that comes so much later than it was due is not late."""
SHORT_MS = 50
"""A wait that was over sooner is not told."""
MOST_WAITS = 200
"""So many waits of an episode are told."""
MOST_PARTITIONS = 20
"""So many partitions of a wait are named."""
HOLDS_UP = frozenset(("told-to-revoke", "still-owns", "says-nothing", "not-heard", "away", "must-rejoin"))
"""Kinds of waits whose member others wait for; the end of a chain is one of these."""
WAITS = frozenset(("waits-for-release", "free"))
"""Kinds of waits of a member that waits for others, or did."""

STABLE, UNREVOKED, UNRELEASED = "STABLE", "UNREVOKED_PARTITIONS", "UNRELEASED_PARTITIONS"


@dataclass(slots=True, eq=False)
class Reconciled(Known):
    """A member of a consumer group.

    Attributes:
        has: its partitions; giving_up: those that it has to give up first; awaited: those of its target that others
            have not given up yet; target: all that it shall have, None while nothing was computed for it.
        epoch, previous_epoch, state: of the member, as Kafka has them.
        since_ms: since when it is in its state.
        deadline_ms: when it is removed if it does not give up; 0 if there is nothing to give up.
        beats: how often it was heard of since and had not given up; says: whether it said what it has.
        away_ms: when a static member went for a while; `NEVER` if it did not.
        regex: that it subscribes with, empty for none.
        heard_every_ms: how often it is to be heard of.
        owes: what a member of the classic protocol was told to do, ``must-rejoin`` or ``must-sync``, since owed_ms, and
            until owed_until_ms at the latest; empty for nothing.
    """

    has: dict[Partition, None] = field(default_factory=dict)
    giving_up: dict[Partition, None] = field(default_factory=dict)
    awaited: dict[Partition, None] = field(default_factory=dict)
    target: dict[Partition, None] | None = None
    epoch: int = 0
    previous_epoch: int = -1
    state: str = STABLE
    since_ms: int = NEVER
    deadline_ms: int = 0
    beats: int = 0
    says: bool = False
    away_ms: int = NEVER
    regex: str = ""
    heard_every_ms: int = HEARD_EVERY_MS
    is_classic: bool = False
    owes: str = ""
    owed_ms: int = NEVER
    owed_until_ms: int = 0

    def take(self, event: MemberSubscribed) -> None:
        """Take over what it says of itself."""
        self.client_id, self.client_host = event.client_id, event.client_host
        self.session_timeout_ms = event.session_timeout_ms
        self.rebalance_timeout_ms = event.rebalance_timeout_ms
        self.regex = event.regex
        self.heard_every_ms = event.heartbeat_interval_ms or HEARD_EVERY_MS
        self.is_classic = event.is_classic
        self.subscribe(event.names)

    def subscribe(self, names: list[str]) -> None:
        """Take over the topics that it names; of the protocols that it may offer nothing is known."""
        self.asked = Asked("", ())
        self.asked.topics, self.asked.is_partial = names, True

    def partitions(self, *, again: bool = False) -> tuple[Partition, ...]:
        return (*self.has, *self.giving_up)

    def strip(self) -> None:
        Known.strip(self)
        self.has, self.giving_up, self.awaited, self.target = {}, {}, {}, None


def places(rows: Iterable[TopicPartitions], names: Mapping[bytes, str] = {}) -> dict[Partition, None]:
    """Partitions of an event, by the names of their topics; those of topics that are gone by the ids.

    Args:
        names: of topics by their ids, where the event does not have them.
    """
    topics = ((row, row.topic or names.get(row.topic_id) or row.topic_id.hex()) for row in rows)
    return {(topic, number): None for row, topic in topics for number in row.partitions}


@dataclass(slots=True, eq=False)
class Reconciling:
    """See the module. Times are the broker's monotonic clock unless they say otherwise.

    Attributes:
        members: those of the group's account.
        epoch, assignment_epoch: of the group; the target is of the second one.
        bumped_ms: when the first of them rose last; target_ms: when the second did.
        until_wall_ms: before this Unix time no target may be computed, 0 if one may.
        behind: the members that have not arrived at the target, by id.
        names: of topics, by their ids.
        owners: who had each partition last; heirs: whose target it was in last.
        freed_ms: when somebody gave partitions up last.
        resolved: the regexes that were held against the topics, each with how many it comes to.
        asked_ms: since when others have not been.
        unsaid: who came and was not told of, as it began nothing so far: its regex was yet to be held against topics.
    """

    members: Mapping[str, Known]
    epoch: int = 1
    assignment_epoch: int = 1
    bumped_ms: int = NEVER
    target_ms: int = NEVER
    until_wall_ms: int = 0
    behind: dict[str, None] = field(default_factory=dict)
    names: dict[bytes, str] = field(default_factory=dict)
    owners: dict[Partition, str] = field(default_factory=dict)
    heirs: dict[Partition, str] = field(default_factory=dict)
    freed_ms: int = NEVER
    resolved: dict[str, int] = field(default_factory=dict)
    asked_ms: dict[str, int] = field(default_factory=dict)
    unsaid: list[Happening] = field(default_factory=list)

    @property
    def is_settled(self) -> bool:
        """True if every member has its target, which is of the group's epoch."""
        return self.epoch == self.assignment_epoch and not self.behind

    def member(self, member_id: str) -> Reconciled | None:
        """A member that is there."""
        known = self.members.get(member_id)
        return known if isinstance(known, Reconciled) else None

    def each(self) -> Iterator[Reconciled]:
        """All members."""
        return (known for known in self.members.values() if isinstance(known, Reconciled))

    def awaits_regex(self, known: Known | None) -> bool:
        """True if the regex of a member has not been held against the topics."""
        return isinstance(known, Reconciled) and bool(known.regex) and known.regex not in self.resolved

    def revoking(self) -> Iterator[Reconciled]:
        """Members that have partitions to give up."""
        return (known for known in self.each() if known.giving_up)

    # What happens

    def targeted(self, event: TargetComputed) -> None:
        """A target was computed: everybody has to come to it."""
        self.assignment_epoch = event.epoch
        self.target_ms, self.until_wall_ms = event.at_ms, 0
        self.behind = dict.fromkeys(self.members)
        for row in event.changed:
            self.names.update((one.topic_id, one.topic) for one in row.partitions if one.topic)
            if (known := self.member(row.member_id)) is not None:
                known.target = places(row.partitions)
                self.heirs.update(dict.fromkeys(known.target, row.member_id))
        if len(self.heirs) > 2 * sum(len(one.target or ()) for one in self.each()) + MOST_PARTITIONS:
            # Most are of topics that are gone.
            self.heirs = {one: known.member_id for known in self.each() for one in known.target or ()}
            self.owners = {one: owner for one, owner in self.owners.items() if one in self.heirs}
            topics = {topic for topic, _ in self.heirs}
            self.names = {topic_id: topic for topic_id, topic in self.names.items() if topic in topics}

    def stepped(self, known: Reconciled, event: MemberReconciled) -> None:
        """A member came a step further."""
        pending = places(event.pending)
        if event.state != known.state or pending != known.giving_up:
            known.since_ms, known.beats, known.says = event.at_ms, 0, False
        if known.giving_up.keys() - pending:
            self.freed_ms = event.at_ms
        known.epoch, known.previous_epoch, known.state = event.epoch, event.previous_epoch, event.state
        known.has, known.giving_up = places(event.assigned), pending
        known.awaited, known.deadline_ms = places(event.awaited), event.deadline_ms
        known.owned = len(known.has) + len(known.giving_up)
        known.away_ms = NEVER
        if event.state == STABLE and event.epoch == self.assignment_epoch:
            self.behind.pop(known.member_id, None)
        else:
            self.behind[known.member_id] = None

    def heard(self, known: Reconciled, event: RevocationAwaited) -> None:
        """A member was heard of, and has not given up what it has to."""
        known.beats += 1
        known.says = event.said

    # Who waits for whom

    def wait_of(self, known: Reconciled, at_ms: int, *, is_over: bool = False) -> MemberWait | None:
        """What a member waits for, or others wait for it to do; times are on the monotonic clock.

        Args:
            at_ms: the moment that is asked about; is_over: an episode ends then, of which those who are gone were part.
        """
        since_ms, limit_ms, wanted = known.since_ms, 0, known.giving_up
        session_ms = known.heard_ms + known.session_timeout_ms if known.heard_ms != NEVER else 0
        if known.away_ms != NEVER:
            kind, since_ms, limit_ms, wanted = "away", known.away_ms, session_ms, known.has
        elif known.owes:
            kind, since_ms, limit_ms = known.owes, known.owed_ms, known.owed_until_ms
            # Until it has joined again, it is not told what to give up.
            wanted = wanted or {one: None for one in known.has if one not in (known.target or {})}
        elif known.state == UNREVOKED:
            kind = "told-to-revoke"
            limit_ms = min([one for one in (known.deadline_ms, session_ms) if one], default=0)
            if known.beats:  # so its session goes on
                kind, limit_ms = "still-owns" if known.says else "says-nothing", known.deadline_ms
        elif known.member_id in self.behind and known.epoch < self.assignment_epoch:
            target = known.target or {}
            kind, since_ms, limit_ms = "not-heard", self.target_ms, session_ms
            if at_ms < self.late_ms(known):
                kind, limit_ms = "next-heartbeat", self.target_ms + known.heard_every_ms
            wanted = {one: None for one in known.has if one not in target}
        elif known.state == UNRELEASED:
            kind, wanted = "waits-for-release", known.awaited
            if all(self._is_free(one) for one in wanted):
                kind, limit_ms = "free", self.freed_ms + known.heard_every_ms if self.freed_ms != NEVER else 0
        else:
            return None
        blocks = [] if kind in WAITS else self._who_awaits(known, wanted, is_over=is_over)
        named = [f"{topic}-{number}" for topic, number in islice(wanted, MOST_PARTITIONS)]
        untold = len(wanted) - len(named)
        return MemberWait(kind, known.member_id, since_ms, -1, limit_ms, named, blocks, known.beats, untold=untold)

    def late_ms(self, known: Reconciled) -> int:
        """From when on a member is late for the target: it hears of that with its next heartbeat."""
        return self.target_ms + known.heard_every_ms + MARGIN_MS

    def _is_free(self, partition: Partition) -> bool:
        """True if somebody had a partition, and has given it up or is gone."""
        owner = self.owners.get(partition)
        if owner is None:
            return False
        known = self.member(owner)
        return known is None or (partition not in known.has and partition not in known.giving_up)

    def _who_awaits(self, holder: Reconciled, wanted: Mapping[Partition, None], *, is_over: bool) -> list[str]:
        found: dict[str, None] = {}
        for partition in wanted:
            heir = self.heirs.get(partition, "")
            one = self.member(heir)
            if one is None:
                awaits = is_over and bool(heir)
            else:
                awaits = one is not holder and partition in (one.target or {}) and partition not in one.has
            if awaits:
                found[heir] = None
        return list(found)

    def waits(self, at_ms: int, wall_ms: int) -> list[MemberWait]:
        """All that the group waits for now, the longest first; those that hold others up before all others."""
        found = [wait for known in self.each() if (wait := self.wait_of(known, at_ms)) is not None]
        if self.epoch > self.assignment_epoch and self.members:
            since_ms = self.bumped_ms if self.bumped_ms != NEVER else at_ms
            if all(known.is_classic for known in self.each()):
                found.append(MemberWait("nobody-joins", "", since_ms))
            elif wall_ms < self.until_wall_ms:
                limit_ms = at_ms + self.until_wall_ms - wall_ms
                found.append(MemberWait("interval", "", since_ms, -1, limit_ms))
            else:
                found.append(MemberWait("nobody-heartbeats", "", since_ms))
        for known in self.each():
            if self.awaits_regex(known):
                found.append(MemberWait("regex", known.member_id, self.asked_ms.get(known.regex, at_ms)))
        return sorted(found, key=lambda one: (not is_holding_up(one, at_ms), one.since_ms))

    def leave_unread(self, run: Run, event: Event) -> None:
        """An episode ends with partitions that a regex matches and nobody reads: an assignor took its member for one of
        those that subscribe to the same topics.
        """
        unread = []
        for known in self.each():
            if known.target and (stray := [one for one in known.target if one not in known.has]):
                unread.append(self._wait("not-subscribed", known, event.at_ms, stray))
        if not any(known.has for known in self.each()):
            matching = [known for known in self.each() if self.resolved.get(known.regex)]
            unread += [self._wait("no-target", known, event.at_ms, []) for known in matching[:1]]
        for wait in unread:
            wait.until_ms, wait.goes_on = event.at_ms, True
            run.episode.member_waits.append(told(run, wait))

    def _wait(self, kind: str, known: Reconciled, since_ms: int, partitions: Collection[Partition]) -> MemberWait:
        named = [f"{topic}-{number}" for topic, number in islice(partitions, MOST_PARTITIONS)]
        return MemberWait(kind, known.member_id, since_ms, partitions=named, untold=len(partitions) - len(named))

    def leave_open(self, run: Run, event: Event) -> None:
        """An episode ends, and members have not done what others waited for."""
        for member_id in self.behind:
            known = self.member(member_id)
            wait = None if known is None else self.wait_of(known, event.at_ms, is_over=True)
            if wait is not None and is_holding_up(wait, event.at_ms):
                wait.goes_on = True
                note(run, wait, event)


def is_holding_up(wait: MemberWait, at_ms: int) -> bool:
    """True if a member is late, and waits for nobody itself.

    Partitions that it has to give up stand still, whether or not somebody waits for them.
    """
    if wait.kind in REVOKES:
        return at_ms - wait.since_ms >= LATE_MS
    return wait.kind in HOLDS_UP and bool(wait.blocks)


def note(run: Run, wait: MemberWait | None, event: Event, *, is_cut_off: bool = False) -> None:
    """A wait is over: an episode tells of it unless it was short."""
    waits = run.episode.member_waits
    if wait is None or event.at_ms - wait.since_ms < SHORT_MS or len(waits) >= MOST_WAITS:
        return
    wait.until_ms, wait.is_cut_off = event.at_ms, is_cut_off
    waits.append(told(run, wait))


def told(run: Run, wait: MemberWait) -> MemberWait:
    """A wait as an episode tells of it: times after its start, members by their index."""
    wait.since_ms -= run.start_ms
    wait.limit_ms = wait.limit_ms - run.start_ms if wait.limit_ms else 0
    wait.until_ms = wait.until_ms - run.start_ms if wait.until_ms >= 0 else -1
    wait.member = run.index.get(wait.member_id, -1)
    wait.blocked = [run.index[member_id] for member_id in wait.blocks if member_id in run.index]
    wait.member_id, wait.blocks = "", []
    return wait
