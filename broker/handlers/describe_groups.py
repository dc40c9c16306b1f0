"""DescribeGroups (key 15)."""

from __future__ import annotations

from ottla.broker.context import RequestContext
from ottla.broker.handlers.authorized import GROUP_OPERATIONS
from ottla.broker.handlers.services import Services
from ottla.protocol.messages.describe_groups import DescribedGroup, DescribeGroupsRequest, DescribeGroupsResponse
from ottla.protocol.steps import Steps


def handle(
    request: DescribeGroupsRequest, ctx: RequestContext, services: Services
) -> DescribeGroupsResponse | Steps[DescribeGroupsResponse]:
    answer = services.host.enter(services.groups.describe_groups, request, ctx)
    if not request.include_authorized_operations:
        return answer
    return _permitted(answer) if isinstance(answer, DescribeGroupsResponse) else _permitted_later(answer)


def _permitted_later(steps: Steps[DescribeGroupsResponse]) -> Steps[DescribeGroupsResponse]:
    return _permitted((yield from steps))


def _permitted(response: DescribeGroupsResponse) -> DescribeGroupsResponse:
    for group in response.groups:
        if not group.error_code:
            group.authorized_operations = GROUP_OPERATIONS
    return response


def failed(request: DescribeGroupsRequest, code: int) -> DescribeGroupsResponse:
    return DescribeGroupsResponse(groups=[DescribedGroup(error_code=code, group_id=g) for g in request.groups])
