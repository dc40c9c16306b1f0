"""A stand-in for a log that this node does not have open: it is damaged, or another node leads the partition."""

from __future__ import annotations

from typing import NoReturn
from uuid import UUID

from ottla.broker.engine import EngineError, LogConfig
from ottla.protocol.records import TopicPartition


class StandInLog:
    """A log that has nothing to give and takes nothing: every use raises the refusal."""

    log_start_offset = 0
    log_end_offset = 0
    high_watermark = 0
    size_bytes = 0
    cleaned_offset = 0

    def __init__(
        self, tp: TopicPartition, topic_id: UUID, config: LogConfig, leader_epoch: int, refusal: EngineError
    ) -> None:
        self.tp = tp
        self.topic_id = topic_id
        self.config = config
        self.leader_epoch = leader_epoch
        self._refusal = refusal

    def _refuse(self, *args: object, **options: object) -> NoReturn:
        raise type(self._refusal)(str(self._refusal))

    async def _refuse_later(self, *args: object, **options: object) -> NoReturn:
        self._refuse()

    append = read = offset_for_timestamp = max_timestamp = epoch_end = segments = mark_cleaned = _refuse
    roll = replace = trim = _refuse_later
