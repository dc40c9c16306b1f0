"""`ottla groups migrate`: where the change of a group to the protocol ``consumer``, or back, stands."""

from __future__ import annotations

import time
from contextlib import aclosing
from dataclasses import asdict, dataclass
from functools import partial
from typing import TYPE_CHECKING

import click

from ottla.cli.common import bootstrap_option, duration_option, format_option, run, with_admin
from ottla.cli.group_looks import Look, turns
from ottla.cli.group_words import GROUPS, behind, host, no_group
from ottla.cli.output import count_of, note, print_json, say, when

if TYPE_CHECKING:
    from ottla.clients import Admin, GroupDescription, MemberDescription

POLICY = "group.consumer.migration.policy"
PROTOCOLS = "group.coordinator.rebalance.protocols"
UP, DOWN = ("upgrade", "bidirectional"), ("downgrade", "bidirectional")
"""The policies under which a classic group becomes a consumer group while it has members, and the other way round."""
MODERN = "group.protocol=consumer"
CLASSIC = "group.protocol=classic"
MOST_NAMED = 5


@dataclass(frozen=True, slots=True)
class Standing:
    """Where the migration of a group stands.

    Attributes:
        phase: ``empty``, ``classic``, ``mixed``, ``consumer``, or ``foreign`` for a group that is none of consumers.
        policy: the broker's; None if it does not have the setting.
        in_the_way: what must change before the group can go on.
        next: what to do, towards the protocol ``consumer`` first.
        behind: who keeps the group from being at rest, in words; empty if nobody does.
    """

    group: str
    phase: str
    state: str
    classic_members: int
    consumer_members: int
    policy: str | None
    in_the_way: list[str]
    next: list[str]
    behind: str


def standing(group: GroupDescription, policy: str | None, protocols: str | None) -> Standing:
    """Where a group stands. Pure.

    Args:
        policy, protocols: the broker's settings; None for one that it does not have.
    """
    classic = [one for one in group.members if one.protocol == "classic"]
    modern = [one for one in group.members if one.protocol == "consumer"]
    phase = "empty" if not group.members else group.group_type
    if phase == "consumer" and classic:
        phase = "mixed"
    if group.members and group.protocol_type != "consumer":
        phase = "foreign"
    return Standing(
        group.group_id,
        phase,
        group.state,
        len(classic),
        len(modern),
        policy,
        _in_the_way(group, phase, policy, protocols),
        _next(phase, classic, modern, policy),
        behind(group),
    )


def _in_the_way(group: GroupDescription, phase: str, policy: str | None, protocols: str | None) -> list[str]:
    found = []
    if phase == "foreign":
        return [f"The group is of the type {group.protocol_type}: only groups of consumers can change the protocol."]
    if protocols is not None and "consumer" not in protocols.split(","):
        found.append(f"The broker does not speak the protocol consumer: add it to {PROTOCOLS}.")
    if phase == "classic" and (policy or "").lower() not in UP:
        said = f"{POLICY} is {policy}" if policy is not None else f"The broker has no {POLICY}"
        found.append(f"{said}: it refuses members of the protocol consumer while the group has classic ones.")
    if phase == "classic" and (attached := [one for one in group.members if one.user_data]):
        found.append(
            f"The assignor {group.protocol_name} adds data of its own to the assignment of {_named(attached)}, which "
            "the broker would lose, so it refuses: first change partition.assignment.strategy to one of Kafka's."
        )
    if phase in ("classic", "mixed") and group.state != "Stable":
        found.append(f"The group is {group.state}: wait until it is Stable before you restart the next member.")
    return found


