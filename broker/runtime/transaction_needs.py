"""The needs of transactions before they are coordinated: ``__transaction_state``, and producer ids at hand.

The topic comes into being when the first client asks for a transaction coordinator, or for a producer id with a
transactional id, at whatever node. Both are seen to before the coordinator is entered, so that it never has to wait.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from ottla.broker.core.coordination.shard import ShardState
from ottla.broker.core.topics.partition import Standing
from ottla.broker.core.transactions.coordinator import TransactionCoordinator
from ottla.broker.engine import EngineError
from ottla.broker.logger import Logger
from ottla.broker.runtime.host import Host
from ottla.broker.runtime.topics import TopicManager
from ottla.broker.settings import Settings
from ottla.protocol.errors import ErrorCode
from ottla.protocol.internal_topics import TRANSACTIONS_TOPIC

SPARE_PRODUCER_IDS = 2
"""Producer ids at hand, so that whoever needs one within a turn of the loop finds it."""


class TransactionNeeds:
    """See the module.

    Attributes:
        coordinator: of transactions. Its shards are those of the topic once that is there.
    """

    def __init__(
        self,
        settings: Settings,
        host: Host,
        topics: TopicManager,
        report: Logger,
    ) -> None:
        self.coordinator = TransactionCoordinator(
            settings, self._take_producer_id, settings.transaction_state_log_num_partitions, report.info
        )
        self._host = host
        self._topics = topics
        self._report = report
        host.add(TRANSACTIONS_TOPIC, self.coordinator)
        self._spare: list[int] = []
        self._preparing: asyncio.Task[None] | None = None
        self._waiting: list[Callable[[ErrorCode], None]] = []
        self._stopped = False
        self._is_begun = False

    def prepare(self, then: Callable[[ErrorCode], None]) -> None:
        """See to it that there is something to coordinate with. Calls back, maybe at once."""
        if self._spare and self._is_owned:
            then(ErrorCode.NONE)
        elif self._stopped:
            then(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        else:
            self._waiting.append(then)
            self._begin()

    async def load(self) -> None:
        """Take over what is led here of the topic; nothing if there is none. Raises as `Host.load`."""
        if self._stopped or not (count := self._topics.partition_count(TRANSACTIONS_TOPIC)):
            return
        if not self._is_begun:
            self._is_begun = True
            self.coordinator.lay_out(count)  # of the topic as it is: the setting may have been changed
            self.coordinator.start(self._host.now()[0])
        await self._host.load(TRANSACTIONS_TOPIC)

    @property
    def _is_owned(self) -> bool:
        """Whether the topic is there, and what is led here of it is coordinated or about to be."""
        topic = self._topics.topics.get(TRANSACTIONS_TOPIC)
        return (
            self._is_begun
            and topic is not None
            and not any(
                shard.state is ShardState.ABSENT and partition.standing is not Standing.ELSEWHERE
                for shard, partition in zip(self.coordinator.shards, topic.partitions, strict=True)
            )
        )

    def leaders_changed(self) -> None:
        """Partitions may have other leaders: what waits for one is tried at once."""
        self.coordinator.leaders_changed(*self._host.now())
        self._host.settle()

    def _take_producer_id(self) -> int | None:
        """A producer id that was never given before; None if none is at hand yet."""
        taken = self._spare.pop(0) if self._spare else None
        if len(self._spare) < SPARE_PRODUCER_IDS:
            self._begin()
        return taken

    def stop(self) -> None:
        """Reserve no more producer ids."""
        self._stopped = True

    def _begin(self) -> None:
        if self._preparing is None and not self._stopped:
            self._preparing = asyncio.get_running_loop().create_task(self._prepare())

    async def _prepare(self) -> None:
        error = ErrorCode.NONE
        try:
            while len(self._spare) < SPARE_PRODUCER_IDS:
                self._spare.append(await self._topics.new_producer_id())
            if not self._is_owned:
                await self._topics.create_transactions_topic()
                await self.load()
        except EngineError as failure:
            self._report.error("transactions cannot be coordinated", reason=str(failure))
            error = ErrorCode.COORDINATOR_NOT_AVAILABLE
        except Exception:  # a bug of ours must not leave the requests of clients unanswered
            self._report.error("transactions cannot be coordinated", exc_info=True)
            error = ErrorCode.COORDINATOR_NOT_AVAILABLE
        self._preparing = None
        waiting, self._waiting = self._waiting, []
        for then in waiting:
            then(error)
