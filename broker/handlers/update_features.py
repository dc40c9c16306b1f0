"""UpdateFeatures (key 57): the features that there are stay at their levels, as ApiVersions tells them.

As in Kafka a request changes all of its features or none. A level that a feature has already is granted; each other one
is refused with INVALID_UPDATE_VERSION.
"""

from __future__ import annotations

from ottla.broker.context import RequestContext
from ottla.broker.core.security.acls import AclOperation
from ottla.broker.handlers.api_versions import levels
from ottla.broker.handlers.services import Services
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.update_features import (
    FeatureUpdateKey,
    UpdatableFeatureResult,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)

EACH_UNTIL = 1
"""Up to this version the answer names each feature. KIP-1022"""
UPGRADE_TYPES = range(1, 4)
"""Upgrade, safe and unsafe downgrade (KIP-584). Version 0 has none: Kafka takes all of its updates for upgrades."""


def handle(request: UpdateFeaturesRequest, ctx: RequestContext, services: Services) -> UpdateFeaturesResponse:
    if not services.permits_on_cluster(ctx, AclOperation.ALTER):
        denied = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        return UpdateFeaturesResponse(error_code=denied, error_message=denied.text)
    for update in {update.feature: update for update in request.feature_updates}.values():  # the last one counts
        if problem := _problem(update):
            message = f"No feature was changed: {problem}"
            return UpdateFeaturesResponse(error_code=ErrorCode.INVALID_UPDATE_VERSION, error_message=message)
    each = request.feature_updates if ctx.api_version <= EACH_UNTIL else []
    rows = [UpdatableFeatureResult(feature=update.feature, error_message=None) for update in each]
    return UpdateFeaturesResponse(error_message=None, results=rows)


def _problem(update: FeatureUpdateKey) -> str:
    """The fault of an update; the empty string if there is none."""
    name, level = update.feature, update.max_version_level
    if update.upgrade_type not in UPGRADE_TYPES:
        return f"upgrade type {update.upgrade_type} of '{name}' is not known; there are 1, 2 and 3"
    highest = levels().get(name)
    if highest is None:
        return f"Ottla has no feature '{name}'; it has {' and '.join(levels())}"
    if not 0 <= level <= highest:
        return f"'{name}' has levels from 0 to {highest}, and not {level}"
    if level < highest:
        return f"'{name}' stays at level {highest}; clients that know lower levels alone are served as well"
    return ""
