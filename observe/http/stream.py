"""``/v1/stream``: what changes, as server-sent events.

One `Feed` looks at the broker twice a second while anybody reads, and writes each event once for all readers. It asks
for the groups of which it saw an event, and for some of the others in turn, as lag changes without one.
"""

from __future__ import annotations

import asyncio
import re
from collections import deque
from collections.abc import Iterator
from itertools import islice
from typing import Any

import msgspec
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from ottla.broker.clock import TimerHandle
from ottla.broker.core.events import Event
from ottla.broker.logger import Logger
from ottla.observe.http.answers import GroupChanges, GroupNow, Hello
from ottla.observe.http.api import event_json
from ottla.observe.http.crowd import first_to_go
from ottla.observe.http.parameters import Choice, Text, Whole
from ottla.observe.http.parts import Parts
from ottla.observe.http.problems import Problem
from ottla.observe.http.visitors import EVERYTHING, Sight
from ottla.observe.recorder import Recorder
from ottla.observe.sentinels.model import Alarm
from ottla.observe.snapshot import GroupBrief
from ottla.observe.why.model import Episode

TICK_MS = 500
LOOK_MS = 2_000
"""Period in which a watched group is looked at without an event: heartbeats age and the lag moves."""
LONGEST_LOOK_MS = 5
"""The groups that are left over wait for the next tick; those with many partitions take longer."""
LONGEST_WATCH_MS = 20
"""The same of watched groups, each of which may have hundreds of members and thousands of partitions."""
DIRTY_PER_TICK = 500
SWEEP_PER_TICK = 100
EPISODES_PER_TICK = 100
RAW_PER_TURN = 500
MOST_BEHIND_BYTES = 64 << 20
"""Most bytes that all readers together may be behind."""
PING_S = 15.0
STUCK_S = 30.0
"""A reader that takes nothing for so long is given up."""
PING = b": ping\n\n"

PARAMETERS = (
    Text("group", "A group to be told of with its members and offsets."),
    Choice("raw", "1: the events of the flight recorder instead, for this group.", ("0", "1")),
    Whole("after", "With raw: only events with a larger `seq`. The header `Last-Event-ID` says the same.", default=0),
)


def message(event: str, data: Any, number: int | None = None) -> bytes:
    """A server-sent event. JSON has no line breaks of its own."""
    identity = b"" if number is None else b"id: %d\n" % number
    return b"%sevent: %s\ndata: %s\n\n" % (identity, event.encode(), msgspec.json.encode(data))


class Reader:
    """Events that one reader has not been sent yet.

    Args:
        limit_bytes: one that is further behind is dropped; it connects again when it can.
        address: whose it is; sight: what he may see.

    Attributes:
        held_bytes: how far it is behind.
    """

    def __init__(
        self, limit_bytes: int, group_id: str | None = None, address: str = "", sight: Sight = EVERYTHING
    ) -> None:
        self.sight = sight
        self.group_id = group_id
        self.address = address
        self.ended = False
        self._limit_bytes = limit_bytes
        self._chunks: list[bytes] = []
        self.held_bytes = 0
        self._due = asyncio.Event()

    def put(self, chunk: bytes) -> None:
        """Have a chunk sent. A large group alone may exceed the limit: a reader ends when more comes after that."""
        if self.held_bytes > self._limit_bytes:
            self.end()
        if not self.ended:
            self.held_bytes += len(chunk)
            self._chunks.append(chunk)
            self._due.set()

    async def take(self) -> bytes:
        """Everything that is to be sent, as soon as there is something; nothing at the end."""
        await self._due.wait()
        self._due.clear()
        taken = b"".join(self._chunks)
        self._chunks.clear()
        self.held_bytes = 0
        return taken

    def end(self) -> None:
        """Send nothing more."""
        self.ended = True
        self.held_bytes = 0
        self._chunks.clear()
        self._due.set()


