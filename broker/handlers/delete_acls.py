"""DeleteAcls (key 31): take back what users were allowed or denied."""

from __future__ import annotations

from dataclasses import replace

from ottla.broker.context import RequestContext
from ottla.broker.core.refusal import Refusal
from ottla.broker.core.security.acls import Acl, AclOperation, names_unknown, remove
from ottla.broker.core.topics.catalog import Catalog
from ottla.broker.engine import EngineError
from ottla.broker.handlers.authorized import NO_AUTHORIZER
from ottla.broker.handlers.services import Services
from ottla.broker.runtime.topics import not_stored
from ottla.protocol.errors import ErrorCode, MalformedFrame
from ottla.protocol.messages.delete_acls import (
    DeleteAclsFilterResult,
    DeleteAclsMatchingAcl,
    DeleteAclsRequest,
    DeleteAclsResponse,
)

_Outcome = list[Acl] | Refusal


async def handle(request: DeleteAclsRequest, ctx: RequestContext, services: Services) -> DeleteAclsResponse:
    if any(names_unknown(each) for each in request.filters):
        raise MalformedFrame("DeleteAcls has a filter with something unknown")
    if not services.permits_on_cluster(ctx, AclOperation.ALTER):
        denied = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        return failed(request, denied, denied.text)
    if services.authorizer is None:
        return failed(request, ErrorCode.SECURITY_DISABLED, NO_AUTHORIZER)

    def planned(catalog: Catalog) -> tuple[Catalog, list[_Outcome]]:
        acls, outcomes = remove(catalog.acls, request.filters)
        return replace(catalog, acls=acls), outcomes

    try:
        outcomes = await services.topics.change(planned)
    except EngineError as error:
        outcomes = [not_stored(error) for _ in request.filters]
    removed = dict.fromkeys(acl for outcome in outcomes if isinstance(outcome, list) for acl in outcome)
    for acl in removed:
        services.audit.tell("acl_deleted", ctx, rule=str(acl))
    return DeleteAclsResponse(filter_results=[_result(outcome) for outcome in outcomes])


def _result(outcome: _Outcome) -> DeleteAclsFilterResult:
    if isinstance(outcome, Refusal):
        return DeleteAclsFilterResult(error_code=outcome.error_code, error_message=outcome.message)
    rows = [DeleteAclsMatchingAcl(error_message=None, **acl._asdict()) for acl in outcome]
    return DeleteAclsFilterResult(error_message=None, matching_acls=rows)


def failed(request: DeleteAclsRequest, code: int, message: str | None = None) -> DeleteAclsResponse:
    """The answer when no rule can be removed: nobody may, there is no authorizer, or we have a bug."""
    return DeleteAclsResponse(
        filter_results=[DeleteAclsFilterResult(error_code=code, error_message=message) for _ in request.filters]
    )
