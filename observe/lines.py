"""The coordinator's log lines, in the wording that people search for in Kafka's, made from its events."""

from __future__ import annotations

from ottla.broker.core.events import UNTOLD, Event, Observer
from ottla.broker.logger import Logger


class CoordinatorLines(Observer):
    """An observer that logs the events for which Kafka logs a line, with the event's fields beside it.

    What happens to a group is told at ``info``, what happens to a whole partition (50 of them at every start and stop)
    at ``debug``.
    """

    at_once = True  # a line stands among those of other parts in the order of what happened

    def __init__(self, log: Logger) -> None:
        self._log = log

    def wants(self, kind: type[Event]) -> bool:
        return kind.line is not Event.line

    def __call__(self, event: Event) -> None:
        line = event.line()
        if line is not None:
            details = {name: getattr(event, name) for name in event.__struct_fields__ if name not in UNTOLD}
            details["group_id"] = event.group_id
            write = self._log.info if event.group_id else self._log.debug
            write(line, kind=type(event).__name__, **details)
