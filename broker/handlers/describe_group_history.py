"""DescribeGroupHistory (key 20001): Ottla's own, for `ottla why` and `ottla timeline`."""

from __future__ import annotations

from ottla.broker.context import RequestContext
from ottla.broker.handlers.services import Services
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.describe_group_history import DescribeGroupHistoryRequest, DescribeGroupHistoryResponse

VIEWS = ("why", "timeline", "events")


async def handle(
    request: DescribeGroupHistoryRequest, ctx: RequestContext, services: Services
) -> DescribeGroupHistoryResponse:
    explain = services.explain
    if explain is None:
        return _refused(ErrorCode.UNSUPPORTED_VERSION, "this broker keeps no history: ottla.history.memory.bytes is 0")
    if not request.group_id:
        return _refused(ErrorCode.INVALID_GROUP_ID, "the group id is empty")
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
    return DescribeGroupHistoryResponse(body=body)


def _refused(code: ErrorCode, why: str) -> DescribeGroupHistoryResponse:
    return DescribeGroupHistoryResponse(error_code=code, error_message=why)
