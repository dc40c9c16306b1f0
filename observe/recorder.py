"""The flight recorder: every event of the coordinator, in a bounded ring in memory.

Each event gets a number, ``seq``, is written as msgpack once, and is kept with the others of its group. The memory is
shared fairly: when it is full, the group that holds most loses its oldest events first. What commits leave behind has
a lane of its own in each group, and a share of the memory of its own, so that it never pushes rebalances out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from operator import itemgetter
from typing import TYPE_CHECKING, Any, TypeAlias

from msgspec import Raw
from msgspec.msgpack import Decoder, Encoder

from ottla.broker.core.events import (
    AppendFinished,
    CommitNote,
    CommitReceived,
    Event,
    Observer,
    OffsetsCommitted,
    RequestAnswered,
    RequestReceived,
    RequestRefused,
    TxnCommitReceived,
    commit_event,
)
from ottla.observe.recorder_lanes import Lanes, head
from ottla.protocol.messages.offset_commit import OffsetCommitRequest

if TYPE_CHECKING:
    from ottla.observe.recorder_hashes import Hashes
    from ottla.observe.recording_writer import RecordingWriter

Follower: TypeAlias = Callable[[int, Event], None]
"""Takes a number and its event; must be quick."""

BY_TOPIC_ID = 10
"""From this version on a commit has ids of topics and not their names, which are looked up before it is noted."""
LONGEST_NOTE_BYTES = 4096
"""A commit is kept as it was noted, without what its bytes say, if they are no more."""
_Note: TypeAlias = tuple[int, int, int, int, str, str, bytes]
_Row: TypeAlias = "tuple[int, Event | Raw | _Note]"
"""A number and its event: as it is, as msgpack, or a commit as it was noted."""

_encode = Encoder().encode
_decode_rows = Decoder(list[tuple[int, Raw]]).decode
_decode_note = Decoder(_Note).decode
_NOTE = 0x97
"""The first byte of an array of seven in msgpack; an event is a map."""

TRAFFIC_SHARE = 4
"""Traffic has at least one part in so many of the memory; more only as long as nothing else needs it."""

BATCH = 512
"""So many events are written at once, if none of them is large and no file wants them."""
TOGETHER = 16
"""So many events of a group are one entry of its lane at most; it gives way in pieces of that size."""
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
        dropped_events: how many are not in the ring any more.
    """

    wants_requests = True

    def __init__(self, budget_bytes: int, *, hashes: Hashes | None = None, wants_all: bool = False) -> None:
        self.wants_all = wants_all
        self._last_seq = 0
        self.dropped_events = 0
        self.budget_bytes = budget_bytes
        self.hashes = hashes
        self.file: RecordingWriter | None = None
        self._calm, self._traffic = Lanes(), Lanes()
        self._new: list[Any] = []  # events and notes of commits that are not written yet
        self._largest_bytes = budget_bytes // LARGEST_SHARE
        self._followers: tuple[Follower, ...] = ()

    @property
    def last_seq(self) -> int:
        """The number of the newest event."""
        self._write()
        return self._last_seq

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
        self.take([event])

    def note_commit(self, note: CommitNote) -> None:
        self.take([note])

    def take(self, events: Sequence[Event | CommitNote], *, holds: bool = True) -> None:
        """Take several events, or notes of commits, oldest first.

        Args:
            holds: they may wait for others.
        """
        self._new += events
        if not holds or len(self._new) >= BATCH or self.file is not None or self._followers:
            self._write_new()

    def _write(self) -> None:
        """Write all that has happened until now."""
        self.catch_up()
        self._write_new()

    def _write_new(self) -> None:
        """Write new events to the ring and the file: many at once."""
        events, self._new = self._new, []
        if not events:
            return
        hashes, file, wants_all = self.hashes, self.file, self.wants_all
        is_alone = hashes is None and file is None and not self._followers
        calm: dict[str, list[_Row]] = {}
        traffic: dict[str, list[_Row]] = {}
        followed: list[tuple[int, Event]] = []
        seq = self._last_seq
        row: Event | Raw
        for event in events:
            seq += 1
            kind = event.__class__
            if is_alone and kind not in _MAYBE_TRAFFIC:
                group_id = event.group_id
                rows = calm.get(group_id)
                if rows is None:
                    rows = calm[group_id] = []
                rows.append((seq, event))
                continue
            lanes = calm
            if kind is tuple:
                # Its request is at hand, says what was resolved, and was not refused before the group was looked at.
                if is_alone and 0 < len(event[6]) <= LONGEST_NOTE_BYTES and not event[8] and event[3] < BY_TOPIC_ID:
                    group_id = event[7].group_id
                    rows = traffic.get(group_id)
                    if rows is None:
                        rows = traffic[group_id] = []
                    rows.append((seq, event[:7]))
                    continue
                event = commit_event(event)
                lanes = traffic
            elif kind in _MAYBE_TRAFFIC:
                if kind is OffsetsCommitted and not wants_all and _is_expected(event):
                    seq -= 1
                    continue
                if is_traffic(event):
                    lanes = traffic
            row = event = event if hashes is None else hashes(event)
            if file is not None:
                row = Raw(_encode(event))
                file.write(seq, bytes(row), event)
            if self._followers:
                followed.append((seq, event))
            rows = lanes.get(event.group_id)
            if rows is None:
                rows = lanes[event.group_id] = []
            rows.append((seq, row))
        self._last_seq = seq
        for found, kept in ((calm, self._calm), (traffic, self._traffic)):
            for group_id, rows in found.items():
                for first in range(0, len(rows), TOGETHER):
                    self._keep(kept, group_id, rows[first : first + TOGETHER])
        if self._calm.size_bytes + self._traffic.size_bytes > self.budget_bytes:
            self._make_room()
        for follower in self._followers:
            for seq, event in followed:
                follower(seq, event)

    def _keep(self, lanes: Lanes, group_id: str, rows: list[_Row]) -> None:
        data = _encode(rows)
        if len(data) <= self._largest_bytes:
            lanes.add(group_id, head(rows[-1][0], len(data)) + data, len(rows))
        elif len(rows) == 1:
            self.dropped_events += 1
        else:
            for row in rows:
                self._keep(lanes, group_id, [row])

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
        found = [row for one in lanes for row in islice(_rows(one, group_id, after), limit)]
        found.sort(key=itemgetter(0))
        return [(seq, _event(row)) for seq, row in found[:limit]]

    def group_ids(self) -> list[str]:
        """The groups of which there are events, without the empty id."""
        self._write()
        known = dict.fromkeys([*self._calm.by_name, *self._traffic.by_name])
        return [group_id for group_id in known if group_id]

    def subscribe(self, follower: Follower) -> Callable[[], None]:
        """Pass each event on from now on. What is returned ends that."""
        self._write()
        self._followers = (*self._followers, follower)

        def unsubscribe() -> None:
            self._followers = tuple(one for one in self._followers if one is not follower)

        return unsubscribe


