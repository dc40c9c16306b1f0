"""The batch reader: what is there now, or a part of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader, EqualTo, Filter, In, InputPartition

from ottla.pipeline.source.ends import sample_rows, samples_now
from ottla.pipeline.source.log_directory import LogDirectory
from ottla.pipeline.source.logs import Span, Topic
from ottla.pipeline.source.options import Options
from ottla.pipeline.source.planning import bundle, split
from ottla.pipeline.source.rows import Logs, Losses, open_logs, read_spans
from ottla.pipeline.source.subscription import check_named, partitions_of, resolve, subscribed
from ottla.protocol.groups import DEFAULT_PARTITION_COUNT, coordinator_partition
from ottla.protocol.internal_topics import GROUP_EVENTS_TOPIC, OFFSETS_TOPIC
from ottla.protocol.records import TopicPartition

if TYPE_CHECKING:
    import pyarrow as pa

_BY_GROUP = ("commits", "groups", "consumer_groups", "events")
_BY_LOG_PARTITION = ("commits", "groups", "consumer_groups", "quarantine", "log")
_SAMPLES_AT_ONCE = 1 << 16


class Bundle(InputPartition):
    """The spans that one task reads."""

    def __init__(self, spans: list[Span]) -> None:
        self.spans = spans


def bundles(options: Options, spans: list[Span]) -> list[Bundle]:
    """Share spans out among tasks."""
    at_least = options.min_partitions
    return [Bundle(several) for several in bundle(split(spans, at_least), max(options.tasks, at_least))]


class OttlaReader(DataSourceReader):
    """See `ottla.pipeline.source`."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.groups: set[str] | None = None
        self.log_partitions: set[int] | None = None

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        """Note which groups or partitions are wanted. Spark checks the rows nevertheless."""
        for one in filters:
            if not isinstance(one, EqualTo | In):
                continue
            wanted = {one.value} if isinstance(one, EqualTo) else set(one.value)
            column = ".".join(one.attribute)
            if column == "group_id" and self.options.decode in _BY_GROUP:
                groups = {value for value in wanted if isinstance(value, str)}
                self.groups = groups if self.groups is None else self.groups & groups
            elif self._names_partition(column):
                numbers = {value for value in wanted if isinstance(value, int)}
                self.log_partitions = numbers if self.log_partitions is None else self.log_partitions & numbers
        return filters

    def partitions(self) -> list[Bundle]:
        """Plan: what to read, in about as many tasks as there are turns to run them."""
        options = self.options
        if options.decode == "ends":
            return [Bundle([])]
        with closing(open_logs(options)) as logs:
            return bundles(options, self._spans(logs))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one bundle; of decode=ends, a sample of now."""
        if not isinstance(partition, Bundle):
            return iter(())
        if self.options.decode == "ends":
            return self._ends()
        return read_spans(self.options, partition.spans)

    def _ends(self) -> Iterator[pa.RecordBatch]:
        with closing(open_logs(self.options)) as logs:
            samples = samples_now(self.options, logs)
            while some := list(islice(samples, _SAMPLES_AT_ONCE)):
                yield sample_rows(some)

    def _spans(self, logs: Logs) -> list[Span]:
        options = self.options
        topics = subscribed(options, logs)
        counted = not isinstance(logs, LogDirectory) or logs.has_catalog
        partitions = [tp for tp in partitions_of(options, topics) if self._is_wanted(tp, topics[tp.topic], counted)]
        # Where tasks read whole partitions they look for open transactions themselves, all at once.
        tasks_scan = isinstance(logs, LogDirectory) and options.min_partitions <= len(partitions)
        bounds = (
            logs.loose_bounds(partitions) if isinstance(logs, LogDirectory) and tasks_scan else logs.bounds(partitions)
        )
        if self.groups is None and self.log_partitions is None:
            check_named(options.starting, list(bounds), "startingOffsets")
            check_named(options.ending, list(bounds), "endingOffsets")
        starts = resolve(options.starting, bounds, logs, strict=options.strict_timestamp)
        ends = resolve(options.ending, bounds, logs)
        losses = Losses(options)
        for tp in partitions:
            if tp not in bounds:
                losses.lost(tp, "it does not exist any more")
        spans = []
        for tp, bound in bounds.items():
            start, end = starts[tp], ends[tp]
            if start < bound.start:
                losses.lost(tp, f"offsets {start} to {bound.start} are not there any more")
                start = bound.start
            if start > bound.end or (end > bound.end and options.ending.timestamp_ms is None):
                losses.lost(tp, f"offsets {start} to {end} were asked for, and the log ends at {bound.end}")
            spans.append(Span(tp, start, min(end, bound.end)))
        if isinstance(logs, LogDirectory) and not tasks_scan:
            return [replace(span, aborted=logs.aborted(span.tp)) for span in spans]
        return spans

    def _names_partition(self, column: str) -> bool:
        if self.options.decode == "raw":
            return column == "partition"
        return column == "log_partition" and self.options.decode in _BY_LOG_PARTITION

    def _is_wanted(self, tp: TopicPartition, topic: Topic, counted: bool) -> bool:
        """Tell whether a partition can have wanted rows; ``counted``: all partitions of the topic are known."""
        if self.log_partitions is not None and tp.partition not in self.log_partitions:
            return False
        if self.groups is None or tp.topic not in (OFFSETS_TOPIC, GROUP_EVENTS_TOPIC):
            return True  # nobody knows how groups were spread over the partitions of a copy
        count = len(topic.partitions)
        # A directory of one of several brokers has a part of the partitions: then there is no telling where a group is.
        if not counted and topic.partitions != tuple(range(DEFAULT_PARTITION_COUNT)):
            return True
        return tp.partition in {coordinator_partition(group, count) for group in self.groups}
