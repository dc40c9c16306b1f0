"""`ottla groups watch`: what groups do, as it happens."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from ottla.cli.common import bootstrap_option, duration_option, format_option, run
from ottla.cli.group_looks import Look, Turn, look_at, turns
from ottla.cli.group_words import GROUPS, host, partitions_in_words, still_to_do
from ottla.cli.output import Cell, count_of, note, on_terminal, print_json, say, state, styled, table, when

if TYPE_CHECKING:
    from rich.console import RenderableType

    from ottla.clients import Admin

LAGS_PER_LOOK = 50
"""The lag of a group takes requests of its own: of many groups it is looked at in turn."""
ANSWER_MS = 3_000
"""A broker that takes longer for an answer is said not to answer."""


class Change(NamedTuple):
    """A group that is not as it was; ``look`` is None once it is gone."""

    group_id: str
    look: Look | None


class Watched:
    """The last looks at the groups that are watched. Pure."""

    def __init__(self) -> None:
        self.looks: dict[str, Look] = {}
        self.since: dict[str, float] = {}

    def update(self, looks: dict[str, Look], now: float) -> Iterator[Change]:
        """Take new looks at all groups; give what is different from before. Those that never were are left out."""
        there = {group_id: look for group_id, look in looks.items() if look.exists}
        for group_id in [one for one in self.looks if one not in there]:
            del self.looks[group_id], self.since[group_id]
            yield Change(group_id, None)
        for group_id, look in sorted(there.items()):
            before = self.looks.get(group_id)
            if before is None or before.state != look.state:
                self.since[group_id] = now
            self.looks[group_id] = look
            if before is None or (before[:4], before.behind) != (look[:4], look.behind):
                yield Change(group_id, look)

    def lacks(self, wanted: Sequence[str]) -> list[str]:
        """Those of the groups that do not exist."""
        return [group_id for group_id in wanted if group_id not in self.looks]


@click.command("watch", short_help="Show what groups do, as it happens.")
@GROUPS.many("groups", "[GROUP]…", required=False)
@duration_option("--interval", shortest="100ms", default="1s", help="Time between two looks.")
@format_option
@bootstrap_option
def watch(groups: list[str], interval: float, output_format: str, bootstrap: str) -> None:
    """Show state, members and lag of GROUPs, or of all, until Ctrl-C.

    A table on a terminal; in a pipe, or with --format json, one line for each change. A GROUP that does not exist yet
    is named on standard error, and watched for. When the broker does not answer, one line there says so, and another
    one when it is back. Exit code 0 after Ctrl-C, 1 if no broker
    answers at the beginning.
    """
    try:
        if output_format == "json":
            run(_lines(bootstrap, groups, interval, _json_line), bootstrap)
        elif on_terminal():
            run(_table(bootstrap, groups, interval), bootstrap)
        else:
            run(_lines(bootstrap, groups, interval, _text_line), bootstrap)
    except KeyboardInterrupt:
        return


def looks(bootstrap: str, wanted: Sequence[str], interval_s: float) -> AsyncGenerator[Turn, None]:
    """Look again and again, through outages of the broker that come after a first look. Raises as `turns`."""
    lags: dict[str, int | None] = {}
    times = {"default_api_timeout_ms": ANSWER_MS, "request_timeout_ms": ANSWER_MS}
    return turns(bootstrap, lambda admin: _look(admin, wanted, lags), lambda: interval_s, must_begin=True, **times)


async def _look(admin: Admin, wanted: Sequence[str], lags: dict[str, int | None]) -> dict[str, Look]:
    """Look at all groups, and at the lag of those whose turn it is; ``lags`` keeps the others' and the order."""
    ids = wanted or [one.group_id for one in await admin.list_groups()]
    for gone in lags.keys() - set(ids):
        del lags[gone]
    due = [*(one for one in ids if one not in lags), *lags][:LAGS_PER_LOOK]
    found = await look_at(admin, ids, lag_of=due)
    for group_id in due:
        lags.pop(group_id, None)
        if group_id in found:
            lags[group_id] = found[group_id].lag
    return {group_id: look._replace(lag=lags.get(group_id)) for group_id, look in found.items()}


