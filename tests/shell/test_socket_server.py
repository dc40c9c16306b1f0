"""What is done for the connections of all listeners, on a clock that is told the time."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.broker.net.accepting import Addresses
from ottla.broker.net.rate_limit import RateLimit
from ottla.broker.net.socket_server import SocketServer
from ottla.broker.settings import Settings
from tests.shell.host import Clock, Log


class Peer:
    """A connection as the listener sees it."""

    client_id = "c"

    def __init__(self) -> None:
        self.client_host = "/10.0.0.1"
        self.active = False
        self.half_closed = False
        self.open: object | None = None
        self.is_muted = False
        self.quiet_since_ms = 0
        self.closed = False
        self.is_closing = False
        self.killed = False
        self.unread_bytes = 0
        self.woken = 0
        self.has_asked = True

    @property
    def is_waited_for(self) -> bool:
        return self.open is not None

    @property
    def kept_bytes(self) -> int:
        return self.unread_bytes

    def close(self, reason: str = "") -> None:
        self.closed = True
        self.why_closed = reason

    def wake(self) -> None:
        self.woken += 1

    def kill(self, reason: str = "") -> None:
        self.closed = self.killed = True


def server(clock: Clock, log: Log, **settings: Any) -> Any:
    made: Any = SocketServer(Settings(**settings), clock, lambda frame, start, peer: None, log)
    clock.call_at(made._sweep_ms, made._sweep)
    return made


def test_quiet_connections_are_closed_and_busy_ones_are_not(clock: Clock, log: Log) -> None:
    host = server(clock, log, connections_max_idle_ms=800)
    quiet, busy, waiting = Peer(), Peer(), Peer()
    waiting.open = object()
    for peer in (quiet, busy, waiting):
        host.opened(peer)
    for _ in range(20):
        busy.active = True
        clock.advance(100)
    assert quiet.closed and quiet.why_closed == "it was idle"
    assert not busy.closed
    assert not waiting.closed


@pytest.mark.parametrize("change", [{"half_closed": True}, {"is_muted": True}], ids=["half-closed", "muted"])
def test_who_is_half_closed_or_muted_waits_no_longer_than_an_idle_one(
    clock: Clock, log: Log, change: dict[str, bool]
) -> None:
    host = server(clock, log, connections_max_idle_ms=800)
    peer = Peer()
    peer.open = object()
    host.opened(peer)
    clock.advance(700)
    vars(peer).update(change)
    clock.advance(700)
    assert not peer.closed
    clock.advance(200)
    assert peer.closed


def test_what_does_not_close_because_nobody_reads_is_closed_at_once(clock: Clock, log: Log) -> None:
    host = server(clock, log, connections_max_idle_ms=800)
    deaf = Peer()
    host.opened(deaf)
    clock.advance(900)
    assert deaf.closed and not deaf.killed
    deaf.is_closing = True
    clock.advance(100)
    assert deaf.killed


def test_whose_answers_leave_slowly_is_not_idle(clock: Clock, log: Log) -> None:
    host = server(clock, log, connections_max_idle_ms=800)
    slow, deaf = Peer(), Peer()
    for peer in (slow, deaf):
        host.opened(peer)
        peer.open = object()
        peer.unread_bytes = 1000
        host.unread(peer)
    for _ in range(20):
        slow.unread_bytes -= 1
        clock.advance(100)
    assert deaf.killed
    assert not slow.closed
    host.reads_again(slow)
    clock.advance(900)
    assert not slow.closed, "its request is open"


def test_log_lines_are_limited_and_the_rest_counted(clock: Clock) -> None:
    limit = RateLimit(clock, lines=3, period_ms=1_000)
    assert [limit.allows() for _ in range(5)] == [True, True, True, False, False]
    assert limit.suppressed == 2
    clock.advance(1_000)
    assert limit.allows()


def test_connections_that_exceed_the_quota_of_their_address_are_told_now_and_then(clock: Clock, log: Log) -> None:
    host = server(clock, log)
    host.wait_of = lambda address: 0 if address == "10.0.0.2" else 500
    welcome = Peer()
    welcome.client_host = "/10.0.0.2"
    host.opened(welcome)
    assert log.lines == []
    for _ in range(4):
        host.opened(Peer())
    ((event, fields),) = log.lines
    assert event == "Too many new connections"
    assert (fields["client_host"], "suppressed" in fields) == ("/10.0.0.1", False)
    assert "connection_creation_rate" in fields["reason"]
    host.rejected(welcome, "what else goes wrong is told")
    assert len(log.lines) == 2
    clock.advance(10_000)
    host.opened(Peer())
    assert log.lines[-1][1]["suppressed"] == 3


def test_a_crowd_that_asks_for_nothing_gives_way_when_others_wait(clock: Clock, log: Log) -> None:
    host = server(clock, log, max_connections=3)
    silent, late, honest = Peer(), Peer(), Peer()
    silent.has_asked = late.has_asked = False
    host.opened(silent)
    host.opened(honest)
    clock.advance(60_000)
    assert not silent.killed, "nobody waits"
    late.quiet_since_ms = clock.now_ms
    host.opened(late)
    host.paused("there are as many as there may be")
    clock.advance(2_000)
    assert silent.killed and not honest.killed and not late.killed
    host.closed(silent)
    clock.advance(60_000)
    assert not late.killed, "there is room again"


def test_a_name_without_an_address_is_told_once(monkeypatch: pytest.MonkeyPatch) -> None:
    def look_up(host: str, *_: Any, **__: Any) -> list[Any]:
        if host != "known":
            raise OSError("no such name")
        return [(0, 0, 0, "", ("10.0.0.9", 0))]

    monkeypatch.setattr("ottla.broker.net.accepting.socket.getaddrinfo", look_up)
    settings, told = [Settings(max_connections_per_ip_overrides="known:1, gone:2")], []
    addresses = Addresses(lambda: settings[0], told.append)
    assert [addresses.most("10.0.0.9"), addresses.most("10.0.0.9"), told] == [1, 1, ["gone"]]
    settings[0] = Settings(max_connections_per_ip_overrides="gone:3")
    assert (addresses.most("10.0.0.9") > 1, told) == (True, ["gone", "gone"])
