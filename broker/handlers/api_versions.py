"""ApiVersions (key 18): computed from the handlers that we have, so it cannot promise more."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from typing import NamedTuple

from ottla.broker.context import RequestContext
from ottla.broker.handlers import HANDLERS
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


class Feature(NamedTuple):
    """A feature of the cluster.

    Attributes:
        level: the one that it has, and the highest that there is.
        needs: the versions of APIs that clients use who see that.
    """

    level: int
    needs: Mapping[ApiKey, int]


FEATURES = {
    # KIP-890 to its end: who sees it no longer adds partitions itself, and ends transactions with EndTxn 5.
    "transaction.version": Feature(2, {ApiKey.PRODUCE: 12, ApiKey.TXN_OFFSET_COMMIT: 5, ApiKey.END_TXN: 5}),
    # Groups of the consumer protocol (KIP-848).
    "group.version": Feature(1, {ApiKey.CONSUMER_GROUP_HEARTBEAT: 1, ApiKey.CONSUMER_GROUP_DESCRIBE: 1}),
}

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
    rows = table()
    if not named or not levels():
        return ApiVersionsResponse(api_keys=rows)
    supported = [SupportedFeatureKey(name=name, min_version=0, max_version=level) for name, level in levels().items()]
    return ApiVersionsResponse(
        api_keys=rows,
        supported_features=supported if ctx.api_version >= LEVEL_0_FROM else [],
        finalized_features_epoch=FINALIZED_EPOCH,
        finalized_features=[
            FinalizedFeatureKey(name=name, max_version_level=level, min_version_level=level)
            for name, level in levels().items()
        ],
    )


def unknown_version(request: None, ctx: RequestContext, services: Services) -> ApiVersionsResponse:
    """The answer to a version that we do not know: version 0, error 35, and our range of this API (KIP-511)."""
    mine = [row for row in table() if row.api_key == ApiKey.API_VERSIONS]
    return ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=mine)


@cache
def table() -> list[ApiVersion]:
    """Every API that is served and is Kafka's, with its first and last version."""
    return [
        ApiVersion(api_key=key, min_version=versions[0], max_version=versions[-1])
        for key, versions in HANDLERS.items()
        if not key.is_private
    ]


@cache
def levels() -> dict[str, int]:
    """The level of each feature of which the APIs are served."""
    served = {row.api_key: row.max_version for row in table()}
    return {
        name: feature.level
        for name, feature in FEATURES.items()
        if all(served.get(key, -1) >= version for key, version in feature.needs.items())
    }
