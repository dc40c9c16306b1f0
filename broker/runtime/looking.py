"""Looks, again and again, whether files that several nodes share have changed."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from typing import Any

from ottla.broker.clock import Clock, TimerHandle
from ottla.broker.logger import Logger

LOOK_MS = 50

Look = Callable[[], None]
"""Looks at one thing, at the price of a system call, and tells whom it concerns."""


class Looking:
    """Calls every look after each `LOOK_MS` of the real clock: files change whatever time it is in a test."""

    def __init__(self, looks: Sequence[Look], clock: Clock, report: Logger) -> None:
        self._looks = looks
        self._failing: set[Look] = set()
        self._clock = clock.real
        self._report = report
        self._timer: TimerHandle | None = None

    def start(self) -> None:
        """Begin, if there is anything to look at."""
        if self._looks:
            self._timer = self._clock.call_at(self._clock.monotonic_ms() + LOOK_MS, self._look)

    def stop(self) -> None:
        """Look no more."""
        self._looks = ()
        if self._timer is not None:
            self._timer.cancel()

    def _look(self) -> None:
        for look in self._looks:
            try:
                look()
                self._failing.discard(look)
            except Exception:  # the other files are looked at all the same, and this one the next time
                if look not in self._failing:
                    self._failing.add(look)
                    self._report.error("a shared file could not be looked at", exc_info=True)
        self.start()


class ClusterFile:
    """``cluster.json``: the supervisor replaces it, and each node goes by it.

    Args:
        read: takes the document; raises ``ValueError`` if it is none.
    """

    def __init__(self, path: str, read: Callable[[Any], None], report: Logger) -> None:
        self._path = path
        self._read = read
        self._report = report
        self._seen: bytes | None = None

    def look(self) -> None:
        """Read the file, and go by what it says if that is something else than before."""
        try:
            with open(self._path, "rb") as file:
                found = file.read()
        except OSError as error:
            found = b""
            fault: str | None = os.strerror(error.errno or 0)
        else:
            fault = None
        if found == self._seen:
            return
        self._seen = found
        try:
            if fault is None:
                self._read(json.loads(found))
        except ValueError as error:
            fault = str(error)
        if fault is not None:
            self._report.error("the nodes stay as they were known", path=self._path, reason=fault)
