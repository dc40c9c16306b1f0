"""`ottla transactions`: who has one open, and ending those that hang, with the option names of Kafka's tool."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from ottla.cli.common import (
    TOPICS,
    Answer,
    Silent,
    Subjects,
    asks_broker,
    bootstrap_option,
    duration_option,
    formatted,
    missing,
    one_name,
    topics_exist,
    with_admin,
)
from ottla.cli.group_words import assignment_in_words
from ottla.cli.output import Refused, Row, note, print_fields, say, when

if TYPE_CHECKING:
    from ottla.clients import Admin, ProducerDescription, TopicPartition, TransactionDescription

STATES = (
    "Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort", "PrepareEpochFence", "Dead",
)  # fmt: skip

IDS = Subjects("transactional id", "--transactional-id", metavar="ID")
partition_option = click.option("--partition", type=click.IntRange(min=0), required=True, help="Its partition.")


@click.group("transactions")
def command() -> None:
    """List and describe transactions; find and abort those that hang."""


@command.command("list")
@duration_option("--duration-filter", help="Only those open for longer: 10m.")
@click.option("--transactional-id-pattern", "pattern", metavar="REGEX", help="Only ids that match.")
@click.option("--state", "states", type=click.Choice(STATES), metavar="STATE", multiple=True, help="E.g. Ongoing.")
@formatted
@asks_broker
async def list_(admin: Admin, duration_filter: float | None, pattern: str | None, states: tuple[str, ...]) -> Answer:
    """Show all transactional ids."""
    longer_than_ms = None if duration_filter is None else round(duration_filter * 1000)
    silent = Silent()
    listed = await silent.spare(admin.list_transactions(states=states, longer_than_ms=longer_than_ms, pattern=pattern))
    found = [
        {
            "transactional_id": one.transactional_id,
            "coordinator": one.coordinator_id,
            "producer_id": one.producer_id,
            "state": one.state,
        }
        for one in (listed.values() if isinstance(listed, dict) else listed)
    ]
    nothing = "There are no transactional ids" + (" that fit." if duration_filter or pattern or states else ".")
    nothing = "" if silent.addresses else nothing
    headings = ("transactional id", "coordinator", "producer", "state")
    fields = ("transactional_id", "coordinator", "producer_id", "state")
    return Answer(found, partial(print_fields, headings, found, *fields, nothing=nothing), silent.failure)


@command.command(short_help="Show transactional ids in detail.")
@IDS.many("ids", "[ID]…")
@formatted
@asks_broker
async def describe(admin: Admin, ids: list[str]) -> Answer:
    """Show the producer, the state and the partitions of transactional IDs."""
    from ottla.clients.errors import KafkaError, SomeFailed

    try:
        described = await admin.describe_transactions(ids)
    except KafkaError as error:
        failed = error.errors if isinstance(error, SomeFailed) else {ids[0]: error}
        for name, one in failed.items():
            if one.code.name == "TRANSACTIONAL_ID_NOT_FOUND":
                known = [one.transactional_id for one in await admin.list_transactions()]
                raise missing("transactional id", name, known, command="transactions") from None
        raise
    found = [_described(described[name]) for name in ids]
    headings = ("transactional id", "coordinator", "producer", "epoch", "state", "timeout ms", "begun", "partitions")
    fields = ("transactional_id", "coordinator", "producer_id", "producer_epoch", "state", "timeout_ms")
    begun, partitions = _moment("start_time"), lambda row: assignment_in_words(row["partitions"])
    return Answer(found, partial(print_fields, headings, found, *fields, begun, partitions))


def _moment(field: str) -> Callable[[Row], str | None]:
    return lambda row: None if row[field] is None else when(row[field])


def _described(one: TransactionDescription) -> dict[str, Any]:
    return {
        "transactional_id": one.transactional_id,
        "coordinator": one.coordinator.node_id,
        "producer_id": one.producer_id,
        "producer_epoch": one.producer_epoch,
        "state": one.state,
        "timeout_ms": one.timeout_ms,
        "start_time": one.start_time_ms,
        "partitions": [tp._asdict() for tp in one.partitions],
    }


@command.command("describe-producers", short_help="Show who writes to a partition.")
@TOPICS.one("topic")
@partition_option
@formatted
@asks_broker
async def describe_producers(admin: Admin, topic: str, partition: int) -> Answer:
    """Show the producers that a partition of TOPIC remembers, and the transactions that are open there."""
    found = [_producer(one) for one in await _producers(admin, topic, partition)]
    headings = ("producer", "epoch", "coordinator epoch", "last sequence", "last written", "transaction from")
    fields = ("producer_id", "producer_epoch", "coordinator_epoch", "last_sequence", _moment("last_timestamp"))
    nothing = "No idempotent producer has written there lately."
    return Answer(found, partial(print_fields, headings, found, *fields, "transaction_start_offset", nothing=nothing))


async def _producers(admin: Admin, topic: str, partition: int) -> list[ProducerDescription]:
    from ottla.clients import TopicPartition

    topics_exist([topic], await admin.list_topics())
    place = TopicPartition(topic, partition)
    return (await admin.describe_producers([place]))[place]


def _producer(one: ProducerDescription) -> dict[str, Any]:
    return {
        "producer_id": one.producer_id,
        "producer_epoch": one.producer_epoch,
        "coordinator_epoch": one.coordinator_epoch,
        "last_sequence": one.last_sequence,
        "last_timestamp": one.last_timestamp_ms,
        "transaction_start_offset": one.transaction_start_offset,
    }


# -- transactions that hang


@command.command("find-hanging", short_help="Find transactions that nobody will end.")
@TOPICS.one("topic", required=False)
@click.option("--partition", type=click.IntRange(min=0), help="Only this partition of the topic.")
@duration_option(
    "--max-transaction-timeout",
    "oldest",
    default="15m",
    help="The broker's transaction.max.timeout.ms: younger ones may still end by themselves.",
)
@formatted
@bootstrap_option
def find_hanging(topic: str | None, partition: int | None, oldest: float, bootstrap: str) -> Answer:
    """Find transactions that keep a partition from read_committed readers and that nobody will end.

    All topics are searched unless one is named.
    """
    if partition is not None:
        one_name(topic, (), "topic")

    async def ask(admin: Admin) -> list[dict[str, Any]]:
        from ottla.clients import TopicPartition

        if topic is not None:
            topics_exist([topic], await admin.list_topics())
        infos = await admin.describe_topics(None if topic is None else [topic])
        places = [
            TopicPartition(name, number)
            for name, info in infos.items()
            for number in info.partitions
            if partition is None or number == partition
        ]
        if not places:
            raise Refused(f"{topic} has no partition {partition}.", f"`ottla topics describe {topic}` shows them.")
        return await hanging(admin, places, now_ms=time.time() * 1000, oldest_ms=round(oldest * 1000))

    found = with_admin(bootstrap, ask)
    return Answer(found, partial(_print_hanging, found))


def _print_hanging(found: list[dict[str, Any]]) -> None:
    headings = ("topic", "partition", "producer", "epoch", "coordinator epoch", "from offset", "minutes")
    fields = ("topic", "partition", "producer_id", "producer_epoch", "coordinator_epoch", "transaction_start_offset")
    print_fields(headings, found, *fields, lambda row: row["open_ms"] // 60_000, nothing="No transaction hangs.")
    for first in found[:1]:
        note(
            f"End one with: ottla transactions abort {first['topic']} --partition {first['partition']} "
            f"--start-offset {first['transaction_start_offset']}"
        )


async def hanging(
    admin: Admin, places: Sequence[TopicPartition], *, now_ms: float, oldest_ms: int
) -> list[dict[str, Any]]:
    """Open transactions, quiet for longer than ``oldest_ms``, that no coordinator has a part in with that partition."""
    candidates: list[tuple[TopicPartition, dict[str, Any]]] = []
    for place, producers in (await admin.describe_producers(places)).items():
        for one in producers:
            quiet_ms = int(now_ms - (one.last_timestamp_ms or 0))
            if one.transaction_start_offset is not None and quiet_ms >= oldest_ms:
                candidates.append((place, place._asdict() | _producer(one) | {"open_ms": quiet_ms}))
    if not candidates:
        return []
    listed = await admin.list_transactions(producer_ids={row["producer_id"] for _, row in candidates})
    described = await admin.describe_transactions([one.transactional_id for one in listed])
    known = {(one.producer_id, tp) for one in described.values() for tp in one.partitions}
    return [row for place, row in candidates if (row["producer_id"], place) not in known]


@command.command(short_help="Abort a transaction that hangs in a partition.")
@TOPICS.one("topic")
@partition_option
@click.option("--start-offset", type=click.IntRange(min=0), help="Its first offset, as describe-producers shows it.")
@click.option("--producer-id", type=click.IntRange(min=0), help="Or its producer…")
@click.option("--producer-epoch", type=click.IntRange(min=0), help="…with its epoch…")
@click.option("--coordinator-epoch", type=click.IntRange(min=0), help="…and the epoch of its coordinator.")
@bootstrap_option
def abort(
    topic: str,
    partition: int,
    start_offset: int | None,
    producer_id: int | None,
    producer_epoch: int | None,
    coordinator_epoch: int | None,
    bootstrap: str,
) -> None:
    """Write an abort marker to one partition of TOPIC, for a transaction that its coordinator has forgotten.

    One that the coordinator knows ends by its timeout, or when a producer with its transactional id starts.
    """
    if (start_offset is None) == (producer_id is None) or (producer_id is None) != (producer_epoch is None):
        raise click.UsageError("Name the transaction: --start-offset, or --producer-id with --producer-epoch.")

    async def ask(admin: Admin) -> int:
        from ottla.clients import TopicPartition

        producer, epoch, coordinator = producer_id, producer_epoch, coordinator_epoch
        if start_offset is not None:
            open_ = await _producers(admin, topic, partition)
            found = next((one for one in open_ if one.transaction_start_offset == start_offset), None)
            if found is None:
                raise Refused(
                    f"No transaction is open from offset {start_offset} in {topic}-{partition}.",
                    f"`ottla transactions describe-producers {topic} --partition {partition}` shows them.",
                )
            producer, epoch, coordinator = found.producer_id, found.producer_epoch, found.coordinator_epoch
        assert producer is not None and epoch is not None
        await admin.abort_transaction(
            TopicPartition(topic, partition),
            producer_id=producer,
            producer_epoch=epoch,
            coordinator_epoch=coordinator or 0,
        )
        return producer

    producer = with_admin(bootstrap, ask)
    say(f"Aborted the transaction of producer {producer} in {topic}-{partition}.")
