"""Metrics as they are declared, and their values as prometheus_client takes them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from prometheus_client.core import Metric
from prometheus_client.samples import Sample

from ottla.observe.metrics.histogram import Durations


class Spec(NamedTuple):
    """A metric: its name as it is scraped, its help text and its labels."""

    name: str
    help: str
    labels: tuple[str, ...] = ()
    is_histogram: bool = False

    @property
    def kind(self) -> str:
        """Its type; names of counters, and of no others, end with ``_total``."""
        return "histogram" if self.is_histogram else "counter" if self.name.endswith("_total") else "gauge"


class Families:
    """The metrics of one scrape, in the order in which they are declared."""

    def __init__(self, specs: Sequence[Spec]) -> None:
        self._metrics = {spec.name: Metric(spec.name.removesuffix("_total"), spec.help, spec.kind) for spec in specs}
        self._labels = {spec.name: spec.labels for spec in specs}

    def add(self, name: str, value: float | None, *labels: str) -> None:
        """Add a value with the values of its labels, if it is known."""
        if value is not None:
            named = dict(zip(self._labels[name], labels, strict=True))
            self._metrics[name].samples.append(Sample(name, named, value))

    def add_durations(self, name: str, durations: Durations, *labels: str) -> None:
        """Add a histogram."""
        named = dict(zip(self._labels[name], labels, strict=True))
        samples, total = self._metrics[name].samples, 0.0
        for bound, total in durations.buckets():
            samples.append(Sample(f"{name}_bucket", {**named, "le": bound}, total))
        samples.append(Sample(f"{name}_count", named, total))
        samples.append(Sample(f"{name}_sum", named, durations.total_ns / 1e9))

    def collect(self) -> Iterator[Metric]:
        """Those that have values."""
        return (metric for metric in self._metrics.values() if metric.samples)
