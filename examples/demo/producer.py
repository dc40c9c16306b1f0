"""The producer, in a process of its own: ``python -m examples.demo.producer``. It uses the included client.

Standard input says how many lines may have been sent by now, a number a line, so that the demo can spread them over
what it does to the group. Every acknowledged line is reported with its place in the topic.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import threading
from functools import partial
from pathlib import Path

from examples.demo.lines import Line, collect
from examples.demo.reports import Position, Report, checksum
from examples.demo.security import asyncio_options, config_file
from ottla.clients import Producer, RecordMetadata


class Sending:
    """Lines on their way, and what became of them."""

    def __init__(self, report: Report) -> None:
        self.report = report
        self.allowed = 0
        self.changed = asyncio.Event()
        self.failed = 0
        self._acknowledged: list[Position] = []

    def allow(self, count: int) -> None:
        """So many lines may have been sent; -1 ends the sending."""
        self.allowed = count
        self.changed.set()
        self.flush()  # this is called several times a second: the demo's picture stays fresh

    async def may_send(self, number: int) -> bool:
        """Wait for the allowance of a line; False to stop."""
        while 0 <= self.allowed <= number:
            self.changed.clear()
            await self.changed.wait()
        return self.allowed >= 0

    def delivered(self, line: Line, future: asyncio.Future[RecordMetadata]) -> None:
        """The broker acknowledged a line, or it failed for good."""
        if error := future.exception():
            self.failed += 1
            self.report.event("failed", line=line.key.decode(errors="replace"), error=repr(error))
            return
        place = future.result()
        self._acknowledged.append(Position(place.partition, place.offset, checksum(*line)))

    def flush(self) -> None:
        """Report what was acknowledged since last time."""
        self.report.positions(self._acknowledged)
        self._acknowledged = []


async def send(bootstrap: str, topic: str, lines: list[Line], report: Report) -> int:
    """Send all lines; gives how many failed."""
    sending = Sending(report)
    loop = asyncio.get_running_loop()
    threading.Thread(target=_listen, args=(loop, sending), daemon=True).start()
    security = asyncio_options(config_file())
    async with Producer(bootstrap_servers=bootstrap, compression_type="lz4", linger_ms=20, **security) as producer:
        for number, line in enumerate(lines):
            if number >= sending.allowed and not await sending.may_send(number):
                break
            future = await producer.send(topic, line.value, key=line.key)
            future.add_done_callback(partial(sending.delivered, line))
        await producer.flush()
    sending.flush()
    report.event("sent", failed=sending.failed)
    return sending.failed


def _listen(loop: asyncio.AbstractEventLoop, sending: Sending) -> None:
    for text in sys.stdin:
        loop.call_soon_threadsafe(sending.allow, int(text))
    loop.call_soon_threadsafe(sending.allow, -1)  # the demo is gone


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bootstrap", required=True)
    parser.add_argument("--topic", required=True)
    parser.add_argument("--lines", type=int, required=True)
    parser.add_argument("--reports", type=Path, required=True)
    given = parser.parse_args()
    report = Report(given.reports, "producer")
    failed = asyncio.run(send(given.bootstrap, given.topic, collect(given.lines).lines, report))
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
