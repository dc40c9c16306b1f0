"""Who did what to what: events for the log, and for a file of their own where one is named.

What is denied, and what an administrator changes, is told always. Of equal events that clients can cause at will, the
first is told at once, and after ten seconds how many others there were.
"""

from __future__ import annotations

import json
import os
import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from queue import SimpleQueue
from typing import Any, Protocol

from ottla.broker.clock import Clock
from ottla.broker.core.security.session import Session
from ottla.broker.logger import Logger, Silent
from ottla.broker.settings import INT64_MAX, Settings

LOGGER = "ottla.audit"
"""The name of the logger, by which its lines can be sent elsewhere."""

QUIET_MS = 10_000
"""Of equal events that clients cause, one is told in such a time."""
MOST_DIFFERENT = 1_000
"""So many different ones of a kind are told in it; others are left out and counted."""

LONGEST = 250
"""Characters that are shown of what a client chose: a whole name of a topic, and most subjects of certificates."""
MOST_ITEMS = 100
"""So many are shown of a list."""

MOST_WAITING_BYTES = 32 << 20
"""Lines that wait for a slow disk. More are left out and counted: nobody waits for the file."""
MOST_FILE_BYTES = 64 << 20
"""A file that is larger gives way to a new one, and takes the place of the one before it."""


class Who(Protocol):
    """The client that an event is about: a request, or a connection."""

    client_id: str

    @property
    def client_host(self) -> str: ...
    @property
    def client_port(self) -> int: ...
    @property
    def session(self) -> Session: ...


class AuditFile:
    """A file with one JSON object a line, written by a thread of its own; ``.1`` is the one before it.

    Args:
        report: told once that it cannot be written, and why.

    Attributes:
        dropped: lines that found no room, or no disk.
    """

    def __init__(self, path: Path, report: Callable[[str], None]) -> None:
        self.dropped = 0
        self._is_told = False
        self._path = path
        self._report = report
        self._lines: SimpleQueue[bytes | None] = SimpleQueue()
        self._waiting_bytes = 0
        self._room = threading.Lock()
        self._thread: threading.Thread | None = None
        if reason := unwritable(path):  # told now: the first line may be long in coming
            self._fail(reason)

    def write(self, line: bytes) -> None:
        """Have a line written, soon."""
        with self._room:
            if self._waiting_bytes + len(line) > MOST_WAITING_BYTES:
                self.dropped += 1
                return
            self._waiting_bytes += len(line)
        self._lines.put(line)
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="ottla-audit", daemon=True)
            self._thread.start()

    def close(self) -> None:
        """Write what waits, and end the thread."""
        if self._thread is not None:
            self._lines.put(None)
            self._thread.join()

    def _run(self) -> None:
        while (line := self._lines.get()) is not None:
            try:
                self._append(line)
            except OSError as error:
                self.dropped += 1
                self._fail(error.strerror or str(error))
            with self._room:
                self._waiting_bytes -= len(line)

    def _fail(self, reason: str) -> None:
        if not self._is_told:
            self._is_told = True
            self._report(reason)

    def _append(self, line: bytes) -> None:
        # Opened for each line: whoever rotates logs may move the file away, and lines are few.
        file = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            if os.fstat(file).st_size + len(line) > MOST_FILE_BYTES:
                os.close(file)
                file = -1
                self._path.replace(self._path.with_name(self._path.name + ".1"))
                file = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
            os.write(file, line)
        finally:
            if file >= 0:
                os.close(file)


def unwritable(path: Path) -> str:
    """Why lines cannot be written to a file, which need not be there; empty if they can. Nothing is made."""
    if path.is_dir():
        return "it is a directory"
    if not path.parent.is_dir():
        return f"there is no directory {path.parent}"
    at, mode = (path, os.W_OK) if path.exists() else (path.parent, os.W_OK | os.X_OK)
    return "" if os.access(at, mode) else f"this user may not write to {at}"


