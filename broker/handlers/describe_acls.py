"""DescribeAcls (key 29): what users are allowed and denied."""

from __future__ import annotations

from ottla.broker.context import RequestContext
from ottla.broker.core.security.acls import AclOperation, fits, names_unknown
from ottla.broker.handlers.authorized import NO_AUTHORIZER
from ottla.broker.handlers.services import Services
from ottla.protocol.errors import ErrorCode, MalformedFrame
from ottla.protocol.messages.describe_acls import (
    AclDescription,
    DescribeAclsRequest,
    DescribeAclsResource,
    DescribeAclsResponse,
)


def handle(request: DescribeAclsRequest, ctx: RequestContext, services: Services) -> DescribeAclsResponse:
    if names_unknown(request):
        raise MalformedFrame("DescribeAcls asks for what is unknown")
    if not services.permits_on_cluster(ctx, AclOperation.DESCRIBE):
        denied = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        return DescribeAclsResponse(error_code=denied, error_message=denied.text)
    if services.authorizer is None:
        return DescribeAclsResponse(error_code=ErrorCode.SECURITY_DISABLED, error_message=NO_AUTHORIZER)
    resources: dict[tuple[int, str, int], DescribeAclsResource] = {}
    for acl in services.topics.catalog.acls:
        if fits(request, acl):
            key = acl.resource_type, acl.resource_name, acl.pattern_type
            row = resources.get(key)
            if row is None:
                row = resources[key] = DescribeAclsResource(
                    resource_type=acl.resource_type, resource_name=acl.resource_name, pattern_type=acl.pattern_type
                )
            row.acls.append(
                AclDescription(
                    principal=acl.principal,
                    host=acl.host,
                    operation=acl.operation,
                    permission_type=acl.permission_type,
                )
            )
    return DescribeAclsResponse(resources=list(resources.values()))
