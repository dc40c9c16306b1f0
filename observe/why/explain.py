"""JSON documents about a group for those who ask."""

from __future__ import annotations

from asyncio import sleep
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from msgspec import Raw, Struct, json, msgpack

from ottla.observe.recorder import Recorder
from ottla.observe.timeline.live import Timelines
from ottla.observe.why.history import History
from ottla.observe.why.model import Episode

MOST_EVENTS = 1_000
MOST_EPISODES = 1_000


class Told(Struct):
    """The document of ``why``.

    Attributes:
        now_ms: when it was made, Unix time.
        episodes: the oldest first; one that runs is the last.
    """

    group_id: str
    now_ms: int
    episodes: list[Episode]


_pause = partial(sleep, 0)
"""Lets others have a turn: a long history takes a while to be told."""


@dataclass(frozen=True)
class Explanations:
    """Answers what DescribeGroupHistory asks.

    Attributes:
        now_ms: gives Unix time.
        is_group: whether there is a group of a name, of which nothing may have happened yet.
    """

    history: History
    now_ms: Callable[[], int]
    recorder: Recorder
    timelines: Timelines
    is_group: Callable[[str], bool]

    async def why(
        self, group_id: str, *, last: int | None = None, since_ms: int | None = None, generation: int | None = None
    ) -> bytes | None:
        """The latest episodes of a group, explained, 1,000 at most; None if there is no such group."""
        if not self._is_known(group_id):
            return None
        now_ms = self.now_ms()
        last = MOST_EPISODES if last is None else min(last, MOST_EPISODES)
        found = self.history.each(group_id, _pause, last=last, since_ms=since_ms, generation=generation)
        rows = [Raw(json.encode(one)) async for one in found]
        return json.encode({"group_id": group_id, "now_ms": now_ms, "episodes": rows})

    async def timeline(self, group_id: str, *, last: int | None = None, since_ms: int | None = None) -> bytes | None:
        """The timeline of a group."""
        if not self._is_known(group_id):
            return None
        return await self.timelines.told(group_id, _pause, last=last, since_ms=since_ms)

    def events(self, group_id: str, *, after: int = 0, limit: int | None = None) -> bytes | None:
        """The recorded events of a group after a number, each with its number as ``seq``."""
        most = MOST_EVENTS if limit is None else min(limit, MOST_EVENTS)
        found = self.recorder.events(group_id, after=after, limit=most)
        if not found and not self._is_known(group_id):
            return None
        rows: list[dict[str, Any]] = [{"seq": seq, **msgpack.decode(data)} for seq, data in found]
        return json.encode({"group_id": group_id, "events": rows})

    def _is_known(self, group_id: str) -> bool:
        return self.history.knows(group_id) or self.is_group(group_id)
