"""AlterClientQuotas (key 49): limit what clients may use."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Mapping
from dataclasses import replace
from ipaddress import ip_address

from ottla.broker.context import RequestContext
from ottla.broker.core.quotas.entities import IP, Entity, QuotaChange, Quotas, entity_of, plan
from ottla.broker.core.refusal import Refusal, code_and_message
from ottla.broker.core.security.acls import AclOperation
from ottla.broker.core.topics.catalog import Catalog
from ottla.broker.engine import EngineError
from ottla.broker.handlers.services import Services
from ottla.broker.runtime.topics import not_stored
from ottla.protocol.errors import ErrorCode
from ottla.protocol.message_parts import QuotaEntityPart
from ottla.protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasRequestEntryData,
    AlterClientQuotasResponse,
    AlterClientQuotasResponseEntryData,
)


async def handle(
    request: AlterClientQuotasRequest, ctx: RequestContext, services: Services
) -> AlterClientQuotasResponse:
    if not services.permits_on_cluster(ctx, AclOperation.ALTER_CONFIGS):
        return failed(request, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    changes = [
        QuotaChange(_entity(entry), [(op.key, None if op.remove else op.value) for op in entry.ops])
        for entry in request.entries
    ]
    names = {name for entity, _ in changes for kind, name in entity if kind == IP and name}
    addresses = {name for name in names if await _is_address(name)}

    before: Quotas = {}

    def planned(catalog: Catalog) -> tuple[Catalog, Mapping[Entity, Refusal | None]]:
        nonlocal before
        before = catalog.quotas
        quotas, refusals = plan(catalog.quotas, changes, addresses)
        return catalog if request.validate_only else replace(catalog, quotas=quotas), refusals

    try:
        refusals = await services.topics.change(planned)
    except EngineError as error:
        refusals = dict.fromkeys((change.entity for change in changes), not_stored(error))
    if not request.validate_only:
        for entity, changed in changes:
            if refusals[entity] is None:
                of = [f"{kind}={name}" for kind, name in entity]
                had = before.get(entity, {})
                values = {"before": {key: had.get(key) for key, _ in changed}, "after": dict(changed)}
                services.audit.tell("quota_altered", ctx, entity=of, keys=[key for key, _ in changed], **values)
    return AlterClientQuotasResponse(
        entries=[_row(entity, *code_and_message(refusal)) for entity, refusal in refusals.items()]
    )


def _entity(entry: AlterClientQuotasRequestEntryData) -> Entity:
    parts: list[QuotaEntityPart] = entry.entity
    return entity_of((part.entity_type, part.entity_name) for part in parts)


async def _is_address(name: str) -> bool:
    """Tell whether a name is an address, or that of a host which has one."""
    try:
        ip_address(name)
    except ValueError:
        try:
            await asyncio.get_running_loop().getaddrinfo(name, None, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError):
            return False
    return True


def _row(entity: Entity, code: int, message: str | None) -> AlterClientQuotasResponseEntryData:
    return AlterClientQuotasResponseEntryData(
        error_code=code,
        error_message=message,
        entity=[QuotaEntityPart(entity_type=kind, entity_name=name) for kind, name in entity],
    )


def failed(request: AlterClientQuotasRequest, code: int) -> AlterClientQuotasResponse:
    """The answer that refuses every entry: nobody may, or we have a bug."""
    return AlterClientQuotasResponse(entries=[_row(_entity(entry), code, None) for entry in request.entries])
