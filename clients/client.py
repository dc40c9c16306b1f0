"""The part that producer, consumer and admin client share: connections to brokers, and fresh cluster metadata."""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Callable, Iterable
from typing import Any, Generic, TypeVar
from uuid import UUID

from ottla.clients.backoff import Backoff, Tries
from ottla.clients.cluster import ClusterMetadata
from ottla.clients.connection import ClientConnection
from ottla.clients.errors import (
    AuthenticationFailed,
    ClientClosed,
    KafkaConnectionError,
    KafkaError,
    check,
    error_of,
)
from ottla.clients.given import name
from ottla.clients.logs import log
from ottla.clients.options import ClientOptions
from ottla.clients.security import security_of
from ottla.clients.structs import BrokerInfo
from ottla.clients.tasks import Tasks
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse
from ottla.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from ottla.protocol.schema import Message

O_co = TypeVar("O_co", bound=ClientOptions, covariant=True)
R = TypeVar("R", bound=Message)

DATA = "data"
GROUP = "group"
TRANSACTION = "transaction"
"""A connection's role. A coordinator gets a connection of its own: a JoinGroup or Heartbeat must not wait behind a
long poll, nor a fetch behind a JoinGroup that the broker holds back, nor EndTxn behind records."""
KEYS = {GROUP: (0, "group"), TRANSACTION: (1, "transactional id")}
"""By role, what its coordinators are looked up by: Kafka's number for it, and in words."""

_numbers = itertools.count(1)
_TRANSIENT_TOPIC_ERRORS = frozenset(
    {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.LEADER_NOT_AVAILABLE, ErrorCode.UNKNOWN_SERVER_ERROR}
)


