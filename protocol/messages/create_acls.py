"""CreateAcls (key 30): allow and deny users something. KIP-140, KIP-290."""

from __future__ import annotations

from ottla.protocol.schema import ArrayOf, Int8, Int16, Int32, Message, String, Words, message, struct, wire


@struct
class AclCreation:
    """A rule to be added: who, from where, may or may not do what, with which resource or resources."""

    resource_type: int = wire(Int8)
    resource_name: str = wire(String)
    resource_pattern_type: int = wire(Int8, default=3)
    principal: str = wire(String)
    host: str = wire(String)
    operation: int = wire(Int8)
    permission_type: int = wire(Int8)


@message(versions=range(1, 4), flexible_from=2)
class CreateAclsRequest(Message):
    """Add rules."""

    creations: list[AclCreation] = wire(ArrayOf(AclCreation))


@struct
class AclCreationResult:
    """The outcome for one rule."""

    error_code: int = wire(Int16)
    error_message: str | None = wire(Words, nullable_since=0)


@message(versions=range(1, 4), flexible_from=2)
class CreateAclsResponse(Message):
    """The outcome for each rule."""

    throttle_time_ms: int = wire(Int32)
    results: list[AclCreationResult] = wire(ArrayOf(AclCreationResult))