def _next(
    phase: str, classic: list[MemberDescription], modern: list[MemberDescription], policy: str | None
) -> list[str]:
    keeps = (
        "" if policy is None or policy.lower() in DOWN
        else f" It stays a consumer group even then: {POLICY} is {policy}."
    )  # fmt: skip
    refused = policy is not None and policy.lower() == "disabled"
    back = (
        f"Back: {POLICY} is disabled, so classic members are refused."
        if refused
        else f"Back: restart {_named(modern)} with {CLASSIC}, one by one.{keeps}"
    )
    match phase:
        case "empty":
            return ["The group has no members: it becomes what its first member speaks."]
        case "classic":
            return [f"Restart {_named(classic)} with {MODERN}, one by one: the first turns the group."]
        case "mixed" if not modern:
            return [
                f"Restart {_named(classic)} with {MODERN}, one by one.",
                f"All members are classic, but the group is not: it turns when one of them leaves.{keeps}",
            ]
        case "mixed":
            return [f"Restart {_named(classic)} with {MODERN}, one by one.", back]
        case "consumer":
            return ["Done: all members speak the protocol consumer.", back]
    return []


def _named(members: list[MemberDescription]) -> str:
    words = [f"{one.client_id} on {host(one.client_host)}" for one in members[:MOST_NAMED]]
    more = f" and {len(members) - MOST_NAMED} more" if len(members) > MOST_NAMED else ""
    return ", ".join(words) + more


@click.command("migrate", short_help="Say where a change of the group protocol stands, and what is next.")
@GROUPS.one("group")
@click.option("--watch", is_flag=True, help="Go on until Ctrl-C, and tell each change.")
@duration_option("--interval", shortest="100ms", default="1s", help="With --watch: the time between two looks.")
@format_option
@bootstrap_option
def migrate(group: str, watch: bool, interval: float, output_format: str, bootstrap: str) -> None:
    """Say how far GROUP is on its way to the protocol consumer (KIP-848), or back, and what to restart next.

    It changes nothing. A group moves while its members are restarted one by one with another group.protocol; the broker
    setting group.consumer.migration.policy allows it.
    """
    if not watch:
        found = with_admin(bootstrap, partial(_ask, group=group))
        if output_format == "json":
            print_json(asdict(found))
        else:
            _print(found)
        return
    try:
        run(_follow(bootstrap, group, interval, output_format == "json"), bootstrap)
    except KeyboardInterrupt:
        return


async def _ask(admin: Admin, group: str) -> Standing:
    described = (await admin.describe_groups([group]))[group]
    if described.state == "Dead":
        raise await no_group(admin, group)
    settings = await _settings(admin, described.coordinator.node_id)
    return standing(described, settings.get(POLICY), settings.get(PROTOCOLS))


async def _settings(admin: Admin, node_id: int) -> dict[str, str | None]:
    found = await admin.describe_configs(brokers=[node_id], keys=[POLICY, PROTOCOLS])
    return {key: entry.value for key, entry in found[node_id].items()}


async def _follow(bootstrap: str, group: str, interval_s: float, as_json: bool) -> None:
    before: Standing | None = None
    last: list[Standing] = []

    async def look(admin: Admin) -> dict[str, Look]:
        last[:] = [await _ask(admin, group)]
        return {}

    each = turns(bootstrap, look, lambda: interval_s, must_begin=True)
    async with aclosing(each):
        async for turn in each:
            if turn.error is not None:
                note(f"The broker at {bootstrap} does not answer ({turn.trouble}); trying again")
            elif last[0] != before:
                before = last[0]
                now = when(time.time_ns() // 1_000_000)
                if as_json:
                    print_json({"time": now, **asdict(before)}, indent=None)
                else:
                    say(now, dim=True)
                    _print(before)


def _print(one: Standing) -> None:
    say(f"Group {one.group}", bold=True, nl=False)
    counts = [
        count_of(number, f"{kind} member")
        for kind, number in (("classic", one.classic_members), ("consumer", one.consumer_members))
        if number
    ]
    words = [one.phase, one.state, *(counts or ["no members"]), f"policy {one.policy or 'unknown'}"]
    say(f": {', '.join(words)}")
    for label, lines in (
        ("In the way", one.in_the_way),
        ("Behind", [one.behind] if one.behind else []),
        ("Next", one.next),
    ):
        for line in lines:
            say(f"  {label}: {line}")