class Client(Generic[O_co]):
    """Connections by (broker, role), and metadata of the topics that were asked for.

    Args:
        options: those of `ClientOptions`.
        auto_create: the broker may create a topic that is asked for, if it is set to do that.
    """

    def __init__(self, options: O_co, *, auto_create: bool = False) -> None:
        self.options = options
        self.client_id = options.client_id or f"ottla-{options.role}-{next(_numbers)}"
        self.cluster = ClusterMetadata()
        self.topics: set[str] = set()
        self.all_topics = False
        self.auto_create = auto_create
        self.tasks = Tasks()
        self.on_metadata: list[Callable[[], None]] = []
        self._connections: dict[tuple[int, str], ClientConnection] = {}
        self._connecting: dict[tuple[int, str], asyncio.Task[ClientConnection]] = {}
        self._security = security_of(options)
        self._refused: AuthenticationFailed | None = None
        self._backoffs: dict[int, Backoff] = {}
        self._not_before: dict[int, float] = {}
        self._refreshing: asyncio.Task[None] | None = None
        self._refreshing_topics: frozenset[str] | None = frozenset()
        self._refresh_wanted = False
        self._refresh_loop = False
        self._refresh_backoff = options.retry_backoff()
        self._refreshed_at_ms = 0.0
        self._unanswered_since_ms: float | None = None
        self._last_request: tuple[int, type[Message]] | None = None
        self._open: list[tuple[int, type[Message]]] = []
        self._missing: asyncio.TimerHandle | None = None
        self._missing_backoff = options.retry_backoff()

    def now_ms(self) -> float:
        """The monotonic clock of the event loop, in ms."""
        return asyncio.get_running_loop().time() * 1000

    def tries(self, timeout_ms: float) -> Tries:
        """The tries of a call that may take so long."""
        return Tries(self.now_ms, timeout_ms, self.options.retry_backoff())

    @property
    def unanswered_ms(self) -> float:
        """The time in ms for which no broker has answered; 0 while one answers."""
        since = self._unanswered_since_ms
        return 0.0 if since is None else self.now_ms() - since

    @property
    def last_request(self) -> tuple[str, str] | None:
        """The address and the API of the oldest request that is open, or else of the last; None before there was one.

        Those for metadata do not count.
        """
        asked = self._open[0] if self._open else self._last_request
        if asked is None:
            return None
        node_id, request = asked
        try:
            host, port = self._address(node_id)
        except KafkaConnectionError:  # it is not in the cluster any more
            return None
        return f"{host}:{port}", request.__name__.removesuffix("Request")

    async def start(self) -> None:
        """Reach one bootstrap server and learn about the cluster.

        Raises:
            AuthenticationFailed: one of them does not accept who this client is.
            KafkaConnectionError: none of them can be reached within bootstrap_timeout_ms.
        """
        await self._refresh_patiently(self.options.bootstrap_timeout_ms)
        self.tasks.spawn(self._housekeep(), "housekeeping")

    async def _refresh_patiently(self, timeout_ms: float) -> None:
        """Ask for metadata until a broker answers. Logs one line, however many tries it takes."""
        tries = self.tries(timeout_ms)
        told = False
        while True:
            try:
                return await self.refresh()
            except KafkaConnectionError as error:
                pause_ms = tries.next_pause_ms()
                if pause_ms is None:
                    raise
                if not told:
                    log.warning("%s: %s; trying again for up to %g s", self.client_id, error, timeout_ms / 1000)
                told = True
            await asyncio.sleep(pause_ms / 1000)

    async def close(self) -> None:
        """Stop the background work and close all connections."""
        if self._missing is not None:
            self._missing.cancel()
        await self.tasks.close()
        pending: list[asyncio.Task[Any]] = list(self._connecting.values())
        if self._refreshing is not None:
            pending.append(self._refreshing)
        for task in pending:
            task.cancel()
        await asyncio.gather(*pending, return_exceptions=True)
        connections = list(self._connections.values())
        self._connections.clear()
        for connection in connections:
            connection.close()
        for connection in connections:
            await connection.wait_closed()

    # requests

    async def send(
        self,
        node_id: int,
        request: Message,
        answer: type[R],
        *,
        role: str = DATA,
        timeout_ms: float | None = None,
        low: int = 0,
        high: int = 1 << 15,
        answered: bool = True,
    ) -> R:
        """Send a request to a broker, connecting first if need be. Errors as of `ClientConnection.send`."""
        asked = self._last_request = node_id, type(request)
        self._open.append(asked)
        try:
            connection = await self.connection(node_id, role)
            return await connection.send(
                request,
                answer,
                timeout_ms=self.options.request_timeout_ms if timeout_ms is None else timeout_ms,
                low=low,
                high=high,
                answered=answered,
            )
        finally:
            self._open.remove(asked)

    async def connection(self, node_id: int, role: str = DATA) -> ClientConnection:
        """The connection to a broker for a role. Connects if there is none, after a pause if the last try failed.

        Raises:
            AuthenticationFailed: a broker did not accept who this client is, be it long ago.
            KafkaError: as of `ClientConnection.connect`.
        """
        key = (node_id, role)
        connection = self._connections.get(key)
        if connection is not None and not connection.closed:
            return connection
        task = self._connecting.get(key)
        if task is None:
            if self.tasks.closed:
                raise ClientClosed("the client is closed")
            if self._refused is not None:
                raise self._refused
            task = self._connecting[key] = asyncio.get_running_loop().create_task(self._connect(key))
            task.add_done_callback(lambda done: self._connect_done(key, done))
        # Shielded: the one who asked first may be cancelled while others wait for the same connection.
        return await asyncio.shield(task)

    def _connect_done(self, key: tuple[int, str], task: asyncio.Task[ClientConnection]) -> None:
        self._connecting.pop(key, None)
        if not task.cancelled() and task.exception() is None and self.tasks.closed:
            task.result().close()

    def drop(self, node_id: int, role: str) -> None:
        """Close a connection; the next request makes a new one."""
        if connection := self._connections.pop((node_id, role), None):
            connection.close(KafkaConnectionError(f"{connection.address}: the connection was dropped"))

    async def _connect(self, key: tuple[int, str]) -> ClientConnection:
        node_id, _ = key
        host, port = self._address(node_id)
        if (pause := self._not_before.get(node_id, 0.0) - self.now_ms()) > 0:
            await asyncio.sleep(pause / 1000)
        options = self.options
        backoff = self._backoffs.setdefault(
            node_id, Backoff(options.reconnect_backoff_ms, options.reconnect_backoff_max_ms)
        )
        try:
            connection = await ClientConnection.connect(
                host,
                port,
                client_id=self.client_id,
                timeout_ms=min(options.socket_connection_setup_timeout_ms, options.request_timeout_ms),
                security=self._security,
                max_frame_bytes=options.receive_message_max_bytes,
            )
        except AuthenticationFailed as error:
            self._refused = error  # who tries the same again and again looks like an attacker, and is locked out
            raise
        except KafkaError:
            self._not_before[node_id] = self.now_ms() + backoff.next_ms()
            raise
        backoff.reset()
        self._unanswered_since_ms = None
        self._not_before.pop(node_id, None)
        self._connections[key] = connection
        return connection

    def _address(self, node_id: int) -> tuple[str, int]:
        if node_id < 0:
            return self.options.servers()[-1 - node_id]
        broker = self.cluster.brokers.get(node_id)
        if broker is None:
            raise KafkaConnectionError(f"no broker {node_id} in the cluster's metadata")
        return broker.host, broker.port

    async def find_coordinator(self, key: str, role: str) -> BrokerInfo:
        """The coordinator of a group (role GROUP) or a transactional id (role TRANSACTION), asked for once.

        Raises:
            KafkaError: there is none, or no broker says.
        """
        kind, words = KEYS[role]
        request = FindCoordinatorRequest(key=key, key_type=kind, coordinator_keys=[key])
        answer = await self.send(self.some_nodes()[0], request, FindCoordinatorResponse, low=kind)
        found: Coordinator | FindCoordinatorResponse = answer.coordinators[0] if answer.coordinators else answer
        check(found.error_code, f"find the coordinator of {words} {key!r}", found.error_message)
        broker = BrokerInfo(found.node_id, found.host, found.port)
        self._learn_broker(broker)
        return broker

    def _learn_broker(self, broker: BrokerInfo) -> None:
        known = self.cluster.brokers.get(broker.node_id)
        if known is None or (known.host, known.port) != (broker.host, broker.port):
            self.cluster.brokers[broker.node_id] = broker
            self.drop(broker.node_id, GROUP)
            self.drop(broker.node_id, TRANSACTION)

    # metadata

    def some_nodes(self) -> list[int]:
        """Brokers to ask, the best first: connected ones, those not failing, then the bootstrap servers (KIP-899)."""

        def rank(node_id: int) -> tuple[bool, bool, int]:
            connection = self._connections.get((node_id, DATA))
            ready = connection is not None and not connection.closed
            open_requests = connection.conversation.open_requests if ready and connection else 0
            return (not ready, node_id in self._not_before, open_requests)

        known = sorted(self.cluster.brokers, key=rank)
        bootstrap = [-1 - index for index in range(len(self.options.servers()))]
        return known + bootstrap

    async def refresh(self) -> None:
        """Ask for metadata of all topics of interest now. Several callers share one request.

        Raises:
            KafkaConnectionError, KafkaTimeout: no broker answers.
        """
        while True:
            topics = None if self.all_topics else frozenset(self.topics)
            running = self._refreshing
            if running is None:
                if self.tasks.closed:
                    raise ClientClosed("the client is closed")
                self._refreshing_topics = topics
                running = self._refreshing = asyncio.get_running_loop().create_task(self._refresh(topics))
                running.add_done_callback(self._refresh_done)
            covered = self._refreshing_topics
            try:
                await asyncio.shield(running)
            except KafkaError:
                if covered == topics:
                    raise
            if covered is None or (topics is not None and topics <= covered):
                return

    def _refresh_done(self, task: asyncio.Task[None]) -> None:
        self._refreshing = None
        if not task.cancelled():
            task.exception()  # retrieved; whoever waits for it gets it

    async def _refresh(self, topics: frozenset[str] | None) -> None:
        await self.ask(topics)
        self._refreshed_at_ms = self.now_ms()
        self._adopt_bootstrap()
        self._ask_again_for_missing()
        for tell in list(self.on_metadata):
            tell()

    async def ask(self, topics: frozenset[str] | None) -> MetadataResponse:
        """Ask for metadata of just these topics (None: all), and store them.

        Raises:
            KafkaConnectionError, KafkaTimeout: no broker answers.
        """
        failures: list[str] = []
        if self._unanswered_since_ms is None:
            self._unanswered_since_ms = self.now_ms()
        for node_id in self.some_nodes():
            try:
                answer = await self._ask_metadata(node_id, topics)
            except AuthenticationFailed:
                raise
            except KafkaError as error:
                failures.append(str(error))
                continue
            self._unanswered_since_ms = None
            if not answer.brokers:
                host, port = self._address(node_id)
                failures.append(f"{host}:{port} names no brokers")
                continue
            check(answer.error_code, "ask for cluster metadata")
            self.cluster.update(answer, topics)
            return answer
        raise KafkaConnectionError("no broker answers: " + "; ".join(dict.fromkeys(failures)))

    async def ask_for_ids(self, topic_ids: Iterable[UUID]) -> None:
        """Ask for metadata of the topics with these ids that are not known, and store them.

        Raises:
            KafkaConnectionError, KafkaTimeout: no broker answers.
        """
        known = {topic.topic_id for topic in self.cluster.topics.values()}
        wanted = [MetadataRequestTopic(topic_id=one, name=None) for one in topic_ids if one not in known]
        if wanted:
            request = MetadataRequest(topics=wanted, allow_auto_topic_creation=False)
            # Since version 12 a broker answers by id (KIP-516).
            self.cluster.update(await self.send(self.some_nodes()[0], request, MetadataResponse, low=12), ())

    async def _ask_metadata(self, node_id: int, topics: Iterable[str] | None) -> MetadataResponse:
        connection = await self.connection(node_id)
        version = connection.conversation.version(MetadataRequest)
        wanted = None if topics is None else [MetadataRequestTopic(name=topic) for topic in sorted(topics)]
        if version == 0 and wanted is None:
            wanted = []  # version 0 says "all" with the empty list
        request = MetadataRequest(topics=wanted, allow_auto_topic_creation=self.auto_create and topics is not None)
        return await connection.send(
            request, MetadataResponse, timeout_ms=self.options.request_timeout_ms, low=0 if topics is None else 1
        )

    def _adopt_bootstrap(self) -> None:
        """Keep a bootstrap connection as the broker's own if it is one to its address, else close it."""
        by_address = {(broker.host, broker.port): broker.node_id for broker in self.cluster.brokers.values()}
        for node_id, role in [key for key in self._connections if key[0] < 0]:
            connection = self._connections.pop((node_id, role))
            owner = by_address.get(self.options.servers()[-1 - node_id])
            if owner is None:
                owner = next((one for address, one in by_address.items() if connection.is_to(address)), None)
            current = None if owner is None else self._connections.get((owner, DATA))
            if owner is not None and (current is None or current.closed) and not connection.closed:
                self._connections[owner, DATA] = connection
            else:
                connection.close()

    def _ask_again_for_missing(self) -> None:
        """Ask again later for topics that do not exist yet: they may be about to be created."""
        missing = any(self.cluster.errors.get(topic) in _TRANSIENT_TOPIC_ERRORS for topic in self.topics)
        if not missing:
            self._missing_backoff.reset()
        elif (self._missing is None or self._missing.cancelled()) and not self.tasks.closed:
            pause = self._missing_backoff.next_ms() / 1000
            self._missing = asyncio.get_running_loop().call_later(pause, self._refresh_missing)

    def _refresh_missing(self) -> None:
        self._missing = None
        self.request_refresh()

    def request_refresh(self) -> None:
        """Refresh the metadata in the background, until an answer comes. Does not wait."""
        self._refresh_wanted = True
        if not self._refresh_loop and not self.tasks.closed:
            self._refresh_loop = True
            self.tasks.spawn(self._refresh_while_wanted(), "metadata refresh")

    async def _refresh_while_wanted(self) -> None:
        """Serve all requests by one loop: every batch that fails while a broker is away makes one."""
        try:
            while self._refresh_wanted:
                # Not more often than the backoff allows: leaders take a moment to be elected.
                pause = self._refreshed_at_ms + self.options.retry_backoff_ms - self.now_ms()
                await asyncio.sleep(max(0.0, pause) / 1000)
                self._refresh_wanted = False
                try:
                    await self.refresh()
                    self._refresh_backoff.reset()
                except AuthenticationFailed as error:
                    return log.error("%s: metadata refresh failed: %s", self.client_id, error)
                except KafkaError as error:
                    self._refresh_wanted = True
                    level = logging.DEBUG if self._refresh_backoff.failures else logging.WARNING  # once is enough
                    log.log(level, "%s: metadata refresh failed: %s", self.client_id, error)
                    await asyncio.sleep(self._refresh_backoff.next_ms() / 1000)
        finally:
            self._refresh_loop = False

    async def topic_partitions(self, topic: str, timeout_ms: float) -> list[int]:
        """The partitions of a topic. The topic becomes one of interest.

        Raises:
            KafkaError: there is no such topic after ``timeout_ms``, its name is invalid, or access is denied.
            OptionError: the topic's name cannot be one.
        """
        tries = self.tries(timeout_ms)
        self.topics.add(name("topic", topic))
        while not (count := self.cluster.partition_count(topic)):
            failure: KafkaError | None = None
            try:
                await self.refresh()
            except KafkaError as error:
                failure = error
            if count := self.cluster.partition_count(topic):
                break
            code = self.cluster.errors.get(topic, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            refused = failure is None and code not in _TRANSIENT_TOPIC_ERRORS
            if refused or not await tries.again():
                self.topics.discard(topic)
                raise failure or error_of(code, f"look up topic {topic!r}", topic=topic)
        return list(range(count))

    async def _housekeep(self) -> None:
        """Refresh old metadata and close idle connections, now and then."""
        options = self.options
        pause_ms = min(max(min(options.metadata_max_age_ms, options.connections_max_idle_ms) / 4, 10), 15_000)
        while True:
            now = self.now_ms()
            if now - self._refreshed_at_ms >= options.metadata_max_age_ms:
                self.request_refresh()
            for key, connection in list(self._connections.items()):
                idle = now - connection.last_used_ms >= options.connections_max_idle_ms
                if connection.closed or (idle and not connection.conversation.open_requests):
                    del self._connections[key]
                    connection.close()
            await asyncio.sleep(pause_ms / 1000)
