"""`ottla consume`: records, printed as they come."""

from __future__ import annotations

import asyncio
import os
import select
import signal
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, BinaryIO

import click

from ottla.cli.common import (
    TOPICS,
    bootstrap_option,
    chosen_partitions,
    duration_option,
    run,
    topic_partitions,
    topics_exist,
)
from ottla.cli.completion import complete_groups
from ottla.cli.connecting import client_options
from ottla.cli.escapes import compile_format
from ottla.cli.group_words import TYPES
from ottla.cli.log_rows import bytes_json
from ottla.cli.output import Refused, count_of, json_text, note, on_terminal
from ottla.cli.resets import Target, To, offsets_of, parse_start
from ottla.cli.silence import silence_told
from ottla.cli.topics import ask_by_name

if TYPE_CHECKING:
    from ottla.clients import Consumer, ConsumerRecord, TopicPartition

POLL_MS = 200
BATCH = 500


@dataclass(frozen=True)
class Wish:
    """The records to read, and when to stop.

    Attributes:
        topics: with the partitions wanted, None for all.
        start: where to begin; None for where the group stands.
        timeout_s: stop when no record has come for this long; None waits for ever.
    """

    topics: dict[str, list[int] | None]
    group: str | None
    group_protocol: str
    start: Target | None
    max_messages: int | None
    timeout_s: float | None
    exit_at_end: bool
    quiet: bool


@click.command("consume")
@TOPICS.many("topics", "[TOPIC[:PARTITIONS]]…")
@click.option("--partition", "-p", "partitions", metavar="N[,N…]", help="Only these partitions of the topic.")
@click.option(
    "--group",
    "-G",
    metavar="GROUP",
    shell_complete=complete_groups,
    help="Read as a member of this group, from its committed offsets.",
)
@click.option(
    "--group-protocol",
    type=click.Choice(TYPES, case_sensitive=False),
    default="classic",
    show_default=True,
    help="With consumer the broker divides the partitions (KIP-848).",
)
@click.option(
    "--from-beginning",
    is_flag=True,
    help="Begin with the first record; a group does so only where it has no committed offset.",
)
@click.option(
    "--offset",
    "-o",
    metavar="OFFSET",
    help="Begin at: earliest, latest, an offset, -N (the last N), or @TIME (ISO 8601 or Unix ms).",
)
@click.option("--max-messages", "-c", metavar="N", type=click.IntRange(min=1), help="Stop after N records.")
@click.option("--exit", "-e", "exit_at_end", is_flag=True, help="Stop at the end of the log.")
@duration_option("--timeout", "timeout_s", help="Stop when no record has come for this long: 10s.")
@click.option(
    "--format",
    "-f",
    "output_format",
    metavar="FORMAT|json",
    default=r"%s\n",
    show_default=True,
    help="kcat's %t %p %o %k %s %T %h %K %S, or one JSON object a line.",
)
@click.option("--quiet", "-q", is_flag=True, help="Only records: no notes on rebalances and the end.")
@bootstrap_option
def command(
    topics: list[str],
    partitions: str | None,
    group: str | None,
    group_protocol: str,
    from_beginning: bool,
    offset: str | None,
    output_format: str,
    bootstrap: str,
    **until: Any,
) -> None:
    """Print the records of topics, until Ctrl-C or as the options say.

    Without --group it reads all partitions, from now on unless told otherwise, and commits nothing. With --group it
    shares the partitions with the other members and commits what it has printed.

    On a terminal, control characters of records are shown as escapes; into a file or a pipe goes what the records hold.

    \b
      ottla consume orders --from-beginning
      ottla consume orders --group billing --max-messages 100
      ottla consume orders:0,3 --offset -10 --exit --format '%p/%o %k: %s\\n'
    """
    wanted = dict(topic_partitions(text) for text in topics)
    if partitions is not None:
        if len(wanted) != 1:
            raise click.UsageError("--partition needs exactly one topic; or write TOPIC:PARTITIONS for each.")
        (topic,) = wanted
        wanted[topic] = topic_partitions(f"{topic}:{partitions}")[1]
    if group is None and group_protocol != "classic":
        raise click.UsageError("--group-protocol is how a group works: name it with --group.")
    start = _start(group, wanted, from_beginning, offset)
    wish = Wish(topics=wanted, group=group, group_protocol=group_protocol, start=start, **until)
    try:
        printed, reason = run(_consume(bootstrap, wish, _renderer(output_format)), bootstrap)
    except BrokenPipeError:
        # What was not read by the other side is not committed. Nothing more is to be flushed at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return
    if not wish.quiet:
        note(f"{count_of(printed, 'record', ',')}{reason and f'; {reason}'}.")
    if wish.max_messages is not None and printed < wish.max_messages and reason == IDLE:
        raise Refused(f"Only {printed} of {wish.max_messages} records came in time.", "Allow more with --timeout.")


