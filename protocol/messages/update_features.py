"""UpdateFeatures (key 57): raise or lower what the whole cluster has agreed on. KIP-584, KIP-1022."""

from __future__ import annotations

from ottla.protocol.schema import ArrayOf, Boolean, Int8, Int16, Int32, Message, String, Words, message, struct, wire


@struct
class FeatureUpdateKey:
    """The level that a feature shall have. Upgrade types: 1 upgrade, 2 safe downgrade, 3 unsafe downgrade."""

    feature: str = wire(String)
    max_version_level: int = wire(Int16)
    allow_downgrade: bool = wire(Boolean, until=0)
    upgrade_type: int = wire(Int8, since=1, default=1)


@message(versions=range(3), flexible_from=0)
class UpdateFeaturesRequest(Message):
    """Change the levels of features, all or none, or only check whether they could be."""

    timeout_ms: int = wire(Int32, default=60000)
    feature_updates: list[FeatureUpdateKey] = wire(ArrayOf(FeatureUpdateKey))
    validate_only: bool = wire(Boolean, since=1)


@struct
class UpdatableFeatureResult:
    """The outcome for one feature."""

    feature: str = wire(String)
    error_code: int = wire(Int16)
    error_message: str | None = wire(Words, nullable_since=0)


@message(versions=range(3), flexible_from=0)
class UpdateFeaturesResponse(Message):
    """The outcome for all of them; up to version 1 and without an error also for each."""

    throttle_time_ms: int = wire(Int32)
    error_code: int = wire(Int16)
    error_message: str | None = wire(Words, nullable_since=0)
    results: list[UpdatableFeatureResult] = wire(ArrayOf(UpdatableFeatureResult), until=1)
