"""DescribeGroups (key 15)."""

from __future__ import annotations

from dataclasses import replace

from ottla.broker.context import RequestContext
from ottla.broker.core.security.acls import AclOperation, Resource
from ottla.broker.handlers.services import Services
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.describe_groups import DescribedGroup, DescribeGroupsRequest, DescribeGroupsResponse
from ottla.protocol.steps import Steps


def handle(
    request: DescribeGroupsRequest, ctx: RequestContext, services: Services
) -> DescribeGroupsResponse | Steps[DescribeGroupsResponse]:
    denied = services.denied(ctx, AclOperation.DESCRIBE, Resource.GROUP, request.groups)
    rows = [_denied(group_id) for group_id in request.groups if group_id in denied]
    if rows:
        request = replace(request, groups=[group_id for group_id in request.groups if group_id not in denied])
    answer = services.host.enter(services.groups.describe_groups, request, ctx)
    if not rows and not request.include_authorized_operations:
        return answer
    if isinstance(answer, DescribeGroupsResponse):
        return _completed(answer, rows, request, ctx, services)
    return _completed_later(answer, rows, request, ctx, services)


def _completed_later(
    steps: Steps[DescribeGroupsResponse],
    rows: list[DescribedGroup],
    request: DescribeGroupsRequest,
    ctx: RequestContext,
    services: Services,
) -> Steps[DescribeGroupsResponse]:
    return _completed((yield from steps), rows, request, ctx, services)


def _completed(
    response: DescribeGroupsResponse,
    rows: list[DescribedGroup],
    request: DescribeGroupsRequest,
    ctx: RequestContext,
    services: Services,
) -> DescribeGroupsResponse:
    """Say what the client may do with each group, and which it may not see: those come first, as in Kafka."""
    if request.include_authorized_operations:
        for group in response.groups:
            if not group.error_code:
                group.authorized_operations = services.operations(ctx, Resource.GROUP, group.group_id)
    response.groups = rows + response.groups
    return response


def _denied(group_id: str) -> DescribedGroup:
    return DescribedGroup(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED, group_id=group_id)


def failed(request: DescribeGroupsRequest, code: int) -> DescribeGroupsResponse:
    return DescribeGroupsResponse(groups=[DescribedGroup(error_code=code, group_id=g) for g in request.groups])
