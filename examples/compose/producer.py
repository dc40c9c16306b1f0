"""Sends the lines of Python's standard library to a topic, again and again, until it is stopped.

OTTLA_BOOTSTRAP_SERVERS  where the broker is [localhost:9092]
TOPIC                    where to send [lines]
LINES_PER_SECOND         how fast [500]
"""

from __future__ import annotations

import asyncio
import itertools
import os
import signal
import sysconfig
from collections.abc import Iterator
from pathlib import Path

from ottla.clients import Producer

TOPIC = os.environ.get("TOPIC", "lines")
RATE = max(1, int(os.environ.get("LINES_PER_SECOND", "500")))
SLICE_S = 0.1


def lines() -> Iterator[tuple[bytes, bytes]]:
    """(key, line) pairs, where the key is the module: so the lines of one module stay in order."""
    library = Path(sysconfig.get_path("stdlib"))
    for path in itertools.cycle(sorted(library.glob("*.py"))):
        for line in path.read_bytes().splitlines():
            yield path.stem.encode(), line


async def main() -> None:
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopping.set)
    source = lines()
    sent = told = 0
    async with Producer(compression_type="lz4", linger_ms=50, **servers()) as producer:
        print(f"sending {RATE} lines a second to {TOPIC!r}", flush=True)
        while not stopping.is_set():
            due = loop.time() + SLICE_S
            for key, line in itertools.islice(source, max(1, round(RATE * SLICE_S))):
                await producer.send(TOPIC, line, key=key)
                sent += 1
            if sent - told >= RATE * 10:
                await producer.flush()  # what is told here was acknowledged
                told = sent
                print(f"{sent} lines sent", flush=True)
            await asyncio.sleep(max(0, due - loop.time()))
    print(f"stopped after {sent} lines", flush=True)


def servers() -> dict[str, str]:
    return {"bootstrap_servers": os.environ.get("OTTLA_BOOTSTRAP_SERVERS", "localhost:9092")}


if __name__ == "__main__":
    asyncio.run(main())
