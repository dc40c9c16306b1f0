"""What is said on a connection before its client is known, on a clock that is told the time."""

from __future__ import annotations

import struct

import pytest

from ottla.broker.core.security.session import ANONYMOUS, Session
from ottla.broker.net.authentication import MOST_STEPS
from ottla.protocol.apis import ApiKey, api
from ottla.protocol.headers import frame_request
from tests.shell.guests import (
    DELAY_MS,
    METADATA,
    MOST,
    NEWER_VERSIONS,
    PLAIN,
    SECRET,
    SERVED,
    STEPS,
    TIMEOUT_MS,
    VERSIONS,
    Client,
    World,
    asked,
    fails_at_once,
    fails_later,
)
from tests.shell.host import answers, framed
from tests.support.requests import request


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
def client(world: World) -> Client:
    return world.connect()


def test_a_client_that_says_who_it_is(world: World, client: Client) -> None:
    assert client.send(VERSIONS)[8:10] == b"\0\0"
    assert client.handshake().mechanisms == [PLAIN, STEPS]
    answer = client.token(b"alice")
    assert (answer.error_code, answer.error_message, answer.session_lifetime_ms) == (0, "", 0)
    assert client.connection.session == Session("User:alice", "SASL", STEPS)
    assert client.send(METADATA) == SERVED
    assert world.served == [METADATA[4:]]
    assert world.guests.present == {} and client.connection.guest is None
    client.advance(10 * TIMEOUT_MS)
    assert not client.is_closed


def test_a_handshake_may_be_the_first_request(client: Client) -> None:
    assert client.log_in().error_code == 0


def test_several_tokens(client: Client) -> None:
    client.handshake()
    assert client.token(b"more").auth_bytes == b"go on"
    assert client.connection.session == ANONYMOUS, "not yet"
    assert client.token(b"alice").error_code == 0


@pytest.mark.parametrize("version", range(3))
def test_answers_are_of_the_version_that_was_asked(client: Client, version: int) -> None:
    client.handshake()
    assert client.token(b"alice", version).session_lifetime_ms == 0


def test_unknown_versions_of_api_versions_may_be_asked_again(client: Client) -> None:
    assert client.send(NEWER_VERSIONS)[8:10] == b"\0\x23"
    assert client.send(NEWER_VERSIONS)[8:10] == b"\0\x23"
    assert client.send(VERSIONS)[8:10] == b"\0\0"
    assert client.handshake().error_code == 0


def test_api_versions_twice_closes_at_once(client: Client) -> None:
    client.send(VERSIONS)
    assert client.send(VERSIONS) == b""
    fails_at_once(client)


def test_the_first_answer_is_sent_though_the_second_request_closes(client: Client) -> None:
    assert client.send(VERSIONS, VERSIONS)[8:10] == b"\0\0"
    fails_at_once(client)


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-1", "plain", ""])
def test_a_mechanism_that_is_not_offered(world: World, client: Client, mechanism: str) -> None:
    assert client.send(asked(ApiKey.SASL_HANDSHAKE, 1, mechanism=mechanism)) == b""
    assert client.advance(DELAY_MS - 1) == b"" and not client.is_closed
    ((_, answer),) = answers(client.advance(1), ApiKey.SASL_HANDSHAKE, 1)
    assert (answer.error_code, answer.mechanisms) == (33, [PLAIN, STEPS])
    assert client.is_closed


def test_a_request_before_authentication(world: World, client: Client) -> None:
    assert client.send(METADATA) == b""
    fails_at_once(client)
    assert world.served == []
    ((event, fields),) = world.log.lines
    assert (event, fields["listener"], fields["host"]) == ("authentication_failed", "SASL", "10.0.0.7")


def test_a_request_in_the_place_of_a_token(client: Client) -> None:
    client.handshake()
    assert client.send(METADATA) == b""
    fails_later(client)


@pytest.mark.parametrize(("key", "version"), [(ApiKey.METADATA, 99), (999, 0)])
def test_a_request_that_nobody_knows_in_the_place_of_a_token(client: Client, key: int, version: int) -> None:
    client.handshake()
    client.send(frame_request(key, version, 7, "c", b"", flexible=False))
    fails_at_once(client)


