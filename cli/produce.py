"""`ottla produce`: lines of files, or of standard input, become records."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

from ottla.cli.common import bootstrap_option, chosen_partitions, near, pair, run
from ottla.cli.completion import complete_topics
from ottla.cli.connecting import client_options
from ottla.cli.escapes import unescape
from ottla.cli.output import Refused, count_of, duration, note
from ottla.cli.silence import silence_told
from ottla.cli.topics import ask_by_name

if TYPE_CHECKING:
    from ottla.clients import Producer, RecordMetadata

CHUNK_BYTES = 1 << 16


@dataclass(frozen=True)
class Shape:
    """Makes records of lines."""

    topic: str
    partition: int | None
    key: bytes | None
    key_separator: bytes | None
    empty_is_null: bool
    headers: tuple[tuple[str, bytes], ...]

    def record(self, line: bytes) -> tuple[bytes | None, bytes | None]:
        """Key and value of a line.

        Raises:
            Refused: a key separator is wanted, and the line has none.
        """
        key, value = self.key, line
        if self.key_separator is not None:
            key, found, value = line.partition(self.key_separator)
            if not found:
                raise Refused(
                    f"A line has no key separator {self.key_separator.decode(errors='replace')!r}: {_excerpt(line)}",
                    "Give every line a key, or leave out --key-separator.",
                )
        if self.empty_is_null:
            return key or None, value or None
        return key, value


@dataclass
class Outcome:
    """The lines so far: read, sent and delivered."""

    sent: int = 0
    delivered: int = 0
    bytes_read: int = 0
    failure: BaseException | None = None
    tell: Callable[[Outcome], None] = field(default=lambda outcome: None)

    def done(self, future: asyncio.Future[RecordMetadata]) -> None:
        if future.cancelled():
            return
        if error := future.exception():
            self.failure = self.failure or error
        else:
            self.delivered += 1


def _topic_or_file(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The first word is a topic, unless that is said by option; all others are files."""
    if context.params.get("topic") or context.params.get("words"):
        return [CompletionItem(incomplete, type="file")]
    return [CompletionItem(name) for name in complete_topics(context, parameter, incomplete)]


@click.command("produce")
@click.argument("words", metavar="TOPIC [FILE]…", nargs=-1, shell_complete=_topic_or_file)
@click.option(
    "--topic",
    "-t",
    "topic",
    metavar="TOPIC",
    shell_complete=complete_topics,
    help="The topic, if not the first argument.",
)
@click.option("--partition", "-p", type=click.IntRange(min=0), help="Send everything to this partition.")
@click.option("--key", "-k", help="Give every record this key.")
@click.option("--key-separator", "-K", metavar="SEP", help=r"Separates key and value in a line: : or \t.")
@click.option("--delimiter", "-D", metavar="DELIM", default=r"\n", show_default=True, help="Ends a record.")
@click.option("--null", "-Z", "empty_is_null", is_flag=True, help="Send empty values and keys as null.")
@click.option("--header", "-H", "headers", metavar="NAME=VALUE", multiple=True, help="A header for every record.")
@click.option(
    "--compression-codec",
    "-z",
    "codec",
    type=click.Choice(["none", "gzip", "snappy", "lz4", "zstd"]),
    default="none",
    show_default=True,
    help="The compression of batches.",
)
@click.option(
    "--acks",
    "--request-required-acks",
    type=click.Choice(["0", "1", "-1", "all"]),
    default="all",
    show_default=True,
    help="Who must acknowledge: nobody (0), the leader (1), all in-sync replicas (-1, all).",
)
@click.option("--quiet", "-q", is_flag=True, help="No progress and no summary.")
@bootstrap_option
def command(
    words: tuple[str, ...],
    topic: str | None,
    key: str | None,
    key_separator: str | None,
    delimiter: str,
    headers: tuple[str, ...],
    codec: str,
    acks: str,
    quiet: bool,
    bootstrap: str,
    **shaped: Any,
) -> None:
    """Send every line of the FILEs, or of standard input, to TOPIC as a record.

    Records with the same key go to the same partition. Records without a key go to one partition until a batch is full,
    then to another, so a short input ends up in one. To spread it, give keys.

    \b
      ottla produce orders < orders.txt
      ottla produce orders --key-separator : --compression-codec zstd a.txt b.txt
    """
    if topic is None:
        if not words:
            raise click.UsageError("Name a topic: as the first argument, or with --topic.")
        topic, *files = words
    else:
        files = list(words)
    if key is not None and key_separator is not None:
        raise click.UsageError("--key gives every record the same key, --key-separator one of its own: choose one.")
    shape = Shape(
        topic=topic,
        key=None if key is None else key.encode(),
        key_separator=_separator("--key-separator", key_separator),
        headers=tuple(
            (name, value.encode()) for name, value in (pair("--header", text, "NAME=VALUE") for text in headers)
        ),
        **shaped,
    )
    paths = [Path(name) for name in files]
    for path in paths:
        if not path.is_file():
            raise click.UsageError(f"{path}: no such file.")
    end = _separator("--delimiter", delimiter) or b"\n"
    options: dict[str, object] = {
        "client_id": f"ottla-produce-{os.getpid()}",
        "compression_type": codec,
        "acks": acks if acks == "all" else int(acks),
        "linger_ms": 5,
        "max_batch_size": 1 << 17,
    }
    outcome = Outcome()
    where = client_options(bootstrap)
    with _progress(outcome, paths, quiet):
        seconds = run(_produce(where, options, shape, paths, end, outcome), bootstrap)
    if outcome.failure is not None:
        lost = outcome.sent - outcome.delivered
        raise Refused(f"{lost} of {outcome.sent} records were not delivered: {outcome.failure}.")
    if not quiet:
        note(f"{count_of(outcome.sent, 'record', ',')} sent to {topic!r} in {duration(seconds)}.")


