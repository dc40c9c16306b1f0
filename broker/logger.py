"""The log for operators, as every room may use it; structlog's interface."""

from __future__ import annotations

from typing import Any, Protocol


class Logger(Protocol):
    """Takes an event in a few words, and fields."""

    def debug(self, event: str, **fields: Any) -> Any: ...
    def info(self, event: str, **fields: Any) -> Any: ...
    def warning(self, event: str, **fields: Any) -> Any: ...
    def error(self, event: str, **fields: Any) -> Any: ...
