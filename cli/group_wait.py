"""`ottla groups wait`: go on once a group is as it should be."""

from __future__ import annotations

import asyncio
import json
import time
from contextlib import aclosing
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import click

from ottla.cli.common import bootstrap_option, duration_option, format_option, reason, run, with_admin, word
from ottla.cli.group_looks import Look, look_at, turns
from ottla.cli.group_words import GROUPS, STATES, no_group
from ottla.cli.output import Refused, count_of, duration, print_json, say

if TYPE_CHECKING:
    from ottla.clients import Admin

POLL_S = 0.2
ANSWER_MS = 5_000
FIRST_LOOK_S = 3.0
"""The first look gets so long, whatever the timeout."""
BEFORE_MS = 60_000
"""Who was turned away so long before the waiting began may be whom it is for: members are started before."""
MOST_REFUSALS = 3


@dataclass(frozen=True, slots=True)
class Wanted:
    """The state of a group to wait for; None for what does not matter."""

    state: str | None
    members: int | None
    lag: int | None

    def met_by(self, look: Look) -> bool:
        """Whether a group looks as wanted."""
        return (
            self.state in (None, look.state)
            and self.members in (None, look.members)
            and (self.lag is None or (look.lag is not None and look.lag <= self.lag))
        )

    def __str__(self) -> str:
        having = [] if self.members is None else [count_of(self.members, "member")]
        if self.lag is not None:
            having.append(f"lag {self.lag:,}" + (" or less" if self.lag else ""))
        if self.state is None:
            return f"have {' and '.join(having)}"
        return f"be {self.state}" + (f" with {' and '.join(having)}" if having else "")


@dataclass(slots=True)
class Outcome:
    """The last look at the group, if there was one, and the error that came after it."""

    look: Look | None = None
    reached: bool = False
    trouble: Exception | None = None
    waited_s: float = 0.0


@click.command("wait", short_help="Wait until a group is as it should be.")
@GROUPS.one("group")
@click.option("--state", type=click.Choice(STATES, case_sensitive=False), help="The group is in this state.")
@click.option("--members", type=click.IntRange(0), metavar="N", help="The group has exactly N members.")
@click.option("--lag", type=click.IntRange(0), metavar="N", help="At most N records are left to read.")
@duration_option("--timeout", default="30s", help="Give up after this.")
@format_option
@bootstrap_option
def wait(
    group: str,
    state: str | None,
    members: int | None,
    lag: int | None,
    timeout: float,
    output_format: str,
    bootstrap: str,
) -> None:
    """Wait until GROUP is as it should be: exit code 0 if it is, 1 if it is not in time.

    Members are waited for in the state Stable, unless --state says another; lag in any state.
    """
    if state is None and members != 0:
        state = "Stable" if members is not None or lag is None else None
    wanted = Wanted(state, members, lag)
    since_ms = time.time_ns() // 1_000_000 - BEFORE_MS
    outcome = run(watch_for(bootstrap, group, wanted, timeout), bootstrap)
    if output_format == "json":
        print_json(_as_json(group, outcome))
        if not outcome.reached:
            raise SystemExit(1)
    elif outcome.reached and outcome.look is not None:
        seen = outcome.look.words(lag=lag is not None)
        say(f"Group '{group}': {seen} (after {duration(outcome.waited_s)})")
    elif outcome.look is not None and not outcome.look.exists and not outcome.trouble:
        then = f"; waited {duration(timeout)} in vain for it to {wanted}"
        raise with_admin(bootstrap, lambda admin: no_group(admin, group, then))
    else:
        answers = outcome.look is not None and not outcome.trouble
        refusals = with_admin(bootstrap, partial(_refusals, group=group, since_ms=since_ms)) if answers else []
        raise _in_vain(group, wanted, outcome, timeout, refusals)


def _as_json(name: str, outcome: Outcome) -> dict[str, object]:
    look = outcome.look
    return {
        "group": name,
        "reached": outcome.reached,
        "waited_seconds": round(outcome.waited_s, 3),
        "state": None if look is None else look.state,
        "members": None if look is None else look.members,
        "lag": None if look is None else look.lag,
        "error": None if outcome.trouble is None else str(outcome.trouble),
    }


async def _refusals(admin: Admin, group: str, since_ms: int) -> list[str]:
    """Who was turned away from a group since a Unix time, and why; nothing where no history is kept."""
    from ottla.clients.errors import KafkaError

    try:
        told = json.loads(await admin.describe_group_history(group, since_ms=since_ms))
    except KafkaError:
        return []
    return [one["headline"] for one in told["episodes"] if one["kind"] == "refusal"][-MOST_REFUSALS:]


def _in_vain(name: str, wanted: Wanted, outcome: Outcome, timeout_s: float, refusals: list[str]) -> Refused:
    look, waited = outcome.look, f"Waited {duration(timeout_s)} in vain for group '{name}' to {wanted}"
    since = f" ({reason(str(outcome.trouble))})" if outcome.trouble else ""
    if look is None:
        return Refused(f"{waited}; no broker answered{since}.")
    seen = look.words(lag=wanted.lag is not None)
    then = f", and then no broker answered{since}" if since else ""
    more = [*refusals, f"`ottla why {word(name)}` says what to do."] if refusals else []
    return Refused(f"{waited}; at last it was: {seen}{then}.", *more)


async def watch_for(bootstrap: str, name: str, wanted: Wanted, timeout_s: float) -> Outcome:
    """Look again and again, through outages of the broker, until it is as wanted or the time is up."""
    loop = asyncio.get_running_loop()
    began = loop.time()
    outcome = Outcome()
    lag_of = [] if wanted.lag is None else [name]

    def pause_s() -> float:
        return min(POLL_S, max(0.0, began + timeout_s - loop.time()))

    each = turns(
        bootstrap, lambda admin: look_at(admin, [name], lag_of=lag_of), pause_s, default_api_timeout_ms=ANSWER_MS
    )
    try:
        async with asyncio.timeout(max(timeout_s, FIRST_LOOK_S)), aclosing(each):
            async for turn in each:
                outcome.trouble = turn.error
                if turn.error is None:
                    outcome.look = turn.looks[name]
                    outcome.reached = wanted.met_by(outcome.look)
                if outcome.reached or loop.time() >= began + timeout_s:
                    break
    except TimeoutError:
        pass
    outcome.waited_s = loop.time() - began
    return outcome
