"""A directory of logs, of Ottla or of Apache Kafka, read without a broker: the same rows as over TCP."""

from __future__ import annotations

import json
import logging
import os
import re
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

from ottla.pipeline.codec import Aborted, Chunk
from ottla.pipeline.source.journal import Journal
from ottla.pipeline.source.logs import UNKNOWN_ID, Bounds, Broken, Report, SourceError, Span, Topic
from ottla.pipeline.source.options import Isolation, Options
from ottla.pipeline.source.stored_log import StoredLog
from ottla.protocol.internal_topics import INTERNAL_TOPICS
from ottla.protocol.records import TopicPartition
from ottla.protocol.stored.names import (
    CATALOG_NAME,
    CHECKPOINT_NAME,
    JOURNAL_NAME,
    LOGS_NAME,
    META_NAME,
    METADATA_NAME,
    decode_metadata,
    parse_directory_name,
)

_logger = logging.getLogger("ottla.pipeline.source")
_INTERNAL = INTERNAL_TOPICS | {"__cluster_metadata"}


class LogDirectory:
    """The logs below ``options.path``: Ottla's data directory, or the directory of Kafka's partitions.

    What it sees is that of the moment when it is first asked; `refresh` looks again.

    Raises:
        SourceError: there is no such directory, or it holds no logs.
    """

    def __init__(self, options: Options) -> None:
        self.options = options
        self.root = Path(options.path)
        if not self.root.is_dir():
            raise SourceError(f"option 'path' is {options.path!r}, which is no directory; allowed: a log directory")
        if self.root.name == LOGS_NAME and (self.root.parent / CHECKPOINT_NAME).is_file():
            self.root = self.root.parent
        self._is_ottla = (self.root / JOURNAL_NAME).is_dir() and (self.root / META_NAME).is_file()
        self.logs_path = self.root / LOGS_NAME if self._is_ottla else self.root
        self.cluster_id = _cluster_id(self.root / META_NAME)
        self._log_starts = _log_starts(self.root / "log-start-offset-checkpoint")
        self._journal: Journal | None = None
        self._stored: dict[TopicPartition, StoredLog] = {}
        self._ids: dict[str, str] = {}
        if not self._is_ottla and not (self.root / META_NAME).exists() and not self._names():
            raise SourceError(
                f"option 'path' is {options.path!r}, where no logs are; allowed: Ottla's data directory (with logs/ "
                "and journal/), or a log directory of Kafka's (with directories such as __consumer_offsets-7)"
            )

    # -- what others ask

    def topics(self, names: Collection[str] | None) -> dict[str, Topic]:
        """As `Cluster.topics`."""
        self.refresh()
        topics = self._catalog() if self._is_ottla else self._from_names()
        for tp in list(self._stored):
            if tp.topic in topics and topics[tp.topic].topic_id != self._ids.get(tp.topic, topics[tp.topic].topic_id):
                del self._stored[tp]  # made anew: what is known of its transactions is of another log
        self._ids |= {name: topic.topic_id for name, topic in topics.items()}
        return {name: topic for name, topic in topics.items() if names is None or name in names}

    def bounds(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, Bounds]:
        """As `Cluster.bounds`."""
        found = {}
        for tp in partitions:
            if (log := self.log(tp)) is None:
                continue
            start = log.start_offset
            end = log.stable_end() if self._committed else log.end_offset
            found[tp] = Bounds(start, max(start, end))
        return found

    def loose_bounds(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, Bounds]:
        """The same without looking for open transactions, which takes reading whole logs: tasks find them."""
        logs = {tp: log for tp in partitions if (log := self.log(tp)) is not None}
        return {tp: Bounds(log.start_offset, max(log.start_offset, log.end_offset)) for tp, log in logs.items()}

    def aborted(self, tp: TopicPartition) -> tuple[Aborted, ...]:
        """The aborted transactions that `bounds` has met in a partition."""
        log = self.log(tp)
        return log.aborted() if log is not None and self._committed else ()

    def offsets_at(self, partitions: Sequence[TopicPartition], timestamp_ms: int) -> dict[TopicPartition, int | None]:
        """As `Cluster.offsets_at`."""
        logs = {tp: log for tp in partitions if (log := self.log(tp)) is not None}
        return {tp: log.offset_at(timestamp_ms) for tp, log in logs.items()}

    def chunks(self, spans: Sequence[Span], lost: Report, broken: Broken) -> Iterator[Chunk]:
        """As `Cluster.chunks`."""
        for span in spans:
            log = self.log(span.tp)
            if log is None:
                lost(span.tp, f"it is not in {self.options.path} any more")
                continue
            start, end, aborted = span.start, span.end, span.aborted
            if log.start_offset > start:
                lost(span.tp, f"offsets {start} to {log.start_offset} are not there any more")
                start = log.start_offset
            if (there := log.end_offset) < end:
                lost(span.tp, f"offsets {there} to {end} were there and are not any more")
                end = max(start, there)
            if aborted is None and self._committed:
                end, aborted = min(end, log.stable_end(end)), log.aborted()
            yield from log.chunks(start, end, aborted or (), broken)

    def close(self) -> None:
        """Forget all files."""
        self._stored.clear()
        self._journal = None

    @property
    def has_catalog(self) -> bool:
        """Tell whether all partitions of topics are known; Kafka's directories have those of one broker."""
        return self._is_ottla

    # -- within

    @property
    def _committed(self) -> bool:
        return self.options.isolation is Isolation.READ_COMMITTED

    def refresh(self) -> None:
        """Look at the directory again."""
        self._journal = None
        self._log_starts = _log_starts(self.root / "log-start-offset-checkpoint")
        for log in self._stored.values():
            log.forget()

    @property
    def journal(self) -> Journal | None:
        """The contents of the journal; None for a directory of Kafka's."""
        if self._journal is None and self._is_ottla:
            self._journal = Journal(self.root)
            if damage := self._journal.damage:
                damage += ": what was appended behind that cannot be read; `ottla recover` says more"
                if self.options.fail_on_data_loss:
                    raise SourceError(f"{damage}. Set failOnDataLoss=false to read what is before it")
                _logger.warning("%s", damage)
        return self._journal

    def log(self, tp: TopicPartition) -> StoredLog | None:
        """A partition's log, None if there is none."""
        if tp not in self._stored:
            path = self.logs_path / f"{tp.topic}-{tp.partition}"
            if not self._is_ottla and not path.is_dir():
                return None
            self._stored[tp] = StoredLog(tp, path, lambda: self.journal, self._log_starts.get(tp, 0))
        return self._stored[tp]

    def _catalog(self) -> dict[str, Topic]:
        path = self.root / CATALOG_NAME
        try:
            state = json.loads(path.read_bytes())["state"] or {}
            rows = state.get("topics", {}).items()
            return {
                name: Topic(name, row["topic_id"].replace("-", ""), tuple(range(row["partitions"])), name in _INTERNAL)
                for name, row in sorted(rows)
            }
        except FileNotFoundError:
            return {}
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise SourceError(f"{path} cannot be read: {error!r}") from None

    def _from_names(self) -> dict[str, Topic]:
        found: dict[str, list[int]] = {}
        for name in self._names():
            if (tp := parse_directory_name(name)) is not None:
                found.setdefault(tp.topic, []).append(tp.partition)
        return {
            topic: Topic(topic, self._topic_id(f"{topic}-{min(some)}"), tuple(sorted(some)), topic in _INTERNAL)
            for topic, some in sorted(found.items())
        }

    def _names(self) -> list[str]:
        try:
            return sorted(entry.name for entry in os.scandir(self.logs_path) if entry.is_dir())
        except OSError as error:
            raise SourceError(f"{self.logs_path} cannot be read: {error}") from None

    def _topic_id(self, name: str) -> str:
        try:
            found = decode_metadata((self.logs_path / name / METADATA_NAME).read_bytes())
        except OSError:
            return UNKNOWN_ID
        return UNKNOWN_ID if found is None else found.hex


def _cluster_id(path: Path) -> str:
    try:
        found = re.search(r"^cluster\.id=(\S+)", path.read_text(encoding="utf-8"), re.MULTILINE)
    except OSError:
        return ""
    return found[1] if found else ""


def _log_starts(path: Path) -> dict[TopicPartition, int]:
    """Kafka's notes of logs that were cut by DeleteRecords."""
    found = {}
    try:
        lines = path.read_text(encoding="utf-8").splitlines()[2:]
        for line in lines:
            topic, partition, offset = line.split()
            found[TopicPartition(topic, int(partition))] = int(offset)
    except (OSError, ValueError):
        pass  # it is written as a whole, so it is there or it is not
    return found
