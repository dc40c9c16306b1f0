"""ListConfigResources (key 74): the names of what has settings. KIP-1142; version 0 is of KIP-1000."""

from __future__ import annotations

from ottla.protocol.schema import ArrayOf, Int8, Int16, Int32, Message, String, message, struct, wire


@message(versions=range(2), flexible_from=0)
class ListConfigResourcesRequest(Message):
    """Ask for the names of resources of some types, or of all; version 0 for those of client metrics."""

    resource_types: list[int] = wire(ArrayOf(Int8), since=1)


@struct
class ConfigResource:
    """One resource; version 0 tells of client metrics (type 16) only."""

    resource_name: str = wire(String)
    resource_type: int = wire(Int8, since=1, default=16)


@message(versions=range(2), flexible_from=0)
class ListConfigResourcesResponse(Message):
    """The resources."""

    throttle_time_ms: int = wire(Int32)
    error_code: int = wire(Int16)
    config_resources: list[ConfigResource] = wire(ArrayOf(ConfigResource))
