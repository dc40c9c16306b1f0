"""ApiVersions (key 18): computed from the handlers that we have, so it cannot promise more."""

from __future__ import annotations

import re
from functools import cache

from ottla.broker.context import RequestContext
from ottla.broker.handlers import HANDLERS, UNENFORCED
from ottla.broker.handlers.services import Services
from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)

NAMED_FROM = 3
LEVEL_0_FROM = 4
"""Clients of older versions cannot read a supported feature that may be at level 0."""

TRANSACTION_VERSION = "transaction.version"
TRANSACTION_LEVEL = 2
"""KIP-890 to its end: who sees it finalized no longer adds partitions itself, and ends transactions with EndTxn 5."""

TRANSACTION_LEVEL_NEEDS = {ApiKey.PRODUCE: 12, ApiKey.TXN_OFFSET_COMMIT: 5, ApiKey.END_TXN: 5}
"""The versions that such a client sends, which are those of the feature."""

FINALIZED_EPOCH = 0
"""Counts changes of finalized features, of which there are none."""

MOST_SOFTWARE = 64
"""So many characters of a client's name, and of its version, are kept with its connection."""

_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")


def handle(request: ApiVersionsRequest, ctx: RequestContext, services: Services) -> ApiVersionsResponse:
    named = ctx.api_version >= NAMED_FROM
    if named and not (
        _SOFTWARE.fullmatch(request.client_software_name) and _SOFTWARE.fullmatch(request.client_software_version)
    ):
        return ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST)  # KIP-511
    if named:
        name, version = request.client_software_name, request.client_software_version
        ctx.connection.client_software = f"{name[:MOST_SOFTWARE]} {version[:MOST_SOFTWARE]}"
    rows = table(unenforced=services.settings.ottla_unenforced_security_apis_enable)
    if not named or not transaction_level():
        return ApiVersionsResponse(api_keys=rows)
    level = transaction_level()
    supported = SupportedFeatureKey(name=TRANSACTION_VERSION, min_version=0, max_version=level)
    return ApiVersionsResponse(
        api_keys=rows,
        supported_features=[supported] if ctx.api_version >= LEVEL_0_FROM else [],
        finalized_features_epoch=FINALIZED_EPOCH,
        finalized_features=[
            FinalizedFeatureKey(name=TRANSACTION_VERSION, max_version_level=level, min_version_level=level)
        ],
    )


def unknown_version(request: None, ctx: RequestContext, services: Services) -> ApiVersionsResponse:
    """The answer to a version that we do not know: version 0, error 35, and our range of this API (KIP-511)."""
    mine = [row for row in table() if row.api_key == ApiKey.API_VERSIONS]
    return ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=mine)


@cache
def table(*, unenforced: bool = False) -> list[ApiVersion]:
    """Every API that is served and is Kafka's, with its first and last version.

    Args:
        unenforced: whether those of things that are kept and not enforced are.
    """
    return [
        ApiVersion(api_key=key, min_version=versions[0], max_version=versions[-1])
        for key, versions in HANDLERS.items()
        if not key.is_private and (unenforced or key not in UNENFORCED)
    ]


@cache
def transaction_level() -> int:
    """The level of ``transaction.version``: that of the APIs that are served; 0 is not worth a word."""
    served = {row.api_key: row.max_version for row in table()}
    is_whole = all(served.get(key, -1) >= version for key, version in TRANSACTION_LEVEL_NEEDS.items())
    return TRANSACTION_LEVEL if is_whole else 0
