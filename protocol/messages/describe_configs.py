"""DescribeConfigs (key 32): settings of topics, brokers and groups. KIP-133, KIP-226, KIP-569."""

from __future__ import annotations

from ottla.protocol.schema import ArrayOf, Boolean, Int8, Int16, Int32, Message, String, Words, message, struct, wire


@struct
class DescribeConfigsResource:
    """A topic, broker or group, and the keys to describe; null for all."""

    resource_type: int = wire(Int8)
    resource_name: str = wire(String)
    configuration_keys: list[str] | None = wire(ArrayOf(String), nullable_since=0)


@message(versions=range(1, 5), flexible_from=4)
class DescribeConfigsRequest(Message):
    """Ask for settings, if wanted with synonyms and documentation."""

    resources: list[DescribeConfigsResource] = wire(ArrayOf(DescribeConfigsResource))
    include_synonyms: bool = wire(Boolean)
    include_documentation: bool = wire(Boolean, since=3)


@struct
class DescribeConfigsSynonym:
    """Another place that gives the setting a value, in order of precedence."""

    name: str = wire(String)
    value: str | None = wire(String, nullable_since=0)
    source: int = wire(Int8)


@struct
class DescribeConfigsResourceResult:
    """One setting: its value, and where that comes from."""

    name: str = wire(String)
    value: str | None = wire(String, nullable_since=0)
    read_only: bool = wire(Boolean)
    config_source: int = wire(Int8, default=-1)
    is_default: bool = wire(Boolean, until=0)
    is_sensitive: bool = wire(Boolean)
    synonyms: list[DescribeConfigsSynonym] = wire(ArrayOf(DescribeConfigsSynonym))
    config_type: int = wire(Int8, since=3)
    documentation: str | None = wire(String, since=3, nullable_since=0)


@struct
class DescribeConfigsResult:
    """The settings of one resource."""

    error_code: int = wire(Int16)
    error_message: str | None = wire(Words, nullable_since=0)
    resource_type: int = wire(Int8)
    resource_name: str = wire(String)
    configs: list[DescribeConfigsResourceResult] = wire(ArrayOf(DescribeConfigsResourceResult, repeats=True))


@message(versions=range(1, 5), flexible_from=4)
class DescribeConfigsResponse(Message):
    """The settings of each resource asked for."""

    max_items = 1 << 20  # all that a cluster has may be asked for

    throttle_time_ms: int = wire(Int32)
    results: list[DescribeConfigsResult] = wire(ArrayOf(DescribeConfigsResult))
