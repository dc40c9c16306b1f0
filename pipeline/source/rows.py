"""Record batches for Spark out of spans."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import TYPE_CHECKING

from ottla.pipeline.codec import Damage, decode, table_of
from ottla.pipeline.source.cluster import Cluster
from ottla.pipeline.source.log_directory import LogDirectory
from ottla.pipeline.source.logs import DataLoss, Span
from ottla.pipeline.source.options import Options
from ottla.pipeline.tables import LOG_END_SAMPLES, Table
from ottla.protocol.records import TopicPartition

if TYPE_CHECKING:
    import pyarrow as pa

log = logging.getLogger("ottla.pipeline.source")
_ADVICE = "set failOnDataLoss=false to go on with what is there"


Logs = Cluster | LogDirectory
"""A place of logs; both have the same methods. Use `close` at the end."""


def open_logs(options: Options) -> Logs:
    """The cluster or the directory that options name.

    Raises:
        SourceError: there is no such directory.
    """
    return LogDirectory(options) if options.path else Cluster(options)


class Losses:
    """The answer to records that are gone or damaged: an error, or a warning in the log of whoever reads."""

    def __init__(self, options: Options) -> None:
        self._fail = options.fail_on_data_loss
        # Damage is what rows of quarantine are for.
        self._fail_broken = self._fail and options.decode != "quarantine"
        self._where = options.where

    def lost(self, tp: TopicPartition, reason: str) -> None:
        """Raises `DataLoss` with ``failOnDataLoss=true``."""
        self._tell(f"{self._where}: {tp.topic}-{tp.partition}: {reason}", self._fail)

    def broken(self, tp: TopicPartition, damage: Damage) -> None:
        """Raises `DataLoss` with ``failOnDataLoss=true``, but for rows of quarantine."""
        behind = "nothing behind it can be read" if damage.is_fatal else f"the next offset is {damage.next_offset}"
        text = f"{self._where}: {tp.topic}-{tp.partition}: the batch at offset {damage.offset} is damaged"
        self._tell(f"{text}: {damage.reason}; {behind}", self._fail_broken)

    def _tell(self, text: str, fail: bool) -> None:
        if fail:
            raise DataLoss(f"{text}; {_ADVICE}")
        log.warning("%s; going on", text)


def table_read(options: Options) -> Table:
    """The table whose rows are given, without ``cluster_id`` and the date."""
    if options.decode == "ends":
        return LOG_END_SAMPLES
    return table_of(options.decode, headers=options.include_headers)


def read_spans(options: Options, spans: Sequence[Span]) -> Iterator[pa.RecordBatch]:
    """The rows of some spans.

    Raises:
        SourceError: the cluster or the directory cannot be read.
        DataLoss: something is missing or damaged, and ``failOnDataLoss`` is true.
    """
    losses = Losses(options)
    with closing(open_logs(options)) as logs:
        for chunk in logs.chunks(spans, losses.lost, losses.broken):
            rows = decode(options.decode, chunk, headers=options.include_headers)
            if rows.num_rows:
                yield rows
