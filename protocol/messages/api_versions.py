"""ApiVersions (key 18): what this broker can do. KIP-35, KIP-511, KIP-584."""

from __future__ import annotations

from ottla.protocol.schema import ArrayOf, Boolean, Int16, Int32, Int64, Message, String, message, struct, wire


@message(versions=range(5), flexible_from=3)
class ApiVersionsRequest(Message):
    """Ask for the supported versions; from version 3 with the client's name and version (KIP-511)."""

    client_software_name: str = wire(String, since=3)
    client_software_version: str = wire(String, since=3)


@struct
class ApiVersion:
    """The versions of one API that are served, both ends inclusive."""

    api_key: int = wire(Int16)
    min_version: int = wire(Int16)
    max_version: int = wire(Int16)


@struct
class SupportedFeatureKey:
    """A feature level range that the broker supports."""

    name: str = wire(String, since=3)
    min_version: int = wire(Int16, since=3)
    max_version: int = wire(Int16, since=3)


@struct
class FinalizedFeatureKey:
    """A feature level that the whole cluster has agreed on."""

    name: str = wire(String, since=3)
    max_version_level: int = wire(Int16, since=3)
    min_version_level: int = wire(Int16, since=3)


@message(versions=range(5), flexible_from=3)
class ApiVersionsResponse(Message):
    """The table of APIs. Its header is always version 0; an unknown request version is answered in version 0."""

    error_code: int = wire(Int16)
    api_keys: list[ApiVersion] = wire(ArrayOf(ApiVersion))
    throttle_time_ms: int = wire(Int32, since=1)
    supported_features: list[SupportedFeatureKey] = wire(ArrayOf(SupportedFeatureKey), since=3, tag=0)
    finalized_features_epoch: int = wire(Int64, since=3, default=-1, tag=1)
    finalized_features: list[FinalizedFeatureKey] = wire(ArrayOf(FinalizedFeatureKey), since=3, tag=2)
    zk_migration_ready: bool = wire(Boolean, since=3, tag=3)
