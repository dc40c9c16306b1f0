"""`ottla groups reset-offsets` and `delete-offsets`."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import click

from ottla.cli.common import (
    Answer,
    asks_broker,
    bootstrap_option,
    chosen_partitions,
    formatted,
    topic_partitions,
    topics_exist,
    with_admin,
)
from ottla.cli.completion import complete_topics
from ottla.cli.group_words import GROUPS, has_members, no_group
from ottla.cli.output import Cell, Refused, Row, note, print_fields, say, warn
from ottla.cli.resets import CannotReset, Move, Place, Target, To, move, parse_datetime_ms
from ottla.clients.durations import parse_duration_ms
from ottla.observe.printable import printable

if TYPE_CHECKING:
    from ottla.clients import Admin, TopicPartition


F = TypeVar("F", bound=Callable[..., Any])


def scope_option(**options: Any) -> Callable[[F], F]:
    """``--topic``, of topics or some of their partitions."""
    return click.option(
        "--topic",
        "-t",
        "topics",
        metavar="TOPIC[:PARTITIONS]",
        multiple=True,
        shell_complete=complete_topics,
        callback=lambda context, parameter, given: [topic_partitions(text) for text in given],
        **options,
    )


@click.command("delete-offsets", short_help="Forget committed offsets.")
@GROUPS.one("group")
@scope_option(required=True, help="Of these.")
@asks_broker
async def delete_offsets(admin: Admin, group: str, topics: list[tuple[str, list[int] | None]]) -> None:
    """Forget what GROUP has committed for topics to which none of its members subscribes."""
    committed = await admin.list_group_offsets(group)
    places = [
        tp
        for topic, listed in topics
        for tp in sorted(committed)
        if tp.topic == topic and (listed is None or tp.partition in listed)
    ]
    if not committed and (await admin.describe_groups([group]))[group].state == "Dead":
        raise await no_group(admin, group)
    if not places:
        raise Refused(
            f"Group {group!r} has committed nothing there.", f"`ottla groups describe {group}` shows what it has."
        )
    await admin.delete_group_offsets(group, places)
    for tp in places:
        say(f"Deleted the offset of {tp.topic} {tp.partition}, which was {committed[tp].offset}.")


@click.command("reset-offsets", short_help="Move a group to other offsets.")
@GROUPS.one("group")
@scope_option(help="Only these topics, or some of their partitions: orders:0,1.")
@click.option("--all-topics", is_flag=True, help="All topics for which the group has committed offsets.")
@click.option("--to-earliest", is_flag=True, help="To the first record.")
@click.option("--to-latest", is_flag=True, help="Behind the last record.")
@click.option(
    "--to-current", is_flag=True, help="To where it is now; a partition without an offset goes to the log's end."
)
@click.option("--to-offset", metavar="N", type=click.IntRange(min=0), help="To this offset.")
@click.option("--shift-by", metavar="N", type=int, help="So many records forward, or back if negative.")
@click.option("--by-duration", metavar="DURATION", help="To the first record of the last 1h30m, or PT1H30M.")
@click.option("--to-datetime", metavar="TIME", help="To the first record from 2026-05-04T13:30:00.000 on (UTC).")
@click.option("--dry-run", is_flag=True, help="Only show what would be done: the default.")
@click.option("--execute", is_flag=True, help="Do it.")
@click.option("--create", is_flag=True, help="Make the group if it does not exist.")
@formatted
@bootstrap_option
def reset_offsets(
    group: str,
    topics: list[tuple[str, list[int] | None]],
    all_topics: bool,
    dry_run: bool,
    execute: bool,
    create: bool,
    bootstrap: str,
    **targets: Any,
) -> Answer:
    """Move GROUP, which must have no members, to other offsets.

    \b
      ottla groups reset-offsets billing --topic orders --to-earliest
      ottla groups reset-offsets billing --all-topics --by-duration 1h --execute
    """
    if all_topics == bool(topics):
        raise click.UsageError("Say which topics: --topic TOPIC[:PARTITIONS], or --all-topics.")
    if dry_run and execute:
        raise click.UsageError("--dry-run and --execute exclude each other.")
    target = _target(targets)

    async def ask(admin: Admin) -> list[dict[str, Any]]:
        described = (await admin.describe_groups([group]))[group]
        if described.members:
            raise has_members(described, "reset")
        if described.state == "Dead" and not create:
            await _may_create(admin, group, execute)
        places = await _places(admin, group, dict(topics), target)
        moves = {tp: _move(tp, target, place) for tp, place in places.items()}
        if execute:
            await admin.alter_group_offsets(group, {tp: one.offset for tp, one in moves.items()})
        return [
            {**tp._asdict(), "committed_offset": places[tp].committed, "new_offset": one.offset, "remark": one.remark}
            for tp, one in moves.items()
        ]

    rows = with_admin(bootstrap, ask)
    done = f"Group {group!r} was reset." if execute else "Nothing was changed: add --execute to do it."
    return Answer({"group": group, "executed": execute, "offsets": rows}, partial(_print_reset, rows, done))


def _print_reset(rows: list[dict[str, Any]], done: str) -> None:
    for row in rows:
        if row["remark"]:
            warn(f"{row['topic']} {row['partition']}: {row['remark']}")
    headings = ("topic", "partition", "committed", "new offset", "change")
    print_fields(headings, rows, "topic", "partition", "committed_offset", "new_offset", _change)
    note(done)


def may_ask() -> bool:
    """Whether somebody is there who can answer."""
    return sys.stdin.isatty() and sys.stderr.isatty()


async def _may_create(admin: Admin, name: str, execute: bool) -> None:
    """Ask whoever sits at the terminal whether a group is to be made. Raises `Refused`."""
    refused = await no_group(admin, name)
    if execute and may_ask():
        for line in refused.lines:
            note(line)
        if click.confirm(f"Make the group {printable(name)} with these offsets?", err=True):
            return
        raise Refused("Nothing was changed.")
    raise Refused(*refused.lines, "To make the group, add --create.")


def _target(given: dict[str, Any]) -> Target:
    """The one of the target options that was given."""
    chosen = [key for key, value in given.items() if value is not None and value is not False]
    if len(chosen) != 1:
        options = ", ".join("--" + key.replace("_", "-") for key in given)
        raise click.UsageError(f"Say where to, with exactly one of {options}.")
    (key,) = chosen
    value = given[key]
    try:
        match key:
            case "to_offset":
                return Target(To.OFFSET, value)
            case "shift_by":
                return Target(To.SHIFT, value)
            case "by_duration":
                return Target(To.TIME, time.time_ns() // 1_000_000 - parse_duration_ms(value))
            case "to_datetime":
                return Target(To.TIME, parse_datetime_ms(value))
            case _:
                return Target(To(key.removeprefix("to_")))
    except ValueError as error:
        raise click.UsageError(f"--{key.replace('_', '-')}: {error}.") from None


async def _places(
    admin: Admin, name: str, scope: dict[str, list[int] | None], target: Target
) -> dict[TopicPartition, Place]:
    """The logs and offsets of the partitions in scope; of all topics with offsets if the scope is empty.

    Raises:
        Refused: there are none, or one does not exist.
    """
    from ottla.clients import TopicPartition

    committed = await admin.list_group_offsets(name)
    existing = set(await admin.list_topics())
    if not scope:
        scope = dict.fromkeys(sorted({tp.topic for tp in committed} & existing))
        if not scope:
            raise Refused(f"Group {name!r} has committed nothing.", "Name the topics with --topic.")
    topics_exist(scope, existing)
    infos = await admin.describe_topics(scope)
    places = []
    for topic, listed in scope.items():
        chosen = chosen_partitions(topic, listed, infos[topic].partitions)
        places += [TopicPartition(topic, partition) for partition in chosen]
    starts = await admin.list_offsets(dict.fromkeys(places, "earliest"))
    ends = await admin.list_offsets(dict.fromkeys(places, "latest"))
    at_time = await admin.list_offsets(dict.fromkeys(places, target.value)) if target.to is To.TIME else {}
    return {
        tp: Place(
            starts[tp].offset,
            ends[tp].offset,
            committed[tp].offset if tp in committed else None,
            at_time[tp].offset if tp in at_time and at_time[tp].offset >= 0 else None,
        )
        for tp in places
    }


def _move(tp: TopicPartition, target: Target, place: Place) -> Move:
    try:
        return move(target, place)
    except CannotReset as error:
        raise Refused(f"{tp.topic} {tp.partition}: {error}.") from None


def _change(row: Row) -> Cell:
    if row["committed_offset"] is None:
        return None
    distance = row["new_offset"] - row["committed_offset"]
    return f"{distance:+,}" if distance else 0
