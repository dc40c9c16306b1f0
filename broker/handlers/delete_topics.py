"""DeleteTopics (key 20), by name or by topic id."""

from __future__ import annotations

from collections import Counter
from uuid import UUID

from ottla.broker.context import RequestContext
from ottla.broker.core.security.acls import AclOperation, Resource
from ottla.broker.core.topics.catalog import Refusal
from ottla.broker.handlers.permits import permit
from ottla.broker.handlers.services import Services
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from ottla.protocol.primitives import ZERO_UUID

_DISABLED_SINCE = 3
_REFUSED_SINCE = 5
"""From this version on clients know of quotas that are exceeded."""


def names(request: DeleteTopicsRequest, ctx: RequestContext) -> list[str | UUID]:
    return [*request.topic_names, *(topic.topic_id if topic.name is None else topic.name for topic in request.topics)]


async def handle(request: DeleteTopicsRequest, ctx: RequestContext, services: Services) -> DeleteTopicsResponse:
    asked = request.topics or [DeleteTopicState(name=name) for name in request.topic_names]
    disabled = ErrorCode.TOPIC_DELETION_DISABLED if ctx.api_version >= _DISABLED_SINCE else ErrorCode.INVALID_REQUEST
    if not services.settings.delete_topic_enable:
        return DeleteTopicsResponse(responses=[_refused(state, disabled, None) for state in asked])
    rows: dict[str, DeletableTopicResult] = {}
    wanted: dict[str, str | UUID] = {}
    once, refused = _once(asked)
    everything = services.permits_on_cluster(ctx, AclOperation.DELETE, silently=True)
    for state in once:
        row = _find(state, services) if everything else _find_permitted(state, ctx, services)
        if row.error_code or row.name is None:
            refused.append(row)
        elif row.name in rows:
            rows[row.name] = _refused(state, ErrorCode.INVALID_REQUEST, "The topic is named twice")
        elif services.topics.topics[row.name].is_internal:
            rows[row.name] = _refused(state, disabled, "An internal topic cannot be deleted")
        else:
            rows[row.name] = row
            # An id stays one until the change is made: the name may be another topic's by then.
            wanted[row.name] = row.topic_id if state.name is None else row.name
    doomed = {name: row for name, row in rows.items() if not row.error_code}
    outcomes = await services.topics.delete([wanted[name] for name in doomed], permit=permit(ctx, _REFUSED_SINCE))
    for row, outcome in zip(doomed.values(), outcomes, strict=True):
        if isinstance(outcome, Refusal):
            row.error_code = outcome.error_code
            row.error_message = outcome.message
        else:
            row.topic_id = outcome.topic_id
            services.audit.tell("topic_deleted", ctx, topic=row.name, topic_id=str(outcome.topic_id))
    return DeleteTopicsResponse(responses=[*rows.values(), *refused])


def _once(asked: list[DeleteTopicState]) -> tuple[list[DeleteTopicState], list[DeletableTopicResult]]:
    """Those that are named once, and one refusal for each name or id that is named more often."""
    times = Counter((state.name, state.topic_id) for state in asked if state.name is not None or state.topic_id.int)
    refused = [
        _refused(DeleteTopicState(name=name, topic_id=topic_id), ErrorCode.INVALID_REQUEST, "The topic is named twice")
        for (name, topic_id), count in times.items()
        if count > 1
    ]
    return [state for state in asked if times[state.name, state.topic_id] <= 1], refused


def _find(state: DeleteTopicState, services: Services) -> DeletableTopicResult:
    """The row of a topic that exists, with its name and id, or of one that cannot be found."""
    if state.name is None and not state.topic_id.int:
        return _refused(state, ErrorCode.INVALID_REQUEST, "Neither a topic name nor an id was given")
    if state.name is not None and state.topic_id.int:
        return _refused(state, ErrorCode.INVALID_REQUEST, "Only one of topic name and id may be given")
    if state.name is None:
        topic = services.topics.by_id.get(state.topic_id)
        missing = ErrorCode.UNKNOWN_TOPIC_ID
    else:
        topic = services.topics.topics.get(state.name)
        missing = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if topic is None:
        return _refused(state, missing, None)
    return DeletableTopicResult(name=topic.name, topic_id=topic.topic_id)


def _find_permitted(state: DeleteTopicState, ctx: RequestContext, services: Services) -> DeletableTopicResult:
    """The same for somebody who may not delete whatever topic.

    Who may not describe one is not told whether there is such a name; what name an id has is not told him, either. An
    id says nothing of names: who may delete what it stands for need not be allowed to describe it.
    """
    denied = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    named = state.name is not None and not state.topic_id.int
    if named and not _may(AclOperation.DESCRIBE, state.name or "", ctx, services):
        return _refused(state, denied, None)
    row = _find(state, services)
    if row.error_code or row.name is None or _may(AclOperation.DELETE, row.name, ctx, services):
        return row
    if not named and services.permits(ctx, AclOperation.DESCRIBE, Resource.TOPIC, row.name, silently=True):
        state = DeleteTopicState(name=row.name, topic_id=row.topic_id)
    return _refused(state, denied, None)


def _may(operation: AclOperation, name: str, ctx: RequestContext, services: Services) -> bool:
    return services.permits(ctx, operation, Resource.TOPIC, name)


def _refused(state: DeleteTopicState, code: int, message: str | None) -> DeletableTopicResult:
    return DeletableTopicResult(name=state.name, topic_id=state.topic_id, error_code=code, error_message=message)


def failed(request: DeleteTopicsRequest, code: int) -> DeleteTopicsResponse:
    """The answer when we have a bug."""
    rows = [_refused(state, code, None) for state in request.topics]
    rows += [DeletableTopicResult(name=name, topic_id=ZERO_UUID, error_code=code) for name in request.topic_names]
    return DeleteTopicsResponse(responses=rows)
