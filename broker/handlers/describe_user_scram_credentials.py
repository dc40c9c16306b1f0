"""DescribeUserScramCredentials (key 50): who has SCRAM credentials, and never what they are."""

from __future__ import annotations

from typing import Any

from ottla.broker.context import RequestContext
from ottla.broker.core.refusal import Refusal
from ottla.broker.core.security.acls import AclOperation
from ottla.broker.core.security.scram import described
from ottla.broker.handlers.services import Services
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.describe_user_scram_credentials import (
    CredentialInfo,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)
from ottla.protocol.sasl.scram import Mechanism


def handle(
    request: DescribeUserScramCredentialsRequest, ctx: RequestContext, services: Services
) -> DescribeUserScramCredentialsResponse:
    if not services.permits_on_cluster(ctx, AclOperation.DESCRIBE):
        denied = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        refused: dict[str, Any] = {"error_code": denied.value, "error_message": denied.text}
        # As in Kafka: there is a row for each user that was asked for, and none says who that is.
        rows = [DescribeUserScramCredentialsResult(**refused) for _ in request.users or ()]
        return DescribeUserScramCredentialsResponse(**refused, results=rows)
    users = [each.name for each in request.users or ()]
    found = described(services.topics.catalog.credentials, users)
    return DescribeUserScramCredentialsResponse(results=[_result(*row) for row in found.items()])


def _result(user: str, known: list[tuple[Mechanism, int]] | Refusal) -> DescribeUserScramCredentialsResult:
    if isinstance(known, Refusal):
        return DescribeUserScramCredentialsResult(user=user, error_code=known.error_code, error_message=known.message)
    infos = [CredentialInfo(mechanism=mechanism, iterations=iterations) for mechanism, iterations in known]
    return DescribeUserScramCredentialsResult(user=user, credential_infos=infos)
