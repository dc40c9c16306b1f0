"""Answers that clients do not read, of all connections together."""

from __future__ import annotations

import pytest

from ottla.broker.net.unread import PATIENCE_MS, UnreadAnswers
from tests.shell.host import Clock


class Reader:
    def __init__(self, host: UnreadAnswers) -> None:
        self.host = host
        self.unread_bytes = 0
        self.killed = ""

    @property
    def kept_bytes(self) -> int:
        return self.unread_bytes

    def answer(self, size: int) -> None:
        self.unread_bytes += size
        self.host.grew(self)

    def kill(self, reason: str) -> None:
        self.killed = reason
        self.unread_bytes = 0


@pytest.fixture
def host(clock: Clock) -> UnreadAnswers:
    return UnreadAnswers(1000, 600_000, clock)


def test_over_the_bound_the_largest_go(host: UnreadAnswers) -> None:
    readers = [Reader(host) for _ in range(4)]
    for reader, size in zip(readers, (200, 500, 200, 300), strict=True):
        reader.answer(size)
    assert [bool(reader.killed) for reader in readers] == [False, True, False, False]
    assert host.held_bytes == 700


def test_the_one_that_is_too_much_may_be_the_last_one(host: UnreadAnswers) -> None:
    small, large = Reader(host), Reader(host)
    small.answer(100)
    large.answer(950)
    assert large.killed and not small.killed
    assert host.held_bytes == 100


def test_who_reads_slowly_goes_after_those_who_do_not(clock: Clock, host: UnreadAnswers) -> None:
    slow, deaf = Reader(host), Reader(host)
    slow.answer(800)
    clock.advance(1_500)
    slow.unread_bytes -= 1
    clock.advance(1_500)
    deaf.answer(300)
    assert deaf.killed and not slow.killed
    clock.advance(PATIENCE_MS)
    deaf = Reader(host)
    deaf.answer(300)
    assert slow.killed and not deaf.killed, "it reads no longer"


def test_who_was_answered_just_now_goes_after_those_who_have_long_read_nothing(
    clock: Clock, host: UnreadAnswers
) -> None:
    deaf = Reader(host)
    deaf.answer(300)
    clock.advance(PATIENCE_MS)
    new = Reader(host)
    new.answer(800)
    assert deaf.killed and not new.killed


def test_what_may_be_smaller_is_for_half_of_the_bound(host: UnreadAnswers) -> None:
    assert host.room_bytes == 500
    reader, other = Reader(host), Reader(host)
    reader.answer(300)
    assert host.room_bytes == 200
    other.answer(600)
    assert host.room_bytes == 0
    host.gone(other)
    assert host.room_bytes == 200


def test_what_was_read_meanwhile_closes_nobody(host: UnreadAnswers) -> None:
    one, other = Reader(host), Reader(host)
    one.answer(800)
    one.unread_bytes = 100
    other.answer(700)
    assert not one.killed and not other.killed
    assert host.held_bytes == 800


def test_who_reads_nothing_is_closed_in_time_and_looks_end(clock: Clock) -> None:
    host = UnreadAnswers(1000, 800, clock)
    deaf, slow = Reader(host), Reader(host)
    deaf.answer(100)
    slow.answer(100)
    for _ in range(10):
        clock.advance(100)
        slow.unread_bytes -= 1
    assert deaf.killed and not slow.killed
    host.gone(slow)
    clock.advance(200)
    assert host.held_bytes == 0
    assert not clock.timers, "nobody is looked after any more"
