"""CreateAcls (key 30): allow and deny users something."""

from __future__ import annotations

from dataclasses import replace

from ottla.broker.context import RequestContext
from ottla.broker.core.refusal import Refusal
from ottla.broker.core.security.acls import Acl, AclOperation, add, address, is_filter, names_unknown
from ottla.broker.core.topics.catalog import Catalog
from ottla.broker.engine import EngineError
from ottla.broker.handlers.authorized import NO_AUTHORIZER
from ottla.broker.handlers.services import Services
from ottla.broker.runtime.topics import not_stored
from ottla.protocol.errors import ErrorCode, MalformedFrame
from ottla.protocol.messages.create_acls import AclCreationResult, CreateAclsRequest, CreateAclsResponse

MOST_AT_ONCE = 10_000
"""Rules of one request, as many as Kafka's controller writes at once."""


async def handle(request: CreateAclsRequest, ctx: RequestContext, services: Services) -> CreateAclsResponse:
    wanted = [
        Acl(
            each.resource_type,
            each.resource_name,
            each.resource_pattern_type,
            each.principal,
            address(each.host),
            each.operation,
            each.permission_type,
        )
        for each in request.creations
    ]
    if any(names_unknown(acl) for acl in wanted):
        raise MalformedFrame("CreateAcls has a rule with something unknown")
    if not services.permits_on_cluster(ctx, AclOperation.ALTER):
        denied = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        return failed(request, denied, denied.text)
    if services.authorizer is None:
        return failed(request, ErrorCode.SECURITY_DISABLED, NO_AUTHORIZER)
    if len(wanted) > MOST_AT_ONCE:
        return failed(request, ErrorCode.INVALID_REQUEST, f"A request may have {MOST_AT_ONCE} rules at most")
    if any(is_filter(acl) for acl in wanted):
        return failed(request, ErrorCode.UNKNOWN_SERVER_ERROR)  # as Kafka, for all of them

    def planned(catalog: Catalog) -> tuple[Catalog, list[Refusal | None]]:
        acls, refusals = add(catalog.acls, wanted)
        return replace(catalog, acls=acls), refusals

    try:
        refusals = await services.topics.change(planned)
    except EngineError as error:
        refusals = [not_stored(error) for _ in wanted]
    for acl, refusal in zip(wanted, refusals, strict=True):
        if refusal is None:
            services.audit.tell("acl_created", ctx, rule=str(acl))
    return CreateAclsResponse(
        results=[
            AclCreationResult(
                error_code=refusal.error_code if refusal else ErrorCode.NONE,
                error_message=refusal.message if refusal else "",
            )
            for refusal in refusals
        ]
    )


def failed(request: CreateAclsRequest, code: int, message: str | None = None) -> CreateAclsResponse:
    """The answer when no rule can be added: nobody may, there is no authorizer, a rule is none, or we have a bug."""
    return CreateAclsResponse(
        results=[AclCreationResult(error_code=code, error_message=message) for _ in request.creations]
    )
