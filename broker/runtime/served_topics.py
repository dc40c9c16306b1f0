"""The topics as this node serves them: what it leads is open, and of the rest it knows that it is elsewhere."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from random import Random
from uuid import UUID

from ottla.broker.clock import Clock
from ottla.broker.cluster.placement import Alone
from ottla.broker.cluster.view import NOBODY, Leader, Placement
from ottla.broker.core.configs.brokers import BrokerConfigs
from ottla.broker.core.topics.catalog import Catalog, TopicEntry
from ottla.broker.core.topics.configs import TopicConfig
from ottla.broker.core.topics.partition import Partition, Standing, Topic
from ottla.broker.core.topics.producers import Producers
from ottla.broker.core.topics.transactions import Transactions
from ottla.broker.engine import Corrupt, Durability, Engine, EngineError, Fenced, Log, LogConfig, Unavailable
from ottla.broker.logger import Logger
from ottla.broker.runtime.producer_states import ProducerStates
from ottla.broker.runtime.stand_in_log import StandInLog
from ottla.broker.settings import Settings
from ottla.protocol.internal_topics import INTERNAL_TOPICS, OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from ottla.protocol.records import BatchError, TopicPartition

OPENED_LOGS = 20
"""Logs that are opened in one turn of the loop."""

COORDINATED = (OFFSETS_TOPIC, TRANSACTIONS_TOPIC)
"""Without every one of their logs a node that is alone would answer wrongly; of other topics it serves what it can."""

REMEMBERED_DELETIONS = 1_000
"""Names of deleted topics that are kept in mind: whoever writes to one of them may not have heard of it."""


class ServedTopics:
    """See the module.

    Args:
        engine: opened before topics are served.
        random: draws the jitter of segments.
        producer_states: rebuilds what partitions remember of producers; without it their logs are read.
        placement: says what this node leads; without one it is alone.

    Attributes:
        revision: rises with each topic that comes, grows or goes.
        broker_configs: the broker's settings in layers, dynamic ones included.
        on_touched: told of each partition of a topic that was deleted, or that this node does not lead any more, to
            wake fetches that wait there.
        on_deleted: told of each topic that was deleted, when nobody can see it any more, to drop its offsets.
        on_served: told of each topic as it is served from then on: it came, or has more partitions.
    """

    def __init__(
        self,
        engine: Engine,
        settings: Settings,
        clock: Clock,
        log: Logger,
        *,
        random: Random | None = None,
        producer_states: ProducerStates | None = None,
        placement: Placement | None = None,
    ) -> None:
        self.topics: dict[str, Topic] = {}
        self.by_id: dict[UUID, Topic] = {}
        self.revision = 0
        self.on_touched: Callable[[TopicPartition], None] = lambda tp: None
        self.on_deleted: Callable[[Topic], None] = lambda topic: None
        self.on_served: Callable[[Topic], None] = lambda topic: None
        self.broker_configs = BrokerConfigs(settings)
        self.placement = placement or Alone(engine.node_id)
        self._engine = engine
        self._random = random or Random()
        self._producer_states = producer_states or ProducerStates(None, clock, log)
        self._clock = clock
        self._log = log
        self._catalog = Catalog()
        self._deleted: dict[str, None] = {}
        self._opened = 0

    # --------------------------------------------------------------------------------------------------------- looking

    @property
    def catalog(self) -> Catalog:
        """The catalog in force. Never changed, but replaced."""
        return self._catalog

    @property
    def _settings(self) -> Settings:
        return self.broker_configs.settings

    def partition(self, tp: TopicPartition) -> Partition | None:
        """A partition of a topic that there is, whoever leads it; or None."""
        topic = self.topics.get(tp.topic)
        return topic.partition(tp.partition) if topic else None

    def partition_count(self, name: str) -> int:
        """How many partitions a topic has; 0 if there is no such topic."""
        topic = self.topics.get(name)
        return len(topic.partitions) if topic else 0

    def client_partitions(self) -> list[Partition]:
        """The partitions that clients write to here."""
        topics = (topic for topic in self.topics.values() if not topic.is_internal)
        everyone = (partition for topic in topics for partition in topic.partitions)
        return [partition for partition in everyone if partition.standing is not Standing.ELSEWHERE]

    def was_deleted(self, name: str) -> bool:
        """Whether there was a topic of that name since the start, and there is none now."""
        return name in self._deleted

    def leader(self, partition: Partition) -> Leader:
        """The leader of a partition; nobody leads one whose topic is being deleted."""
        entry = self._catalog.topics.get(partition.tp.topic)
        if entry is None or entry.topic_id != partition.topic.topic_id:
            return Leader(NOBODY, partition.log.leader_epoch)
        return self.placement.leader(entry, partition.tp.partition)

    def all_partitions(self) -> Iterator[Partition]:
        """Every partition of every topic, whoever leads it."""
        return (partition for topic in list(self.topics.values()) for partition in list(topic.partitions))

    # --------------------------------------------------------------------------------------------------------- serving

    async def _serve(self, entry: TopicEntry) -> Topic:
        """Open those logs of a topic that are led here, or those that it has more now, and show it."""
        topic = self.topics.get(entry.name)
        if topic is None:
            is_internal = entry.name in INTERNAL_TOPICS
            config = TopicConfig.of(entry.configs, self._settings)
            topic = Topic(entry.name, entry.topic_id, is_internal=is_internal, overrides=entry.configs, config=config)
        for index in range(len(topic.partitions), entry.partition_count):
            leader = self.placement.leader(entry, index)
            log, standing = await self._log_of(topic, index, leader)
            partition = topic.add_partition(log)
            partition.standing = standing
            partition.producers.expiration_ms = self._settings.producer_id_expiration_ms
        self.topics[entry.name] = topic
        self.by_id[entry.topic_id] = topic
        self.revision += 1
        self._deleted.pop(entry.name, None)
        self.on_served(topic)
        return topic

    async def _log_of(self, topic: Topic, index: int, leader: Leader) -> tuple[Log, Standing]:
        """The log of a partition, or one that stands in for it: where somebody else leads, or it is damaged."""
        self._opened += 1
        if not self._opened % OPENED_LOGS:
            await asyncio.sleep(0)
        if leader.node_id != self.placement.view.me:
            return self._elsewhere(topic, index, leader), Standing.ELSEWHERE
        config = self._log_config(topic.config)
        # What a node that is alone has of coordinators is loaded before anybody asks.
        is_loaded_later = topic.name in COORDINATED and bool(self.placement.dealt_to)
        try:
            log = await self._engine.open_log(topic.name, topic.topic_id, index, config)
            return log, Standing.LOADING if is_loaded_later else Standing.LEADING
        except Fenced:  # another node has claimed it meanwhile
            return self._elsewhere(topic, index, leader), Standing.ELSEWHERE
        except Corrupt as error:
            if topic.name in COORDINATED and not is_loaded_later:
                raise
            tp = TopicPartition(topic.name, index)
            self._tell_offline(tp, error)
            return StandInLog(tp, topic.topic_id, config, leader.epoch, error), Standing.OFFLINE

    def _elsewhere(self, topic: Topic, index: int, leader: Leader) -> StandInLog:
        tp = TopicPartition(topic.name, index)
        refusal = Unavailable(f"{topic.name}-{index} is led by another node, or by none")
        return StandInLog(tp, topic.topic_id, self._log_config(topic.config), leader.epoch, refusal)

    async def _rebuild(self, partition: Partition) -> None:
        """Rebuild what a partition remembers of producers and transactions.

        If transactions were never coordinated here there can be none in the log, and the producers of the last time
        (``producer.id.expiration.ms``) are enough: older ones are forgotten anyway. But not where compaction leaves
        empty batches, which a search by time does not find.
        """
        everything = TRANSACTIONS_TOPIC in self._catalog.topics or partition.topic.config.compacted
        since_ms = None if everything else self._clock.wall_ms() - self._settings.producer_id_expiration_ms
        try:
            await self._producer_states.rebuild(partition, since_ms=since_ms)
        except (EngineError, BatchError) as error:
            if partition.standing is not Standing.ELSEWHERE:  # else it was lost meanwhile
                self.take_offline(partition, error)

    def take_offline(self, partition: Partition, error: Exception) -> None:
        """The log of a partition is damaged: it is not served."""
        self._tell_offline(partition.tp, error)
        partition.standing = Standing.OFFLINE
        partition.topic.described = None

    def _tell_offline(self, tp: TopicPartition, error: Exception) -> None:
        self._log.error("partition is offline", topic=tp.topic, partition=tp.partition, reason=str(error))

    def _configure(self, entry: TopicEntry) -> None:
        """Let a topic and its logs go by the settings that are in force now."""
        topic = self.topics[entry.name]
        config = TopicConfig.of(entry.configs, self._settings)
        topic.overrides = entry.configs
        if config != topic.config:
            topic.config = config
            for partition in topic.partitions:
                log = self._engine.logs.get(partition.tp)
                if log is not None:
                    log.config = self._log_config(config)

    def _log_config(self, config: TopicConfig) -> LogConfig:
        jitter_ms = min(config.segment_jitter_ms, config.roll_after_ms - 1)
        return LogConfig(
            segment_bytes=config.segment_bytes,
            segment_ms=config.roll_after_ms - (self._random.randint(0, jitter_ms) if jitter_ms else 0),
            segment_index_bytes=config.segment_index_bytes,
            index_interval_bytes=config.index_interval_bytes,
            durability=Durability(config.ottla_durability),
        )

    async def _drop(self, topic: Topic) -> None:
        """Serve a topic no more: it is gone for everybody at once, then its offsets and logs are deleted."""
        del self.topics[topic.name]
        del self.by_id[topic.topic_id]
        self.revision += 1
        self._deleted[topic.name] = None
        if len(self._deleted) > REMEMBERED_DELETIONS:
            del self._deleted[next(iter(self._deleted))]
        self._log.info("topic deleted", topic=topic.name, topic_id=str(topic.topic_id))
        for partition in topic.partitions:
            self.on_touched(partition.tp)
        self.on_deleted(topic)
        deletions = (self._delete_log(partition.tp) for partition in topic.partitions)
        for partition, error in zip(
            topic.partitions, await asyncio.gather(*deletions, return_exceptions=True), strict=True
        ):
            if error is not None:
                # What is left is removed at the next start, as no topic of the catalog has it.
                self._log.error("log not deleted", topic=topic.name, partition=partition.tp.partition,
                                reason=str(error))  # fmt: skip

    async def _delete_log(self, tp: TopicPartition) -> None:
        await self._producer_states.forget(tp)
        await self._engine.delete_log(tp)

    # --------------------------------------------------------------------------------------------------------- leading

    def lose(self, partition: Partition) -> None:
        """This node does not lead a partition any more: nothing is read or written from now on.

        Its log stays open until `release`, as something may be on its way.
        """
        partition.log = self._elsewhere(partition.topic, partition.tp.partition, self.leader(partition))
        partition.standing = Standing.ELSEWHERE
        partition.topic.described = None
        self.on_touched(partition.tp)

    async def gain(self, partition: Partition) -> None:
        """This node leads a partition from now on: open its log, and read what it has to know of it."""
        topic = partition.topic
        await self._engine.release_log(partition.tp)
        partition.standing = Standing.LOADING
        try:
            log, standing = await self._log_of(topic, partition.tp.partition, self.leader(partition))
        except EngineError:
            partition.standing = Standing.ELSEWHERE
            raise
        if partition.standing is not Standing.LOADING:
            return  # it was lost meanwhile
        partition.log, partition.producers, partition.transactions = log, Producers(), Transactions()
        partition.producers.expiration_ms = self._settings.producer_id_expiration_ms
        if standing is Standing.LEADING and not topic.is_internal:
            await self._rebuild(partition)
        if partition.log is log and partition.standing is Standing.LOADING:
            partition.standing = standing
            partition.gained_ms = self._clock.wall_ms()
            topic.described = None
