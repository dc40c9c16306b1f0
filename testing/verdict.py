"""What the clients of a failure saw, held against what its file says that they must see."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from ottla.observe.why.plain import count, listed
from ottla.testing.cast import Place, Sight

if TYPE_CHECKING:
    from ottla.observe.why.model import Episode
    from ottla.workbench.failures import Expect

_CAME_OR_WENT = ("assigned", "revoked", "lost")


class Finding(NamedTuple):
    """Something that must be so, in words, and whether it is."""

    text: str
    is_so: bool


class Sights:
    """All that the clients saw, in the order in which it was heard."""

    def __init__(self) -> None:
        self._all: list[tuple[str, Sight]] = []

    def add(self, role: str, sight: Sight) -> None:
        """Take in what a role saw."""
        self._all.append((role, sight))

    def read(self, role: str) -> int:
        """How many records a role read."""
        return sum(len(one.rows) for one in self._of(role, "read"))

    def owned(self, role: str) -> set[Place]:
        """The partitions that a role has, as far as its client knows."""
        owned: set[Place] = set()
        for sight in self._of(role, *_CAME_OR_WENT, "closed"):
            if sight.what == "assigned":
                owned |= set(sight.places)
            else:
                owned -= set(sight.places) or owned
        return owned

    def errors(self, role: str) -> list[str]:
        """The names of the errors that a role was told of, in order, each once."""
        return list(dict.fromkeys(sight.text for sight in self._of(role, "error", "refused")))

    def of(self, role: str) -> dict[str, Any]:
        """All that can be asked for of what a role saw; the keys are those of `Sees`."""
        return {
            **{what: len(self._of(role, what)) for what in _CAME_OR_WENT},
            "owns": len(self.owned(role)),
            "read": self.read(role),
            "again": self._again(role),
            "errors": self.errors(role),
        }

    def _of(self, role: str, *kinds: str) -> list[Sight]:
        return [sight for who, sight in self._all if who == role and sight.what in kinds]

    def _again(self, role: str) -> int:
        known: set[tuple[str, int, int]] = set()
        again = 0
        for who, sight in self._all:
            if sight.what == "read":
                again += len(known.intersection(sight.rows)) if who == role else 0
                known.update(sight.rows)
        return again


def findings(
    expect: Expect,
    cast: str,
    sights: Sights,
    episodes: list[Episode],
    offsets: Mapping[str, int],
    hits: Mapping[str, int],
) -> Iterator[Finding]:
    """What must be so, and whether it is.

    Args:
        cast: the name of the cast that played.
        offsets: those that the group has committed, by partition: ``orders-0``.
        hits: by the name of each fault, how often it fired.
    """
    for role in dict.fromkeys([*expect.sees, *expect.differs.get(cast, {})]):
        sees = sights.of(role)
        for what, wanted in expect.seen_by(role, cast).items():
            yield _equal(f"{role} sees {_counted(what, wanted)}", wanted, sees[what])
    for cause, culprit in expect.why.items():
        yield _told(cause, culprit, episodes)
    if expect.rebalances is not None:
        number = sum(one.kind == "rebalance" and one.outcome != "empty" for one in episodes)
        yield _equal(f"the group rebalances {_times(expect.rebalances)}", expect.rebalances, number)
    for place, offset in expect.offsets.items():
        yield _equal(f"{place} is committed up to {offset}", offset, offsets.get(place))
    for name, number in hits.items():
        yield Finding(f"the fault {name!r} fires", number > 0)


def _equal(text: str, wanted: object, found: object) -> Finding:
    return Finding(text if wanted == found else f"{text}, not {_plain(found)}", wanted == found)


def _told(cause: str, role: str | None, episodes: list[Episode]) -> Finding:
    every = [pair for one in episodes for pair in _named(one)]
    named = dict.fromkeys(who for told, who in every if told == cause)
    text = f"`ottla why` tells of {cause}" + ("" if role is None else f" by {role}")
    if not named:
        return Finding(f"{text}, not {', '.join(dict.fromkeys(told for told, _ in every)) or 'nothing'}", False)
    if role is None or role in named:
        return Finding(text, True)
    return Finding(f"{text}, and names {listed(list(filter(None, named)))}", False)


def _named(episode: Episode) -> Iterator[tuple[str, str]]:
    """Each cause of an episode, with the client that it names; empty for nobody."""
    names = [one.client_id for one in episode.members]
    yield episode.cause, names[episode.culprit] if episode.culprit >= 0 else ""
    for one in episode.triggers:
        yield one.cause, names[one.member] if one.member >= 0 else ""


# words


def seen(sight: Sight) -> str:
    """What a client saw, in words; empty if that is not worth telling."""
    places = listed([f"{topic}-{partition}" for topic, partition in sight.places])
    match sight.what:
        case "assigned":
            return f"is given {places}"
        case "revoked":
            return f"gives up {places}"
        case "lost":
            return f"learns that it has lost {places}"
        case "read":
            return f"reads {count(len(sight.rows), 'record')}"
        case "done":
            return {"commit": "has committed", "end": "has committed its transaction"}.get(sight.word, "")
        case "refused":
            return f"is refused the {'transaction' if sight.word == 'end' else sight.word}: {sight.text}"
        case "error":
            return f"is told {sight.text}"
        case "logged":
            return f"logs: {sight.text}"
    return "has left" if sight.what == "closed" else ""


def summary(sees: Mapping[str, Any]) -> str:
    """What a client saw in all, in a line."""
    parts = [f"{what} {_times(number)}" for what in _CAME_OR_WENT if (number := sees[what])]
    read = count(sees["read"], "record") + (f" ({sees['again']} of them again)" if sees["again"] else "")
    parts.append(f"read {read}")
    return "; ".join([*parts, *([f"told {listed(sees['errors'])}"] if sees["errors"] else [])])


def _counted(what: str, wanted: Any) -> str:
    match what:
        case "errors":
            return ", ".join(wanted) or "no error"
        case "read":
            return count(wanted, "record")
        case "again":
            return f"{count(wanted, 'record')} again" if wanted else "no record again"
        case "owns":
            return f"{count(wanted, 'partition')} of its own in the end"
    return f"partitions {what} {_times(wanted)}" if wanted else f"no partitions {what}"


def _times(number: int) -> str:
    return {0: "never", 1: "once", 2: "twice"}.get(number, f"{number} times")


def _plain(found: Any) -> str:
    if isinstance(found, list):
        return ", ".join(map(str, found)) or "none"
    return "nothing" if found is None else str(found)
