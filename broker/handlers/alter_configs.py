"""AlterConfigs (key 33): say which settings a resource has from now on; all others are forgotten."""

from __future__ import annotations

from ottla.broker.context import RequestContext
from ottla.broker.core.configs.alterations import Alteration, Change
from ottla.broker.handlers.config_changes import answers, failures
from ottla.broker.handlers.services import Services
from ottla.protocol.messages.alter_configs import AlterConfigsRequest, AlterConfigsResource, AlterConfigsResponse


async def handle(request: AlterConfigsRequest, ctx: RequestContext, services: Services) -> AlterConfigsResponse:
    alterations = [_alteration(resource) for resource in request.resources]
    rows = await answers(alterations, ctx, services, validate_only=request.validate_only)
    return AlterConfigsResponse(responses=rows)


def _alteration(resource: AlterConfigsResource) -> Alteration:
    changes = [Change(config.name, config.value) for config in resource.configs]
    return Alteration(resource.resource_type, resource.resource_name, changes, replaces=True)


def failed(request: AlterConfigsRequest, code: int) -> AlterConfigsResponse:
    """The answer when we have a bug."""
    return AlterConfigsResponse(responses=failures(map(_alteration, request.resources), code))
