"""What unfinished requests hold together, and who is read while it is too much."""

from __future__ import annotations

import random

import pytest

from ottla.broker.net.unfinished import PROGRESS_BYTES, TURNED_AWAY_BYTES, UnfinishedRequests
from tests.shell.host import Clock

MIB = 1 << 20


class Sender:
    """A connection that is about to send ``size`` bytes as one request; ``host`` says when it may."""

    def __init__(self, host: UnfinishedRequests, size: int = MIB) -> None:
        self.host, self.size = host, size
        self.buffered_bytes = 0
        self.reads = True
        self.killed = ""

    def receive(self, size: int) -> bool:
        """Take so many bytes, or as many as are missing; whether the request is whole, and so served."""
        assert self.reads
        self.buffered_bytes += min(size, self.size - self.buffered_bytes)
        if whole := self.buffered_bytes == self.size:
            self.buffered_bytes = 0
        self.ask()
        return whole

    def ask(self) -> None:
        self.reads = self.host.room_for(self, self.buffered_bytes, 0)

    def wake(self) -> None:
        self.reads = True

    def kill(self, reason: str) -> None:
        self.killed = reason
        self.buffered_bytes = 0
        self.host.gone(self)


@pytest.fixture
def host(clock: Clock) -> UnfinishedRequests:
    return UnfinishedRequests(4 * MIB, 800, clock)


def test_over_the_bound_parts_of_requests_wait_and_whole_ones_do_not(host: UnfinishedRequests) -> None:
    senders = [Sender(host) for _ in range(12)]
    for sender in senders:
        sender.receive(MIB // 2)
    assert host.held_bytes == 6 * MIB
    assert [sender.reads for sender in senders] == [True] * 9 + [False] * 3
    small = Sender(host, 100)
    assert small.receive(100)
    assert small.reads


def test_one_goes_on_and_then_the_next(host: UnfinishedRequests) -> None:
    """If nobody could, all would wait for each other for ever."""
    senders = [Sender(host) for _ in range(9)]
    for sender in senders:
        sender.receive(MIB * 3 // 4)
    served = 0
    while waiting := [sender for sender in senders if sender.buffered_bytes]:
        served += next(sender for sender in waiting if sender.reads).receive(MIB)
    assert served == len(senders)
    assert host.held_bytes == 0


def test_memory_is_asked_for_before_it_is_taken(host: UnfinishedRequests) -> None:
    one, other = Sender(host, 16 * MIB), Sender(host, 16 * MIB)
    assert host.room_for(one, MIB, 2 * MIB)
    assert host.room_for(other, MIB, 3 * MIB), "somebody goes on"
    assert not host.room_for(one, 3 * MIB, 9 * MIB)
    assert host.held_bytes == 7 * MIB, "what was not given does not count"
    host.gone(other)
    assert one.reads


def test_who_waits_for_something_else_does_not_hold_the_others_up(host: UnfinishedRequests) -> None:
    first, second = Sender(host, 5 * MIB), Sender(host)
    first.receive(5 * MIB - 1)
    second.receive(MIB // 2)
    assert first.reads and not second.reads
    assert not host.holds(first, 5 * MIB), "its request is whole and waits for its turn"
    assert second.reads


def test_at_twice_the_bound_those_who_come_with_more_are_closed(host: UnfinishedRequests) -> None:
    senders = [Sender(host) for _ in range(40)]
    for sender in senders:
        sender.receive(MIB // 4)
    assert [bool(sender.killed) for sender in senders] == [False] * 32 + [True] * 8
    assert host.held_bytes == 8 * MIB
    small = Sender(host, 2 * TURNED_AWAY_BYTES)
    small.receive(TURNED_AWAY_BYTES)
    assert not small.killed


def test_who_sends_nothing_more_is_closed_while_the_bound_presses(clock: Clock, host: UnfinishedRequests) -> None:
    dead = [Sender(host) for _ in range(6)]
    slow = Sender(host, 4 * MIB)
    for sender in (*dead, slow):
        sender.receive(MIB * 5 // 8)
    honest = Sender(host, MIB)
    honest.receive(MIB // 2)
    assert slow.reads and not honest.reads
    for _ in range(12):
        clock.advance(100)
        slow.receive(PROGRESS_BYTES)
    assert all("did not grow" in sender.killed for sender in dead)
    assert not slow.killed and not honest.killed
    assert honest.reads


def test_one_byte_now_and_then_is_no_progress(clock: Clock, host: UnfinishedRequests) -> None:
    drips = [Sender(host) for _ in range(6)]
    for sender in drips:
        sender.receive(MIB * 5 // 8)
    honest = Sender(host)
    honest.receive(MIB // 2)
    for _ in range(12):
        clock.advance(100)
        for sender in drips:
            if sender.reads and not sender.killed:
                sender.receive(1)
    assert sum(bool(sender.killed) for sender in drips) >= 3
    assert host.held_bytes <= 2 * MIB + MIB // 2
    assert honest.reads


def test_nobody_is_closed_while_there_is_room(clock: Clock, host: UnfinishedRequests) -> None:
    idle = Sender(host)
    idle.receive(MIB // 2)
    clock.advance(5_000)
    assert not idle.killed
    assert not clock.timers


@pytest.mark.parametrize("seed", range(20))
def test_honest_senders_are_all_served_whatever_their_order(seed: int, host: UnfinishedRequests) -> None:
    rng = random.Random(seed)
    senders = [Sender(host, rng.randrange(1, 3 * MIB)) for _ in range(10)]
    left = dict.fromkeys(senders, 3)
    while left:
        ready = [sender for sender in left if sender.reads]
        assert ready, "everybody waits"
        assert not any(sender.killed for sender in left)
        sender = rng.choice(ready)
        if sender.receive(rng.randrange(1, MIB // 2)):
            left[sender] -= 1
            if not left[sender]:
                del left[sender]
        assert host.held_bytes <= 2 * 4 * MIB + 3 * MIB
    assert host.held_bytes == 0


def test_one_that_was_preferred_and_is_gone_is_preferred_no_more(host: UnfinishedRequests) -> None:
    """It may hold nothing any more when it is its turn, as its request was answered meanwhile."""
    first, second, third = (Sender(host, 16 * MIB) for _ in range(3))
    for sender in (first, second, third):
        sender.receive(2 * MIB)
    assert first.reads and second.reads and third.reads, "the third is preferred"
    fourth = Sender(host, 16 * MIB)
    fourth.receive(MIB)
    assert not fourth.reads
    fifth = Sender(host, 16 * MIB)
    fifth.receive(MIB)
    assert not fifth.reads
    host.holds(fourth, 0)
    third.kill("its turn ends")
    first.receive(2 * MIB)
    assert host.is_full
    fourth.kill("before it went on")
    assert fifth.reads
