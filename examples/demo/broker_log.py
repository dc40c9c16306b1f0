"""The rebalances of a group, read from the broker's own log (``ottla serve --log-format json``)."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any


@dataclass
class Rebalance:
    """From "Preparing to rebalance" to the assignment, in Unix seconds.

    Attributes:
        generation: the one that came of it; None while it is going on.
        reason: in the coordinator's words.
        happened: what led to it, as (what, client id): ``("left", "confluent-2")``.
    """

    began_at: float
    reason: str
    happened: list[tuple[str, str]] = field(default_factory=list)
    generation: int | None = None
    members: int = 0
    ended_at: float | None = None

    @property
    def took_s(self) -> float | None:
        return None if self.ended_at is None else self.ended_at - self.began_at


_HAPPENINGS = {"MemberAdded": "joined", "MemberLeft": "left", "SessionExpired": "sent no heartbeat"}


class BrokerLog:
    """Follows one group through the log."""

    def __init__(self, group: str) -> None:
        self.rebalances: list[Rebalance] = []
        self._group = group
        self._names: dict[str, str] = {}
        self._happened: list[tuple[str, str]] = []

    @property
    def current(self) -> Rebalance | None:
        """The rebalance that is going on."""
        last = self.rebalances[-1] if self.rebalances else None
        return last if last is not None and last.ended_at is None else None

    def read(self, lines: Iterable[bytes]) -> None:
        """Take in more lines; what is no JSON, or of another group, is passed over."""
        for line in lines:
            try:
                entry = json.loads(line)
            except ValueError:
                continue
            if isinstance(entry, dict) and entry.get("group_id") == self._group:
                self._take(entry, datetime.fromisoformat(entry["timestamp"]).timestamp())

    def _take(self, entry: dict[str, Any], at: float) -> None:
        kind = entry.get("kind")
        if kind == "MemberAdded":
            self._names[entry["member_id"]] = entry["client_id"]
        if kind in _HAPPENINGS:
            who = entry["member_id"]
            self._happen(_HAPPENINGS[kind], self._names.get(who, who))
        elif kind == "RebalanceStarted":
            self.rebalances.append(Rebalance(at, entry["reason"], self._happened))
            self._happened = []
        elif kind == "GenerationStarted" and (current := self.current):
            current.generation = entry["generation"]
            current.members = entry["members"]
            if not current.members:  # nobody to assign anything to
                current.ended_at = at
        elif kind == "AssignmentReceived" and (current := self.current):
            current.ended_at = at

    def _happen(self, what: str, who: str) -> None:
        # Until the generation begins, whoever comes or goes is part of the rebalance that is under way.
        current = self.current
        open_ = current is not None and current.generation is None
        (current.happened if current is not None and open_ else self._happened).append((what, who))
