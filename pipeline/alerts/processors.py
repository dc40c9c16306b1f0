"""The rules with their state in Spark: ``transformWithState`` by group for storms, by topic for stopped groups.

Time mode is processing time. A watermark would add nothing: a group's records stand in one partition of one log, in
order, so none is late; and a watermark only moves when records arrive, so in a quiet cluster a storm would never be
over. What counts as close together is decided by the records' own time (`ottla.pipeline.alerts.storms`).

State ends by timers and not by Spark's TTL, because an alert that stands is to be resolved when its state goes.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import msgspec
from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

from ottla.pipeline.alerts import stopped, storms
from ottla.pipeline.alerts.alert import Alert
from ottla.pipeline.alerts.stopped import Reader, StoppedLimits
from ottla.pipeline.alerts.storms import Storm, StormLimits, Turn

if TYPE_CHECKING:
    from pyspark.sql.streaming.stateful_processor import (
        ExpiredTimerInfo,
        StatefulProcessorHandle,
        TimerValues,
    )

OUTPUT = "group_id STRING, id STRING, state STRING, alert STRING"
"""``alert`` is `Alert` as JSON."""

_STATE = "state STRING"


def _rows(alerts: list[Alert]) -> Iterator[Row]:
    for alert in alerts:
        yield Row(group_id=alert.group, id=alert.id, state=alert.state, alert=alert.json())


class _Processor(StatefulProcessor):
    """A processor whose state ends by a timer."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._handle = handle

    def close(self) -> None:
        pass

    def _wait(self, timer: TimerValues, wait_ms: int) -> None:
        """Begin to wait anew: nothing that came before counts any more."""
        for at in list(self._handle.listTimers()):
            self._handle.deleteTimer(at)
        self._handle.registerTimer(timer.getCurrentProcessingTimeInMs() + wait_ms)


class StormProcessor(_Processor):
    """Rows of `ottla.pipeline.alerts.streams.TURNS`, by ``group_id``."""

    def __init__(self, limits: StormLimits) -> None:
        self._limits = limits

    def init(self, handle: StatefulProcessorHandle) -> None:
        super().init(handle)
        self._state = handle.getValueState("storm", _STATE)

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: TimerValues) -> Iterator[Row]:
        storm, said = self._load(), []
        for turn in sorted((_turn(row) for row in rows), key=lambda turn: (turn.ts_ms, turn.generation)):
            said += storms.feed(storm, turn, self._limits)
        self._keep(storm, timerValues)
        return _rows(said)

    def handleExpiredTimer(
        self, key: Any, timerValues: TimerValues, expiredTimerInfo: ExpiredTimerInfo
    ) -> Iterator[Row]:
        storm = self._load()
        if not storm.raised:
            self._state.clear()
            return iter(())
        said = storms.quiet(storm, key[0], self._limits)
        self._keep(storm, timerValues)
        return _rows(said)

    def _load(self) -> Storm:
        kept = self._state.get()
        return Storm() if kept is None else msgspec.json.decode(kept[0], type=Storm)

    def _keep(self, storm: Storm, timer: TimerValues) -> None:
        """A timer begins anew with every record: no generation for that long ends a storm, or forgets the group."""
        self._wait(timer, self._limits.gap_ms if storm.raised else self._limits.forget_ms)
        self._state.update((msgspec.json.encode(storm).decode(),))


def _turn(row: Row) -> Turn:
    members = None
    if row.members is not None:
        # What is within a column comes as a dict from Spark 4.3, and as a Row from its tester.
        members = {one["member_id"]: (one["client_id"] or "", one["client_host"] or "") for one in row.members}
    return Turn(
        group=row.group_id,
        ts_ms=row.ts_ms,
        generation=-1 if row.generation is None else row.generation,
        members=members,
        client=(row.client_id, row.client_host or "") if row.client_id else None,
        cause=row.cause,
        duration_ms=row.duration_ms,
        deleted=bool(row.deleted),
    )


class StoppedProcessor(_Processor):
    """Rows of `ottla.pipeline.alerts.streams.PROGRESS`, by ``topic``.

    A topic's groups are a map state, so that a sample writes only those whose judgement changed.
    """

    def __init__(self, limits: StoppedLimits) -> None:
        self._limits = limits

    def init(self, handle: StatefulProcessorHandle) -> None:
        super().init(handle)
        self._groups = handle.getMapState("groups", "group_id STRING", _STATE)
        self._ends = handle.getValueState("ends", _STATE)

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: TimerValues) -> Iterator[Row]:
        topic = key[0]
        kept = self._ends.get()
        ends: dict[int, int] = {} if kept is None else msgspec.json.decode(kept[0], type=dict[int, int])
        before = {group[0]: state[0] for group, state in self._groups.iterator()}
        readers = {group: msgspec.json.decode(state, type=Reader) for group, state in before.items()}
        said: list[Alert] = []
        at = attrgetter("ts_ms")
        for ts_ms, moment in groupby(sorted(rows, key=at), at):
            at_once = list(moment)
            samples = [row for row in at_once if row.group_id is None]
            for row in at_once:
                if row.group_id is not None:
                    reader = readers.setdefault(row.group_id, Reader())
                    offsets = {one["partition"]: one["offset"] for one in row.offsets}
                    said += stopped.commit(reader, row.group_id, topic, row.instants_ms, offsets)
            if samples:
                ends.update({row.partition: row.log_end_offset for row in samples})
                said += self._judge(topic, readers, ends, ts_ms)
        self._write(before, readers)
        self._ends.update((msgspec.json.encode(ends).decode(),))
        self._wait(timerValues, self._limits.forget_ms)
        return _rows(said)

    def _judge(self, topic: str, readers: dict[str, Reader], ends: dict[int, int], now_ms: int) -> list[Alert]:
        said = []
        for group, reader in list(readers.items()):
            said += stopped.check(reader, group, topic, ends, now_ms, self._limits)
            if stopped.forgotten(reader, now_ms, self._limits):
                said += stopped.forget(reader, group, topic, now_ms, self._limits)
                del readers[group]
        return said

    def _write(self, before: dict[str, str], readers: dict[str, Reader]) -> None:
        for group in before.keys() - readers.keys():
            self._groups.removeKey((group,))
        for group, reader in readers.items():
            state = msgspec.json.encode(reader).decode()
            if before.get(group) != state:
                self._groups.updateValue((group,), (state,))

    def handleExpiredTimer(
        self, key: Any, timerValues: TimerValues, expiredTimerInfo: ExpiredTimerInfo
    ) -> Iterator[Row]:
        """Nothing came of the topic, not even a sample: it was deleted."""
        said: list[Alert] = []
        for (group,), (state,) in list(self._groups.iterator()):
            reader = msgspec.json.decode(state, type=Reader)
            now_ms = (reader.instants_ms or [0])[-1] + self._limits.forget_ms
            said += stopped.forget(reader, group, key[0], now_ms, self._limits)
        self._groups.clear()
        self._ends.clear()
        return _rows(said)
