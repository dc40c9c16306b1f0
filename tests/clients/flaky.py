"""A broker behind a proxy that cuts connections, at a byte chosen by a seeded random generator."""

from __future__ import annotations

import asyncio
import contextlib
import random
from types import TracebackType
from typing import Self

from ottla.broker import app
from ottla.broker.setting_sources import load


class FlakyBroker:
    """A broker in memory, on the running loop. All traffic goes through the proxy.

    Attributes:
        cut_after: the mean number of bytes after which a connection is cut, in either direction; 0 never.
        cuts: how many were.
    """

    def __init__(self, topics: dict[str, int], *, seed: int = 0) -> None:
        texts = {"group.initial.rebalance.delay.ms": "0", "group.min.session.timeout.ms": "100"}
        self._settings = load(texts).settings
        self._topics = list(topics.items())
        self._random = random.Random(seed)
        self._writers: set[asyncio.StreamWriter] = set()
        self.cut_after = 0
        self.cuts = 0
        self.port = 0

    @property
    def bootstrap_servers(self) -> str:
        return f"127.0.0.1:{self.port}"

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        advertised = ("127.0.0.1", self.port)
        self.broker = app.Broker(self._settings, directory=None, topics=self._topics, advertised=advertised)
        await self.broker.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.close()
        self.cut_all()
        await self.broker.stop()

    def cut_all(self) -> None:
        """Cut every connection now."""
        for writer in list(self._writers):
            self.cuts += 1
            writer.transport.abort()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        inner_reader, inner_writer = await asyncio.open_connection("127.0.0.1", self.broker.port)
        ends = {writer, inner_writer}
        self._writers |= ends
        try:
            await asyncio.gather(self._pump(reader, inner_writer), self._pump(inner_reader, writer))
        except OSError:
            pass
        finally:
            self._writers -= ends
            for end in ends:
                end.transport.abort()

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        left = self._random.expovariate(1 / self.cut_after) if self.cut_after else float("inf")
        while data := await reader.read(4096):
            if len(data) > left:
                writer.write(data[: int(left)])
                with contextlib.suppress(OSError):
                    await writer.drain()
                self.cuts += 1
                raise ConnectionAbortedError("cut")
            left -= len(data)
            writer.write(data)
            await writer.drain()
        raise ConnectionResetError("the other end closed")
