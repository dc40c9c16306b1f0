"""Objects of an application that a consumer calls: a rebalance listener, and interceptors."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping
from typing import Protocol

from ottla.clients.structs import OffsetAndMetadata, Records
from ottla.protocol.records import TopicPartition


class ConsumerRebalanceListener:
    """Methods that a consumer calls when partitions come and go, plain or ``async``; the rebalance waits for them.

    They run while you work on no records: you are in a call of the consumer, or are done with everything that it gave
    you. They may call the consumer, but not for records.
    """

    def on_partitions_revoked(self, revoked: set[TopicPartition]) -> Awaitable[None] | None:
        """Partitions are about to be given up; what was finished is committed already if auto-commit is on."""
        return None

    def on_partitions_assigned(self, assigned: set[TopicPartition]) -> Awaitable[None] | None:
        """A rebalance is done; these are new. Nothing was read from them yet, so this is the place to ``seek``."""
        return None

    def on_partitions_lost(self, lost: set[TopicPartition]) -> Awaitable[None] | None:
        """Partitions were taken away, and may be somebody else's already: nothing can be committed (KIP-429).

        By default the same as `on_partitions_revoked`.
        """
        return self.on_partitions_revoked(lost)


class ConsumerInterceptor(Protocol):
    """Methods that a consumer calls with records and commits. An exception of theirs is logged and then ignored."""

    def on_consume(self, records: Records) -> Records:
        """Records are about to be given out; what this returns is given out in their place."""

    def on_commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """Offsets were committed."""
