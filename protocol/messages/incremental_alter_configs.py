"""IncrementalAlterConfigs (key 44): change single settings. KIP-339."""

from __future__ import annotations

from ottla.protocol.message_parts import ResourceOutcome
from ottla.protocol.schema import ArrayOf, Boolean, Int8, Int32, Message, String, message, struct, wire


@struct
class AlterableConfig:
    """A change of one setting: 0 set, 1 delete, 2 append to and 3 subtract from a list."""

    name: str = wire(String)
    config_operation: int = wire(Int8)
    value: str | None = wire(String, nullable_since=0)


@struct
class AlterConfigsResource:
    """A topic, broker or group, and the changes to it."""

    resource_type: int = wire(Int8)
    resource_name: str = wire(String)
    configs: list[AlterableConfig] = wire(ArrayOf(AlterableConfig))


@message(versions=range(2), flexible_from=1)
class IncrementalAlterConfigsRequest(Message):
    """Change settings of resources, or only check whether they could be."""

    resources: list[AlterConfigsResource] = wire(ArrayOf(AlterConfigsResource))
    validate_only: bool = wire(Boolean)


@message(versions=range(2), flexible_from=1)
class IncrementalAlterConfigsResponse(Message):
    """The outcome for each resource."""

    throttle_time_ms: int = wire(Int32)
    responses: list[ResourceOutcome] = wire(ArrayOf(ResourceOutcome))
