"""A broker behind a proxy that cuts connections, at a byte chosen by a seeded random generator."""

import asyncio
import contextlib
import random
from typing import Self

from ottla.broker import app
from ottla.broker.setting_sources import load

SETTINGS = {"group.initial.rebalance.delay.ms": "0", "group.min.session.timeout.ms": "100"}


class FlakyProxy:
    """A proxy before a broker. All traffic goes through it.

    Attributes:
        cut_after: the mean number of bytes after which a connection is cut, in either direction; 0 never.
        cuts: how many were.
    """

    def __init__(self, topics: dict[str, int], *, seed: int = 0) -> None:
        self._topics = list(topics.items())
        self._random = random.Random(seed)
        self._writers: set[asyncio.StreamWriter] = set()
        self.cut_after = 0
        self.cuts = 0
        self.port = 0
        self.broker_port = 0

    async def start_broker(self) -> int:
        """Start the broker, which tells clients to connect to ``port``; returns where it listens itself."""
        raise NotImplementedError

    async def stop_broker(self) -> None:
        raise NotImplementedError

    @property
    def bootstrap_servers(self) -> str:
        return f"127.0.0.1:{self.port}"

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        self.broker_port = await self.start_broker()
        return self

    async def __aexit__(self, *error: object) -> None:
        self._server.close()
        self.cut_all()
        await self.stop_broker()

    def cut_all(self) -> None:
        """Cut every connection now."""
        for writer in list(self._writers):
            self.cuts += 1
            writer.transport.abort()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        inner_reader, inner_writer = await asyncio.open_connection("127.0.0.1", self.broker_port)
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


class FlakyBroker(FlakyProxy):
    """A broker in memory, on the running loop."""

    async def start_broker(self) -> int:
        settings = load(SETTINGS).settings
        self.broker = app.Broker(settings, directory=None, topics=self._topics, advertised=("127.0.0.1", self.port))
        await self.broker.start()
        return self.broker.port

    async def stop_broker(self) -> None:
        await self.broker.stop()
