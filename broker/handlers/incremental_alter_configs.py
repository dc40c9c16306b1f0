"""IncrementalAlterConfigs (key 44): change single settings of topics, brokers and groups."""

from __future__ import annotations

from ottla.broker.context import RequestContext
from ottla.broker.core.configs.alterations import Alteration, Change
from ottla.broker.handlers.config_changes import answers
from ottla.broker.handlers.services import Services
from ottla.protocol.message_parts import ResourceOutcome
from ottla.protocol.messages.incremental_alter_configs import (
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)


async def handle(
    request: IncrementalAlterConfigsRequest, ctx: RequestContext, services: Services
) -> IncrementalAlterConfigsResponse:
    alterations = [_alteration(resource) for resource in request.resources]
    rows = await answers(alterations, services, validate_only=request.validate_only)
    return IncrementalAlterConfigsResponse(responses=[_row(*row) for row in rows])


def _alteration(resource: AlterConfigsResource) -> Alteration:
    changes = [Change(config.name, config.value, config.config_operation) for config in resource.configs]
    return Alteration(resource.resource_type, resource.resource_name, changes)


def _row(code: int, message: str | None, resource_type: int, name: str) -> ResourceOutcome:
    return ResourceOutcome(error_code=code, error_message=message, resource_type=resource_type, resource_name=name)


def failed(request: IncrementalAlterConfigsRequest, code: int) -> IncrementalAlterConfigsResponse:
    """The answer when we have a bug."""
    rows = [_row(code, None, each.resource_type, each.resource_name) for each in request.resources]
    return IncrementalAlterConfigsResponse(responses=rows)
