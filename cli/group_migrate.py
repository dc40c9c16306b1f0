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
from ottla.cli.group_words import GROUPS, awaits_join, behind, host, no_group, type_in_words
from ottla.cli.output import count_of, note, print_json, say, when

if TYPE_CHECKING:
    from ottla.clients import Admin, GroupDescription, MemberDescription

POLICY = "group.consumer.migration.policy"
PROTOCOLS = "group.coordinator.rebalance.protocols"
UP, DOWN = ("upgrade", "bidirectional"), ("downgrade", "bidirectional")
"""The policies under which a classic group becomes a consumer group while it has members, and the other way round."""
MODERN = "group.protocol=consumer"
CLASSIC = "group.protocol=classic"
STOP_ALL = "stop all members, and start them with "
"""A group without members may change under each policy, and whatever its assignor was."""
REFUSED = "session.timeout.ms, heartbeat.interval.ms and partition.assignment.strategy"
"""Settings of classic members that Java's client and librdkafka do not take together with the protocol ``consumer``."""
COOPERATIVE = "cooperative-sticky"
GENERATION_BYTES = 4
"""What the cooperative-sticky of Java's client and of Ottla's own adds to a subscription. librdkafka's adds something
longer, and nothing at first."""
CLASSIC_ONLY = ("aiokafka", "kafka-python", "kafkajs", "sarama")
"""Clients without the protocol ``consumer``: how their client ids begin, if nobody sets another."""
MOST_NAMED = 5


@dataclass(frozen=True, slots=True)
class Standing:
    """Where the migration of a group stands.

    Attributes:
        phase: ``empty``, ``classic``, ``mixed`` for a consumer group that has classic members, ``consumer``, or
            ``foreign`` for a group that is none of consumers.
        type: as `ottla groups list` shows it; None if the broker does not tell.
        policy: the broker's; None if it does not have the setting.
        in_the_way: what must change before the group can go on.
        next: what to do, towards the protocol ``consumer``; while something is in the way, how to get it out of there.
        done: that there is nothing left to do; empty until then.
        back: how the group gets back to the protocol ``classic``; empty where nothing was changed yet.
        behind: who keeps the group from being at rest, in words; empty if nobody does.
    """

    group: str
    phase: str
    type: str | None
    state: str
    classic_members: int
    consumer_members: int
    policy: str | None
    in_the_way: list[str]
    next: list[str]
    done: str
    back: str
    behind: str


def standing(group: GroupDescription, policy: str | None, protocols: str | None, most_members: int = 0) -> Standing:
    """Where a group stands. Pure.

    Args:
        policy, protocols: the broker's settings; None for one that it does not have.
        most_members: how many members it is known to have had at once. While it has fewer, some are being restarted.
    """
    classic = [one for one in group.members if one.protocol == "classic"]
    modern = [one for one in group.members if one.protocol == "consumer"]
    phase = "empty" if not group.members else group.group_type
    if phase == "consumer" and classic:
        phase = "mixed"
    if group.members and group.protocol_type != "consumer":
        phase = "foreign"
    obstacles = _obstacles(group, phase, policy, protocols)
    if not obstacles:
        obstacles = _unrest(group, phase, most_members - len(group.members))
    is_done = phase == "consumer" and not obstacles
    return Standing(
        group.group_id,
        phase,
        type_in_words(group.group_type, group.protocol_type),
        group.state,
        len(classic),
        len(modern),
        policy,
        [problem for problem, _ in obstacles],
        [remedy for _, remedy in obstacles if remedy] or _next(phase, classic),
        "All members speak the protocol consumer." if is_done else "",
        _back(phase, modern, policy),
        behind(group),
    )


