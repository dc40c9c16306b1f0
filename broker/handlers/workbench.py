"""Workbench (key 20002): Ottla's own, for `ottla fault`, `ottla clock` and `ottla groups pause`."""

from __future__ import annotations

from ottla.broker.context import RequestContext
from ottla.broker.core.security.acls import AclOperation
from ottla.broker.handlers.services import ControlRefused, Services
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.workbench import WorkbenchRequest, WorkbenchResponse


async def handle(request: WorkbenchRequest, ctx: RequestContext, services: Services) -> WorkbenchResponse:
    assert services.control is not None, "the dispatcher withholds it without"
    if not services.permits_on_cluster(ctx, AclOperation.ALTER):
        denied = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        return WorkbenchResponse(error_code=denied, error_message=denied.text)
    try:
        return WorkbenchResponse(body=await services.control.ask(request.verb, request.body))
    except ControlRefused as refused:
        return WorkbenchResponse(error_code=refused.code, error_message=str(refused))
