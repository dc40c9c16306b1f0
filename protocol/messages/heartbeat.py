"""Heartbeat (key 12): a member says that it is alive and learns of rebalances."""

from __future__ import annotations

from ottla.protocol.schema import Int16, Int32, Message, String, message, wire


@message(versions=range(5), flexible_from=4)
class HeartbeatRequest(Message):
    """Keep a member's session alive."""

    group_id: str = wire(String)
    generation_id: int = wire(Int32)
    member_id: str = wire(String)
    group_instance_id: str | None = wire(String, since=3, nullable_since=3, default=None)


@message(versions=range(5), flexible_from=4)
class HeartbeatResponse(Message):
    """NONE, or why the member must rejoin."""

    throttle_time_ms: int = wire(Int32, since=1)
    error_code: int = wire(Int16)
