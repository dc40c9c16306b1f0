"""Samples of where logs begin and end (decode=ends)."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from ottla.clients.partitions import labels
from ottla.pipeline.source.cluster import Cluster
from ottla.pipeline.source.log_directory import LogDirectory
from ottla.pipeline.source.options import Options
from ottla.pipeline.source.rows import Logs
from ottla.pipeline.source.subscription import partitions_of, subscribed
from ottla.pipeline.tables import LOG_END_SAMPLES
from ottla.protocol.records import TopicPartition

if TYPE_CHECKING:
    import pyarrow as pa

log = logging.getLogger("ottla.pipeline.source")


class Sample(NamedTuple):
    """The beginning and end of a log at a moment (Unix ms)."""

    tp: TopicPartition
    at_ms: int
    start: int
    end: int


def samples_now(options: Options, logs: Logs, now_ms: int | None = None) -> Iterator[Sample]:
    """One sample of every partition, or, of a directory, its history as far as files tell: much, so one by one.

    Raises:
        SourceError: the cluster or the directory cannot be read.
    """
    partitions = partitions_of(options, subscribed(options, logs))
    if isinstance(logs, LogDirectory):
        for tp in partitions:
            if (stored := logs.log(tp)) is not None:
                start = stored.start_offset
                for at, end in stored.history(options.sample_interval_ms):
                    yield Sample(tp, at, start, end)
        return
    if isinstance(logs, Cluster):
        led = logs.led(partitions)
        if len(led) < len(partitions):
            # One that is offline, perhaps for long, must not keep the others from being watched.
            names = labels(sorted(set(partitions) - set(led))[:10])
            log.warning(
                "%s: %d partitions have no leader, and no sample: %s", options.where, len(partitions) - len(led), names
            )
        partitions = led
    bounds = logs.bounds(partitions)
    at_ms = int(time.time() * 1000) if now_ms is None else now_ms
    for tp, bound in sorted(bounds.items()):
        yield Sample(tp, at_ms, bound.start, bound.end)


def sample_rows(samples: Sequence[Sample]) -> pa.RecordBatch:
    """Samples as rows of log_end_samples."""
    import pyarrow as pa

    schema = LOG_END_SAMPLES.arrow(whole=False)
    rows = [(one.at_ms * 1000, *one.tp, one.start, one.end) for one in samples]
    columns = list(zip(*rows, strict=True)) or [()] * len(schema)
    arrays = [pa.array(column, type=field.type) for column, field in zip(columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