class RawReader(Reader):
    """The events of a group as the recorder holds them: what is not sent yet stays there, so that nothing piles up."""

    def __init__(
        self, recorder: Recorder, group_id: str, after: int, address: str = "", sight: Sight = EVERYTHING
    ) -> None:
        super().__init__(0, group_id, address, sight)
        self._recorder = recorder
        self._after = after
        self._names = {group_id, group_id if recorder.hashes is None else recorder.hashes.group(group_id)}
        self._unsubscribe = recorder.subscribe(self._saw)
        self._due.set()

    def _saw(self, seq: int, event: Event) -> None:
        if event.group_id in self._names:
            self._due.set()

    async def take(self) -> bytes:
        while not self.ended:
            self._due.clear()
            assert self.group_id is not None
            if not is_permitted(self):
                self.end()
                return b""
            if found := self._recorder.events(self.group_id, self._after, RAW_PER_TURN):
                self._after = found[-1][0]
                self._due.set()  # there may be more
                return b"".join(message("event", event_json(seq, event), seq) for seq, event in found)
            await self._due.wait()
        return b""

    def end(self) -> None:
        super().end()
        self._unsubscribe()


def is_permitted(reader: Reader) -> bool:
    """Whether a reader's token is still good, and the group that it watches may still be seen by it."""
    sight, group_id = reader.sight, reader.group_id
    return sight.is_welcome and (group_id is None or sight.may_see(group_id))


