"""The log of the process that serves: lines for people, or one JSON object a line, as structlog writes them.

Nothing here touches the root logger: an embedded broker leaves its host's logging alone. Nothing is imported for a
line either: the one that tells of trouble may come when no file can be opened any more.
"""

from __future__ import annotations

import json
import sys
import traceback
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, TextIO

from ottla.observe.printable import printable

LEVELS = ("debug", "info", "warning", "error")
_COLOURS = {"debug": "\33[32m", "info": "\33[32m", "warning": "\33[33m", "error": "\33[31m"}
_DIM, _BRIGHT, _KEY, _VALUE, _PLAIN = "\33[2m", "\33[1m", "\33[36m", "\33[35m", "\33[0m"
_LEVEL_WIDTH, _EVENT_WIDTH = 9, 30
_QUOTED = frozenset(" \t=\r\n\"'")
"""Text with one of them stands in quotes."""


class Logger:
    """Writes lines of at least a level to a stream."""

    def __init__(self, log_format: str, level: str, stream: TextIO) -> None:
        self._least = LEVELS.index(level)
        self._stream = stream
        self._as_json = log_format == "json"
        self._colours = stream.isatty()

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
        raised = fields.pop("exc_info", None)
        # A plain traceback: it does not show what variables hold, as one may hold the token of HTTP.
        exception = _traceback(sys.exc_info() if raised is True else raised) if raised else None
        time = datetime.now(UTC).isoformat().replace("+00:00", "Z")
        if self._as_json:
            entry = fields | {"event": event, "level": level, "timestamp": time}
            text = json.dumps(entry if exception is None else entry | {"exception": exception}, default=str)
        else:
            text = _console_line(time, level, event, fields, exception, colours=self._colours)
        with suppress(OSError):  # where it cannot be written, what it tells of goes on
            self._stream.write(text + "\n")
            self._stream.flush()


def logger(log_format: str = "console", *, level: str = "info", stream: TextIO | None = None) -> Logger:
    """A logger that writes lines for people (``console``) or one JSON object a line (``json``).

    Args:
        level: the least severe level that is written: debug, info, warning, error.
        stream: standard error by default.
    """
    return Logger(log_format, level, stream if stream is not None else sys.stderr)


def _traceback(raised: Any) -> str:
    return "".join(traceback.format_exception(*raised)).removesuffix("\n")


def _console_line(
    time: str, level: str, event: str, fields: dict[str, Any], exception: str | None, *, colours: bool
) -> str:
    """A line for people, and what stands below it. Text of clients steers no terminal and begins no line.

    A line of the coordinator says in words what its fields say: the words are enough. Of a reason of several lines all
    but the first stand below: a command can be copied from there.
    """

    def styled(style: str, text: str) -> str:
        return f"{style}{text}{_PLAIN}" if colours else text

    fields, below = ({} if "kind" in fields else dict(fields)), []
    if isinstance(reason := fields.get("reason"), str) and "\n" in reason:
        fields["reason"], _, rest = reason.partition("\n")
        below.append(_indented(rest))
    if exception is not None:
        below += ["", "=" * 79, "", _indented(exception)] if below else [_indented(exception)]
    level = styled(_COLOURS[level] + _BRIGHT, level.ljust(_LEVEL_WIDTH))
    parts = [styled(_DIM, time), f"[{level}]", styled(_BRIGHT, printable(event).ljust(_EVENT_WIDTH))]
    parts += [f"{styled(_KEY, key)}={styled(_VALUE, _shown(fields[key]))}" for key in sorted(fields)]
    return "\n".join([" ".join(parts).rstrip(" "), *below])


def _shown(value: Any) -> str:
    if not isinstance(value, str):
        return repr(value)
    text = printable(value)
    return repr(text) if _QUOTED & set(text) else text


def _indented(text: str) -> str:
    """Lines that stand below another one."""
    return "\n".join(f"    {printable(line)}" for line in text.split("\n"))
