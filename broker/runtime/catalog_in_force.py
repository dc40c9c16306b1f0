"""The catalog in force: how a change becomes durable, and the one way in which a catalog is put in force.

A change is planned on the catalog in force and stored over it. If another node was faster, its changes are put in force
first, and the change is planned again: so a plan may be asked for several times.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Coroutine
from random import Random
from typing import TypeVar

from ottla.broker.clock import Clock
from ottla.broker.cluster.view import Placement
from ottla.broker.core.configs.alterations import ALL_BROKERS
from ottla.broker.core.configs.brokers import BrokerConfigs
from ottla.broker.core.quotas.entities import Quotas
from ottla.broker.core.security.acls import Acls
from ottla.broker.core.topics.catalog import Catalog, TopicEntry
from ottla.broker.core.topics.partition import Partition, Standing
from ottla.broker.engine import Engine, Outdated, Unavailable
from ottla.broker.logger import Logger
from ottla.broker.runtime.producer_states import ProducerStates
from ottla.broker.runtime.served_topics import ServedTopics
from ottla.broker.settings import Settings
from ottla.protocol.internal_topics import INTERNAL_TOPICS
from ottla.protocol.sasl.scram import Mechanism

CONFIGURED_TOPICS = 100
"""Topics that are told of a change of the broker's settings in one turn of the loop."""

MOST_TRIES = 20
"""How often a change is planned because another node was faster."""

REFRESH_MS = 50
"""At least so long lies between two looks for those who name topics that are not known."""

FOLLOWED_AGAIN_MS = 1_000
"""Until a catalog is looked at again that could not be read or put in force."""

GAINED_AT_ONCE = 100
"""Logs that are opened beside each other: where they lie elsewhere, each takes some round trips."""

T = TypeVar("T")