async def _produce(
    where: dict[str, Any], options: dict[str, object], shape: Shape, paths: list[Path], end: bytes, outcome: Outcome
) -> float:
    from ottla.clients import Producer

    loop = asyncio.get_running_loop()
    producer = Producer(**where, **options)
    await _tell_new(where, shape.topic)
    async with silence_told(producer, where["bootstrap_servers"]), producer:
        began = loop.time()
        if shape.partition is not None:
            chosen_partitions(shape.topic, [shape.partition], await producer.partitions_for(shape.topic))
        if not paths:
            await _send_lines(producer, shape, lines(chunks(sys.stdin.fileno()), end, outcome), outcome)
        for path in paths:
            with path.open("rb") as file:
                await _send_lines(producer, shape, lines(chunks(file.fileno()), end, outcome), outcome)
        await producer.flush()
        return loop.time() - began


async def _tell_new(where: dict[str, Any], topic: str) -> None:
    """Say that a topic will be made, as a slip of the finger would be. Raises KafkaError: it may not be seen."""
    from ottla.clients import Admin

    async with Admin(**where) as admin:
        known = await admin.list_topics()
    if topic not in known:
        await ask_by_name(where, [topic])
        meant = near(topic, known)
        note(f"There is no topic {topic!r} yet: the broker makes it." + (f" Did you mean {meant!r}?" if meant else ""))


async def _send_lines(producer: Producer, shape: Shape, source: AsyncIterator[bytes], outcome: Outcome) -> None:
    async for line in source:
        if outcome.failure is not None:
            return
        key, value = shape.record(line)
        future = await producer.send(
            shape.topic, value, key=key, partition=shape.partition, headers=list(shape.headers) or None
        )
        future.add_done_callback(outcome.done)
        outcome.sent += 1
        if outcome.sent % 500 == 0:
            outcome.tell(outcome)


async def lines(source: AsyncIterator[bytes], end: bytes, outcome: Outcome) -> AsyncIterator[bytes]:
    """The pieces of a stream between the delimiters; a last one without a delimiter counts if it is not empty."""
    rest = b""
    async for chunk in source:
        outcome.bytes_read += len(chunk)
        *whole, rest = (rest + chunk).split(end)
        for line in whole:
            yield line
    if rest:
        yield rest


async def chunks(fd: int) -> AsyncIterator[bytes]:
    """The bytes of a file or a terminal, as soon as they can be read: a line typed at a terminal is sent at once."""
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    while True:
        try:
            loop.add_reader(fd, ready.set)
        except (PermissionError, NotImplementedError):
            pass  # a regular file, which is always ready
        else:
            try:
                await ready.wait()
            finally:
                # Not left in place: while the producer is busy it would spin.
                loop.remove_reader(fd)
                ready.clear()
        data = os.read(fd, CHUNK_BYTES)
        if not data:
            return
        yield data


def _separator(option: str, text: str | None) -> bytes | None:
    if text is None:
        return None
    try:
        found = unescape(text)
    except ValueError as error:
        raise click.UsageError(f"{option}: {error}") from None
    if not found:
        raise click.UsageError(f"{option} must not be empty.")
    return found


def _excerpt(line: bytes) -> str:
    text = line.decode(errors="replace")
    return repr(text if len(text) <= 60 else f"{text[:60]}…")


@contextmanager
def _progress(outcome: Outcome, paths: list[Path], quiet: bool) -> Iterator[None]:
    """A bar on a terminal, by bytes where the size is known."""
    if sys.stdin.isatty() and not paths:
        if not quiet:
            note("Type records, one a line; Ctrl-D ends.")
        yield
        return
    if quiet or not sys.stderr.isatty():
        yield
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TransferSpeedColumn

    size = sum(path.stat().st_size for path in paths) if paths else os.fstat(sys.stdin.fileno()).st_size
    columns = (TextColumn("{task.description}"), BarColumn(), TransferSpeedColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("0 records", total=size or None)
        outcome.tell = lambda now: progress.update(task, completed=now.bytes_read, description=f"{now.sent:,} records")
        yield
