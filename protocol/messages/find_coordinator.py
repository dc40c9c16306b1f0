"""FindCoordinator (key 10): which broker coordinates a group or transaction. KIP-699."""

from __future__ import annotations

from ottla.protocol.schema import ArrayOf, Int8, Int16, Int32, Message, String, Words, message, struct, wire


@message(versions=range(7), flexible_from=3)
class FindCoordinatorRequest(Message):
    """Ask who coordinates a key: one up to version 3, several from version 4."""

    key: str = wire(String, until=3)
    key_type: int = wire(Int8, since=1)
    coordinator_keys: list[str] = wire(ArrayOf(String), since=4)


@struct
class Coordinator:
    """The coordinator of one key."""

    key: str = wire(String, since=4)
    node_id: int = wire(Int32, since=4)
    host: str = wire(String, since=4)
    port: int = wire(Int32, since=4)
    error_code: int = wire(Int16, since=4)
    error_message: str | None = wire(Words, since=4, nullable_since=4)


@message(versions=range(7), flexible_from=3)
class FindCoordinatorResponse(Message):
    """The coordinator: one up to version 3, a list from version 4."""

    throttle_time_ms: int = wire(Int32, since=1)
    error_code: int = wire(Int16, until=3)
    error_message: str | None = wire(Words, since=1, until=3, nullable_since=1)
    node_id: int = wire(Int32, until=3)
    host: str = wire(String, until=3)
    port: int = wire(Int32, until=3)
    coordinators: list[Coordinator] = wire(ArrayOf(Coordinator), since=4)
