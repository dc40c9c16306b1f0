"""`ottla topics`: list, describe, create, delete, grow."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import click

from ottla.cli.common import bootstrap_option, format_option, names, topic_option, topics_exist, with_admin
from ottla.cli.completion import complete_topics
from ottla.cli.kafka_habits import CommandFirst
from ottla.cli.output import Cell, Refused, note, print_json, print_table, say

if TYPE_CHECKING:
    from ottla.clients import Admin, KafkaError, OffsetAndTimestamp, TopicInfo, TopicPartition

exclude_internal_option = click.option("--exclude-internal", is_flag=True, help="Leave out __consumer_offsets.")


class _Topics(CommandFirst):
    subject = "--topic"
    renamed = {"alter": ("grow", "`ottla topics grow` adds partitions, `ottla configs alter` changes settings")}  # noqa: RUF012


@click.group("topics", cls=_Topics)
def command() -> None:
    """List, describe, create, delete and grow topics."""


@command.command("list")
@exclude_internal_option
@format_option
@bootstrap_option
def list_(exclude_internal: bool, output_format: str, bootstrap: str) -> None:
    """Show all topics."""

    async def ask(admin: Admin) -> dict[str, TopicInfo]:
        return await admin.describe_topics(await admin.list_topics(include_internal=not exclude_internal))

    topics = with_admin(bootstrap, ask)
    if output_format == "json":
        print_json([_brief(topics[name]) for name in sorted(topics)])
    elif not topics:
        note("There are no topics yet; `ottla topics create NAME` makes one.")
    else:
        rows = [
            (name, len(topic.partitions), _replication(topic), "internal" if topic.is_internal else "")
            for name, topic in sorted(topics.items())
        ]
        print_table(("topic", "partitions", "replicas", ""), rows)


@command.command(short_help="Show partitions, offsets and settings.")
@click.argument("topics", metavar="[TOPIC]…", nargs=-1, shell_complete=complete_topics)
@topic_option
@exclude_internal_option
@format_option
@bootstrap_option
def describe(
    topics: tuple[str, ...], more: tuple[str, ...], exclude_internal: bool, output_format: str, bootstrap: str
) -> None:
    """Show the partitions of TOPICs, or of all: leaders, replicas, offsets, and what is configured."""
    wanted = list(dict.fromkeys([*topics, *more]))

    async def ask(admin: Admin) -> list[dict[str, Any]]:
        known = await admin.list_topics(include_internal=not exclude_internal or bool(wanted))
        topics_exist(wanted, known)
        chosen = wanted or known
        infos = await admin.describe_topics(chosen)
        configs = await admin.describe_configs(topics=chosen) if chosen else {}
        offsets = await _offsets(admin, infos.values())
        return [
            {
                **_brief(infos[name]),
                "configs": {key: one.value for key, one in sorted(configs[name].items()) if _is_override(one.source)},
                "partitions": _partitions(infos[name], *offsets),
            }
            for name in chosen
        ]

    found = with_admin(bootstrap, ask)
    if output_format == "json":
        print_json(found)
        return
    for number, topic in enumerate(found):
        if number:
            say()
        _print_topic(topic)


@command.command(short_help="Create topics.")
@click.argument("topics", metavar="TOPIC…", nargs=-1)
@topic_option
@click.option("--partitions", type=click.IntRange(min=1), help="How many. [the broker's num.partitions]")
@click.option("--replication-factor", type=click.IntRange(min=1), help="Replicas. [the broker's default]")
@click.option("--config", "configs", metavar="KEY=VALUE", multiple=True, help="A topic setting, e.g. retention.ms=-1.")
@click.option("--if-not-exists", is_flag=True, help="A topic that exists already is no failure.")
@bootstrap_option
def create(
    topics: tuple[str, ...],
    more: tuple[str, ...],
    partitions: int | None,
    replication_factor: int | None,
    configs: tuple[str, ...],
    if_not_exists: bool,
    bootstrap: str,
) -> None:
    """Create TOPICs."""
    wanted = names(topics, more, "topic")
    settings = dict(_config(text) for text in configs)

    async def ask(admin: Admin) -> None:
        from ottla.clients import NewTopic, SomeFailed
        from ottla.clients.errors import KafkaError

        made: dict[str, Any] = {}
        failed: dict[str, KafkaError] = {}
        for name in wanted:
            topic = NewTopic(name, partitions or -1, replication_factor or -1, settings)
            try:
                made |= await admin.create_topics([topic])
            except KafkaError as error:
                failed[name] = error
        for name, created in made.items():
            count = created.num_partitions if created.num_partitions > 0 else partitions
            say(f"Created topic {name!r}" + (f" with {count} partition{'s' * (count != 1)}." if count else "."))
        for name in _with_code(failed, "TOPIC_ALREADY_EXISTS") if if_not_exists else ():
            say(f"Topic {name!r} exists already.")
            del failed[name]
        for name in _with_code(failed, "TOPIC_ALREADY_EXISTS"):
            text = f"topic {name!r} exists already; with --if-not-exists that is no failure"
            failed[name] = KafkaError(text, failed[name].code)
        if failed:
            raise SomeFailed(failed, made)

    with_admin(bootstrap, ask)


@command.command(short_help="Delete topics with their records.")
@click.argument("topics", metavar="TOPIC…", nargs=-1, shell_complete=complete_topics)
@topic_option
@click.option("--if-exists", is_flag=True, help="A topic that does not exist is no failure.")
@bootstrap_option
def delete(topics: tuple[str, ...], more: tuple[str, ...], if_exists: bool, bootstrap: str) -> None:
    """Delete TOPICs with all their records, and what groups have committed for them."""
    wanted = names(topics, more, "topic")

    async def ask(admin: Admin) -> None:
        known = await admin.list_topics()
        missing = [name for name in wanted if name not in known]
        if not if_exists:
            topics_exist(wanted, known)
        for name in missing:
            say(f"There is no topic {name!r}.")
        if present := [name for name in wanted if name in known]:
            await admin.delete_topics(present)
        for name in present:
            say(f"Deleted topic {name!r}.")

    with_admin(bootstrap, ask)


@command.command(short_help="Add partitions.")
@click.argument("topics", metavar="TOPIC…", nargs=-1, shell_complete=complete_topics)
@topic_option
@click.option("--partitions", type=click.IntRange(min=1), required=True, help="How many there are to be.")
@bootstrap_option
def grow(topics: tuple[str, ...], more: tuple[str, ...], partitions: int, bootstrap: str) -> None:
    """Add partitions to TOPICs. The records stay where they are; keys may go elsewhere from now on."""
    wanted = names(topics, more, "topic")

    async def ask(admin: Admin) -> None:
        topics_exist(wanted, await admin.list_topics())
        before = await admin.describe_topics(wanted)
        counts = {name: len(topic.partitions) for name, topic in before.items() if len(topic.partitions) >= partitions}
        if counts:
            raise Refused(*(_has_grown(name, count) for name, count in counts.items()))
        await admin.create_partitions(dict.fromkeys(wanted, partitions))
        for name in wanted:
            say(f"Topic {name!r} has grown from {len(before[name].partitions)} to {partitions} partitions.")

    with_admin(bootstrap, ask)


def _has_grown(name: str, count: int) -> str:
    number = f"{count} partition{'s' * (count != 1)}"
    return f"Topic {name!r} has {number} already. A topic can only grow: say --partitions {count + 1} or more."


# -- what is asked, and how it is shown


def _with_code(failed: dict[str, KafkaError], code: str) -> list[str]:
    return [name for name, error in failed.items() if error.code.name == code]


def _config(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not key or not equals:
        raise click.UsageError(f"--config {text!r}: write KEY=VALUE.")
    return key.strip(), value


def _is_override(source: int) -> bool:
    return source == 1  # DYNAMIC_TOPIC_CONFIG (KIP-226): set for this topic


def _replication(topic: TopicInfo) -> int:
    return max((len(partition.replicas) for partition in topic.partitions.values()), default=0)


def _brief(topic: TopicInfo) -> dict[str, Any]:
    return {
        "topic": topic.topic,
        "topic_id": str(topic.topic_id),
        "partition_count": len(topic.partitions),
        "replication_factor": _replication(topic),
        "is_internal": topic.is_internal,
    }


Offsets = dict["TopicPartition", "OffsetAndTimestamp"]


async def _offsets(admin: Admin, infos: Iterable[TopicInfo]) -> tuple[Offsets, Offsets]:
    from ottla.clients import TopicPartition

    places = [TopicPartition(topic.topic, partition) for topic in infos for partition in topic.partitions]
    if not places:
        return {}, {}
    starts = await admin.list_offsets(dict.fromkeys(places, "earliest"))
    return starts, await admin.list_offsets(dict.fromkeys(places, "latest"))


def _partitions(topic: TopicInfo, starts: Offsets, ends: Offsets) -> list[dict[str, Any]]:
    from ottla.clients import TopicPartition

    rows = []
    for number, partition in sorted(topic.partitions.items()):
        place = TopicPartition(topic.topic, number)
        rows.append(
            {
                "partition": number,
                "leader": partition.leader_id,
                "leader_epoch": partition.leader_epoch,
                "replicas": list(partition.replicas),
                "in_sync_replicas": list(partition.in_sync_replicas),
                "log_start_offset": starts[place].offset,
                "log_end_offset": ends[place].offset,
            }
        )
    return rows


def _print_topic(topic: dict[str, Any]) -> None:
    count = topic["partition_count"]
    say(f"Topic {topic['topic']}", bold=True, nl=False)
    say(f": {count} partition{'s' * (count != 1)}, id {topic['topic_id']}")
    if topic["configs"]:
        say("  " + "  ".join(f"{key}={value}" for key, value in topic["configs"].items()))
    rows: list[tuple[Cell, ...]] = [
        (
            row["partition"],
            row["leader"],
            row["leader_epoch"],
            ",".join(map(str, row["replicas"])),
            ",".join(map(str, row["in_sync_replicas"])),
            row["log_start_offset"],
            row["log_end_offset"],
            row["log_end_offset"] - row["log_start_offset"],
        )
        for row in topic["partitions"]
    ]
    print_table(("partition", "leader", "epoch", "replicas", "in sync", "log start", "log end", "records"), rows)
