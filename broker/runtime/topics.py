"""The topic manager: changes of the catalog made durable, logs opened and deleted to match it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from random import Random
from typing import TypeVar
from uuid import UUID, uuid4

from ottla.broker.clock import Clock
from ottla.broker.core.configs.alterations import ALL_BROKERS, Alteration, plan
from ottla.broker.core.configs.brokers import BrokerConfigs
from ottla.broker.core.quotas.entities import Quotas
from ottla.broker.core.security.acls import Acls
from ottla.broker.core.topics.catalog import (
    PRODUCER_ID_BLOCK,
    Catalog,
    NewTopic,
    Permit,
    Refusal,
    TopicEntry,
    permitted,
    within_limit,
)
from ottla.broker.core.topics.configs import TopicConfig
from ottla.broker.core.topics.partition import Partition, Topic
from ottla.broker.engine import Corrupt, Durability, Engine, EngineError, LogConfig
from ottla.broker.logger import Logger
from ottla.broker.runtime.offline_log import OfflineLog
from ottla.broker.runtime.producer_states import ProducerStates
from ottla.broker.runtime.reading import in_turns
from ottla.broker.runtime.setting_changes import Keys, Report, no_report, tell
from ottla.broker.settings import Settings
from ottla.protocol.errors import ErrorCode
from ottla.protocol.internal_topics import INTERNAL_TOPICS, OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from ottla.protocol.records import BatchError, TopicPartition
from ottla.protocol.sasl.scram import Mechanism

CONFIGURED_TOPICS = 100
"""Topics that are told of a change of the broker's settings in one turn of the loop."""


OPENED_LOGS = 20
"""Logs that are opened in one turn of the loop."""

COORDINATED = (OFFSETS_TOPIC, TRANSACTIONS_TOPIC)
"""Without every one of their logs the broker would answer wrongly; of any other topic it serves what it can."""

REMEMBERED_DELETIONS = 1_000
"""Names of deleted topics that are kept in mind: whoever writes to one of them may not have heard of it."""

Outcome = TopicEntry | Refusal
"""The outcome of one wanted change: the topic as it is now (with validate_only: would be), or why not."""
T = TypeVar("T")


