"""The sentinels: an observer of the coordinator's events that also looks at each group now and then.

What happens is noticed as it does; what lasts is found by looking. Every group is looked at once an interval, a slice
of them each second, those that wait for members and those in which something changed every second.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterator
from functools import partial

from ottla.broker.clock import Clock, TimerHandle
from ottla.broker.core import events
from ottla.broker.logger import Logger
from ottla.broker.settings import Settings
from ottla.observe.sentinels.board import Board
from ottla.observe.sentinels.looks import look
from ottla.observe.sentinels.model import Finding, Now, named, short
from ottla.observe.sentinels.progress import Progress
from ottla.observe.sentinels.repeats import REFUSALS, Repeats
from ottla.observe.snapshot import GroupState
from ottla.observe.view import View
from ottla.observe.why.model import Episode

TURN_MS = 1_000
"""Period in which a slice of the groups is looked at."""
MOST_A_TURN = 500
LONGEST_TURN_MS = 10
"""So many groups are looked at in one turn at most, and for so long; then the interval takes longer."""

LARGE_MEMBERS = 200
"""A group with more members is described over several turns of the loop."""
MEMBERS_A_SECOND = 200
"""So many members of such a group are described on average: one that grows would be described each second."""
LONGEST_REST_MS = 60_000
"""A very large group is looked at so often in any case."""

MOST_FAILED = 16
"""After a bug with so many groups no group is looked at any more: each costs a traceback in the log."""

FENCED = frozenset(("ILLEGAL_GENERATION", "FENCED_INSTANCE_ID", "STALE_MEMBER_EPOCH", "UNKNOWN_MEMBER_ID"))
RESTLESS = frozenset(("PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling"))


class Sentinels(events.ByType):
    """See the module.

    Args:
        emit: is told of each alarm as an event.

    Attributes:
        board: the alarms.
    """

    at_once = wants_requests = True

    def __init__(
        self, view: View, settings: Settings, log: Logger, clock: Clock, emit: events.Emit = events.UNOBSERVED
    ) -> None:
        self._view = view
        self._settings = settings
        self._log = log
        self._clock = clock
        self._share = 0
        self.board = Board(settings, log, emit)
        self._progress = Progress(settings)
        self._repeats = Repeats(settings)
        self._restless: dict[str, None] = {}
        self._wanted: OrderedDict[str, None] = OrderedDict()
        self._failed: dict[str, None] = {}
        self._described: dict[str, None] = {}  # the large groups that are being described
        self._rests_until_ms: dict[str, int] = {}  # large groups
        self._cycle: deque[str] = deque()
        self._timer: TimerHandle | None = None
        self._last_commit: events.CommitNote | None = None
        self.by_type = {
            events.StateChanged: self._state_changed,
            events.GroupLoaded: self._loaded,
            events.ConsumerGroupLoaded: self._loaded,
            events.GroupRemoved: self._removed,
            events.JoinReceived: self._repeats.join_received,
            events.ConsumerHeartbeatReceived: self._repeats.join_received,
            events.RebalanceStarted: self._repeats.rebalanced,
            events.GroupEpochBumped: self._bumped,
            events.RequestRefused: self._refused,
            events.OffsetsCommitted: self._committed,
        }

    # -- looking

    def start(self) -> None:
        """Look every second from now on."""
        self._timer = self._clock.call_at(self._clock.monotonic_ms() + TURN_MS, self._turn)

    def stop(self) -> None:
        """Look no more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _turn(self) -> None:
        try:
            self.sweep()
        except Exception:  # a bug of ours: nobody else may suffer from it, and nobody wants to read of it each second
            self._log.error("the sentinels failed, and look no more", exc_info=True)
            return
        self.start()

    def sweep(self) -> None:
        """One turn: look at a slice of the groups, and at those that need it."""
        if not self._cycle:
            self._cycle.extend(self._view.group_ids())
            self._repeats.forget_quiet(self._clock.monotonic_ms())
            self._share = -(-len(self._cycle) * TURN_MS // self._settings.ottla_sentinel_interval_ms)
        wanted = self._wanted
        wanted.update(dict.fromkeys((*self._restless, *self.board.groups())))
        for _ in range(min(self._share, max(1, MOST_A_TURN - len(wanted)), len(self._cycle))):
            wanted[self._cycle.popleft()] = None
        now = Now(self._clock.monotonic_ms(), self._clock.wall_ms())
        real_ms = self._clock.real.monotonic_ms
        until_ms = real_ms() + LONGEST_TURN_MS
        for _ in range(min(len(wanted), MOST_A_TURN)):
            group_id = wanted.popitem(last=False)[0]
            try:
                if group_id not in self._failed:
                    self._look(group_id, now)
            except Exception:  # a bug of ours with this group: the others are looked at all the same
                self._fail(group_id)
                if len(self._failed) > MOST_FAILED:
                    raise
            if real_ms() >= until_ms:
                break

    def _look(self, group_id: str, now: Now) -> None:
        view = self._view
        # While it rebalances it is looked at each second, and to describe ten thousand members takes a part of that.
        is_calm = view.waits_calmly(group_id, self._settings.ottla_sentinel_barrier_ms)
        if not is_calm and (members := view.member_count(group_id)) > LARGE_MEMBERS:
            if now.ms < self._rests_until_ms.get(group_id, 0):
                self._wanted[group_id] = None
            elif group_id not in self._described:
                rest_ms = min(members * 1_000 // MEMBERS_A_SECOND, LONGEST_REST_MS)
                self._rests_until_ms[group_id] = now.ms + rest_ms
                self._described[group_id] = None
                self._go_on(group_id, view.group_in_steps(group_id))
            return
        group = None if is_calm else view.group(group_id)
        if group is None and not is_calm:
            self._forget(group_id, now)
        else:
            self._judge(group_id, group, now)

    def _go_on(self, group_id: str, steps: Iterator[GroupState | None]) -> None:
        """Describe some more members of a large group; look at it once that is done, unless it has changed."""
        try:
            for group in steps:
                if group is None:
                    self._clock.call_at(self._clock.monotonic_ms(), partial(self._go_on, group_id, steps))
                    return
                self._judge(group_id, group, Now(self._clock.monotonic_ms(), self._clock.wall_ms()))
                break
            else:
                self._wanted[group_id] = None
        except Exception:  # as in `sweep`
            self._fail(group_id)
        del self._described[group_id]

    def _fail(self, group_id: str) -> None:
        self._log.error("the sentinels failed with a group, and look at it no more", of=group_id, exc_info=True)
        self._failed[group_id] = None

    def _judge(self, group_id: str, group: GroupState | None, now: Now) -> None:
        """Tell what is found about a group; None stands for one that only waits."""
        view = self._view
        findings = [] if group is None else list(look(group, view.partition_count, view.heirs, self._settings))
        is_stable = group is not None and group.state == "Stable"
        findings += self._progress.look(group_id, is_stable, view.progress(group_id), now.ms)
        findings += self._repeats.look(group_id, now.ms)
        self.board.looked(group_id, findings, now)

    def _forget(self, group_id: str, now: Now) -> None:
        self._repeats.forget(group_id)
        self._restless.pop(group_id, None)
        self._rests_until_ms.pop(group_id, None)
        self._progress.forget(group_id)
        self.board.gone(group_id, now)

    # -- observing

    def on_episode(self, episode: Episode) -> None:
        """Take an episode that has ended, from the history."""
        self._repeats.ended(episode, self._clock.monotonic_ms())

    def wants(self, kind: type[events.Event]) -> bool:
        return super().wants(kind) or kind is events.CommitReceived

    def _state_changed(self, event: events.StateChanged) -> None:
        if event.after in RESTLESS:
            self._restless[event.group_id] = None
        else:
            self._restless.pop(event.group_id, None)
            self._wanted[event.group_id] = None

    def _bumped(self, event: events.GroupEpochBumped) -> None:
        """Members that go from one protocol to the other, one by one, are no storm."""
        if not self._view.is_mixed(event.group_id):
            self._repeats.rebalanced(event)

    def _loaded(self, event: events.Event) -> None:
        self._wanted[event.group_id] = None

    def _removed(self, event: events.GroupRemoved) -> None:
        self._wanted.pop(event.group_id, None)
        self._forget(event.group_id, Now(event.at_ms, event.wall_ms))

    def note_commit(self, note: events.CommitNote) -> None:
        """Whoever commits for a partition that somebody else owns believes to own it."""
        self._last_commit, request = note, note[7]
        if not request.member_id:
            return
        view, group_id = self._view, request.group_id
        own = view.assignment(group_id, request.member_id)
        not_own: dict[str, set[int]] = {}
        for topic in request.topics:
            owned = own.get(topic.name, ())
            for item in topic.partitions:
                if item.partition_index not in owned:
                    not_own.setdefault(topic.name, set()).add(item.partition_index)
        if not not_own:
            return
        owner_of = view.owners(group_id, not_own)
        if any(owner != request.member_id for owner in owner_of.values()):
            self._strange(events.commit_event(note), owner_of)

    def _strange(self, event: events.CommitReceived, owner_of: dict[tuple[str, int], str]) -> None:
        group_id = event.group_id
        foreign: dict[str, list[str]] = {}
        owners: dict[str, None] = {}
        for (topic, partition), owner in sorted(owner_of.items()):
            if owner != event.member_id:
                foreign.setdefault(topic, []).append(f"{topic}-{partition}")
                owners[owner] = None
        who = _called(event.member_id, event.client_id, event.client_host)
        for topic, partitions in foreign.items():
            what, whose = named(partitions), named(list(owners))
            text = (
                f"Group {group_id}: {who} of {self._view.counted_by(group_id)} {event.generation} commits for {what}, "
                f"which {named([_called(owner, *self._view.client_of(group_id, owner)) for owner in owners])} owns"
            )
            facts = {"partitions": what, "members": f"{event.member_id}, {whose}", "client_id": event.client_id}
            self._happened(event, Finding("two_believers", topic, text, facts), event.number)

    def _refused(self, event: events.RequestRefused) -> None:
        is_commit = event.api == "OffsetCommit"
        if event.error not in (FENCED if is_commit else REFUSALS) or (is_commit and not event.member_id):
            return
        if not self._view.has_group(event.group_id):
            return  # somebody makes names up, or the group is no more: there is nothing that anybody else could spoil
        if not is_commit:
            self._wanted[event.group_id] = None
            self._repeats.refused(event)
            return
        last = self._last_commit
        asked = None if last is None or last[0] != event.cause else events.commit_event(last)
        of = "" if asked is None else f" of {self._view.counted_by(event.group_id)} {asked.generation}"
        whose = ("", "") if asked is None else (asked.client_id, asked.client_host)
        text = f"Group {event.group_id} refused a commit by {_called(event.member_id, *whose)}{of}: {event.error}"
        facts = {"member_id": event.member_id, "error": event.error}
        if asked is not None:
            facts |= {"generation": str(asked.generation), "client_id": asked.client_id}
        self._happened(event, Finding("fenced_commit", "", text, facts), event.cause)

    def _committed(self, event: events.OffsetsCommitted) -> None:
        by_topic: dict[str, list[str]] = {}
        for one in event.moved_back:
            by_topic.setdefault(one.topic, []).append(f"{one.topic}-{one.partition} from {one.offset}")
        for topic, places in by_topic.items():
            what, who = named(places), short(event.member_id) or "a client outside the group"
            text = f"Committed offsets of group {event.group_id} moved back by {who}: {what}"
            facts = {"topic": topic, "partitions": what, "jump": "back", "member_id": event.member_id}
            self._happened(event, Finding("offset_jump", topic, text, facts), event.cause)

    def _happened(self, event: events.Event, finding: Finding, cause: int) -> None:
        self.board.happened(event.group_id, finding, Now(event.at_ms, event.wall_ms), cause)


def _called(member_id: str, client_id: str, client_host: str) -> str:
    """A member with the client that it is, as far as that is known: ids of the consumer protocol say nothing of it."""
    client = f" (client {client_id}, {client_host.removeprefix('/')})" if client_host else ""
    return short(member_id) + client
