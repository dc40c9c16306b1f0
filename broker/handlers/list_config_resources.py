"""ListConfigResources (key 74): the names of what has settings; of topics and of brokers whether they have or not.

There are no settings of client metrics, which are all that version 0 asks for.
"""

from __future__ import annotations

from ottla.broker.context import RequestContext
from ottla.broker.core.configs.kinds import ResourceType
from ottla.broker.core.security.acls import AclOperation
from ottla.broker.handlers.services import Services
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.list_config_resources import (
    ConfigResource,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)


def handle(request: ListConfigResourcesRequest, ctx: RequestContext, services: Services) -> ListConfigResourcesResponse:
    if not services.permits_on_cluster(ctx, AclOperation.DESCRIBE_CONFIGS):
        return ListConfigResourcesResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    if ctx.api_version == 0:
        return ListConfigResourcesResponse()
    asked = set(request.resource_types) or set(ResourceType)
    if not asked <= set(ResourceType):
        return ListConfigResourcesResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    nodes = [*map(str, services.cluster.node_ids)]
    names = {
        ResourceType.GROUP: services.topics.group_configs,
        ResourceType.BROKER_LOGGER: nodes,
        ResourceType.BROKER: nodes,
        ResourceType.TOPIC: services.topics.topics,
    }
    rows = [
        ConfigResource(resource_name=name, resource_type=kind)
        for kind, found in names.items()
        if kind in asked
        for name in found
    ]
    return ListConfigResourcesResponse(config_resources=rows)
