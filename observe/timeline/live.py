"""Timelines of a broker that runs, and the looks at its lag that they need."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING

from ottla.observe.timeline.traffic import Traffic

if TYPE_CHECKING:
    from ottla.broker.clock import Clock, TimerHandle
    from ottla.observe.timeline.model import Timeline
    from ottla.observe.view import View
    from ottla.observe.why.history import History, Pause

ROUND_MS = 10_000
"""Period in which the lag of each group is looked at."""
TURN_MS = 100
GROUPS_PER_TURN = 50
LONGEST_TURN_MS = 5
"""A round is made of turns, so that a broker with many groups is not held up, or with some of many partitions."""
MOST_EPISODES = 1_000


class Timelines:
    """Makes the timelines of groups.

    Args:
        history: where episodes come from.
        budget_bytes: the memory for commits and lag; 0 for none.

    Attributes:
        traffic: observes commits; None if there is no memory for them.
    """

    def __init__(self, history: History, budget_bytes: int) -> None:
        self._history = history
        self.traffic = Traffic(budget_bytes) if budget_bytes else None
        self._view: Callable[[], View]
        self._clock: Clock
        self._looks: _Looks | None = None
        self._closed = False

    def begin(self, view: Callable[[], View], clock: Clock) -> None:
        """Look at this broker; `told` and `watch` may be called from now on.

        Args:
            view: makes the view when it is called first.
        """
        self._view, self._clock = view, clock

    def watch(self) -> None:
        """Begin to look at the lag of all groups now and then: somebody may want to see it."""
        if self._looks is None and self.traffic is not None and not self._closed:
            self._looks = _Looks(self._view(), self._clock, self.traffic)

    def close(self) -> None:
        """Look no more, whoever asks."""
        self._closed = True
        if self._looks is not None:
            self._looks.stop()
            self._looks = None

    async def told(self, group_id: str, pause: Pause, *, last: int | None, since_ms: int | None) -> bytes:
        """The JSON of a group's timeline, of at most so many episodes.

        Of what may be 100,000 parts of members there is one episode at a time, and others have their turn between.
        """
        from ottla.observe.timeline.build import Builder  # nothing of this is needed before somebody asks

        self.watch()
        begin = partial(Builder, group_id, state=self._view().group(group_id), now_ms=self._clock.wall_ms())
        builder = None
        last = MOST_EPISODES if last is None else min(last, MOST_EPISODES)
        async for episode in self._history.each(group_id, pause, last=last, since_ms=since_ms):
            builder = begin([episode]) if builder is None else builder
            builder.add(episode)
        builder = builder or begin([])
        builder.add_faults(self._history.faults(group_id))
        timeline = builder.finish(self.traffic)
        pieces = []
        for piece in _pieces(timeline):
            pieces.append(piece)
            await pause()
        return b"".join(pieces)


def _pieces(timeline: Timeline) -> Iterator[bytes]:
    """The JSON of a timeline, lane by lane: they are most of it."""
    from msgspec.json import encode

    lanes, timeline.lanes = timeline.lanes, []
    yield encode(timeline).removesuffix(b"}")
    for index, lane in enumerate(lanes):
        yield (b',"lanes":[' if index == 0 else b",") + encode(lane)
    yield b"]}" if lanes else b"}"


class _Looks:
    """Looks at the lag of all groups in turn."""

    def __init__(self, view: View, clock: Clock, traffic: Traffic) -> None:
        self._view = view
        self._clock = clock
        self._traffic = traffic
        self._left: deque[str] = deque()  # of this round
        self._round_ms = clock.monotonic_ms()
        self._timer: TimerHandle = clock.call_at(self._round_ms + ROUND_MS, self._turn)

    def stop(self) -> None:
        self._timer.cancel()

    def _turn(self) -> None:
        now_ms = self._clock.monotonic_ms()
        if not self._left and now_ms >= self._round_ms + ROUND_MS:
            self._left.extend(self._view.group_ids())
            self._round_ms = now_ms
        try:
            self._look(self._clock.real.monotonic_ms() + LONGEST_TURN_MS)
        finally:
            next_ms = now_ms + TURN_MS
            self._timer = self._clock.call_at(
                next_ms if self._left else max(self._round_ms + ROUND_MS, next_ms), self._turn
            )

    def _look(self, until_ms: int) -> None:
        wall_ms = self._clock.wall_ms()
        for _ in range(min(len(self._left), GROUPS_PER_TURN)):
            group_id = self._left.popleft()
            brief = self._view.brief(group_id)
            if brief is not None and brief.lag is not None:
                self._traffic.lag(group_id, brief.lag, wall_ms)
            if self._clock.real.monotonic_ms() >= until_ms:
                return
