"""AlterUserScramCredentials (key 51): set and remove SCRAM credentials. Nobody has to show them yet."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ottla.broker.context import RequestContext
from ottla.broker.core.refusal import Refusal, code_and_message
from ottla.broker.core.security.scram import plan
from ottla.broker.core.topics.catalog import Catalog
from ottla.broker.engine import EngineError
from ottla.broker.handlers.services import Services
from ottla.broker.runtime.topics import not_stored
from ottla.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
)


async def handle(
    request: AlterUserScramCredentialsRequest, ctx: RequestContext, services: Services
) -> AlterUserScramCredentialsResponse:
    def planned(catalog: Catalog) -> tuple[Catalog, Mapping[str, Refusal | None]]:
        credentials, refusals = plan(catalog.credentials, request)
        return replace(catalog, credentials=credentials), refusals

    try:
        refusals = await services.topics.change(planned)
    except EngineError as error:
        refusals = dict.fromkeys(_users(request), not_stored(error))
    rows = [_row(user, *code_and_message(refusal)) for user, refusal in refusals.items()]
    return AlterUserScramCredentialsResponse(results=rows)


def _users(request: AlterUserScramCredentialsRequest) -> list[str]:
    names = [each.name for each in request.deletions] + [each.name for each in request.upsertions]
    return list(dict.fromkeys(names))


def _row(user: str, code: int, message: str | None) -> AlterUserScramCredentialsResult:
    return AlterUserScramCredentialsResult(user=user, error_code=code, error_message=message)


def failed(request: AlterUserScramCredentialsRequest, code: int) -> AlterUserScramCredentialsResponse:
    """The answer when we have a bug."""
    return AlterUserScramCredentialsResponse(results=[_row(user, code, None) for user in _users(request)])
