"""`ottla groups`: list, describe, delete, and the offsets of groups."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from ottla.cli.common import bootstrap_option, format_option, names, with_admin, word
from ottla.cli.completion import complete_groups
from ottla.cli.group_offsets import delete_offsets, reset_offsets
from ottla.cli.group_wait import wait
from ottla.cli.group_watch import watch
from ottla.cli.group_words import group_option, has_members, host, no_group, partitions_in_words
from ottla.cli.kafka_habits import CommandFirst
from ottla.cli.output import Cell, note, print_json, print_table, say, state
from ottla.observe.printable import printable

if TYPE_CHECKING:
    from ottla.clients import Admin, GroupDescription, MemberDescription, TopicPartition

STATES = ("Stable", "PreparingRebalance", "CompletingRebalance", "Empty", "Dead")


class _Groups(CommandFirst):
    subject = "--group"


@click.group("groups", cls=_Groups)
def command() -> None:
    """List, describe, watch, delete consumer groups and reset their offsets."""


@command.command("list")
@click.option("--state", "states", multiple=True, type=click.Choice(STATES, case_sensitive=False), help="Only these.")
@format_option
@bootstrap_option
def list_(states: tuple[str, ...], output_format: str, bootstrap: str) -> None:
    """Show all groups."""

    async def ask(admin: Admin) -> list[GroupDescription]:
        listed = await admin.list_groups(states=states)
        described = await admin.describe_groups([one.group_id for one in listed])
        return [described[one.group_id] for one in listed]

    groups = with_admin(bootstrap, ask)
    if output_format == "json":
        print_json([_brief(group) for group in groups])
    elif not groups:
        note("There are no groups." if not states else f"No group is {' or '.join(states)}.")
    else:
        # The type is worth a column where there are others than consumers, such as Kafka Connect's workers.
        typed = any(_is_foreign(one.protocol_type) for one in groups)
        rows = [
            (
                one.group_id,
                state(one.state),
                *((one.protocol_type or None,) if typed else ()),
                len(one.members),
                one.protocol_name or None,
            )
            for one in groups
        ]
        print_table(("group", "state", *(("type",) if typed else ()), "members", "assignor"), rows)
        for one in [one.group_id for one in groups if not one.group_id.isprintable()][:1]:
            note(f"{printable(one)} is shown with escapes. To name it in bash or zsh, write {word(one)}")


@command.command(short_help="Show state, members, assignment and lag.")
@click.argument("groups", metavar="[GROUP]…", nargs=-1, shell_complete=complete_groups)
@group_option
@click.option("--all-groups", is_flag=True, help="All of them.")
@click.option("--state", "only_state", is_flag=True, help="Only the first line: state, assignor, coordinator.")
@click.option("--members", "only_members", is_flag=True, help="Only the members and their partitions.")
@click.option("--offsets", "only_offsets", is_flag=True, help="Only committed offsets, log ends and lag.")
@format_option
@bootstrap_option
def describe(
    groups: tuple[str, ...],
    more: tuple[str, ...],
    all_groups: bool,
    only_state: bool,
    only_members: bool,
    only_offsets: bool,
    output_format: str,
    bootstrap: str,
) -> None:
    """Show GROUPs: state, members with their partitions, and how far each partition is behind."""
    if all_groups and (groups or more):
        raise click.UsageError("--all-groups and names say two things: choose one.")
    wanted = [] if all_groups else names(groups, more, "group")

    async def ask(admin: Admin) -> list[dict[str, Any]]:
        chosen = wanted or [one.group_id for one in await admin.list_groups()]
        described = await admin.describe_groups(chosen)
        found = []
        for name in chosen:
            committed = await admin.list_group_offsets(name)
            if described[name].state == "Dead" and not committed:
                raise await no_group(admin, name)
            found.append({**_brief(described[name]), **await _details(admin, described[name], dict(committed))})
        return found

    found = with_admin(bootstrap, ask)
    if output_format == "json":
        print_json(found)
        return
    everything = not (only_state or only_members or only_offsets)
    for number, group in enumerate(found):
        if number:
            say("", "")
        _print_head(group)
        if everything or only_members:
            say()
            _print_members(group)
        if everything or only_offsets:
            say()
            _print_offsets(group)


@command.command(short_help="Delete groups with their offsets.")
@click.argument("groups", metavar="GROUP…", nargs=-1, shell_complete=complete_groups)
@group_option
@bootstrap_option
def delete(groups: tuple[str, ...], more: tuple[str, ...], bootstrap: str) -> None:
    """Delete GROUPs, which must have no members, with the offsets they have committed."""
    wanted = names(groups, more, "group")

    async def ask(admin: Admin) -> None:
        described = await admin.describe_groups(wanted)
        for name in wanted:
            if described[name].state == "Dead":
                raise await no_group(admin, name)
            if described[name].members:
                raise has_members(described[name], "deleted")
        await admin.delete_groups(wanted)
        for name in wanted:
            say(f"Deleted group {name!r}.")

    with_admin(bootstrap, ask)


# -- describing


def _brief(group: GroupDescription) -> dict[str, Any]:
    return {
        "group": group.group_id,
        "state": group.state,
        "protocol_type": group.protocol_type,
        "assignor": group.protocol_name,
        "coordinator": {
            "node_id": group.coordinator.node_id,
            "host": group.coordinator.host,
            "port": group.coordinator.port,
        },
        "members": [_member(one) for one in group.members],
    }


def _is_foreign(protocol_type: str) -> bool:
    """Whether a group's members are no consumers: what they were assigned only they can read."""
    return protocol_type not in ("", "consumer")