@pytest.mark.parametrize(
    ("key", "frame"),
    [
        (ApiKey.API_VERSIONS, asked(ApiKey.API_VERSIONS, 0)),
        (ApiKey.API_VERSIONS, NEWER_VERSIONS),
        (ApiKey.SASL_HANDSHAKE, asked(ApiKey.SASL_HANDSHAKE, 0)),
    ],
)
def test_others_of_the_three_in_the_place_of_a_token_are_told(client: Client, key: ApiKey, frame: bytes) -> None:
    client.handshake()
    assert client.send(frame) == b""
    assert client.advance(DELAY_MS - 1) == b""
    ((_, answer),) = answers(client.advance(1), key, 0)
    assert answer.error_code == 34 and client.is_closed


@pytest.mark.parametrize("start", [struct.pack(">hhih", 17, 1, 7, -1), struct.pack(">hhih", 18, 3, 7, -1)])
def test_half_a_request_in_the_place_of_a_token(client: Client, start: bytes) -> None:
    client.handshake()
    client.send(framed(start))
    fails_at_once(client)


def test_bytes_that_are_no_request(client: Client) -> None:
    """They were tokens of GSSAPI once; Kafka 4 does not take them for such any more (KIP-896)."""
    client.send(framed(b"\x60" + bytes(range(15))))
    fails_at_once(client)


def test_bytes_that_are_no_request_behind_one(client: Client) -> None:
    client.send(VERSIONS)
    client.send(framed(b"\x7f\x7f" + bytes(14)))
    fails_at_once(client)


@pytest.mark.parametrize(("key", "version"), [(ApiKey.SASL_HANDSHAKE, 2), (ApiKey.SASL_AUTHENTICATE, 3)])
def test_a_version_that_is_not_served(client: Client, key: ApiKey, version: int) -> None:
    if key is ApiKey.SASL_AUTHENTICATE:
        client.handshake()
    assert client.send(frame_request(key, version, 7, "c", b"\0" * 9, flexible=version == 3)) == b""
    fails_at_once(client)


def test_raw_tokens(world: World, client: Client) -> None:
    assert client.handshake(version=0).error_code == 0
    assert client.send(framed(b"more")) == framed(b"go on")
    assert client.send(framed(b"alice")) == framed(b"")
    assert client.connection.session.principal == "User:alice"
    assert client.send(METADATA) == SERVED


def test_an_empty_raw_token_is_a_token(client: Client) -> None:
    client.handshake(version=0)
    assert client.send(framed(b"")) == framed(b"")
    assert client.connection.session.principal == "User:"


def test_a_raw_token_that_fails_is_not_answered(client: Client) -> None:
    client.handshake(PLAIN, version=0)
    assert client.send(framed(b"\0alice\0wrong")) == b""
    fails_later(client)


def test_a_request_in_the_place_of_a_raw_token(client: Client) -> None:
    client.handshake(PLAIN, version=0)
    assert client.send(asked(ApiKey.SASL_AUTHENTICATE, 2, auth_bytes=b"\0alice\0" + SECRET.encode())) == b""
    fails_later(client)


def test_an_answer_that_refuses_comes_after_the_delay(world: World, client: Client) -> None:
    client.handshake()
    frame = asked(ApiKey.SASL_AUTHENTICATE, 2, auth_bytes=b"refuse al\nice")
    assert client.send(frame, METADATA) == b""
    assert client.advance(DELAY_MS - 1) == b"" and not client.is_closed
    ((_, answer),) = answers(client.advance(1), ApiKey.SASL_AUTHENTICATE, 2)
    assert (answer.error_code, answer.error_message, answer.auth_bytes) == (58, "told", b"")
    assert client.is_closed and world.served == []
    ((_, fields),) = world.log.lines
    assert (fields["user"], fields["mechanism"], fields["reason"]) == ("al\\nice", STEPS, "for the log")
    assert fields["kid"] == "al\\nice's"


def test_without_a_delay_it_is_told_at_once() -> None:
    client = World(connections_max_idle_ms=1_000).connect()
    client.world.guests._delay_ms = 0
    client.handshake()
    client.send(asked(ApiKey.SASL_AUTHENTICATE, 2, auth_bytes=b"refuse alice"))
    ((_, answer),) = answers(client.advance(0), ApiKey.SASL_AUTHENTICATE, 2)
    assert answer.error_code == 58 and client.is_closed


