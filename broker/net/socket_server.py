"""What concerns the connections of all listeners: their number, idleness, memory and end."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from ottla.broker.clock import Clock, TimerHandle
from ottla.broker.context import Mute
from ottla.broker.logger import Logger
from ottla.broker.net.accepting import Addresses
from ottla.broker.net.answers import Frame
from ottla.broker.net.connection import Connection
from ottla.broker.net.descriptors import most_connections
from ottla.broker.net.large_frame import buffers
from ottla.broker.net.listener import CannotListen, Listener
from ottla.broker.net.rate_limit import RateLimit
from ottla.broker.net.unfinished import UnfinishedRequests
from ottla.broker.net.unread import UnreadAnswers
from ottla.broker.settings import INT32_MAX, Settings

if TYPE_CHECKING:
    from ottla.broker.net.tls import Contexts

TLS = "TLS"
"""Stands where others have the mechanism of SASL, as it says who a client is without one."""
SWEEPS_PER_IDLE_TIME = 8
SILENT_MS = 10_000
"""A connection that has asked for nothing for so long gives way while others wait: clients ask at once."""
LOOK_FOR_ROOM_MS = 1_000
STOPS = "the broker stops"


class SocketServer:
    """Keeps the limits of the connections that its listeners accept.

    Args:
        receive: serves one request frame; see `ottla.broker.dispatch.Dispatcher.receive`.
        most_request_bytes: how long a request may be, by its API key; it may raise a ProtocolError.
        in_force: the settings that may be changed while the broker runs.

    Attributes:
        connections: with their addresses.
        wait_of: told the address of each new connection; says for how many milliseconds it must wait to be closed, if
            there are too many of late. None while there is no quota.
        accepted: how many connections there were since the start.
        authentications: how many there were, by what came of them, listener and mechanism.
        listeners: once it has started.
        tell: is told of connections that a certificate makes somebody's (``authenticated``), and of those that end
            (``disconnected``).
        tell_failed: is told of connections that TLS does not let in, and why.
    """

    def __init__(
        self,
        settings: Settings,
        clock: Clock,
        receive: Callable[[bytes, int, Connection], Frame | None],
        log: Logger,
        most_request_bytes: Callable[[int], int] = lambda api_key: INT32_MAX,
        in_force: Callable[[], Settings] | None = None,
    ) -> None:
        self.max_request_bytes = settings.socket_request_max_bytes
        self.receive = receive
        self.least_request_bytes = 1
        self.most_request_bytes = most_request_bytes
        self.wait_of: Callable[[str], int] | None = None
        self.connections: dict[Connection, str] = {}
        self.accepted = 0
        self.authentications: dict[tuple[str, str, str], float] = {}
        self.listeners: list[Listener] = []
        self._settings = settings
        self._clock = clock
        self._log = log
        self._rejections = RateLimit(clock)
        # Of their own: a flood must not hide what else goes wrong.
        self._refusals_of_quota = RateLimit(clock, lines=1)
        self._refusals_of_address = RateLimit(clock, lines=1)
        self._pauses = RateLimit(clock, lines=1)
        self._told_pause = False
        self.tell: Callable[[str, Connection], None] = lambda event, connection: None
        self.tell_failed: Callable[..., None] = lambda connection, reason, **more: None
        http = settings.ottla_http_max_connections if settings.ottla_http_listen else 0
        self.most_connections = most_connections(settings.max_connections, http)
        self._addresses = Addresses(in_force or (lambda: settings), self._unknown_address)
        self._stopped = False
        self._arriving: set[asyncio.Task[None]] = set()
        self._handshakes = 0  # that are under way
        self._watching: list[asyncio.Task[None]] = []  # tasks that look after certificates
        self._sweep_timer: TimerHandle | None = None
        self._room_timer: TimerHandle | None = None
        self._requests = UnfinishedRequests(
            settings.queued_max_request_bytes, settings.ottla_request_progress_timeout_ms, clock
        )
        self._answers = UnreadAnswers(settings.ottla_queued_max_response_bytes, settings.connections_max_idle_ms, clock)
        self.room_for, self.holds = self._requests.room_for, self._requests.holds
        self.unread, self.reads_again = self._answers.grew, self._answers.gone
        self._came_by: dict[Connection, Listener] = {}
        self._unwelcome: dict[Connection, TimerHandle] = {}
        self._empty: asyncio.Event | None = None

    # -- life

    async def start(self, listeners: Sequence[Listener]) -> None:
        """Listen.

        Raises:
            CannotListen: an address cannot be bound; nothing listens then.
        """
        for listener in listeners:
            try:
                listener.bind()
            except CannotListen:
                for bound in listeners:
                    bound.close()
                raise
        self._stopped = False
        self._addresses.most("")  # names are looked up now, and not when somebody connects
        if self.most_connections < self._settings.max_connections:
            self._log.warning(
                "Fewer connections than max.connections are accepted, for the process may have few file descriptors: "
                "raise ulimit -n (LimitNOFILE= of systemd)",
                max_connections=self._settings.max_connections,
                accepted=self.most_connections,
            )
        known, self.listeners = self.listeners, list(listeners)
        loop = asyncio.get_running_loop()
        doubtful: dict[str, list[str]] = {}
        for listener in listeners:
            if listener.tls is not None and listener not in known:  # a workbench lets it listen again
                for reason in listener.tls.all_doubts():
                    doubtful.setdefault(reason, []).append(listener.endpoint.name)
                self._watching.append(loop.create_task(listener.tls.watch(self._log, self._clock)))
            listener.accept(self, self._settings.listener_backlog_size)
        for reason, names in doubtful.items():
            self._log.warning("TLS", listener=", ".join(names), reason=reason)
        self._sweep_timer = self._clock.call_at(self._clock.monotonic_ms() + self._sweep_ms, self._sweep)

    def stop_accepting(self) -> None:
        """Accept no more connections; those that are open go on."""
        self._stopped = True
        for listener in self.listeners:
            listener.close()
        for task in self._arriving:
            task.cancel()  # a handshake may take long
        if self._sweep_timer is not None:
            self._sweep_timer.cancel()
            self._sweep_timer = None
        for connection in list(self._unwelcome):
            connection.kill()

    async def drain(self, timeout_ms: int) -> None:
        """Close connections as their open requests are answered; after the timeout, close what is left."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout_ms / 1000
        while self.connections:
            for connection in list(self.connections):
                if not connection.is_waited_for:
                    connection.close(STOPS)
            if loop.time() >= deadline:
                break
            self._empty = asyncio.Event()
            try:
                await asyncio.wait_for(self._empty.wait(), min(0.05, deadline - loop.time()))
            except TimeoutError:
                continue
        for connection in list(self.connections):
            connection.close(STOPS)

    async def stop_watching(self) -> None:
        """Look after keys and certificates no more."""
        for task in self._watching:
            task.cancel()
        await asyncio.gather(*self._watching, return_exceptions=True)

    def abort_all(self) -> None:
        """Close every connection at once, with nothing more sent."""
        for connection in list(self.connections):
            connection.kill()

    # -- connections that come

    def _unknown_address(self, name: str) -> None:
        self._log.warning(
            "A name in max.connections.per.ip.overrides has no address, so it limits nobody: mend the setting, or set "
            "it again once the name is known",
            name=name,
        )

    def room(self) -> int:
        """How many more connections there may be at the moment."""
        return self.most_connections - len(self.connections)

    def room_for_handshakes(self) -> int:
        """How many more TLS handshakes there may be at the moment."""
        return self._settings.ottla_tls_handshakes_max - self._handshakes

    def take(self, listener: Listener, sock: socket.socket, address: str) -> None:
        """Serve somebody who comes."""
        if not self._addresses.came(address):
            most = f"{self._addresses.most(address)} connections of one address are allowed"
            self._note("Too many connections of an address", "/" + address, "", most, self._refusals_of_address)
            sock.close()
            return
        loop = asyncio.get_running_loop()
        connection = Connection(listener.lobby or self, loop)
        if listener.lobby is not None:
            listener.lobby.enter(connection)
        connection.session = listener.guest
        self.connections[connection] = address
        self._came_by[connection] = listener
        listener.count += 1
        self._handshakes += listener.tls is not None
        task = loop.create_task(self._connect(listener, sock, connection))
        self._arriving.add(task)
        task.add_done_callback(partial(self._arrived, listener, sock, connection))

    async def _connect(self, listener: Listener, sock: socket.socket, connection: Connection) -> None:
        tls, timeout_s = listener.tls, self._settings.ottla_authentication_timeout_ms / 1000
        try:
            if tls is None:
                await asyncio.get_running_loop().connect_accepted_socket(lambda: connection, sock)
            else:
                await tls.accept(sock, connection, timeout_s)
        except OSError as error:  # it is gone already, or the handshake failed
            if tls is not None and (reason := tls.reason_of(error)):
                connection.client_host = "/" + self.connections.get(connection, "")
                self._failed(connection, f"TLS handshake: {reason}")
            sock.close()
            connection.connection_lost(None)

    def _arrived(
        self, listener: Listener, sock: socket.socket, connection: Connection, task: asyncio.Task[None]
    ) -> None:
        self._arriving.discard(task)
        if task.cancelled() and connection.is_closing:  # or rather, it was never open
            sock.close()
            connection.connection_lost(None)
        if listener.tls is not None:
            self._handshakes -= 1
            self.somebody_went()

    def paused(self, reason: str) -> None:
        """Nobody is accepted for now."""
        if self.room() > 0 >= self.room_for_handshakes():
            reason = f"{self._handshakes} TLS handshakes are under way"
        if allowed := self._pauses.allows():
            self._log.warning("Accepting no connections for now", connections=len(self.connections), reason=reason)
        self._told_pause = self._told_pause or allowed
        self._look_for_room()

    def _look_for_room(self) -> None:
        if self._room_timer is None:
            when_ms = self._clock.monotonic_ms() + LOOK_FOR_ROOM_MS
            self._room_timer = self._clock.call_at(when_ms, self._make_room)

    def _make_room(self) -> None:
        """Close who has been silent for too long, so that a crowd of connections shuts nobody out."""
        self._room_timer = None
        if self.most_connections > len(self.connections) or self._stopped:
            return
        now_ms = self._clock.monotonic_ms()
        for connection in list(self.connections):
            if not connection.has_asked and now_ms - connection.quiet_since_ms >= SILENT_MS:
                connection.kill(f"it has asked for nothing for {SILENT_MS} ms, and others wait to be accepted")
        self._look_for_room()

    def resumed(self) -> None:
        """Connections are accepted again."""
        if self._told_pause:
            self._told_pause = False
            self._log.warning("Accepting connections again", connections=len(self.connections))

    def certificates_end(self) -> dict[str, int]:
        """When the certificate of each listener with TLS ends, in Unix milliseconds."""
        return {one.endpoint.name: one.tls.ends_ms for one in self.listeners if one.tls is not None}

    def expire_sessions(self) -> int:
        """End all sessions that end, now; returns how many there were."""
        return sum(one.guest is not None and one.guest.expire() for one in self.connections)

    def look_at_keys(self) -> None:
        """Read the files of keys and certificates now: somebody says that they are new."""
        for listener in self.listeners:
            if listener.tls is not None:
                listener.tls.look_soon()

    async def renew_keys(self, settings: Settings, validate_only: bool) -> None:
        """Use the keys and certificates that settings name, or only look whether they can be used.

        Raises:
            BadSetting: they cannot; those that there were stay.
        """
        for listener in self.listeners:
            if listener.tls is not None:
                await asyncio.to_thread(listener.tls.renew, settings, validate_only=validate_only)

    # -- from connections

    @property
    def is_full(self) -> bool:
        """True if unfinished requests hold all that they may."""
        return self._requests.is_full

    @property
    def answer_room_bytes(self) -> int:
        """The size limit of an answer that can be made smaller."""
        return self._answers.room_bytes

    def opened(self, connection: Connection) -> None:
        if self._stopped:
            connection.kill()
        self.connections.setdefault(connection, "")
        self.accepted += 1
        connection.quiet_since_ms = self._clock.monotonic_ms()
        if (listener := self._came_by.get(connection)) is not None and listener.tls is not None:
            self._identify(connection, listener.tls, has_sasl=listener.lobby is not None)
        if self.wait_of is not None and (wait_ms := self.wait_of(connection.client_host.removeprefix("/"))) > 0:
            self._turn_away(connection, wait_ms)

    def _identify(self, connection: Connection, tls: Contexts, *, has_sasl: bool) -> None:
        """Take the principal of the certificate that a client has shown, if it is not SASL that says who it is."""
        if has_sasl:
            return
        if (der := connection.peer_certificate()) is not None:
            if (principal := tls.principal_of(der)) is None:
                reason = "no rule of ssl.principal.mapping.rules fits the subject of its certificate"
                self._failed(connection, reason, subject=tls.subject_of(der))
                connection.kill()
                return
            connection.session = connection.session._replace(principal=principal)
            self.tell("authenticated", connection)
        self.count_authentication("successful_authentications", connection.session.listener, TLS)

    def _failed(self, connection: Connection, reason: str, **more: str) -> None:
        self.count_authentication("failed_authentications", connection.session.listener, TLS)
        self.tell_failed(connection, reason, **more)

    def count_authentication(self, what: str, listener: str, mechanism: str, by: float = 1) -> None:
        """Count what came of somebody who authenticated; ``what`` as metrics call it. Some of it is seconds."""
        key = what, listener, mechanism
        self.authentications[key] = self.authentications.get(key, 0) + by

    def _turn_away(self, connection: Connection, wait_ms: int) -> None:
        """Close a connection that exceeds a quota, but after a while: its client would try again at once."""
        reason = f"the quota connection_creation_rate of its address is used up, closing it in {wait_ms} ms"
        host, name = connection.client_host, connection.client_id
        self._note("Too many new connections", host, name, reason, self._refusals_of_quota)
        connection.open = Mute(connection)
        connection.wake()
        when_ms = connection.quiet_since_ms + wait_ms
        self._unwelcome[connection] = self._clock.call_at(when_ms, connection.kill)

    def closed(self, connection: Connection) -> None:
        if address := self.connections.pop(connection, ""):
            self._addresses.went(address)
        if (listener := self._came_by.pop(connection, None)) is not None:
            listener.count -= 1
            self.tell("disconnected", connection)
        self._requests.gone(connection)
        self._answers.gone(connection)
        if (timer := self._unwelcome.pop(connection, None)) is not None:
            timer.cancel()
        self.somebody_went()
        if not self.connections and self._empty is not None:
            self._empty.set()

    def somebody_went(self) -> None:
        """Accept again where there was no room."""
        for listener in self.listeners:
            listener.somebody_went()

    def rejected(self, connection: Connection, reason: str) -> None:
        self._note("Closing connection", connection.client_host, connection.client_id, reason, self._rejections)

    def _note(self, event: str, client_host: str, client_id: str, reason: str, limit: RateLimit) -> None:
        if limit.allows():
            suppressed, limit.suppressed = limit.suppressed, 0
            extra = {"suppressed": suppressed} if suppressed else {}
            self._log.warning(event, client_host=client_host, client_id=client_id, reason=reason, **extra)

    # -- idle connections

    @property
    def _sweep_ms(self) -> int:
        return max(1, self._settings.connections_max_idle_ms // SWEEPS_PER_IDLE_TIME)

    def _sweep(self) -> None:
        """Close connections that were quiet for ``connections.max.idle.ms``, unless they wait for an answer of ours.

        One that has ended its side does not get to wait longer: it is most likely gone, and some requests are never
        answered (the parked SyncGroup of a member that was removed). Nor does one that waits for its quota: as it is
        not read from, nobody sees that its client is gone, and Kafka closes it, too (KIP-219). Whose answers are not
        read is looked after by `UnreadAnswers`. What does not close, as its client reads nothing, is closed at once.
        """
        now_ms = self._clock.monotonic_ms()
        for connection in list(self.connections):
            held = connection.is_waited_for and not (connection.half_closed or connection.is_muted)
            if connection.active or held or connection in self._answers:
                connection.active = False
                connection.quiet_since_ms = now_ms
            elif now_ms - connection.quiet_since_ms >= self._settings.connections_max_idle_ms:
                self._log.debug("Closing idle connection", client_host=connection.client_host)
                connection.kill() if connection.is_closing else connection.close("it was idle")
        buffers.sweep()
        self._sweep_timer = self._clock.call_at(now_ms + self._sweep_ms, self._sweep)
