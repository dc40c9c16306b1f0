"""The topic manager: the topics of a start, and what may be changed of the catalog."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from random import Random
from typing import TypeVar
from uuid import UUID, uuid4

from ottla.broker.clock import Clock
from ottla.broker.cluster.view import Placement
from ottla.broker.core.configs.alterations import Alteration, plan
from ottla.broker.core.topics.catalog import (
    PRODUCER_ID_BLOCK,
    BadCatalog,
    Catalog,
    NewTopic,
    Permit,
    Refusal,
    TopicEntry,
    permitted,
    within_limit,
)
from ottla.broker.core.topics.homes import FOLLOWERS
from ottla.broker.core.topics.partition import Standing
from ottla.broker.engine import Engine, EngineError
from ottla.broker.logger import Logger
from ottla.broker.runtime.catalog_in_force import CatalogInForce
from ottla.broker.runtime.producer_states import ProducerStates
from ottla.broker.runtime.reading import in_turns
from ottla.broker.runtime.setting_changes import Keys, Report, no_report, tell
from ottla.broker.settings import Settings
from ottla.protocol.errors import ErrorCode
from ottla.protocol.internal_topics import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from ottla.protocol.records import TopicPartition

Outcome = TopicEntry | Refusal
"""The outcome of one wanted change: the topic as it is now (with validate_only: would be), or why not."""
T = TypeVar("T")


class TopicManager(CatalogInForce):
    """Topics as they are served, and every change of the catalog that clients and the broker itself make.

    Args:
        new_topic_id: gives a random id for each new topic.

    Attributes:
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
        placement: Placement | None = None,
    ) -> None:
        super().__init__(
            engine, settings, clock, log, random=random, producer_states=producer_states, placement=placement
        )
        self.keys = Keys(log)
        self._new_topic_id = new_topic_id
        self._producer_ids: Iterator[int] = iter(())

    # ------------------------------------------------------------------------------------------------------- starting

    async def start(self) -> None:
        """Read the catalog, open every log that is led here, rebuild what partitions remember of producers.

        Raises:
            BadCatalog: the catalog is not readable, or of other nodes.
            EngineError: ``__consumer_offsets`` could not be created, or, where the node is alone, one of its logs is
                damaged.
        """
        self._engine.catalog.on_changed = self._changed_elsewhere
        self.placement.opened(self._engine.leader_epoch)
        async with self._change:
            await self._refresh()
            await self._make(self._prepared)
            for entry in self._catalog.topics.values():
                topic = await self._serve(entry)
                if not topic.is_internal:
                    for partition in topic.partitions:
                        if partition.standing is Standing.LEADING:
                            await self._rebuild(partition)
            self._is_started = True
            if any(partition.standing is Standing.OFFLINE for partition in self.all_partitions()):
                # To the engine a damaged log is one that nobody has opened: it must not be taken for a deleted topic's.
                return
            await self._refresh()
            elsewhere = {one.tp for one in self.all_partitions() if one.standing is Standing.ELSEWHERE}
            for tp in await self._engine.remove_orphans(besides=elsewhere):
                self._log.info("removed the log of a deleted topic", topic=tp.topic, partition=tp.partition)

    async def _prepared(self, before: Catalog) -> tuple[Catalog, None]:
        """The catalog as this node can go by it: with homes or without, and with the topic of the group coordinator."""
        nodes = self.placement.view.nodes
        strangers = {home for entry in before.topics.values() for home in entry.homes}.difference(nodes)
        if strangers and self.placement.call_home is None:  # or else others lead what is at home at a node that is gone
            homes = sorted({home for entry in before.topics.values() for home in entry.homes})
            text = f"partitions are at home on the nodes {', '.join(map(str, homes))}"
            raise BadCatalog(f"{text}, and there is no node {min(strangers)}: say --nodes {max(homes)}")
        after = before.with_homes(min(nodes)) if self.placement.dealt_to else before.without_homes()
        if OFFSETS_TOPIC not in after.topics:
            after = after.with_topics([self._offsets_topic(after)])
        return after, None

    def _offsets_topic(self, catalog: Catalog) -> TopicEntry:
        """The topic of the group coordinator; it exists from the start, as groups are its main use."""
        configs = {
            "cleanup.policy": "compact",
            "compression.type": "producer",
            "segment.bytes": str(self._settings.offsets_topic_segment_bytes),
        }
        if lag_ms := self._settings.ottla_offsets_topic_min_compaction_lag_ms:
            # Kafka has none: then whoever reads the topic as a history may come too late for what was committed.
            configs["min.compaction.lag.ms"] = str(lag_ms)
        return self._internal(catalog, OFFSETS_TOPIC, self._settings.offsets_topic_num_partitions, configs)

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

        Where there are several nodes, one that follows another topic has as many partitions as that one.

        Raises:
            EngineError: it could not be created.
        """

        async def created(before: Catalog) -> tuple[Catalog, None]:
            if name in before.topics:
                return before, None
            return before.with_topics([self._internal(before, name, partition_count, configs)]), None

        async with self._change:
            await self._make(created)

    def _internal(self, catalog: Catalog, name: str, partition_count: int, configs: Mapping[str, str]) -> TopicEntry:
        dealt_to = self.placement.dealt_to
        if dealt_to and (followed := catalog.topics.get(FOLLOWERS.get(name, ""))):
            partition_count = followed.partition_count
        homes = catalog.dealer(dealt_to).deal(name, partition_count)
        return TopicEntry(name, self._new_topic_id(), partition_count, configs, homes)

    # ------------------------------------------------------------------------------------------------------- changing

    async def create(
        self, wanted: Sequence[NewTopic], *, validate_only: bool = False, permit: Permit | None = None
    ) -> list[Outcome]:
        """Create topics; those that cannot be are refused, the others created together.

        Args:
            permit: asked for the partitions of each topic, even if it is not to be created.
        """
        said: dict[str, Refusal | None] = {}

        def created(before: Catalog) -> list[Outcome]:
            placement = self.placement
            plans = before.plan_topics(
                wanted,
                self._new_topic_id,
                self._settings,
                placement.view.nodes,
                placement.dealt_to,
                self._most_replicas,
            )
            return permitted(plans, permit, lambda plan: plan.partition_count, said)

        return await self._put(created, validate_only)

    async def grow(
        self,
        wanted: Sequence[tuple[str, int, Sequence[Sequence[int]] | None]],
        *,
        validate_only: bool = False,
        permit: Permit | None = None,
    ) -> list[Outcome]:
        """Let topics have more partitions: (name, new count, brokers of each new partition or None)."""
        said: dict[str, Refusal | None] = {}

        def grown(before: Catalog) -> list[Outcome]:
            dealer, nodes = before.dealer(self.placement.dealt_to), self.placement.view.nodes
            plans = [
                before.plan_growth(name, count, brokers, nodes, dealer, self._most_replicas)
                for name, count, brokers in wanted
            ]
            topics = before.topics
            plans = permitted(
                plans, permit, lambda plan: plan.partition_count - topics[plan.name].partition_count, said
            )
            present = sum(topics[plan.name].partition_count for plan in plans if isinstance(plan, TopicEntry))
            return within_limit(plans, present)

        return await self._put(grown, validate_only)

    @property
    def _most_replicas(self) -> int:
        return 1 if self.placement.call_home is None else len(self.placement.view.nodes)

    async def _put(self, planned: Callable[[Catalog], list[Outcome]], validate_only: bool) -> list[Outcome]:
        def put(before: Catalog, entries: list[TopicEntry]) -> Catalog:
            return before if validate_only else before.with_topics(entries)

        return await self._change_topics(planned, put, "topics could not be changed")

    async def delete(self, wanted: Sequence[str | UUID], *, permit: Permit | None = None) -> list[Outcome]:
        """Delete topics: they are gone for everybody at once, then their offsets and logs are deleted.

        Args:
            wanted: names, or ids where no other topic of the name is meant.
        """
        said: dict[str, Refusal | None] = {}

        def doomed(before: Catalog) -> list[Outcome]:
            plans = [self._existing(before, topic) for topic in wanted]
            return permitted(plans, permit, lambda plan: plan.partition_count, said)

        def removed(before: Catalog, entries: list[TopicEntry]) -> Catalog:
            return before.with_topics(remove={entry.name for entry in entries})

        return await self._change_topics(doomed, removed, "topics could not be deleted")

    def _existing(self, catalog: Catalog, wanted: str | UUID) -> Outcome:
        """The topic with a name or an id."""
        if isinstance(wanted, str):
            missing = Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"There is no topic '{wanted}'")
            return catalog.topics.get(wanted) or missing
        topic = self.by_id.get(wanted)
        entry = None if topic is None else catalog.topics.get(topic.name)
        if entry is None or entry.topic_id != wanted:
            return Refusal(ErrorCode.UNKNOWN_TOPIC_ID, f"There is no topic with id {wanted}")
        return entry

    async def _change_topics(
        self,
        planned: Callable[[Catalog], list[Outcome]],
        carried_out: Callable[[Catalog, list[TopicEntry]], Catalog],
        failure: str,
    ) -> list[Outcome]:
        """Plan the changes of one request, and carry those out that are not refused, all together."""
        plans: list[Outcome] = []

        async def changed(before: Catalog) -> tuple[Catalog, None]:
            plans[:] = planned(before)
            entries = [plan for plan in plans if isinstance(plan, TopicEntry)]
            return carried_out(before, entries) if entries else before, None

        async with self._change:
            try:
                await self._make(changed)
            except EngineError as error:
                names = [plan.name for plan in plans if isinstance(plan, TopicEntry)]
                self._log.error(failure, topics=names, reason=str(error))
                return [not_stored(error) if isinstance(plan, TopicEntry) else plan for plan in plans]
        return plans

    async def change(self, plan: Callable[[Catalog], tuple[Catalog, T]]) -> T:
        """Change what the catalog has besides topics and settings.

        Args:
            plan: gives the next catalog, which may be as it was, and what is returned.

        Raises:
            EngineError: the change could not be made durable.
        """

        async def changed(before: Catalog) -> tuple[Catalog, T]:
            after, answer = plan(before)
            same = (after.quotas, after.credentials, after.acls) == (before.quotas, before.credentials, before.acls)
            return before if same else after, answer

        async with self._change:
            return await self._make(changed)

    async def alter_configs(
        self, alterations: Sequence[Alteration], *, validate_only: bool = False, report: Report = no_report
    ) -> list[Refusal | None]:
        """Change settings of topics, brokers and groups; those that may not be changed so are refused.

        What is answered is durable and in force.
        """
        refusals: list[Refusal | None] = []
        versions: list[Catalog] = []

        async def altered(before: Catalog) -> tuple[Catalog, bool]:
            planned = await in_turns(plan(before, alterations, self._settings, self._engine.node_id))
            after, refusals[:] = await self.keys.tried(before, planned, self._layers, alterations)
            versions[:] = before, after
            is_made = not validate_only and not all(refusals)
            return after if is_made else before, is_made

        async with self._change:
            try:
                if not await self._make(altered):
                    return refusals
            except EngineError as error:
                self._log.error("settings could not be changed", reason=str(error))
                return [refusal or not_stored(error) for refusal in refusals]
            report(*versions)
            await self.keys.use(self._settings)
        await tell(alterations, refusals, self._log)
        return refusals

    async def rehome(self, wanted: Mapping[TopicPartition, Sequence[int]]) -> list[TopicPartition]:
        """Let partitions, and those that follow them, be shown with these nodes, of which the first is their home.

        What is gone meanwhile is passed over. Returns all that are at home there now.

        Raises:
            EngineError: the change could not be made durable.
        """
        leading = {followed: name for name, followed in FOLLOWERS.items()}

        async def moved(before: Catalog) -> tuple[Catalog, list[TopicPartition]]:
            entries: dict[str, TopicEntry] = {}
            moves = []
            for tp, nodes in wanted.items():
                for name in (tp.topic, leading.get(tp.topic, "")):
                    entry = entries.get(name) or before.topics.get(name)
                    if entry is not None and tp.partition < entry.partition_count:
                        moves.append(TopicPartition(name, tp.partition))
                        entries[name] = entry.moved(tp.partition, nodes)
            is_same = all(before.topics[name] == entry for name, entry in entries.items())
            return before if is_same else before.with_topics(entries.values()), moves

        async with self._change:
            return await self._make(moved)

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

        self._begin(run())

    async def new_producer_id(self) -> int:
        """A producer id that was never given before: blocks of them are reserved durably before the first is used.

        Raises:
            EngineError: the block could not be reserved.
        """

        async def reserved(before: Catalog) -> tuple[Catalog, int]:
            first = before.next_producer_id
            return replace(before, next_producer_id=first + PRODUCER_ID_BLOCK), first

        if (producer_id := next(self._producer_ids, None)) is not None:
            return producer_id
        async with self._change:
            # Somebody else may have reserved a block while this one waited.
            if (producer_id := next(self._producer_ids, None)) is not None:
                return producer_id
            first = await self._make(reserved)
            self._producer_ids = iter(range(first, first + PRODUCER_ID_BLOCK))
            return next(self._producer_ids)

    @property
    def group_configs(self) -> Mapping[str, Mapping[str, str]]:
        """The settings of groups, by group id."""
        return self._catalog.group_configs


def not_stored(error: EngineError) -> Refusal:
    """Why a change is not made that could not be made durable."""
    return Refusal(ErrorCode.KAFKA_STORAGE_ERROR, str(error))