IDLE = "nothing more came"


def _start(
    group: str | None, wanted: dict[str, list[int] | None], from_beginning: bool, offset: str | None
) -> Target | None:
    if from_beginning and offset is not None:
        raise click.UsageError("--from-beginning and --offset say two things: choose one.")
    if group is None:
        return parse_start(offset or ("earliest" if from_beginning else "latest"))
    if offset is not None:
        raise click.UsageError(
            f"A group begins where it stands: to move it, use `ottla groups reset-offsets {group}` while it is empty."
        )
    if any(listed is not None for listed in wanted.values()):
        raise click.UsageError("A group shares out all partitions by itself: leave out --group, or the partitions.")
    return parse_start("earliest") if from_beginning else None


def _renderer(output_format: str) -> Callable[[ConsumerRecord[Any, Any]], bytes]:
    if output_format == "json":
        return as_json
    try:
        return compile_format(output_format, is_safe=on_terminal())
    except ValueError as error:
        raise click.UsageError(f"--format: {error}") from None


def as_json(record: ConsumerRecord[Any, Any]) -> bytes:
    """A record as a line of JSON. What is no UTF-8 stands in base64, under ``key_base64`` and ``value_base64``."""
    row: dict[str, Any] = {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp": record.timestamp,
    }
    row |= bytes_json("key", record.key) | bytes_json("value", record.value)
    row["headers"] = [{"name": name, **bytes_json("value", value)} for name, value in record.headers]
    return json_text(row).encode() + b"\n"


async def _consume(bootstrap: str, wish: Wish, render: Callable[[ConsumerRecord[Any, Any]], bytes]) -> tuple[int, str]:
    """Print until there is a reason to stop; returns the count of records, and the reason in words."""
    from ottla.clients import Consumer

    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stopping.set)
    consumer = Consumer(
        **client_options(bootstrap),
        group_id=wish.group,
        group_protocol=wish.group_protocol,
        client_id=f"ottla-consume-{os.getpid()}",
        allow_auto_create_topics=False,  # a typing error must not become a topic
        auto_offset_reset="earliest" if wish.start is not None and wish.group is not None else "latest",
        auto_commit_interval_ms=1_000,
        fetch_max_wait_ms=50 if wish.exit_at_end else 500,
    )
    async with silence_told(consumer, bootstrap), consumer:
        await _begin(consumer, wish, bootstrap)
        return await _print_all(consumer, wish, render, stopping)


async def _begin(consumer: Consumer, wish: Wish, bootstrap: str) -> None:
    """Subscribe, or assign and seek.

    Raises:
        Refused: there is no such topic, or partition.
        KafkaError: it may not be seen.
    """
    from ottla.clients import TopicPartition

    listed_topics = await consumer.topics()
    if unseen := [topic for topic in wish.topics if topic not in listed_topics]:
        await ask_by_name(client_options(bootstrap), unseen)
    topics_exist(wish.topics, listed_topics)
    if wish.group is not None:
        consumer.subscribe(list(wish.topics), listener=None if wish.quiet else _listener(consumer, wish.group_protocol))
        return
    places: list[TopicPartition] = []
    for topic, listed in wish.topics.items():
        known = await consumer.partitions_for_topic(topic)
        places += [TopicPartition(topic, partition) for partition in chosen_partitions(topic, listed, known)]
    assert wish.start is not None
    offsets = await offsets_of(consumer, wish.start, places)
    # Nothing is awaited between these two: no fetch from another place gets under way.
    consumer.assign(places)
    for place, offset in offsets.items():
        consumer.seek(place, offset)
    if wish.start.to is To.LATEST and not wish.quiet and not wish.exit_at_end:
        note("Waiting for new records; --from-beginning prints those that are there.")


