"""DescribeClientQuotas (key 48): what clients are limited to."""

from __future__ import annotations

from ottla.broker.context import RequestContext
from ottla.broker.core.quotas.filters import filter_of
from ottla.broker.core.refusal import Refusal
from ottla.broker.core.security.acls import AclOperation
from ottla.broker.handlers.services import Services
from ottla.protocol.errors import ErrorCode
from ottla.protocol.message_parts import QuotaEntityPart
from ottla.protocol.messages.describe_client_quotas import (
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
    EntryData,
    ValueData,
)


def handle(
    request: DescribeClientQuotasRequest, ctx: RequestContext, services: Services
) -> DescribeClientQuotasResponse:
    if not services.permits_on_cluster(ctx, AclOperation.DESCRIBE_CONFIGS):
        denied = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        return DescribeClientQuotasResponse(error_code=denied, error_message=denied.text, entries=None)
    wanted = filter_of(request)
    if isinstance(wanted, Refusal):
        return DescribeClientQuotasResponse(error_code=wanted.error_code, error_message=wanted.message, entries=None)
    entries = [
        EntryData(
            entity=[QuotaEntityPart(entity_type=kind, entity_name=name) for kind, name in entity],
            values=[ValueData(key=key, value=value) for key, value in values.items()],
        )
        for entity, values in services.topics.catalog.quotas.items()
        if wanted.fits(entity)
    ]
    return DescribeClientQuotasResponse(entries=entries)
