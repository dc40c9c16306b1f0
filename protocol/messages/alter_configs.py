"""AlterConfigs (key 33): replace all settings of a resource. KIP-133."""

from __future__ import annotations

from ottla.protocol.message_parts import ConfigValue, ResourceOutcome
from ottla.protocol.schema import ArrayOf, Boolean, Int8, Int32, Message, String, message, struct, wire


@struct
class AlterConfigsResource:
    """A topic, broker or group, and all settings that it shall have."""

    resource_type: int = wire(Int8)
    resource_name: str = wire(String)
    configs: list[ConfigValue] = wire(ArrayOf(ConfigValue))


@message(versions=range(3), flexible_from=2)
class AlterConfigsRequest(Message):
    """Replace the settings of resources, or only check whether they could be."""

    resources: list[AlterConfigsResource] = wire(ArrayOf(AlterConfigsResource))
    validate_only: bool = wire(Boolean)


@message(versions=range(3), flexible_from=2)
class AlterConfigsResponse(Message):
    """The outcome for each resource."""

    throttle_time_ms: int = wire(Int32)
    responses: list[ResourceOutcome] = wire(ArrayOf(ResourceOutcome))
