"""The flight recorder: every event of the coordinator, in a bounded ring in memory.

Each event gets a number, ``seq``, is written as msgpack once, and is kept with the others of its group. The memory is
shared fairly: when it is full, the group that holds most loses its oldest events first. What commits leave behind has
a lane of its own in each group, and a share of the memory of its own, so that it never pushes rebalances out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec

from ottla.broker.core.events import (
    AppendFinished,
    AssignmentsPublished,
    BarrierClosed,
    BarrierOpened,
    CommitNote,
    CommitReceived,
    Event,
    FetchParked,
    GroupLoaded,
    JoinReceived,
    LeaveReceived,
    NamedBytes,
    Observer,
    OffsetDeleteReceived,
    OffsetsCommitted,
    RequestAnswered,
    RequestReceived,
    RequestRefused,
    SyncReceived,
    TxnCommitReceived,
    commit_event,
)
from ottla.observe.recorder_lanes import Lanes, head
from ottla.observe.recorder_notes import BY_TOPIC_ID, PACKED, packed, unpacked

if TYPE_CHECKING:
    from ottla.observe.recorder_hashes import Hashes
    from ottla.observe.recording_writer import RecordingWriter

Follower: TypeAlias = Callable[[int, Event], None]
"""Takes a number and its event; must be quick."""

TRAFFIC_SHARE = 4
"""Traffic has at least one part in so many of the memory; more only as long as nothing else needs it."""

BATCH = 256
"""So many events are written at once, if none of them is large."""
TOGETHER = 8
"""So many events of a group are added to its lane at once; it gives way in pieces of that size."""
FEW = 8
"""Requests about so many offsets, protocols and members wait for others; larger ones are written as they come."""
FEW_BYTES = 4096

LARGEST_SHARE = 8
"""An event that takes more than one part in so many of the memory is not kept: it would push all others out."""


class Recorder(Observer):
    """An observer that remembers; see the module.

    Args:
        budget_bytes: how much memory it may use.
        hashes: makes group ids or client hosts unrecognizable in all that is kept and passed on.

    Attributes:
        wants_all: whether every single event is recorded. Without a file those are left out that say that a commit
            succeeded: that it is durable, and answered. One that failed is told.
        file: what writes every event to a file, if something does.
        last_seq: the number of the newest event.
        dropped_events: how many are not in the ring any more.
    """

    wants_requests = True

    def __init__(self, budget_bytes: int, *, hashes: Hashes | None = None, wants_all: bool = False) -> None:
        self.wants_all = wants_all
        self.last_seq = 0
        self.dropped_events = 0
        self.budget_bytes = budget_bytes
        self.hashes = hashes
        self.file: RecordingWriter | None = None
        self._encode = msgspec.msgpack.Encoder().encode
        self._calm, self._traffic = Lanes(), Lanes()
        self._new: list[Any] = []  # events and notes of commits that are not written yet
        self._largest_bytes = budget_bytes // LARGEST_SHARE
        self._followers: tuple[Follower, ...] = ()

    @property
    def memory_bytes(self) -> int:
        """Bytes that the ring takes."""
        self._write()
        return self._calm.size_bytes + self._traffic.size_bytes

    @property
    def file_failed(self) -> bool | None:
        """True once the file cannot be written any more; None if there is none."""
        return None if self.file is None else bool(self.file.failed)

    @property
    def file_lost_events(self) -> int:
        """Number of events that the file lacks, because the disk was too slow or they were too large."""
        return 0 if self.file is None else self.file.lost_events

    def __call__(self, event: Event) -> None:
        if event.__class__ is OffsetsCommitted and not self.wants_all and _is_expected(event):
            return
        if self.hashes is not None:
            event = self.hashes(event)
        self.last_seq += 1
        self._new.append(event)
        if self._followers:
            self._write()
            for follower in self._followers:
                follower(self.last_seq, event)
            return
        is_large = _LARGE.get(event.__class__)
        if len(self._new) >= BATCH or (is_large is not None and is_large(event)):
            self._write()
        elif self.file is not None:
            if is_traffic(event):
                self.file.expect()
            else:
                self._write()  # the file shall have what happens rarely at once

    def note_commit(self, note: CommitNote) -> None:
        if 0 < len(note[7]) <= FEW_BYTES and not note[8] and note[4] < BY_TOPIC_ID and self._keeps_notes:
            self.last_seq += 1
            self._new.append(note)
            if len(self._new) >= BATCH:
                self._write()
        else:
            self(commit_event(note))

    @property
    def _keeps_notes(self) -> bool:
        """True if nobody wants events but those who ask for them later."""
        return self.hashes is None and self.file is None and not self._followers

    def write_new(self) -> None:
        """Write what has waited for others."""
        self._write()

    def _write(self) -> None:
        """Write new events to the ring and the file: many at once."""
        new, self._new = self._new, []
        seq, encode, file, largest = self.last_seq - len(new), self._encode, self.file, self._largest_bytes
        calm: dict[str, list[bytes]] = {}
        traffic: dict[str, list[bytes]] = {}
        for event in new:
            seq += 1
            if event.__class__ is tuple:
                group_id, entry, lanes = event[3].group_id, packed(seq, event), traffic
            else:
                group_id, data = event.group_id, encode(event)
                lanes = traffic if is_traffic(event) else calm
                entry = head(seq, len(data)) + data
                if file is not None:
                    file.write(seq, data, event)
            if len(entry) > largest:
                self.dropped_events += 1
                continue
            entries = lanes.get(group_id)
            if entries is None:
                entries = lanes[group_id] = []
            entries.append(entry)
        for found, kept in ((calm, self._calm), (traffic, self._traffic)):
            for group_id, entries in found.items():
                for first in range(0, len(entries), TOGETHER):
                    some = entries[first : first + TOGETHER]
                    kept.add(group_id, b"".join(some), len(some))
        if self._calm.size_bytes + self._traffic.size_bytes > self.budget_bytes:
            self._make_room()

    def _make_room(self) -> None:
        calm, traffic, budget_bytes = self._calm, self._traffic, self.budget_bytes
        while calm.size_bytes + traffic.size_bytes > budget_bytes:
            crowded = traffic if traffic.size_bytes * TRAFFIC_SHARE > budget_bytes or not calm else calm
            self.dropped_events += crowded.evict()

    def events(self, group_id: str, after: int = 0, limit: int = 1000) -> list[tuple[int, bytes]]:
        """The first events of a group with a higher number than ``after``, oldest first: number, and msgpack.

        What happened to a whole partition has the empty group id.
        """
        self._write()
        if self.hashes is not None and group_id not in self._calm.by_name and group_id not in self._traffic.by_name:
            group_id = self.hashes.group(group_id)
        lanes = self._calm, self._traffic
        found = [item for one in lanes for item in islice(one.read(group_id, after), limit)]
        found.sort()
        return [(seq, unpacked(data) if data[:1] == PACKED else data) for seq, data in found[:limit]]

    def group_ids(self) -> list[str]:
        """The groups of which there are events, without the empty id."""
        self._write()
        known = dict.fromkeys([*self._calm.by_name, *self._traffic.by_name])
        return [group_id for group_id in known if group_id]

    def subscribe(self, follower: Follower) -> Callable[[], None]:
        """Pass each event on from now on. What is returned ends that."""
        self._followers = (*self._followers, follower)

        def unsubscribe() -> None:
            self._followers = tuple(one for one in self._followers if one is not follower)

        return unsubscribe


def _is_long(named: Sequence[NamedBytes]) -> bool:
    for one in named:
        if len(one.data) > FEW_BYTES:
            return True
    return len(named) > FEW


_LARGE: dict[type[Event], Callable[[Any], bool]] = {
    AssignmentsPublished: lambda event: len(event.assignments) > FEW,
    BarrierClosed: lambda event: len(event.absent) > FEW,
    BarrierOpened: lambda event: len(event.awaited) > FEW,
    CommitReceived: lambda event: len(event.commits) > FEW,
    FetchParked: lambda event: len(event.wanted) > FEW,
    GroupLoaded: lambda event: True,
    JoinReceived: lambda event: _is_long(event.protocols),
    LeaveReceived: lambda event: len(event.leaving) > FEW,
    OffsetDeleteReceived: lambda event: len(event.deletions) > FEW,
    OffsetsCommitted: lambda event: len(event.moved_back) > FEW,
    SyncReceived: lambda event: event.assignments and _is_long(event.assignments),
    TxnCommitReceived: lambda event: len(event.commits) > FEW,
}
"""Types of events that may take much memory, and a test of it: such an event does not wait for others."""


def _is_expected(event: Event) -> bool:
    """True if offsets were committed as they were asked to be, and that is all."""
    return not event.moved_back and event.producer_id < 0  # type: ignore[attr-defined]


_ALWAYS: tuple[type[Event], ...] = (CommitReceived, OffsetsCommitted, TxnCommitReceived)
_BY_API = frozenset((RequestReceived, RequestAnswered, RequestRefused))
_APIS = frozenset(("OffsetCommit", "TxnOffsetCommit", "OffsetFetch", "Heartbeat"))


def is_traffic(event: Event) -> bool:
    """True if an event only says that offsets were committed or asked for, or that a heartbeat was refused."""
    kind = event.__class__
    if kind in _ALWAYS:
        return True
    if kind in _BY_API:
        return event.api in _APIS  # type: ignore[attr-defined]
    return kind is AppendFinished and event.what == "offsets"  # type: ignore[attr-defined]
