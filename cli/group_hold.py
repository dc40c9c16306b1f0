"""`ottla groups pause`, `resume` and `evict`: hold a group up, let it go on, and remove members."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import click

from ottla.cli.common import Answer, asks_broker, formatted
from ottla.cli.completion import complete_groups
from ottla.cli.group_words import GROUPS, host, no_group
from ottla.cli.output import Refused, say
from ottla.cli.workbench_ask import Ask, asks_workbench

if TYPE_CHECKING:
    from ottla.clients import Admin, MemberDescription


@click.command("pause", short_help="Let no member join or get partitions for now.")
@GROUPS.one("group")
@formatted
@asks_workbench
async def pause(ask: Ask, group: str) -> Answer:
    """Hold GROUP up, at a broker that has a workbench: a rebalance does not end, and no session does.

    Heartbeats and commits go on; heartbeats of the protocol consumer wait. `ottla groups resume` lets it go on.
    """
    return _told(await ask("groups.pause", group=group), "is paused")


@click.command("resume", short_help="Let a group that is paused go on.")
@GROUPS.one("group")
@formatted
@asks_workbench
async def resume(ask: Ask, group: str) -> Answer:
    """Let GROUP go on: its members have as much of their sessions left as they had."""
    return _told(await ask("groups.resume", group=group), "goes on")


def _told(state: dict[str, Any], words: str) -> Answer:
    return Answer(state, partial(say, f"Group {state['group']!r} {words}."))


@click.command("evict", short_help="Remove a member from a group.")
@click.argument("group", shell_complete=complete_groups)
@click.argument("member")
@click.option("--reason", metavar="TEXT", help="Why; the coordinator logs it.")
@asks_broker
async def evict(admin: Admin, group: str, member: str, reason: str | None) -> None:
    """Remove MEMBER, named by its member id or group.instance.id, from GROUP, as if it had left.

    It hears of that at its next heartbeat; most clients join again then. Works with Apache Kafka, too.
    """
    described = (await admin.describe_groups([group]))[group]
    if described.state == "Dead":
        raise await no_group(admin, group)
    by_name = {one.group_instance_id: one.member_id for one in described.members if one.group_instance_id}
    by_name |= {one.member_id: one.member_id for one in described.members}
    if member not in by_name:
        known = [f"  {_words(one)}" for one in described.members]
        more = ". Its members are:" if known else ", nor any other."
        raise Refused(f"Group {group!r} has no member {member!r}{more}", *known)
    await admin.remove_members(group, [by_name[member]], reason=reason)
    say(f"Removed member {member!r} from group {group!r}.")


def _words(member: MemberDescription) -> str:
    instance = f", group.instance.id {member.group_instance_id}" if member.group_instance_id else ""
    return f"{member.member_id} ({member.client_id} on {host(member.client_host)}{instance})"
