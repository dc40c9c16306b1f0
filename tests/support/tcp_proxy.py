"""A proxy between a client and a server on this machine: what goes through it can be held back, and cut off."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from typing import Any

SYNC = b"S\x00\x00\x00\x04"
"""PostgreSQL's last message of a statement: with it the transaction is committed."""


class Carried:
    """A connection that goes through."""

    def __init__(self, proxy: TcpProxy) -> None:
        self.is_open = True
        self.is_holding = False
        """Whether the end of the next statement is to be held back."""
        self.held = b""
        """What is held back."""
        self._proxy = proxy
        self.startup = b""
        """What the client said first: who it is, and in which role."""
        self._begun = False
        self._unread = b""
        self._is_statement = False
        self.writers: list[asyncio.StreamWriter] = []

    def passed(self, data: bytes) -> bytes:
        """What of a client's bytes goes on; the end of a statement, and all behind it, may be held back."""
        if self.held:
            self.held += data
            return b""
        self._unread += data
        out = b""
        while len(self._unread) >= 5:
            at = 1 if self._begun else 0
            size = at + int.from_bytes(self._unread[at : at + 4], "big")
            if len(self._unread) < size:
                break
            message, self._unread = self._unread[:size], self._unread[size:]
            kind = message[:1] if self._begun else b""
            self.startup = self.startup or message
            self._begun = True
            if message == SYNC and self._is_statement and self.is_holding:
                self.is_holding = False
                self.held, self._unread = message + self._unread, b""
                return out
            self._is_statement = kind == b"E"
            out += message
        return out

    def release(self) -> None:
        """Let go on what is held back."""

        def go_on() -> None:
            held, self.held = self.held, b""
            if self.is_open:
                self.writers[1].write(held)

        self._proxy.call(go_on)

    def cut(self) -> None:
        """End it, for both sides."""
        self._proxy.call(self.close)

    def close(self) -> None:
        self.is_open = False
        for writer in self.writers:
            writer.transport.abort()


class TcpProxy:
    """See the module. It works in a thread of its own, whatever its user does.

    Args:
        from_server: what becomes of what the server says.

    Attributes:
        connections: all that ever were, in their order.
        delay_s: for so long is everything under way that goes through, in either direction.
    """

    def __init__(
        self, target_port: int, *, is_postgres: bool = True, from_server: Callable[[bytes], bytes] = bytes
    ) -> None:
        self.target_port = target_port
        self._from_server = from_server
        self.connections: list[Carried] = []
        self.port = 0
        self.delay_s = 0.0
        self._is_postgres = is_postgres
        self._refuses = False
        self._cut_after: int | None = None
        self._flowing: asyncio.Event
        self._flowing_back: asyncio.Event
        self._loop = asyncio.new_event_loop()
        ready = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(ready,), daemon=True)
        self._thread.start()
        ready.wait()

    def connections_of(self, *endings: bytes) -> list[Carried]:
        """Those that are open whose clients began with something that has one of these in it."""
        return [one for one in self.connections if one.is_open and any(word in one.startup for word in endings)]

    def call(self, what: Callable[[], Any]) -> None:
        """Do something where the proxy works, and wait until it is done."""

        async def done() -> None:
            what()

        asyncio.run_coroutine_threadsafe(done(), self._loop).result(10)

    def stall(self, stalls: bool) -> None:
        """Let nothing more come from the server, or let it flow again."""
        self.call(self._flowing_back.clear if stalls else self._flowing_back.set)

    def hold(self, holds: bool) -> None:
        """Let nothing more come to the server, or let it flow again: then that comes, too, whose sender has gone."""
        self.call(self._flowing.clear if holds else self._flowing.set)

    def cut(self) -> None:
        """End everything, and let nobody through until `mend`."""
        self._refuses = True
        self.call(lambda: [one.close() for one in self.connections])

    def mend(self) -> None:
        """Let others through again."""
        self._refuses = False

    def cut_after(self, count: int | None) -> None:
        """End the connection over which the byte comes to the server that is so many away, before that byte."""
        self._cut_after = count

    def close(self) -> None:
        """End, with all connections."""
        self.stall(False)
        self.hold(False)
        self.cut()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    def _run(self, ready: threading.Event) -> None:
        asyncio.set_event_loop(self._loop)
        self._flowing, self._flowing_back = asyncio.Event(), asyncio.Event()
        self._flowing.set()
        self._flowing_back.set()
        server = self._loop.run_until_complete(asyncio.start_server(self._serve, "127.0.0.1", 0))
        self.port = server.sockets[0].getsockname()[1]
        ready.set()
        self._loop.run_forever()
        server.close()
        while tasks := asyncio.all_tasks(self._loop):
            self._loop.run_until_complete(asyncio.wait(tasks))

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        carried = Carried(self)
        carried.writers.append(writer)
        if self._refuses:
            carried.close()
            return
        self.connections.append(carried)
        try:
            from_server, to_server = await asyncio.open_connection("127.0.0.1", self.target_port)
        except OSError:
            carried.close()
            return
        carried.writers.append(to_server)
        passed = carried.passed if self._is_postgres else bytes
        await asyncio.gather(
            self._pump(carried, reader, to_server, passed, self._flowing),
            self._pump(carried, from_server, writer, self._from_server, self._flowing_back),
        )

    async def _pump(
        self,
        carried: Carried,
        source: asyncio.StreamReader,
        sink: asyncio.StreamWriter,
        passed: Callable[[bytes], bytes],
        flowing: asyncio.Event,
    ) -> None:
        with contextlib.suppress(OSError):
            while data := await source.read(1 << 18):
                if self.delay_s:
                    await asyncio.sleep(self.delay_s)
                await flowing.wait()
                if flowing is self._flowing and self._cut_after is not None:
                    whole, self._cut_after = self._cut_after, self._cut_after - len(data)
                    if self._cut_after < 0:
                        self._cut_after = None
                        sink.write(data[:whole])
                        break
                sink.write(passed(data))
                await sink.drain()
        carried.close()
