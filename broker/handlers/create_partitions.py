"""CreatePartitions (key 37)."""

from __future__ import annotations

from collections import Counter

from ottla.broker.context import RequestContext
from ottla.broker.core.refusal import Refusal, code_and_message
from ottla.broker.core.security.acls import AclOperation, Resource
from ottla.broker.handlers.permits import permit
from ottla.broker.handlers.services import Services
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)

_REFUSED_SINCE = 3
"""From this version on clients know of quotas that are exceeded."""


async def handle(request: CreatePartitionsRequest, ctx: RequestContext, services: Services) -> CreatePartitionsResponse:
    times = Counter(topic.name for topic in request.topics)
    by_name = {topic.name: topic for topic in request.topics}
    once = (name for name, count in times.items() if count == 1)
    denied = services.denied(ctx, AclOperation.ALTER, Resource.TOPIC, once)
    wanted: list[CreatePartitionsTopic] = []
    rows = []
    for name, count in times.items():
        topic = None if name in denied else services.topics.topics.get(name)
        if count > 1:
            rows.append(_row(name, ErrorCode.INVALID_REQUEST, "Duplicate topic name."))
        elif name in denied:
            rows.append(_row(name, ErrorCode.TOPIC_AUTHORIZATION_FAILED, None))
        elif topic is not None and topic.is_internal:
            # Groups are spread over its partitions by their number: it must not change.
            rows.append(_row(name, ErrorCode.INVALID_TOPIC_EXCEPTION, "An internal topic cannot grow"))
        else:
            wanted.append(by_name[name])
    outcomes = await services.topics.grow(
        [_growth(topic) for topic in wanted],
        validate_only=request.validate_only,
        permit=permit(ctx, _REFUSED_SINCE),
    )
    for topic_wanted, outcome in zip(wanted, outcomes, strict=True):
        rows.append(_row(topic_wanted.name, *code_and_message(outcome if isinstance(outcome, Refusal) else None)))
    return CreatePartitionsResponse(results=rows)


def _growth(topic: CreatePartitionsTopic) -> tuple[str, int, list[list[int]] | None]:
    assignments = topic.assignments
    return topic.name, topic.count, None if assignments is None else [each.broker_ids for each in assignments]


def _row(name: str, code: int, message: str | None) -> CreatePartitionsTopicResult:
    return CreatePartitionsTopicResult(name=name, error_code=code, error_message=message)


def failed(request: CreatePartitionsRequest, code: int) -> CreatePartitionsResponse:
    """The answer when we have a bug."""
    return CreatePartitionsResponse(results=[_row(topic.name, code, None) for topic in request.topics])