class TopicManager:
    """Topics as they are served, and every change of them.

    Args:
        engine: opened before `start`.
        new_topic_id: gives a random id for each new topic.
        random: draws the jitter of segments.
        producer_states: rebuilds what partitions remember of producers; without it their logs are read.

    Attributes:
        revision: rises with each topic that comes, grows or goes.
        broker_configs: the broker's settings in layers, dynamic ones included.
        on_touched: told of each partition of a topic that was deleted, to wake fetches that wait there.
        on_changed: told of each topic that was created or has more partitions, by name, with how many it had.
        on_deleted: told of each topic that was deleted, when nobody can see it any more, to drop its offsets.
        on_quotas: told of the quotas of clients when they have changed.
        on_credentials: told of users with a new credential, or with one less, and of its mechanism.
        on_acls: told of the access control rules when they have changed, before anybody hears that they have.
        on_served: told of each topic as it is served from then on: it came, or has more partitions.
        on_settings: called when settings of groups or of the broker have changed.
        keys: puts changes of keys and certificates in force.
    """

    def __init__(
        self,
        engine: Engine,
        settings: Settings,
        clock: Clock,
        log: Logger,
        *,
        new_topic_id: Callable[[], UUID] = uuid4,
        random: Random | None = None,
        producer_states: ProducerStates | None = None,
    ) -> None:
        self.topics: dict[str, Topic] = {}
        self.by_id: dict[UUID, Topic] = {}
        self.revision = 0
        self.on_touched: Callable[[TopicPartition], None] = lambda tp: None
        self.on_changed: Callable[[str, int, int], None] = lambda name, partitions_before, partitions: None
        self.on_deleted: Callable[[Topic], None] = lambda topic: None
        self.on_quotas: Callable[[Quotas], None] = lambda quotas: None
        self.on_credentials: Callable[[list[tuple[str, Mechanism]]], None] = lambda changed: None
        self.on_acls: Callable[[Acls], None] = lambda acls: None
        self.on_served: Callable[[Topic], None] = lambda topic: None
        self.on_settings: Callable[[], None] = lambda: None
        self.keys = Keys(log)
        self._engine = engine
        self.broker_configs = BrokerConfigs(settings)
        self._random = random or Random()
        self._producer_states = producer_states or ProducerStates(None, clock, log)
        self._clock = clock
        self._log = log
        self._broker_ids = (engine.node_id,)
        self._new_topic_id = new_topic_id
        self._catalog = Catalog()
        self._change = asyncio.Lock()
        self._producer_ids: Iterator[int] = iter(())
        self._tasks: set[asyncio.Task[None]] = set()
        self._deleted: dict[str, None] = {}
        self._opened = 0

    # ------------------------------------------------------------------------------------------------------- starting

    async def start(self) -> None:
        """Read the catalog, open every log, rebuild what partitions remember of producers.

        Raises:
            BadCatalog: the catalog is not readable.
            EngineError: ``__consumer_offsets`` could not be created, or one of its logs is damaged.
        """
        self._catalog = Catalog.from_state(self._engine.catalog.load())
        self.broker_configs = self._layers(self._catalog)
        if OFFSETS_TOPIC not in self._catalog.topics:
            await self._store(self._catalog.with_topics([self._offsets_topic()]))
        for entry in self._catalog.topics.values():
            topic = await self._serve(entry)
            if not topic.is_internal:
                for partition in topic.partitions:
                    await self._rebuild(partition)
        if any(partition.offline for topic in self.topics.values() for partition in topic.partitions):
            # To the engine a damaged log is one that nobody has opened: it must not be taken for a deleted topic's.
            return
        for tp in await self._engine.remove_orphans():
            self._log.info("removed the log of a deleted topic", topic=tp.topic, partition=tp.partition)

    def _offsets_topic(self) -> TopicEntry:
        """The topic of the group coordinator; it exists from the start, as groups are its main use."""
        configs = {
            "cleanup.policy": "compact",
            "compression.type": "producer",
            "segment.bytes": str(self._settings.offsets_topic_segment_bytes),
        }
        if lag_ms := self._settings.ottla_offsets_topic_min_compaction_lag_ms:
            # Kafka has none: then whoever reads the topic as a history may come too late for what was committed.
            configs["min.compaction.lag.ms"] = str(lag_ms)
        return TopicEntry(OFFSETS_TOPIC, self._new_topic_id(), self._settings.offsets_topic_num_partitions, configs)

    async def create_transactions_topic(self) -> None:
        """Create the topic of the transaction coordinator if it is not there.

        Raises:
            EngineError: it could not be created.
        """
        configs = {
            "cleanup.policy": "compact",
            "compression.type": "uncompressed",
            "segment.bytes": str(self._settings.transaction_state_log_segment_bytes),
            "unclean.leader.election.enable": "false",
        }
        await self.create_internal(TRANSACTIONS_TOPIC, self._settings.transaction_state_log_num_partitions, configs)

    async def create_internal(self, name: str, partition_count: int, configs: Mapping[str, str]) -> None:
        """Create a topic that the broker itself writes, if it is not there.

        Raises:
            EngineError: it could not be created.
        """
        async with self._change:
            if name not in self.topics:
                entry = TopicEntry(name, self._new_topic_id(), partition_count, configs)
                await self._store(self._catalog.with_topics([entry]))
                await self._serve(entry)

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
            self._take_offline(partition, error)

    def client_partitions(self) -> list[Partition]:
        """The partitions that clients write to."""
        topics = (topic for topic in self.topics.values() if not topic.is_internal)
        return [partition for topic in topics for partition in topic.partitions]

    def _take_offline(self, partition: Partition, error: Exception) -> None:
        self._log.error("partition is offline", topic=partition.tp.topic, partition=partition.tp.partition,
                        reason=str(error))  # fmt: skip
        partition.offline = True

    async def _serve(self, entry: TopicEntry) -> Topic:
        """Open the logs of a topic, or those that it has more now, and show it."""
        config = TopicConfig.of(entry.configs, self._settings)
        topic = self.topics.get(entry.name)
        if topic is None:
            is_internal = entry.name in INTERNAL_TOPICS
            topic = Topic(entry.name, entry.topic_id, is_internal=is_internal, overrides=entry.configs, config=config)
        for index in range(len(topic.partitions), entry.partition_count):
            self._opened += 1
            if not self._opened % OPENED_LOGS:
                await asyncio.sleep(0)
            log_config = self._log_config(config)
            try:
                log = await self._engine.open_log(entry.name, entry.topic_id, index, log_config)
                partition = topic.add_partition(log)
                partition.producers.expiration_ms = self._settings.producer_id_expiration_ms
            except Corrupt as error:
                if entry.name in COORDINATED:
                    raise
                offline = OfflineLog(
                    TopicPartition(entry.name, index), entry.topic_id, log_config, self._engine.leader_epoch
                )
                self._take_offline(topic.add_partition(offline), error)
        self.topics[entry.name] = topic
        self.by_id[entry.topic_id] = topic
        self.revision += 1
        self._deleted.pop(entry.name, None)
        self.on_served(topic)
        return topic

    def _log_config(self, config: TopicConfig) -> LogConfig:
        jitter_ms = min(config.segment_jitter_ms, config.roll_after_ms - 1)
        return LogConfig(
            segment_bytes=config.segment_bytes,
            segment_ms=config.roll_after_ms - (self._random.randint(0, jitter_ms) if jitter_ms else 0),
            segment_index_bytes=config.segment_index_bytes,
            index_interval_bytes=config.index_interval_bytes,
            durability=Durability(config.ottla_durability),
        )

    async def _store(self, catalog: Catalog) -> None:
        """Make a catalog durable, then the one that counts."""
        await self._engine.catalog.store(catalog.state())
        self._catalog = catalog

    # ------------------------------------------------------------------------------------------------------- changing

    async def create(
        self, wanted: Sequence[NewTopic], *, validate_only: bool = False, permit: Permit | None = None
    ) -> list[Outcome]:
        """Create topics; those that cannot be are refused, the others created together.

        Args:
            permit: asked for the partitions of each topic, even if it is not to be created.
        """
        async with self._change:
            plans = self._catalog.plan_topics(wanted, self._new_topic_id, self._settings, self._broker_ids)
            plans = permitted(plans, permit, lambda plan: plan.partition_count)
            return plans if validate_only else await self._put(plans)

    async def grow(
        self,
        wanted: Sequence[tuple[str, int, Sequence[Sequence[int]] | None]],
        *,
        validate_only: bool = False,
        permit: Permit | None = None,
    ) -> list[Outcome]:
        """Let topics have more partitions: (name, new count, brokers of each new partition or None)."""
        async with self._change:
            catalog = self._catalog
            plans = [catalog.plan_growth(name, count, brokers, self._broker_ids) for name, count, brokers in wanted]
            plans = permitted(
                plans, permit, lambda plan: plan.partition_count - catalog.topics[plan.name].partition_count
            )
            present = sum(catalog.topics[plan.name].partition_count for plan in plans if isinstance(plan, TopicEntry))
            plans = within_limit(plans, present)
            return plans if validate_only else await self._put(plans)

    async def change(self, plan: Callable[[Catalog], tuple[Catalog, T]]) -> T:
        """Change what the catalog has besides topics and settings.

        Args:
            plan: gives the next catalog, which may be as it was, and what is returned.

        Raises:
            EngineError: the change could not be made durable.
        """
        async with self._change:
            before = self._catalog
            catalog, answer = plan(before)
            if (catalog.quotas, catalog.credentials, catalog.acls) != (before.quotas, before.credentials, before.acls):
                await self._store(catalog)
                self._log.info("quotas, credentials or rules changed", quotas=len(catalog.quotas),
                               credentials=len(catalog.credentials), rules=len(catalog.acls))  # fmt: skip
                if catalog.quotas != before.quotas:
                    self.on_quotas(catalog.quotas)
                if catalog.credentials != before.credentials:
                    now = catalog.credentials
                    self.on_credentials([key for key, one in before.credentials.items() if now.get(key) != one])
                if catalog.acls != before.acls:
                    self.on_acls(catalog.acls)
        return answer

    async def alter_configs(
        self, alterations: Sequence[Alteration], *, validate_only: bool = False, report: Report = no_report
    ) -> list[Refusal | None]:
        """Change settings of topics, brokers and groups; those that may not be changed so are refused.

        What is answered is durable and in force.
        """
        async with self._change:
            before = self._catalog
            planned = await in_turns(plan(before, alterations, self._settings, self._engine.node_id))
            catalog, refusals = await self.keys.tried(before, planned, self._layers, alterations)
            if validate_only or all(refusals):
                return refusals
            try:
                await self._store(catalog)
            except EngineError as error:
                self._log.error("settings could not be changed", reason=str(error))
                return [refusal or not_stored(error) for refusal in refusals]
            report(before, catalog)
            if catalog.broker_configs != before.broker_configs:
                self.broker_configs = self._layers(catalog)
                changed = list(catalog.topics.values())
            else:
                changed = [entry for name, entry in catalog.topics.items() if entry is not before.topics.get(name)]
            self.on_settings()
            await self.keys.use(self._settings)
            for number, entry in enumerate(changed, 1):
                self._configure(entry)
                if not number % CONFIGURED_TOPICS:
                    await asyncio.sleep(0)
        await tell(alterations, refusals, self._log)
        return refusals

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

    def _layers(self, catalog: Catalog) -> BrokerConfigs:
        configs = catalog.broker_configs
        own = configs.get(str(self._engine.node_id), {})
        return BrokerConfigs(self.broker_configs.static, default=configs.get(ALL_BROKERS, {}), own=own)

    async def _put(self, plans: list[Outcome]) -> list[Outcome]:
        entries = [plan for plan in plans if isinstance(plan, TopicEntry)]
        if not entries:
            return plans
        known = self._catalog.topics
        try:
            await self._store(self._catalog.with_topics(entries))
            for entry in entries:
                await self._serve(entry)
        except EngineError as error:
            self._log.error("topics could not be changed", topics=[entry.name for entry in entries], reason=str(error))
            return [not_stored(error) if isinstance(plan, TopicEntry) else plan for plan in plans]
        for entry in entries:
            had = known[entry.name].partition_count if entry.name in known else 0
            self.on_changed(entry.name, had, entry.partition_count)
            self._log.info("topic has partitions", topic=entry.name, topic_id=str(entry.topic_id),
                           partitions=entry.partition_count)  # fmt: skip
        return plans

    async def delete(self, wanted: Sequence[str | UUID], *, permit: Permit | None = None) -> list[Outcome]:
        """Delete topics: they are gone for everybody at once, then their offsets and logs are deleted.

        Args:
            wanted: names, or ids where no other topic of the name is meant.
        """
        async with self._change:
            outcomes: list[Outcome] = [self._existing(topic) for topic in wanted]
            outcomes = permitted(outcomes, permit, lambda plan: plan.partition_count)
            doomed = {entry.name: entry for entry in outcomes if isinstance(entry, TopicEntry)}
            if not doomed:
                return outcomes
            try:
                await self._store(self._catalog.with_topics(remove=doomed))
            except EngineError as error:
                self._log.error("topics could not be deleted", topics=list(doomed), reason=str(error))
                return [not_stored(error) if isinstance(outcome, TopicEntry) else outcome for outcome in outcomes]
            for topic in [self.topics[name] for name in doomed]:
                await self._drop(topic)
        return outcomes

    def _existing(self, wanted: str | UUID) -> Outcome:
        """The topic with a name or an id."""
        if isinstance(wanted, str):
            missing = Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"There is no topic '{wanted}'")
            return self._catalog.topics.get(wanted) or missing
        topic = self.by_id.get(wanted)
        if topic is None:
            return Refusal(ErrorCode.UNKNOWN_TOPIC_ID, f"There is no topic with id {wanted}")
        return self._catalog.topics[topic.name]

    async def _drop(self, topic: Topic) -> None:
        del self.topics[topic.name]
        del self.by_id[topic.topic_id]
        self.revision += 1
        self._deleted[topic.name] = None
        if len(self._deleted) > REMEMBERED_DELETIONS:
            del self._deleted[next(iter(self._deleted))]
        self._log.info("topic deleted", topic=topic.name, topic_id=str(topic.topic_id))
        for partition in topic.partitions:
            self._producer_states.forget(partition.tp)
            self.on_touched(partition.tp)
        self.on_deleted(topic)
        deletions = (self._engine.delete_log(partition.tp) for partition in topic.partitions)
        for partition, error in zip(
            topic.partitions, await asyncio.gather(*deletions, return_exceptions=True), strict=True
        ):
            if error is not None:
                # What is left is removed at the next start, as no topic of the catalog has it.
                self._log.error("log not deleted", topic=topic.name, partition=partition.tp.partition,
                                reason=str(error))  # fmt: skip

    def auto_create(
        self, names: Sequence[str], created: Callable[[Sequence[Outcome]], None], *, permit: Permit | None = None
    ) -> None:
        """Create topics with the broker's defaults in a task of its own, then call back."""

        async def run() -> None:
            try:
                outcomes = await self.create([NewTopic(name) for name in names], permit=permit)
            except Exception:
                # A bug of ours must not leave the requests of clients unanswered.
                self._log.error("topics could not be created", topics=list(names), exc_info=True)
                outcomes = [Refusal(ErrorCode.UNKNOWN_SERVER_ERROR, "a bug of the broker") for _ in names]
            created(outcomes)

        task = asyncio.get_running_loop().create_task(run())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # --------------------------------------------------------------------------------------------------- producer ids

    async def new_producer_id(self) -> int:
        """A producer id that was never given before: blocks of them are reserved durably before the first is used.

        Raises:
            EngineError: the block could not be reserved.
        """
        if (producer_id := next(self._producer_ids, None)) is not None:
            return producer_id
        async with self._change:
            # Somebody else may have reserved a block while this one waited.
            if (producer_id := next(self._producer_ids, None)) is not None:
                return producer_id
            first = self._catalog.next_producer_id
            await self._store(replace(self._catalog, next_producer_id=first + PRODUCER_ID_BLOCK))
            self._producer_ids = iter(range(first, first + PRODUCER_ID_BLOCK))
            return next(self._producer_ids)

    # --------------------------------------------------------------------------------------------------------- looking

    @property
    def catalog(self) -> Catalog:
        """The catalog in force. Never changed, but replaced."""
        return self._catalog

    def was_deleted(self, name: str) -> bool:
        """Whether there was a topic of that name since the start, and there is none now."""
        return name in self._deleted

    @property
    def group_configs(self) -> Mapping[str, Mapping[str, str]]:
        """The settings of groups, by group id."""
        return self._catalog.group_configs

    @property
    def _settings(self) -> Settings:
        return self.broker_configs.settings

    def partition(self, tp: TopicPartition) -> Partition | None:
        """A partition that is served, or None."""
        topic = self.topics.get(tp.topic)
        return topic.partition(tp.partition) if topic else None

    def partition_count(self, name: str) -> int:
        """How many partitions a topic has; 0 if there is no such topic."""
        topic = self.topics.get(name)
        return len(topic.partitions) if topic else 0


def not_stored(error: EngineError) -> Refusal:
    """Why a change is not made that could not be made durable."""
    return Refusal(ErrorCode.KAFKA_STORAGE_ERROR, str(error))
