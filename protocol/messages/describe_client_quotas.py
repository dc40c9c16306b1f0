"""DescribeClientQuotas (key 48): what clients are limited to. KIP-546."""

from __future__ import annotations

from ottla.protocol.message_parts import QuotaEntityPart
from ottla.protocol.schema import (
    ArrayOf,
    Boolean,
    Float64,
    Int8,
    Int16,
    Int32,
    Message,
    String,
    Words,
    message,
    struct,
    wire,
)


@struct
class ComponentData:
    """One condition: 0 the entity has this name, 1 it is the default, 2 it is named or the default."""

    entity_type: str = wire(String)
    match_type: int = wire(Int8)
    match: str | None = wire(String, nullable_since=0)


@message(versions=range(2), flexible_from=1)
class DescribeClientQuotasRequest(Message):
    """Ask for the quotas of entities that meet all conditions; strict: and have no other parts."""

    components: list[ComponentData] = wire(ArrayOf(ComponentData))
    strict: bool = wire(Boolean)


@struct
class ValueData:
    """One quota of an entity."""

    key: str = wire(String)
    value: float = wire(Float64)


@struct
class EntryData:
    """The quotas of one entity."""

    entity: list[QuotaEntityPart] = wire(ArrayOf(QuotaEntityPart))
    values: list[ValueData] = wire(ArrayOf(ValueData))


@message(versions=range(2), flexible_from=1)
class DescribeClientQuotasResponse(Message):
    """The entities and their quotas; None only beside an error."""

    throttle_time_ms: int = wire(Int32)
    error_code: int = wire(Int16)
    error_message: str | None = wire(Words, nullable_since=0)
    entries: list[EntryData] | None = wire(ArrayOf(EntryData), nullable_since=0)