def _listener(consumer: Consumer, group_protocol: str) -> Any:
    """Tells which partitions the group assigns and takes away."""
    from ottla.clients import ConsumerRebalanceListener

    counted = "epoch" if group_protocol == "consumer" else "generation"

    class Listener(ConsumerRebalanceListener):
        def on_partitions_revoked(self, revoked: Iterable[TopicPartition]) -> None:
            if gone := _listed(revoked):
                note(f"Given up: {gone}")

        def on_partitions_assigned(self, assigned: Iterable[TopicPartition]) -> None:
            kept = _listed(consumer.assignment())  # where members keep partitions, only those that come are told
            what = _listed(assigned) or (f"nothing more; still has {kept}" if kept else "nothing")
            note(f"Assigned in {counted} {consumer.generation_id}: {what}")

    return Listener()


def _listed(places: Iterable[TopicPartition]) -> str:
    by_topic: dict[str, list[int]] = {}
    for place in sorted(places):
        by_topic.setdefault(place.topic, []).append(place.partition)
    return "; ".join(f"{topic} {', '.join(map(str, listed))}" for topic, listed in by_topic.items())


async def _print_all(
    consumer: Consumer,
    wish: Wish,
    render: Callable[[ConsumerRecord[Any, Any]], bytes],
    stopping: asyncio.Event,
) -> tuple[int, str]:
    loop = asyncio.get_running_loop()
    out = sys.stdout.buffer
    hangup = _hangup(out)
    poll_ms = POLL_MS if not wish.exit_at_end else POLL_MS / 10
    printed, came, generation = 0, loop.time(), -1
    while not stopping.is_set():
        room = BATCH if wish.max_messages is None else min(BATCH, wish.max_messages - printed)
        found = await consumer.getmany(timeout_ms=poll_ms, max_records=room)
        records = [record for batch in found.values() for record in batch]
        if generation != consumer.generation_id:
            generation, came = consumer.generation_id, loop.time()  # a rebalance is not idleness
        if records:
            out.write(b"".join(render(record) for record in records))
            out.flush()
            printed, came = printed + len(records), loop.time()
            if printed == wish.max_messages:
                return printed, ""
        elif hangup():
            raise BrokenPipeError
        elif wish.group is not None and generation < 0:
            came = loop.time()
        elif wish.exit_at_end and await _at_end(consumer):
            return printed, "the end of the log"
        elif wish.timeout_s is not None and loop.time() - came >= wish.timeout_s:
            return printed, IDLE
    return printed, "stopped"


def _hangup(out: BinaryIO) -> Callable[[], bool]:
    """Tells whether the reader of our output has gone (``| head``): otherwise only the next record would show it."""
    try:
        poll = select.poll()
        poll.register(out.fileno(), 0)
    except (AttributeError, OSError):
        return lambda: False  # no poll() on this system, or not a file
    return lambda: any(events & select.POLLERR for _, events in poll.poll(0))


async def _at_end(consumer: Consumer) -> bool:
    """Whether everything that is assigned has been read to its end, as the last fetch saw it.

    Not asked of the broker: the answer would have to wait behind the fetch that is waiting for records there.
    """
    assigned: Sequence[TopicPartition] = sorted(consumer.assignment())
    ends = {tp: consumer.highwater(tp) for tp in assigned}
    if not ends or None in ends.values():
        return False
    return all([await consumer.position(tp) >= (ends[tp] or 0) for tp in assigned])
