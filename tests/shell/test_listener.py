"""What a listener does for all of its connections, on a clock that is told the time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ottla.broker.net.listener import ALWAYS_ROOM_BYTES, Listener, RateLimit
from ottla.broker.settings import Settings


class Clock:
    def __init__(self) -> None:
        self.now_ms = 0
        self.timers: list[tuple[int, Callable[[], None]]] = []

    def monotonic_ms(self) -> int:
        return self.now_ms

    def wall_ms(self) -> int:
        return self.now_ms

    def call_at(self, when_ms: int, callback: Callable[[], None]) -> Any:
        self.timers.append((when_ms, callback))
        return None

    def advance(self, by_ms: int) -> None:
        end_ms = self.now_ms + by_ms
        while due := [timer for timer in self.timers if timer[0] <= end_ms]:
            timer = min(due, key=lambda item: item[0])
            self.timers.remove(timer)
            self.now_ms = timer[0]
            timer[1]()
        self.now_ms = end_ms


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
        self.woken = 0

    @property
    def is_waited_for(self) -> bool:
        return self.open is not None

    def close(self) -> None:
        self.closed = True

    def wake(self) -> None:
        self.woken += 1

    def kill(self) -> None:
        self.closed = True


class Log:
    def __init__(self) -> None:
        self.lines: list[tuple[str, dict[str, Any]]] = []

    def warning(self, event: str, **fields: Any) -> None:
        self.lines.append((event, fields))

    debug = warning


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def log() -> Log:
    return Log()


def listener(clock: Clock, log: Log, **settings: Any) -> Any:
    made: Any = Listener(Settings(**settings), clock, lambda frame, start, peer: None, log)
    clock.call_at(made._sweep_ms, made._sweep)
    return made


def test_quiet_connections_are_closed_and_busy_ones_are_not(clock: Clock, log: Log) -> None:
    host = listener(clock, log, connections_max_idle_ms=800)
    quiet, busy, waiting = Peer(), Peer(), Peer()
    waiting.open = object()
    for peer in (quiet, busy, waiting):
        assert host.opened(peer)
    for _ in range(20):
        busy.active = True
        clock.advance(100)
    assert quiet.closed
    assert not busy.closed
    assert not waiting.closed


def test_a_half_closed_connection_waits_no_longer_than_an_idle_one(clock: Clock, log: Log) -> None:
    host = listener(clock, log, connections_max_idle_ms=800)
    gone = Peer()
    gone.open = object()
    assert host.opened(gone)
    clock.advance(700)
    gone.half_closed = True
    clock.advance(700)
    assert not gone.closed
    clock.advance(200)
    assert gone.closed


def test_a_muted_connection_waits_no_longer_than_an_idle_one(clock: Clock, log: Log) -> None:
    host = listener(clock, log, connections_max_idle_ms=800)
    muted = Peer()
    assert host.opened(muted)
    muted.active = True
    clock.advance(100)
    muted.open, muted.is_muted = object(), True
    clock.advance(700)
    assert not muted.closed
    clock.advance(200)
    assert muted.closed


def test_connections_over_the_limit_are_refused_until_one_goes(clock: Clock, log: Log) -> None:
    host = listener(clock, log, max_connections=2)
    first, second = Peer(), Peer()
    assert host.opened(first)
    assert host.opened(second)
    assert not host.opened(Peer())
    host.closed(first)
    assert host.opened(Peer())


def test_large_unfinished_requests_wait_for_room_and_small_ones_do_not(clock: Clock, log: Log) -> None:
    host = listener(clock, log, queued_max_request_bytes=3 * ALWAYS_ROOM_BYTES)
    large, larger, small = Peer(), Peer(), Peer()
    for peer in (large, larger, small):
        host.opened(peer)
    assert host.room_for(large, 2 * ALWAYS_ROOM_BYTES)
    assert not host.room_for(larger, 2 * ALWAYS_ROOM_BYTES)
    assert host.room_for(small, 1000)
    assert larger.woken == 0
    host.room_for(large, 0)  # its request is complete
    assert larger.woken == 1


def test_the_memory_of_a_closed_connection_is_given_back(clock: Clock, log: Log) -> None:
    host = listener(clock, log, queued_max_request_bytes=ALWAYS_ROOM_BYTES)
    large, larger = Peer(), Peer()
    host.opened(large)
    host.opened(larger)
    assert host.room_for(large, ALWAYS_ROOM_BYTES)
    assert not host.room_for(larger, ALWAYS_ROOM_BYTES)
    host.closed(large)
    assert larger.woken == 1


def test_log_lines_are_limited_and_the_rest_counted(clock: Clock) -> None:
    limit = RateLimit(clock, lines=3, period_ms=1_000)
    assert [limit.allows() for _ in range(5)] == [True, True, True, False, False]
    assert limit.suppressed == 2
    clock.advance(1_000)
    assert limit.allows()


def test_connections_that_exceed_the_quota_of_their_address_are_told_now_and_then(clock: Clock, log: Log) -> None:
    host = listener(clock, log)
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
