"""Snapshots of producers in a database, each under the epoch of its log."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from ottla.broker.engine import EngineError, Fenced
from ottla.broker.storage.postgres.connections import Link
from ottla.broker.storage.postgres.database import SaveSnapshot
from ottla.broker.storage.postgres.log import PostgresLog
from ottla.protocol.records import TopicPartition


class PostgresSnapshots:
    """See the module and `ottla.broker.engine.Snapshots`.

    Args:
        logs: those that are led here.
    """

    def __init__(self, link: Link, logs: Mapping[TopicPartition, PostgresLog]) -> None:
        self._link = link
        self._logs = logs

    def load(self, tp: TopicPartition) -> dict[str, Any] | None:
        log = self._logs[tp]
        snapshot, log.snapshot = log.snapshot, None
        return cast("dict[str, Any] | None", snapshot)

    async def save(self, documents: Mapping[TopicPartition, dict[str, Any]]) -> dict[TopicPartition, str]:
        reasons = {}
        for tp, document in documents.items():
            try:
                await self._keep(tp, document["offset"], document)
            except EngineError as error:
                reasons[tp] = str(error)
        return reasons

    async def remove(self, tp: TopicPartition) -> None:
        if (log := self._logs.get(tp)) is not None:  # else it went with its log, or is another node's
            await self._keep(tp, log.log_end_offset, None)

    async def _keep(self, tp: TopicPartition, offset: int, document: dict[str, Any] | None) -> None:
        log = self._logs.get(tp)
        if log is not None:
            statement = SaveSnapshot(log.log_id, log.leader_epoch, offset, document)
            if (await self._link.answer(statement)).result:
                return
        raise Fenced(f"{tp.topic}-{tp.partition} is led elsewhere by now")
