"""Sends the lines of Python's standard library to a topic, again and again, until it is stopped.

OTTLA_BOOTSTRAP_SERVERS  where the broker is [localhost:9092]
OTTLA_COMMAND_CONFIG     a file of client properties: TLS, and who this is [none]
TOPIC                    where to send [lines]
LINES_PER_SECOND         how fast [500]
"""

from __future__ import annotations

import asyncio
import itertools
import os
import signal
import sys
import sysconfig
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from ottla.clients import KafkaConnectionError, Producer, RecordMetadata
from ottla.clients.properties import security_options

TOPIC = os.environ.get("TOPIC", "lines")
RATE = max(1, int(os.environ.get("LINES_PER_SECOND", "500")))
SLICE_S = 0.1
REPORT_EVERY_S = 10


def lines() -> Iterator[tuple[bytes, bytes]]:
    """(key, line) pairs, where the key is the module: so the lines of one module stay in order."""
    library = Path(sysconfig.get_path("stdlib"))
    for path in itertools.cycle(sorted(library.glob("*.py"))):
        for line in path.read_bytes().splitlines():
            yield path.stem.encode(), line


class Tally:
    """Counts the lines that were acknowledged and those that were lost."""

    def __init__(self) -> None:
        self.acknowledged = self.lost = 0
        self.reason: object = None

    def note(self, sent: asyncio.Future[RecordMetadata]) -> None:
        if error := sent.exception():
            self.lost += 1
            self.reason = error
        else:
            self.acknowledged += 1

    def __str__(self) -> str:
        lost = f", {self.lost} lost: {self.reason}" if self.lost else ""
        return f"{self.acknowledged} lines acknowledged{lost}"


def security() -> dict[str, Any]:
    """How to connect, as the file of client properties says."""
    file = os.environ.get("OTTLA_COMMAND_CONFIG")
    lines = Path(file).read_text(encoding="utf-8").splitlines() if file else []
    return security_options({key: value for key, _, value in (line.partition("=") for line in lines)})


def on_signal(stop: Callable[[], object]) -> None:
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop)


async def main() -> None:
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    # It may start before the broker does: then it waits, with one line.
    producer = Producer(
        bootstrap_servers=os.environ.get("OTTLA_BOOTSTRAP_SERVERS", "localhost:9092"),
        bootstrap_timeout_ms=60_000,
        **security(),
        compression_type="lz4",
        linger_ms=50,
    )
    starting = asyncio.create_task(producer.start())
    on_signal(starting.cancel)
    await starting
    on_signal(stopping.set)
    print(f"sending {RATE} lines a second to {TOPIC!r}", flush=True)
    source, tally, told = lines(), Tally(), loop.time()
    while not stopping.is_set():
        due = loop.time() + SLICE_S
        for key, line in itertools.islice(source, max(1, round(RATE * SLICE_S))):
            (await producer.send(TOPIC, line, key=key)).add_done_callback(tally.note)
        if loop.time() - told >= REPORT_EVERY_S:
            told = loop.time()
            print(tally, flush=True)
        await asyncio.sleep(max(0, due - loop.time()))
    await producer.stop(timeout_ms=5_000)  # a container that does not end within ten seconds is killed
    print(f"stopped: {tally}", flush=True)


if __name__ == "__main__":
    try:
        asyncio.run(main())
    except asyncio.CancelledError:
        print("stopped before it reached the broker", flush=True)
    except KafkaConnectionError as error:
        sys.exit(str(error))
