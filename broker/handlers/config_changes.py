"""What AlterConfigs and IncrementalAlterConfigs share."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ottla.broker.core.configs.alterations import Alteration
from ottla.broker.handlers.services import Services
from ottla.protocol.errors import ErrorCode

Answer = tuple[int, str | None, int, str]
"""Error code, message, resource type, resource name."""


async def answers(alterations: Sequence[Alteration], services: Services, *, validate_only: bool) -> Iterable[Answer]:
    """Carry the alterations out; a row for each."""
    refusals = await services.topics.alter_configs(alterations, validate_only=validate_only)
    return [
        (
            refusal.error_code if refusal else ErrorCode.NONE,
            refusal.message if refusal else None,
            alteration.resource_type,
            alteration.resource_name,
        )
        for alteration, refusal in zip(alterations, refusals, strict=True)
    ]