def _rows(lanes: Lanes, group_id: str, after: int) -> Iterator[tuple[int, Raw]]:
    """The events of a group with higher numbers, oldest first."""
    for entry in lanes.read(group_id, after):
        for seq, row in _decode_rows(entry):
            if seq > after:
                yield seq, row


def _event(row: Raw) -> bytes:
    """The msgpack of an event."""
    data = bytes(row)
    if data[0] != _NOTE:
        return data
    note = _decode_note(data)
    request = OffsetCommitRequest.layout(note[3]).decode(note[6])
    return _encode(commit_event((*note, request, {}, None)))


def _is_expected(event: Event) -> bool:
    """True if offsets were committed as they were asked to be, and that is all."""
    return not event.moved_back and event.producer_id < 0  # type: ignore[attr-defined]


_ALWAYS: tuple[type[Event], ...] = (CommitReceived, OffsetsCommitted, TxnCommitReceived)
_BY_API = frozenset((RequestReceived, RequestAnswered, RequestRefused))
_MAYBE_TRAFFIC = frozenset((tuple, *_ALWAYS, *_BY_API, AppendFinished))
_APIS = frozenset(("OffsetCommit", "TxnOffsetCommit", "OffsetFetch", "Heartbeat"))


def is_traffic(event: Event) -> bool:
    """True if an event only says that offsets were committed or asked for, or that a heartbeat was refused."""
    kind = event.__class__
    if kind in _ALWAYS:
        return True
    if kind in _BY_API:
        return event.api in _APIS  # type: ignore[attr-defined]
    return kind is AppendFinished and event.what == "offsets"  # type: ignore[attr-defined]
