"""Plans: how much of which partition is read next, and by which task. Pure."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from itertools import pairwise

from ottla.pipeline.source.logs import Span
from ottla.protocol.records import TopicPartition


def bundle(spans: Sequence[Span], tasks: int) -> list[list[Span]]:
    """Spans in at most ``tasks`` bundles of about equal weight: the longest first, always to the lightest.

    A Python task costs tens of milliseconds whatever it does, so a task for each partition would be the latency floor.
    """
    spans = sorted((span for span in spans if span.weight), key=lambda span: (-span.weight, span.tp))
    bundles: list[list[Span]] = [[] for _ in range(min(tasks, len(spans)))]
    heap = [(0, number) for number in range(len(bundles))]
    for span in spans:
        weight, number = heapq.heappop(heap)
        bundles[number].append(span)
        heapq.heappush(heap, (weight + span.weight, number))
    return bundles


def split(spans: Sequence[Span], at_least: int) -> list[Span]:
    """Spans cut so that there are at least ``at_least`` of them, as far as their offsets suffice."""
    spans = [span for span in spans if span.weight]
    total = sum(span.weight for span in spans)
    if not total or len(spans) >= at_least:
        return spans
    found = []
    for span in spans:
        parts = max(1, min(span.weight, round(at_least * span.weight / total)))
        edges = [span.start + span.weight * part // parts for part in range(parts + 1)]
        found += [Span(span.tp, low, high, span.aborted) for low, high in pairwise(edges)]
    return found


def admit(
    start: dict[TopicPartition, int], end: dict[TopicPartition, int], limit: int | None
) -> dict[TopicPartition, int]:
    """The end of a batch of at most ``limit`` offsets; each partition gets its share of what there is to read.

    As Spark's Kafka connector: in proportion, and at least one where there is something. Rounding never holds up the
    last partition.
    """
    sizes = {tp: max(0, end[tp] - start.get(tp, end[tp])) for tp in end}
    total = sum(sizes.values())
    if limit is None or total <= limit:
        return dict(end)
    left = limit
    found = {}
    for tp, size in sorted(sizes.items(), key=lambda row: (-row[1], row[0])):
        share = min(size, left, -(-limit * size // total))
        found[tp] = start.get(tp, end[tp]) + share
        left -= share
    return found
