"""structlog, set up once by the process that serves. Nothing here touches the root logger: an embedded broker leaves
its host's logging alone.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, MutableMapping
from typing import Any, TextIO

import structlog


def logger(log_format: str = "console", *, level: str = "info", stream: TextIO | None = None) -> Any:
    """A logger that writes lines for people (``console``) or one JSON object a line (``json``).

    Args:
        level: the least severe level that is written: debug, info, warning, error.
        stream: standard error by default.
    """
    out = stream if stream is not None else sys.stderr
    processors: list[Any] = [
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    if log_format == "json":
        processors += [structlog.processors.format_exc_info, structlog.processors.JSONRenderer(default=str)]
    else:
        processors += [_line_alone, structlog.dev.ConsoleRenderer(colors=out.isatty())]
    return structlog.wrap_logger(
        structlog.PrintLogger(out),
        processors=processors,
        wrapper_class=structlog.make_filtering_bound_logger(level),
        context_class=dict,
    )


def silent() -> Any:
    """A logger that says nothing, for brokers embedded in tests."""
    return structlog.wrap_logger(
        structlog.PrintLogger(sys.stderr),
        processors=[_drop],
        wrapper_class=structlog.make_filtering_bound_logger("critical"),
    )


def _line_alone(logger: Any, method: str, event: MutableMapping[str, Any]) -> Mapping[str, Any]:
    """A line of the coordinator says in words what its fields say: on a console the words are enough."""
    if "kind" not in event:
        return event
    return {key: event[key] for key in ("timestamp", "level", "event")}


def _drop(logger: Any, method: str, event: MutableMapping[str, Any]) -> Mapping[str, Any]:
    raise structlog.DropEvent
