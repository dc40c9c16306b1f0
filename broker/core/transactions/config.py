"""The settings of the transaction coordinator."""

from __future__ import annotations

from dataclasses import dataclass

from ottla.broker.settings import Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionConfig:
    """Kafka's settings under Kafka's names, with its defaults; times in milliseconds.

    Attributes:
        transactional_ids_max_bytes: what all ids and the partitions of their transactions may take, roughly; beyond it
            new ones are refused. Ids are kept for a week, and Kafka keeps any number of them.
        marker_retry_backoff_ms: how long to wait before a marker or a completion that failed is tried again; doubled
            for each further failure, up to ``marker_retry_backoff_max_ms``.
        concurrent_wait_ms: how long a request to add partitions waits for what is under way for its transactional id
            before it is answered CONCURRENT_TRANSACTIONS.
        tombstone_batch_bytes: keys of expired ids that go into one append.
    """

    transactional_ids_max_bytes: int = 64 << 20
    transaction_max_timeout_ms: int = 900_000
    transactional_id_expiration_ms: int = 604_800_000
    transaction_abort_timed_out_transaction_cleanup_interval_ms: int = 10_000
    transaction_remove_expired_transaction_cleanup_interval_ms: int = 3_600_000
    marker_retry_backoff_ms: int = 100
    marker_retry_backoff_max_ms: int = 10_000
    concurrent_wait_ms: int = 500
    tombstone_batch_bytes: int = 65_536

    @classmethod
    def of(cls, settings: Settings) -> TransactionConfig:
        """The settings of the coordinator among those of the broker."""
        return cls(
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
