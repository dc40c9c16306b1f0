#!/usr/bin/env python3
"""Measure how fast a large log opens, and how much memory it takes.

The log is made, not produced: batches of one megabyte whose records are zeros, so that the file system stores little
more than their headers. Everything else is as the broker writes it: CRCs, indexes, the checkpoint. After the start the
first and the last record are read with a stock client.

A second log is produced and its broker killed, to see how long the next start takes to recover it.
"""

from __future__ import annotations

import json
import os
import shutil
import struct
import subprocess
import sys
import tempfile
import time
import uuid
from dataclasses import dataclass
from pathlib import Path

import click
from confluent_kafka import Consumer, TopicPartition
from report import describe, rewrite_section
from servers import HERE

from ottla.broker.storage.local.files import Files
from ottla.broker.storage.local.layout import Layout
from ottla.broker.storage.local.segment import SegmentIndex, write_index
from ottla.protocol.crc import crc32c
from ottla.protocol.records import HEADER_SIZE
from ottla.protocol.stored.checkpoint import LogState, decode_checkpoint, encode_checkpoint
from ottla.protocol.stored.names import METADATA_NAME, encode_metadata, segment_name
from ottla.protocol.varints import encode_varint

TOPIC = "big"
SEGMENT_BYTES = 1 << 30
BATCH_BYTES = 1 << 20
AGE_MS = 3 * 24 * 60 * 60 * 1000
"""Producers are forgotten after a day, so nothing of the log need be read for their sake."""
START_SECONDS_WANTED, MEMORY_BYTES_WANTED, RECOVERY_SECONDS_WANTED = 3.0, 200_000_000, 2.0


@dataclass(frozen=True, slots=True)
class Template:
    """A batch without its base offset: what is not zero of it, and its size."""

    head: bytes
    size: int


def template(timestamp_ms: int) -> Template:
    """One record of zeros in a batch of BATCH_BYTES."""
    overhead = HEADER_SIZE + 16
    value = BATCH_BYTES - overhead
    # Attributes, timestamp delta, offset delta, no key, the value's length; after the value, no headers.
    prefix = b"\0\0\0\1" + encode_varint(value)
    record = encode_varint(len(prefix) + value + 1) + prefix
    after_crc = struct.pack(">hiqqqhii", 0, 0, timestamp_ms, timestamp_ms, -1, -1, -1, 1)
    body = len(after_crc) + len(record) + value + 1
    crc = crc32c(after_crc + record + bytes(value + 1))
    length = 4 + 1 + 4 + body
    return Template(struct.pack(">iibI", length, 0, 2, crc) + after_crc + record, 8 + 4 + length)


def make(directory: Path, gigabytes: int) -> int:
    """Put the segments of the topic into a directory that a broker has closed, and note them in its checkpoint.

    Returns how many records there are.
    """
    layout = Layout(str(directory))
    state = json.loads(Path(layout.catalog).read_text())["state"]
    topic_id = uuid.UUID(state["topics"][TOPIC]["topic_id"])
    log_directory = Path(layout.log_directory(f"{TOPIC}-0"))
    log_directory.mkdir(exist_ok=True)
    (log_directory / METADATA_NAME).write_bytes(encode_metadata(topic_id))
    written_ms = int(time.time() * 1000) - AGE_MS
    batch = template(written_ms)
    offset = 0
    for _ in range(gigabytes):
        index = SegmentIndex(offset)
        path = log_directory / segment_name(offset, ".log")
        handle = os.open(path, os.O_RDWR | os.O_CREAT)
        position = 0
        while position + batch.size <= SEGMENT_BYTES:
            os.pwrite(handle, struct.pack(">q", offset) + batch.head, position)
            index.add(offset, position, batch.size, written_ms, 4096)
            position += batch.size
            offset += 1
        os.ftruncate(handle, position)
        os.close(handle)
        write_index(Files(), str(log_directory), index)
    checkpoint = decode_checkpoint(Path(layout.checkpoint).read_bytes(), layout.checkpoint)
    checkpoint.logs.append(
        LogState(
            log_id=checkpoint.next_log_id,
            name=f"{TOPIC}-0",
            topic_id=topic_id.hex,
            next_offset=offset,
            epochs=[(0, 0)],
            segment=index.base_offset,
            length=position,
            first_timestamp_ms=written_ms,
            max_timestamp_ms=written_ms,
            offset_of_max=index.offset_of_max,
            index_entries=len(index.offsets),
            time_entries=len(index.times),
        )
    )
    checkpoint.next_log_id += 1
    Path(layout.checkpoint).write_bytes(encode_checkpoint(checkpoint))
    return offset


