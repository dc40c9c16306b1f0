"""The stream reader: offsets in Spark's checkpoint, batches of bounded size."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow

from ottla.pipeline.codec import Aborted
from ottla.pipeline.source.batch import Bundle, bundles
from ottla.pipeline.source.log_directory import LogDirectory
from ottla.pipeline.source.logs import UNKNOWN_ID, Bounds, Span, Topic
from ottla.pipeline.source.mirror import Mirror
from ottla.pipeline.source.offsets import Progress, read_progress
from ottla.pipeline.source.options import Options
from ottla.pipeline.source.planning import admit
from ottla.pipeline.source.rows import Logs, Losses, open_logs, read_spans
from ottla.pipeline.source.subscription import check_named, partitions_of, resolve, subscribed
from ottla.protocol.records import TopicPartition

if TYPE_CHECKING:
    import pyarrow as pa

_MOST_LOOKS = 5
_PAUSE_S = 0.2


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """A reader that plans in one long-lived process; tasks make one too, and only `read` with it."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self._logs: Logs | None = None

    @property
    def logs(self) -> Logs:
        """Opened when first used."""
        if self._logs is None:
            self._logs = open_logs(self.options)
        return self._logs

    def stop(self) -> None:
        """Close what is open."""
        if self._logs is not None:
            self._logs.close()


