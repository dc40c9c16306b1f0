"""On whose account partitions stood still, and who is the culprit; docs/why.md has the rule in words.

At each moment all that stands still is on the account of those who are late: a barrier waits for them, for four seconds
or more in all. Several share it equally. While nobody is late, a partition is on the account of its owner if that is
gone, and else on the account of whoever began the rebalance of its own accord.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from ottla.observe.why.causes import Cause
from ottla.observe.why.model import Episode, Trigger

WORTH_BLAME_MS = 1_000
"""For less nobody is the culprit but who began it."""
LATE_MS = 3_000 + WORTH_BLAME_MS
"""Members that come sooner are not late: they hear of a rebalance by a heartbeat, every three seconds by default."""
NOBODYS_DOING = frozenset(
    (
        Cause.COOPERATIVE_FOLLOW_UP,
        Cause.GENERATION_LOST_ON_LOAD,
        Cause.GROUP_UPGRADED,
        Cause.GROUP_DOWNGRADED,
        Cause.TOOK_OVER_FROM_CLASSIC,
        Cause.DOWNGRADE_REFUSED,
        Cause.GROUP_STARTED,
        Cause.RACK_CHANGED,
        Cause.REGEX_RESOLVED,
        Cause.REMOVED_BY_ADMIN,
        Cause.TOPIC_METADATA_CHANGED,
        Cause.UNKNOWN,
    )
)
"""Causes that a member does not begin of its own accord: the broker, an administrator or its assignor made it."""
CLEAN_ENDS = frozenset((Cause.LEFT_CLOSED, Cause.LEFT_UNSUBSCRIBED, Cause.LEFT_WITH_REASON, Cause.LEFT_WITHOUT_REASON))
"""Nobody is to blame for the last of these: the group is empty then, and nobody waits for anything."""


class Late(NamedTuple):
    """A member, by its index, for which others waited from a moment to another one."""

    member: int
    from_ms: int
    until_ms: int


class Still(NamedTuple):
    """Partitions that stood still from a moment on.

    Attributes:
        partitions: how many.
        account: the index of whom that is put down to while nobody is late, -1 for nobody.
        until_ms: when they did no more, if that was before the moment that is asked about.
    """

    since_ms: int
    partitions: int
    account: int
    until_ms: int = 1 << 62


class Accounts(NamedTuple):
    """Time that is put down to members, by their index.

    Attributes:
        blamed_ms: partition-milliseconds; together they are what stood still, but for what is put down to nobody.
        longest_ms: for how long a partition stood still on this account, at most.
    """

    blamed_ms: dict[int, int]
    longest_ms: dict[int, int]


def divide(still: Iterable[Still], late: Sequence[Late], until_ms: int) -> Accounts:
    """Put down what stood still until a moment.

    It takes one pass over the moments at which anything changes: groups of thousands of members are of one second, too.
    """
    rows = [row for row in still if row.partitions and row.since_ms < min(row.until_ms, until_ms)]
    blamed: dict[int, int] = {}
    longest: dict[int, int] = {}
    if not rows:
        return Accounts(blamed, longest)
    begin_ms = min(row.since_ms for row in rows)
    clipped = (Late(one.member, max(one.from_ms, begin_ms), min(one.until_ms, until_ms)) for one in late)
    waits = [one for one in clipped if one.from_ms < one.until_ms]
    nobody_late, each = _clocks(rows, waits, until_ms)
    for row in rows:
        if row.account < 0:
            continue
        for_ms = nobody_late[min(row.until_ms, until_ms)] - nobody_late[row.since_ms]
        blamed[row.account] = blamed.get(row.account, 0) + row.partitions * for_ms
        longest[row.account] = max(longest.get(row.account, 0), for_ms)
    shares = [each[one.until_ms] - each[one.from_ms] for one in waits]
    for one, share in zip(waits, _whole(shares), strict=True):
        blamed[one.member] = blamed.get(one.member, 0) + share
        longest[one.member] = longest.get(one.member, 0) + one.until_ms - one.from_ms
    return Accounts(blamed, longest)


def _clocks(rows: Sequence[Still], waits: Sequence[Late], until_ms: int) -> tuple[dict[int, int], dict[int, float]]:
    """At each moment at which anything changes: for how long nobody was late, and the share of one who always was."""
    steps: dict[int, tuple[int, int]] = {until_ms: (0, 0)}  # how many more stand still, and are late, from then on

    def step(at_ms: int, partitions: int, members: int) -> None:
        before = steps.get(at_ms, (0, 0))
        steps[at_ms] = before[0] + partitions, before[1] + members

    for row in rows:
        step(row.since_ms, row.partitions, 0)
        if row.until_ms < until_ms:
            step(row.until_ms, -row.partitions, 0)
    for one in waits:
        step(one.from_ms, 0, 1)
        step(one.until_ms, 0, -1)
    nobody_late: dict[int, int] = {}
    each: dict[int, float] = {}
    before_ms = partitions = members = alone_ms = 0
    share = 0.0
    for at_ms in sorted(steps):
        if members:
            share += partitions * (at_ms - before_ms) / members
        elif partitions:
            alone_ms += at_ms - before_ms
        nobody_late[at_ms], each[at_ms] = alone_ms, share
        partitions += steps[at_ms][0]
        members += steps[at_ms][1]
        before_ms = at_ms
    return nobody_late, each


def _whole(shares: Sequence[float]) -> list[int]:
    """The same as whole numbers with the same sum: what is left over goes to who lacks most."""
    whole = [int(share) for share in shares]
    left = round(sum(shares)) - sum(whole)
    for at in sorted(range(len(shares)), key=lambda at: whole[at] - shares[at])[:left]:
        whole[at] += 1
    return whole


def beginner(triggers: Sequence[Trigger], cause: str = "") -> int:
    """The index of who began it of its own accord; -1 for nobody.

    Args:
        cause: the class of the episode, if it is known: that of a pattern tells who it is about.
    """
    if not triggers:
        return -1
    first = next((one for one in triggers if one.cause == cause), triggers[0]) if cause else triggers[0]
    if first.cause == Cause.REGEX_RESOLVED and first.facts.get("matched") == "0":
        return first.member  # it is misspelt, or too early
    return -1 if first.cause in NOBODYS_DOING or "topic" in first.facts else first.member


def culprit(episode: Episode, longest_ms: dict[int, int], late: Iterable[Late]) -> int:
    """The index of the culprit; -1 if there is none.

    Args:
        longest_ms: as in `Accounts`; late: who was late, whether or not anything is known to have stood still.
    """
    began = beginner(episode.triggers, episode.cause)
    members = episode.members
    accounts = {at: members[at].blamed_ms for at, for_ms in longest_ms.items() if for_ms >= WORTH_BLAME_MS}
    if not accounts:
        waited: dict[int, int] = {}
        for one in late:
            waited[one.member] = waited.get(one.member, 0) + one.until_ms - one.from_ms
        accounts = waited
    if accounts:
        return max(accounts, key=lambda at: (accounts[at], at == began, -at))
    if episode.outcome == "empty" and episode.cause in CLEAN_ENDS:
        return -1
    return began
