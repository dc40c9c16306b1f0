"""What an application can hang into a consumer: a rebalance listener, and interceptors."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol

from ottla.clients.structs import OffsetAndMetadata, Records
from ottla.protocol.records import TopicPartition


class ConsumerRebalanceListener:
    """Told when partitions come and go. Every method may be plain or ``async``; the rebalance waits for it.

    The methods run while no records are being worked on: you are in a call of the consumer, or have finished with
    everything it gave you. They may call the consumer, except for records.
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
    """Sees what goes by. An exception is logged and otherwise ignored."""

    def on_consume(self, records: Records) -> Records:
        """Records are about to be given out; returns what is given out in their place."""

    def on_commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """Offsets were committed."""


async def call(method: Callable[..., Any], *arguments: Any) -> None:
    """Call a method that may be plain or ``async``."""
    outcome = method(*arguments)
    if inspect.isawaitable(outcome):
        await outcome
