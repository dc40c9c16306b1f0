"""The observer that remembers, for each group, why it rebalanced: `History`."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from functools import cached_property
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from msgspec import structs

from ottla.broker.core.events import (
    CommitNote,
    Emit,
    Event,
    GroupLoaded,
    GroupRemoved,
    Input,
    Observer,
    OwnershipChanged,
    TopicChanged,
    TopicDeleted,
    TopicsSeen,
    commit_event,
)
from ottla.observe.why.model import Episode, Fault
from ottla.observe.why.store import Cost, Row, Store
from ottla.observe.why.topics import Topics

if TYPE_CHECKING:
    from ottla.observe.why.account import Account
    from ottla.observe.why.interference import Interference

DEFAULT_BUDGET_BYTES = 16 * 1024 * 1024

MOST_STRANGERS = 1_000
"""Groups that are followed though nothing says that there is such a group: anybody can ask for any name."""

SUMMED_AT_ONCE = 1_000
"""So many episodes or groups are looked at without a pause, which takes a millisecond."""

FEW_COMMITS = 8
"""The offsets of a group that was loaded are not kept with it if they are more."""

_Quiet: TypeAlias = list[Event | CommitNote]
"""What is known of a group of which nobody has asked, and to which nothing happened: that it was loaded, what that came
of, and the last commit."""

OF_NO_GROUP = frozenset((OwnershipChanged, TopicChanged, TopicDeleted, TopicsSeen))
"""Events that are of no group, and tell of what happens to several."""

Facts = Callable[[], Mapping[str, str]]
"""The present settings of the broker, by name."""

Pause = Callable[[], Awaitable[None]]
"""Is awaited now and then by whoever takes long."""

Handlers = Mapping[type[Event], Callable[[Any, Any], object]]


class Running(NamedTuple):
    """A rebalance that runs: when it began, as Unix time, and the partition-milliseconds that it has cost so far."""

    group_id: str
    started_ms: int
    stood_ms: int


class History(Observer):
    """An observer of the coordinator's events that makes episodes of them.

    Following costs a few microseconds an event; ended episodes are kept as bytes within a budget that groups share
    fairly. Words and advice are made when somebody asks, not when something happens.

    Args:
        facts: the present settings, for the advice.
        budget_bytes: for the ended episodes; 0 keeps none. Besides them a few hundred bytes for each member are held.

    Attributes:
        store: has the ended episodes.
        on_episode: called with each episode that ends, without words and advice: `explain` makes these. What is
            repeated (`Episode.times`) is told once.
        now_ms: gives Unix time, so that it can be said for how long a rebalance has been running; None if nobody knows.
        node: the id of the node whose events these are, where it is one of several.
    """

    wants_requests = True

    def __init__(self, facts: Facts = dict, budget_bytes: int = DEFAULT_BUDGET_BYTES) -> None:
        self.on_episode: list[Callable[[Episode], None]] = []
        self.now_ms: Callable[[], int] | None = None
        self.node = ""
        self._facts = facts
        self.store = Store(budget_bytes)
        # Of episodes: once, not for each group.
        self._takers = self.store.keep, self.store.replace, self._tell, self.store.newest
        self._accounts: dict[str, Account] = {}
        # Those of them that may be none. One that was only loaded, without members, has no account before more happens.
        self._strangers: OrderedDict[str, _Quiet | None] = OrderedDict()
        self._ownership: OwnershipChanged | None = None
        self._topics = Topics()

    def wants(self, kind: type[Event]) -> bool:
        return kind in OF_NO_GROUP or kind in self._handlers

    def taker(self, kind: type[Event]) -> Emit:
        if kind in OF_NO_GROUP:
            return self
        handle, accounts, strangers = self._handlers[kind], self._accounts, self._strangers

        def take(event: Event) -> None:
            account = accounts.get(event.group_id)
            if account is None or self._ownership is not None or not account.members or strangers:
                self(event)
            else:
                handle(account, event)
                if not account.members:
                    self._look_after(account, event)

        return take

    @property
    def keeps(self) -> bool:
        """True if it keeps anything."""
        return self.store.budget_bytes > 0

    def __call__(self, event: Event) -> None:
        group_id = event.group_id
        if not group_id:
            if event.__class__ is OwnershipChanged:
                self._ownership = event
                return
            self._topics.take(event)  # else it is a timer of a whole partition
            return
        handle = self._handlers.get(event.__class__)
        if handle is None:
            return
        account = self._accounts.get(group_id)
        if account is None:
            if event.__class__ is GroupLoaded and not event.loaded:
                self._keep_quiet(event)
                return
            account = self._follow(group_id)
        if self._ownership is not None:
            # It is one input of many groups, and none of their events says so.
            if isinstance(event, Input):
                self._ownership = None
            elif event.cause == self._ownership.number and account.input is not self._ownership:
                self._handlers[OwnershipChanged](account, self._ownership)
        handle(account, event)
        self._look_after(account, event)

    def _look_after(self, account: Account, event: Event) -> None:
        """Forget a group that is gone; one that is there is no stranger."""
        if not account.members and account.is_gone:
            if type(event) is GroupRemoved:
                self._leave(account.group_id)
        elif self._strangers:
            self._strangers.pop(account.group_id, None)

    def note_commit(self, note: CommitNote) -> None:
        request = note[7]
        account = self._accounts.get(request.group_id)
        if account is None:
            self._keep_commit(request.group_id, note)
            return
        if self._ownership is not None or account.happenings or account.joined:
            self(commit_event(note))
            return
        account.last = note
        known = account.members.get(request.member_id)
        if known is not None:
            known.heard_ms = known.sign_ms = note[1]

    @cached_property
    def _handlers(self) -> Handlers:
        from ottla.observe.why.tracker import HANDLERS  # at a start there is no group that anything happens to

        return HANDLERS

    def _follow(self, group_id: str) -> Account:
        from ottla.observe.why.account import Account

        quiet = self._strangers.get(group_id)
        self._come(group_id, None)
        account = Account(group_id, *self._takers, self._topics, self.node)
        account.count = self.store.last_number(group_id)
        self._accounts[group_id] = account
        if quiet is not None:
            for one in quiet:
                event = commit_event(one) if isinstance(one, tuple) else one
                self._handlers[type(event)](account, event)
        return account

    def _keep_quiet(self, event: GroupLoaded) -> None:
        """Take note of a group that was loaded: there may be a million of which nobody will ever ask."""
        owner = self._ownership
        if len(event.commits) > FEW_COMMITS:
            event = structs.replace(event, commits=[])
        self._come(event.group_id, [event] if owner is None or owner.number != event.cause else [owner, event])

    def _keep_commit(self, group_id: str, note: CommitNote) -> None:
        """Take note of a commit to a group without account: thousands may only store offsets."""
        self._ownership = None
        quiet = self._strangers.get(group_id)
        if quiet is None:
            self._come(group_id, [note])
        elif quiet[-1].__class__ is tuple:
            quiet[-1] = note
        else:
            quiet.append(note)

    def _come(self, group_id: str, quiet: _Quiet | None) -> None:
        """Somebody comes who may be none; those who came first give way."""
        if group_id not in self._strangers and len(self._strangers) >= MOST_STRANGERS:
            self._leave(next(iter(self._strangers)))
        self._strangers[group_id] = quiet

    def _account(self, group_id: str) -> Account | None:
        """The account of a group, if anything is known of it."""
        account = self._accounts.get(group_id)
        return self._follow(group_id) if account is None and group_id in self._strangers else account

    def _leave(self, group_id: str) -> None:
        if (account := self._accounts.pop(group_id, None)) is not None:
            account.close()
        self._strangers.pop(group_id, None)

    def _tell(self, episode: Episode) -> None:
        for callback in self.on_episode:
            callback(episode)

    # Asking

    def group_ids(self) -> list[str]:
        """The groups of which there is something to tell, in order."""
        self.catch_up()
        return sorted({*self._accounts, *self._strangers, *self.store.group_ids()})

    def knows(self, group_id: str) -> bool:
        """True if anything happened to a group since this began."""
        self.catch_up()
        return self._account(group_id) is not None or self.store.last_number(group_id) > 0

    def generation_of(self, group_id: str) -> int:
        """The generation that a group is in; -1 if nothing is known of it."""
        account = self._account(group_id)
        return -1 if account is None else account.generation

    def awaits_target(self, group_id: str) -> bool:
        """True if a rebalance of a consumer group runs, and no target was computed for it so far."""
        account = self._accounts.get(group_id)
        if account is None or account.run is None or (reconciling := account.reconciling) is None:
            return False
        return account.run.episode.kind == "rebalance" and reconciling.epoch > reconciling.assignment_epoch

    def client_of(self, group_id: str, member_id: str) -> tuple[str, str]:
        """Client id and host of a member; empty for who is none."""
        account = self._accounts.get(group_id)
        known = None if account is None else account.members.get(member_id)
        return ("", "") if known is None else (known.client_id, known.client_host)

    def episodes(self, group_id: str, **wanted: int | None) -> list[Episode]:
        """The episodes of a group that `chosen` gives, with words and advice."""
        facts = self._facts()
        return [explain(one, facts) for one in self.chosen(group_id, **wanted)]

    async def each(self, group_id: str, pause: Pause, **wanted: int | None) -> AsyncIterator[Episode]:
        """The same one by one, with pauses: all those of a large group are hundreds of thousands of objects."""
        facts = self._facts()
        for episode in self.chosen(group_id, **wanted):
            yield explain(episode, facts)
            await pause()

    def chosen(
        self, group_id: str, *, last: int | None = None, since_ms: int | None = None, generation: int | None = None
    ) -> Iterator[Episode]:
        """The episodes of a group, the oldest first; one that runs is the last. Each is decoded when it is its turn.

        Args:
            last: at most so many.
            since_ms: only what began at this Unix time or later, or runs.
            generation: only what led to this one, or happened in it.
        """
        self.catch_up()
        refusals, running = self._present(group_id, since_ms)
        rows = [row for row in self.store.of_group(group_id) if since_ms is None or row.started_ms >= since_ms]
        found: list[Row | Episode] = sorted([*rows, *refusals], key=attrgetter("number"))
        if running is not None:
            found.append(running)
        elif found and (interference := self._interference(group_id)) is not None:
            newest = found[-1] = self._read(found[-1])
            interference.tell_since(newest)
        if generation is not None:
            # Few are of one generation, and which is known only when they are read.
            found = [one for one in found if _is_of(self._read(one), generation)]
        if last is not None:
            found = found[-last:] if last else []
        return map(self._read, found)

    def faults(self, group_id: str) -> list[Fault]:
        """The latest faults of a group, also those that no episode tells of."""
        self.catch_up()
        interference = self._interference(group_id)
        return [] if interference is None else interference.faults

    def _interference(self, group_id: str) -> Interference | None:
        account = self._accounts.get(group_id)
        return None if account is None else account.interference

    def _read(self, kept: Row | Episode) -> Episode:
        return kept if isinstance(kept, Episode) else self.store.decoded(kept)

    def _present(self, group_id: str, since_ms: int | None) -> tuple[list[Episode], Episode | None]:
        """The refusals that may yet be repeated, and the rebalance that runs."""
        account = self._account(group_id)
        if account is None:
            return [], None
        from ottla.observe.why.episodes import running as running_of

        now_ms = self._now_ms
        running = running_of(account, now_ms)
        if running is not None:
            running.now_ms = now_ms or 0
        return [one for one in account.open_refusals() if since_ms is None or one.last_ms >= since_ms], running

    def running(self) -> list[Running]:
        """The rebalances that run, each with what it has cost so far."""
        self.catch_up()
        now_ms = self._now_ms
        return [
            Running(account.group_id, run.episode.started_ms, account.stood_ms(run, now_ms))
            for account in self._accounts.values()
            if (run := account.run) is not None
        ]

    @property
    def _now_ms(self) -> int | None:
        return None if self.now_ms is None else self.now_ms()

    async def costs(self, since_ms: int, pause: Pause, *, most: int) -> list[Cost]:
        """The cost of each group since a Unix time, the highest first; groups without any are left out.

        Of a refusal that was repeated since then all times count, and of what still runs all that it has cost so far.

        Args:
            pause: awaited now and then: there may be tens of thousands of groups, or of episodes of one.
            most: so many groups at most.
        """
        self.catch_up()
        costs: list[Cost] = []
        for group_id in dict.fromkeys([*self.store.group_ids(), *self._accounts]):
            account, cost = self._accounts.get(group_id), Cost(group_id)
            found: list[Row | Episode] = [*self.store.of_group(group_id)]
            found += account.open_refusals() if account is not None else ()
            for number, one in enumerate(found, 1):
                if one.started_ms >= since_ms or one.last_ms >= since_ms:
                    cost.add(one)
                if not number % SUMMED_AT_ONCE:
                    await pause()
            if account is not None and (run := account.run) is not None:
                cost.add(structs.replace(run.episode, stood_ms=account.stood_ms(run, self._now_ms)))
            if cost.stood_ms or cost.refused:
                costs.append(cost)
            if len(costs) >= most + SUMMED_AT_ONCE:
                costs = _costliest(costs, most)
            await pause()
        return _costliest(costs, most)

    def explain(self, episode: Episode) -> Episode:
        """An episode with its headline, story and advice."""
        return explain(episode, self._facts())


def explain(episode: Episode, facts: Mapping[str, str]) -> Episode:
    """An episode with its headline, story and advice.

    Args:
        facts: settings of the broker; those that are not there are not known.
    """
    from ottla.observe.why.advice import advise  # at a start nobody asks
    from ottla.observe.why.words import tell

    headline, sentences = tell(episode)
    return structs.replace(episode, headline=headline, sentences=sentences, advice=advise(episode, facts))


def _costliest(costs: list[Cost], most: int) -> list[Cost]:
    return sorted(costs, key=lambda one: (-one.stood_ms, -one.refused, one.group_id))[:most]


def _is_of(episode: Episode, generation: int) -> bool:
    """True if it led to a generation, or happened in it and led to no other.

    The epoch of a consumer group may rise several times before there is a target: one rebalance leads to all of these.
    """
    if episode.kind == "rebalance" and episode.protocol and 0 <= episode.generation_before < generation:
        return generation <= episode.generation_after
    return generation == (episode.generation_after if episode.generation_after >= 0 else episode.generation_before)
