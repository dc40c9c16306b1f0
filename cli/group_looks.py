"""Looks at groups through Kafka's own APIs, for `ottla groups wait` and `ottla groups watch`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection
from typing import TYPE_CHECKING, Any, NamedTuple

from ottla.cli.common import IMPATIENT, reason
from ottla.cli.connecting import client_options
from ottla.cli.group_words import behind
from ottla.cli.output import count_of

if TYPE_CHECKING:
    from ottla.clients import Admin, GroupDescription
    from ottla.clients.errors import KafkaError


class Look(NamedTuple):
    """A group at a moment. ``lag`` is None where it was not asked for, or where nobody can tell.

    ``behind`` names the members that keep a group of the protocol ``consumer`` from being at rest.
    """

    state: str
    members: int
    assignor: str
    lag: int | None
    description: GroupDescription
    behind: str = ""

    @property
    def exists(self) -> bool:
        """Whether there is such a group."""
        return self.state != "Dead"

    def words(self, *, lag: bool) -> str:
        """``Stable, 3 members, lag 0``; of a group of the protocol ``consumer`` also who is behind."""
        if not self.exists:
            return "no such group"
        words = [self.state, count_of(self.members, "member")]
        if lag:
            words.append("lag unknown" if self.lag is None else f"lag {self.lag:,}")
        if self.behind:
            words.append(self.behind)
        return ", ".join(words)


class Turn(NamedTuple):
    """One look at groups, or the error in its place."""

    looks: dict[str, Look]
    error: KafkaError | None = None

    @property
    def trouble(self) -> str:
        """Why the groups cannot be seen; empty if they can."""
        return reason(str(self.error)) if self.error else ""


async def turns(
    bootstrap: str,
    look: Callable[[Admin], Awaitable[dict[str, Look]]],
    pause_s: Callable[[], float],
    *,
    must_begin: bool = False,
    **options: Any,
) -> AsyncGenerator[Turn, None]:
    """Look again and again, through outages of the broker.

    Args:
        pause_s: the seconds until the next look.
        must_begin: an error before the first look ends it.
        options: those of the admin client.

    Raises:
        ottla.clients.errors.KafkaError: one that does not pass.
    """
    from ottla.clients import Admin
    from ottla.clients.errors import KafkaError

    seen = not must_begin
    where = client_options(bootstrap) | IMPATIENT
    while True:
        try:
            async with Admin(**where, **options) as admin:
                while True:
                    turn = Turn(await look(admin))
                    seen = True
                    yield turn
                    await asyncio.sleep(pause_s())
        except KafkaError as error:
            if not (seen and may_pass(error)):
                raise
            turn = Turn({}, error)
        yield turn
        await asyncio.sleep(pause_s())


async def look_at(admin: Admin, group_ids: Collection[str], *, lag_of: Collection[str] = ()) -> dict[str, Look]:
    """Look at groups; at the lag of some of them only, as it takes requests for each."""
    found = {}
    for group_id, group in (await admin.describe_groups(group_ids)).items():
        lag = await total_lag(admin, group) if group_id in lag_of and group.state != "Dead" else None
        found[group_id] = Look(group.state, len(group.members), group.protocol_name or "", lag, group, behind(group))
    return found


async def total_lag(admin: Admin, group: GroupDescription) -> int | None:
    """The count of records not consumed yet, in all partitions that were committed or are assigned.

    None where nobody can tell: there is no such partition, or one without a committed offset holds records.
    """
    committed = await admin.list_group_offsets(group.group_id)
    existing = set(await admin.list_topics())
    assigned = {tp for member in group.members for tp in member.assignment}
    places = [tp for tp in {*committed, *assigned} if tp.topic in existing]
    if not places:
        return None
    ends = await admin.list_offsets(dict.fromkeys(places, "latest"))
    untouched = [tp for tp in places if tp not in committed]
    starts = await admin.list_offsets(dict.fromkeys(untouched, "earliest")) if untouched else {}
    if any(ends[tp].offset > starts[tp].offset for tp in untouched):
        return None
    return sum(max(0, ends[tp].offset - committed[tp].offset) for tp in places if tp in committed)


def may_pass(error: KafkaError) -> bool:
    """Whether another look may go well: there is no broker at the moment, or no coordinator."""
    from ottla.clients.errors import SomeFailed

    return all(one.retriable for one in error.errors.values()) if isinstance(error, SomeFailed) else error.retriable
