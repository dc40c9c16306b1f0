"""ApiVersions (key 18): computed from the handlers that we have, so it cannot promise more."""

from __future__ import annotations

import re
from functools import cache

from ottla.broker.context import RequestContext
from ottla.broker.handlers import HANDLERS, handler
from ottla.broker.handlers.services import Services
from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse

VERSIONS = range(5)
NAMED_FROM = 3
_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")


def handle(request: ApiVersionsRequest, ctx: RequestContext, services: Services) -> ApiVersionsResponse:
    named = ctx.api_version >= NAMED_FROM
    if named and not (
        _SOFTWARE.fullmatch(request.client_software_name) and _SOFTWARE.fullmatch(request.client_software_version)
    ):
        return ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST)  # KIP-511
    return ApiVersionsResponse(api_keys=table())


def unknown_version(request: None, ctx: RequestContext, services: Services) -> ApiVersionsResponse:
    """The answer to a version that we do not know: version 0, error 35, and our range of this API (KIP-511)."""
    mine = [row for row in table() if row.api_key == ApiKey.API_VERSIONS]
    return ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=mine)


@cache
def table() -> list[ApiVersion]:
    """Every API that is served, with its first and last version."""
    rows = []
    for key in HANDLERS:
        versions = handler(key).versions
        rows.append(ApiVersion(api_key=key, min_version=versions[0], max_version=versions[-1]))
    return rows
