"""Those who were turned away: an episode each, or one for all that are alike."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.core.events import JoinReceived, RequestReceived, RequestRefused
from ottla.observe.why.members import Asked, Known
from ottla.observe.why.model import Episode, MemberPart, Trigger
from ottla.observe.why.reasons import said

if TYPE_CHECKING:
    from ottla.observe.why.account import Account

MOST_OPEN = 8
"""So many kinds of refusals are counted at a time."""

_JOIN = {
    "GROUP_MAX_SIZE_REACHED": "turned-away-group-full",
    "INCONSISTENT_GROUP_PROTOCOL": "turned-away-assignor-mismatch",
    "INVALID_SESSION_TIMEOUT": "invalid-session-timeout",
}


class Refusals:
    """The refusals of a group that may yet be repeated.

    Attributes:
        open: by cause, client and what else tells them apart.
    """

    __slots__ = ("open",)

    def __init__(self) -> None:
        self.open: dict[tuple[str, ...], Episode] = {}

    def refused(self, tracker: Account, event: RequestRefused) -> None:
        """A request was refused; most refusals are part of a client's daily life and tell nothing."""
        asked = tracker.input
        if not isinstance(asked, RequestReceived) or asked.number != event.cause:
            return
        if event.error == "FENCED_INSTANCE_ID":
            self._fenced(tracker, event, asked)
        elif isinstance(asked, JoinReceived) and (cause := _JOIN.get(event.error)) is not None:
            self._turned_away(tracker, event, asked, cause)

    def _turned_away(self, tracker: Account, event: RequestRefused, join: JoinReceived, cause: str) -> None:
        facts: dict[str, str] = {"error": event.error, "members": str(len(tracker.members))}
        if cause == "turned-away-assignor-mismatch":
            if tracker.protocol_type not in (None, "") and join.protocol_type != tracker.protocol_type:
                cause = "turned-away-protocol-type"
            facts |= mismatch(tracker, join)
        elif cause == "invalid-session-timeout":
            facts["session_timeout_ms"] = str(join.session_timeout_ms)
        key = (cause, join.client_id, join.client_host, facts.get("offered", ""))
        if self._again(key, event):
            return
        asked = Asked(join.protocol_type, join.protocols)
        part = MemberPart(
            join.member_id,
            join.client_id,
            join.client_host,
            join.group_instance_id,
            came_ms=0,
            fate="refused",
            topics=asked.topics or [],
            session_timeout_ms=join.session_timeout_ms,
            rebalance_timeout_ms=max(join.rebalance_timeout_ms, 0),
            protocols=asked.names,
        )
        self._begin(tracker, key, event, [part], Trigger(cause, 0, 0, said(join.reason), facts))

    def _fenced(self, tracker: Account, event: RequestRefused, asked: RequestReceived) -> None:
        """Somebody still uses an id whose place another process took: both live."""
        instance = asked.group_instance_id or ""
        replaced = tracker.departures.replaced_ids.get(event.member_id)
        holder = next((one for one in tracker.members.values() if one.group_instance_id == instance), None)
        facts = {"error": event.error, "api": asked.api, "instance": instance}
        if holder is not None:
            facts["new"] = _where(holder.client_id, holder.client_host)
        if replaced is not None:
            facts["old"] = _where(replaced.client_id, replaced.client_host)
            facts["after_ms"] = str(event.at_ms - replaced.at_ms)
            flaps = tracker.departures.flaps(replaced.known, event.wall_ms)
            facts["replaced_times"] = str(flaps)
        key = ("duplicate-instance-id", instance)
        if self._again(key, event):
            self.open[key].triggers[0].facts = facts
            return
        client_id = asked.client_id or ("" if replaced is None else replaced.client_id)
        client_host = asked.client_host or ("" if replaced is None else replaced.client_host)
        parts = [MemberPart(event.member_id, client_id, client_host, instance, fate="refused")]
        if holder is not None:
            parts.append(holder.part())
        self._begin(tracker, key, event, parts, Trigger("duplicate-instance-id", len(parts) - 1, 0, "", facts))

    def _again(self, key: tuple[str, ...], event: RequestRefused) -> bool:
        if (same := self.open.get(key)) is None:
            return False
        same.times += 1
        same.last_ms = event.wall_ms
        return True

    def _begin(
        self, tracker: Account, key: tuple[str, ...], event: RequestRefused, parts: list[MemberPart], why: Trigger
    ) -> None:
        tracker.count += 1
        if len(self.open) >= MOST_OPEN:
            tracker.keep(self.open.pop(next(iter(self.open))))
        self.open[key] = Episode(
            number=tracker.count,
            kind="refusal",
            group_id=tracker.group_id,
            started_ms=event.wall_ms,
            duration_ms=0,
            state_before=tracker.state,
            generation_before=tracker.generation,
            generation_after=tracker.generation,
            outcome="refused",
            protocol_name=tracker.protocol_name,
            cause=why.cause,
            culprit=why.member,
            triggers=[why],
            members=parts,
            last_ms=event.wall_ms,
        )
        tracker.told(self.open[key])


def mismatch(tracker: Account, join: JoinReceived) -> dict[str, str]:
    """What a member offers, what the others have, and who has nothing in common with it."""
    offered = [protocol.name for protocol in join.protocols]
    others = [one for one in tracker.members.values() if one.member_id != join.member_id]
    common = set(others[0].asked.names) if others else set()
    for one in others[1:]:
        common &= set(one.asked.names)
    without = [_name(one) for one in others if not common & set(offered) and not set(one.asked.names) & set(offered)]
    order = others[0].asked.names if others else []
    return {
        "offered": ", ".join(offered),
        "group_has": ", ".join(name for name in order if name in common),
        "protocol_type": join.protocol_type,
        "group_type": tracker.protocol_type or "",
        "in_use": tracker.protocol_name,
        "without": ", ".join(list(dict.fromkeys(without))[:5]),
    }


def _where(client_id: str, client_host: str) -> str:
    return f"{client_id} at {client_host.removeprefix('/')}"


def _name(known: Known) -> str:
    return known.group_instance_id or known.client_id or known.member_id
