"""AlterConfigs (key 33): replace all settings of a resource. KIP-133."""

from __future__ import annotations

from ottla.protocol.schema import ArrayOf, Boolean, Int8, Int16, Int32, Message, String, Words, message, struct, wire


@struct
class AlterableConfig:
    """A setting and its value; what is not listed goes back to its default."""

    name: str = wire(String)
    value: str | None = wire(String, nullable_since=0)


@struct
class AlterConfigsResource:
    """A topic, broker or group, and all settings that it shall have."""

    resource_type: int = wire(Int8)
    resource_name: str = wire(String)
    configs: list[AlterableConfig] = wire(ArrayOf(AlterableConfig))


@message(versions=range(3), flexible_from=2)
class AlterConfigsRequest(Message):
    """Replace the settings of resources, or only check whether they could be."""

    resources: list[AlterConfigsResource] = wire(ArrayOf(AlterConfigsResource))
    validate_only: bool = wire(Boolean)


@struct
class AlterConfigsResourceResponse:
    """The outcome for one resource."""

    error_code: int = wire(Int16)
    error_message: str | None = wire(Words, nullable_since=0)
    resource_type: int = wire(Int8)
    resource_name: str = wire(String)


@message(versions=range(3), flexible_from=2)
class AlterConfigsResponse(Message):
    """The outcome for each resource."""

    throttle_time_ms: int = wire(Int32)
    responses: list[AlterConfigsResourceResponse] = wire(ArrayOf(AlterConfigsResourceResponse))