class Feed:
    """Feeds all readers. It costs nothing while there are none.

    Args:
        limit_bytes: how far a reader may be behind.
        most_readers: so many may read at a time.
    """

    def __init__(self, parts: Parts, log: Logger, limit_bytes: int, most_readers: int = 64) -> None:
        self._parts = parts
        self._view = parts.view
        self._clock = parts.clock.real
        self._log = log
        self._limit_bytes = limit_bytes
        self._most_readers = most_readers
        self._readers: dict[Reader, None] = {}
        self._timer: TimerHandle | None = None
        self._dirty: dict[str, None] = {}
        self._forget()

    def _forget(self) -> None:
        self._known: dict[str, GroupBrief] = {}
        self._seen: list[str] = []
        self._round: Iterator[str] = iter(())
        self._looked_ms: dict[str, int] = {}
        self._last: dict[str, bytes] = {}
        self._episodes: deque[Episode] = deque(maxlen=EPISODES_PER_TICK)
        self._alarms: set[Sign] = set()

    # -- readers

    def open(self, group_id: str | None, address: str = "", sight: Sight = EVERYTHING) -> Reader:
        """A new reader. The first things it is sent are the cluster, and its group if it has one. Raises `Problem`.

        Whoever may not see the cluster is told that there is one.
        """
        self._make_room(address)
        if self._timer is None:
            self._begin()
        reader = Reader(self._limit_bytes, group_id, address, sight)
        self._readers[reader] = None
        reader.put(message("hello", Hello(self._view.cluster() if sight.sees_all else None, sight.user)))
        if group_id is not None:
            reader.put(self._group_now(group_id))
        return reader

    def open_raw(self, group_id: str | None, after: int, address: str = "", sight: Sight = EVERYTHING) -> Reader:
        """A new reader of the recorder's events. Raises `Problem`."""
        if self._parts.recorder is None:
            raise Problem(404, "nothing is recorded")
        if group_id is None:
            raise Problem(400, "raw=1 goes with a group: add group=ID")
        self._make_room(address)
        reader = RawReader(self._parts.recorder, group_id, after, address, sight)
        self._readers[reader] = None
        return reader

    def _make_room(self, address: str) -> None:
        """End the oldest stream of the address with most, unless the new one would have as many. Raises `Problem`."""
        if len(self._readers) < self._most_readers:
            return
        crowded = first_to_go(self._readers, list(self._readers))
        assert crowded is not None
        held = [one.address for one in self._readers]
        if held.count(crowded.address) <= held.count(address) + 1:
            raise Problem(503, f"{len(held)} streams are open, and there are no more: close one")
        self.close(crowded)

    def close(self, reader: Reader) -> None:
        """Forget a reader that is gone."""
        reader.end()
        self._readers.pop(reader, None)
        if not any(type(one) is Reader for one in self._readers):
            self._pause()

    def stop(self) -> None:
        """End every stream."""
        for reader in list(self._readers):
            self.close(reader)

    def _begin(self) -> None:
        parts = self._parts
        self._dirty = parts.changes.follow()
        if parts.history is not None:
            parts.history.on_episode.append(self._episodes.append)
        self._alarms = set(map(_sign, self._alarms_now()))
        self._timer = self._clock.call_at(self._clock.monotonic_ms() + TICK_MS, self._tick)

    def _pause(self) -> None:
        if self._timer is None:
            return
        self._timer.cancel()
        self._timer = None
        self._parts.changes.leave()
        if self._parts.history is not None:
            self._parts.history.on_episode.remove(self._episodes.append)
        self._forget()

    # -- twice a second

    def _tick(self) -> None:
        self._timer = self._clock.call_at(self._clock.monotonic_ms() + TICK_MS, self._tick)
        try:
            for reader in list(self._readers):
                if type(reader) is Reader and not is_permitted(reader):
                    reader.end()
            self._send_group_changes(*self._group_changes())
            self._send_watched()
            self._send_episodes()
            self._send_alarms(self._new_alarms())
            self._shed()
        except Exception:  # whoever looks must not hurt who is looked at, and the next look may go well
            self._log.error("The stream could not be written", exc_info=True)

    def _split(self) -> tuple[list[Reader], list[Reader]]:
        """The readers that see every group, and those that do not."""
        readers = [one for one in self._readers if type(one) is Reader]
        alls = {one: one.sight.sees_all for one in readers}
        return [one for one in readers if alls[one]], [one for one in readers if not alls[one]]

    def _send_group_changes(self, changed: list[GroupBrief], removed: list[str]) -> None:
        if not changed and not removed:
            return
        all_seeing, others = self._split()
        if all_seeing:
            chunk = message("groups", GroupChanges(changed, removed))
            for reader in all_seeing:
                reader.put(chunk)
        for reader in others:
            sees = reader.sight.sees
            seen, gone = [one for one in changed if sees(one.group_id)], [one for one in removed if sees(one)]
            if seen or gone:
                reader.put(message("groups", GroupChanges(seen, gone)))

    def _send_alarms(self, alarms: list[Alarm]) -> None:
        if not alarms:
            return
        chunks = [(alarm.group_id, message("sentinel", alarm)) for alarm in alarms]
        all_seeing, others = self._split()
        for reader in all_seeing:
            reader.put(b"".join(chunk for _, chunk in chunks))
        for reader in others:
            if seen := b"".join(chunk for group_id, chunk in chunks if reader.sight.sees(group_id)):
                reader.put(seen)

    def _shed(self) -> None:
        """End those that are behind by most, if all together are behind by too much."""
        behind = {reader: reader.held_bytes for reader in self._readers if reader.held_bytes}
        while len(behind) > 1 and sum(behind.values()) > MOST_BEHIND_BYTES:
            crowded = max(behind, key=behind.__getitem__)
            del behind[crowded]
            crowded.end()

    def _group_changes(self) -> tuple[list[GroupBrief], list[str]]:
        self._seen = []
        room = self._limit_bytes // 8  # a character may take six bytes
        until_ms = self._clock.monotonic_ms() + LONGEST_LOOK_MS
        changed: list[GroupBrief] = []
        removed: list[str] = []
        for group_id in self._due():
            brief = self._view.brief(group_id)
            if brief is None:
                if self._known.pop(group_id, None) is not None:
                    removed.append(group_id)
            elif self._known.get(group_id) != brief:
                self._known[group_id] = brief
                changed.append(brief)
            room -= len(group_id)
            if self._clock.monotonic_ms() >= until_ms or room <= 0:
                break
        return changed, removed

    def _due(self) -> Iterator[str]:
        """The groups to look at: first those to which something happened, then some of all."""
        for group_id in list(islice(self._dirty, DIRTY_PER_TICK)):
            del self._dirty[group_id]
            self._seen.append(group_id)
            yield group_id
        left = SWEEP_PER_TICK
        for group_id in islice(self._round, left):
            left -= 1
            yield group_id
        if left == SWEEP_PER_TICK:  # the round is over
            ids = self._view.group_ids()
            self._round = iter([*ids, *(self._known.keys() - set(ids))])
            yield from islice(self._round, SWEEP_PER_TICK)

    def _send_watched(self) -> None:
        now_ms = self._clock.monotonic_ms()
        readers: dict[str, list[Reader]] = {}
        for reader in self._readers:
            if type(reader) is Reader and reader.group_id is not None:
                readers.setdefault(reader.group_id, []).append(reader)
        for gone in self._last.keys() - readers.keys():
            del self._last[gone], self._looked_ms[gone]
        for group_id, those in sorted(readers.items(), key=lambda item: self._looked_ms.get(item[0], 0)):
            if self._clock.monotonic_ms() - now_ms >= LONGEST_WATCH_MS:
                return
            if group_id not in self._seen and now_ms - self._looked_ms.get(group_id, 0) < LOOK_MS:
                continue
            before = self._last.get(group_id)
            chunk = self._group_now(group_id)
            if chunk != before:
                for reader in those:
                    reader.put(chunk)

    def _group_now(self, group_id: str) -> bytes:
        group = self._view.group(group_id)
        offsets = [] if group is None else self._view.offsets(group_id)
        self._looked_ms[group_id] = self._clock.monotonic_ms()
        self._last[group_id] = chunk = message("group", GroupNow(group, offsets))
        return chunk

    def _send_episodes(self) -> None:
        history = self._parts.history
        while history is not None and self._episodes:
            episode = self._episodes.popleft()
            group_id = episode.group_id
            readers = [one for one in self._readers if one.group_id in (None, group_id) and one.sight.sees(group_id)]
            if readers:
                chunk = message("episode", history.explain(episode))
                for reader in readers:
                    if type(reader) is Reader:
                        reader.put(chunk)

    def _new_alarms(self) -> list[Alarm]:
        alarms = self._alarms_now()
        before, self._alarms = self._alarms, set(map(_sign, alarms))
        return [alarm for alarm in alarms if _sign(alarm) not in before]

    def _alarms_now(self) -> list[Alarm]:
        sentinels = self._parts.sentinels
        return [] if sentinels is None else [*sentinels.recent(), *sentinels.active()]


