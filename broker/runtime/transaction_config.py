"""What the transaction coordinator takes from the settings."""

from __future__ import annotations

from ottla.broker.core.transactions.config import TransactionConfig
from ottla.broker.settings import Settings


def transaction_config(settings: Settings) -> TransactionConfig:
    """The settings that the transaction coordinator goes by."""
    return TransactionConfig(
        transactional_ids_max_bytes=settings.ottla_transactional_ids_max_bytes,
        transaction_max_timeout_ms=settings.transaction_max_timeout_ms,
        transactional_id_expiration_ms=settings.transactional_id_expiration_ms,
        transaction_abort_timed_out_transaction_cleanup_interval_ms=(
            settings.transaction_abort_timed_out_transaction_cleanup_interval_ms
        ),
        transaction_remove_expired_transaction_cleanup_interval_ms=(
            settings.transaction_remove_expired_transaction_cleanup_interval_ms
        ),
    )
