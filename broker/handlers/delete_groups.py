"""DeleteGroups (key 42). Very many groups are deleted a few at a time; who is gone before the last one is told nothing.

Each of these parts enters the coordinator by itself, as a request for these groups alone does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from ottla.broker.context import RequestContext
from ottla.broker.handlers.services import Caller, Services
from ottla.protocol.messages.delete_groups import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse
from ottla.protocol.steps import Later, Steps

AT_ONCE = 25
"""Groups that are deleted without a pause."""


def handle(
    request: DeleteGroupsRequest, ctx: RequestContext, services: Services
) -> DeleteGroupsResponse | Steps[DeleteGroupsResponse] | None:
    if len(request.groups_names) <= AT_ONCE:
        return services.host.enter(services.groups.delete_groups, request, ctx)
    return _in_parts(list(dict.fromkeys(request.groups_names)), ctx, services)


def _in_parts(names: Sequence[str], ctx: RequestContext, services: Services) -> Steps[DeleteGroupsResponse]:
    answers: dict[int, DeleteGroupsResponse] = {}
    waiting: list[Callable[[], None]] = []

    def answered(begin: int, answer: DeleteGroupsResponse) -> None:
        answers[begin] = answer
        if waiting and len(answers) == len(begins):
            waiting.pop()()

    begins = range(0, len(names), AT_ONCE)
    for begin in begins:
        part = DeleteGroupsRequest(groups_names=list(names[begin : begin + AT_ONCE]))
        caller = Caller(partial(answered, begin), ctx)
        answer = services.host.enter(services.groups.delete_groups, part, caller)
        if answer is not None:
            answered(begin, answer)
        yield None
    if len(answers) < len(begins):
        yield Later(waiting.append)
    return DeleteGroupsResponse(results=[result for begin in begins for result in answers[begin].results])


def failed(request: DeleteGroupsRequest, code: int) -> DeleteGroupsResponse:
    names = request.groups_names
    return DeleteGroupsResponse(results=[DeletableGroupResult(group_id=name, error_code=code) for name in names])
