"""Follows the placement: what this node leads is opened and loaded, and what it leads no more is let go.

To lose a partition takes no time: from that moment on it refuses everything, and what waits there is answered. To gain
one takes turns of the loop, as its log has to be opened and read. Both coordinators answer for a partition of their
topics once it is loaded.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from ottla.broker.clock import Clock, TimerHandle
from ottla.broker.cluster.view import ClusterView
from ottla.broker.core.topics.partition import Partition, Standing
from ottla.broker.logger import Logger
from ottla.broker.runtime.host import Host
from ottla.broker.runtime.served_topics import COORDINATED
from ottla.broker.runtime.topics import TopicManager

AGAIN_MS = 1_000
"""Until something is tried again that could not be opened."""


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

    async def start(self) -> None:
        """Load what is led now, and follow the placement from now on. Raises as `Host.load` where the node is alone."""
        placement = self._topics.placement
        if placement.dealt_to:
            self._host.on_damaged = self._topics.take_offline
            placement.on_changed = self._view_changed
            self._topics.on_leaders = self.look
        await self._load()

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
                await self._topics.follow_placement()
                await self._load()
        except Exception:  # a disk that fails, or a bug of ours, must not keep this node from what comes later
            self._report.error("partitions could not be opened", exc_info=True)
            self._timer = self._clock.call_at(self._clock.monotonic_ms() + AGAIN_MS, self.look)
        self._task = None
