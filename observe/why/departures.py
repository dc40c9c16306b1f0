"""Members that are gone, kept to recognise those that come back and to see patterns."""

from __future__ import annotations

from dataclasses import dataclass, field

from ottla.broker.core.events import Disconnected, MemberReplaced, RequestRefused
from ottla.observe.why.causes import Cause
from ottla.observe.why.members import NEVER, Departure, Known

WINDOW_MS = 600_000
"""Within this time comings and goings make a pattern."""
RETURN_MS = 3_600_000
"""After this time nobody is said to have come back."""
FEW_DEPARTURES, MOST_DEPARTURES = 16, 512
"""So many are remembered of a group, and two more for each member."""
MOST_PER_MEMBER = 16
FLAPS = 3
"""So many departures of one member within the window make it flap."""
AT_CLOSE_MS = 2_000
"""A connection that is lost this soon after its member left was closed with it."""
RESTARTS = frozenset(
    (
        Cause.LEFT_CLOSED,
        Cause.LEFT_WITHOUT_REASON,
        Cause.LEFT_WITH_REASON,
        Cause.STATIC_MEMBER_REPLACED,
    )
)
"""The ways in which a member goes that is restarted; one that crashes is not said to have been restarted."""


def _own(known: Known) -> list[int]:
    """The departures of a member as a list that it shares with its successors."""
    return known.departures if isinstance(known.departures, list) else []


@dataclass(slots=True, eq=False)
class Departures:
    """The last departures of a group, oldest first.

    Attributes:
        replaced_ids: static members that came back with another id, by the old one.
        emptied_ms: when nobody was left, Unix time: who went until then went with all the others.
    """

    emptied_ms: int = NEVER
    recent: list[Departure] = field(default_factory=list)
    replaced_ids: dict[str, Departure] = field(default_factory=dict)

    def gone(self, departure: Departure, members: int) -> None:
        """A member is gone.

        Args:
            members: how many are left: the larger a group, the more departures are one story.
        """
        of_member = departure.known.departures = _own(departure.known)
        of_member.append(departure.wall_ms)
        del of_member[:-MOST_PER_MEMBER]
        for earlier in reversed(self.recent):
            if earlier.known.is_bare:
                break
            if earlier.at_ms != departure.at_ms:
                earlier.known.strip()  # what it had was handed on when its input was over
        self.recent.append(departure)
        most = min(FEW_DEPARTURES + 2 * members, MOST_DEPARTURES)
        if len(self.recent) > most:
            del self.recent[:-most]

    def returned(self, known: Known, wall_ms: int) -> Departure | None:
        """Whose place a member takes that joins, if it is that of one who is gone.

        Of several who look alike it is the one that went last.
        """
        for departure in reversed(self.recent):
            if wall_ms - departure.wall_ms > RETURN_MS:
                return None
            if departure.back_ms == NEVER and departure.known.place == known.place:
                departure.back_ms = wall_ms
                own = departure.known.departures = known.departures = _own(departure.known)
                if departure.known.is_classic != known.is_classic and own:
                    own.pop()  # it went to come back with the other protocol
                return departure
        return None

    def replaced(self, known: Known, event: MemberReplaced, members: int) -> None:
        """A static member came back with another id, while its old one was a member."""
        old = Known(event.old_member_id, known.client_id, known.client_host, known.group_instance_id)
        old.departures = known.departures = _own(known)
        departure = Departure(old, Cause.STATIC_MEMBER_REPLACED, event.at_ms, event.wall_ms)
        departure.back_ms = event.wall_ms
        self.gone(departure, members)
        self.replaced_ids[event.old_member_id] = departure
        while len(self.replaced_ids) > min(FEW_DEPARTURES + members, MOST_DEPARTURES):
            del self.replaced_ids[next(iter(self.replaced_ids))]

    def of(self, member_id: str) -> Departure | None:
        """The last departure of a member."""
        return next((one for one in reversed(self.recent) if one.known.member_id == member_id), None)

    def closed(self, event: Disconnected) -> Departure | None:
        """A connection is lost whose member is gone already."""
        departure = self.of(event.member_id)
        if departure is not None and departure.closed_ms == NEVER:
            departure.closed_ms = event.at_ms
        return departure

    def heard(self, event: RequestRefused) -> None:
        """A member that is gone asks for something as if it were not."""
        departure = self.of(event.member_id)
        if departure is not None and departure.heard_ms == NEVER:
            departure.heard_ms = event.at_ms

    def flaps(self, known: Known, wall_ms: int) -> int:
        """Number of times that a member left or was removed within the window."""
        return sum(when_ms > wall_ms - WINDOW_MS for when_ms in known.departures)

    def restarted(self, wall_ms: int) -> int:
        """Number of members that went and came back within the window, each once, while others stayed."""
        since_ms = max(wall_ms - WINDOW_MS, self.emptied_ms)
        chains: dict[int, list[Departure]] = {}
        for departure in self.recent:
            if departure.wall_ms > since_ms:
                chains.setdefault(id(departure.known.departures), []).append(departure)
        return sum(
            len(chain) == 1 and chain[0].back_ms != NEVER and chain[0].cause in RESTARTS for chain in chains.values()
        )
