"""The database of a cluster while no node runs: logs come from a directory, or go into one, and all is led anew.

Nothing here is safe because nodes are down, but by epochs: before anything else everybody is deposed, and a node that
begins to lead later ends what is done here.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from typing import Any, Final, cast

from ottla.broker.clock import Clock
from ottla.broker.cluster.membership import Heard, NodeRow
from ottla.broker.cluster.view import NOBODY, NodeState
from ottla.broker.endpoints import BETWEEN_NODES
from ottla.broker.engine import Fenced, InUse, Unavailable
from ottla.broker.storage.postgres.catalog import PostgresCatalog
from ottla.broker.storage.postgres.connections import Link
from ottla.broker.storage.postgres.database import (
    Append,
    Beat,
    BeginEpoch,
    Connect,
    Depose,
    Head,
    Load,
    Loaded,
    Page,
    Refusal,
    Row,
    SaveSnapshot,
    Seal,
    Statement,
    Stored,
    Trim,
)
from ottla.protocol.records import HEADER_SIZE, check_crc, iter_batches

WATCHED_S: Final = 1.2
"""A node that seems to be there is watched so long: it beats twice in that time, if it lives."""
MOST_BYTES: Final = 4 << 20
MOST_ROWS: Final = 4_000
"""Bytes and rows of one statement."""


class ClusterAtRest:
    """See the module.

    Args:
        followers: as for `PostgresCatalog`.
        writer: tells what is stored here from what others store.

    Attributes:
        epochs: of each log, once `depose` was called: nothing is read or written under another.
    """

    def __init__(self, connect: Connect, clock: Clock, followers: Mapping[str, str], writer: str) -> None:
        self.epochs: dict[int, int] = {}
        self._writes, self._reads = (Link(role, connect, clock, lambda server, link: None) for role in ("F1", "R"))
        self.catalog = PostgresCatalog(self._writes, lambda: writer, followers)
        for link in (self._writes, self._reads):
            link.connect()

    @property
    def is_connected(self) -> bool:
        """Whether the database answers, as far as is known."""
        return self._writes.session is not None and self._reads.session is not None

    def close(self) -> None:
        """Let go of the connections."""
        self._writes.close()
        self._reads.close()

    async def refuse_nodes(self) -> None:
        """See that no node runs. Raises `InUse`, which names one."""
        before, _ = await self._nodes()
        if any(row.state is not NodeState.DOWN for row in before.values()):
            await asyncio.sleep(WATCHED_S)
        after, here = await self._nodes()
        for node_id, row in after.items():
            if node_id in here or (node_id in before and row.beat != before[node_id].beat):
                places = [place for name, place in row.endpoints.items() if name != BETWEEN_NODES]
                where = "".join(f" at {host}:{port}" for host, port in places[:1])
                raise InUse(f"node {node_id} of the cluster runs{where}: stop all of them first")

    async def _nodes(self) -> tuple[dict[int, NodeRow], frozenset[int]]:
        heard = await self._answer(Beat(NOBODY, 0))
        assert isinstance(heard, Heard)
        return {row.node_id: row for row in heard.nodes}, frozenset(heard.held or ())

    async def depose(self, by: int) -> None:
        """Let all logs be led by nobody, under epochs that are so much later; see `Depose`."""
        self.epochs = dict(cast("Sequence[tuple[int, int]]", await self._answer(Depose(by))))
        await self.catalog.refresh()

    async def ends(self) -> dict[int, int]:
        """Where each log ends."""
        found = await self._append(tuple(Head(log_id, epoch, 0) for log_id, epoch in self.epochs.items()), ())
        return {one.log_id: one.end_offset for one in found}

    async def put(self, log_id: int, end_offset: int, batches: bytes) -> int:
        """Put whole batches behind a log that ends at an offset; gives where it ends then.

        They keep the offsets and epochs that they have, and there may be gaps before and between them.

        Raises:
            CorruptBatch: they are damaged.
            EngineError: the log ends elsewhere, or a node leads it.
        """
        epoch = self.epochs[log_id]
        rows = list(_rows(log_id, epoch, batches))
        for some in (rows[start : start + MOST_ROWS] for start in range(0, len(rows), MOST_ROWS)):
            if end_offset != some[0].base_offset:
                await self.seal(log_id, some[0].base_offset)
            head = Head(log_id, epoch, some[0].base_offset)
            stored = next(iter(await self._append((head,), some)), None)
            end_offset = some[-1].last_offset + 1
            if stored is None or stored.leader_epoch != epoch:
                raise _fenced()
            if stored.end_offset not in (head.base_offset, end_offset):
                raise Unavailable(f"log {log_id} ends at {stored.end_offset}, and {head.base_offset} was to come next")
        return end_offset

    async def finish(self, log_id: int, start_offset: int, end_offset: int, epochs: Sequence[tuple[int, int]]) -> None:
        """Let a log that has all of its batches begin and end at these offsets, and know when which epoch began."""
        epoch = self.epochs[log_id]
        await self.seal(log_id, end_offset)
        await self._done(BeginEpoch(log_id, epoch, end_offset, tuple(epochs)))
        await self._done(Trim(log_id, epoch, start_offset))

    async def keep_snapshot(self, log_id: int, document: Mapping[str, Any]) -> None:
        """Keep a snapshot of producers, which is one of `ottla.broker.engine.Snapshots`."""
        await self._done(SaveSnapshot(log_id, self.epochs[log_id], document["offset"], document))

    async def seal(self, log_id: int, offset: int) -> None:
        """Let a log end at an offset at least."""
        await self._done(Seal(log_id, self.epochs[log_id], offset))

    async def load(self, log_id: int) -> Loaded:
        """What there is to know of a log."""
        loaded = (await self._reads.answer(Load(log_id, self.epochs[log_id]))).result
        if not isinstance(loaded, Loaded):
            raise _fenced()
        return loaded

    async def batches(self, log_id: int, start_offset: int, end_offset: int) -> AsyncIterator[Sequence[bytes]]:
        """All batches between two offsets, and the one that contains the first; so many at a time.

        Raises:
            CorruptBatch: one is damaged.
        """
        while start_offset < end_offset:
            page = Page(log_id, self.epochs[log_id], start_offset, end_offset, MOST_BYTES)
            rows = cast("Sequence[Row] | None", (await self._reads.answer(page)).result)
            if rows is None:
                raise _fenced()
            if not rows:
                return
            start_offset = rows[-1].last_offset + 1
            yield [b"".join((row.head, row.body)) for row in rows]

    async def _append(self, heads: Sequence[Head], rows: Sequence[Row]) -> Sequence[Stored]:
        while True:
            answer = await self._writes.answer(Append(heads, rows))
            if answer.refusal is not Refusal.UNIQUE_VIOLATION:  # else a copy was faster, and the answer tells next time
                return cast("Sequence[Stored]", answer.result)

    async def _answer(self, statement: Statement) -> object:
        return (await self._writes.answer(statement)).result

    async def _done(self, statement: Statement) -> None:
        if not await self._answer(statement):
            raise _fenced()


def _fenced() -> Fenced:
    return Fenced("a node has come up meanwhile: stop it, and say the same again")


def _rows(log_id: int, leader_epoch: int, batches: bytes) -> Iterator[Row]:
    for header, batch in iter_batches(batches):
        check_crc(header, batch)
        head, body = bytes(batch[:HEADER_SIZE]), batch[HEADER_SIZE:]
        yield Row(log_id, header.base_offset, header.last_offset, leader_epoch, header.max_timestamp, head, body)
