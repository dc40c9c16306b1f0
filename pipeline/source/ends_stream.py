"""The stream of log-end samples. What was sampled is in the offsets themselves: a replay gives the same rows."""

from __future__ import annotations

import heapq
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import InputPartition
from pyspark.sql.streaming.datasource import ReadLimit

from ottla.pipeline.source.ends import Sample, sample_rows, samples_now
from ottla.pipeline.source.offsets import VERSION, known_layout
from ottla.pipeline.source.options import Options
from ottla.pipeline.source.stream import StreamReader
from ottla.protocol.records import TopicPartition

if TYPE_CHECKING:
    import pyarrow as pa

MOST_SAMPLES = 50_000
"""Some 1.5 MB of JSON, which Spark keeps for each batch and its planning reads."""
_KEYS = {"v", "at_ms", "ends", "samples"}


class Samples(InputPartition):
    """The samples that one task turns into rows."""

    def __init__(self, samples: list[Sample]) -> None:
        self.samples = samples


class EndsStreamReader(StreamReader):
    """A sample for each trigger, but not before ``sampleIntervalMs`` has passed since the last.

    Offsets are ``{"v": 1, "at_ms": …, "samples": {"orders": {"0": [[at_ms, start, end]]}}, "ends": {…}}``, where
    ``ends`` says how far the history of a directory was told; an offset has at most `MOST_SAMPLES` of it.
    """

    def __init__(self, options: Options) -> None:
        super().__init__(options)
        self._is_last = False
        self._latest: dict[str, Any] = {}
        self._is_all = False  # of the last sample: nothing of the history is left for the next one

    def initialOffset(self) -> dict[str, Any]:
        """Before the first sample."""
        return {"v": VERSION, "at_ms": 0, "samples": {}, "ends": {}}

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """The next sample, or ``start`` where it is too early for one or nothing is new."""
        samples_of(start)
        now_ms = int(time.time() * 1000)
        if self._is_last:
            if not self._is_all:
                self._latest = self._sample(start, now_ms)
            return self._latest
        passed_ms = now_ms - int(start["at_ms"])
        if 0 <= passed_ms < self.options.sample_interval_ms and (self._is_all or not self.options.path):
            return start
        return self._sample(start, now_ms)

    def prepareForTriggerAvailableNow(self) -> None:
        """One sample, or what history there is, and the stream is at its end."""
        self._is_last = True

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[Samples]:
        """One task: there is nothing to read any more."""
        samples = samples_of(end)
        return [Samples(samples)] if samples and start != end else []

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows."""
        return iter([sample_rows(partition.samples)]) if isinstance(partition, Samples) else iter(())

    def _sample(self, start: dict[str, Any], now_ms: int) -> dict[str, Any]:
        found = samples_now(self.options, self.logs, now_ms)
        ends: dict[str, dict[str, int]] = {}
        if not self.options.path:
            samples, self._is_all = list(found), True
        else:
            told = start["ends"]
            new = (one for one in found if one.end > told.get(one.tp.topic, {}).get(str(one.tp.partition), -1))
            # In the order of time, in which each partition's are already: the rest comes with the next offset.
            samples = heapq.nsmallest(MOST_SAMPLES + 1, new, key=lambda one: one.at_ms)
            self._is_all = len(samples) <= MOST_SAMPLES
            if not samples:
                return start
            del samples[MOST_SAMPLES:]
            ends = {topic: dict(row) for topic, row in told.items()}
            for one in samples:
                ends.setdefault(one.tp.topic, {})[str(one.tp.partition)] = one.end
        rows: dict[str, dict[str, list[list[int]]]] = {}
        for one in samples:
            rows.setdefault(one.tp.topic, {}).setdefault(str(one.tp.partition), []).append(
                [one.at_ms, one.start, one.end]
            )
        return {"v": VERSION, "at_ms": now_ms, "samples": rows, "ends": ends}


def samples_of(document: Any) -> list[Sample]:
    """The samples in an offset.

    Raises:
        SourceError: it is of a layout that this version does not know.
    """
    with known_layout(document, _KEYS):
        return [
            Sample(TopicPartition(topic, int(partition)), int(at_ms), int(start), int(end))
            for topic, row in document["samples"].items()
            for partition, several in row.items()
            for at_ms, start, end in several
        ]
