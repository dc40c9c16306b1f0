"""A consumer group of an embedded broker, as a test looks at it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from ottla.protocol.records import TopicPartition
from ottla.testing.embedded import EmbeddedBroker
from ottla.testing.fault import Served

if TYPE_CHECKING:
    from ottla.observe.snapshot import GroupBrief, GroupState, MemberState
    from ottla.observe.view import View
    from ottla.observe.why.history import History
    from ottla.observe.why.model import Episode

STATES = ("PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling", "Stable", "Empty", "Dead")
LOOK_EVERY_S = 0.005
MOST_NAMED = 10
T = TypeVar("T")


class Group:
    """A group by its id, whether there is one or not yet. Each attribute is as it is when it is read.

    ```python
    group = broker.group("billing")
    group.wait(members=2, lag=0)
    assert group.offsets["orders", 0] == 3
    ```
    """

    def __init__(self, of: Served, group_id: str, coordinator: Callable[[], EmbeddedBroker]) -> None:
        self._of = of
        self.group_id = group_id
        self._coordinator = coordinator
        """Found anew at each look, on the event loop; raises ``RuntimeError`` while there is none."""

    def __repr__(self) -> str:
        paused = ", paused" * self.is_paused
        return f"<Group {self.group_id!r}: {_seen(self.state, len(self.members), self.lag)}{paused}>"

    @property
    def state(self) -> str:
        """One of Kafka's states: Stable, Empty, PreparingRebalance, CompletingRebalance; Dead if there is no group.

        On their way, groups of the protocol ``consumer`` are Assigning or Reconciling.
        """
        found = self._found()
        return "Dead" if found is None else found.state

    @property
    def generation(self) -> int:
        """The generation, or the epoch of a group of the protocol ``consumer``; -1 if there is no group."""
        found = self._found()
        return -1 if found is None else found.generation

    @property
    def members(self) -> dict[str, MemberState]:
        """The members by their ids: ``client_id``, ``group_instance_id``, ``is_leader``, ``assignment`` and more.

        In a group of the protocol ``consumer`` also ``epoch``, and ``pending``: what it has not given up.
        """
        found = self._found()
        return {} if found is None else {member.member_id: member for member in found.members}

    @property
    def offsets(self) -> dict[TopicPartition, int]:
        """The committed offsets: ``group.offsets["orders", 0]``."""
        return self._looked(
            lambda view: {TopicPartition(one.topic, one.partition): one.committed_offset
                          for one in view.progress(self.group_id)}
        )  # fmt: skip

    @property
    def lag(self) -> int | None:
        """The number of records that the group has not committed yet; None while it has no partition.

        A partition counts if it is assigned to a member or has a committed offset. Of one without a committed offset
        all records count.
        """
        return self._looked(self._lag)

    def why(self, last: int | None = None) -> str:
        """Why the group rebalanced the last time, in the words of ``ottla why``; empty if nothing happened to it.

        Args:
            last: tell so many of the latest rebalances, each in full.
        """
        from ottla.observe.why.choice import LOOK_BACK, choose, in_a_line

        episodes = self.history(lambda history: history.episodes(self.group_id, last=last or LOOK_BACK))
        choice = choose(episodes) if last is None else None
        told = episodes if choice is None else [choice.main]
        later = [] if choice is None else [in_a_line(one) for one in choice.later]
        return "\n".join([*(line for one in told for line in _in_full(one)), *later])

    def wait(
        self, *, members: int | None = None, lag: int | None = None, state: str | None = None, timeout: float = 30
    ) -> None:
        """Wait until the group is as it should be.

        Args:
            members: it has exactly so many, and is Stable unless ``state`` says another. With 0 there need be no group.
            lag: at most so many records are left to read: see `lag`.
            state: it is in this state. Stable, if nothing is asked for.
            timeout: seconds.

        Raises:
            TimeoutError: it is not so in time; the message says how it was at last.
            TypeError, ValueError: an argument that cannot be.
        """
        __tracebackhide__ = True
        self._of.wait(self._until(_Wanted.of(members, lag, state), timeout), timeout)

    async def wait_async(
        self,
        *,
        members: int | None = None,
        lag: int | None = None,
        state: str | None = None,
        timeout: float = 30,  # noqa: ASYNC109 - as `wait` has it
    ) -> None:
        """The same as `wait`, for tests with an event loop, which goes on meanwhile."""
        await self._of.wait_async(self._until(_Wanted.of(members, lag, state), timeout))

    def evict(self, member_id: str, reason: str = "evicted by a test") -> None:
        """Remove a member, as an admin can. The member hears of it, and may join again.

        Raises:
            ValueError: the group has no such member.
        """
        known = list(self.members)
        if member_id not in known:
            raise ValueError(f"group {self.group_id!r} has no member {member_id!r}; it has {known}")
        self._of.run(self._coordinator).call(self._evict(member_id, reason))

    def pause(self) -> None:
        """Hold the group as it is until `resume`: joins and syncs wait, and no session ends.

        Heartbeats, commits and reads go on. It is paused when this returns, whether there is a group yet or not. Of the
        protocol ``consumer`` heartbeats wait as well, since they join and bring partitions, and with them what comes
        behind them on their connections.
        """
        self._of.run(lambda: self._coordinator().workbench.pause(self.group_id))

    @property
    def is_paused(self) -> bool:
        """Whether it was paused, and not resumed."""
        return self._of.run(lambda: any(self.group_id in bench.paused for bench in self._of.benches))

    def resume(self) -> None:
        """Let the group go on: what was held is served, and sessions have as much time left as they had."""

        def resume() -> None:
            for bench in self._of.benches:
                bench.resume(self.group_id)

        self._of.run(resume)

    # inside

    async def _evict(self, member_id: str, reason: str) -> None:
        from ottla.clients import Admin

        async with Admin(**self._coordinator().connection) as admin:
            await admin.remove_members(self.group_id, [member_id], reason=reason)

    def history(self, look: Callable[[History], T]) -> T:
        """What a look at the history of groups gives, at the broker that coordinates this one."""
        return self._of.run(lambda: look(self._coordinator().observatory.history))

    def _looked(self, look: Callable[[View], T]) -> T:
        return self._of.run(lambda: look(self._coordinator().observatory.view))

    def _found(self) -> GroupState | None:
        return self._looked(lambda view: view.group(self.group_id))

    def _lag(self, view: View) -> int | None:
        committed = {(one.topic, one.partition): one.committed_offset for one in view.progress(self.group_id)}
        found = view.group(self.group_id)
        assigned = [] if found is None else [
            (topic, partition)
            for member in found.members for has in (member.assignment, member.pending)
            for topic, partitions in has.items() for partition in partitions
        ]  # fmt: skip
        left = [
            max(0, ends[1] - max(committed.get(place, 0), ends[0]))
            for place in dict.fromkeys([*committed, *assigned])
            if (ends := self._ends(*place)) is not None
        ]
        return sum(left) if left else None

    def _ends(self, topic: str, partition: int) -> tuple[int, int] | None:
        """The beginning and the end of a log, as its leader knows them; None if there is no such partition."""
        topics = [found for view in self._coordinator().views if (found := view.topic(topic)) is not None]
        rows = [one for found in topics for one in found.partitions if one.partition == partition]
        # To those who do not lead it a log is empty.
        return max(((row.log_start_offset, row.high_watermark) for row in rows), key=lambda ends: ends[1], default=None)

    async def _until(self, wanted: _Wanted, timeout_s: float) -> None:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout_s
        while not self._is_as(wanted):
            if loop.time() >= deadline:
                raise TimeoutError(
                    f"group {self.group_id!r} was not as it should be in {timeout_s:g} s: {wanted}; "
                    f"at last {self._how_it_is()}"
                )
            await asyncio.sleep(LOOK_EVERY_S)

    def _is_as(self, wanted: _Wanted) -> bool:
        try:
            view = self._coordinator().observatory.view
        except RuntimeError:
            return False  # nobody coordinates it now
        return wanted.met_by(view.brief(self.group_id), lambda: self._lag(view))

    def _how_it_is(self) -> str:
        try:
            broker = self._coordinator()
        except RuntimeError as error:
            return str(error)
        view = broker.observatory.view
        brief = view.brief(self.group_id)
        state, members = ("Dead", 0) if brief is None else (brief.state, brief.members)
        paused = "; it is paused" if self.group_id in broker.workbench.paused else ""
        return f"it was {_seen(state, members, self._lag(view))}{paused}{self._others(view, brief)}"

    @staticmethod
    def _others(view: View, brief: GroupBrief | None) -> str:
        """The groups that there are, where this one is not: its name may be mistyped."""
        found = list(view.group_ids()) if brief is None else []
        return f"; there are the groups {found[:MOST_NAMED]}" if found else ""


class _Wanted(NamedTuple):
    """The state of a group to wait for; None for what does not matter."""

    members: int | None
    lag: int | None
    state: str | None

    @classmethod
    def of(cls, members: int | None, lag: int | None, state: str | None) -> _Wanted:
        for name, value in (("members", members), ("lag", lag)):
            if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 0):
                raise TypeError(f"{name}={value!r}: write a number from 0")
        if state is not None and state not in STATES:
            raise ValueError(f"state={state!r}: write one of {', '.join(STATES)}")
        if state is None and members != 0 and (members is not None or lag is None):
            state = "Stable"
        return cls(members, lag, state)

    def met_by(self, brief: GroupBrief | None, lag: Callable[[], int | None]) -> bool:
        state, members = ("Dead", 0) if brief is None else (brief.state, brief.members)
        if self.members not in (None, members) or self.state not in (None, state):
            return False
        return self.lag is None or ((left := lag()) is not None and left <= self.lag)

    def __str__(self) -> str:
        return ", ".join(f"{name}={value!r}" for name, value in self._asdict().items() if value is not None)


def _seen(state: str, members: int, lag: int | None) -> str:
    return f"{state} with {members} member{'s' * (members != 1)}, lag {'unknown' if lag is None else lag}"


def _in_full(episode: Episode) -> Iterator[str]:
    from ottla.observe.why.words import felt, tell

    headline, sentences = tell(episode)
    yield felt(episode) + headline
    yield from sentences
    for advice in episode.advice:
        yield f"What to do: {advice.text}"
