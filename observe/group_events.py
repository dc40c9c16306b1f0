"""Events of groups as records of ``__ottla_group_events``; docs/group-events.md has the format.

The topic is for those who were not there when it happened: ``__consumer_offsets`` has a generation when it is Stable,
and neither when its rebalance began nor why. Heartbeats and commits leave nothing here.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from msgspec import UNSET, Struct, UnsetType
from msgspec.json import Encoder

from ottla.broker.core import events
from ottla.broker.core.events.reasons import NOT_PROVIDED
from ottla.observe.why.model import HERE, Episode

if TYPE_CHECKING:
    from ottla.observe.recorder_hashes import Hashes
    from ottla.observe.sentinels.model import Alarm
    from ottla.observe.why.history import History

VERSION = 1
"""Of the format; readers ignore keys that they do not know, so it only rises when a key changes its meaning."""
MOST_CHARACTERS = 1_000
"""Longer texts are cut, but for the group's id, which is the key: a client may say 32 KiB, again and again."""
MOST_WAITED_FOR = 10
"""Members that a rebalance waited for, of whom no more are named."""
ENDED = {"stable": "rebalance_completed", "empty": "rebalance_completed", "superseded": "rebalance_superseded"}

FENCED = {"left": "left", "removed by LeaveGroup": "removed", "revocation timed out": "unrevoked"}
"""How a member of a consumer group went, by the coordinator's reason; those that expired are told of otherwise."""

Put = Callable[[bytes, bytes, int], None]
"""Takes key, value and timestamp (Unix ms) of a record."""

_OPENED = re.compile(r"[\[({]")
_CLOSED = re.compile(r".*[\])}]", re.DOTALL)
_DIGIT = re.compile(r"\d")


class _Joined(Struct, gc=False):
    """The record of a JoinGroup, with its keys in order. It has a class as it is the one that each member leaves."""

    v: int
    ts_ms: int
    event: str
    group: str
    generation: int
    member: str
    client: str
    host: str
    reason: str
    cause: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    instance: str | UnsetType = UNSET


