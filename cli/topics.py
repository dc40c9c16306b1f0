"""`ottla topics`: list, describe, create, delete, grow."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from ottla.cli.common import TOPICS, Answer, Silent, asks_broker, formatted, pair, topics_exist
from ottla.cli.connecting import is_secured
from ottla.cli.kafka_habits import CommandFirst
from ottla.cli.output import Refused, Row, count_of, print_each, print_fields, say

if TYPE_CHECKING:
    from ottla.clients import Admin, TopicInfo

OF_TOPIC = 1
"""The source of a setting that was set for a topic itself (KIP-226)."""

exclude_internal_option = click.option("--exclude-internal", is_flag=True, help="Leave out __consumer_offsets.")


class _Topics(CommandFirst):
    subject = "--topic"
    renamed = {"alter": ("grow", "`ottla topics grow` adds partitions, `ottla configs alter` changes settings")}  # noqa: RUF012


def _settings(context: click.Context, parameter: click.Parameter, given: tuple[str, ...]) -> dict[str, str]:
    return {key.strip(): value for key, value in (pair("--config", text) for text in given)}


@click.group("topics", cls=_Topics)
def command() -> None:
    """List, describe, create, delete and grow topics."""


async def ask_by_name(where: dict[str, Any], topics: Iterable[str]) -> None:
    """Ask for topics that no list has: a broker says by name alone that its rules deny them, and tells its audit.

    Raises:
        KafkaError: they do.
    """
    from ottla.clients import Admin
    from ottla.clients.errors import KafkaError, SomeFailed
    from ottla.protocol.errors import ErrorCode

    async with Admin(**where) as admin:
        try:
            await admin.describe_topics(topics)
        except KafkaError as error:
            for one in error.errors.values() if isinstance(error, SomeFailed) else [error]:
                if one.code == ErrorCode.TOPIC_AUTHORIZATION_FAILED:
                    raise one from None


@command.command("list")
@exclude_internal_option
@formatted
@asks_broker
async def list_(admin: Admin, exclude_internal: bool) -> Answer:
    """Show all topics."""
    topics = await admin.describe_topics(await admin.list_topics(include_internal=not exclude_internal))
    listed = [_brief(topics[name]) for name in sorted(topics)]
    headings, fields = ("topic", "partitions", "replicas", ""), ("topic", "partition_count", "replication_factor")
    none = "There are no topics yet, or none that you may see" if is_secured() else "There are no topics yet"
    nothing = f"{none}; `ottla topics create NAME` makes one."
    return Answer(listed, partial(print_fields, headings, listed, *fields, _internal, nothing=nothing))


@command.command(short_help="Show partitions, offsets and settings.")
@TOPICS.many("topics", "[TOPIC]…", required=False)
@exclude_internal_option
@formatted
@asks_broker
async def describe(admin: Admin, topics: list[str], exclude_internal: bool) -> Answer:
    """Show the partitions of TOPICs, or of all: leaders, replicas, offsets, and what is configured."""
    known = await admin.list_topics(include_internal=not exclude_internal or bool(topics))
    topics_exist(topics, known)
    chosen = topics or known
    infos = await admin.describe_topics(chosen)
    configs = await admin.describe_configs(topics=chosen) if chosen else {}
    silent = Silent()
    partitions = await _partitions(admin, silent, infos.values())
    found = [
        {
            **_brief(infos[name]),
            "configs": {key: one.value for key, one in sorted(configs[name].items()) if one.source == OF_TOPIC},
            "partitions": partitions.get(name, []),
        }
        for name in chosen
    ]
    return Answer(found, partial(print_each, found, _print_topic), silent.failure)


@command.command(short_help="Create topics.")
@TOPICS.many("topics", "TOPIC…", completed=False)
@click.option("--partitions", type=click.IntRange(min=1), help="Partitions of each. [the broker's num.partitions]")
@click.option("--replication-factor", type=click.IntRange(min=1), help="Replicas. [the broker's default]")
@click.option(
    "--config",
    "configs",
    metavar="KEY=VALUE",
    multiple=True,
    callback=_settings,
    help="A topic setting, e.g. retention.ms=-1.",
)
@click.option("--if-not-exists", is_flag=True, help="A topic that exists already is no failure.")
@asks_broker
async def create(
    admin: Admin,
    topics: list[str],
    partitions: int | None,
    replication_factor: int | None,
    configs: dict[str, str],
    if_not_exists: bool,
) -> None:
    """Create TOPICs."""
    from ottla.clients import NewTopic, SomeFailed
    from ottla.clients.errors import KafkaError

    made: dict[str, Any] = {}
    failed: dict[str, KafkaError] = {}
    for name in topics:
        topic = NewTopic(name, partitions or -1, replication_factor or -1, configs)
        try:
            made |= await admin.create_topics([topic])
        except KafkaError as error:
            failed[name] = error
    for name, created in made.items():
        count = created.num_partitions if created.num_partitions > 0 else partitions
        say(f"Created topic {name!r}" + (f" with {count_of(count, 'partition')}." if count else "."))
    for name in [name for name, error in failed.items() if error.code.name == "TOPIC_ALREADY_EXISTS"]:
        if if_not_exists:
            say(f"Topic {name!r} exists already.")
            del failed[name]
        else:
            text = f"topic {name!r} exists already; with --if-not-exists that is no failure"
            failed[name] = KafkaError(text, failed[name].code)
    if failed:
        raise SomeFailed(failed, made)


@command.command(short_help="Delete topics with their records.")
@TOPICS.many("topics", "TOPIC…")
@click.option("--if-exists", is_flag=True, help="A topic that does not exist is no failure.")
@asks_broker
async def delete(admin: Admin, topics: list[str], if_exists: bool) -> None:
    """Delete TOPICs with all their records, and what groups have committed for them."""
    known = await admin.list_topics()
    if not if_exists:
        topics_exist(topics, known)
    for name in topics:
        if name not in known:
            say(f"There is no topic {name!r}.")
    if present := [name for name in topics if name in known]:
        await admin.delete_topics(present)
    for name in present:
        say(f"Deleted topic {name!r}.")


@command.command(short_help="Add partitions.")
@TOPICS.many("topics", "TOPIC…")
@click.option("--partitions", type=click.IntRange(min=1), required=True, help="The new number of partitions.")
@asks_broker
async def grow(admin: Admin, topics: list[str], partitions: int) -> None:
    """Add partitions to TOPICs. The records stay where they are; keys may go elsewhere from now on."""
    topics_exist(topics, await admin.list_topics())
    before = await admin.describe_topics(topics)
    counts = {name: len(topic.partitions) for name, topic in before.items() if len(topic.partitions) >= partitions}
    if counts:
        raise Refused(*(_has_grown(name, count) for name, count in counts.items()))
    await admin.create_partitions(dict.fromkeys(topics, partitions))
    for name in topics:
        say(f"Topic {name!r} has grown from {len(before[name].partitions)} to {partitions} partitions.")


def _has_grown(name: str, count: int) -> str:
    number = count_of(count, "partition")
    return f"Topic {name!r} has {number} already. A topic can only grow: say --partitions {count + 1} or more."


# -- what is asked, and how it is shown


def _brief(topic: TopicInfo) -> dict[str, Any]:
    return {
        "topic": topic.topic,
        "topic_id": str(topic.topic_id),
        "partition_count": len(topic.partitions),
        "replication_factor": max((len(one.replicas) for one in topic.partitions.values()), default=0),
        "is_internal": topic.is_internal,
    }


async def _partitions(admin: Admin, silent: Silent, topics: Iterable[TopicInfo]) -> dict[str, list[dict[str, Any]]]:
    """The partitions of topics, with their offsets."""
    from ottla.clients import TopicPartition

    found = {(topic.topic, number): one for topic in topics for number, one in sorted(topic.partitions.items())}
    places = [TopicPartition(*place) for place in found]
    starts, ends = await asyncio.gather(
        *(silent.spare(admin.list_offsets(dict.fromkeys(places, when))) for when in ("earliest", "latest"))
    )
    rows: dict[str, list[dict[str, Any]]] = {}
    for place, partition in zip(places, found.values(), strict=True):
        row = {
            "partition": place.partition,
            "leader": partition.leader_id,
            "leader_epoch": partition.leader_epoch,
            "replicas": list(partition.replicas),
            "in_sync_replicas": list(partition.in_sync_replicas),
            "log_start_offset": starts[place].offset if place in starts else None,
            "log_end_offset": ends[place].offset if place in ends else None,
        }
        rows.setdefault(place.topic, []).append(row)
    return rows


def _internal(topic: Row) -> str:
    return "internal" if topic["is_internal"] else ""


def _print_topic(topic: dict[str, Any]) -> None:
    say(f"Topic {topic['topic']}", bold=True, nl=False)
    say(f": {count_of(topic['partition_count'], 'partition')}, id {topic['topic_id']}")
    if topic["configs"]:
        say("  " + "  ".join(f"{key}={value}" for key, value in topic["configs"].items()))
    print_fields(
        ("partition", "leader", "epoch", "replicas", "in sync", "log start", "log end", "records"),
        topic["partitions"],
        *("partition", "leader", "leader_epoch"),
        lambda row: ",".join(map(str, row["replicas"])),
        lambda row: ",".join(map(str, row["in_sync_replicas"])),
        *("log_start_offset", "log_end_offset"),
        lambda row: None if None in (first := row["log_start_offset"], end := row["log_end_offset"]) else end - first,
    )
