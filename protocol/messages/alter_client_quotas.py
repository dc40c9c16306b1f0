"""AlterClientQuotas (key 49): limit what clients may use. KIP-546."""

from __future__ import annotations

from ottla.protocol.message_parts import QuotaEntityPart
from ottla.protocol.schema import ArrayOf, Boolean, Float64, Int16, Int32, Message, String, Words, message, struct, wire


@struct
class OpData:
    """One quota to be set or removed."""

    key: str = wire(String)
    value: float = wire(Float64)
    remove: bool = wire(Boolean)


@struct
class AlterClientQuotasRequestEntryData:
    """An entity and the changes to it."""

    entity: list[QuotaEntityPart] = wire(ArrayOf(QuotaEntityPart))
    ops: list[OpData] = wire(ArrayOf(OpData))


@message(versions=range(2), flexible_from=1)
class AlterClientQuotasRequest(Message):
    """Change quotas, or only check whether they could be."""

    entries: list[AlterClientQuotasRequestEntryData] = wire(ArrayOf(AlterClientQuotasRequestEntryData))
    validate_only: bool = wire(Boolean)


@struct
class AlterClientQuotasResponseEntryData:
    """The outcome for one entity."""

    error_code: int = wire(Int16)
    error_message: str | None = wire(Words, nullable_since=0)
    entity: list[QuotaEntityPart] = wire(ArrayOf(QuotaEntityPart))


@message(versions=range(2), flexible_from=1)
class AlterClientQuotasResponse(Message):
    """The outcome for each entity."""

    throttle_time_ms: int = wire(Int32)
    entries: list[AlterClientQuotasResponseEntryData] = wire(ArrayOf(AlterClientQuotasResponseEntryData))
