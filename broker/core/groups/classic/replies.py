"""Answers to JoinGroup and SyncGroup, in the shape that the request's version has."""

from __future__ import annotations

from ottla.broker.core.effects import Asker
from ottla.broker.core.groups.classic.group import ClassicGroup
from ottla.broker.core.groups.classic.member import Member
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.join_group import JoinGroupResponse
from ottla.protocol.messages.sync_group import SyncGroupResponse

NULLABLE_PROTOCOL_NAME = 7
"""From this JoinGroup version on an absent protocol name is null; before it is the empty string (KIP-559)."""

REQUIRES_KNOWN_MEMBER = 4
"""From this JoinGroup version on a dynamic member is given its id before it may join with it (KIP-394)."""

SKIPS_ASSIGNMENT = 9
"""From this JoinGroup version on a static leader can be told not to assign anew (KIP-814)."""


def absent_protocol(ctx: Asker) -> str | None:
    """The protocol name of a JoinGroup answer that has none."""
    return None if ctx.api_version >= NULLABLE_PROTOCOL_NAME else ""


def join_error(ctx: Asker, error: ErrorCode, member_id: str) -> JoinGroupResponse:
    """Refuse a JoinGroup."""
    return JoinGroupResponse(error_code=error, member_id=member_id, protocol_name=absent_protocol(ctx))


def join_success(ctx: Asker, group: ClassicGroup, member: Member) -> JoinGroupResponse:
    """The current generation as the member sees it: only the leader is shown the members."""
    return JoinGroupResponse(
        generation_id=group.generation,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol_name or absent_protocol(ctx),
        leader=group.leader_id or "",
        member_id=member.member_id,
        members=group.described_members() if group.leader_id == member.member_id else [],
    )


def sync_error(error: ErrorCode) -> SyncGroupResponse:
    """Refuse a SyncGroup."""
    return SyncGroupResponse(error_code=error)


def sync_success(group: ClassicGroup, member: Member) -> SyncGroupResponse:
    """The member's assignment."""
    return SyncGroupResponse(
        protocol_type=group.protocol_type, protocol_name=group.protocol_name, assignment=member.assignment
    )
