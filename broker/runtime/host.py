"""Enters the pure core, carries out its effects, and owns the one alarm clock.

Every entry ends in `Host.settle`: effects are taken until there are none, then one timer is armed for the earliest
deadline of all machines. A heartbeat asks for no effect and can only move a deadline later, so it goes to its
coordinator without the host. Parked fetches go by the real clock: where that of the coordinators is virtual, they have
an alarm of their own.

An entry may answer ten thousand members, and a sync may make durable what a thousand of them wrote. Such answers are
given, and such outcomes told, a slice a turn of the event loop, so that others have theirs in between. Nothing depends
on when an answer is given: the core went on when it asked for it. To the core a sync only seems to take longer.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, Concatenate, Final, NamedTuple, ParamSpec, TypeVar

from ottla.broker.clock import Clock
from ottla.broker.core.coordination.machine import CoordinatorMachine
from ottla.broker.core.coordination.shard import ShardState
from ottla.broker.core.effects import Append, Reply, Work, WriteMarker
from ottla.broker.core.fetches import FetchPurgatory, Parked, Wake
from ottla.broker.core.topics.partition import Partition, Standing
from ottla.broker.core.topics.producers import Settled, TransactionMarker
from ottla.broker.engine import EngineError
from ottla.broker.logger import Logger
from ottla.broker.runtime.alarm import Alarm, Machine
from ottla.broker.runtime.coordinator_log import CoordinatorLog, Damaged, Defer, Outcomes
from ottla.broker.runtime.turns import Turns
from ottla.protocol.errors import ErrorCode
from ottla.protocol.records import TopicPartition
from ottla.protocol.steps import Steps

REPLIES_A_TURN = 128
"""An entry that answers more waits for the next turn to do so: that many take a few milliseconds."""

OUTCOMES_MS = 5
"""Outcomes of writes are told for so long in a turn."""

_TOLD: Final = object()  # the end of an outcome

MarkerWriter = Callable[[TopicPartition, TransactionMarker, Settled], None]

Q = TypeVar("Q")
C = TypeVar("C")
A = TypeVar("A")
P = ParamSpec("P")


class _Hosted(NamedTuple):
    """A machine, and who carries out its effects, by their type."""

    machine: Machine
    carry_out: Mapping[type, Callable[[Any], None]]


class Host:
    """The way into the core for handlers, timers and the storage.

    Args:
        partition: gives a partition that is served, None where there is none.
        max_batch_bytes: larger batches of coordinator records are refused as the log would refuse them.
        defer: calls back before the event loop looks at its sockets again: until then writes are collected.
        work: takes steps between other things, and then calls back with what they return, None if they fail. Without
            it coordinators do all of their work within their entries.

    Attributes:
        on_damaged: told of a partition of a coordinator that cannot be loaded, where the others are loaded all the
            same; None where that is an error.
    """

    def __init__(
        self,
        clock: Clock,
        fetches: FetchPurgatory,
        *,
        partition: Callable[[TopicPartition], Partition | None],
        max_batch_bytes: int,
        report: Logger,
        defer: Defer | None = None,
        work: Callable[[Steps[Any], Callable[[Any], None]], None] | None = None,
    ) -> None:
        self.on_damaged: Damaged | None = None
        self._clock = clock
        self._work = work
        self._works = 0  # that are not done yet
        self._partition = partition
        self._max_batch_bytes = max_batch_bytes
        self._report = report
        self._defer = defer
        self._fetches = fetches
        self._hosted = [_Hosted(fetches, {Wake: self._wake})]
        self._logs: dict[str, CoordinatorLog] = {}
        self._settling = False
        self.outcomes: deque[Iterator[object]] = deque()
        """Of appends and markers, in their order, by steps: the coordinators are to be told."""
        self._is_due = False
        self._has_paused = False  # the outcomes that are left wait for the next turn
        self._unsaid: deque[Reply] = deque()  # answers that wait for their turn
        self.turns = Turns(clock, defer, self._reply, report)
        """Serves requests that may wait, as those of thousands of members who change something in one moment."""
        self._markers = 0  # that are on their way for a coordinator
        self.elsewhere: MarkerWriter | None = None
        """Has markers written where another node leads; None where there is no other node."""
        self._timed: list[Machine] = []
        self._alarm = Alarm(clock, self._timed, report, self.settle)
        self._arm = self._alarm.arm
        self._alarm_of_fetches = self._alarm
        if clock.real is clock:
            self._timed.append(fetches)
        else:
            self._alarm_of_fetches = Alarm(clock.real, [fetches], report, self.settle)
            self._arm = self._arm_both

    def add(self, topic: str, coordinator: CoordinatorMachine[Any]) -> None:
        """Have a coordinator, whose records go to a topic."""
        log = self._logs[topic] = CoordinatorLog(
            topic,
            coordinator,
            self._clock,
            partition=self._partition,
            max_batch_bytes=self._max_batch_bytes,
            defer=self._defer,
            over=self._together,
            report=self._report,
        )
        carry_out: dict[type, Callable[[Any], None]] = {
            Reply: self._reply,
            Append: log.append,
            WriteMarker: partial(self._write_marker, coordinator),
            Work: partial(self._work_apart, coordinator),
        }
        coordinator.works_apart = self._work is not None
        self._hosted.append(_Hosted(coordinator, carry_out))
        self._timed.append(coordinator)

    def log_of(self, topic: str) -> CoordinatorLog:
        """The log of a coordinator's topic."""
        return self._logs[topic]

    def now(self) -> tuple[int, int]:
        """The monotonic and the wall clock, in milliseconds."""
        return self._clock.monotonic_ms(), self._clock.wall_ms()

    def enter(
        self,
        entry: Callable[Concatenate[Q, C, int, int, P], A],
        request: Q,
        ctx: C,
        /,
        *more: P.args,
        **named: P.kwargs,
    ) -> A:
        """Call an entry of a coordinator, with the times, and carry out what it asks for."""
        answer = entry(request, ctx, self._clock.monotonic_ms(), self._clock.wall_ms(), *more, **named)
        self.settle()
        return answer

    # Ownership

    async def load(self, topic: str) -> None:
        """Take over those partitions of a coordinator's topic that are led here.

        Raises:
            EngineError, MalformedFrame: as `CoordinatorLog.load`, unless `on_damaged` is told.
        """
        log = self._logs[topic]
        for index in range(log.machine.partition_count):
            await log.take_over(index, self.on_damaged)
            self.settle()

    def give_up(self, topic: str | None = None, partition: int | None = None) -> list[tuple[CoordinatorLog, int]]:
        """Give shards up, all or one: parked requests are answered NOT_COORDINATOR.

        Returns:
            Those that were served, or were about to be, for `load_again`.
        """
        self._settle_all()
        given = []
        for log in reversed(self._logs.values()) if topic is None else [self._logs[topic]]:
            log.flush_all()
            for one in range(log.machine.partition_count) if partition is None else [partition]:
                if log.machine.shards[one].state is not ShardState.ABSENT:
                    given.append((log, one))
                log.machine.unload(one, *self.now())
        self.settle()
        return given

    async def load_again(self, given: list[tuple[CoordinatorLog, int]]) -> None:
        """Take over again what was given up. Raises as `CoordinatorLog.load`."""
        for log, partition in reversed(given):
            await log.load(partition, again=True)
            self.settle()

    def stop(self) -> None:
        """Give all shards up, and let no timer fire any more."""
        self.give_up()
        for parked in self._fetches.take_all():
            parked.expired = True
            self._look_again(parked)
        self.turns.finish()
        self.settle()
        while self._unsaid:
            self._say_some()
        self.silence()

    def silence(self) -> None:
        """Let no timer fire any more, and do nothing more that waits for its turn."""
        self.turns.clear()
        self._unsaid.clear()
        self.outcomes.clear()
        self._alarm.turn_off()
        self._alarm_of_fetches.turn_off()

    # Markers of transactions

    def write_marker(self, tp: TopicPartition, marker: TransactionMarker, settled: Settled) -> None:
        """End the transaction of a producer in a partition.

        ``settled`` is called once, maybe at once: with the marker's offset when it is durable and pending offsets were
        committed or dropped; UNKNOWN_TOPIC_OR_PARTITION if there is no such partition; NOT_LEADER_OR_FOLLOWER if it is
        not led here, or not yet; INVALID_PRODUCER_EPOCH or TRANSACTION_COORDINATOR_FENCED for a marker that comes too
        late; KAFKA_STORAGE_ERROR if nothing was written.
        """
        partition = self._partition(tp)
        if partition is None:
            settled(-1, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        elif partition.standing is not Standing.LEADING:
            is_damaged = partition.standing is Standing.OFFLINE
            settled(-1, ErrorCode.KAFKA_STORAGE_ERROR if is_damaged else ErrorCode.NOT_LEADER_OR_FOLLOWER)
        else:
            if tp.topic in self._logs:
                self._logs[tp.topic].flush(tp.partition)
            try:
                partition.append_marker(marker, self._clock.wall_ms(), partial(self._marked, tp, marker, settled))
            except EngineError as error:
                self._report.error("a transaction marker was refused", reason=str(error))
                settled(-1, ErrorCode.KAFKA_STORAGE_ERROR)

    def _marked(
        self, tp: TopicPartition, marker: TransactionMarker, settled: Settled, offset: int, error: ErrorCode
    ) -> None:
        self._later(partial(self._transaction_ended, tp, marker, settled, offset, error))

    def _transaction_ended(
        self, tp: TopicPartition, marker: TransactionMarker, settled: Settled, offset: int, error: ErrorCode
    ) -> None:
        if not error:
            if tp.topic in self._logs:
                machine = self._logs[tp.topic].machine
                machine.transaction_ended(tp.partition, marker.producer_id, marker.commit, *self.now())
            self._fetches.touched(tp)  # the last stable offset has moved, by more than the marker's own bytes
        settled(offset, error)

    def _write_marker(self, coordinator: CoordinatorMachine[Any], effect: WriteMarker) -> None:
        def settled(offset: int, error: ErrorCode) -> None:
            self._markers -= 1
            self._later(lambda: coordinator.marker_written(effect.token, error, *self.now()))

        self._markers += 1
        write: MarkerWriter = self.write_marker
        if self.elsewhere is not None:
            partition = self._partition(effect.tp)
            if partition is not None and partition.standing is Standing.ELSEWHERE:
                write = self.elsewhere
        write(effect.tp, effect.marker, settled)

    # Long work

    def _work_apart(self, coordinator: CoordinatorMachine[Any], effect: Work) -> None:
        def worked(outcome: Any) -> None:
            self._works -= 1
            try:
                coordinator.worked(effect.token, outcome, *self.now())
            except Exception:  # a bug in what was made of it
                self._report.error("what came of long work could not be used", exc_info=True)

        assert self._work is not None
        self._works += 1
        self._work(effect.steps, lambda outcome: self._later(partial(worked, outcome)))

    # Parked fetches

    def park(self, parked: Parked) -> None:
        """Keep a fetch until records come or its time is up."""
        self._fetches.park(parked)
        if not self._settling:
            self._alarm_of_fetches.arm()

    def drop(self, parked: Parked) -> None:
        """Forget a fetch whose connection is gone."""
        self._fetches.drop(parked)

    def appended(self, tp: TopicPartition, size_bytes: int) -> None:
        """A high watermark has moved: fetches that wait for the partition may have enough now."""
        if not self._fetches.watches(tp):
            return
        partition = self._partition(tp)
        if partition is not None:
            self._fetches.appended(tp, size_bytes, partition.last_stable_offset)
        if self._fetches.effects:
            self.settle()

    def touched(self, tp: TopicPartition) -> None:
        """A log was trimmed or deleted: who waits for it must look again."""
        self._fetches.touched(tp)
        if self._fetches.effects:
            self.settle()

    def _wake(self, wake: Wake) -> None:
        self._look_again(wake.parked)

    def _look_again(self, parked: Parked) -> None:
        try:
            parked.request.look_again(parked)
        except Exception:  # what it holds and how far it was answered is not known here
            self._report.error("a woken fetch failed", exc_info=True)
            parked.ctx.close("a fetch failed while it waited")

    # Effects and time

    def settle(self) -> None:
        """Carry out effects until there are none, then set the alarm clock."""
        if self._settling:
            return  # called from within an effect: the loop below goes on with what it left
        self._settling = True
        try:
            is_busy = True
            while is_busy:
                is_busy = False
                for machine, carry_out in self._hosted:
                    if machine.effects:
                        is_busy = True
                        effects = machine.take_effects()
                        if len(effects) > REPLIES_A_TURN and self._defer is not None:
                            effects = self._put_off(effects, self._defer)
                        for effect in effects:
                            carry_out[type(effect)](effect)
                if self.outcomes and not self._has_paused:
                    is_busy = True
                    self._tell_outcomes()
        finally:
            self._settling = False
            self._arm()

    def _settle_all(self) -> None:
        """Settle, and tell all outcomes now."""
        self._has_paused = False
        self.settle()
        while self._has_paused:
            self._has_paused = False
            self.settle()

    def _tell_outcomes(self) -> None:
        """Tell the core of outcomes, for as long as a turn allows."""
        now_ms, outcomes = self._clock.real.monotonic_ms, self.outcomes
        until_ms = now_ms() + OUTCOMES_MS
        while outcomes:
            if next(outcomes[0], _TOLD) is _TOLD:
                outcomes.popleft()
            if outcomes and self._defer is not None and now_ms() >= until_ms:
                self._has_paused = True
                return self._settle_soon(self._defer)
        return None

    def _later(self, outcome: Callable[[], object]) -> None:
        """Tell the core of an outcome, after those before it, and not within one of its own entries."""
        self.outcomes.append(outcome() for _ in range(1))
        self.settle()

    def _together(self, log: CoordinatorLog, tokens: list[object], error: ErrorCode) -> None:
        """The same for the writes of a batch: a sync makes one durable for each partition; all are told together."""
        last = self.outcomes[-1] if self.outcomes else None
        if not isinstance(last, Outcomes) or last.machine is not log.machine:
            self.outcomes.append(last := Outcomes(log.machine, self._clock))
        last.add(tokens, error)
        if self._defer is None:
            self.settle()
        else:
            self._settle_soon(self._defer)

    def _settle_soon(self, defer: Defer) -> None:
        if not self._is_due:
            self._is_due = True
            defer(self._settle_outcomes)

    def _settle_outcomes(self) -> None:
        self._is_due = self._has_paused = False
        self.settle()

    def _put_off(self, effects: list[Any], defer: Defer) -> list[Any]:
        """Let answers wait for their turn; returns the other effects."""
        is_due = bool(self._unsaid)
        self._unsaid.extend(effect for effect in effects if effect.__class__ is Reply)
        if self._unsaid and not is_due:
            defer(self._say_some)
        return [effect for effect in effects if effect.__class__ is not Reply]

    def _say_some(self) -> None:
        """Give the next slice of the answers that wait."""
        unsaid = self._unsaid
        for _ in range(min(len(unsaid), REPLIES_A_TURN)):
            self._reply(unsaid.popleft())
        if unsaid and self._defer is not None:
            self._defer(self._say_some)

    def _reply(self, reply: Reply) -> None:
        try:
            reply.ctx.reply(reply.response)  # type: ignore[attr-defined]
        except Exception:  # a bug in one answer must not keep the others from theirs
            self._report.error("an answer could not be sent", exc_info=True)

    def _arm_both(self) -> None:
        self._alarm.arm()
        self._alarm_of_fetches.arm()

    # A clock that jumps

    @property
    def due_ms(self) -> int | None:
        """When the coordinators want to be called next; None if never."""
        return self._alarm.due_ms

    def ring(self) -> None:
        """Let the coordinators handle what is due: the clock was moved."""
        self._alarm.ring()

    def put_off_sweeps(self, until_ms: int) -> None:
        """Let no coordinator look at whole partitions before the time to which the clock jumps."""
        for log in self._logs.values():
            log.machine.put_off_sweeps(until_ms, *self.now())
        self.settle()

    @property
    def is_at_rest(self) -> bool:
        """Whether all that the coordinators asked for is done and durable, and all answers are given."""
        if self.turns or self._unsaid or self.outcomes or self._markers or self._works:
            return False
        return not any(shard.in_flight for log in self._logs.values() for shard in log.machine.shards)
