"""The names of the topics that the broker itself writes."""

from __future__ import annotations

OFFSETS_TOPIC = "__consumer_offsets"
"""Groups and their committed offsets."""
TRANSACTIONS_TOPIC = "__transaction_state"
"""Transactional ids (KIP-98)."""
GROUP_EVENTS_TOPIC = "__ottla_group_events"
"""The history of groups: rebalances and alarms. It is Ottla's own."""

INTERNAL_TOPICS = frozenset({OFFSETS_TOPIC, TRANSACTIONS_TOPIC, "__share_group_state", GROUP_EVENTS_TOPIC})
