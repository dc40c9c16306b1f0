"""Connections of which the client is not known yet, and those of which the session ends: what `authentication` decides
is done here, with timers and threads; and the bounds of all guests together.

A guest is served by a `Lobby`, one for each listener, and by the `SocketServer` from the end of its authentication on.
Whoever has no session that ends is never looked at again.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Hashable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Protocol

from ottla.broker.clock import Clock, TimerHandle
from ottla.broker.context import Mute, RequestContext
from ottla.broker.core.security.session import Session
from ottla.broker.net.answers import Frame
from ottla.broker.net.authentication import Conversation, Failed, Mechanisms, Outcome, State
from ottla.broker.net.unfinished import UnfinishedRequests
from ottla.broker.settings import Settings
from ottla.protocol.sasl.exchange import Derivation

if TYPE_CHECKING:
    from ottla.broker.net.connection import Connection, Host

DERIVATIONS: Final = max(1, min(4, (os.cpu_count() or 1) - 1))
"""So many are worked at, at a time. A CPU is left for the event loop: guests with wrong passwords must not take it."""
AGAIN_MS: Final = 1_000
"""A client may begin to authenticate again once in this time (KIP-368)."""
TLS_BYTES: Final = 512 << 10
"""So much the TLS of a connection may hold that nobody counts: what an event loop reads at a time, and, where a guest
is not read any more, what it has read of him before; 256 KiB each."""
TLS_ENDS_MS: Final = 1_000
"""A handshake of TLS has as much time as a guest, and begins a moment later: it tells of its end itself."""
_SASL_HANDSHAKE: Final = b"\x00\x11"  # how its frames begin

Versions = Callable[[int, int, bytes, int, "Connection"], bytes]
"""Answers ApiVersions of a connection; see `ottla.broker.net.authentication`."""


class Audit(Protocol):
    """Tells what clients did; see `ottla.broker.runtime.audit`."""

    def tell_once(self, event: str, who: Connection, key: Hashable, **fields: Any) -> object: ...
    def tell_debugging(self, event: str, who: Connection, **fields: Any) -> None: ...


class Guests:
    """All of them, of every listener.

    Args:
        clock: that of sockets. wall_ms: Unix time, against which tokens are held.
        versions: answers ApiVersions.
        most: how many connections there may be in all.
        count: is told what came of them; see `SocketServer.count_authentication`.
        somebody_went: called when there is room for one more.

    Attributes:
        present: those that have not authenticated yet.
    """

    def __init__(
        self,
        settings: Settings,
        clock: Clock,
        audit: Audit,
        versions: Versions,
        most: int,
        *,
        wall_ms: Callable[[], int],
        count: Callable[..., None],
        somebody_went: Callable[[], None] = lambda: None,
    ) -> None:
        self.clock = clock
        self.audit = audit
        self.wall_ms = wall_ms
        self.somebody_went = somebody_went
        self.versions = versions
        self.present: dict[Connection, None] = {}
        self.count = count
        self.timeout_ms = settings.ottla_authentication_timeout_ms
        # Half of it, as twice its bound is where `UnfinishedRequests` turns connections away.
        most_bytes = settings.ottla_unauthenticated_request_bytes // 2
        self.requests = UnfinishedRequests(most_bytes, settings.ottla_request_progress_timeout_ms, clock)
        self._delay_ms = settings.connection_failed_authentication_delay_ms
        self._most = most
        # What TLS holds of so many guests is half of the bound, and what each of them may ask the other half.
        self._most_with_tls = max(1, most_bytes // TLS_BYTES)
        self._with_tls = 0
        self._waiting = 0  # those that failed, and are to be told
        self._threads: ThreadPoolExecutor | None = None

    def room(self, has_tls: bool) -> int:
        """How many more there may be: half of all connections is for those who authenticate; with TLS they are few."""
        room = self._most // 2 - len(self.present)
        return min(room, self._most_with_tls - self._with_tls) if has_tls else room

    def come(self, connection: Connection, has_tls: bool) -> None:
        """Somebody is a guest from now on."""
        self.present[connection] = None
        self._with_tls += has_tls

    def leave(self, connection: Connection, has_tls: bool) -> bool:
        """Somebody is none any more; False if he was none: he authenticates again."""
        if connection not in self.present:
            return False
        del self.present[connection]
        self._with_tls -= has_tls
        return True

    def stop(self) -> None:
        """Begin no more work."""
        if self._threads is not None:
            self._threads.shutdown(wait=False, cancel_futures=True)

    def derive(self, work: Derivation, then: Callable[[asyncio.Future[Any]], None]) -> Callable[[], object]:
        """Do work in a thread; gives what takes it back, if nobody has begun with it."""
        if self._threads is None:
            self._threads = ThreadPoolExecutor(DERIVATIONS, "ottla-sasl")
        done = asyncio.get_running_loop().run_in_executor(self._threads, work)
        done.add_done_callback(then)
        return done.cancel

    def delay(self) -> int:
        """How long somebody who failed is to wait (ms): not at all where too many do."""
        return self._delay_ms if self._waiting * 4 <= self._most else 0

    def wait(self, when_ms: int, then: Callable[[], None]) -> TimerHandle:
        """Let somebody who failed wait."""
        self._waiting += 1

        def over() -> None:
            self._waiting -= 1
            then()

        return self.clock.call_at(when_ms, over)

    def waits_no_more(self) -> None:
        """Somebody who failed is gone before the time."""
        self._waiting -= 1

    def failed(self, connection: Connection, listener: str, conversation: Conversation, reason: str) -> None:
        """Tell of somebody who failed."""
        name, mechanism = conversation.name, conversation.mechanism
        row = {"listener": listener, "mechanism": mechanism, "reason": reason} | ({"user": name} if name else {})
        row |= conversation.shown
        self.audit.tell_once("authentication_failed", connection, tuple(row.values()), **row)


class Lobby:
    """The host of the guests of one listener with SASL; see `ottla.broker.net.connection.Host`.

    Args:
        host: serves those who have authenticated.
        has_tls: of the listener.
    """

    least_request_bytes = 0
    """A raw token may be empty."""

    def __init__(
        self,
        host: Host,
        guests: Guests,
        listener: str,
        mechanisms: Mechanisms,
        most_bytes: int,
        *,
        has_tls: bool = False,
    ) -> None:
        self.host = host
        self.has_tls = has_tls
        self.guests = guests
        self.listener = listener
        self.mechanisms = mechanisms
        self.max_request_bytes = most_bytes
        self.room_for, self.holds = guests.requests.room_for, guests.requests.holds
        self.opened, self.rejected = host.opened, host.rejected
        self.unread, self.reads_again = host.unread, host.reads_again

    def enter(self, connection: Connection) -> None:
        """Begin with a connection that has been accepted; it may not have finished TLS."""
        self.guests.come(connection, self.has_tls)
        connection.guest = Guest(self, connection)

    @property
    def room(self) -> int:
        """How many more guests there may be."""
        return self.guests.room(self.has_tls)

    @property
    def is_full(self) -> bool:
        return self.guests.requests.is_full

    @property
    def answer_room_bytes(self) -> int:
        return self.host.answer_room_bytes

    def most_request_bytes(self, api_key: int) -> int:
        """The same for all: a raw token has no API key."""
        return self.max_request_bytes

    def receive(self, frame: Any, start: int, connection: Connection) -> Frame | None:
        assert connection.guest is not None
        return connection.guest.receive(frame, start, connection)

    def closed(self, connection: Connection) -> None:
        self.guests.requests.gone(connection)
        self.host.closed(connection)


class _Working(Mute):
    """Stands for work in a thread. The connection is read meanwhile, so that it is seen when its client goes."""

    __slots__ = ()
    mutes = False


class Guest:
    """One connection of a listener with SASL, as long as there is anything to look at."""

    __slots__ = (
        "_again_ms",
        "_began_ms",
        "_connection",
        "_conversation",
        "_ends_ms",
        "_failing",
        "_late",
        "_lobby",
        "_session",
        "_take_back",
    )  # fmt: skip

    def __init__(self, lobby: Lobby, connection: Connection) -> None:
        self._lobby = lobby
        self._connection = connection
        self._session: Session | None = None
        self._ends_ms = 0
        self._again_ms: int | None = None
        self._failing: TimerHandle | None = None
        self._conversation: Conversation | None = None
        self._late: TimerHandle | None = None
        self._take_back: Callable[[], object] | None = None  # work in a thread
        self._begin()

    def _begin(self) -> None:
        lobby = self._lobby
        clock, connection = lobby.guests.clock, self._connection

        def versions(version: int, correlation_id: int, frame: bytes, position: int) -> bytes:
            return lobby.guests.versions(version, correlation_id, frame, position, connection)

        self._conversation = Conversation(lobby.mechanisms, versions, lobby.listener, self._session)
        self._began_ms = clock.monotonic_ms()
        self._late = clock.call_at(self._began_ms + lobby.guests.timeout_ms, self._is_late)

    # -- from the connection

    def receive(self, frame: Any, start: int, connection: Connection) -> Frame | None:
        """Serve a frame of somebody who authenticates."""
        if self._conversation is None or self._conversation.state is State.FAILED:
            return None
        hold = connection.open = Mute(connection)
        outcome = self._conversation.take(
            bytes(frame) if frame.__class__ is bytearray else frame, start, self._lobby.guests.wall_ms()
        )
        if (raw := self._conversation.client_id) != connection.client_id_bytes:
            with suppress(UnicodeDecodeError):  # which ends the connection at its first request
                connection.client_id, connection.client_id_bytes = raw.decode(), raw
        self._carry_out(outcome, hold)
        return None

    def receive_in_session(self, frame: Any, start: int, connection: Connection) -> Frame | None:
        """Serve a frame of somebody whose session ends."""
        lobby = self._lobby
        now_ms = lobby.guests.clock.monotonic_ms()
        if frame[start : start + 2] == _SASL_HANDSHAKE and (self._again_ms is None or now_ms >= self._again_ms):
            self._again_ms = now_ms + AGAIN_MS
            self._begin()
            connection.move(lobby, self.receive)
            return self.receive(frame, start, connection)
        if now_ms >= self._ends_ms:
            assert self._session is not None
            lobby.guests.count("expired_connections_killed", lobby.listener, self._session.mechanism)
            mechanism, reason = self._session.mechanism, "its session ended, and it did not authenticate again"
            lobby.guests.audit.tell_once("session_expired", connection, mechanism, mechanism=mechanism, reason=reason)
            connection.mute(Mute(connection))
            connection.close(reason)
            return None
        return lobby.host.receive(frame, start, connection)

    def expire(self) -> bool:
        """End the session now. False if there is none: somebody authenticates."""
        if self._session is None:
            return False
        self._ends_ms = self._lobby.guests.clock.monotonic_ms()
        return True

    def broken(self, reason: str) -> bool:
        """Whether a connection whose bytes are no frames is closed later, as one that fails."""
        if self._conversation is None:
            return False
        if self._conversation.state is not State.FAILED:
            hold = self._connection.open or Mute(self._connection)
            self._fail(self._conversation.broken(reason), hold)
        return True

    def gone(self) -> None:
        """The connection is lost."""
        if self._late is not None:
            self._late.cancel()
        if self._take_back is not None:  # those who come and go must not leave work for which others wait
            self._take_back()
        if self._failing is not None:
            self._failing.cancel()
            self._lobby.guests.waits_no_more()
        self._conversation = None
        self._lobby.guests.leave(self._connection, self._lobby.has_tls)

    # -- what comes of it

    def _carry_out(self, outcome: Outcome, hold: RequestContext) -> None:
        connection = self._connection
        if isinstance(outcome, Failed):
            self._fail(outcome, hold)
        elif isinstance(outcome, bytes):
            assert self._conversation is not None
            if self._conversation.state is State.COMPLETE:
                self._enter_session(self._conversation)
            connection.finish(hold, outcome)
        else:
            connection.mute(working := _Working(connection))
            connection.on_gone = connection.kill
            self._take_back = self._lobby.guests.derive(outcome, partial(self._derived, working))

    def _derived(self, working: RequestContext, done: asyncio.Future[Any]) -> None:
        conversation, connection, self._take_back = self._conversation, self._connection, None
        if conversation is None or connection.open is not working or done.cancelled():
            return
        connection.on_gone = None
        hold = connection.open = Mute(connection)
        if (error := done.exception()) is not None:
            outcome: Outcome = conversation.failed(error)
        else:
            outcome = conversation.resume(done.result(), self._lobby.guests.wall_ms())
        self._carry_out(outcome, hold)

    def _enter_session(self, conversation: Conversation) -> None:
        lobby, connection, session = self._lobby, self._connection, conversation.session
        assert session is not None and self._late is not None
        renewed = self._session is not None
        self._late.cancel()
        self._late = self._conversation = None
        self._session = connection.session = session
        what = "successful_reauthentications" if renewed else "successful_authentications"
        lobby.guests.count(what, lobby.listener, session.mechanism)
        if renewed:
            took_s = (lobby.guests.clock.monotonic_ms() - self._began_ms) / 1000
            lobby.guests.count("reauthentication_seconds", lobby.listener, session.mechanism, took_s)
        if conversation.lifetime_ms is not None and not conversation.tells_lifetime:
            lobby.guests.count("successful_authentications_no_reauth", lobby.listener, session.mechanism)
        lobby.guests.audit.tell_debugging(
            "reauthenticated" if renewed else "authenticated",
            connection,
            mechanism=session.mechanism,
            session_ends_ms=session.ends_ms,
            tls=connection.tls(),
        )
        connection.forget_requests()
        if conversation.lifetime_ms is None:
            connection.guest = None
            connection.move(lobby.host, lobby.host.receive)
        else:
            self._ends_ms = lobby.guests.clock.monotonic_ms() + conversation.lifetime_ms
            connection.move(lobby.host, self.receive_in_session)
        lobby.guests.requests.gone(connection)
        if lobby.guests.leave(connection, lobby.has_tls):
            lobby.guests.somebody_went()

    def _fail(self, failed: Failed, hold: RequestContext) -> None:
        lobby, connection, conversation = self._lobby, self._connection, self._conversation
        assert conversation is not None
        guests, mechanism = lobby.guests, conversation.mechanism
        mechanism = mechanism if mechanism in lobby.mechanisms.names else ""
        again = self._session is not None
        delay_ms = 0
        if not failed.at_once:
            delay_ms = guests.delay()
            what = "failed_reauthentications" if again else "failed_authentications"
            guests.count(what, lobby.listener, mechanism)
        guests.failed(connection, lobby.listener, conversation, failed.reason)
        connection.mute(hold)

        def end() -> None:
            self._failing = None
            if connection.open is hold:
                connection.finish(hold, failed.answer)
                connection.close("it failed to authenticate")
            if self._late is None:  # who does not read what he was answered has had his time
                connection.kill()

        # In a later turn of the loop in any case: what was answered before has left then.
        self._failing = guests.wait(guests.clock.monotonic_ms() + delay_ms, end)

    def _is_late(self) -> None:
        self._late = None
        lobby, connection = self._lobby, self._connection
        if self._conversation is None:
            return
        if not connection.client_host:
            self._late = lobby.guests.clock.call_at(lobby.guests.clock.monotonic_ms() + TLS_ENDS_MS, self._is_late)
        elif self._conversation.state is State.FAILED:
            if self._failing is None:
                connection.kill()
        else:
            reason = f"it has not authenticated within {lobby.guests.timeout_ms} ms"
            lobby.guests.count("failed_authentications", lobby.listener, self._conversation.mechanism)
            lobby.guests.failed(connection, lobby.listener, self._conversation, reason)
            connection.kill()
