"""DescribeGroupHistory (key 20001): Ottla's own, for `ottla why` and `ottla timeline`."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Collection
from typing import Any

from ottla.broker.context import RequestContext
from ottla.broker.core.security.acls import AclOperation, Resource
from ottla.broker.handlers.services import Services
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.describe_group_history import DescribeGroupHistoryRequest, DescribeGroupHistoryResponse

VIEWS = ("why", "timeline", "events")

LEFT_OUT = "What is about topics that you may not describe is left out"
_SUMS = ("flow",)
"""Figures over all topics of a group: nobody is told them who may not see each of these."""


async def handle(
    request: DescribeGroupHistoryRequest, ctx: RequestContext, services: Services
) -> DescribeGroupHistoryResponse:
    explain = services.explain
    if explain is None:
        return _refused(ErrorCode.UNSUPPORTED_VERSION, "this broker keeps no history: ottla.history.memory.bytes is 0")
    if not request.group_id:
        return _refused(ErrorCode.INVALID_GROUP_ID, "the group id is empty")
    if not services.permits(ctx, AclOperation.DESCRIBE, Resource.GROUP, request.group_id):
        denied = ErrorCode.GROUP_AUTHORIZATION_FAILED
        return _refused(denied, denied.text)
    if elsewhere := services.groups.shard_of(request.group_id).refusal:
        return _refused(elsewhere, elsewhere.text)
    last = None if request.last < 0 else request.last
    since_ms = None if request.since_ms < 0 else request.since_ms
    generation = None if request.generation < 0 else request.generation
    body: bytes | None
    match request.view:
        case "why":
            body = await explain.why(request.group_id, last=last, since_ms=since_ms, generation=generation)
        case "timeline":
            body = await explain.timeline(request.group_id, last=last, since_ms=since_ms)
        case "events":
            body = explain.events(request.group_id, after=request.after, limit=last)
        case view:
            return _refused(ErrorCode.INVALID_REQUEST, f"view {view!r}: allowed are {', '.join(VIEWS)}")
    if body is None:
        return _refused(ErrorCode.GROUP_ID_NOT_FOUND, f"nothing is known of group {request.group_id!r}")
    hidden = services.denied(ctx, AclOperation.DESCRIBE, Resource.TOPIC, services.topics.topics, silently=True)
    if hidden and (left := await asyncio.to_thread(without, body, hidden)) is not None:
        return DescribeGroupHistoryResponse(body=left, error_message=LEFT_OUT)
    return DescribeGroupHistoryResponse(body=body)


def _refused(code: ErrorCode, why: str) -> DescribeGroupHistoryResponse:
    return DescribeGroupHistoryResponse(error_code=code, error_message=why)


def without(body: bytes, hidden: Collection[str]) -> bytes | None:
    """A JSON document without what is about some topics; None if there is nothing of the kind in it."""
    found = False

    def visible(value: Any) -> Any:
        nonlocal found
        if isinstance(value, dict):
            kept = {
                key: visible(each)
                for key, each in value.items()
                if key not in hidden and not (key == "topic" and each in hidden)
            }
            found = found or len(kept) < len(value)
            return kept
        if isinstance(value, list):
            rows = [visible(each) for each in value if not is_hidden(each)]
            found = found or len(rows) < len(value)
            return rows
        return value

    def is_hidden(value: Any) -> bool:
        if isinstance(value, dict):
            return value.get("topic") in hidden
        if isinstance(value, list):  # a struct without names, whose first part is its topic, as of `Move`
            return bool(value) and isinstance(value[0], str) and value[0] in hidden
        # A topic, or a partition as ``orders-1``.
        return isinstance(value, str) and (value in hidden or value.rpartition("-")[0] in hidden)

    document = visible(json.loads(body))
    if not found:
        return None
    for name in _SUMS:
        document.pop(name, None)
    return json.dumps(document).encode()
