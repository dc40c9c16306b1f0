"""Which connection each member has joined over: where one is lost, the coordinator notes it.

Losing a connection removes nobody, as in Kafka; but it explains why a member is not heard of any more. Heartbeats are
not looked at: a connection belongs to the members that joined over it last. A client that ended its side counts as
gone even while a request of it is parked, because nothing else tells that it is.

Members that were there before a start have joined over no connection that is known; they get the one over which they
leave. Who has left is told of, too: a connection that is closed right after a LeaveGroup belonged to a client that was
closed, one that stays open to an application that lives on. Clients that give no reason are told apart by that.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TypeAlias

from ottla.broker.context import RequestContext, Transport
from ottla.broker.core.consumer_groups.group import ConsumerGroup
from ottla.broker.core.groups.classic.group import ClassicGroup
from ottla.broker.core.groups.coordinator import GroupCoordinator
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from ottla.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from ottla.protocol.messages.leave_group import LeaveGroupRequest

Joined: TypeAlias = tuple[str, str]
"""Group id and member id."""

MOST_UNCHECKED = 64
"""A connection with more members is not searched, with every join, for those that left."""

MOST_GONE = 256
"""All connections are searched when they have twice the members that the last search left, and so many more. A client
may come again and again, and each member id has its client id in it."""


class MemberConnections:
    """See the module.

    Args:
        now: the monotonic and the wall clock.
    """

    def __init__(self, coordinator: GroupCoordinator, now: Callable[[], tuple[int, int]]) -> None:
        self._coordinator = coordinator
        self._now = now
        self._connections: dict[Joined, Transport] = {}
        self._look_at = MOST_GONE
        self._members: dict[Transport, dict[Joined, str]] = {}  # → client id

    def joined(self, request: JoinGroupRequest, ctx: RequestContext, answer: JoinGroupResponse | None) -> None:
        """Take note of the connection of somebody who has joined (None: and waits), or was given an id to join with."""
        group = self._coordinator.groups.get(request.group_id)
        group_id = request.group_id if group is None else group.group_id
        if answer is None:
            member_id = request.member_id or self._newest_member_id(request)
        elif answer.error_code in (ErrorCode.NONE, ErrorCode.MEMBER_ID_REQUIRED):
            member_id = answer.member_id
        else:
            return
        self._bind((group_id, member_id), ctx)

    def beats(self, request: ConsumerGroupHeartbeatRequest, ctx: RequestContext) -> None:
        """Take note of the connection of a member of a consumer group that joins."""
        group = self._coordinator.groups.get(request.group_id)
        if isinstance(group, ConsumerGroup) and request.member_id in group.state.members:
            self._bind((group.group_id, request.member_id), ctx)
            if ctx.closed:  # while the request waited for its turn
                self._gone(ctx.connection)

    def leaving(self, request: LeaveGroupRequest, ctx: RequestContext) -> None:
        """Take note of the connection of members that leave, and not of somebody else who removes them."""
        group = self._classic(request.group_id)
        if group is None:
            return
        for member_id in [one.member_id for one in request.members] or [request.member_id]:
            member, joined = group.members.get(member_id), (request.group_id, member_id)
            if member is None or joined in self._connections:
                continue
            if (member.client_id, member.client_host) == (ctx.client_id, ctx.client_host):
                self._bind(joined, ctx)

    def _bind(self, joined: Joined, ctx: RequestContext) -> None:
        connection = ctx.connection
        members = self._members.get(connection)
        if members is None:
            members = self._members[connection] = {}
            connection.on_gone = partial(self._gone, connection)
        if joined not in members and len(members) <= MOST_UNCHECKED:
            self._drop([one for one in members if one[0] == joined[0] and not self._is_member(*one)])
        before = self._connections.get(joined)
        if before is not None and before is not connection:
            self._members[before].pop(joined, None)
        self._connections[joined] = connection
        members[joined] = ctx.client_id
        if len(self._connections) >= self._look_at:
            self._drop([one for one in self._connections if not self._is_member(*one)])
            self._look_at = 2 * len(self._connections) + MOST_GONE

    def software_of(self, group_id: str, member_id: str) -> str:
        """The library and version of a member's client, as it said when it connected; empty if that is not known."""
        connection = self._connections.get((group_id, member_id))
        return "" if connection is None else connection.client_software

    def _drop(self, gone: list[Joined]) -> None:
        """Forget members that are gone, and whose client went on over the same connection."""
        for joined in gone:
            del self._members[self._connections.pop(joined)][joined]

    def _gone(self, connection: Transport) -> None:
        members = self._members.pop(connection)
        for joined in members:
            del self._connections[joined]
        for (group_id, member_id), client_id in members.items():
            if group_id in self._coordinator.groups:
                self._coordinator.disconnected(group_id, member_id, client_id, connection.client_host, *self._now())

    def _is_member(self, group_id: str, member_id: str) -> bool:
        """Whether there is such a member, or an id that was issued and not used yet."""
        group = self._coordinator.groups.get(group_id)
        if isinstance(group, ConsumerGroup):
            return member_id in group.state.members
        return isinstance(group, ClassicGroup) and (member_id in group.members or member_id in group.pending_members)

    def _newest_member_id(self, request: JoinGroupRequest) -> str:
        """The id of a member that has just joined without one and waits for its answer."""
        group = self._classic(request.group_id)
        if group is None:
            return ""
        if request.group_instance_id is not None:
            return group.static_members.get(request.group_instance_id, "")
        return next(reversed(group.members), "")

    def _classic(self, group_id: str) -> ClassicGroup | None:
        group = self._coordinator.groups.get(group_id)
        return group if isinstance(group, ClassicGroup) else None

    def forget(self) -> None:
        """The broker stops: whose connection closes now is nobody's business."""
        for connection in self._members:
            connection.on_gone = None
        self._connections.clear()
        self._members.clear()
