"""The events of the coordinator's inputs: what came in, and what was refused at once."""

from __future__ import annotations

from ottla.broker.core.effects import Asker
from ottla.broker.core.groups.machine import Machine, Timer, TimerKey, Write
from ottla.broker.core.groups.shard import Shard, ShardState
from ottla.broker.observe.events import (
    AppendFinished,
    OwnershipChanged,
    RequestReceived,
    RequestRefused,
    TimerFired,
)
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse


def received(
    m: Machine,
    api: str,
    group_id: str,
    ctx: Asker | None,
    *,
    member_id: str = "",
    group_instance_id: str | None = None,
    generation: int = -1,
    reason: str | None = None,
) -> None:
    """A request came in."""
    if not m.observed:
        return
    m.emit(
        RequestReceived(
            group_id=group_id,
            cause=0,
            number=m.cause,
            api=api,
            api_version=-1 if ctx is None else ctx.api_version,
            client_id="" if ctx is None else ctx.client_id,
            client_host="" if ctx is None else ctx.client_host,
            member_id=member_id,
            group_instance_id=group_instance_id,
            generation=generation,
            reason=reason,
        )
    )


def refused(m: Machine, api: str, group_id: str, member_id: str, error: int) -> None:
    """A request was answered with an error."""
    if m.observed and error:
        name = ErrorCode(error).name
        m.emit(RequestRefused(group_id=group_id, cause=m.cause, api=api, member_id=member_id, error=name))


def commit_refused(m: Machine, request: OffsetCommitRequest, answer: OffsetCommitResponse) -> None:
    """Offsets were not committed, or not all of them."""
    if m.observed:
        codes = (item.error_code for topic in answer.topics for item in topic.partitions)
        first = next((code for code in codes if code), 0)
        refused(m, "OffsetCommit", request.group_id, request.member_id, first)


def fired(m: Machine, key: TimerKey, cause: int = 0) -> None:
    """A deadline passed."""
    if m.observed:
        group_id = "" if key.timer is Timer.RETENTION else str(key.subject)
        m.emit(TimerFired(group_id=group_id, cause=cause, number=m.cause, timer=key.timer, member_id=key.member_id))


def appended(m: Machine, write: Write, error: ErrorCode) -> None:
    """The outcome of a write is known."""
    if m.observed:
        m.emit(
            AppendFinished(
                group_id=write.group_id, cause=write.cause, number=m.cause, what=write.what, error=error.name
            )
        )


def ownership(m: Machine, shard: Shard, state: ShardState) -> None:
    """A partition changes its state."""
    m.emit(
        OwnershipChanged(
            group_id="",
            cause=0,
            number=m.cause,
            partition=shard.partition,
            state=state,
            groups=len(shard.groups),
        )
    )
