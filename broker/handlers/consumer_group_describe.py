"""ConsumerGroupDescribe (key 69): groups of the ``consumer`` protocol in detail (KIP-848)."""

from __future__ import annotations

from ottla.broker.context import RequestContext
from ottla.broker.handlers.authorized import GROUP_OPERATIONS
from ottla.broker.handlers.services import Services
from ottla.protocol.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedConsumerGroup,
)
from ottla.protocol.steps import Steps


def handle(
    request: ConsumerGroupDescribeRequest, ctx: RequestContext, services: Services
) -> ConsumerGroupDescribeResponse | Steps[ConsumerGroupDescribeResponse]:
    answer = services.host.enter(services.groups.describe_consumer_groups, request, ctx)
    if not request.include_authorized_operations:
        return answer
    return _permitted(answer) if isinstance(answer, ConsumerGroupDescribeResponse) else _permitted_later(answer)


def _permitted_later(steps: Steps[ConsumerGroupDescribeResponse]) -> Steps[ConsumerGroupDescribeResponse]:
    return _permitted((yield from steps))


def _permitted(response: ConsumerGroupDescribeResponse) -> ConsumerGroupDescribeResponse:
    for group in response.groups:
        if not group.error_code:
            group.authorized_operations = GROUP_OPERATIONS
    return response


def failed(request: ConsumerGroupDescribeRequest, code: int) -> ConsumerGroupDescribeResponse:
    groups = [DescribedConsumerGroup(error_code=code, group_id=group_id) for group_id in request.group_ids]
    return ConsumerGroupDescribeResponse(groups=groups)
