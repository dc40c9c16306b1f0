"""The common part of AlterConfigs and IncrementalAlterConfigs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from ottla.broker.core.configs.alterations import Alteration
from ottla.broker.core.configs.kinds import ResourceType
from ottla.broker.core.configs.loggers import planned_level
from ottla.broker.core.refusal import Refusal, bad_request, code_and_message
from ottla.broker.handlers.services import Services
from ottla.protocol.message_parts import ResourceOutcome


async def answers(
    alterations: Sequence[Alteration], services: Services, *, validate_only: bool
) -> list[ResourceOutcome]:
    """Carry the alterations out; a row for each."""
    stored = [each for each in alterations if each.resource_type != ResourceType.BROKER_LOGGER]
    outcomes = iter(await services.topics.alter_configs(stored, validate_only=validate_only))
    times = Counter(each[:2] for each in alterations)
    refusals: list[Refusal | None] = []
    for alteration in alterations:
        if alteration.resource_type != ResourceType.BROKER_LOGGER:
            refusals.append(next(outcomes))
        elif times[alteration[:2]] > 1:
            refusals.append(bad_request("A resource may be named once only"))
        else:
            refusals.append(_change_level(alteration, services, validate_only=validate_only))
    return [
        _row(alteration, *code_and_message(refusal)) for alteration, refusal in zip(alterations, refusals, strict=True)
    ]


def failures(alterations: Iterable[Alteration], code: int) -> list[ResourceOutcome]:
    """The rows when we have a bug."""
    return [_row(alteration, code, None) for alteration in alterations]


def _row(alteration: Alteration, code: int, message: str | None) -> ResourceOutcome:
    return ResourceOutcome(
        error_code=code,
        error_message=message,
        resource_type=alteration.resource_type,
        resource_name=alteration.resource_name,
    )


def _change_level(alteration: Alteration, services: Services, *, validate_only: bool) -> Refusal | None:
    """The level of the log is kept by nobody: it holds until the broker ends."""
    logger = services.logger
    if logger is None:
        return bad_request("This broker has no logger whose level could be changed")
    level = planned_level(alteration, logger.level, services.node.node_id)
    if isinstance(level, Refusal):
        return level
    if not validate_only:
        logger.level = level
    return None