class CatalogInForce(ServedTopics):
    """See the module.

    Attributes:
        on_changed: told of each topic that was created or has more partitions, by name, with how many it had.
        on_quotas: told of the quotas of clients when they have changed.
        on_credentials: told of users with a new credential, or with one less, and of its mechanism.
        on_acls: told of the access control rules when they have changed, before anybody hears that they have.
        on_leaders: called when partitions have come, or may have other leaders by their homes.
        on_settings: called when settings of groups or of the broker have changed.
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
        super().__init__(
            engine, settings, clock, log, random=random, producer_states=producer_states, placement=placement
        )
        self.on_changed: Callable[[str, int, int], None] = lambda name, partitions_before, partitions: None
        self.on_quotas: Callable[[Quotas], None] = lambda quotas: None
        self.on_credentials: Callable[[list[tuple[str, Mechanism]]], None] = lambda changed: None
        self.on_acls: Callable[[Acls], None] = lambda acls: None
        self.on_leaders: Callable[[], None] = lambda: None
        self.on_settings: Callable[[], None] = lambda: None
        self._version = 0
        self._is_started = False
        self._change = asyncio.Lock()
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_outdated = False
        self._is_following = False
        self._waiting: list[Callable[[], None]] = []
        self._look_again_ms = 0

    def stop(self) -> None:
        """Follow no changes of others any more."""
        self._engine.catalog.on_changed = lambda: None
        self._is_started = False

    def _begin(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _make(self, planned: Callable[[Catalog], Awaitable[tuple[Catalog, T]]]) -> T:
        """Make a change, while nobody else here makes one, and put it in force.

        Args:
            planned: gives the next catalog, or the very one that it was given, and what is returned.

        Raises:
            EngineError: the change could not be made durable.
        """
        await self._refresh()  # nobody is told that there is no such topic by what was so a while ago
        for _ in range(MOST_TRIES):
            before = self._catalog
            after, answer = await planned(before)
            if after is before:
                return answer
            try:
                self._version = await self._engine.catalog.store(after.state(), over=self._version)
            except Outdated:
                await self._refresh()
                continue
            await self._apply(before, after)
            return answer
        raise Unavailable(f"other nodes have changed the catalog {MOST_TRIES} times meanwhile")

    async def _apply(self, before: Catalog, after: Catalog) -> None:
        """Put a catalog in force, whoever has changed it."""
        self._catalog = after
        if not self._is_started:
            self.broker_configs = self._layers(after)
            return
        self._apply_security(before, after)
        await self._apply_settings(before, after)
        for topic in list(self.topics.values()):
            kept = after.topics.get(topic.name)
            if kept is None or kept.topic_id != topic.topic_id:
                await self._drop(topic)
        grown = {
            entry.name: self.partition_count(entry.name)
            for entry in after.topics.values()
            if entry.partition_count > self.partition_count(entry.name)
        }
        for name in grown:
            await self._serve(after.topics[name])
        for name, had in grown.items():
            if name not in INTERNAL_TOPICS:
                entry = after.topics[name]
                self.on_changed(name, had, entry.partition_count)
                self._log.info("topic has partitions", topic=name, topic_id=str(entry.topic_id),
                               partitions=entry.partition_count)  # fmt: skip
        if grown or any(_has_moved(before.topics.get(entry.name), entry) for entry in after.topics.values()):
            self.on_leaders()

    def _apply_security(self, before: Catalog, after: Catalog) -> None:
        if (after.quotas, after.credentials, after.acls) == (before.quotas, before.credentials, before.acls):
            return
        self._log.info("quotas, credentials or rules changed", quotas=len(after.quotas),
                       credentials=len(after.credentials), rules=len(after.acls))  # fmt: skip
        if after.quotas != before.quotas:
            self.on_quotas(after.quotas)
        if after.credentials != before.credentials:
            now = after.credentials
            self.on_credentials([key for key, one in before.credentials.items() if now.get(key) != one])
        if after.acls != before.acls:
            self.on_acls(after.acls)

    async def _apply_settings(self, before: Catalog, after: Catalog) -> None:
        changed = [entry for entry in after.topics.values() if _is_set_anew(before.topics.get(entry.name), entry)]
        if after.broker_configs != before.broker_configs:
            self.broker_configs = self._layers(after)
            changed = list(after.topics.values())
        if (after.broker_configs, after.group_configs) != (before.broker_configs, before.group_configs):
            self.on_settings()
        for number, entry in enumerate(changed, 1):
            topic = self.topics.get(entry.name)
            if topic is not None and topic.topic_id == entry.topic_id:
                self._configure(entry)
            if not number % CONFIGURED_TOPICS:
                await asyncio.sleep(0)

    def _layers(self, catalog: Catalog) -> BrokerConfigs:
        configs = catalog.broker_configs
        own = configs.get(str(self._engine.node_id), {})
        return BrokerConfigs(self.broker_configs.static, default=configs.get(ALL_BROKERS, {}), own=own)

    # ------------------------------------------------------------------------------------------------ changes of others

    def is_behind(self) -> bool:
        """Whether other nodes have changed something that is not in force here yet, as far as can be seen at once."""
        self._engine.catalog.look()
        return self._is_outdated or self._is_following

    async def refresh(self) -> None:
        """Put in force what other nodes have changed until now. Raises as `ottla.broker.engine.Catalog.refresh`."""
        async with self._change:
            await self._refresh()

    def refreshed(self, then: Callable[[], None]) -> None:
        """Call back when all that other nodes had changed until now is in force, or could not be read.

        Those who ask within `REFRESH_MS` share one look, so that nobody keeps the disk busy with names of no topics.
        """
        self._waiting.append(then)
        if len(self._waiting) > 1:
            return
        clock = self._clock.real
        if clock.monotonic_ms() >= self._look_again_ms:
            self._begin(self._refresh_for_those_who_wait())
        else:
            clock.call_at(self._look_again_ms, lambda: self._begin(self._refresh_for_those_who_wait()))

    async def _refresh_for_those_who_wait(self) -> None:
        self._look_again_ms = self._clock.real.monotonic_ms() + REFRESH_MS
        waiting, self._waiting = self._waiting, []
        try:
            await self.refresh()
        except Exception:  # a bug of ours, or a disk that fails, must not leave requests unanswered
            self._log.error("changes of other nodes could not be looked for", exc_info=True)
        for then in waiting:
            then()

    async def _refresh(self) -> None:
        catalog = self._engine.catalog
        await catalog.refresh()
        if catalog.version != self._version:
            version, after = catalog.version, Catalog.from_state(catalog.load())
            await self._apply(self._catalog, after)
            self._version = version

    def _changed_elsewhere(self) -> None:
        if self._is_started and not self._is_outdated:
            self._is_outdated = True
            self._begin(self._follow_changes())

    async def _follow_changes(self) -> None:
        async with self._change:
            self._is_outdated, self._is_following = False, True
            try:
                await self._refresh()
            except Exception:  # a bug of ours, or a disk that fails, must not keep this node from what comes later
                self._log.error("changes of other nodes could not be put in force", exc_info=True)
                self._clock.call_at(self._clock.monotonic_ms() + FOLLOWED_AGAIN_MS, self._changed_elsewhere)
            finally:
                self._is_following = False

    async def follow_placement(self, topics: Collection[str] | None = None) -> None:
        """Open the logs of partitions that this node has come to lead, and let those go that it leads no more.

        Args:
            topics: no others; None: all of them.
        """
        async with self._change:
            gained = []
            for partition in self.all_partitions():
                if partition.standing is Standing.ELSEWHERE and (topics is None or partition.tp.topic in topics):
                    if self.leader(partition).node_id == self.placement.view.me:
                        gained.append(partition)
                    else:
                        await self._engine.release_log(partition.tp)
            for first in range(0, len(gained), GAINED_AT_ONCE):
                some = gained[first : first + GAINED_AT_ONCE]
                for failure in await asyncio.gather(*map(self._gain_or_let_go, some), return_exceptions=True):
                    if failure is not None:
                        raise failure

    async def _gain_or_let_go(self, partition: Partition) -> None:
        if partition.standing is Standing.ELSEWHERE and self.leader(partition).node_id == self.placement.view.me:
            await self.gain(partition)
        if partition.standing is Standing.ELSEWHERE:
            await self._engine.release_log(partition.tp)


def _is_set_anew(before: TopicEntry | None, after: TopicEntry) -> bool:
    """Whether the settings of a topic are others than they were."""
    return before is not None and before.topic_id == after.topic_id and before.configs != after.configs


def _has_moved(before: TopicEntry | None, after: TopicEntry) -> bool:
    """Whether partitions of a topic are at home elsewhere than they were."""
    return before is not None and before.homes is not after.homes and before.homes != after.homes