def _obstacles(group: GroupDescription, phase: str, policy: str | None, protocols: str | None) -> list[tuple[str, str]]:
    """What does not go away by waiting: each with how to get rid of it, empty if nobody can."""
    if phase == "foreign":
        of_type = f"The group is of the type {group.protocol_type}"
        return [(f"{of_type}: only groups of consumers can change the protocol.", "")]
    found = []
    if protocols is not None and "consumer" not in protocols.split(","):
        problem = "The broker does not speak the protocol consumer."
        found.append((problem, f"Restart the broker with {PROTOCOLS}={protocols},consumer."))
    modern = any(one.protocol == "consumer" for one in group.members)
    if phase == "mixed" and not modern and policy is not None and policy.lower() in {*DOWN} - {*UP}:
        problem = f"{POLICY} is {policy}: the group becomes a classic one when a member leaves, and stays one."
        found.append((problem, f"{_restart_with('bidirectional', 'upgrade')}. Or {STOP_ALL}{MODERN}."))
    if phase == "classic" and (policy or "").lower() not in UP:
        said = f"{POLICY} is {policy}" if policy is not None else f"The broker has no {POLICY}"
        problem = f"{said}: it refuses members of the protocol consumer while the group has classic ones."
        newer = "Use a broker that has the setting, such as Ottla, or Apache Kafka from 4.0 on."
        restart = f"{_restart_with('bidirectional', 'upgrade')}. Or {STOP_ALL}{MODERN}."
        found.append((problem, newer if policy is None else restart))
    if phase == "classic" and (attached := [one for one in group.members if one.user_data]):
        problem = (
            f"The assignor {group.protocol_name} adds data of its own to the assignment of {_named(attached)}, which "
            "the broker would lose, so it refuses."
        )
        found.append((problem, _without(group.protocol_name)))
    elif phase == "classic" and group.protocol_name == COOPERATIVE and (unsure := _may_add_data(group.members)):
        problem = (
            f"{_named(unsure)} may use librdkafka, as confluent-kafka does. Its cooperative-sticky adds data of its "
            "own to the assignments from the second generation on, which the broker would lose, so it refuses then."
        )
        harmless = f"If nobody uses librdkafka, nothing is in the way: restart one member after another with {MODERN}."
        found.append((problem, f"{_without(COOPERATIVE)} {harmless}"))
    return found


def _may_add_data(members: list[MemberDescription]) -> list[MemberDescription]:
    """The members of a group with cooperative-sticky that may be librdkafka's."""
    return [one for one in members if len(one.subscription_user_data) != GENERATION_BYTES]


def _without(assignor: str) -> str:
    """How a group gets rid of an assignor that adds data of its own."""
    if assignor == COOPERATIVE:
        return (
            f"S{STOP_ALL[1:]}{MODERN}: nobody reads for a moment. librdkafka does not take range and "
            "cooperative-sticky together, so its members cannot change to range first."
        )
    return (
        f"Restart all members with partition.assignment.strategy=range,{assignor}, one by one: the group uses range "
        f"once all have it. Or {STOP_ALL}{MODERN}."
    )


def _unrest(group: GroupDescription, phase: str, missing: int) -> list[tuple[str, str]]:
    """What goes away by waiting, and what to wait for."""
    if phase not in ("classic", "mixed", "consumer"):
        return []
    then = "; then the change is done." if phase == "consumer" else " before you restart the next member."
    if awaits_join(group):
        problem = "As all members are classic, no target is computed before somebody joins."
        remedy = f"Restart one of them, such as {_named(group.members[:1])}."
        return [(f"The group is {group.state}. {problem}", remedy)]
    if group.state != "Stable":
        return [(f"The group is {group.state}.", f"Wait until it is Stable{then}")]
    if missing > 0:
        gone = f"{count_of(missing, 'member')} left and {'is' if missing == 1 else 'are'} not back"
        return [
            (f"{gone}.", f"Wait until all members are back{then} If nobody is to come back, nothing is in the way.")
        ]
    return []


