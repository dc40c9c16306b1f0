"""ConsumerGroupDescribe (key 69): groups of the ``consumer`` protocol in detail (KIP-848)."""

from __future__ import annotations

from dataclasses import replace

from ottla.broker.context import RequestContext
from ottla.broker.core.security.acls import AclOperation, Resource
from ottla.broker.handlers.services import Services
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedConsumerGroup,
)
from ottla.protocol.steps import Steps

HAS_SECRETS = "The group has a topic that you may not describe"


def handle(
    request: ConsumerGroupDescribeRequest, ctx: RequestContext, services: Services
) -> ConsumerGroupDescribeResponse | Steps[ConsumerGroupDescribeResponse]:
    denied = services.denied(ctx, AclOperation.DESCRIBE, Resource.GROUP, request.group_ids)
    rows = [_denied(group_id) for group_id in request.group_ids if group_id in denied]
    if rows:
        request = replace(request, group_ids=[group_id for group_id in request.group_ids if group_id not in denied])
    answer = services.host.enter(services.groups.describe_consumer_groups, request, ctx)
    if services.authorizer is None and not request.include_authorized_operations:
        return answer
    if isinstance(answer, ConsumerGroupDescribeResponse):
        return _completed(answer, rows, request, ctx, services)
    return _completed_later(answer, rows, request, ctx, services)


def _completed_later(
    steps: Steps[ConsumerGroupDescribeResponse],
    rows: list[DescribedConsumerGroup],
    request: ConsumerGroupDescribeRequest,
    ctx: RequestContext,
    services: Services,
) -> Steps[ConsumerGroupDescribeResponse]:
    return _completed((yield from steps), rows, request, ctx, services)


def _completed(
    response: ConsumerGroupDescribeResponse,
    rows: list[DescribedConsumerGroup],
    request: ConsumerGroupDescribeRequest,
    ctx: RequestContext,
    services: Services,
) -> ConsumerGroupDescribeResponse:
    """Say what the client may do with each group, and which it may not see: those come first, as in Kafka."""
    names = (name for group in response.groups for name in dict.fromkeys(_topics(group)))
    secret = services.denied(ctx, AclOperation.DESCRIBE, Resource.TOPIC, names)
    for group in response.groups:
        if request.include_authorized_operations and not group.error_code:
            group.authorized_operations = services.operations(ctx, Resource.GROUP, group.group_id)
        if secret and any(name in secret for name in _topics(group)):
            group = _denied(group.group_id, ErrorCode.TOPIC_AUTHORIZATION_FAILED, HAS_SECRETS)
        rows.append(group)
    response.groups = rows
    return response


def _topics(group: DescribedConsumerGroup) -> list[str]:
    """The topics of which members have partitions, or are to have them."""
    return [
        topic.topic_name
        for member in group.members
        for assignment in (member.assignment, member.target_assignment)
        for topic in assignment.topic_partitions
    ]


def _denied(
    group_id: str, error: ErrorCode = ErrorCode.GROUP_AUTHORIZATION_FAILED, text: str | None = None
) -> DescribedConsumerGroup:
    return DescribedConsumerGroup(error_code=error, error_message=text, group_id=group_id)


def failed(request: ConsumerGroupDescribeRequest, code: int) -> ConsumerGroupDescribeResponse:
    groups = [DescribedConsumerGroup(error_code=code, group_id=group_id) for group_id in request.group_ids]
    return ConsumerGroupDescribeResponse(groups=groups)
