"""Sinks of alerts: a file of JSON lines, standard output, or a topic. At least once, with an id to find duplicates."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from collections import OrderedDict
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

import msgspec

from ottla.pipeline.alerts.alert import Alert

REMEMBERED = 10_000
"""The number of alerts, the newest ones, whose ids a file sink knows."""

_TAIL_BYTES = 8 << 20
_BEGINNING = b'{"v":'


class Sink(Protocol):
    """A sink of alerts; when `write` has returned, they are safe."""

    def write(self, alerts: Sequence[Alert]) -> None:
        """Take alerts, in order. Any thread may call."""
        ...


class Stdout:
    """One line for each, flushed at once."""

    def __init__(self) -> None:
        self._lock = threading.Lock()

    def write(self, alerts: Sequence[Alert]) -> None:
        with self._lock:
            for alert in alerts:
                sys.stdout.write(f"{alert.json()}\n")
            sys.stdout.flush()


class JsonLines:
    """A file that grows by lines. A batch that is done again after a crash adds nothing that is there already: the
    ids of the last `REMEMBERED` are read from the file. Half an alert, left by a crash, is cut off.

    Args:
        path: of the file; its folder must be there.

    Raises:
        OSError: it cannot be opened for writing.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.Lock()
        self._seen: OrderedDict[tuple[str, str], None] = OrderedDict()
        with path.open("ab+") as file:
            size = file.seek(0, os.SEEK_END)
            start = max(0, size - _TAIL_BYTES)
            file.seek(start)
            tail = file.read()
            whole = tail[: tail.rfind(b"\n") + 1]
            if tail[len(whole) :].startswith(_BEGINNING):
                file.truncate(start + len(whole))
            elif len(whole) != len(tail):
                file.write(b"\n")  # not ours: nothing of it is lost
        for line in whole.splitlines()[1 if start else 0 :]:
            self._remember(line)

    def _remember(self, line: bytes) -> None:
        try:
            known = msgspec.json.decode(line, type=Alert)
        except msgspec.DecodeError:
            return  # a line of somebody else
        self._seen[known.id, known.state] = None
        if len(self._seen) > REMEMBERED:
            self._seen.popitem(last=False)

    def write(self, alerts: Sequence[Alert]) -> None:
        with self._lock:
            lines = [alert.json().encode() for alert in alerts if (alert.id, alert.state) not in self._seen]
            if not lines:
                return
            with self.path.open("ab") as file:
                file.write(b"".join(line + b"\n" for line in lines))
                file.flush()
                os.fsync(file.fileno())
            for line in lines:
                self._remember(line)


class Topic:
    """A topic: the key is the group, the value the alert, the headers ``alert-id`` and ``alert-state`` say what to drop
    doubles by. A group's alerts stay in order.

    Args:
        bootstrap: servers.
        topic: to write to.
        options: further options of `ottla.clients.Producer`.
    """

    def __init__(self, bootstrap: str, topic: str, **options: Any) -> None:
        self.topic = topic
        self._options = {"bootstrap_servers": bootstrap, **options}

    def write(self, alerts: Sequence[Alert]) -> None:
        """Raises:
        KafkaError: they could not be delivered; the batch fails, and is done again.
        """
        if alerts:
            asyncio.run(self._send(alerts))

    async def _send(self, alerts: Sequence[Alert]) -> None:
        from ottla.clients import Producer

        async with Producer(**self._options) as producer:
            futures = [
                await producer.send(
                    self.topic,
                    alert.json().encode(),
                    key=alert.group.encode(),
                    headers=[("alert-id", alert.id.encode()), ("alert-state", alert.state.encode())],
                )
                for alert in alerts
            ]
            for future in futures:
                await future


def sink(to: str, bootstrap: str | None, **options: Any) -> Sink:
    """The sink that an option names.

    Args:
        to: ``-`` for standard output, ``topic:NAME``, or a file.
        bootstrap: where the topic is.
        options: further options of its producer.

    Raises:
        ValueError: there is no broker for the topic, or the file's folder is missing.
    """
    if to == "-":
        return Stdout()
    if to.startswith("topic:"):
        name = to.removeprefix("topic:")
        if not name:
            raise ValueError("topic: needs the name of a topic, as in topic:alerts")
        if bootstrap is None:
            raise ValueError(f"{to}: a topic needs a broker; name one with --bootstrap-server")
        return Topic(bootstrap, name, **options)
    path = Path(to)
    if not path.parent.is_dir():
        raise ValueError(f"{to}: there is no folder {path.parent}")
    return JsonLines(path)
