"""`ottla groups`: list, describe and delete groups; its other commands are added from their modules."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from ottla.cli.common import Answer, Silent, asks_broker, bootstrap_option, formatted, names, near, with_admin, word
from ottla.cli.group_hold import evict, pause, resume
from ottla.cli.group_migrate import migrate
from ottla.cli.group_offsets import delete_offsets, reset_offsets
from ottla.cli.group_wait import wait
from ottla.cli.group_watch import watch
from ottla.cli.group_words import (
    GROUPS,
    STATES,
    TYPES,
    assignment_in_words,
    awaits_join,
    group_ids,
    has_members,
    host,
    is_foreign,
    no_group,
    partitions_in_words,
    still_to_do,
    type_in_words,
)
from ottla.cli.kafka_habits import CommandFirst
from ottla.cli.output import count_of, note, print_each, print_fields, say, state
from ottla.observe.printable import printable

if TYPE_CHECKING:
    from ottla.clients import Admin, GroupDescription, MemberDescription, TopicPartition


class _Groups(CommandFirst):
    subject = "--group"


@click.group("groups", cls=_Groups)
def command() -> None:
    """List, describe, watch, delete consumer groups and reset their offsets."""


@command.command("list")
@click.option("--state", "states", multiple=True, type=click.Choice(STATES, case_sensitive=False), help="Only these.")
@click.option("--type", "types", multiple=True, type=click.Choice(TYPES, case_sensitive=False), help="Only these.")
@formatted
@asks_broker
async def list_(admin: Admin, states: tuple[str, ...], types: tuple[str, ...]) -> Answer:
    """Show all groups. The type is the protocol that their members speak: classic, or consumer (KIP-848)."""
    silent = Silent()
    listed = await group_ids(admin, silent, states=states, types=types)
    described = await silent.spare(admin.describe_groups(listed))
    groups = [_brief(described[name]) for name in listed if name in described]
    only = [*states, *(f"of the type {one}" for one in types)]
    return Answer(
        groups, partial(_print_list, groups, only, typed=bool(types), is_whole=not silent.addresses), silent.failure
    )


@command.command(short_help="Show state, members, assignment and lag.")
@GROUPS.many("groups", "[GROUP]…", required=False)
@click.option("--all-groups", is_flag=True, help="All of them.")
@click.option("--state", "only_state", is_flag=True, help="Only the first line: state, assignor, coordinator.")
@click.option("--members", "only_members", is_flag=True, help="Only the members and their partitions.")
@click.option("--offsets", "only_offsets", is_flag=True, help="Only committed offsets, log ends and lag.")
@formatted
@bootstrap_option
def describe(groups: list[str], all_groups: bool, bootstrap: str, **only: Any) -> Answer:
    """Show GROUPs: state, members with their partitions, and how far each partition is behind.

    Of a group of the type consumer also the epochs, and which member has not given up, or still waits for, what.
    """
    if all_groups and groups:
        raise click.UsageError("--all-groups and names say two things: choose one.")
    if not all_groups:
        names(groups, (), "group")
    silent = Silent()
    found = with_admin(bootstrap, partial(_described, silent=silent, groups=groups))
    return Answer(found, partial(print_each, found, partial(_print_group, **only), "", ""), silent.failure)


@command.command(short_help="Delete groups with their offsets.")
@GROUPS.many("groups", "GROUP…")
@asks_broker
async def delete(admin: Admin, groups: list[str]) -> None:
    """Delete GROUPs, which must have no members, with the offsets they have committed."""
    described = await admin.describe_groups(groups)
    for name in groups:
        if described[name].state == "Dead":
            raise await no_group(admin, name)
        if described[name].members:
            raise has_members(described[name], "deleted")
    await admin.delete_groups(groups)
    for name in groups:
        say(f"Deleted group {name!r}.")


# -- describing


async def _described(admin: Admin, silent: Silent, groups: list[str]) -> list[dict[str, Any]]:
    """Groups in detail; all of them if none is named."""
    chosen = groups or await group_ids(admin, silent)
    described = await silent.spare(admin.describe_groups(chosen))
    found = []
    for name in filter(described.__contains__, chosen):
        committed = await admin.list_group_offsets(name)
        if described[name].state == "Dead" and not committed:
            raise await no_group(admin, name)
        details = await _details(admin, silent, described[name], dict(committed))
        found.append({**_brief(described[name]), **details})
    return found


def _brief(group: GroupDescription) -> dict[str, Any]:
    return {
        "group": group.group_id,
        "state": group.state,
        "type": group.group_type or None,
        "protocol_type": group.protocol_type,
        "group_epoch": group.group_epoch,
        "assignment_epoch": group.assignment_epoch,
        "assignor": group.protocol_name,
        "coordinator": {
            "node_id": group.coordinator.node_id,
            "host": group.coordinator.host,
            "port": group.coordinator.port,
        },
        "members": [_member(group, one) for one in group.members],
        "awaits_join": awaits_join(group),
    }


def _member(group: GroupDescription, member: MemberDescription) -> dict[str, Any]:
    target = member.target_assignment
    return {
        "member_id": member.member_id,
        "group_instance_id": member.group_instance_id,
        "client_id": member.client_id,
        "client_host": host(member.client_host),
        "topics": sorted(member.topics),
        "assignment": [tp._asdict() for tp in sorted(member.assignment)],
        "protocol": member.protocol,
        "member_epoch": member.member_epoch,
        "subscribed_regex": member.subscribed_regex or None,
        "target_assignment": None if target is None else [tp._asdict() for tp in sorted(target)],
        "behind": still_to_do(group, member) or None,
    }


async def _details(
    admin: Admin, silent: Silent, group: GroupDescription, committed: dict[TopicPartition, Any]
) -> dict[str, Any]:
    """Offsets and lag of everything that is committed or assigned; and the topics that members want in vain."""
    owners = {tp: member for member in group.members for tp in member.assignment}
    existing = set(await admin.list_topics())
    absent = sorted({topic for member in group.members for topic in member.topics} - existing)
    matched = _matched(group, existing)
    places = sorted(tp for tp in {*committed, *owners} if tp.topic in existing)
    ends = await silent.spare(admin.list_offsets(dict.fromkeys(places, "latest"))) if places else {}
    rows = []
    for tp in places:
        at = committed[tp].offset if tp in committed else None
        owner = owners.get(tp)
        rows.append(
            {
                **tp._asdict(),
                "committed_offset": at,
                "log_end_offset": ends[tp].offset if tp in ends else None,
                "lag": None if at is None or tp not in ends else max(0, ends[tp].offset - at),
                "metadata": committed[tp].metadata if tp in committed else "",
                "member_id": None if owner is None else owner.member_id,
                "client_id": None if owner is None else owner.client_id,
            }
        )
    lags = [row["lag"] for row in rows]
    # A partition without a committed offset may hold anything: a sum that leaves it out would look like "done".
    return {
        "lag": None if None in lags else sum(lags),
        "offsets": rows,
        "missing_topics": [{"topic": name, "did_you_mean": near(name, existing) or None} for name in absent],
        "regexes": [{"regex": regex, "topics": topics} for regex, topics in sorted(matched.items())],
        "without_owner": await _without_owner(admin, group, existing, matched) if group.state == "Stable" else [],
    }


def _matched(group: GroupDescription, existing: Iterable[str]) -> dict[str, list[str]]:
    """The topics that each regex of a group matches; one that only the broker can read is left out."""
    from ottla.broker.core.pattern import BadPattern, Pattern

    found = {}
    for regex in {one.subscribed_regex for one in group.members if one.subscribed_regex}:
        with suppress(BadPattern):
            pattern = Pattern(regex)
            found[regex] = [topic for topic in sorted(existing) if pattern.matches(topic)]
    return found


async def _without_owner(
    admin: Admin, group: GroupDescription, existing: set[str], matched: dict[str, list[str]]
) -> list[dict[str, Any]]:
    """The partitions that members of the protocol ``consumer`` subscribe to and that nobody has.

    Somebody may have them in its target who did not subscribe to them: then it does not get them.
    """
    if group.group_type != "consumer":
        return []
    wanted: dict[str, set[str]] = {}
    for member in group.members:
        for topic in {*member.topics, *matched.get(member.subscribed_regex, ())} & existing:
            wanted.setdefault(topic, set()).add(member.client_id)
    owned = {tp for member in group.members for tp in member.assignment}
    heirs: dict[tuple[str, int], str] = {}
    for member in group.members:
        heirs |= dict.fromkeys(member.target_assignment or (), member.client_id)
    rows = []
    for topic, info in (await admin.describe_topics(sorted(wanted))).items():
        free = [partition for partition in sorted(info.partitions) if (topic, partition) not in owned]
        in_target_of = sorted({heirs[topic, one] for one in free if (topic, one) in heirs})
        if free:
            row = {"topic": topic, "partitions": free, "subscribed": sorted(wanted[topic])}
            rows.append({**row, "in_target_of": in_target_of})
    return rows


def _print_list(groups: list[dict[str, Any]], only: list[str], *, typed: bool, is_whole: bool) -> None:
    if not groups and is_whole:
        note("There are no groups." if not only else f"No group is {' or '.join(only)}.")
        return
    # The type is worth a column where it was asked for, or where there are others than classic consumers, such as
    # Kafka Connect's workers.
    typed = typed or any(is_foreign(group["protocol_type"]) or group["type"] == "consumer" for group in groups)
    print_fields(
        ("group", "state", *(("type",) if typed else ()), "members", "assignor"),
        groups,
        "group",
        lambda group: state(group["state"]),
        *((lambda group: type_in_words(group["type"], group["protocol_type"]),) if typed else ()),
        lambda group: len(group["members"]),
        lambda group: group["assignor"] or None,
    )
    for name in [group["group"] for group in groups if not group["group"].isprintable()][:1]:
        note(f"{printable(name)} is shown with escapes. To name it in bash or zsh, write {word(name)}")


def _print_group(group: dict[str, Any], only_state: bool, only_members: bool, only_offsets: bool) -> None:
    everything = not (only_state or only_members or only_offsets)
    _print_head(group)
    if everything or only_members:
        say()
        _print_members(group)
    if everything or only_offsets:
        say()
        _print_offsets(group)


def _print_head(group: dict[str, Any]) -> None:
    at = group["coordinator"]
    words = [group["state"], count_of(len(group["members"]), "member")]
    if is_foreign(group["protocol_type"]):
        words.append(f"type {group['protocol_type']}")
    if group["type"] == "consumer":
        words.append("type consumer")
    if group["assignor"]:
        words.append(f"assignor {group['assignor']}")
    if group["group_epoch"] is not None:
        words += [f"group epoch {group['group_epoch']}", f"assignment epoch {group['assignment_epoch']}"]
    words.append(f"coordinator {at['node_id']} ({at['host']}:{at['port']})")
    if group["offsets"]:
        unknown = sum(row["lag"] is None for row in group["offsets"])
        why = "without a committed offset" if all(row["log_end_offset"] is not None for row in group["offsets"]) else ""
        words.append(f"lag {group['lag']:,}" if not unknown else f"lag unknown ({unknown} {why or 'not known'})")
    say(f"Group {group['group']}", bold=True, nl=False)
    say(f": {', '.join(words)}")
    for missing in group["missing_topics"]:
        wanted_by = _clients(one for one in group["members"] if missing["topic"] in one["topics"])
        hint = f" Did you mean {missing['did_you_mean']!r}?" if missing["did_you_mean"] else ""
        say(f"Topic {missing['topic']!r}, to which {wanted_by} subscribed, does not exist.{hint}")


def _clients(members: Iterable[dict[str, Any]]) -> str:
    return ", ".join(sorted({one["client_id"] for one in members}))


def _print_members(group: dict[str, Any]) -> None:
    if not group["members"]:
        say("No members.")
        return
    static = any(member["group_instance_id"] for member in group["members"])
    modern = group["type"] == "consumer"
    mixed = modern and any(member["protocol"] == "classic" for member in group["members"])
    more = (*(("protocol",) if mixed else ()), *(("epoch", "behind") if modern else ()))
    print_fields(
        ("client", "host", "partitions", *more, *(("instance",) if static else ()), "member id"),
        sorted(group["members"], key=lambda member: (member["client_id"], member["member_id"])),
        *("client_id", "client_host"),
        lambda member: assignment_in_words(member["assignment"]),
        *(("protocol",) if mixed else ()),
        *(("member_epoch", "behind") if modern else ()),
        *(("group_instance_id",) if static else ()),
        "member_id",
    )
    if group["awaits_join"]:
        say(
            f"There is no target for epoch {group['group_epoch']} yet. As all members are classic, none is computed "
            "before somebody joins: restart one of them (`ottla help consumer-protocol`, Pitfalls)."
        )
    for regex in sorted({one["subscribed_regex"] for one in group["members"] if one["subscribed_regex"]}):
        by_it = [one for one in group["members"] if one["subscribed_regex"] == regex]
        is_idle = any(row == {"regex": regex, "topics": []} for row in group["regexes"])
        idle = ": no topic matches it. It has to match the whole name of a topic" if is_idle else ""
        say(f"By regex: {_clients(by_it)} subscribed to {regex}{idle}.")
    for row in group["without_owner"]:
        say(_unread(row))
    if is_foreign(group["protocol_type"]):
        say(f"What they were assigned is in a form of the type {group['protocol_type']}, which Ottla does not read.")


def _unread(row: dict[str, Any]) -> str:
    """What is wrong with partitions that nobody has, and how they get an owner."""
    from ottla.observe.why.plain import listed

    places = partitions_in_words((row["topic"], partition) for partition in row["partitions"])
    subscribed, given = listed(row["subscribed"], 3), row["in_target_of"]
    whose = f"they are in the target of {listed(given, 3)}, which did not subscribe" if given else "no target has them"
    return (
        f"Nobody reads {places}, to which {subscribed} subscribed: {whose}. If that lasts, stop "
        f"{(given or row['subscribed'])[0]}, and start it again some seconds later: meanwhile all is divided anew "
        "(`ottla help consumer-protocol`, Pitfalls)."
    )


def _print_offsets(group: dict[str, Any]) -> None:
    if not group["offsets"]:
        say("Nothing committed.")
        return
    headings = ("topic", "partition", "committed", "log end", "lag", "read by")
    fields = ("topic", "partition", "committed_offset", "log_end_offset", "lag", "client_id")
    print_fields(headings, group["offsets"], *fields)


command.add_command(delete_offsets)
command.add_command(evict)
command.add_command(migrate)
command.add_command(pause)
command.add_command(reset_offsets)
command.add_command(resume)
command.add_command(wait)
command.add_command(watch)
