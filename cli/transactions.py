"""`ottla transactions`: who has one open, and ending those that hang, with the option names of Kafka's tool."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from ottla.cli.common import (
    Duration,
    bootstrap_option,
    format_option,
    names,
    near,
    one_name,
    topic_option,
    topics_exist,
    with_admin,
)
from ottla.cli.completion import complete_topics
from ottla.cli.group_words import partitions_in_words
from ottla.cli.log_rows import when
from ottla.cli.output import Cell, Refused, note, print_json, print_table, say

if TYPE_CHECKING:
    from ottla.clients import Admin, ProducerDescription, TopicPartition, TransactionDescription, TransactionListing

STATES = (
    "Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort", "PrepareEpochFence", "Dead",
)  # fmt: skip

topic_argument = click.argument("name", metavar="[TOPIC]", required=False, shell_complete=complete_topics)
partition_option = click.option("--partition", type=click.IntRange(min=0), required=True, help="Its partition.")


@click.group("transactions")
def command() -> None:
    """List and describe transactions; find and abort those that hang."""


@command.command("list")
@click.option("--duration-filter", type=Duration(), metavar="DURATION", help="Only those open for longer: 10m.")
@click.option("--transactional-id-pattern", "pattern", metavar="REGEX", help="Only ids that match.")
@click.option("--state", "states", type=click.Choice(STATES), metavar="STATE", multiple=True, help="E.g. Ongoing.")
@format_option
@bootstrap_option
def list_(
    duration_filter: float | None, pattern: str | None, states: tuple[str, ...], output_format: str, bootstrap: str
) -> None:
    """Show all transactional ids."""

    async def ask(admin: Admin) -> list[TransactionListing]:
        longer_than_ms = None if duration_filter is None else round(duration_filter * 1000)
        return await admin.list_transactions(states=states, longer_than_ms=longer_than_ms, pattern=pattern)

    found = with_admin(bootstrap, ask)
    if output_format == "json":
        print_json(
            [
                {
                    "transactional_id": one.transactional_id,
                    "coordinator": one.coordinator_id,
                    "producer_id": one.producer_id,
                    "state": one.state,
                }
                for one in found
            ]
        )
    elif not found:
        note("There are no transactional ids" + (" that fit." if duration_filter or pattern or states else "."))
    else:
        rows = [(one.transactional_id, one.coordinator_id, one.producer_id, one.state) for one in found]
        print_table(("transactional id", "coordinator", "producer", "state"), rows)


@command.command(short_help="Show transactional ids in detail.")
@click.argument("ids", metavar="[ID]…", nargs=-1)
@click.option("--transactional-id", "more", metavar="ID", multiple=True, help="The same as an argument.")
@format_option
@bootstrap_option
def describe(ids: tuple[str, ...], more: tuple[str, ...], output_format: str, bootstrap: str) -> None:
    """Show the producer, the state and the partitions of transactional IDs."""
    wanted = names(ids, more, "transactional-id", "transactional id")

    async def ask(admin: Admin) -> dict[str, TransactionDescription]:
        from ottla.clients.errors import KafkaError, SomeFailed

        try:
            return await admin.describe_transactions(wanted)
        except KafkaError as error:
            failed = error.errors if isinstance(error, SomeFailed) else {wanted[0]: error}
            for name, one in failed.items():
                if one.code.name == "TRANSACTIONAL_ID_NOT_FOUND":
                    meant = near(name, [one.transactional_id for one in await admin.list_transactions()])
                    advice = (
                        f"Did you mean {meant!r}?" if meant else "`ottla transactions list` shows those that exist."
                    )
                    raise Refused(f"There is no transactional id {name!r}.", advice) from None
            raise

    found = with_admin(bootstrap, ask)
    if output_format == "json":
        print_json([_described(found[name]) for name in wanted])
        return
    rows: list[tuple[Cell, ...]] = [
        (
            one.transactional_id,
            one.coordinator.node_id,
            one.producer_id,
            one.producer_epoch,
            one.state,
            one.timeout_ms,
            None if one.start_time_ms is None else when(one.start_time_ms),
            partitions_in_words([(tp.topic, tp.partition) for tp in one.partitions]) or None,
        )
        for one in (found[name] for name in wanted)
    ]
    headings = ("transactional id", "coordinator", "producer", "epoch", "state", "timeout ms", "begun", "partitions")
    print_table(headings, rows)


def _described(one: TransactionDescription) -> dict[str, Any]:
    return {
        "transactional_id": one.transactional_id,
        "coordinator": one.coordinator.node_id,
        "producer_id": one.producer_id,
        "producer_epoch": one.producer_epoch,
        "state": one.state,
        "timeout_ms": one.timeout_ms,
        "start_time": one.start_time_ms,
        "partitions": [{"topic": tp.topic, "partition": tp.partition} for tp in one.partitions],
    }


@command.command("describe-producers", short_help="Show who writes to a partition.")
@topic_argument
@topic_option
@partition_option
@format_option
@bootstrap_option
def describe_producers(
    name: str | None, more: tuple[str, ...], partition: int, output_format: str, bootstrap: str
) -> None:
    """Show the producers that a partition of TOPIC remembers, and the transactions that are open there."""
    topic = one_name(name, more, "topic")
    found = with_admin(bootstrap, lambda admin: _producers(admin, topic, partition))
    if output_format == "json":
        print_json([_producer(one) for one in found])
    elif not found:
        note("No idempotent producer has written there lately.")
    else:
        _print_producers(found)


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


def _print_producers(found: Sequence[ProducerDescription]) -> None:
    rows: list[tuple[Cell, ...]] = [
        (
            one.producer_id,
            one.producer_epoch,
            one.coordinator_epoch,
            one.last_sequence,
            None if one.last_timestamp_ms is None else when(one.last_timestamp_ms),
            one.transaction_start_offset,
        )
        for one in found
    ]
    headings = ("producer", "epoch", "coordinator epoch", "last sequence", "last written", "transaction from")
    print_table(headings, rows)


# -- transactions that hang


class Hanging(NamedTuple):
    """A transaction that is open in a partition, and that its coordinator knows nothing of."""

    place: TopicPartition
    producer: ProducerDescription
    open_ms: int

    def as_json(self) -> dict[str, Any]:
        row = {"topic": self.place.topic, "partition": self.place.partition, **_producer(self.producer)}
        return row | {"open_ms": self.open_ms}


@command.command("find-hanging", short_help="Find transactions that nobody will end.")
@topic_argument
@topic_option
@click.option("--partition", type=click.IntRange(min=0), help="Only this partition of the topic.")
@click.option(
    "--max-transaction-timeout",
    "oldest",
    type=Duration(),
    default="15m",
    show_default=True,
    metavar="DURATION",
    help="The broker's transaction.max.timeout.ms: younger ones may still end by themselves.",
)
@format_option
@bootstrap_option
def find_hanging(
    name: str | None,
    more: tuple[str, ...],
    partition: int | None,
    oldest: float,
    output_format: str,
    bootstrap: str,
) -> None:
    """Find transactions that keep a partition from read_committed readers and that nobody will end.

    All topics are searched unless one is named.
    """
    topic = one_name(name, more, "topic") if name or more or partition is not None else None

    async def ask(admin: Admin) -> list[Hanging]:
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
    if output_format == "json":
        print_json([one.as_json() for one in found])
    elif not found:
        note("No transaction hangs.")
    else:
        rows: list[tuple[Cell, ...]] = [
            (
                one.place.topic,
                one.place.partition,
                one.producer.producer_id,
                one.producer.producer_epoch,
                one.producer.coordinator_epoch,
                one.producer.transaction_start_offset,
                one.open_ms // 60_000,
            )
            for one in found
        ]
        print_table(("topic", "partition", "producer", "epoch", "coordinator epoch", "from offset", "minutes"), rows)
        first = found[0]
        note(
            f"End one with: ottla transactions abort {first.place.topic} --partition {first.place.partition} "
            f"--start-offset {first.producer.transaction_start_offset}"
        )


async def hanging(admin: Admin, places: Sequence[TopicPartition], *, now_ms: float, oldest_ms: int) -> list[Hanging]:
    """Open transactions, quiet for longer than ``oldest_ms``, that no coordinator has a part in with that partition."""
    candidates = []
    for place, producers in (await admin.describe_producers(places)).items():
        for one in producers:
            quiet_ms = int(now_ms - (one.last_timestamp_ms or 0))
            if one.transaction_start_offset is not None and quiet_ms >= oldest_ms:
                candidates.append(Hanging(place, one, quiet_ms))
    if not candidates:
        return []
    listed = await admin.list_transactions(producer_ids={one.producer.producer_id for one in candidates})
    described = await admin.describe_transactions([one.transactional_id for one in listed])
    known = {(one.producer_id, tp) for one in described.values() for tp in one.partitions}
    return [one for one in candidates if (one.producer.producer_id, one.place) not in known]


@command.command(short_help="Abort a transaction that hangs in a partition.")
@topic_argument
@topic_option
@partition_option
@click.option("--start-offset", type=click.IntRange(min=0), help="Where it begins, as describe-producers shows it.")
@click.option("--producer-id", type=click.IntRange(min=0), help="Or its producer…")
@click.option("--producer-epoch", type=click.IntRange(min=0), help="…with its epoch…")
@click.option("--coordinator-epoch", type=click.IntRange(min=0), help="…and the epoch of its coordinator.")
@bootstrap_option
def abort(
    name: str | None,
    more: tuple[str, ...],
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
    topic = one_name(name, more, "topic")
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
