"""The machine under every coordinator: time, deadlines, effects, and shards that are loaded, served and given up.

An entry calls `CoordinatorMachine.begin` once; until it returns, ``now_ms`` and ``wall_ms`` stand still and ``cause``
is its number. An entry returns the answer, or None if the request was parked: its answer then comes as a `Reply` among
the effects of some later entry. After each entry the caller takes the effects (`take_effects`), carries them out in
order, and asks when to call `advance` next (`next_deadline_ms`). Nothing is said that is not durable.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator
from contextlib import closing
from typing import Any, Generic, TypeVar

from msgspec import Struct

from ottla.broker.core.coordination.shard import Shard, ShardState, Write
from ottla.broker.core.effects import Append, Asker, Effect, Reply
from ottla.broker.core.purgatory import Deadlines
from ottla.protocol.errors import ErrorCode, MalformedFrame
from ottla.protocol.groups import coordinator_partition
from ottla.protocol.offsets_topic import CoordinatorRecord

S = TypeVar("S", bound=Shard)
R = TypeVar("R")


class TimerKey(Struct, frozen=True, gc=False):
    """The key of a deadline. There is one for each member.

    Attributes:
        timer: the kind of deadline, by its coordinator.
        subject: a group or transactional id, or a partition.
        member_id: of a group's member, for deadlines that are about one.
    """

    timer: enum.StrEnum
    subject: str | int = ""
    member_id: str = ""


class CoordinatorMachine(Generic[S]):
    """See the module.

    Args:
        shards: one for each partition of the topic, in order; their number is fixed for the life of the topic.

    A machine owns no partition until `load_started`, `replay` and `loaded` were called for it.
    """

    turn_deadlines = 500
    """How many deadlines one call of `advance` handles at most.

    After a start the sessions of all members surface within one heartbeat interval; a hundred thousand of them at once
    would hold up every other connection for most of a second.
    """
    works_apart = False
    """Whether whoever takes the effects can carry `Work` out. If not, an entry does it itself, long as it may be."""
    sweeps: frozenset[enum.StrEnum] = frozenset()
    """Deadlines that look at a whole shard: one ends a call of `advance`, too."""

    def __init__(self, shards: Iterable[S]) -> None:
        self.shards = list(shards)
        self.partition_count = len(self.shards)
        self.deadlines: Deadlines[TimerKey] = Deadlines()
        self.effects: list[Effect] = []
        self.now_ms = 0
        self.wall_ms = 0
        self.cause = 0

    def begin(self, now_ms: int, wall_ms: int | None = None) -> int:
        """Start an entry; returns its number."""
        self.now_ms = now_ms
        if wall_ms is not None:
            self.wall_ms = wall_ms
        self.cause += 1
        return self.cause

    def shard_of(self, name: str) -> S:
        """The shard of a group or transactional id."""
        return self.shards[coordinator_partition(name, self.partition_count)]

    # Effects

    def take_effects(self) -> list[Effect]:
        """Take the effects of the entries since the last call, in order."""
        effects = self.effects
        if effects:
            self.effects = []
        return effects

    def append(self, write: Write[Any], records: list[CoordinatorRecord]) -> None:
        """Hand records over to the log; ``write.done`` is called with their outcome."""
        write.cause = self.cause
        write.shard.in_flight[write] = None
        write.begins()
        self.effects.append(
            Append(write.shard.partition, records, write, write.producer_id, write.producer_epoch, write.verified)
        )

    # The log

    def appended(self, token: object, error: ErrorCode, now_ms: int, wall_ms: int) -> None:
        """The records of an `Append` are durable (``NONE``), or failed. Unknown tokens are of a shard given up."""
        assert isinstance(token, Write)
        if token not in token.shard.in_flight:
            return
        self.begin(now_ms, wall_ms)
        del token.shard.in_flight[token]
        self._note_appended(token, error)
        token.done(self, error)
        for waiter in token.waiters:
            waiter.done(self, error)

    def appended_all(self, tokens: Iterable[object], error: ErrorCode, now_ms: int, wall_ms: int) -> None:
        """The same for several, one after the other."""
        for token in tokens:
            self.appended(token, error, now_ms, wall_ms)

    # Time

    def next_deadline_ms(self) -> int | None:
        """When `advance` wants to be called. It may turn out that nothing was due."""
        return self.deadlines.next()

    def advance(self, now_ms: int, wall_ms: int) -> None:
        """Handle the deadlines that have passed, as many as one turn of the loop should take.

        What is left, and what is armed meanwhile without delay, waits for the next call: `next_deadline_ms` is then
        in the past, and the loop gets a turn in between.
        """
        left = self.turn_deadlines
        with closing(self.deadlines.expired(now_ms)) as expired:
            for key in expired:
                left -= 1
                self.due(key, now_ms, wall_ms)
                if not left or key.timer in self.sweeps:
                    return

    def put_off_sweeps(self, until_ms: int, now_ms: int, wall_ms: int) -> None:
        """Let no sweep be due before a time to which the clock jumps: one is enough for all those on the way."""
        for key in self._sweeping():
            at_ms = self.deadlines.get(key)
            if at_ms is not None and at_ms < until_ms:
                self.deadlines.set(key, until_ms)

    def due(self, key: TimerKey, now_ms: int, wall_ms: int) -> None:
        """Handle one deadline, which was taken from the others; whoever replays a recording calls this itself."""
        self.begin(now_ms, wall_ms)
        self._fire(key)

    # Ownership

    def load_started(self, partition: int, now_ms: int, epoch: int | None = None) -> bool:
        """This broker takes a partition over; requests hear COORDINATOR_LOAD_IN_PROGRESS until `loaded`.

        Args:
            epoch: the leader epoch of the partition, None if it does not matter.

        Returns:
            False if there is nothing to load: the epoch is not newer than the known one, or the partition is being
            loaded or served already.
        """
        shard = self.shards[partition]
        if not _is_newer(shard, epoch) or shard.state in (ShardState.LOADING, ShardState.ACTIVE):
            return False
        self.begin(now_ms)
        shard.clear()
        shard.become(ShardState.LOADING)
        self._note_ownership(shard, shard.state)
        return True

    def replay(self, partition: int, record: CoordinatorRecord, offset: int, producer_id: int = -1) -> bool:
        """Apply a record of the log of a partition that is being loaded.

        A record that cannot be read fails the load: to serve without it would lose offsets silently, or could end a
        transaction in two ways.

        Args:
            producer_id: of the transaction that the record belongs to; -1 for one that counts at once.

        Returns:
            Whether the load goes on.

        Raises:
            MalformedFrame: the record cannot be read. The load has failed.
        """
        shard = self.shards[partition]
        if shard.state is not ShardState.LOADING:
            return False
        try:
            self._apply(shard, record, producer_id)
        except MalformedFrame:
            self.load_failed(partition, self.now_ms)
            raise
        return True

    def replay_plain(self, partition: int, body: bytes, position: int, count: int) -> tuple[int, int]:
        """Apply, many at once, the records of a batch that are of the most frequent form; `replay` is for the others.

        It may always be left out. What it does, and what fails, is the same then.

        Args:
            body: the decompressed records, which count at once; from the position on there are so many.

        Returns:
            The position of the first record that has another form, and how many there are from there on.
        """
        return position, count

    def load_failed(self, partition: int, now_ms: int) -> None:
        """The partition cannot be loaded; requests hear NOT_COORDINATOR until another load succeeds."""
        shard = self.shards[partition]
        if shard.state is ShardState.LOADING:
            self.begin(now_ms)
            shard.clear()
            shard.become(ShardState.FAILED)
            self._note_ownership(shard, shard.state)

    def loaded(self, partition: int, now_ms: int, wall_ms: int) -> bool:
        """All records were replayed: serve the partition. False if the load had failed."""
        is_loading = self.shards[partition].state is ShardState.LOADING
        for _ in self.activating(partition, now_ms, wall_ms):
            pass
        return is_loading

    def activating(self, partition: int, now_ms: int, wall_ms: int) -> Iterator[None]:
        """Do what `loaded` does in pieces, between which others may have their turn; requests wait until it is done.

        It is one entry all the same, with one number and one time.
        """
        shard = self.shards[partition]
        if shard.state is not ShardState.LOADING:
            return
        number = self.begin(now_ms, wall_ms)
        self._note_ownership(shard, ShardState.ACTIVE)
        shard.is_begun = True
        pieces = iter(self._activate(shard))
        while True:
            newest, self.cause, self.now_ms, self.wall_ms = self.cause, number, now_ms, wall_ms
            is_over = next(pieces, True)
            self.cause = newest
            if is_over:
                break
            yield
            if shard.state is not ShardState.LOADING:
                return  # it was given up
        shard.become(ShardState.ACTIVE)

    def unload(self, partition: int, now_ms: int, wall_ms: int, epoch: int | None = None) -> None:
        """Give a partition up; everything that waits hears NOT_COORDINATOR.

        Args:
            epoch: of the new leader. Ignored unless it is newer than the known one; None if the partition is gone.
        """
        shard = self.shards[partition]
        if not _is_newer(shard, epoch):
            return
        self.begin(now_ms, wall_ms)
        self._note_ownership(shard, ShardState.ABSENT)
        was_begun = shard.is_begun
        shard.become(ShardState.ABSENT)
        if was_begun:
            self._give_up(shard)
        shard.clear()
        in_flight, shard.in_flight = shard.in_flight, {}
        for write in in_flight:
            write.given_up(self)

    # Transactions

    def transaction_ended(self, partition: int, producer_id: int, commit: bool, now_ms: int, wall_ms: int) -> None:
        """The marker that ends a producer's transaction is durable in a partition, or was read while it is loaded."""

    def marker_written(self, token: object, error: ErrorCode, now_ms: int, wall_ms: int) -> None:
        """The marker of a `WriteMarker` is durable (``NONE``), or failed."""

    # Long work

    def worked(self, token: object, outcome: Any, now_ms: int, wall_ms: int) -> None:
        """The steps of a `Work` are taken."""

    # Left to the kind of coordinator

    def _fire(self, key: TimerKey) -> None:
        """Handle a deadline, within an entry."""
        raise NotImplementedError

    def _sweeping(self) -> Iterable[TimerKey]:
        """The keys of the sweeps that may be set."""
        raise NotImplementedError

    def _apply(self, shard: S, record: CoordinatorRecord, producer_id: int) -> None:
        """Take a record in. Raises MalformedFrame if it cannot be read."""
        raise NotImplementedError

    def _activate(self, shard: S) -> Iterable[None]:
        """Begin to serve what was replayed, in pieces."""
        raise NotImplementedError

    def _give_up(self, shard: S) -> None:
        """Cancel the deadlines of a shard of which something was served, and answer what waits in it."""
        raise NotImplementedError

    def _note_ownership(self, shard: S, state: ShardState) -> None:
        """Tell observers that a shard enters a state."""

    def _note_appended(self, write: Write[Any], error: ErrorCode) -> None:
        """Tell observers the outcome of a write."""


def _is_newer(shard: Shard, epoch: int | None) -> bool:
    """Whether an epoch is newer than the known one, and takes note of it."""
    if epoch is None:
        return True
    if epoch <= shard.epoch:
        return False
    shard.epoch = epoch
    return True


class Answer(Generic[R]):
    """The answer to one request: returned if it is known within the entry, a `Reply` effect if it comes later."""

    __slots__ = ("_ctx", "_given", "_machine", "_response")

    def __init__(self, ctx: Asker) -> None:
        self._machine: CoordinatorMachine[Any] | None = None  # known once the entry has returned
        self._response: R | None = None
        self._given = False
        self._ctx = ctx

    def give(self, response: R) -> None:
        """Answer, once."""
        assert not self._given, "answered twice"
        self._given = True
        if self._machine is None:
            self._response = response
        else:
            self._machine.effects.append(Reply(self._ctx, response))

    def taken(self, machine: CoordinatorMachine[Any]) -> R | None:
        """The value that the entry returns: the response, or None if it comes later."""
        self._machine = machine
        return self._response