class GroupEvents(events.ByType):
    """An observer that makes records of what happens to groups.

    Args:
        groups: is told of each event after this observer: whoever goes is known there still.
        put: takes each record.
        hashes: makes group ids or client hosts unrecognizable, as in what is recorded otherwise.
    """

    wants_requests = True

    def __init__(self, groups: History, put: Put, hashes: Hashes | None = None) -> None:
        self._groups = groups
        self._put = put
        self._hashes = hashes
        self._encode = Encoder().encode
        self._input: events.RequestReceived | None = None
        self.by_type = {
            events.BarrierClosed: self._barrier_closed,
            events.ConsumerGroupLoaded: self._consumer_group_loaded,
            events.ConsumerHeartbeatReceived: self._heartbeat_received,
            events.GroupEpochBumped: self._epoch_bumped,
            events.GroupLoaded: self._loaded,
            events.JoinReceived: self._join_received,
            events.LeaveReceived: self._leave_received,
            events.MemberFenced: self._member_fenced,
            events.MemberLeft: self._member_left,
            events.MemberRejected: self._member_rejected,
            events.MemberReplaced: self._member_replaced,
            events.OffsetsRemoved: self._offsets_removed,
            events.RebalanceStarted: self._rebalance_started,
            events.SessionExpired: self._session_expired,
            events.StaticMemberAway: self._static_member_away,
        }

    # Requests

    def _join_received(self, event: events.JoinReceived) -> None:
        if not event.group_id:
            return  # it is refused, and there is no such group
        self._input = event
        group_id, host = event.group_id, event.client_host
        generation = self._groups.generation_of(group_id)
        if self._hashes is not None:
            group_id, host = self._hashes.group(group_id), self._hashes.host(host)
        instance_id = event.group_instance_id
        record = _Joined(
            VERSION,
            event.wall_ms,
            "join_received",
            group_id,
            generation,
            _clipped(event.member_id),
            _clipped(event.client_id),
            _clipped(host),
            "" if event.reason is None else _clipped(event.reason),
            "",
            event.session_timeout_ms,
            event.rebalance_timeout_ms,
            UNSET if instance_id is None else _clipped(instance_id),
        )
        self._put(group_id.encode(), self._encode(record), event.wall_ms)

    def _leave_received(self, event: events.LeaveReceived) -> None:
        if event.group_id:
            self._input = event

    def _heartbeat_received(self, event: events.ConsumerHeartbeatReceived) -> None:
        """ConsumerGroupHeartbeat of somebody who joins, or leaves; others leave no record."""
        if not event.group_id:
            return
        self._input = event
        if event.generation == 0:
            self._write(
                "join_received",
                event,
                member=event.member_id or event.issued_member_id,
                client=event.client_id,
                host=event.client_host,
                rebalance_timeout_ms=event.rebalance_timeout_ms,
                protocol="consumer",
                **_instance(event.group_instance_id),
            )

    # Members go

    def _member_fenced(self, event: events.MemberFenced) -> None:
        if (how := FENCED.get(event.reason)) is not None:
            self._gone("member_left", event, event.member_id, event.reason, how=how, protocol="consumer")

    def _static_member_away(self, event: events.StaticMemberAway) -> None:
        partitions = sum(len(one.partitions) for one in event.partitions)
        instance = _instance(event.group_instance_id)
        self._gone(
            "static_member_away", event, event.member_id, "", partitions=partitions, protocol="consumer", **instance
        )

    def _member_left(self, event: events.MemberLeft) -> None:
        if event.was_pending:
            return  # an id that was issued and never became a member
        reason = "" if event.reason == NOT_PROVIDED else event.reason
        self._gone("member_left", event, event.member_id, reason, how="left", **_instance(event.group_instance_id))

    def _member_rejected(self, event: events.MemberRejected) -> None:
        self._gone("member_left", event, event.member_id, "the group is full", how="refused")

    def _barrier_closed(self, event: events.BarrierClosed) -> None:
        if event.barrier == "sync":
            how, reason = "unsynced", "sent no SyncGroup in time"
        else:
            how, reason = "dropped", "did not rejoin in time"
        for member_id, heard_ms in zip(event.absent, event.absent_heard_ms, strict=False):
            if heard_ms >= 0:  # else an id that was issued and never used
                self._gone("member_left", event, member_id, reason, how=how)

    def _session_expired(self, event: events.SessionExpired) -> None:
        self._gone(
            "heartbeat_expired",
            event,
            event.member_id,
            "did not join a generation in time" if event.is_new else "",
            silent_ms=max(event.at_ms - event.last_heard_ms, 0),
            session_timeout_ms=event.session_timeout_ms,
        )

    def _member_replaced(self, event: events.MemberReplaced) -> None:
        self._gone(
            "static_member_fenced",
            event,
            event.old_member_id,
            "",
            replaced_by=event.member_id,
            **_instance(event.group_instance_id),
        )

    def _gone(self, name: str, event: events.Event, member_id: str, reason: str, **more: Any) -> None:
        client_id, host = self._groups.client_of(event.group_id, member_id)
        self._write(name, event, member=member_id, client=client_id, host=host, reason=reason, **more)

    # Rebalances

    def _rebalance_started(self, event: events.RebalanceStarted) -> None:
        came = self._input
        member_id = client_id = host = ""
        if came is not None and isinstance(came, events.Input) and came.number == event.cause:
            member_id, client_id, host = came.member_id, came.client_id, came.client_host
        reason = event.reason if self._hashes is None else self._hashes(event).reason  # type: ignore[attr-defined]
        self._write(
            "rebalance_started",
            event,
            member=member_id,
            client=client_id,
            host=host,
            reason=reason,
            generation=event.generation,
            members=event.members,
        )

    def _epoch_bumped(self, event: events.GroupEpochBumped) -> None:
        """The epoch of a consumer group rose. Before there is a target that is part of what runs."""
        if self._groups.awaits_target(event.group_id):
            return
        came = self._input
        is_asked = came is not None and came.number == event.cause
        self._write(
            "rebalance_started",
            event,
            member=came.member_id if came is not None and is_asked else "",
            client=came.client_id if came is not None and is_asked else "",
            host=came.client_host if came is not None and is_asked else "",
            reason=", ".join(event.reasons),
            generation=event.epoch - 1,
            members=event.members,
            protocol="consumer",
        )

    def on_episode(self, episode: Episode) -> None:
        """Take an episode that is over."""
        match episode.kind:
            case "rebalance":
                name = ENDED.get(episode.outcome, "")
            case "stopped" if episode.members:
                name = "coordinator_moved"
            case "conversion":
                name = "protocol_changed"
            case _:
                name = ""
        if not name:
            return
        generation = episode.generation_after if episode.generation_after >= 0 else episode.generation_before
        row: dict[str, Any] = {"generation": generation, "cause": episode.cause}
        if name == "coordinator_moved":
            row |= {"reason": "given up", "members": len(episode.members)}
        elif name == "protocol_changed":
            row |= self._changed(episode)
        else:
            row |= self._ended(episode)
        if episode.protocol:
            row["protocol"] = episode.protocol
        self._add(name, episode.group_id, episode.started_ms + max(episode.duration_ms, 0), row)

    def _ended(self, episode: Episode) -> dict[str, Any]:
        words = next(
            (one.reason for one in episode.triggers if one.cause == episode.cause and one.reason and one.member >= 0),
            "",
        )
        wait = next((one for one in reversed(episode.waits) if one.barrier == "join"), None)
        indexes = [one.member for one in episode.member_waits if one.blocked] if wait is None else wait.last
        last = [episode.members[index].member_id for index in dict.fromkeys(indexes) if index >= 0]
        row: dict[str, Any] = {
            "reason": f"{episode.cause}: {plain(words)}" if words else episode.cause,
            "duration_ms": max(episode.duration_ms, 0),
            "outcome": episode.outcome,
            "waited_for": [_clipped(one) for one in last[:MOST_WAITED_FOR]],
            "stood_ms": episode.stood_ms,
            "moved": episode.moved,
            "members": sum(one.fate in HERE for one in episode.members) if episode.outcome != "empty" else 0,
        }
        trigger = episode.triggers[0].member
        named = episode.culprit if episode.culprit >= 0 else trigger
        row |= _named(episode, named)
        for key, index in (("trigger", trigger), ("culprit", episode.culprit)):
            row[key] = _clipped(episode.members[index].member_id) if index >= 0 else ""
        return row

    @staticmethod
    def _changed(episode: Episode) -> dict[str, Any]:
        """The group is one of the other protocol, because of what somebody sent."""
        first = episode.triggers[0]
        facts = first.facts
        row: dict[str, Any] = {
            "reason": episode.cause,
            "members": int(facts["members"]),
            "before": facts["before"],
            "after": facts["after"],
        }
        return row | _named(episode, first.member)

    # Groups

    def _loaded(self, event: events.GroupLoaded) -> None:
        if event.loaded:
            self._write(
                "coordinator_moved", event, reason="loaded", generation=event.generation, members=len(event.loaded)
            )

    def _consumer_group_loaded(self, event: events.ConsumerGroupLoaded) -> None:
        if event.members:
            generation, members = event.generation, event.members
            self._write(
                "coordinator_moved", event, reason="loaded", generation=generation, members=members, protocol="consumer"
            )

    def _offsets_removed(self, event: events.OffsetsRemoved) -> None:
        if event.reason == "expired":
            self._write("offset_expired", event, reason="expired", partitions=event.partitions)

    def on_alarm(self, alarm: Alarm) -> None:
        """Take an alarm of a sentinel as it is raised or cleared."""
        # The sentence names clients, hosts and the group: nothing of it may be seen where they are to be hidden.
        told = alarm.text if self._hashes is None else alarm.subject
        row: dict[str, Any] = {
            "reason": f"{alarm.sentinel}: {told}" if told else alarm.sentinel,
            "topic": _clipped(alarm.subject),
            "client": alarm.facts.get("member", "") if self._hashes is None else "",
        }
        if alarm.cleared_ms:
            row["lasted_ms"] = max(alarm.cleared_ms - alarm.since_ms, 0)
        name = "alarm_cleared" if alarm.cleared_ms else "alarm_raised"
        self._add(name, alarm.group_id, alarm.cleared_ms or alarm.since_ms, row)

    # Records

    def _write(self, name: str, event: events.Event, **row: Any) -> None:
        self._add(name, event.group_id, event.wall_ms, row)

    def _add(self, name: str, group_id: str, wall_ms: int, row: dict[str, Any]) -> None:
        """Put a record: the keys that all have, then what else is in ``row``, which is used up."""
        take = row.pop
        generation, host = take("generation", None), take("host", "")
        if generation is None:
            generation = self._groups.generation_of(group_id)
        if self._hashes is not None:
            group_id, host = self._hashes.group(group_id), self._hashes.host(host)
        record = {
            "v": VERSION,
            "ts_ms": wall_ms,
            "event": name,
            "group": group_id,
            "generation": generation,
            "member": _clipped(take("member", "")),
            "client": _clipped(take("client", "")),
            "host": _clipped(host),
            "reason": _clipped(take("reason", "")),
            "cause": take("cause", ""),
            **row,
        }
        self._put(group_id.encode(), self._encode(record), wall_ms)


def plain(words: str) -> str:
    """A client's words without what differs from one time to the next: lists, numbers, names with numbers in them."""
    # Each expression is tried once, or once for a word: one for the whole would begin anew at each character.
    opened, closed = _OPENED.search(words), _CLOSED.match(words)
    if opened and closed and opened.start() < closed.end():
        words = f"{words[: opened.start()]}…{words[closed.end() :]}"
    return _clipped(" ".join("…" if _DIGIT.search(word) else word for word in words.split()))


def _clipped(text: str) -> str:
    return text if len(text) <= MOST_CHARACTERS else f"{text[: MOST_CHARACTERS - 1]}…"


def _named(episode: Episode, index: int) -> dict[str, str]:
    """The member that a record is about; nothing if it is about none."""
    if index < 0:
        return {}
    who = episode.members[index]
    return {"member": who.member_id, "client": who.client_id, "host": who.client_host}


def _instance(group_instance_id: str | None) -> dict[str, str]:
    return {} if group_instance_id is None else {"instance": _clipped(group_instance_id)}
