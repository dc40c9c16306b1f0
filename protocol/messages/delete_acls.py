"""DeleteAcls (key 31): take back what was allowed or denied. KIP-140, KIP-290."""

from __future__ import annotations

from ottla.protocol.schema import ArrayOf, Int8, Int16, Int32, Message, String, Words, message, struct, wire


@struct
class DeleteAclsFilter:
    """The rules to delete; None matches everything."""

    resource_type_filter: int = wire(Int8)
    resource_name_filter: str | None = wire(String, nullable_since=0)
    pattern_type_filter: int = wire(Int8, default=3)
    principal_filter: str | None = wire(String, nullable_since=0)
    host_filter: str | None = wire(String, nullable_since=0)
    operation: int = wire(Int8)
    permission_type: int = wire(Int8)


@message(versions=range(1, 4), flexible_from=2)
class DeleteAclsRequest(Message):
    """Remove the rules that filters match."""

    filters: list[DeleteAclsFilter] = wire(ArrayOf(DeleteAclsFilter))


@struct
class DeleteAclsMatchingAcl:
    """A rule that was removed."""

    error_code: int = wire(Int16)
    error_message: str | None = wire(Words, nullable_since=0)
    resource_type: int = wire(Int8)
    resource_name: str = wire(String)
    pattern_type: int = wire(Int8, default=3)
    principal: str = wire(String)
    host: str = wire(String)
    operation: int = wire(Int8)
    permission_type: int = wire(Int8)


@struct
class DeleteAclsFilterResult:
    """The rules that one filter matched."""

    error_code: int = wire(Int16)
    error_message: str | None = wire(Words, nullable_since=0)
    matching_acls: list[DeleteAclsMatchingAcl] = wire(ArrayOf(DeleteAclsMatchingAcl))


@message(versions=range(1, 4), flexible_from=2)
class DeleteAclsResponse(Message):
    """The outcome for each filter."""

    throttle_time_ms: int = wire(Int32)
    filter_results: list[DeleteAclsFilterResult] = wire(ArrayOf(DeleteAclsFilterResult))
