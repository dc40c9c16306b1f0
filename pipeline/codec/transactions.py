"""Aborted transactions and the last stable offset of a log that is read from its files."""

from __future__ import annotations

import struct

from ottla.pipeline.codec.chunk import Aborted
from ottla.protocol.batch import CONTROL_BIT
from ottla.protocol.compression import Buffer
from ottla.protocol.records import (
    ATTRIBUTES_AT,
    HEADER_SIZE,
    LOG_OVERHEAD,
    MAGIC,
    MAGIC_AT,
    PRODUCER_ID_AT,
    TRANSACTIONAL_BIT,
    BatchError,
    parse_marker,
)

_PLACE = struct.Struct(">qi").unpack_from
_ATTRIBUTES = struct.Struct(">hi").unpack_from
_PRODUCER = struct.Struct(">q").unpack_from


class Transactions:
    """Transactions found by scanning a log's control batches from its start, as Fetch tells them of a running broker.

        scan = Transactions()
        for data in pieces: scan.feed(data)      # returns how many bytes it took; the rest is wanted again
        walk(data, aborted=scan.aborted, end_offset=scan.last_stable_offset, …)

    Only headers and the few control records are looked at.
    """

    def __init__(self) -> None:
        self.aborted: list[Aborted] = []
        """Ended by an abort, in the order of their markers."""
        self.next_offset = 0
        """Behind the last batch that was fed."""
        self._open: dict[int, int] = {}

    @property
    def last_stable_offset(self) -> int:
        """Behind it lie transactions that have not ended; `next_offset` if there are none."""
        return min(self._open.values(), default=self.next_offset)

    def feed(self, data: Buffer) -> int:
        """Scan the whole batches that ``data`` begins with, which follow those fed before; returns their bytes.

        It ends before what is no batch of magic 2; `walk` says what is wrong with it.
        """
        at, size = 0, len(data)
        while at + HEADER_SIZE <= size:
            base_offset, length = _PLACE(data, at)
            behind = at + LOG_OVERHEAD + length
            if length < HEADER_SIZE - LOG_OVERHEAD or data[at + MAGIC_AT] != MAGIC or behind > size:
                break
            attributes, delta = _ATTRIBUTES(data, at + ATTRIBUTES_AT)
            self.next_offset = base_offset + max(delta, 0) + 1
            if attributes & TRANSACTIONAL_BIT:
                producer_id = _PRODUCER(data, at + PRODUCER_ID_AT)[0]
                if attributes & CONTROL_BIT:
                    self._end(producer_id, base_offset, memoryview(data)[at:behind])
                else:
                    self._open.setdefault(producer_id, base_offset)
            at = behind
        return at

    def _end(self, producer_id: int, offset: int, batch: Buffer) -> None:
        try:
            marker = parse_marker(batch)
        except BatchError:
            return
        if marker is None:
            return
        first_offset = self._open.pop(producer_id, None)
        if first_offset is not None and not marker.commit:
            self.aborted.append(Aborted(producer_id, first_offset, offset))
