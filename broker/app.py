"""The composition root: builds everything, and is the only file that knows all rooms."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import cached_property, partial
from pathlib import Path
from random import randrange
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from ottla.broker.core.fetch_sessions import LARGEST_ID, FetchSessions
from ottla.broker.core.fetches import FetchPurgatory, TurnReads
from ottla.broker.core.groups.config import GroupConfig
from ottla.broker.core.groups.coordinator import GroupCoordinator
from ottla.broker.core.log_dir import in_memory
from ottla.broker.core.quotas.limits import ClientQuotas
from ottla.broker.core.topics.catalog import OFFSETS_TOPIC, BadCatalog, NewTopic, Refusal
from ottla.broker.core.topics.partition import Topic
from ottla.broker.damage_words import tell_start, with_next_step
from ottla.broker.dispatch import Dispatcher
from ottla.broker.engine import Corrupt, DamagedLog, Engine, EngineError, StorageFull
from ottla.broker.handlers import fetch
from ottla.broker.handlers.services import Node, Services
from ottla.broker.net.listener import Listener
from ottla.broker.observe.events import Emit, no_op
from ottla.broker.observe.logs import Silent
from ottla.broker.observe.recorder_start import begin_file
from ottla.broker.observe.why.explain import explanations
from ottla.broker.observing import Observing
from ottla.broker.runtime.cleaner import Cleaner
from ottla.broker.runtime.driver import Driver
from ottla.broker.runtime.group_config import group_config
from ottla.broker.runtime.log_dir import measured
from ottla.broker.runtime.long_work import LongWork
from ottla.broker.runtime.loop_clock import LoopClock
from ottla.broker.runtime.metering import ConnectionMeter
from ottla.broker.runtime.producer_states import ProducerStates
from ottla.broker.runtime.quota_keeper import QuotaKeeper
from ottla.broker.runtime.topics import TopicManager
from ottla.broker.runtime.transaction_config import transaction_config
from ottla.broker.runtime.transactions import TransactionDriver
from ottla.broker.settings import Settings
from ottla.broker.storage.memory import MemoryEngine
from ottla.protocol.errors import MalformedFrame
from ottla.protocol.records import BatchError, TopicPartition
from ottla.protocol.stored.names import CATALOG_NAME, LOGS_NAME

if TYPE_CHECKING:
    from ottla.broker.observe.http.server import HttpPort
    from ottla.broker.observe.sentinels import Sentinels
    from ottla.broker.runtime.view import View

SENTINELS_AFTER_MS = 1_000
"""Sentinels begin so long after the start, or at once where they can be seen by HTTP."""
EVERYWHERE = ("", "::", "0.0.0.0")  # what stands for all interfaces
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
        emit: takes the coordinator's events, besides those who observe them anyway.
        engine: keeps the logs, in place of the one that suits ``directory``; not open yet.

    Attributes:
        on_fatal: called when the storage cannot make anything durable any more; the process should end at once.
        http: the HTTP port; None where ``ottla.http.listen`` is not set.
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
        engine: Engine | None = None,
    ) -> None:
        self.settings = settings
        self.host, self.port = host, port
        self.on_fatal: Callable[[], None] = lambda: None
        self.http: HttpPort | None = None
        self.log = log if log is not None else Silent()
        self._directory = directory
        self._advertised = advertised
        self._wanted = topics
        self._observing = Observing(
            settings, self.log, emit, logs=log is not None, view=lambda: self.view, clock=lambda: self._clock
        )
        self.recorder, self.history = self._observing.recorder, self._observing.history
        self.timelines, self._measuring = self._observing.timelines, self._observing.measuring
        self._stopped = False
        self._engine = engine or self._new_engine()
        self._producer_states: ProducerStates
        self._topics: TopicManager
        self._driver: Driver
        self._cleaner: Cleaner
        self._transactions: TransactionDriver
        self._listener: Listener

    @property
    def sentinels(self) -> Sentinels | None:
        """Who looks after groups; None where nobody does, and in the first second."""
        return self._observing.sentinels

    @property
    def listening(self) -> str:
        """``host:port`` at which this machine reaches the broker. Known once started."""
        host = "127.0.0.1" if self.host in EVERYWHERE else self.host
        return f"[{host}]:{self.port}" if ":" in host else f"{host}:{self.port}"

    async def start(self) -> None:
        """Open the storage, load topics and groups, then listen.

        Raises:
            CannotStart: the storage cannot be opened or is damaged, or an address is taken.
        """
        self._clock = LoopClock(asyncio.get_running_loop())
        self._started_ms = self._clock.wall_ms()
        await self._start_http()
        try:
            await self._start()
        except BaseException:
            await self._stop_http()
            raise
        if self.http is not None:
            self._start_sentinels()
            self._open_http(self.http)
        else:
            self._clock.call_at(self._clock.monotonic_ms() + SENTINELS_AFTER_MS, self._start_sentinels)

    async def _start(self) -> None:
        self._engine.on_fatal = self._storage_failed
        try:
            await self._engine.open()
        except EngineError as error:
            raise CannotStart(with_next_step(error, self._engine, self._directory)) from error
        try:
            self._miss_no_catalog()
            directory = None if self._directory is None else self._directory / PRODUCERS
            self._producer_states = ProducerStates(directory, self._clock, self.log)
            self._topics = TopicManager(
                self._engine, self.settings, self._clock, self.log, producer_states=self._producer_states
            )
            await self._topics.start()
            tell_start(self._engine, self.log)
            await self._observing.begin(self._topics, self._clock)
            self._compose()
            self._load_groups()
            self._transactions.load()
            await self._create_wanted()
            self.host, self.port = await self._listen()
            self._cleaner.start()
            self._producer_states.start(self._topics.client_partitions)
        except (EngineError, BadCatalog, MalformedFrame) as error:
            text = with_next_step(error, self._engine, self._directory)
            await self._close_storage()
            raise CannotStart(text) from error
        except CannotStart:
            await self._close_storage()
            raise

    def tell_ready(self) -> None:
        """Log where the broker listens; apart from `start`, so that the address can be printed before any log line."""
        where = f"all interfaces, port {self.port}" if self.host in EVERYWHERE else self.listening
        self.log.info("Ready", listen=where, node_id=self._engine.node_id, cluster_id=self._engine.cluster_id)
        if self.http is not None:
            self.http.tell_ready()

    async def stop(self) -> None:
        """Answer what is open, close the connections, and make everything durable."""
        self.log.info("Stopping")
        if self.http is not None:
            self.http.stopping()
        self._stop_sentinels()
        self._listener.stop_accepting()
        self._transactions.stop()
        self._driver.stop()
        self._meter.unmute_all()
        await self._listener.drain(self.settings.shutdown_drain_ms)
        if self._observing.group_event_log is not None:
            self._observing.group_event_log.stop()
        self._quota_keeper.stop()
        await self._looking_up.stop()
        await self._validating.stop()
        await self._cleaner.stop()
        await self._producer_states.stop(self._topics.client_partitions())
        await self._close_storage()
        await self._stop_http()
        self.log.info("Stopped")

    async def abandon(self) -> None:
        """Stop serving as a killed process does, for tests: connections drop and nothing more is answered.

        The storage is let go in order, so that another broker of this process can open it: records that nobody was
        told of may be there or not, as after a kill.
        """
        self._stop_sentinels()
        self._listener.stop_accepting()
        self._driver.silence()
        self._transactions.silence()
        if self._observing.group_event_log is not None:
            self._observing.group_event_log.silence()
        self._listener.abort_all()
        self._quota_keeper.stop()
        await self._looking_up.stop()
        await self._validating.stop()
        await self._cleaner.stop()
        await self._producer_states.stop(())
        await self._close_storage()
        await self._stop_http()

    # -- the HTTP port

    async def _start_http(self) -> None:
        """Listen for HTTP, if that is wanted: before anything is loaded, so that one can ask how far it is."""
        if not self.settings.ottla_http_listen:
            return
        from ottla.broker.observe.http.start import NoHttp, start_http

        try:
            self.http = await start_http(self.settings, self.log)
        except NoHttp as error:
            raise CannotStart(str(error)) from error

    def _open_http(self, port: HttpPort) -> None:
        from ottla.broker.observe.http.parts import Parts

        recorder = self.recorder if self.settings.ottla_recorder_memory_bytes else None
        history = self.history if self.settings.ottla_history_memory_bytes else None
        assert self._measuring is not None
        metrics = self._measuring.metrics(
            self.view,
            connections_opened=lambda: self._listener.accepted,
            address=lambda: self._advertised or (self.host, self.port),
            recorder=recorder,
            sentinels=self.sentinels,
        )
        self.timelines.watch()
        timelines = self.timelines if history is not None else None
        parts = Parts(self.view, self._clock, recorder, history, timelines, self.sentinels, metrics)
        self._observing.emit.add(parts.changes)
        port.health.refusal = self._refusal
        port.open(parts)

    def _start_sentinels(self) -> None:
        """Look after groups from now on: a while after the start, so that they do not delay it."""
        if not self._stopped:
            self._observing.watch(self._clock)

    def _stop_sentinels(self) -> None:
        self._stopped = True
        if self.sentinels is not None:
            self.sentinels.stop()

    async def _stop_http(self) -> None:
        if self.http is not None:
            await self.http.stop()
            self.http = None

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
        config = group_config(settings)
        self._begin_recording(config, partition_count)
        coordinator = GroupCoordinator(
            config,
            new_id=lambda: str(uuid4()),
            partition_count=partition_count,
            emit=self._observing.emit,
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
        self._looking_up = LongWork("ottla-look-up", self.log)
        self._validating = LongWork("ottla-validate", self.log)
        self._services = Services(
            settings=settings,
            clock=clock,
            reads=TurnReads(asyncio.get_running_loop().call_soon),
            look_up=self._looking_up,
            validate=self._validating,
            node=Node(self._engine.node_id, self._engine.cluster_id, self._advertised),
            groups=self._driver,
            topics=self._topics,
            fetches=self._driver,
            transactions=self._transactions,
            explain=explanations(
                self.history,
                clock.wall_ms,
                self.recorder,
                lambda name: bool(self.view.brief(name)),
                self.timelines.told,
            ),
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
        self._topics.on_deleted = self._topic_deleted
        self._receive()

    def _receive(self) -> None:
        """Make what takes requests from the network: connections, and what their clients may use."""
        settings, clock = self.settings, self._clock
        new_dispatcher = Dispatcher if self._measuring is None else self._measuring.dispatcher
        self._dispatcher = new_dispatcher(self._services, self.log, settings.protocol_codec)
        if self._measuring is not None:
            self._measuring.attach(self._engine, self._topics, clock)
        self._listener = Listener(
            settings,
            clock,
            self._dispatcher.receive,
            self.log,
            self._dispatcher.most_request_bytes,
            lambda: self._topics.broker_configs.settings,
        )
        self._quotas = ClientQuotas(settings)
        self._meter = ConnectionMeter(self._quotas, clock, perf_counter_ns)
        self._quota_keeper = QuotaKeeper(self._quotas, self._quotas_changed, self.log)
        self._topics.on_quotas = self._quota_keeper.go_by
        self._topics.on_quotas(self._topics.catalog.quotas)

    @cached_property
    def view(self) -> View:
        """What the broker is at the moment; once it is started."""
        from ottla.broker.runtime.view import Identity, View

        engine, began_ms = self._engine, self._started_ms
        return View(
            lambda: Identity(engine.node_id, engine.cluster_id, self._version, self.listening, began_ms),
            self._driver.coordinator,
            self._topics,
            self._clock,
            connections=lambda: len(self._listener.connections),
            software_of=self._driver.members.software_of,
        )

    @cached_property
    def _version(self) -> str:
        from importlib.metadata import version  # takes longer to import than most of the broker

        return version("ottla")

    def _topic_deleted(self, topic: Topic) -> None:
        if "view" in self.__dict__:
            self.view.forget_topic(topic.name)
        if self._measuring is not None:
            self._measuring.forget([partition.tp for partition in topic.partitions])
        self._driver.topic_deleted(topic.name, topic.topic_id)

    def _begin_recording(self, config: GroupConfig, partition_count: int) -> None:
        try:
            begin_file(
                self.recorder,
                self.settings,
                asdict(config),
                partitions=partition_count,
                clock=self._clock,
                soon=asyncio.get_running_loop().call_soon_threadsafe,
                log=self.log,
                node_id=self._engine.node_id,
                cluster_id=self._engine.cluster_id,
                run_id=str(uuid4()),
            )
        except OSError as error:
            reason = error.strerror or error
            raise CannotStart(f"cannot record in {self.settings.ottla_recorder_file}: {reason}") from error

    async def _close_storage(self) -> None:
        self.timelines.close()
        await self._engine.close()
        if (file := self.recorder.file) is not None:
            await asyncio.to_thread(file.close)

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
            transaction_config(settings),
            self._clock,
            self._topics,
            partition_count=settings.transaction_state_log_num_partitions,
            write_marker=self._driver.write_marker,
            new_producer_id=self._topics.new_producer_id,
            max_batch_bytes=settings.message_max_bytes,
            report=self.log,
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
        if directory is not None and self._engine.catalog.load() is None and any((directory / LOGS_NAME).iterdir()):
            raise BadCatalog(f"{directory / CATALOG_NAME} is missing, and there are logs of topics")

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

    def _refusal(self) -> str:
        """Why nothing can be written at the moment, in the word that probes are told."""
        refusal = self._engine.refusal
        return "" if refusal is None else "full" if isinstance(refusal, StorageFull) else "degraded"

    def _storage_failed(self, error: EngineError) -> None:
        try:
            if self.http is not None:
                self.http.health.status = "failed"
            self.log.error("Storage failed: nothing can be made durable any more", reason=str(error))
            self._listener.stop_accepting()
        finally:
            # Whatever fails on the way: a broker that cannot make anything durable must not seem to serve.
            self.on_fatal()
