"""The composition root: builds everything, and is the only file that knows all rooms."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from random import randrange
from time import perf_counter_ns
from types import MappingProxyType
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from ottla.broker.clock import Clock, LoopClock
from ottla.broker.cluster.placement import Alone
from ottla.broker.cluster.view import Placement
from ottla.broker.core.fetch_sessions import LARGEST_ID, FetchSessions
from ottla.broker.core.fetches import FetchPurgatory, TurnReads
from ottla.broker.core.groups.config import GroupConfig
from ottla.broker.core.groups.coordinator import GroupCoordinator
from ottla.broker.core.quotas.limits import ClientQuotas
from ottla.broker.core.security.acls import Acls, add
from ottla.broker.core.topics.catalog import BadCatalog, NewTopic, Refusal
from ottla.broker.core.topics.partition import Partition, Topic
from ottla.broker.damage_words import tell_start, with_next_step
from ottla.broker.endpoints import Endpoint
from ottla.broker.engine import IN_MEMORY, Catalog, Engine, EngineError
from ottla.broker.entrance import Entrance, authorizer_of
from ottla.broker.handlers.services import Cluster, Services
from ottla.broker.logger import Silent
from ottla.broker.net.listener import CannotListen, check_free
from ottla.broker.net.socket_server import SocketServer
from ottla.broker.observing import Address, CannotObserve, Observing
from ottla.broker.runtime.audit import audit_of
from ottla.broker.runtime.cleaner import Cleaner
from ottla.broker.runtime.host import Host
from ottla.broker.runtime.leadership import Leadership
from ottla.broker.runtime.long_work import LongWork, WorkApart
from ottla.broker.runtime.looking import Look, Looking
from ottla.broker.runtime.member_connections import MemberConnections
from ottla.broker.runtime.metering import ConnectionMeter
from ottla.broker.runtime.prepared_commits import PreparedCommits
from ottla.broker.runtime.producer_states import ProducerStates
from ottla.broker.runtime.quota_keeper import QuotaKeeper
from ottla.broker.runtime.topics import TopicManager
from ottla.broker.runtime.transaction_needs import TransactionNeeds
from ottla.broker.settings import BadSetting, Settings
from ottla.broker.storage.local.directory import measured
from ottla.broker.storage.memory import MemoryEngine
from ottla.protocol.errors import ErrorCode, MalformedFrame
from ottla.protocol.internal_topics import OFFSETS_TOPIC
from ottla.protocol.records import TopicPartition
from ottla.protocol.stored.names import CATALOG_NAME, LOGS_NAME

if TYPE_CHECKING:
    from ottla.broker.core.security.scram import Credentials
    from ottla.broker.runtime.peer_transactions import PeerTransactions
    from ottla.broker.runtime.peers import Peers

EVERYWHERE = ("", "::", "0.0.0.0")  # what stands for all interfaces


class CannotStart(Exception):
    """The broker cannot serve; the message says why and, where it can, what to do."""


class Broker:
    """One broker on one event loop.

    Args:
        directory: where the logs live; None keeps everything in memory.
        host, port: where to listen; an empty host means all interfaces, port 0 any free one.
        advertised: what clients are told to connect to; None tells each client the address that it reached.
        endpoints: listeners of any kind, in the place of one without TLS and SASL at ``host`` and ``port``.
        users: of SCRAM, to add if they are not there. acls: access control rules, the same.
        topics: to create if they are not there; a pair is a name and a number of partitions.
        log: a structlog logger; nothing is logged without one.
        observing: observes the broker; nobody does by default.
        engine: keeps the logs, in place of the one that suits ``directory``; not open yet.
        node_password: by which the other nodes of this machine are known; None: there are none.
        clock: makes the clock of everything but sockets and disks, for the event loop that the broker runs on.
        placement: says which of the nodes leads what; without it there is this one alone, which leads everything.
        catalog: is shared with other nodes, in place of one in the directory. An ``engine`` that is given has its own.
        cluster_id: of the cluster that a new directory belongs to; one is made up by default.
        looks: see whether files that nodes share have changed; called all the time.

    Attributes:
        endpoints: the listeners; once started, with the ports that they have.
        between_nodes: the listener of the other nodes, once started; None if there are none.
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
        endpoints: Sequence[Endpoint] = (),
        users: Credentials = MappingProxyType({}),
        acls: Acls = (),
        topics: Sequence[NewTopic | tuple[str, int]] = (),
        log: Any = None,
        observing: Observing | None = None,
        engine: Engine | None = None,
        node_password: str | None = None,
        clock: Callable[[asyncio.AbstractEventLoop], Clock] = LoopClock,
        placement: Placement | None = None,
        catalog: Catalog | None = None,
        cluster_id: str = "",
        looks: Sequence[Look] = (),
    ) -> None:
        self.settings = settings
        self.endpoints = list(endpoints) or [Endpoint(host, port, advertised=advertised)]
        self.on_fatal: Callable[[], None] = lambda: None
        self.observing = Observing() if observing is None else observing
        self.log = log if log is not None else Silent()
        self._directory = directory
        self._wanted = [NewTopic(*one) for one in topics]
        self._users = users
        self._acls = acls
        self._engine = engine or self._new_engine(catalog, cluster_id)
        self._placement = placement or Alone(self._engine.node_id)
        self._node_password = node_password
        self.between_nodes: Endpoint | None = None
        self._peers: Peers | None = None
        self._new_clock = clock
        self._looks = looks

    @property
    def host(self) -> str:
        """The host of the first listener."""
        return self.endpoints[0].host

    @property
    def port(self) -> int:
        """The port of the first listener. Known once started."""
        return self.endpoints[0].port

    @property
    def listening(self) -> str:
        """``host:port`` at which this machine reaches the first listener. Known once started."""
        host = "127.0.0.1" if self.host in EVERYWHERE else self.host
        return f"[{host}]:{self.port}" if ":" in host else f"{host}:{self.port}"

    @property
    def leader_epoch(self) -> int:
        """The epoch in which it leads. Known once started."""
        return self._engine.leader_epoch

    async def start(self) -> None:
        """Open the storage, load topics and groups, then listen.

        Raises:
            CannotStart: the storage cannot be opened or is damaged, or an address is taken.
        """
        self._clock = self._new_clock(asyncio.get_running_loop())
        try:
            check_free(() if self._node_password is None else self.endpoints)  # a node tries often: that costs no epoch
            await self.observing.start(self._clock)
            await self._start()
        except (CannotListen, CannotObserve) as error:
            await self.observing.stop()
            raise CannotStart(str(error)) from error
        except BaseException:
            await self.observing.stop()
            raise
        address = Address(self.listening, self.endpoints[0].told or (self.host, self.port))
        self.observing.ready(address, self._server)

    async def _start(self) -> None:
        self._engine.on_fatal = self._storage_failed
        try:
            await self._engine.open()
        except EngineError as error:
            raise CannotStart(with_next_step(error, self._engine, self._directory)) from error
        try:
            await self._engine.catalog.refresh()
            self._miss_no_catalog()
            self._producer_states = ProducerStates(self._engine.snapshots, self._clock, self.log)
            self._topics = TopicManager(
                self._engine,
                self.settings,
                self._clock,
                self.log,
                producer_states=self._producer_states,
                placement=self._placement,
            )
            await self._topics.start()
            tell_start(self._engine, self.log)
            self._topics.on_changed = self.observing.topic_changed
            await self.observing.begin(self._engine, self._topics, self._directory)
            self._compose()
            self._leadership = Leadership(self._topics, self._host, self._clock, self.log, load=self._load)
            self._leadership.on_looked = self._transactions.leaders_changed
            await self._leadership.start()
            await self._create_wanted()
            await self._listen()
            self._looking = Looking(self._looks, self._clock, self.log)
            self._looking.start()
            self._cleaner.start()
            self._producer_states.start(self._topics.client_partitions)
        except (EngineError, BadCatalog, MalformedFrame) as error:
            text = with_next_step(error, self._engine, self._directory)
            await self._engine.close()
            raise CannotStart(text) from error
        except (CannotStart, CannotObserve):
            await self._engine.close()
            raise

    def tell_ready(self) -> None:
        """Log where the broker listens; apart from `start`, so that the address can be printed before any log line."""
        where = [f"all interfaces, port {self.port}" if self.host in EVERYWHERE else self.listening]
        if len(self.endpoints) > 1:
            where = [*map(str, self.endpoints)]
        self.log.info(
            "Ready", listen=", ".join(where), node_id=self._engine.node_id, cluster_id=self._engine.cluster_id
        )
        self.observing.tell_ready()

    async def stop(self) -> None:
        """Answer what is open, close the connections, and make everything durable."""
        self.log.info("Stopping")
        self.observing.stopping()
        self._server.stop_accepting()
        self._leadership.stop()
        self._transactions.stop()
        self._members.forget()
        self._host.stop()
        self._meter.unmute_all()
        await self._server.drain(self.settings.shutdown_drain_ms)
        self.observing.drained()
        await self._let_go(self._topics.client_partitions())
        self.log.info("Stopped")

    async def abandon(self) -> None:
        """Stop serving as a killed process does, for tests: connections drop and nothing more is answered.

        The storage is let go in order, so that another broker of this process can open it: records that nobody was
        told of may be there or not, as after a kill.
        """
        self._server.stop_accepting()
        self._leadership.stop()
        self._transactions.stop()
        self._members.forget()
        self._host.silence()
        self.observing.silence()
        self._server.abort_all()
        await self._let_go(())

    async def _let_go(self, remembered: Iterable[Partition]) -> None:
        """End all tasks, then close the storage; what the given partitions know of producers is kept for a start."""
        self._looking.stop()
        self._topics.stop()
        self._quota_keeper.stop()
        self._entrance.stop()
        await self._server.stop_watching()
        if self._peers is not None:
            await self._peers.stop()
        await self._looking_up.stop()
        await self._validating.stop()
        await self._long_work.stop()
        await self._work_apart.stop()
        await self._cleaner.stop()
        await self._producer_states.stop(remembered)
        self._audit.stop()
        await asyncio.to_thread(self._audit.close)
        await self._engine.close()
        await self.observing.stop()

    # -- parts

    def _new_engine(self, catalog: Catalog | None, cluster_id: str) -> Engine:
        if self._directory is None:
            node_id = self.settings.node_id
            return MemoryEngine(new_uuid=uuid4, node_id=node_id, catalog=catalog, cluster_id=cluster_id)
        from ottla.broker.storage.local.engine import LocalEngine

        return LocalEngine(
            str(self._directory),
            new_uuid=uuid4,
            node_id=self.settings.node_id,
            interval_ms=self.settings.ottla_durability_interval_ms,
            catalog=catalog,
            cluster_id=cluster_id,
        )

    def _compose(self) -> None:
        settings, clock = self.settings, self._clock
        # Of the topic as it is: the setting may have been changed after it was created.
        partition_count = self._topics.partition_count(OFFSETS_TOPIC)
        self._work_apart = WorkApart("ottla-groups", self.log)
        self._host = Host(
            clock,
            FetchPurgatory(),
            partition=self._topics.partition,
            max_batch_bytes=settings.message_max_bytes,
            report=self.log,
            defer=asyncio.get_running_loop().call_soon,
            work=self._work_apart,
        )
        self._groups = GroupCoordinator(
            self._group_config(),
            new_id=lambda: str(uuid4()),
            partition_count=partition_count,
            observer=self.observing.observer,
        )
        self._guard()
        self._topics.on_settings = self._settings_changed
        self._settings_changed()
        for topic in self._topics.topics.values():
            self._topic_served(topic)
        self._groups.start()
        self._host.add(OFFSETS_TOPIC, self._groups)
        self._members = MemberConnections(self._groups, self._host.now)
        self._transactions = TransactionNeeds(settings, self._host, self._topics, self.log)
        self._prepared = PreparedCommits(self._groups, self._host, self._topics, clock)
        self._prepared.audit = self._audit
        self._looking_up = LongWork("ottla-look-up", self.log)
        self._validating = LongWork("ottla-validate", self.log)
        self._long_work = LongWork("ottla-long-work", self.log)
        advertised = {one.name: one.told for one in self.endpoints if one.told is not None}
        self._services = Services(
            settings=settings,
            clock=clock,
            reads=TurnReads(asyncio.get_running_loop().call_soon),
            look_up=self._looking_up,
            validate=self._validating,
            long_work=self._long_work,
            cluster=Cluster(self._placement, self._engine.cluster_id, self._topics, advertised),
            host=self._host,
            groups=self._groups,
            members=self._members,
            topics=self._topics,
            transactions=self._transactions.coordinator,
            transaction_needs=self._transactions,
            prepared=self._prepared,
            explain=self.observing.explain(self._groups, self._members.software_of),
            control=self.observing.control(),
            log_dir=(lambda: IN_MEMORY) if self._directory is None else partial(measured, self._directory),
            logger=self.log if hasattr(self.log, "level") else None,
            authorizer=self._authorizer,
            audit=self._audit,
            connections=lambda: self._server.connections,
            fetch_sessions=FetchSessions(
                settings.max_incremental_fetch_session_cache_slots, lambda: randrange(1, LARGEST_ID + 1)
            ),
            elsewhere=self._others(),
        )
        self._cleaner = Cleaner(self._engine, self._topics, clock, self.log, directory=self._directory)
        self._cleaner.on_markers_gone = self._producer_states.forget
        self._engine.on_appended = self.observing.watch_appends(self._appended)
        self._topics.on_touched = self._host.touched
        self._topics.on_served = self._topic_served
        self._topics.on_deleted = self._topic_deleted
        self._receive()
        self.observing.composed(self._host, self._cleaner)

    def _others(self) -> PeerTransactions | None:
        """Transactions of which other nodes have a part; None where there are no others."""
        if self._node_password is None:
            return None
        from ottla.broker.between_nodes import peers_of, transactions_with

        self._peers = peers_of(self._placement, self._node_password, self._clock.real, self.log)
        elsewhere = transactions_with(self._peers, self._topics, self.log)
        self._host.elsewhere = elsewhere.write_marker
        return elsewhere

    async def _load(self) -> None:
        """Load what is led here of both coordinators."""
        await self._host.load(OFFSETS_TOPIC)
        if self._placement.dealt_to:
            # Topics that another node has deleted while this one was down.
            for topic in sorted(self._groups.topics_with_offsets().difference(self._topics.topics)):
                self._groups.topic_deleted(topic, *self._host.now())
            self._host.settle()
        await self._transactions.load()

    def _guard(self) -> None:
        """Make what says what clients may do, and what tells of what they did."""
        try:
            self._authorizer = authorizer_of(self.settings, self._topics.catalog.acls, self.log)
        except ValueError as error:
            raise CannotStart(str(error)) from None
        self._audit = audit_of(self.settings, self._clock, self.log)

    def _receive(self) -> None:
        """Make what takes requests from the network: connections, and what their clients may use."""
        settings, clock = self.settings, self._clock
        self._topics.on_acls = self._services.rules_changed
        if self._authorizer is not None:
            self._groups.visible_topics = self._services.visible_topics
        self._dispatcher = self.observing.dispatcher(self._services, self.log, settings.protocol_codec)
        self._server = SocketServer(
            settings,
            clock.real,
            self._dispatcher.receive,
            self.log,
            self._dispatcher.most_request_bytes,
            lambda: self._topics.broker_configs.settings,
        )
        self._entrance = Entrance(
            settings,
            self._server,
            self._dispatcher.versions,
            self._topics,
            self._directory,
            clock,
            self.log,
            self._audit,
        )
        self._quotas = ClientQuotas(settings)
        self._meter = ConnectionMeter(self._quotas, clock, perf_counter_ns)
        self._quota_keeper = QuotaKeeper(self._quotas, self._quotas_changed, self.log)
        self._topics.on_quotas = self._quota_keeper.go_by
        self._topics.on_quotas(self._topics.catalog.quotas)

    def _settings_changed(self) -> None:
        self._groups.configure(self._group_config(), self._topics.group_configs)

    def _group_config(self) -> GroupConfig:
        # What the host appends to the log of the groups is bounded by what message.max.bytes was at the start.
        config = GroupConfig.of(self._topics.broker_configs.settings)
        return replace(config, message_max_bytes=self.settings.message_max_bytes)

    def _topic_served(self, topic: Topic) -> None:
        # A broker that is alone has no rack.
        self._groups.topic_changed(topic.name, topic.topic_id, [()] * len(topic.partitions), self._clock.wall_ms())

    def _topic_deleted(self, topic: Topic) -> None:
        self.observing.topic_deleted(topic)
        self._groups.topic_deleted(topic.name, *self._host.now(), topic.topic_id)
        self._host.settle()

    def _quotas_changed(self) -> None:
        """Measure what clients use if there are quotas, and do not if there are none."""
        quotas, server = self._quotas, self._server
        self._dispatcher.meter = self._meter if quotas.of_requests else None
        self._prepared.take_ordinary_path("quotas", self._dispatcher.meter is not None)
        server.wait_of = self._connection_wait_ms if quotas.addresses.limits else None
        for connection in server.connections:
            connection.repeat = None  # what is repeated is not measured

    def _connection_wait_ms(self, address: str) -> int:
        return self._quotas.addresses.opened(address, self._clock.monotonic_ms())

    def _miss_no_catalog(self) -> None:
        """Without a catalog every log would be taken for one of a deleted topic."""
        directory = self._directory
        if directory is not None and self._engine.catalog.load() is None and any((directory / LOGS_NAME).iterdir()):
            raise BadCatalog(f"{directory / CATALOG_NAME} is missing, and there are logs of topics")

    async def _create_wanted(self) -> None:
        missing = [topic for topic in self._wanted if topic.name not in self._topics.topics]
        for outcome in await self._topics.create(missing) if missing else ():
            # Another node may have been told to create it, too.
            if isinstance(outcome, Refusal) and outcome.error_code is not ErrorCode.TOPIC_ALREADY_EXISTS:
                raise CannotStart(f"a topic could not be created: {outcome.message}")

    async def _listen(self) -> None:
        try:
            if self._acls:
                await self._topics.change(lambda all: (replace(all, acls=add(all.acls, self._acls)[0]), None))
            opened = await self._entrance.open(self.endpoints, self._users, self._node_password)
            self.endpoints = opened[: len(self.endpoints)]
            self.between_nodes = opened[-1] if len(opened) > len(self.endpoints) else None
        except (CannotListen, BadSetting, OSError) as error:
            raise CannotStart(str(error)) from error

    @property
    def has_files(self) -> bool:
        """Whether it has keys and certificates, or users, in files."""
        with_tls = self.settings.ottla_http_tls or any(one.has_tls for one in self.endpoints)
        return with_tls or self._entrance.has_users

    def look_at_files(self) -> None:
        """Read the files of keys, certificates and users now: somebody says that they are new."""
        self._entrance.look_again()
        self._server.look_at_keys()
        self.observing.look_at_keys()

    def _appended(self, tp: TopicPartition) -> None:
        self._host.appended(tp, self._engine.logs[tp].size_bytes)

    def _storage_failed(self, error: EngineError) -> None:
        try:
            self.observing.failed()
            self.log.error("Storage failed: nothing can be made durable any more", reason=str(error))
            self._server.stop_accepting()
        finally:
            # Whatever fails on the way: a broker that cannot make anything durable must not seem to serve.
            self.on_fatal()
