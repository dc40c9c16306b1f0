"""The state of one group as its events tell it: members, the input that is looked at, the episode that runs.

What began an episode is known by the input that led to it: the events between two inputs of a group are what one
input brought about, so they are kept as *happenings* until it is clear whether a rebalance began (then they are what
triggered it) or one went on (then they added to it).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from msgspec import structs

from ottla.broker.core.events import CommitNote, Event, Input, commit_event
from ottla.observe.why.causes import Cause
from ottla.observe.why.departures import Departures
from ottla.observe.why.interference import Interference
from ottla.observe.why.members import NEVER, Departure, Happening, Known, Partition
from ottla.observe.why.model import Episode
from ottla.observe.why.reconciling import Reconciling
from ottla.observe.why.run import Run, Standing
from ottla.observe.why.topics import Topics
from ottla.protocol.consumer_protocol import PROTOCOL_TYPE

UNPROMPTED = frozenset(
    (
        Cause.LEADER_REJOINED,
        Cause.REJOINED_AFTER_ERROR,
        Cause.MEMBER_REJOINED,
        Cause.COOPERATIVE_FOLLOW_UP,
        Cause.USER_DATA_CHANGED,
    )
)
"""Causes that begin a rebalance, and are not told while one runs."""


@dataclass(slots=True, eq=False)
class Account:
    """One group.

    Args:
        keep: takes each episode that is over; replace: one of those again that has changed; told: each once.
        newest: gives the last one that was kept of a group, by its id.
        topics: what became of topics lately.
        node: the id of this node, where it is one of several.

    Attributes:
        last: the last input of the group; a commit may be as it was noted.
        refusals: those that may yet be repeated, by cause, client and what else tells them apart.
        run: the rebalance that runs, if one does.
        formed_ms: when the group was last given assignments.
        interference: faults and pauses, once there are any.
        reconciling: how far a consumer group is on its way to its target; None for a group of the classic protocol.
    """

    group_id: str
    keep: Callable[[Episode], None]
    replace: Callable[[Episode], None]
    told: Callable[[Episode], None]
    newest: Callable[[str], Episode | None]
    topics: Topics
    node: str = ""
    count: int = 0
    state: str = "Empty"
    previous: str = "Empty"
    generation: int = -1
    protocol_type: str | None = None
    protocol_name: str = ""
    leader_id: str | None = None
    members: dict[str, Known] = field(default_factory=dict)
    issued: dict[str, tuple[str, str]] = field(default_factory=dict)
    departures: Departures = field(default_factory=Departures)
    refusals: dict[tuple[str, ...], Episode] = field(default_factory=dict)
    standing: Standing = field(default_factory=Standing)
    run: Run | None = None
    unsure: Episode | None = None
    replacing: tuple[str, Run] | None = None
    last: Input | CommitNote | None = None
    joined: list[Known] = field(default_factory=list)
    happenings: list[Happening] = field(default_factory=list)
    loaded_ms: int = NEVER
    formed_ms: int = NEVER
    interference: Interference | None = None
    reconciling: Reconciling | None = None

    @property
    def input(self) -> Input | None:
        """The last input of the group."""
        last = self.last
        if isinstance(last, tuple):
            last = self.last = commit_event(last)
        return last

    def settle(self, event: Event) -> None:
        """No rebalance began by the last input: what it brought about added to the one that runs, if one does."""
        run, last = self.run, self.input
        if run is not None and last is not None:
            for known in self.joined:
                run.came(known, last)
            for one in self.happenings:
                self.add(run, one, last, first=False)
        elif self.reconciling is not None:
            self.reconciling.unsaid += [one for one in self.happenings if one.fate in ("new", "returned")]
        self.joined.clear()
        self.happenings.clear()

    def add(self, run: Run, one: Happening, event: Event, *, first: bool) -> None:
        """Something began a rebalance (``first``), or added to it."""
        if one.known is not None and one.fate:
            if one.fate in ("new", "returned"):
                run.part(one.known).fate = one.fate
            else:
                run.removed(one.known, one.fate, event, reason=one.reason)
        if first or one.cause not in UNPROMPTED:
            run.trigger(one.cause, one.known, event, one.reason, one.facts)

    def new_run(self, kind: str, event: Event) -> Run:
        """An episode that begins."""
        episode = Episode(
            number=0,
            kind=kind,
            group_id=self.group_id,
            started_ms=event.wall_ms,
            state_before=self.previous if self.state == "PreparingRebalance" else self.state,
            generation_before=self.generation,
            protocol_name=self.protocol_name,
            partitions_known=self.protocol_type in (None, PROTOCOL_TYPE),
            protocol="" if self.reconciling is None else "consumer",
        )
        return Run(episode, event.at_ms)

    def unseen(self, event: Event) -> Run:
        """A rebalance of which the beginning was not seen."""
        run = self.run = self.new_run("rebalance", event)
        self.count_run(run)
        for known in self.members.values():
            run.place(known)
        run.trigger(Cause.UNKNOWN, None, event, "", {})
        return run

    def count_run(self, run: Run) -> None:
        """Give an episode its number."""
        self.count += 1
        run.episode.number = self.count

    def gone(self, known: Known, cause: str, reason: str, facts: dict[str, str], fate: str, event: Event) -> None:
        """A member is gone."""
        self.departures.gone(Departure(known, cause, event.at_ms, event.wall_ms), len(self.members))
        self.happenings.append(Happening(cause, known, reason, facts, fate))

    def heard_ms(self, event: Event, said_ms: int) -> int:
        """When a member was last heard of, by what the coordinator says: a time on the monotonic clock, or `NEVER`."""
        if self.interference is None or said_ms == NEVER:
            return said_ms
        return self.interference.heard_ms(event, said_ms)

    def stop(self, known: Known, at_ms: int, held: frozenset[Partition] = frozenset(), *, is_gone: bool = True) -> None:
        """A member consumes nothing any more but what it holds: it is gone, or it gave the rest up to rejoin."""
        if not known.owned:
            return
        owned: Sequence[Partition] = known.partitions(again=not is_gone)
        if held:
            owned = [one for one in owned if one not in held]
        self.standing.stop(owned, at_ms, known.member_id, is_gone=is_gone)

    def coming(self, *, is_settled: bool) -> dict[str, str]:
        """The facts of a coordinator that came to this node, where there are several.

        Args:
            is_settled: everybody has what was assigned, and goes on with it.
        """
        if not self.node:
            return {}
        came = "came to" if self.newest(self.group_id) is None else "came back on"
        return {"node": self.node, "came": came, "settled": "yes" if is_settled else ""}

    def forget(self) -> None:
        """Nothing is known of the group as it is now."""
        self.members.clear()
        self.issued.clear()
        self.standing.since.clear()
        self.replacing = None
        self.happenings.clear()
        self.joined.clear()
        self.reconciling = None
        self.leader_id = None
        self.state = "Empty"

    @property
    def is_gone(self) -> bool:
        """True if there is no group any more."""
        return not self.members and not self.issued and self.run is None

    def present_ms(self, run: Run, now_ms: int | None) -> int:
        """The present on the monotonic clock; ``now_ms`` is Unix time, None for when the last thing happened."""
        at_ms = run.start_ms if self.input is None else self.input.at_ms
        return at_ms if now_ms is None else max(at_ms, run.start_ms + now_ms - run.episode.started_ms)

    def stood_ms(self, run: Run, now_ms: int | None) -> int:
        """Partition-milliseconds in which nobody consumed so far because of a rebalance that runs."""
        return run.episode.stood_ms + self.standing.stood_ms(self.present_ms(run, now_ms))

    def open_refusals(self) -> list[Episode]:
        """Refusals that may yet be repeated, as copies."""
        return [structs.replace(one) for one in self.refusals.values()]

    def close(self) -> None:
        """The group is gone: nothing is repeated any more."""
        for episode in self.refusals.values():
            self.keep(episode)
        self.refusals.clear()