def test_a_mechanism_takes_few_tokens(client: Client) -> None:
    client.handshake()
    for _ in range(MOST_STEPS):
        assert client.token(b"more").error_code == 0
    client.send(asked(ApiKey.SASL_AUTHENTICATE, 2, auth_bytes=b"more"))
    ((_, answer),) = answers(client.advance(DELAY_MS), ApiKey.SASL_AUTHENTICATE, 2)
    assert answer.error_code == 58 and client.is_closed


def test_a_frame_that_is_too_long_is_not_waited_for(world: World, client: Client) -> None:
    assert client.send(struct.pack(">i", 1001)) == b""
    fails_later(client)
    assert client.connection.buffered_bytes == 0


def test_the_same_frame_is_taken_from_an_established_connection(world: World, client: Client) -> None:
    client.log_in()
    assert client.send(framed(b"x" * 1001)) == SERVED


def test_the_audit_has_the_client_id_from_the_first_request_on(world: World, client: Client) -> None:
    """The log has lines at debug of what happens all the time."""
    client.log_in()
    ((event, row),) = [line for line in world.log.lines if line[0] == "authenticated"]
    assert (event, row["client_id"]) == ("authenticated", client.connection.client_id) and row["client_id"]


def test_a_client_id_that_is_too_long_to_be_one_is_not_kept(client: Client) -> None:
    request = struct.pack(">hhih", 18, 0, 7, 1_001) + b"x" * 1_001
    client.send(framed(request))
    assert client.connection.client_id == ""


def test_what_comes_with_the_last_token_is_for_the_established_connection(world: World, client: Client) -> None:
    """Even in the same read, and though it is longer than a guest's requests may be."""
    client.handshake()
    frames = asked(ApiKey.SASL_AUTHENTICATE, 2, auth_bytes=b"alice"), framed(b"x" * 2000), METADATA
    assert client.send(*frames).endswith(SERVED + SERVED)
    assert world.served == [b"x" * 2000, METADATA[4:]]


MANY_TAGS = bytes((65,)) + b"".join(bytes((number, 0)) for number in range(65))


def test_header_tags_are_few(client: Client) -> None:
    client.handshake()
    body = api(ApiKey.SASL_AUTHENTICATE).request.layout(2).encode(request(ApiKey.SASL_AUTHENTICATE, {}))
    client.send(framed(struct.pack(">hhih", 36, 2, 7, -1) + MANY_TAGS + body))
    fails_at_once(client)


@pytest.mark.parametrize("tags", [b"", b"\1\7\5x", b"\xff\xff", MANY_TAGS])
def test_the_header_of_api_versions_to_come_is_read(client: Client, tags: bytes) -> None:
    assert client.send(framed(struct.pack(">hhih", 18, 99, 7, -1) + tags)) == b""
    fails_at_once(client)


# -- work in threads


def test_work_is_done_in_a_thread(world: World, client: Client) -> None:
    client.handshake()
    frame = asked(ApiKey.SASL_AUTHENTICATE, 2, auth_bytes=b"derive alice")
    assert client.send(frame, METADATA) == b"" and world.served == []
    world.work.do()
    world.loop.run()
    written = client.transport.take()
    assert written.endswith(SERVED) and client.connection.session.principal == "User:alice"


@pytest.mark.parametrize("token", [b"break", b"derive break"])
def test_trouble_of_our_own_is_told_without_its_text(world: World, client: Client, token: bytes) -> None:
    client.handshake()
    client.send(asked(ApiKey.SASL_AUTHENTICATE, 2, auth_bytes=token))
    if world.work.waiting:
        world.work.do()
    ((_, answer),) = answers(client.advance(DELAY_MS), ApiKey.SASL_AUTHENTICATE, 2)
    assert answer.error_code == 58 and "could not be verified" in answer.error_message
    assert SECRET not in answer.error_message + str(world.log.lines) and "ValueError" in str(world.log.lines)


