"""`ottla groups pause`, `resume` and `evict`: hold a group up, let it go on, and remove members."""

from __future__ import annotations

import re
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


_ID_WITH_DASH = re.compile(r"-[\w-]{21}", re.ASCII)


class _NamesMember(click.Command):
    """Takes a member id that begins with a dash for what it is: those of the protocol ``consumer`` are base64."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        options = {name for one in self.get_params(ctx) for name in one.opts}
        ids = [one for one in args if _ID_WITH_DASH.fullmatch(one) and one not in options]
        if ids and "--" not in args:
            args = [*(one for one in args if one not in ids), "--", *ids]
        return super().parse_args(ctx, args)


@click.command("evict", cls=_NamesMember, short_help="Remove a member from a group.")
@click.argument("group", shell_complete=complete_groups)
@click.argument("member")
@click.option("--reason", metavar="TEXT", help="Why; the coordinator logs it.")
@asks_broker
async def evict(admin: Admin, group: str, member: str, reason: str | None) -> None:
    """Remove MEMBER, named by its member id, group.instance.id or client id, from GROUP, as if it had left.

    It hears of that at its next heartbeat; most clients join again then. Works with Apache Kafka, too.
    """
    described = (await admin.describe_groups([group]))[group]
    if described.state == "Dead":
        raise await no_group(admin, group)
    everybody = described.members
    found = (
        [one for one in everybody if one.member_id == member]
        or [one for one in everybody if one.group_instance_id == member]
        or [one for one in everybody if one.client_id == member]
    )
    if not found:
        more = ". Its members are:" if everybody else ", nor any other."
        raise Refused(f"Group {group!r} has no member {member!r}{more}", *map(_words, everybody))
    if len(found) > 1:
        several = f"Group {group!r} has several members with the client id {member!r}; name one by its member id:"
        raise Refused(several, *map(_words, found))
    await admin.remove_members(group, [found[0].member_id], reason=reason)
    say(f"Removed member {member!r} from group {group!r}.")


def _words(member: MemberDescription) -> str:
    instance = f", group.instance.id {member.group_instance_id}" if member.group_instance_id else ""
    return f"  {member.member_id} ({member.client_id} on {host(member.client_host)}{instance})"
