"""Follows the placement: what this node leads is opened and loaded, and what it leads no more is let go.

To lose a partition takes no time: from that moment on it refuses everything, and what waits there is answered. To gain
one takes turns of the loop, as its log has to be opened and read. Both coordinators answer for a partition of their
topics once it is loaded.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator

from ottla.broker.clock import Clock, TimerHandle
from ottla.broker.cluster.view import ClusterView
from ottla.broker.core.topics.partition import Partition, Standing
from ottla.broker.logger import Logger
from ottla.broker.runtime.host import Host
from ottla.broker.runtime.served_topics import COORDINATED
from ottla.broker.runtime.topics import TopicManager
from ottla.protocol.internal_topics import INTERNAL_TOPICS

AGAIN_MS = 1_000
"""Until something is tried again that could not be opened."""
AGAIN_MAX_MS = 60_000
"""The longest until a coordinator's log is tried again that could not be read; before that twice as long each time."""


class Leadership:
    """See the module.

    Args:
        load: loads the partitions of both coordinators that are led here and are not loaded yet.

    Attributes:
        on_looked: called when partitions may have other leaders.
    """

    def __init__(
        self, topics: TopicManager, host: Host, clock: Clock, report: Logger, *, load: Callable[[], Awaitable[None]]
    ) -> None:
        self._topics = topics
        self._host = host
        self._clock = clock
        self._report = report
        self._load = load
        self.on_looked: Callable[[], None] = lambda: None
        self._task: asyncio.Task[None] | None = None
        self._timer: TimerHandle | None = None
        self._is_due = False
        self._again_ms = AGAIN_MS

    async def start(self) -> None:
        """Load what is led now, and follow the placement from now on. Raises as `Host.load` where the node is alone."""
        placement = self._topics.placement
        if placement.dealt_to:
            self._host.on_damaged = self._topics.take_offline
            placement.on_changed = self._view_changed
            self._topics.on_leaders = self.look
        await self._load()
        self._see_to_unread()

    def stop(self) -> None:
        """Follow nothing any more."""
        self._topics.placement.on_changed = lambda before, after: None
        self._topics.on_leaders = lambda: None
        if self._task is not None:
            self._task.cancel()
        if self._timer is not None:
            self._timer.cancel()

    def _view_changed(self, before: ClusterView, after: ClusterView) -> None:
        self.look()

    def look(self) -> None:
        """See who leads what: let go at once what is led elsewhere, and begin to open what is led here."""
        me = self._topics.placement.view.me
        is_gained = False
        for topic in self._topics.topics.values():
            topic.described = None
            for partition in topic.partitions:
                leader = self._topics.leader(partition)
                if leader.node_id == me:
                    is_gained = is_gained or partition.standing in (Standing.ELSEWHERE, Standing.LOADING)
                elif partition.standing is Standing.ELSEWHERE:
                    partition.log.leader_epoch = leader.epoch
                else:
                    is_gained = True  # its log is to be closed
                    self._lose(partition)
        self.on_looked()
        if is_gained:
            self._is_due = True
            if self._task is None:
                self._task = asyncio.get_running_loop().create_task(self._follow())

    def _lose(self, partition: Partition) -> None:
        tp = partition.tp
        self._report.info("partition is led elsewhere", topic=tp.topic, partition=tp.partition)
        if tp.topic in COORDINATED:
            self._host.give_up(tp.topic, tp.partition)
        self._topics.lose(partition)

    async def _follow(self) -> None:
        try:
            while self._is_due:
                self._is_due = False
                await self._topics.follow_placement(INTERNAL_TOPICS)  # first, as many members wait for each of these
                await self._load()
                await self._topics.follow_placement()
        except Exception:  # a disk that fails, or a bug of ours, must not keep this node from what comes later
            self._report.error("partitions could not be opened", exc_info=True)
            self._look_in(AGAIN_MS)
        else:
            self._see_to_unread()
        self._task = None

    def _see_to_unread(self) -> None:
        """Try coordinators' logs again that could not be read: a disk may not answer for a while."""
        if not any(True for _ in self._unread()):
            self._again_ms = AGAIN_MS
        elif self._topics.placement.dealt_to:
            self._look_in(self._again_ms)
            self._again_ms = min(2 * self._again_ms, AGAIN_MAX_MS)

    def _unread(self) -> Iterator[Partition]:
        topics = (self._topics.topics[name] for name in COORDINATED if name in self._topics.topics)
        return (one for topic in topics for one in topic.partitions if one.standing is Standing.OFFLINE)

    def _look_in(self, wait_ms: int) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._clock.call_at(self._clock.monotonic_ms() + wait_ms, self._look_again)

    def _look_again(self) -> None:
        for partition in self._unread():
            self._topics.lose(partition)  # to be opened and loaded as if it had come
        self.look()
