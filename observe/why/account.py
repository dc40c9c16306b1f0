"""The state of one group as its events tell it: members, the input that is looked at, the episode that runs.

What began an episode is known by the input that led to it: the events between two inputs of a group are what one
input brought about, so they are kept as *happenings* until it is clear whether a rebalance began (then they are what
triggered it) or one went on (then they added to it).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from msgspec import structs
from msgspec.msgpack import Decoder, Encoder

from ottla.broker.core.events import (
    CommitReceived,
    Disconnected,
    Event,
    Input,
    JoinReceived,
    LeaveReceived,
    RequestReceived,
    SessionExtended,
    SyncReceived,
)
from ottla.observe.why import judge
from ottla.observe.why.departures import Departures
from ottla.observe.why.members import NEVER, Departure, Known, Partition, read_partitions
from ottla.observe.why.model import Episode
from ottla.observe.why.refusals import Refusals
from ottla.observe.why.run import Run, Standing
from ottla.observe.why.topics import Topics
from ottla.protocol.consumer_protocol import PROTOCOL_TYPE

encode, decode = Encoder().encode, Decoder(Episode).decode
UNPROMPTED = frozenset(
    ("leader-rejoined", "rejoined-after-error", "member-rejoined", "cooperative-follow-up", "user-data-changed")
)
"""What begins a rebalance, and is nothing remarkable while one runs."""


class Happening(NamedTuple):
    """What an input brought about; ``known`` is who did it."""

    cause: str
    known: Known | None
    reason: str
    facts: dict[str, str]
    fate: str = ""


class Account:
    """One group.

    Args:
        keep: takes each episode that is over; replace: one of those again that has changed; told: each once.
        topics: what became of topics lately.

    Attributes:
        input: the last input of the group.
        run: the rebalance that runs, if one does.
        formed_ms: when the group was last given assignments.
    """

    __slots__ = (
        "count",
        "departures",
        "formed_ms",
        "generation",
        "group_id",
        "happenings",
        "input",
        "issued",
        "joined",
        "keep",
        "leader_id",
        "loaded_ms",
        "members",
        "previous",
        "protocol_name",
        "protocol_type",
        "refusals",
        "replace",
        "replacing",
        "run",
        "standing",
        "state",
        "told",
        "topics",
        "unsure",
    )

    def __init__(
        self,
        group_id: str,
        keep: Callable[[Episode], None],
        replace: Callable[[Episode], None],
        told: Callable[[Episode], None],
        topics: Topics,
    ) -> None:
        self.group_id = group_id
        self.keep = keep
        self.replace = replace
        self.told = told
        self.topics = topics
        self.count = 0
        self.state = self.previous = "Empty"
        self.generation = -1
        self.protocol_type: str | None = None
        self.protocol_name = ""
        self.leader_id: str | None = None
        self.members: dict[str, Known] = {}
        self.issued: dict[str, tuple[str, str]] = {}
        self.departures = Departures()
        self.refusals = Refusals()
        self.standing = Standing()
        self.run: Run | None = None
        self.unsure: Episode | None = None
        self.replacing: tuple[str, Run] | None = None
        self.input: Input | None = None
        self.joined: list[Known] = []
        self.happenings: list[Happening] = []
        self.loaded_ms = NEVER
        self.formed_ms = NEVER

    # Inputs

    def on_input(self, event: Input) -> None:
        """Something came in: what the last input brought about is complete."""
        if self.happenings or self.joined:
            self.settle(event)
        self.input = event

    def on_request(self, event: RequestReceived) -> None:
        """A request came in; its member shows that it lives."""
        self.on_input(event)
        known = self.members.get(event.member_id)
        if known is not None and (event.api != "Heartbeat"):
            known.heard(event.at_ms)

    def on_commit(self, event: CommitReceived) -> None:
        """An OffsetCommit: the most frequent of all requests that leave an event."""
        if self.happenings or self.joined:
            self.settle(event)
        self.input = event
        known = self.members.get(event.member_id)
        if known is not None:
            known.heard_ms = known.sign_ms = event.at_ms

    def on_join_received(self, event: JoinReceived) -> None:
        self.on_request(event)
        if self.protocol_type is None or not self.members:
            self.protocol_type = event.protocol_type

    def on_sync_received(self, event: SyncReceived) -> None:
        self.on_request(event)
        known = self.members.get(event.member_id)
        if known is None or event.generation != self.generation:
            return
        known.awaited_sync = -1
        if self.run is None:
            if self.standing.since:
                self.standing.resume(read_partitions(known.assignment) or ())
        elif (part := self.run.part_of(event.member_id)) is not None:
            part.synced_ms = self.run.at(event)
            self.run.arrived(event.member_id, event)

    def on_leave_received(self, event: LeaveReceived) -> None:
        # Whoever sends it may be somebody else: an administrator's tool names the member, too.
        self.on_input(event)

    def on_session_extended(self, event: SessionExtended) -> None:
        self.on_input(event)
        known = self.members.get(event.member_id)
        if known is not None and event.last_heard_ms > known.heard_ms:
            known.heard_ms = event.last_heard_ms
            if known.lost_ms < event.last_heard_ms:
                known.lost_ms = NEVER

    def on_disconnected(self, event: Disconnected) -> None:
        self.on_input(event)
        known = self.members.get(event.member_id)
        if known is None:
            if self.departures.closed(event) is not None and self.unsure is not None:
                self._reconsider(self.unsure)
            return
        known.lost_ms = event.at_ms
        if self.run is not None and (part := self.run.part_of(event.member_id)) is not None:
            part.disconnected_ms = event.wall_ms

    def settle(self, event: Event) -> None:
        """No rebalance began by the last input: what it brought about added to the one that runs, if one does."""
        happenings, self.happenings = self.happenings, []
        joined, self.joined = self.joined, []
        run = self.run
        if run is None or self.input is None:
            return
        for known in joined:
            run.came(known, self.input)
        for one in happenings:
            self._add(run, one, self.input, first=False)

    def _add(self, run: Run, one: Happening, event: Event, *, first: bool) -> None:
        if one.known is not None and one.fate:
            if one.fate in ("new", "returned"):
                run.part(one.known).fate = one.fate
            else:
                run.removed(one.known, one.fate, event, reason=one.reason)
        if first or one.cause not in UNPROMPTED:
            run.trigger(one.cause, one.known, event, one.reason, one.facts)

    # Episodes

    def _new_run(self, kind: str, event: Event) -> Run:
        episode = Episode(
            number=0,
            kind=kind,
            group_id=self.group_id,
            started_ms=event.wall_ms,
            state_before=judge.state_before(self),
            generation_before=self.generation,
            protocol_name=self.protocol_name,
            partitions_known=self.protocol_type in (None, PROTOCOL_TYPE),
        )
        return Run(episode, event.at_ms)

    def _unseen(self, event: Event) -> Run:
        """A rebalance of which the beginning was not seen."""
        run = self.run = self._new_run("rebalance", event)
        self._count(run)
        for known in self.members.values():
            run.place(known)
        run.trigger("unknown", None, event, "", {})
        return run

    def _end(self, event: Event, outcome: str, *, charge: bool = True) -> None:
        run = self.run
        if run is None:
            return
        self.run = None
        run.close_all(event)
        if charge:
            self.standing.charge(run, event.at_ms)
        if outcome in ("empty", "dead"):
            run.episode.unowned = len(self.standing.since)
            self.standing.since.clear()
        self._finish_run(run, event, outcome)

    def _count(self, run: Run) -> None:
        self.count += 1
        run.episode.number = self.count

    def _finish_run(self, run: Run, event: Event, outcome: str) -> None:
        if not run.episode.number:
            self._count(run)
        self.unsure = None
        run.episode.outcome = outcome
        run.episode.duration_ms = run.at(event)
        judge.conclude(self, run, event)
        self.keep(run.episode)
        if judge.is_unsure(run.episode):
            self.unsure = run.episode
        self.told(run.episode)

    def _reconsider(self, episode: Episode) -> None:
        if judge.reconsider(self, episode):
            self.unsure = None
            self.replace(episode)

    def _gone(self, known: Known, cause: str, reason: str, facts: dict[str, str], fate: str, event: Event) -> None:
        self.departures.gone(Departure(known, cause, event.at_ms, event.wall_ms), len(self.members))
        self.happenings.append(Happening(cause, known, reason, facts, fate))

    def _stop(
        self, known: Known, at_ms: int, held: frozenset[Partition] = frozenset(), *, is_gone: bool = True
    ) -> None:
        """A member consumes nothing any more but what it holds: it is gone, or it gave the rest up to rejoin."""
        if not known.owned:
            return
        owned = read_partitions(known.assignment) or ()
        self.standing.stop((one for one in owned if one not in held), at_ms, known.member_id, is_gone=is_gone)

    def forget(self) -> None:
        """Nothing is known of the group as it is now."""
        self.members.clear()
        self.issued.clear()
        self.standing.since.clear()
        self.replacing = None
        self.happenings.clear()
        self.joined.clear()
        self.leader_id = None
        self.state = "Empty"

    # Asking

    @property
    def is_gone(self) -> bool:
        """Whether there is no group any more."""
        return not self.members and not self.issued and self.run is None

    def running(self, now_ms: int | None = None) -> Episode | None:
        """The rebalance that runs, as far as it is known, as a copy.

        Args:
            now_ms: until when it has been running, Unix time; without it until the last thing that happened.
        """
        run = self.run
        if run is None:
            return None
        if self.input is not None and (self.happenings or self.joined):
            self.settle(self.input)
        at_ms = run.start_ms if self.input is None else self.input.at_ms
        if now_ms is not None:
            at_ms = max(at_ms, run.start_ms + now_ms - run.episode.started_ms)
        copy = run.seen(decode(encode(run.episode)))
        Standing(dict(self.standing.since)).charge(copy, at_ms)
        judge.preview(copy, at_ms)
        return copy.episode

    def open_refusals(self) -> list[Episode]:
        """Refusals that may yet be repeated, as copies."""
        return [structs.replace(one) for one in self.refusals.open.values()]

    def close(self) -> None:
        """The group is gone: nothing is repeated any more."""
        for episode in self.refusals.open.values():
            self.keep(episode)
        self.refusals.open.clear()
