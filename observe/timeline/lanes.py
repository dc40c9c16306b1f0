"""Lanes while a timeline is made: who has which, and what has been said about it so far."""

from __future__ import annotations

from dataclasses import dataclass

from ottla.observe.snapshot import MemberState
from ottla.observe.timeline.model import FATES, Kind, Lane, Tenant
from ottla.observe.why.model import Fault, MemberPart


@dataclass(slots=True, eq=False)
class Track:
    """A lane and its present end."""

    index: int
    lane: Lane
    is_gone: bool = True
    at: int = 0
    owns: int = 0

    @property
    def kind(self) -> Kind:
        """Its state at its present end."""
        return Kind(self.lane.changes[-2]) if self.lane.changes else Kind.GONE

    def tenant(self, at: int, member_id: str) -> None:
        """Give the lane to this member from ``at`` on."""
        tenants = self.lane.tenants
        if not tenants or tenants[-1].member_id != member_id:
            tenants.append(Tenant(at, member_id))

    def change(self, at: int, kind: Kind, count: int = 0) -> None:
        """Set its state from ``at`` on; a time before the last change counts as that."""
        changes = self.lane.changes
        at = max(at, self.at)
        if changes and changes[-2] == kind and changes[-1] == count:
            return
        if changes and changes[-3] == at:
            del changes[-3:]
            if changes and changes[-2] == kind and changes[-1] == count:
                return
        changes += (at, int(kind), count)
        self.at = at
        self.owns = count
        self.is_gone = kind is Kind.GONE

    def through(self, start: int, came: int, joined: int, synced: int, end: int, count: int) -> None:
        """It goes through a whole rebalance. Some of the changes may hold for no time at all."""
        self.lane.changes += (start, 2, 0, came, 3, 0, joined, 4, 0, synced, 5, 0, end, 1, count)
        self.at = end
        self.owns = count

    def begin(self, part: MemberPart, count: int) -> None:
        """It was there before the first thing that is known of it."""
        at = self.at if self.lane.changes else 0
        self.tenant(at, part.member_id)
        self.change(at, Kind.OWNING, count)

    def silent(self, since: int) -> None:
        """Nothing was heard of it since then, whatever was assumed meanwhile."""
        changes = self.lane.changes
        while len(changes) > 3 and changes[-3] >= since:
            del changes[-3:]
        self.at = changes[-3] if changes else 0
        self.change(since, Kind.SILENT)

    def gone(self, at: int, fate: str) -> None:
        """It is no member any more."""
        self.change(at, Kind.GONE, FATES.index(fate))


class Lanes:
    """All lanes of a timeline."""

    def __init__(self, most: int) -> None:
        self.shown: list[Lane] = []
        self.tracks: list[Track] = []
        self.hidden = 0
        self._most = most
        self._of_id: dict[str, Track] = {}
        self._of_key: dict[tuple[str, ...], list[Track]] = {}

    def of(self, part: MemberPart, kind: str, at: int) -> Track | None:
        """The lane of a member of an episode; None if it has none."""
        is_none = part.fate in ("refused", "vanished") or kind == "refusal"
        if is_none and part.member_id not in self._of_id:
            return None
        track = self.now(part, at + max(part.came_ms, 0))
        if track is not None and (kind == "replacement" or not track.is_gone) and part.fate != "replaced":
            track.tenant(at + max(part.came_ms, 0), part.member_id)
        return track

    def now(self, member: MemberState | MemberPart, at: int) -> Track | None:
        """The lane of a member that is there at a time; None if it has none."""
        track = self._of_id.get(member.member_id)
        if track is None:
            track = self._free(member.client_id, member.client_host, member.group_instance_id, at)
            if track is not None:
                self._of_id[member.member_id] = track
        return track

    def hit(self, fault: Fault) -> Lane | None:
        """The lane of the member whose requests a fault took hold of; None if nobody can tell."""
        if (track := self._of_id.get(fault.member_id)) is not None:
            return track.lane
        same = [lane for lane in self.shown if lane.client_id == fault.client_id]
        return same[0] if len(same) == 1 else None

    def _free(self, client_id: str, client_host: str, instance_id: str | None, at: int) -> Track | None:
        """The lane of the same static member, or that of a gone member of the same client, or a new one."""
        # A static member keeps its lane whatever it does; a dynamic one's is free once it is gone.
        key = ("static", instance_id) if instance_id is not None else ("dynamic", client_id, client_host)
        known = self._of_key.setdefault(key, [])
        for track in reversed(known):
            if instance_id is not None or (track.is_gone and track.at <= at):
                return track
        if len(self.shown) >= self._most:
            self.hidden += 1
            return None
        lane = Lane(client_id=client_id, client_host=client_host, group_instance_id=instance_id)
        track = Track(len(self.shown), lane)
        self.shown.append(lane)
        self.tracks.append(track)
        known.append(track)
        return track
