"""`ottla clock`: the time of a broker that has a workbench."""

from __future__ import annotations

from functools import partial
from typing import Any

import click

from ottla.cli.common import Answer, Duration, formatted
from ottla.cli.completion import complete_groups
from ottla.cli.output import print_table, when
from ottla.cli.workbench_ask import Ask, asks_workbench


@click.group("clock")
def command() -> None:
    """Show a broker's clock, freeze it, and move it ahead. Clients have their own."""


@command.command()
@formatted
@asks_workbench
async def show(ask: Ask) -> Answer:
    """Show what time it is for the broker, and how fast time goes."""
    return _told(await ask("clock.show"))


@command.command(short_help="Let time stand still.")
@formatted
@asks_workbench
async def freeze(ask: Ask) -> Answer:
    """Let time stand still: sessions do not end, unless by `ottla clock advance`."""
    return _told(await ask("clock.freeze"))


@command.command()
@formatted
@asks_workbench
async def resume(ask: Ask) -> Answer:
    """Let time go as fast as it really does, from where it is."""
    return _told(await ask("clock.resume"))


@command.command(short_help="Let time go faster or slower: ottla clock scale 60")
@click.argument("factor", type=click.FloatRange(0.001, 10_000))
@formatted
@asks_workbench
async def scale(ask: Ask, factor: float) -> Answer:
    """Let time go FACTOR times as fast as it really does: 60 is a minute a second."""
    return _told(await ask("clock.scale", factor=factor))


@command.command(short_help="Move time ahead: ottla clock advance 7d")
@click.argument("by", metavar="DURATION", type=Duration("1ms"))
@click.option("--hold", "hold_all", is_flag=True, help="Let no member of any group time out meanwhile.")
@click.option(
    "--hold-group",
    "held",
    metavar="GROUP",
    multiple=True,
    shell_complete=complete_groups,
    help="Let no member of this group time out meanwhile; may be given several times.",
)
@formatted
@asks_workbench
async def advance(ask: Ask, by: float, hold_all: bool, held: tuple[str, ...]) -> Answer:
    """Move time ahead by DURATION, such as 7d or 1h30m; done once all that comes of it is done.

    Members whose session ends on the way are removed, transactions are aborted, records and offsets expire.
    """
    return _told(await ask("clock.advance", ms=round(by * 1000), hold=hold_all or list(held)))


def _told(state: dict[str, Any]) -> Answer:
    return Answer(state, partial(_print, state))


def _print(state: dict[str, Any]) -> None:
    pace = state["pace"]
    rows = [
        ("time of the broker", when(state["now_ms"])),
        ("real time", when(state["now_ms"] - state["ahead_ms"])),
        ("pace", "frozen" if not pace else "as in reality" if pace == 1 else f"{pace:,g} times as fast as in reality"),
    ]
    if state["jumps_to_ms"] is not None:
        rows.append(("jumps to", when(state["jumps_to_ms"])))
    if state["held"]:
        rows.append(("held groups", ", ".join(state["held"])))
    print_table(("", ""), rows)