class Audit:
    """Tells what clients did, and what they were not permitted to do.

    Args:
        log: takes each event as a line, by the name `LOGGER`.
        wall_ms: Unix time, in milliseconds.
        wake: calls something after so many milliseconds.
        file: takes each event, too.

    Attributes:
        on_event: is told each event, and what belongs to it.
        denied: how often clients were not permitted to do something, by operation and kind of resource.
    """

    def __init__(
        self,
        log: Logger | None = None,
        wall_ms: Callable[[], int] = lambda: 0,
        wake: Callable[[int, Callable[[], None]], object] = lambda after_ms, then: None,
        file: AuditFile | None = None,
    ) -> None:
        self._log = log or Silent()
        self._wall_ms = wall_ms
        self._wake = wake
        self._is_to_wake = False
        self._file = file
        self.on_event: Callable[[str, dict[str, Any]], None] = lambda event, row: None
        self.denied: Counter[tuple[str, str]] = Counter()
        self._left_out = 0
        self._crowds: dict[str, Told] = {}  # of more events of a kind than are told
        self._told: defaultdict[str, dict[Hashable, Told]] = defaultdict(dict)  # by event, the oldest first
        self._calm_until_ms = 0  # before that there is nothing to tell of others

    @property
    def dropped(self) -> int:
        """Events that were left out."""
        return self._left_out + (0 if self._file is None else self._file.dropped)

    def tell(self, event: str, who: Who, **fields: Any) -> None:
        """Tell of something that was done.

        Args:
            event: what, in one word as of `A-2` to `A-4`: ``topic_created``.
            fields: to what, and what else belongs to it. Never a secret.
        """
        self._write(self._log.info, event, self._of(who, fields))

    def tell_debugging(self, event: str, who: Who, **fields: Any) -> None:
        """The same for what happens all the time, and is wanted by those alone who look for something."""
        self._write(self._log.debug, event, self._of(who, fields))

    def tell_once(self, event: str, who: Who, key: Hashable, **fields: Any) -> Told | None:
        """Tell of something that clients can cause at will.

        Args:
            key: what makes it equal to others, besides event, principal, listener and host.

        Returns:
            What `tell_again` takes, when the same comes from the same; None where it was left out.
        """
        now_ms = self._wall_ms()
        self._tell_of_others(now_ms - QUIET_MS)
        session = who.session
        of = session.principal, session.listener, who.client_host, key
        kind = self._told[event]
        if (told := kind.get(of)) is not None:
            told.others += 1
            self._wake_for(told, now_ms)
            return told
        if len(kind) >= MOST_DIFFERENT:
            self._left_out += 1
            crowd = self._crowds.setdefault(event, Told(now_ms, {"of": event}))
            crowd.others += 1
            self._wake_for(crowd, now_ms)
            return None
        row = self._of(who, fields)
        told = kind[of] = Told(now_ms, row)
        self._calm_until_ms = min(self._calm_until_ms, now_ms + QUIET_MS)
        self._write(self._log.info, event, row)
        return told

    def tell_again(self, told: Told, now_ms: int) -> bool:
        """Tell of the same once more; False if `tell_once` is to be asked, as nobody knows of it any more.

        Args:
            now_ms: Unix time.
        """
        if now_ms >= self._calm_until_ms or told.is_over:
            return False
        told.others += 1
        if not self._is_to_wake:
            self._wake_for(told, now_ms)
        return True

    def stop(self) -> None:
        """Tell how many others there were: nothing more is told."""
        self._tell_of_others(None)

    def close(self) -> None:
        """Finish the file; this waits for the disk."""
        if self._file is not None:
            self._file.close()

    def _tell_of_others(self, before_ms: int | None) -> None:
        """Tell how many equals those events had that were told before some time; None: all."""
        for event, kind in self._told.items():
            while kind:
                of, told = next(iter(kind.items()))
                if before_ms is not None and told.at_ms > before_ms:
                    break
                del kind[of]
                told.is_over = True
                if told.others:
                    self._write(self._log.info, event, told.row | {"others": told.others})
        for event, crowd in list(self._crowds.items()):
            if before_ms is None or crowd.at_ms <= before_ms:
                del self._crowds[event]
                self._write(self._log.warning, "left_out", crowd.row | {"events": crowd.others})
        oldest = [next(iter(kind.values())).at_ms for kind in self._told.values() if kind]
        oldest += [crowd.at_ms for crowd in self._crowds.values()]
        self._calm_until_ms = min(oldest, default=INT64_MAX) + QUIET_MS

    def _wake_for(self, told: Told, now_ms: int) -> None:
        """Tell of the others of an event in time, whether or not anything happens until then."""
        if not self._is_to_wake:
            self._is_to_wake = True
            self._wake(min(max(told.at_ms + QUIET_MS - now_ms, 0), QUIET_MS), self._woken)

    def _woken(self) -> None:
        self._is_to_wake = False
        now_ms = self._wall_ms()
        self._tell_of_others(now_ms - QUIET_MS)
        waiting = [told for kind in self._told.values() for told in kind.values() if told.others]
        waiting += self._crowds.values()
        if waiting:
            self._wake_for(min(waiting, key=lambda told: told.at_ms), now_ms)

    def _of(self, who: Who, fields: dict[str, Any]) -> dict[str, Any]:
        session = who.session
        row = {
            "principal": session.principal,
            "listener": session.listener,
            "host": who.client_host.removeprefix("/"),
            "port": who.client_port,
            "client_id": who.client_id,
        } | fields
        if not who.client_port:
            del row["port"]
        return {name: shown(value) for name, value in row.items()}

    def _write(self, log: Callable[..., Any], event: str, row: dict[str, Any]) -> None:
        log(event, logger=LOGGER, **row)
        self.on_event(event, row)
        if self._file is not None:
            at = datetime.fromtimestamp(self._wall_ms() / 1000, UTC).isoformat(timespec="milliseconds")
            line = {"at": at.replace("+00:00", "Z"), "event": event} | row
            self._file.write(json.dumps(line, ensure_ascii=False).encode(errors="replace") + b"\n")


class Told:
    """An event that was told, when, and how many equal ones were not.

    Attributes:
        is_over: an equal one will be told.
    """

    __slots__ = ("at_ms", "is_over", "others", "row")

    def __init__(self, at_ms: int, row: dict[str, Any]) -> None:
        self.at_ms = at_ms
        self.row = row
        self.others = 0
        self.is_over = False


def shown(value: Any) -> Any:
    """A value as it may stand in a line: texts without control characters, and not too long; lists and dicts, too."""
    if isinstance(value, str):
        cut = value if len(value) <= LONGEST else value[:LONGEST] + "…"
        if cut.isprintable():
            return cut
        return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in cut)
    if isinstance(value, list):
        return [shown(each) for each in value[:MOST_ITEMS]]
    if isinstance(value, dict):
        return {shown(key): shown(each) for key, each in islice(value.items(), MOST_ITEMS)}
    return value


def audit_of(settings: Settings, clock: Clock, log: Logger) -> Audit:
    """The audit that settings name: in the log, and in a file of its own if there is one."""
    path = settings.ottla_audit_file

    def failed(reason: str) -> None:
        what = "The audit file cannot be written: name another in ottla.audit.file"
        log.error(what, path=path, reason=reason)

    def wake(after_ms: int, then: Callable[[], None]) -> None:
        clock.call_at(clock.monotonic_ms() + after_ms, then)

    return Audit(log, clock.wall_ms, wake, AuditFile(Path(path), failed) if path else None)