# -- lines


async def _lines(
    bootstrap: str, wanted: Sequence[str], interval_s: float, print_change: Callable[[Change], None]
) -> None:
    def tell(text: str) -> None:
        note(f"{_now()}  The broker at {bootstrap} {text}")

    watched = Watched()
    out, is_first = False, True
    async for turn in looks(bootstrap, wanted, interval_s):
        if turn.trouble:
            if not out:
                tell(f"does not answer ({turn.trouble}); trying again")
            out = True
            continue
        if out:
            tell("answers again")
            out = False
        for change in watched.update(turn.looks, time.monotonic()):
            print_change(change)
        if is_first:
            for group_id in watched.lacks(wanted):
                note(f"There is no group {group_id!r} yet: waiting for it. `ottla groups list` shows those that exist.")
            is_first = False


def _text_line(change: Change) -> None:
    words = "gone" if change.look is None else change.look.words(lag=True)
    say(f"{_now()}  {change.group_id}: {words}")


def _json_line(change: Change) -> None:
    look = change.look
    fields: dict[str, Any] = {"time": _now(), "group": change.group_id, "exists": look is not None}
    if look is not None:
        fields |= {"state": look.state, "members": look.members, "assignor": look.assignor or None, "lag": look.lag}
    print_json(fields, indent=None)


def _now() -> str:
    return when(time.time_ns() // 1_000_000)


# -- a table


async def _table(bootstrap: str, wanted: Sequence[str], interval_s: float) -> None:
    from rich.console import Console
    from rich.live import Live

    watched = Watched()
    with Live(console=Console(), auto_refresh=False, transient=False) as live:
        async for turn in looks(bootstrap, wanted, interval_s):
            now = time.monotonic()
            if not turn.trouble:
                list(watched.update(turn.looks, now))
            live.update(page(watched, wanted, now, turn.trouble), refresh=True)


def page(watched: Watched, wanted: Sequence[str], now: float, trouble: str) -> RenderableType:
    """The page at a moment: a line for each group, and the members where there is one group only."""
    from rich.console import Group

    parts: list[RenderableType] = []
    if watched.looks:
        headings = ("group", "state", "for", "members", "assignor", "lag")
        parts.append(table(headings, [_row(watched, group_id, now) for group_id in sorted(watched.looks)]))
    elif not trouble and not wanted:
        parts.append(styled(("There are no groups.", "dim")))
    if not trouble and (lacking := watched.lacks(wanted)):
        parts.append(styled((f"No such group yet: {', '.join(lacking)}", "dim")))
    if len(watched.looks) == len(wanted) == 1:
        [look] = watched.looks.values()
        parts += [styled(), _members(look)]
    if trouble:
        parts.append(styled((f"The broker does not answer ({trouble}); trying again.", "yellow")))
    return Group(*parts)


def _row(watched: Watched, group_id: str, now: float) -> tuple[Cell, ...]:
    look = watched.looks[group_id]
    held_s = int(now - watched.since[group_id])
    age = f"{held_s} s" if held_s < 60 else f"{held_s // 60} min" if held_s < 3600 else f"{held_s // 3600} h"
    lag = None if look.lag is None else f"{look.lag:,}"
    return group_id, state(look.state), age, look.members, look.assignor or None, lag


def _members(look: Look) -> RenderableType:
    members = look.description.members
    if not members:
        return styled((count_of(0, "member"), "dim"))
    modern = look.description.group_type == "consumer"
    rows: list[tuple[Cell, ...]] = [
        (
            *(one.client_id, host(one.client_host), partitions_in_words(one.assignment) or None),
            *((one.member_epoch, still_to_do(look.description, one) or None) if modern else ()),
        )
        for one in sorted(members, key=lambda one: (one.client_id, one.member_id))
    ]
    return table(("client", "host", "partitions", *(("epoch", "behind") if modern else ())), rows)
