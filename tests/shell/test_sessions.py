"""Sessions that end, and how they are renewed (KIP-368), on a clock that is told the time."""

from __future__ import annotations

import struct

import pytest

from ottla.protocol.apis import ApiKey
from tests.shell.guests import (
    DELAY_MS,
    METADATA,
    PLAIN,
    SECRET,
    SERVED,
    STEPS,
    TIMEOUT_MS,
    Client,
    World,
    asked,
    fails_at_once,
    fails_later,
)
from tests.shell.host import answers


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
def client(world: World) -> Client:
    return world.connect()


@pytest.fixture
def ending(world: World) -> Client:
    world.mechanisms.most_ms = 5_000
    client = world.connect()
    assert client.log_in().session_lifetime_ms == 5_000
    return client


def test_a_session_ends(world: World, ending: Client) -> None:
    assert ending.send(METADATA) == SERVED
    assert ending.connection.session.ends_ms == 1_005_000
    ending.advance(4_999)
    assert ending.send(METADATA) == SERVED
    ending.advance(1)
    assert not ending.is_closed, "nothing happens as long as nothing is asked"
    assert ending.send(METADATA) == b"" and ending.is_closed
    assert len(world.served) == 2
    assert world.counts["expired_connections_killed", "SASL", STEPS] == 1
    told = {"reason": "its session ended, and it did not authenticate again", "mechanism": STEPS, "port": 5000}
    assert world.log.lines[-1][0] == "session_expired" and world.log.lines[-1][1].items() >= told.items()
    assert ending.connection.why_closed == told["reason"]


def test_many_sessions_that_end_are_one_line(world: World, ending: Client) -> None:
    """A crowd of clients that cannot renew theirs comes back again and again."""
    world.mechanisms.most_ms = 5_000
    others = [ending, world.connect()]
    assert others[1].log_in().session_lifetime_ms == 5_000
    ending.advance(5_000)
    for one in others:
        assert one.send(METADATA) == b"" and one.is_closed
    assert world.log.events.count("session_expired") == 1


def test_a_session_is_renewed(world: World, ending: Client) -> None:
    ending.connection.repeat = object()
    ending.advance(1_000)
    assert ending.log_in().session_lifetime_ms == 5_000
    assert ending.connection.repeat is None
    ending.advance(4_999)
    assert ending.send(METADATA) == SERVED
    assert world.counts["successful_reauthentications", "SASL", STEPS] == 1
    ending.advance(1)
    assert ending.log_in().error_code == 0, "after its end, too"
    assert ending.send(METADATA) == SERVED


def test_a_session_that_becomes_one_without_an_end(world: World, ending: Client) -> None:
    world.mechanisms.most_ms = 0
    assert ending.log_in().session_lifetime_ms == 0
    ending.advance(100_000)
    assert ending.send(METADATA) == SERVED and ending.connection.guest is None


def test_the_earlier_end_counts(world: World) -> None:
    world.mechanisms.most_ms = 10_000
    assert world.connect().log_in(b"until alice 1003000").session_lifetime_ms == 3_000
    assert world.connect().log_in(b"until alice 1013000").session_lifetime_ms == 10_000
    world.mechanisms.most_ms = 0
    assert world.connect().log_in(b"until alice 1013000").session_lifetime_ms == 13_000
    assert world.connect().log_in(b"until alice 999999").session_lifetime_ms == 0


def test_whoever_begins_again_within_a_second_is_taken_as_any(world: World, ending: Client) -> None:
    assert ending.log_in().error_code == 0
    ending.advance(999)
    frame = asked(ApiKey.SASL_HANDSHAKE, 1, mechanism=STEPS)
    assert ending.send(frame) == SERVED
    assert world.served == [frame[4:]], "where it is answered 34"
    ending.advance(1)
    assert ending.log_in().error_code == 0


def test_the_principal_stays(world: World, ending: Client) -> None:
    ending.handshake()
    assert ending.send(asked(ApiKey.SASL_AUTHENTICATE, 2, auth_bytes=b"bob")) == b""
    ((_, answer),) = answers(ending.advance(DELAY_MS), ApiKey.SASL_AUTHENTICATE, 2)
    assert answer.error_code == 58
    assert "User:alice" in answer.error_message and "User:bob" in answer.error_message
    assert ending.is_closed and ending.connection.session.principal == "User:alice"


def test_the_mechanism_stays(ending: Client) -> None:
    assert ending.handshake(PLAIN).error_code == 0
    assert ending.send(asked(ApiKey.SASL_AUTHENTICATE, 2, auth_bytes=f"\0alice\0{SECRET}".encode())) == b""
    fails_later(ending)


def test_a_mechanism_that_is_not_offered_ends_a_session_at_once(ending: Client) -> None:
    """A new connection would be told which there are."""
    assert ending.send(asked(ApiKey.SASL_HANDSHAKE, 1, mechanism="plain")) == b""
    fails_at_once(ending)


def test_other_requests_and_long_ones_break_an_exchange_that_renews(world: World, ending: Client) -> None:
    ending.handshake()
    ending.send(METADATA)
    fails_later(ending)
    other = world.connect()
    other.log_in()
    other.handshake()
    other.send(struct.pack(">i", 1001))
    fails_later(other)


def test_whoever_renews_a_session_has_as_long_as_a_guest(ending: Client) -> None:
    ending.handshake()
    ending.advance(TIMEOUT_MS)
    assert ending.is_closed


def test_a_frame_too_long_in_a_session_is_rejected_as_ever(world: World, ending: Client) -> None:
    ending.send(struct.pack(">i", world.max_request_bytes + 1))
    assert len(world.rejections) == 1 and ending.is_closed
