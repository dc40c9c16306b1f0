"""A stand-in for a log that is damaged."""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn

from ottla.broker.storage.engine import Corrupt
from ottla.protocol.compression import Buffer


class OfflineLog:
    """A log that has nothing to give and takes nothing: every use raises ``Corrupt``."""

    log_start_offset = 0
    log_end_offset = 0
    high_watermark = 0
    size_bytes = 0

    def __init__(self, leader_epoch: int) -> None:
        self.leader_epoch = leader_epoch

    def _refuse(self) -> NoReturn:
        raise Corrupt("the partition is offline: its log is damaged")

    def append(
        self, batch: Buffer, *, count: int, max_timestamp_ms: int, done: Callable[[int, Exception | None], None]
    ) -> int:
        self._refuse()

    def read(
        self, start_offset: int, *, max_bytes: int, upto_offset: int | None = None, min_one_batch: bool = True
    ) -> bytes:
        self._refuse()

    def offset_for_timestamp(self, timestamp_ms: int) -> NoReturn:
        self._refuse()

    def max_timestamp(self) -> NoReturn:
        self._refuse()

    def epoch_end(self, leader_epoch: int) -> NoReturn:
        self._refuse()

    async def trim(self, offset: int) -> int:
        self._refuse()