class OttlaStreamReader(StreamReader):
    """See `ottla.pipeline.source`."""

    def __init__(self, options: Options, pause: Callable[[float], None] = time.sleep) -> None:
        super().__init__(options)
        self._pause = pause
        self._losses = Losses(options)
        self._mirror = Mirror(options) if options.group else None
        self._target: Progress | None = None
        self._latest: Progress | None = None

    # -- what Spark asks

    def initialOffset(self) -> dict[str, Any]:
        """The position at which a new query begins."""
        topics = subscribed(self.options, self.logs)
        bounds = self.logs.bounds(partitions_of(self.options, topics))
        check_named(self.options.starting, list(bounds), "startingOffsets")
        starts = resolve(self.options.starting, bounds, self.logs, strict=self.options.strict_timestamp)
        for tp, offset in starts.items():
            if not bounds[tp].start <= offset <= bounds[tp].end:
                self._losses.lost(
                    tp, f"startingOffsets says {offset}, and the log has {bounds[tp].start} to {bounds[tp].end}"
                )
                starts[tp] = min(max(offset, bounds[tp].start), bounds[tp].end)
        return Progress(_ids(topics), starts).document()

    def getDefaultReadLimit(self) -> ReadLimit:
        """``maxOffsetsPerTrigger``."""
        limit = self.options.max_offsets_per_trigger
        return ReadAllAvailable() if limit is None else ReadMaxRows(limit)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """The end of the next batch."""
        begun = read_progress(start)
        end = self._latest = self._now(begun) if self._target is None else self._frozen(self._target, begun)
        most = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        starts: dict[TopicPartition, int] = {}
        for tp, offset in end.next.items():
            # A partition that is new, or of a topic that was made anew, is read from its beginning.
            starts[tp] = begun.next[tp] if self._is_same(begun, end, tp) else self._beginning(tp, offset)
        ahead = Progress(begun.ids | end.ids, admit(starts, end.next, most))
        for tp, offset in begun.next.items():
            # What cannot be seen at the moment may come again, unless it is of a topic that was deleted.
            if tp not in ahead.next and same_id(begun, ahead, tp):
                ahead.next[tp] = offset
        return ahead.document()

    def reportLatestOffset(self) -> dict[str, Any] | None:
        """The ends of logs as they were looked at last, for Spark's progress reports."""
        return None if self._latest is None else self._latest.document()

    def prepareForTriggerAvailableNow(self) -> None:
        """Freeze the target: from now on nothing is new."""
        self._target = self._now(None)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[Bundle]:
        """Plan the batch from ``start`` to ``end``; the same again gives the same rows."""
        begun, until = read_progress(start), read_progress(end)
        wanted = [tp for tp in until.next if until.next[tp] != begun.next.get(tp) or not same_id(begun, until, tp)]
        bounds = self._bounds_up_to(until, wanted)
        spans = []
        for tp in wanted:
            first, last = begun.next.get(tp, 0), until.next[tp]
            bound = bounds.get(tp)
            if bound is None:
                self._losses.lost(tp, f"offsets {first} to {last} should be read, and it does not exist any more")
                continue
            if not same_id(begun, until, tp):
                self._losses.lost(tp, "the topic was deleted and created anew; the new one is read from its beginning")
                first = bound.start
            elif tp not in begun.next:
                first = bound.start
            elif last < first or bound.end < first:
                self._losses.lost(tp, f"it was read up to {first}, and ends at {bound.end}: the topic was created anew")
                first = bound.start
            elif bound.start > first:
                self._losses.lost(tp, f"offsets {first} to {bound.start} were deleted before they were read")
                first = bound.start
            if last > bound.end:
                self._losses.lost(tp, f"offsets {bound.end} to {last} were there and are not any more")
                last = bound.end
            spans.append(Span(tp, first, last, self._aborted(tp, first, last)))
        return bundles(self.options, spans)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one bundle."""
        return read_spans(self.options, partition.spans) if isinstance(partition, Bundle) else iter(())

    def commit(self, end: dict[str, Any]) -> None:
        """Mirror progress to the group, if there is one; nothing depends on it, as Spark may leave it out."""
        if self._mirror is not None:
            self._mirror.commit(read_progress(end))

    def stop(self) -> None:
        """Close what is open."""
        super().stop()
        if self._mirror is not None:
            self._mirror.close()

    # -- within

    def _now(self, begun: Progress | None) -> Progress:
        """The ends of logs.

        One that ends before the place where it was read to has lost something, unless its leader has just been
        elected: that one may learn how far the log is committed a moment later (KIP-207). So it is asked again.
        """
        for _ in range(_MOST_LOOKS):
            topics = subscribed(self.options, self.logs)
            bounds = self.logs.bounds(partitions_of(self.options, topics))
            now = Progress(_ids(topics), {tp: bound.end for tp, bound in bounds.items()})
            if begun is None or all(
                now.next[tp] >= offset or not same_id(begun, now, tp)
                for tp, offset in begun.next.items()
                if tp in now.next
            ):
                break
            self._pause(_PAUSE_S)
        return now

    def _bounds_up_to(self, until: Progress, wanted: list[TopicPartition]) -> dict[TopicPartition, Bounds]:
        """The bounds of logs; asked again, as in `_now`, where one ends before what the batch should have."""
        for _ in range(_MOST_LOOKS):
            bounds = self.logs.bounds(wanted)
            if all(bound.end >= until.next[tp] for tp, bound in bounds.items()):
                break
            self._pause(_PAUSE_S)
            if isinstance(self.logs, LogDirectory):
                self.logs.refresh()
        return bounds

    def _frozen(self, target: Progress, begun: Progress) -> Progress:
        """The target, but for partitions that are beyond it: nothing of them is read, and nothing is read again.

        A new query that begins at the latest offsets takes them a moment after the target, and a leader that has just
        been elected may have told a target below what was read before.
        """
        behind = [tp for tp, end in target.next.items() if same_id(begun, target, tp) and end < begun.next.get(tp, end)]
        if behind:
            now = self._now(begun)
            for tp in behind:
                if same_id(begun, now, tp) and now.next.get(tp, 0) >= begun.next[tp]:
                    target.next[tp] = begun.next[tp]
        return target

    def _aborted(self, tp: TopicPartition, first: int, last: int) -> tuple[Aborted, ...] | None:
        """Aborted transactions of a directory, found out when its end was; a running broker's are told by Fetch."""
        if not isinstance(self.logs, LogDirectory):
            return None
        found = self.logs.aborted(tp)
        return tuple(one for one in found if one.first_offset < last and (one.last_offset or last) >= first)

    def _beginning(self, tp: TopicPartition, end: int) -> int:
        bound = self.logs.bounds([tp]).get(tp)
        return min(end, bound.start) if bound is not None else end

    def _is_same(self, begun: Progress, end: Progress, tp: TopicPartition) -> bool:
        return tp in begun.next and same_id(begun, end, tp) and begun.next[tp] <= end.next[tp]


def same_id(begun: Progress, end: Progress, tp: TopicPartition) -> bool:
    """Tell whether two offsets are of the same topic, as far as is known."""
    ids = {begun.ids.get(tp.topic, UNKNOWN_ID), end.ids.get(tp.topic, UNKNOWN_ID)} - {UNKNOWN_ID}
    return len(ids) < 2


def _ids(topics: dict[str, Topic]) -> dict[str, str]:
    return {topic.name: topic.topic_id for topic in topics.values()}