class Broker:
    """A broker process; ``start_seconds`` is from its command to its address."""

    def __init__(self, directory: Path, *options: str) -> None:
        command = [sys.executable, "-m", "ottla.cli", "serve", "--listen", "127.0.0.1:0"]
        began = time.perf_counter()
        self.process = subprocess.Popen(
            [*command, "--data-dir", str(directory), *options],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout is not None and self.process.stderr is not None
        self.address = self.process.stdout.readline().strip()
        self.start_seconds = time.perf_counter() - began
        if not self.address:
            raise click.ClickException(f"the broker did not start: {self.process.stderr.read()[-500:]}")

    @property
    def memory_bytes(self) -> int:
        """Resident memory."""
        lines = Path(f"/proc/{self.process.pid}/status").read_text().splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmRSS"))

    def end(self, *, kill: bool = False) -> None:
        """Stop in order, or kill."""
        if kill:
            self.process.kill()
        else:
            self.process.terminate()
        self.process.communicate()


def read_record(address: str, offset: int) -> int:
    """Read one record with a stock client; returns the size of its value."""
    consumer = Consumer({"bootstrap.servers": address, "group.id": "bench"})
    consumer.assign([TopicPartition(TOPIC, 0, offset)])
    message = consumer.poll(20)
    consumer.close()
    if message is None or message.error() is not None or message.offset() != offset:
        raise click.ClickException(f"the record at {offset} cannot be read")
    return len(message.value() or b"")


def open_big(directory: Path, gigabytes: int) -> list[tuple[str, str, str]]:
    """Make the log, start a broker on it, and read from it."""
    Broker(directory, "--create-topic", f"{TOPIC}:1").end()
    records = make(directory, gigabytes)
    broker = Broker(directory)
    time.sleep(0.5)
    opened = broker.memory_bytes
    for offset in (0, records // 2, records - 1):
        read_record(broker.address, offset)
    read = broker.memory_bytes
    broker.end(kill=True)
    again = Broker(directory)
    again.end()
    wanted = f"{START_SECONDS_WANTED:.0f} s"
    return [
        (f"open {gigabytes} GB ({records:,} batches)", f"{broker.start_seconds:.2f} s", wanted),
        ("memory after opening", f"{opened / 1e6:.0f} MB", f"{MEMORY_BYTES_WANTED / 1e6:.0f} MB"),
        ("memory after reading at three places", f"{read / 1e6:.0f} MB", f"{MEMORY_BYTES_WANTED / 1e6:.0f} MB"),
        ("open it again after a kill", f"{again.start_seconds:.2f} s", wanted),
    ]


def recover(directory: Path, megabytes: int) -> list[tuple[str, str, str]]:
    """Produce to a broker, kill it, and start another one."""
    broker = Broker(directory, "--create-topic", "bulk:4")
    size = 10_000
    command = [sys.executable, str(HERE / "log_client.py"), "produce", broker.address, "bulk", "4", str(size)]
    subprocess.run([*command, str(megabytes * 1_000_000 // size)], check=True, capture_output=True)
    broker.end(kill=True)
    again = Broker(directory)
    again.end()
    wanted = f"{RECOVERY_SECONDS_WANTED:.0f} s"
    return [(f"recover {megabytes:,} MB of segments after a kill", f"{again.start_seconds:.2f} s", wanted)]


@click.command(help=__doc__)
@click.option(
    "--gigabytes", default=20, show_default=True, type=click.IntRange(1, 1000), help="Of the log that is made."
)
@click.option("--megabytes", default=1000, show_default=True, type=click.IntRange(1), help="To produce and recover.")
@click.option("--write", type=click.Path(dir_okay=False, path_type=Path), help="(Re)write the file's section.")
def main(gigabytes: int, megabytes: int, write: Path | None) -> None:
    build = HERE / ".build"
    build.mkdir(exist_ok=True)
    directory = Path(tempfile.mkdtemp(prefix="big-", dir=build))
    try:
        rows = open_big(directory / "big", gigabytes)
        stored = sum(path.stat().st_blocks * 512 for path in directory.rglob("*.log"))
        rows += recover(directory / "killed", megabytes)
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    about = {
        **describe(False),
        "the log": f"{stored / 1e6:,.0f} MB on the disk; times are from the command to the address",
    }
    lines = ["## Large logs", "", *(f"- {name}: {value}" for name, value in about.items()), ""]
    lines += ["| what | measured | wanted at most |", "| --- | ---: | ---: |"]
    lines += ["| " + " | ".join(row) + " |" for row in rows]
    if write is not None:
        rewrite_section(write, "\n".join(lines) + "\n")
    for what, measured, wanted in rows:
        click.echo(f"{what:55}{measured:>10}   (wanted {wanted})")


if __name__ == "__main__":
    main()
