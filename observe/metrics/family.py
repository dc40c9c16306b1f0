"""Metrics as they are declared, and their values as prometheus_client takes them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
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


class Family:
    """A metric and its values."""

    __slots__ = ("_labels", "_name", "metric")

    def __init__(self, spec: Spec) -> None:
        self._name = spec.name
        self._labels = spec.labels
        bare = spec.name.removesuffix("_total")
        self.metric = Metric(bare, spec.help, spec.kind)

    def add(self, value: float, *labels: str) -> None:
        """Add a value with the values of its labels."""
        self.metric.samples.append(Sample(self._name, dict(zip(self._labels, labels, strict=True)), value))

    def add_durations(self, durations: Durations, *labels: str) -> None:
        """Add a histogram."""
        named = dict(zip(self._labels, labels, strict=True))
        samples, name = self.metric.samples, self._name
        total = 0.0
        for bound, total in durations.buckets():
            samples.append(Sample(f"{name}_bucket", {**named, "le": bound}, total))
        samples.append(Sample(f"{name}_count", named, total))
        samples.append(Sample(f"{name}_sum", named, durations.total_seconds))


class Families(dict[str, Family]):
    """The metrics of one scrape by name, in the order in which they are declared."""

    def __init__(self, specs: Iterable[Spec]) -> None:
        super().__init__((spec.name, Family(spec)) for spec in specs)

    def add(self, name: str, value: float | None, *labels: str) -> None:
        """Add a value to one of them, if it is known."""
        if value is not None:
            self[name].add(value, *labels)

    def collect(self) -> Iterator[Metric]:
        """Those that have values."""
        for family in self.values():
            if family.metric.samples:
                yield family.metric
