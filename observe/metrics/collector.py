"""One scrape: look once, tell it in every form that is wanted, and write it down."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import Metric
from prometheus_client.exposition import choose_encoder

from ottla.observe.metrics.compat_kafka_exporter import kafka_exporter
from ottla.observe.metrics.compat_kminion import kminion
from ottla.observe.metrics.compat_lag_exporter import lag_exporter
from ottla.observe.metrics.native import native
from ottla.observe.metrics.scene import Scene, Sources, looking

COMPAT: dict[str, Callable[[Scene, Sources], Iterator[Metric]]] = {
    "kminion": kminion,
    "kafka_exporter": kafka_exporter,
    "lag_exporter": lag_exporter,
}
"""The sets of other tools, by the names of ``ottla.metrics.compat``."""


class Metrics:
    """The body of ``/metrics``.

    Args:
        compat: the sets that are told besides our own.
    """

    def __init__(self, sources: Sources, compat: Sequence[str] = ()) -> None:
        self.sources = sources
        self._sets = [native, *(COMPAT[name] for name in dict.fromkeys(compat))]
        self._process = ProcessCollector(registry=None)
        self._collect_ns = 0

    async def scrape(self, accept: str) -> tuple[bytes, str]:
        """The metrics, and their content type, in the form that the header ``Accept`` asks for.

        The event loop is not held up: this looks with pauses, and another thread writes. What the thread reads besides
        the scene are counts that only grow; one may be newer than another. Whatever does something when it is asked, as
        the recorder does, is asked before.
        """
        began_ns = self.sources.nanoseconds()
        scene = Scene(self.sources.view.cluster(), self._collect_ns)
        for _ in looking(scene, self.sources):
            await asyncio.sleep(0)
        return await asyncio.to_thread(self._write, scene, accept, began_ns)

    def _write(self, scene: Scene, accept: str, began_ns: int) -> tuple[bytes, str]:
        encode, content_type = choose_encoder(accept)
        body = encode(_Collected(self._tell(scene)))
        self._collect_ns = self.sources.nanoseconds() - began_ns
        return body, content_type

    def _tell(self, scene: Scene) -> Iterator[Metric]:
        for told in self._sets:
            yield from told(scene, self.sources)
        yield from self._process.collect()


class _Collected(CollectorRegistry):
    """As much of a registry as is asked of one that is written down once."""

    def __init__(self, metrics: Iterator[Metric]) -> None:
        super().__init__(auto_describe=False)
        self._metrics: Any = metrics

    def collect(self) -> Iterator[Metric]:
        yield from self._metrics
