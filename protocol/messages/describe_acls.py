"""DescribeAcls (key 29): what users are allowed and denied. KIP-140, KIP-290."""

from __future__ import annotations

from ottla.protocol.schema import ArrayOf, Int8, Int16, Int32, Message, String, Words, message, struct, wire


@message(versions=range(1, 4), flexible_from=2)
class DescribeAclsRequest(Message):
    """Ask for the rules that match; None matches everything."""

    resource_type_filter: int = wire(Int8)
    resource_name_filter: str | None = wire(String, nullable_since=0)
    pattern_type_filter: int = wire(Int8, default=3)
    principal_filter: str | None = wire(String, nullable_since=0)
    host_filter: str | None = wire(String, nullable_since=0)
    operation: int = wire(Int8)
    permission_type: int = wire(Int8)


@struct
class AclDescription:
    """One rule of a resource pattern."""

    principal: str = wire(String)
    host: str = wire(String)
    operation: int = wire(Int8)
    permission_type: int = wire(Int8)


@struct
class DescribeAclsResource:
    """A resource pattern and its rules."""

    resource_type: int = wire(Int8)
    resource_name: str = wire(String)
    pattern_type: int = wire(Int8, default=3)
    acls: list[AclDescription] = wire(ArrayOf(AclDescription))


@message(versions=range(1, 4), flexible_from=2)
class DescribeAclsResponse(Message):
    """The rules, by resource pattern."""

    throttle_time_ms: int = wire(Int32)
    error_code: int = wire(Int16)
    error_message: str | None = wire(Words, nullable_since=0)
    resources: list[DescribeAclsResource] = wire(ArrayOf(DescribeAclsResource))
