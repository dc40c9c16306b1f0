"""The coordinator's log lines, in the wording that people search for in Kafka's, made from its events."""

from __future__ import annotations

from typing import Any, Protocol

from ottla.broker.core.events import UNTOLD, Event


class Log(Protocol):
    """Where lines are written; structlog's interface."""

    def info(self, event: str, **fields: Any) -> Any: ...
    def debug(self, event: str, **fields: Any) -> Any: ...


class CoordinatorLines:
    """An observer that logs the events for which Kafka logs a line, with the event's fields beside it.

    What happens to a group is told at ``info``, what happens to a whole partition (50 of them at every start and stop)
    at ``debug``.
    """

    wants_requests = False
    """Kafka logs no line for a request, its answer, or a record that was written."""

    def __init__(self, log: Log) -> None:
        self._log = log

    @staticmethod
    def wants(kind: type[Event]) -> bool:
        """Whether events of a type have a line."""
        return kind.line is not Event.line

    def __call__(self, event: Event) -> None:
        line = event.line()
        if line is not None:
            details = {name: getattr(event, name) for name in event.__struct_fields__ if name not in UNTOLD}
            details["group_id"] = event.group_id
            write = self._log.info if event.group_id else self._log.debug
            write(line, kind=type(event).__name__, **details)