def _member(member: MemberDescription) -> dict[str, Any]:
    return {
        "member_id": member.member_id,
        "group_instance_id": member.group_instance_id,
        "client_id": member.client_id,
        "client_host": host(member.client_host),
        "topics": sorted(member.topics),
        "assignment": [{"topic": tp.topic, "partition": tp.partition} for tp in sorted(member.assignment)],
    }


async def _details(admin: Admin, group: GroupDescription, committed: dict[TopicPartition, Any]) -> dict[str, Any]:
    """Offsets and lag of everything that is committed or assigned."""
    owners = {tp: member for member in group.members for tp in member.assignment}
    existing = set(await admin.list_topics())
    places = sorted(tp for tp in {*committed, *owners} if tp.topic in existing)
    ends = await admin.list_offsets(dict.fromkeys(places, "latest")) if places else {}
    rows = []
    for tp in places:
        at = committed[tp].offset if tp in committed else None
        owner = owners.get(tp)
        rows.append(
            {
                "topic": tp.topic,
                "partition": tp.partition,
                "committed_offset": at,
                "log_end_offset": ends[tp].offset,
                "lag": None if at is None else max(0, ends[tp].offset - at),
                "metadata": committed[tp].metadata if tp in committed else "",
                "member_id": None if owner is None else owner.member_id,
                "client_id": None if owner is None else owner.client_id,
            }
        )
    lags = [row["lag"] for row in rows]
    # A partition without a committed offset may hold anything: a sum that leaves it out would look like "done".
    return {"lag": None if None in lags else sum(lags), "offsets": rows}


def _print_head(group: dict[str, Any]) -> None:
    count = len(group["members"])
    at = group["coordinator"]
    words = [group["state"], f"{count} member{'s' * (count != 1)}"]
    if _is_foreign(group["protocol_type"]):
        words.append(f"type {group['protocol_type']}")
    if group["assignor"]:
        words.append(f"assignor {group['assignor']}")
    words.append(f"coordinator {at['node_id']} ({at['host']}:{at['port']})")
    if group["offsets"]:
        unknown = sum(row["lag"] is None for row in group["offsets"])
        words.append(f"lag {group['lag']:,}" if not unknown else f"lag unknown ({unknown} without a committed offset)")
    say(f"Group {group['group']}", bold=True, nl=False)
    say(f": {', '.join(words)}")


def _print_members(group: dict[str, Any]) -> None:
    if not group["members"]:
        say("No members.")
        return
    static = any(member["group_instance_id"] for member in group["members"])
    rows: list[tuple[Cell, ...]] = [
        (
            member["client_id"],
            member["client_host"],
            partitions_in_words([(one["topic"], one["partition"]) for one in member["assignment"]]) or None,
            *((member["group_instance_id"],) if static else ()),
            member["member_id"],
        )
        for member in sorted(group["members"], key=lambda member: (member["client_id"], member["member_id"]))
    ]
    print_table(("client", "host", "partitions", *(("instance",) if static else ()), "member id"), rows)
    if _is_foreign(group["protocol_type"]):
        say(f"What they were assigned is in a form of the type {group['protocol_type']}, which Ottla does not read.")


def _print_offsets(group: dict[str, Any]) -> None:
    if not group["offsets"]:
        say("Nothing committed.")
        return
    rows: list[tuple[Cell, ...]] = [
        (
            row["topic"],
            row["partition"],
            row["committed_offset"],
            row["log_end_offset"],
            row["lag"],
            row["client_id"],
        )
        for row in group["offsets"]
    ]
    print_table(("topic", "partition", "committed", "log end", "lag", "read by"), rows)


command.add_command(delete_offsets)
command.add_command(reset_offsets)
command.add_command(wait)
command.add_command(watch)