def _next(phase: str, classic: list[MemberDescription]) -> list[str]:
    if phase == "empty":
        return ["The group has no members: it becomes what its first member speaks."]
    if phase not in ("classic", "mixed"):
        return []
    stay = [one for one in classic if one.client_id.startswith(CLASSIC_ONLY)]
    move = [one for one in classic if one not in stay]
    stays = f"{_named(stay)} may stay classic: {'its client has' if len(stay) == 1 else 'their clients have'} no "
    either = "A member may stay classic if its client has no "
    mixed = "group.protocol. Members of both protocols may share a group for good (`ottla help consumer-protocol`)."
    if not move:
        return [f"{stays}{mixed}"]
    which = "it" if len(move) == 1 else "the first"
    turns = "" if phase == "mixed" else f": {which} makes the group a consumer group"
    return [
        f"Restart {_named(move)} with {MODERN}{_in_turn(move)}{turns}.",
        f"Take {REFUSED} out of the configuration, as clients do not start with {MODERN} and one of these.",
        f"{stays if stay else either}{mixed}",
    ]


def _back(phase: str, modern: list[MemberDescription], policy: str | None) -> str:
    if phase not in ("mixed", "consumer"):
        return ""
    is_free = policy is None or policy.lower() in DOWN
    restart = f"{_restart_with('bidirectional', 'downgrade')}. Or {STOP_ALL}{CLASSIC}."
    if not modern and is_free:
        return "All members are classic, but the group is not: it becomes a classic group when one of them leaves."
    if not modern:
        return f"All members are classic, and the group stays a consumer group, as {POLICY} is {policy}. {restart}"
    if policy is not None and policy.lower() == "disabled":
        return f"{POLICY} is disabled, so the broker refuses classic members. {restart}"
    keeps = f" It stays a consumer group even then, as {POLICY} is {policy}, unless you {STOP_ALL}{CLASSIC}."
    return f"Restart {_named(modern)} with {CLASSIC}{_in_turn(modern)}.{'' if is_free else keeps}"


def _in_turn(members: list[MemberDescription]) -> str:
    return ", one by one" if len(members) > 1 else ""


def _restart_with(policy: str, other: str) -> str:
    return (
        f"Restart the broker with {POLICY}={policy} (or {other}), as in `ottla serve --set {POLICY}={policy}`: it "
        "cannot change while the broker runs"
    )


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


async def _ask(admin: Admin, group: str, most_members: int = 0) -> Standing:
    described = (await admin.describe_groups([group]))[group]
    if described.state == "Dead":
        raise await no_group(admin, group)
    settings = await _settings(admin, described.coordinator.node_id)
    return standing(described, settings.get(POLICY), settings.get(PROTOCOLS), most_members)


async def _settings(admin: Admin, node_id: int) -> dict[str, str | None]:
    found = await admin.describe_configs(brokers=[node_id], keys=[POLICY, PROTOCOLS])
    return {key: entry.value for key, entry in found[node_id].items()}


async def _follow(bootstrap: str, group: str, interval_s: float, as_json: bool) -> None:
    before: Standing | None = None
    last: list[Standing] = []
    most_members = 0

    async def look(admin: Admin) -> dict[str, Look]:
        nonlocal most_members
        found = await _ask(admin, group, most_members)
        most_members = max(most_members, found.classic_members + found.consumer_members)
        last[:] = [found]
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
    is_mixed = bool(one.classic_members and one.consumer_members)
    first = one.phase if is_mixed else one.type or one.phase
    words = [first, one.state, *(counts or ["no members"]), f"policy {one.policy or 'unknown'}"]
    say(f": {', '.join(words)}")
    # A group of both protocols may be on either way.
    ahead, back = ("To consumer", "To classic") if is_mixed and not one.in_the_way else ("Next", "Back")
    for label, lines in (
        ("In the way", one.in_the_way),
        ("Behind", [one.behind] if one.behind else []),
        (ahead, one.next),
        ("Done", [one.done] if one.done else []),
        (back, [one.back] if one.back else []),
    ):
        for line in lines:
            say(f"  {label}: {line}")
