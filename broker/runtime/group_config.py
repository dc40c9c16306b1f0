"""The settings of the group coordinator among those of the broker."""

from __future__ import annotations

from ottla.broker.core.groups.config import GroupConfig
from ottla.broker.settings import Settings


def group_config(settings: Settings) -> GroupConfig:
    """What the coordinator needs to know."""
    return GroupConfig(
        group_min_session_timeout_ms=settings.group_min_session_timeout_ms,
        group_max_session_timeout_ms=settings.group_max_session_timeout_ms,
        group_initial_rebalance_delay_ms=settings.group_initial_rebalance_delay_ms,
        group_max_size=settings.group_max_size,
        group_max_bytes=settings.ottla_group_max_bytes,
        groups_max_bytes=settings.ottla_groups_max_bytes,
        group_max_issued_ids=settings.ottla_group_max_issued_ids,
        groups_max_issued_bytes=settings.ottla_groups_max_issued_bytes,
        offset_metadata_max_bytes=settings.offset_metadata_max_bytes,
        offsets_retention_ms=settings.offsets_retention_ms,
        offsets_retention_check_interval_ms=settings.offsets_retention_check_interval_ms,
        group_generation_persist=settings.group_generation_persist,  # type: ignore[arg-type]
    )
