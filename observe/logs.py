"""Loggers: structlog, set up by the process that serves.

Nothing here touches the root logger: an embedded broker leaves its host's logging alone.

structlog takes a good part of a broker's start. Whoever serves holds lines that tell of no
trouble until clients have had their first answers (`Logger.hold`). A line that warns waits for nobody, and writes those
before it; and soon after a start all is imported, as the line that tells of trouble may come when no file can be opened
any more.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, MutableMapping
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, TextIO

from ottla.observe.printable import printable

MOST_HELD = 1_000
"""So many lines wait at most."""
LEVELS = ("debug", "info", "warning", "error")


class Logger:
    """Writes lines of at least a level, through a structlog logger that is made when the first one is written."""

    def __init__(self, log_format: str, level: str, stream: TextIO, node: int | None = None) -> None:
        self._format = log_format
        self._of_node = {} if node is None else {"node": node}
        self._least = LEVELS.index(level)
        self._stream = stream
        self._made: Any = None
        self._held: list[tuple[str, str, dict[str, Any]]] | None = None

    def hold(self) -> None:
        """Let lines wait for `prepare`, or for one that warns."""
        self._held = []

    @property
    def level(self) -> str:
        """The least severe level that is written. May be set at any time."""
        return LEVELS[self._least]

    @level.setter
    def level(self, level: str) -> None:
        self._least = LEVELS.index(level)

    def debug(self, event: str, **fields: Any) -> None:
        self._write("debug", event, fields)

    def info(self, event: str, **fields: Any) -> None:
        self._write("info", event, fields)

    def warning(self, event: str, **fields: Any) -> None:
        self._write("warning", event, fields)

    def error(self, event: str, **fields: Any) -> None:
        self._write("error", event, fields)

    def _write(self, level: str, event: str, fields: dict[str, Any]) -> None:
        if LEVELS.index(level) < self._least:
            return
        fields = {**self._of_node, **fields}
        if self._held is not None and level in ("debug", "info"):
            self._held.append((level, event, {"timestamp": _now(), **fields}))
            if len(self._held) < MOST_HELD:
                return
            level, event, fields = self._held.pop()
        try:
            self.prepare()
            getattr(self._made, level)(event, **fields)
        except (OSError, ImportError):
            # The words count and not their form; and where they cannot be written, what they tell of goes on.
            with suppress(OSError):
                self._stream.write(f"[{level}] {event} {fields}\n")

    def prepare(self) -> None:
        """Import what lines are written with, and write those that wait."""
        if self._made is None:
            self._made = _structlog(self._format, self._stream)
        held, self._held = self._held, None
        for level, event, fields in held or ():
            self._write(level, event, fields)


def logger(
    log_format: str = "console", *, level: str = "info", stream: TextIO | None = None, node: int | None = None
) -> Logger:
    """A logger that writes lines for people (``console``) or one JSON object a line (``json``).

    Args:
        level: the least severe level that is written: debug, info, warning, error.
        stream: standard error by default.
        node: the id of a node that shares the stream with others: each of its lines says it.
    """
    return Logger(log_format, level, stream if stream is not None else sys.stderr, node)


def _structlog(log_format: str, out: TextIO) -> Any:
    # structlog imports rich where it finds it, for tracebacks that are not ours (see below): 7 MB that nobody uses.
    found = sys.modules.setdefault("rich", None)  # type: ignore[arg-type]
    try:
        import structlog
    finally:
        if found is None:
            del sys.modules["rich"]

    processors: list[Any] = [
        structlog.processors.add_log_level,
        _stamp,
    ]
    # Plain tracebacks: structlog's own for consoles show what variables hold, and one may hold the token of HTTP.
    processors.append(structlog.processors.format_exc_info)
    if log_format == "json":
        processors.append(structlog.processors.JSONRenderer(default=str))
    else:
        processors += [_line_alone, _further_lines, _harmless, structlog.dev.ConsoleRenderer(colors=out.isatty())]
    return structlog.wrap_logger(
        structlog.PrintLogger(out),
        processors=processors,
        wrapper_class=structlog.make_filtering_bound_logger("debug"),
        context_class=dict,
    )


def _now() -> str:
    return datetime.now(UTC).isoformat().replace("+00:00", "Z")


def _stamp(logger: Any, method: str, event: MutableMapping[str, Any]) -> Mapping[str, Any]:
    """A line that was held says when it was meant."""
    event["timestamp"] = event.pop("timestamp", None) or _now()
    return event


def _further_lines(logger: Any, method: str, event: MutableMapping[str, Any]) -> Mapping[str, Any]:
    """Of a reason of several lines all but the first stand below: a command can be copied from there."""
    reason = event.get("reason")
    if isinstance(reason, str) and "\n" in reason:
        event["reason"], _, event["stack"] = reason.partition("\n")
    return event


def _harmless(logger: Any, method: str, event: MutableMapping[str, Any]) -> Mapping[str, Any]:
    """Text of clients steers no terminal and begins no line: what stands below a line is indented."""
    for key, value in event.items():
        if isinstance(value, str):
            below = key in ("stack", "exception")
            event[key] = "\n".join(f"    {printable(one)}" for one in value.split("\n")) if below else printable(value)
    return event


def _line_alone(logger: Any, method: str, event: MutableMapping[str, Any]) -> Mapping[str, Any]:
    """A line of the coordinator says in words what its fields say: on a console the words are enough."""
    if "kind" not in event:
        return event
    return {key: event[key] for key in ("timestamp", "level", "event", "node") if key in event}
