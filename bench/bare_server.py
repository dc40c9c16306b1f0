"""The ceiling of the heartbeat benchmark: a uvloop server that answers without looking.

It splits frames by their length, copies the correlation id and answers what a broker answers to a good
Heartbeat v4, whatever was asked. What a broker adds to this (decode, dispatch, the member's session,
encode) is what the benchmark measures. Prints `host:port` once it listens and runs until it is ended.
"""

from __future__ import annotations

import asyncio
from typing import cast

import uvloop

LENGTH = b"\x00\x00\x00\x0c"
REST = b"\x00" + b"\x00\x00\x00\x00" + b"\x00\x00" + b"\x00"
"""Header tags, throttle_time_ms, error_code, tags: all empty."""


class BareProtocol(asyncio.Protocol):
    """Answers each frame in order, one write for all that a read brought."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._write = cast(asyncio.WriteTransport, transport).write
        self._held = b""

    def data_received(self, data: bytes) -> None:
        if self._held:
            data = self._held + data
        at = 0
        end = len(data)
        answers = b""
        while end - at >= 12:
            following = at + 4 + int.from_bytes(data[at : at + 4], "big")
            if following > end:
                break
            answers += LENGTH + data[at + 8 : at + 12] + REST
            at = following
        self._held = data[at:]
        if answers:
            self._write(answers)


async def main() -> None:
    """Listen on a free loopback port until ended."""
    server = await asyncio.get_running_loop().create_server(BareProtocol, "127.0.0.1", 0, backlog=1024)
    host, port = server.sockets[0].getsockname()
    print(f"{host}:{port}", flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(main())
