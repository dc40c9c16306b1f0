"""The composition root: builds everything, and is the only file that knows all rooms."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from random import randrange
from time import perf_counter_ns
from typing import Any
from uuid import uuid4

from ottla.broker.core.fetch_sessions import LARGEST_ID, FetchSessions
from ottla.broker.core.fetches import FetchPurgatory
from ottla.broker.core.groups.config import GroupConfig
from ottla.broker.core.groups.coordinator import GroupCoordinator
from ottla.broker.core.log_dir import in_memory
from ottla.broker.core.quotas.limits import ClientQuotas
from ottla.broker.core.topics.catalog import OFFSETS_TOPIC, BadCatalog, NewTopic, Refusal
from ottla.broker.core.transactions.config import TransactionConfig
from ottla.broker.dispatch import Dispatcher
from ottla.broker.handlers import fetch
from ottla.broker.handlers.services import Node, Services
from ottla.broker.net.listener import Listener
from ottla.broker.observe.events import Emit, no_op
from ottla.broker.observe.lines import CoordinatorLines
from ottla.broker.observe.logs import Silent
from ottla.broker.runtime.cleaner import Cleaner
from ottla.broker.runtime.driver import Driver
from ottla.broker.runtime.log_dir import measured
from ottla.broker.runtime.loop_clock import LoopClock
from ottla.broker.runtime.metering import ConnectionMeter
from ottla.broker.runtime.producer_states import ProducerStates
from ottla.broker.runtime.quota_keeper import QuotaKeeper
from ottla.broker.runtime.topics import TopicManager
from ottla.broker.runtime.transactions import TransactionDriver
from ottla.broker.settings import Settings
from ottla.broker.storage.engine import Corrupt, DamagedLog, Engine, EngineError
from ottla.broker.storage.memory import MemoryEngine
from ottla.protocol.errors import MalformedFrame
from ottla.protocol.records import BatchError, TopicPartition

CATALOG = "catalog.json"
MOST_PLACES = 3
"""So many damaged places are named when a start is refused."""
PRODUCERS = "producers"
"""The folder of a data directory with what partitions remember of producers; it may be deleted."""


class CannotStart(Exception):
    """The broker cannot serve; the message says why and, where it can, what to do."""


class Broker:
    """One broker on one event loop.

    Args:
        directory: where the logs live; None keeps everything in memory.
        host, port: where to listen; an empty host means all interfaces, port 0 any free one.
        advertised: what clients are told to connect to; None tells each client the address that it reached.
        topics: (name, partitions) to create if they are not there.
        log: a structlog logger; nothing is logged without one.
        emit: takes the coordinator's events; by default its log lines are made of them.

    Attributes:
        on_fatal: called when the storage cannot make anything durable any more; the process should end at once.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        directory: Path | None,
        host: str = "127.0.0.1",
        port: int = 0,
        advertised: tuple[str, int] | None = None,
        topics: Sequence[tuple[str, int]] = (),
        log: Any = None,
        emit: Emit = no_op,
    ) -> None:
        self.settings = settings
        self.host, self.port = host, port
        self.on_fatal: Callable[[], None] = lambda: None
        self.log = log if log is not None else Silent()
        self._directory = directory
        self._advertised = advertised
        self._wanted = topics
        self._emit = emit if emit is not no_op or log is None else CoordinatorLines(self.log)
        self._engine: Engine
        self._producer_states: ProducerStates
        self._topics: TopicManager
        self._driver: Driver
        self._cleaner: Cleaner
        self._transactions: TransactionDriver
        self._listener: Listener

    @property
    def listening(self) -> str:
        """``host:port`` at which this machine reaches the broker. Known once started."""
        host = "127.0.0.1" if self.host in ("", "::", "0.0.0.0") else self.host
        return f"[{host}]:{self.port}" if ":" in host else f"{host}:{self.port}"

    async def start(self) -> None:
        """Open the storage, load topics and groups, then listen.

        Raises:
            CannotStart: the storage cannot be opened or is damaged, or the address is taken.
        """
        self._clock = LoopClock(asyncio.get_running_loop())
        self._engine = self._new_engine()
        self._engine.on_fatal = self._storage_failed
        try:
            await self._engine.open()
        except EngineError as error:
            raise CannotStart(self._with_next_step(error)) from error
        try:
            self._miss_no_catalog()
            directory = None if self._directory is None else self._directory / PRODUCERS
            self._producer_states = ProducerStates(directory, self._clock, self.log)
            self._topics = TopicManager(
                self._engine, self.settings, self._clock, self.log, producer_states=self._producer_states
            )
            await self._topics.start()
            self._tell_recovered()
            self._compose()
            self._load_groups()
            self._transactions.load()
            await self._create_wanted()
            self.host, self.port = await self._listen()
            self._cleaner.start()
            self._producer_states.start(self._topics.client_partitions)
        except (EngineError, BadCatalog, MalformedFrame) as error:
            text = self._with_next_step(error)
            await self._engine.close()
            raise CannotStart(text) from error
        except CannotStart:
            await self._engine.close()
            raise

    def tell_ready(self) -> None:
        """Log where the broker listens; apart from `start`, so that the address can be printed before any log line."""
        self.log.info("Ready", listen=self.listening, node_id=self._engine.node_id, cluster_id=self._engine.cluster_id)

    async def stop(self) -> None:
        """Answer what is open, close the connections, and make everything durable."""
        self.log.info("Stopping")
        self._listener.stop_accepting()
        self._transactions.stop()
        self._driver.stop()
        self._meter.unmute_all()
        await self._listener.drain(self.settings.shutdown_drain_ms)
        self._quota_keeper.stop()
        await self._cleaner.stop()
        await self._producer_states.stop(self._topics.client_partitions())
        await self._engine.close()
        self.log.info("Stopped")

    async def abandon(self) -> None:
        """Stop serving as a killed process does, for tests: connections drop and nothing more is answered.

        The storage is let go in order, so that another broker of this process can open it: records that nobody was
        told of may be there or not, as after a kill.
        """
        self._listener.stop_accepting()
        self._driver.silence()
        self._transactions.silence()
        self._listener.abort_all()
        self._quota_keeper.stop()
        await self._cleaner.stop()
        await self._producer_states.stop(())
        await self._engine.close()

    # -- parts

    def _new_engine(self) -> Engine:
        if self._directory is None:
            return MemoryEngine(new_uuid=uuid4, node_id=self.settings.node_id)
        from ottla.broker.storage.local.engine import LocalEngine

        return LocalEngine(
            str(self._directory),
            new_uuid=uuid4,
            node_id=self.settings.node_id,
            interval_ms=self.settings.ottla_durability_interval_ms,
        )

    def _compose(self) -> None:
        settings, clock = self.settings, self._clock
        # Of the topic as it is: the setting may have been changed after it was created.
        partition_count = self._topics.partition_count(OFFSETS_TOPIC)
        coordinator = GroupCoordinator(
            GroupConfig(
                group_min_session_timeout_ms=settings.group_min_session_timeout_ms,
                group_max_session_timeout_ms=settings.group_max_session_timeout_ms,
                group_initial_rebalance_delay_ms=settings.group_initial_rebalance_delay_ms,
                group_max_size=settings.group_max_size,
                offset_metadata_max_bytes=settings.offset_metadata_max_bytes,
                offsets_retention_ms=settings.offsets_retention_ms,
                offsets_retention_check_interval_ms=settings.offsets_retention_check_interval_ms,
                group_generation_persist=settings.group_generation_persist,  # type: ignore[arg-type]
            ),
            new_id=lambda: str(uuid4()),
            partition_count=partition_count,
            emit=self._emit,
        )
        fetches = FetchPurgatory()
        coordinator.start()
        self._driver = Driver(
            coordinator,
            fetches,
            clock,
            partition=self._topics.partition,
            answer_fetch=lambda parked: fetch.complete(parked, self._services),
            partition_count=partition_count,
            max_batch_bytes=settings.message_max_bytes,
            report=self.log,
            defer=asyncio.get_running_loop().call_soon,
        )
        self._transactions = self._new_transactions()
        self._services = Services(
            settings=settings,
            clock=clock,
            node=Node(self._engine.node_id, self._engine.cluster_id, self._advertised),
            groups=self._driver,
            topics=self._topics,
            fetches=self._driver,
            transactions=self._transactions,
            log_dir=in_memory if self._directory is None else partial(measured, self._directory),
            logger=self.log if hasattr(self.log, "level") else None,
            fetch_sessions=FetchSessions(
                settings.max_incremental_fetch_session_cache_slots, lambda: randrange(1, LARGEST_ID + 1)
            ),
        )
        self._cleaner = Cleaner(self._engine, self._topics, clock, self.log, directory=self._directory)
        self._cleaner.on_markers_gone = self._producer_states.forget
        self._engine.on_appended = self._appended
        self._topics.on_touched = self._driver.touched
        self._topics.on_deleted = lambda topic: self._driver.topic_deleted(topic.name, topic.topic_id)
        self._dispatcher = Dispatcher(self._services, self.log, settings.protocol_codec)
        self._listener = Listener(settings, clock, self._dispatcher.receive, self.log)
        self._quotas = ClientQuotas(settings)
        self._meter = ConnectionMeter(self._quotas, clock, perf_counter_ns)
        self._quota_keeper = QuotaKeeper(self._quotas, self._quotas_changed, self.log)
        self._topics.on_quotas = self._quota_keeper.go_by
        self._topics.on_quotas(self._topics.catalog.quotas)

    def _quotas_changed(self) -> None:
        """Measure what clients use if there are quotas, and do not if there are none."""
        quotas, listener = self._quotas, self._listener
        self._dispatcher.meter = self._meter if quotas.of_requests else None
        listener.wait_of = self._connection_wait_ms if quotas.addresses.limits else None
        for connection in listener.connections:
            connection.repeat = None  # what is repeated is not measured

    def _connection_wait_ms(self, address: str) -> int:
        return self._quotas.addresses.opened(address, self._clock.monotonic_ms())

    def _new_transactions(self) -> TransactionDriver:
        settings = self.settings
        return TransactionDriver(
            TransactionConfig(
                transaction_max_timeout_ms=settings.transaction_max_timeout_ms,
                transactional_id_expiration_ms=settings.transactional_id_expiration_ms,
                transaction_abort_timed_out_transaction_cleanup_interval_ms=(
                    settings.transaction_abort_timed_out_transaction_cleanup_interval_ms
                ),
                transaction_remove_expired_transaction_cleanup_interval_ms=(
                    settings.transaction_remove_expired_transaction_cleanup_interval_ms
                ),
            ),
            self._clock,
            self._topics,
            partition_count=settings.transaction_state_log_num_partitions,
            write_marker=self._driver.write_marker,
            new_producer_id=self._topics.new_producer_id,
            max_batch_bytes=settings.message_max_bytes,
            report=self.log,
        )

    def _tell_recovered(self) -> None:
        """After a crash: what was written and never acknowledged was cut off."""
        for cut in getattr(self._engine, "recovered", ()):
            self.log.warning(
                "Cut an unfinished write off",
                path=cut.path,
                bytes=cut.cut_bytes,
                reason=cut.reason,
            )

    def _load_groups(self) -> None:
        for partition in self._topics.topics[OFFSETS_TOPIC].partitions:
            try:
                self._driver.load(partition.tp.partition)
            except (Corrupt, BatchError) as error:
                raise DamagedLog(partition.tp, str(error)) from error

    def _miss_no_catalog(self) -> None:
        """Without a catalog every log would be taken for one of a deleted topic."""
        directory = self._directory
        if directory is not None and self._engine.catalog.load() is None and any((directory / "logs").iterdir()):
            raise BadCatalog(f"{directory / CATALOG} is missing, and there are logs of topics")

    def _with_next_step(self, error: Exception) -> str:
        """What is wrong; and where something is damaged, the command that helps, on a line of its own."""
        text = self._places_of(error) if isinstance(error, DamagedLog) else str(error)
        if self._directory is None or not isinstance(error, Corrupt | BadCatalog) or "ottla recover" in text:
            return text
        command = f"ottla recover {self._directory}"
        if isinstance(error, BadCatalog) or CATALOG in text:
            return f"{text}; restore it from a backup, or see what there is:\n  {command}"
        return f"{text}; restore the directory from a backup, or give up what is lost with:\n  {command} --accept-loss"

    def _places_of(self, error: DamagedLog) -> str:
        """Where a log is damaged that cannot be loaded: files, bytes and offsets."""
        damage_of = getattr(self._engine, "damage_of", None)
        if damage_of is None:
            return str(error)
        try:
            places = damage_of(error.tp)
        except OSError:
            return str(error)
        if not places:
            return str(error)
        words = [
            f"{one.path}, bytes {one.begin} to {one.end - 1} "
            f"(offsets {one.from_offset} to {one.upto_offset - 1}): {one.reason}"
            for one in places[:MOST_PLACES]
        ]
        if len(places) > MOST_PLACES:
            words.append(f"and {len(places) - MOST_PLACES} places more")
        return f"{error.tp.topic}-{error.tp.partition} is damaged: {'; '.join(words)}"

    async def _create_wanted(self) -> None:
        missing = [NewTopic(name, count) for name, count in self._wanted if name not in self._topics.topics]
        for outcome in await self._topics.create(missing) if missing else ():
            if isinstance(outcome, Refusal):
                raise CannotStart(f"a topic could not be created: {outcome.message}")

    async def _listen(self) -> tuple[str, int]:
        try:
            host, port = await self._listener.start(self.host, self.port)
        except OSError as error:
            where = f"{self.host or '*'}:{self.port}"
            raise CannotStart(
                f"cannot listen on {where}: {error.strerror or error}; choose another --listen"
            ) from error
        return host, port

    def _appended(self, tp: TopicPartition) -> None:
        self._driver.appended(tp, self._engine.logs[tp].size_bytes)

    def _storage_failed(self, error: EngineError) -> None:
        self.log.error("Storage failed: nothing can be made durable any more", reason=str(error))
        self._listener.stop_accepting()
        self.on_fatal()