def test_work_for_somebody_who_is_gone(world: World, client: Client) -> None:
    client.handshake()
    client.send(asked(ApiKey.SASL_AUTHENTICATE, 2, auth_bytes=b"derive alice"))
    begun = world.work.waiting.pop()
    client.lose()
    world.work.waiting.append(begun)
    world.work.do()
    assert client.transport.take() == b"" and world.guests.present == {}
    assert all(timer.cancelled for timer in world.clock.timers)


def test_work_that_nobody_waits_for_is_not_begun(world: World) -> None:
    """Whoever comes, shows a password and goes must not leave work behind for which those who stay wait."""
    for _ in range(3):
        client = world.connect()
        client.handshake()
        client.send(asked(ApiKey.SASL_AUTHENTICATE, 2, auth_bytes=b"derive alice"))
        assert client.transport.reading, "or nobody would see that it goes"
        client.connection.eof_received()
        assert client.is_closed
        client.lose()
    assert world.work.waiting == []


# -- bounds


def test_whoever_says_nothing_is_closed(world: World, client: Client) -> None:
    client.send(VERSIONS)
    client.advance(TIMEOUT_MS - 1)
    assert not client.is_closed
    client.advance(1)
    assert client.is_closed


def test_who_does_not_read_what_he_is_told_is_closed_in_time(client: Client) -> None:
    """Close would wait until it is read: somebody who failed must not keep his place for that."""
    client.send(NEWER_VERSIONS)
    client.send(METADATA)
    client.transport.close = lambda: None  # type: ignore[method-assign]
    client.transport.abort = lambda: setattr(client.transport, "closed", True)  # type: ignore[method-assign]
    client.advance(TIMEOUT_MS - 1)
    assert not client.is_closed
    client.advance(1)
    assert client.is_closed


def test_who_fails_at_the_last_moment_is_told_all_the_same(client: Client) -> None:
    client.handshake()
    client.advance(TIMEOUT_MS - 1)
    client.send(asked(ApiKey.SASL_AUTHENTICATE, 2, auth_bytes=b"refuse alice"))
    assert client.advance(DELAY_MS - 1) == b"" and not client.is_closed
    ((_, answer),) = answers(client.advance(1), ApiKey.SASL_AUTHENTICATE, 2)
    assert answer.error_code == 58 and client.is_closed


def test_half_of_the_places_is_for_those_who_authenticate(world: World) -> None:
    clients = [world.connect() for _ in range(MOST // 2)]
    assert world.lobby.room == 0
    room: list[bool] = []
    world.guests.somebody_went = lambda: room.append(world.lobby.room > 0)
    clients[0].log_in()
    assert (world.lobby.room, room) == (1, [True])
    clients[1].lose()
    assert world.lobby.room == 2


def test_waiting_does_not_fill_the_table(world: World) -> None:
    """When more than a quarter of all connections wait for the end of their delay, others need not."""
    clients = [world.connect() for _ in range(MOST // 4 + 2)]
    for client in clients:
        client.handshake()
        client.send(METADATA)
        client.advance(0)
    assert [client.is_closed for client in clients] == [False] * (MOST // 4 + 1) + [True]
    clients[0].advance(DELAY_MS)
    assert all(client.is_closed for client in clients) and world.guests._waiting == 0


def test_equal_failures_are_told_once_and_counted_in_time(world: World) -> None:
    for _ in range(30):
        client = world.connect()
        client.send(METADATA)
        client.lose()
    assert len(world.log.lines) == 1
    world.clock.advance(10_000)
    assert [fields.get("others") for _, fields in world.log.lines] == [None, 29]
    assert world.guests._waiting == 0


def test_what_guests_hold_together_is_bounded() -> None:
    world = World(ottla_unauthenticated_request_bytes=3000)
    clients = [world.connect() for _ in range(3)]
    for client in clients:
        client.connection.data_received(struct.pack(">i", 1000) + b"x" * 900)
    assert [client.transport.reading for client in clients] == [True, True, False], "one may always go on"
    for client in clients[:2]:
        client.lose()
    world.loop.run()
    assert clients[2].transport.reading


def test_no_secret_is_told(world: World, client: Client) -> None:
    client.handshake(PLAIN)
    client.send(asked(ApiKey.SASL_AUTHENTICATE, 2, auth_bytes=f"\0alice\0{SECRET}x".encode()))
    assert SECRET not in str(world.log.lines) and "alice" in str(world.log.lines)
