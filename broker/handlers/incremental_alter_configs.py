"""IncrementalAlterConfigs (key 44): change single settings of topics, brokers and groups."""

from __future__ import annotations

from ottla.broker.context import RequestContext
from ottla.broker.core.configs.alterations import Alteration, Change
from ottla.broker.handlers.config_changes import answers, failures
from ottla.broker.handlers.services import Services
from ottla.protocol.messages.incremental_alter_configs import (
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)


async def handle(
    request: IncrementalAlterConfigsRequest, ctx: RequestContext, services: Services
) -> IncrementalAlterConfigsResponse:
    alterations = [_alteration(resource) for resource in request.resources]
    rows = await answers(alterations, ctx, services, validate_only=request.validate_only)
    return IncrementalAlterConfigsResponse(responses=rows)


def _alteration(resource: AlterConfigsResource) -> Alteration:
    changes = [Change(config.name, config.value, config.config_operation) for config in resource.configs]
    return Alteration(resource.resource_type, resource.resource_name, changes)


def failed(request: IncrementalAlterConfigsRequest, code: int) -> IncrementalAlterConfigsResponse:
    """The answer when we have a bug."""
    return IncrementalAlterConfigsResponse(responses=failures(map(_alteration, request.resources), code))
