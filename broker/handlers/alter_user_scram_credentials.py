"""AlterUserScramCredentials (key 51): set and remove SCRAM credentials."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ottla.broker.context import RequestContext
from ottla.broker.core.refusal import Refusal, code_and_message
from ottla.broker.core.security.acls import AclOperation
from ottla.broker.core.security.scram import Change, plan
from ottla.broker.core.topics.catalog import Catalog
from ottla.broker.engine import EngineError
from ottla.broker.handlers.services import Services
from ottla.broker.runtime.topics import not_stored
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
)
from ottla.protocol.sasl.scram import Mechanism


async def handle(
    request: AlterUserScramCredentialsRequest, ctx: RequestContext, services: Services
) -> AlterUserScramCredentialsResponse:
    if not services.permits_on_cluster(ctx, AclOperation.ALTER):
        return failed(request, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)

    def planned(catalog: Catalog) -> tuple[Catalog, Mapping[str, Refusal | None]]:
        credentials, refusals = plan(catalog.credentials, request)
        return replace(catalog, credentials=credentials), refusals

    try:
        refusals = await services.topics.change(planned)
    except EngineError as error:
        refusals = dict.fromkeys(_users(request), not_stored(error))
    else:
        _tell(request, refusals, ctx, services)
    rows = [_row(user, *code_and_message(refusal)) for user, refusal in refusals.items()]
    return AlterUserScramCredentialsResponse(results=rows)


def _tell(
    request: AlterUserScramCredentialsRequest,
    refusals: Mapping[str, Refusal | None],
    ctx: RequestContext,
    services: Services,
) -> None:
    changes: list[tuple[str, Change]] = [("credential_removed", gone) for gone in request.deletions]
    changes += [("credential_set", added) for added in request.upsertions]
    for event, change in changes:
        if refusals[change.name] is None:
            services.audit.tell(event, ctx, user=change.name, mechanism=Mechanism(change.mechanism).words)


def _users(request: AlterUserScramCredentialsRequest) -> list[str]:
    names = [each.name for each in request.deletions] + [each.name for each in request.upsertions]
    return list(dict.fromkeys(names))


def _row(user: str, code: int, message: str | None) -> AlterUserScramCredentialsResult:
    return AlterUserScramCredentialsResult(user=user, error_code=code, error_message=message)


def failed(request: AlterUserScramCredentialsRequest, code: int) -> AlterUserScramCredentialsResponse:
    """The answer that refuses every user: nobody may, or we have a bug."""
    return AlterUserScramCredentialsResponse(results=[_row(user, code, None) for user in _users(request)])
