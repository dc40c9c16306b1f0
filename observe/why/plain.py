"""Times, durations and names as people say them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime, tzinfo
from itertools import groupby

from ottla.observe.why.model import HERE, Episode, MemberPart, Wait

SHORT_ID = 8
MOST_NAMES = 4
MANY_IN_A_ROW = 3
NAMELESS = "a client without a name"
"""Names a member that was turned away before it had an id, and has no client id."""


def duration(ms: int) -> str:
    """``45 ms``, ``1.2 s``, ``2 min 5 s``, ``3 h 10 min``."""
    if ms < 1_000:
        return f"{ms} ms"
    if ms < 119_950:
        return f"{ms / 1_000:.1f} s"
    minutes, seconds = divmod(round(ms / 1_000), 60)
    if minutes < 60:
        return f"{minutes} min {seconds} s" if seconds else f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if minutes else f"{hours} h"


def limit(ms: int) -> str:
    """A duration that somebody set: ``45 s``, without a fraction that it does not have; empty for none."""
    if not ms:
        return ""
    return f"{ms // 1_000} s" if ms % 1_000 == 0 and ms < 120_000 else duration(ms)


def partition_time(ms: int) -> str:
    """Partition-milliseconds as partition-seconds."""
    seconds = ms / 1_000
    return f"{seconds:,.1f} partition-seconds" if seconds < 1_000 else f"{seconds:,.0f} partition-seconds"


def clock(wall_ms: int, zone: tzinfo | None = None) -> str:
    """``12:03:04.120``, by the local clock unless a time zone is given."""
    when = datetime.fromtimestamp(wall_ms // 1_000, zone)
    return f"{when:%H:%M:%S}.{wall_ms % 1_000:03d}"


def count(number: int, noun: str) -> str:
    """``1 partition``, ``1,200 partitions``."""
    return f"{number:,} {noun}{'s' * (number != 1)}"


def listed(names: Sequence[str], most: int = MOST_NAMES) -> str:
    """``a``, ``a and b``, ``a, b, c and 4 others``."""
    if not names:
        return "nobody"
    shown = list(names[:most])
    left = len(names) - len(shown)
    if left == 1:
        shown, left = list(names), 0
    if left:
        return f"{', '.join(shown)} and {left} others"
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"


def epoch_of(episode: Episode) -> str:
    """``epoch 4`` of a rebalance of a consumer group; empty for all others."""
    has_epoch = episode.protocol and episode.kind == "rebalance" and episode.generation_after >= 0
    return f"epoch {episode.generation_after}" if has_epoch else ""


def ranges(partitions: Iterable[str]) -> list[str]:
    """Partitions, such as ``orders-3``; three or more that follow one another are ``orders-3 to 5``."""
    found = []
    for topic, names in groupby(partitions, lambda name: name.rpartition("-")[0]):
        for first, last in runs(int(name.rpartition("-")[2]) for name in names):
            if last - first + 1 >= MANY_IN_A_ROW:
                found.append(f"{topic}-{first} to {last}")
            else:
                found += [f"{topic}-{number}" for number in range(first, last + 1)]
    return found


def runs(numbers: Iterable[int]) -> list[tuple[int, int]]:
    """The first and the last of numbers that follow one another."""
    found: list[tuple[int, int]] = []
    for number in numbers:
        if found and number == found[-1][1] + 1:
            found[-1] = found[-1][0], number
        else:
            found.append((number, number))
    return found


def member_names(episode: Episode) -> list[str]:
    """Names of the members: the instance id, or the client id, with a piece of its member id if several share it.

    A process that came back as another member is told apart from what it was before in the same way.
    """
    return told_apart([(plain_name(part), part.member_id, part.client_id) for part in episode.members])


def told_apart(rows: Sequence[tuple[str, str, str]]) -> list[str]:
    """Names of members, of each one's name, member id and client id: a name that several share is made longer."""
    often = Counter(name for name, _, _ in rows)
    return [row[0] if often[row[0]] == 1 else _full_name(*row) for row in rows]


def plain_name(part: MemberPart) -> str:
    """Its instance id or its client id: the same for all that one application was, whatever its member ids."""
    return part.group_instance_id or part.client_id or part.member_id or NAMELESS


def application(episode: Episode, index: int) -> str:
    """The name that all member ids of one application share, or that it is one of several with it.

    Who returned while the episode ran is taken for who went in it, if they have one name.
    """
    part = episode.members[index]
    name = plain_name(part)
    others = HERE if part.fate in HERE else [fate for fate in HERE if fate != "returned"]
    here = sum(one.fate in others and plain_name(one) == name for at, one in enumerate(episode.members) if at != index)
    return f"one of {here + 1} members called {name}" if here else name


def _full_name(name: str, member_id: str, client_id: str) -> str:
    rest = member_id.removeprefix(f"{name}-").removeprefix(f"{client_id}-")
    return f"{name}-{rest[:SHORT_ID]}" if rest else name


def awaited(episode: Episode, wait: Wait) -> list[int]:
    """Members that an open barrier waits for; at the sync barrier the leader before all others."""
    members = episode.members
    here = [at for at, part in enumerate(members) if part.fate in HERE]
    if wait.barrier == "sync":
        leader = [at for at in here if members[at].is_leader and members[at].synced_ms < 0]
        return leader or [at for at in here if members[at].synced_ms < 0]
    return [at for at in here if members[at].came_ms < 0]


def host(part: MemberPart) -> str:
    """Its host, without the slash that Kafka puts before an address."""
    return part.client_host.removeprefix("/")


def quoted(words: str) -> str:
    """Somebody's own words."""
    return f'"{words.strip().rstrip(".")}"'


def sentence(parts: Iterable[str], names: Iterable[str] = ()) -> str:
    """One sentence of several clauses, with a capital letter unless it begins with one of these names."""
    text = "; ".join(part for part in parts if part)
    if not text.startswith(tuple(names)):
        text = text[:1].upper() + text[1:]
    return text + ("" if text.endswith((".", "?", "!")) else ".")