Sign = tuple[str, str, str, int, bool]


def _sign(alarm: Alarm) -> Sign:
    """The fields that change when an alarm is raised and when it is over; the others move all the time."""
    return alarm.sentinel, alarm.group_id, alarm.subject, alarm.since_ms, alarm.cleared_ms != 0


class EventStream(Response):
    """An answer that goes on until its reader leaves, falls behind, or the broker stops."""

    media_type = "text/event-stream"

    def __init__(self, feed: Feed, query: dict[str, Any], last_event_id: str, sight: Sight = EVERYTHING) -> None:
        super().__init__(headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"})
        del self.headers["content-length"]
        self._feed = feed
        self._sight = sight
        self._query = query
        known = re.fullmatch(r"\d{1,19}", last_event_id, re.ASCII)
        self._after = max(query["after"], int(last_event_id) if known else 0)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it."""
        raw, group_id = self._query["raw"] == "1", self._query["group"]
        address = scope["client"][0] if scope["client"] else ""
        feed, sight = self._feed, self._sight
        reader = feed.open_raw(group_id, self._after, address, sight) if raw else feed.open(group_id, address, sight)
        leaving = asyncio.ensure_future(_until_gone(receive, reader))
        try:
            await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
            while scope["method"] != "HEAD" and not reader.ended:
                chunk = await _next(reader)
                async with asyncio.timeout(STUCK_S):
                    await send({"type": "http.response.body", "body": chunk, "more_body": True})
            await send({"type": "http.response.body", "body": b""})
        except TimeoutError:
            scope["state"]["abort"]()
        finally:
            leaving.cancel()
            self._feed.close(reader)


async def _next(reader: Reader) -> bytes:
    try:
        async with asyncio.timeout(PING_S):
            return await reader.take()
    except TimeoutError:
        return PING


async def _until_gone(receive: Receive, reader: Reader) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    reader.end()
