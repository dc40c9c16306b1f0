"""The included client tells a broker who it is: each mechanism, refusals, and again before a session ends."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import threading
from base64 import b64encode
from collections.abc import Callable
from typing import Any

import pytest

from ottla.clients import Admin, AuthenticationFailed, Consumer, KafkaConnectionError, OptionError
from ottla.clients.client import Client
from ottla.clients.connection import ClientConnection
from ottla.clients.options import ClientOptions
from ottla.clients.security import security_of
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from ottla.protocol.sasl.exchange import ServerExchange
from ottla.protocol.sasl.oauthbearer import Claims, InvalidToken, OAuthBearerServer
from ottla.protocol.sasl.plain import PlainServer
from ottla.protocol.sasl.scram import (
    Credential,
    Found,
    Mechanism,
    ScramServer,
    credential_of,
    nonce_of,
    salted_password,
)
from tests.clients.sasl_broker import SaslBroker

USER = {"sasl_plain_username": "alice", "sasl_plain_password": "alice-secret"}
TOKEN = "eyJh.eyJz.c2ln"


def plain() -> PlainServer:
    return PlainServer(lambda user, password: (user, password) == ("alice", "alice-secret"), lambda *_: False)


def refusing() -> PlainServer:
    return PlainServer(lambda *_: False, lambda *_: False)


def scram(mechanism: Mechanism, password: str = "alice-secret", iterations: int = 4096) -> Callable[[], ScramServer]:
    known = credential_of(mechanism, salted_password(mechanism, password, b"salt", iterations), b"salt", iterations)
    return lambda: ScramServer(mechanism, lambda user: Found(known), nonce_of(bytes(24)))


def bearer() -> OAuthBearerServer:
    def verify(token: str) -> Claims:
        if token != TOKEN:
            raise InvalidToken("it is another")
        return Claims("svc", 2**40)

    return OAuthBearerServer(verify)


ALL: dict[str, Callable[[], ServerExchange]] = {
    "PLAIN": plain,
    "SCRAM-SHA-256": scram(Mechanism.SCRAM_SHA_256),
    "SCRAM-SHA-512": scram(Mechanism.SCRAM_SHA_512),
    "OAUTHBEARER": bearer,
}


class Tokens:
    """Gives out tokens, the last one again and again; None raises."""

    def __init__(self, *tokens: str | None) -> None:
        self.tokens = list(tokens)

    async def token(self) -> str:
        found = self.tokens.pop(0) if len(self.tokens) > 1 else self.tokens[0]
        if found is None:
            raise RuntimeError("with words that hold a-secret")
        return found

    def extensions(self) -> dict[str, str]:
        return {}


async def connected(broker: SaslBroker, **options: Any) -> ClientConnection:
    security = security_of(ClientOptions(**broker.options, **options))
    return await ClientConnection.connect(
        "127.0.0.1", broker.port, client_id="me", timeout_ms=10_000, security=security
    )


async def ask(connection: ClientConnection) -> ListGroupsResponse:
    return await connection.send(ListGroupsRequest(), ListGroupsResponse, timeout_ms=10_000)


@pytest.mark.parametrize("mechanism", ALL)
async def test_each_mechanism(mechanism: str) -> None:
    who: dict[str, Any] = {"sasl_oauth_token_provider": Tokens(TOKEN)} if mechanism == "OAUTHBEARER" else USER
    async with SaslBroker(ALL) as broker, Admin(**broker.options, **who, sasl_mechanism=mechanism) as admin:
        assert await admin.list_groups() == []
        assert set(broker.users) == {"svc" if mechanism == "OAUTHBEARER" else "alice"}
        for asked in broker.connections:
            tokens = 1 if mechanism in ("PLAIN", "OAUTHBEARER") else 2
            assert asked[: 2 + tokens] == ["API_VERSIONS", "SASL_HANDSHAKE"] + ["SASL_AUTHENTICATE"] * tokens


REFUSED = {
    "wrong password": (
        {"sasl_plain_username": "alice", "sasl_plain_password": "another-secret"},
        "Invalid username or password",
        ErrorCode.SASL_AUTHENTICATION_FAILED,
    ),
    "wrong password with SCRAM": (
        {"sasl_plain_username": "a", "sasl_plain_password": "another-secret", "sasl_mechanism": "SCRAM-SHA-512"},
        "invalid credentials with SASL mechanism SCRAM-SHA-512",
        ErrorCode.SASL_AUTHENTICATION_FAILED,
    ),
    "invalid token": (
        {"sasl_oauth_token_provider": Tokens("a.b.another-secret"), "sasl_mechanism": "OAUTHBEARER"},
        "invalid_token",
        ErrorCode.SASL_AUTHENTICATION_FAILED,
    ),
}


@pytest.mark.parametrize("case", REFUSED)
async def test_a_refusal_is_final(case: str, caplog: pytest.LogCaptureFixture) -> None:
    """The broker's words reach the user, at once, and nobody connects any more."""
    caplog.set_level(logging.DEBUG)
    who, words, code = REFUSED[case]
    async with SaslBroker(ALL) as broker:
        options = ClientOptions(**broker.options, **who, bootstrap_timeout_ms=60_000)
        client = Client(options)
        for _ in range(3):
            with pytest.raises(AuthenticationFailed, match=words) as raised:
                await client.start()
            assert raised.value.code is code and not raised.value.retriable
        client.request_refresh()
        await asyncio.sleep(0.05)
        assert len(broker.connections) == 1
        await client.close()
        assert "another-secret" not in caplog.text + repr(options) + str(raised.value)


@pytest.mark.parametrize(
    "mechanisms, words",
    [(["SCRAM-SHA-256", "OAUTHBEARER"], "no mechanism PLAIN here; it has SCRAM-SHA-256, OAUTHBEARER"), ([], "no SASL")],
)
async def test_what_the_broker_offers_is_told(mechanisms: list[str], words: str) -> None:
    async with SaslBroker({name: ALL[name] for name in mechanisms}) as broker:
        with pytest.raises(AuthenticationFailed, match=words):
            await connected(broker, **USER)


async def test_a_broker_without_sasl() -> None:
    async with SaslBroker(ALL) as broker:
        del broker.served[next(key for key in broker.served if key.name == "SASL_HANDSHAKE")]
        with pytest.raises(AuthenticationFailed, match="does not know SASL"):
            await connected(broker, **USER)


class Impostor(ScramServer):
    """Accepts everybody, and does not know the password."""

    def take(self, token: bytes) -> bytes:
        if not token.startswith(b"c="):
            return super().take(token)
        self.is_complete = True
        return b"v=" + b64encode(bytes(64))


async def test_a_broker_that_does_not_know_the_password() -> None:
    known = Found(Credential(b"salt", 4096, bytes(64), bytes(64)))
    impostor = Impostor(Mechanism.SCRAM_SHA_512, lambda user: known, nonce_of(bytes(24)))
    async with SaslBroker({"SCRAM-SHA-512": lambda: impostor}) as broker:
        with pytest.raises(AuthenticationFailed, match="does not know the password"):
            await connected(broker, **USER, sasl_mechanism="SCRAM-SHA-512")


async def test_a_poll_raises_it() -> None:
    once = iter([plain()])
    async with SaslBroker({"PLAIN": lambda: next(once, refusing())}) as broker:
        consumer = Consumer(**broker.options, **USER, group_id="g")
        await consumer.start()
        consumer.subscribe(["orders"])
        with pytest.raises(AuthenticationFailed):
            await asyncio.wait_for(consumer.getone(), 20)
        assert len(broker.connections) < 5
        await consumer.stop()


async def test_a_provider_that_fails_is_asked_again() -> None:
    who: dict[str, Any] = {"sasl_mechanism": "OAUTHBEARER", "sasl_oauth_token_provider": Tokens(None)}
    async with SaslBroker(ALL) as broker:
        with pytest.raises(KafkaConnectionError, match="gave no token: RuntimeError") as raised:
            await connected(broker, **who)
        assert raised.value.retriable and "a-secret" not in str(raised.value)
        who["sasl_oauth_token_provider"] = Tokens("with\0nul")
        with pytest.raises(OptionError, match="sasl_oauth_token_provider: the token"):
            await connected(broker, **who)


# ------------------------------------------------------------------------------------------------------------- again


def pass_time(connection: ClientConnection, monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    """Let the connection think that it is later."""
    now = connection._loop.time
    monkeypatch.setattr(connection, "_now", lambda: (now() + seconds) * 1000)


async def test_a_session_is_renewed_between_two_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    async with SaslBroker(ALL, lifetime_ms=100_000) as broker:
        connection = await connected(broker, **USER)
        await ask(connection)
        pass_time(connection, monkeypatch, 84)
        await ask(connection)
        assert broker.users == ["alice"]
        pass_time(connection, monkeypatch, 95.5)
        await asyncio.gather(*(ask(connection) for _ in range(3)))
        await ask(connection)
        assert broker.users == ["alice"] * 2
        [asked] = broker.connections
        assert asked[3:] == ["LIST_GROUPS"] * 2 + ["SASL_HANDSHAKE", "SASL_AUTHENTICATE"] + ["LIST_GROUPS"] * 4
        pass_time(connection, monkeypatch, 95.5 * 2)
        await ask(connection)
        assert broker.users == ["alice"] * 3
        connection.close()


async def test_a_request_that_waits_at_the_broker_is_answered_first(monkeypatch: pytest.MonkeyPatch) -> None:
    async with SaslBroker(ALL, lifetime_ms=100_000) as broker:
        connection = await connected(broker, **USER)
        broker.held.clear()
        waiting = asyncio.create_task(ask(connection))
        await asyncio.sleep(0)
        pass_time(connection, monkeypatch, 96)
        given_up = asyncio.create_task(ask(connection))
        later = asyncio.create_task(ask(connection))
        await asyncio.sleep(0)
        given_up.cancel()  # which does not end the exchange halfway
        broker.held.set()
        await asyncio.gather(waiting, later)
        assert broker.users == ["alice"] * 2
        assert broker.connections[0][3:] == ["LIST_GROUPS", "SASL_HANDSHAKE", "SASL_AUTHENTICATE", "LIST_GROUPS"]
        connection.close()


async def test_a_renewal_that_is_refused_ends_the_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    async with SaslBroker(ALL, lifetime_ms=100_000) as broker:
        connection = await connected(broker, **USER)
        broker.exchanges = {"PLAIN": refusing}
        pass_time(connection, monkeypatch, 96)
        outcomes = await asyncio.gather(*(ask(connection) for _ in range(3)), return_exceptions=True)
        assert [type(outcome) for outcome in outcomes] == [AuthenticationFailed] * 3
        assert connection.closed


async def test_a_connection_may_be_closed_in_the_middle(monkeypatch: pytest.MonkeyPatch) -> None:
    async with SaslBroker(ALL, lifetime_ms=100_000) as broker:
        connection = await connected(broker, **USER)
        broker.held.clear()
        asking = [asyncio.create_task(ask(connection))]
        await asyncio.sleep(0)
        pass_time(connection, monkeypatch, 96)
        asking.append(asyncio.create_task(ask(connection)))
        await asyncio.sleep(0)
        connection.close(KafkaConnectionError("enough"))
        outcomes = await asyncio.gather(*asking, return_exceptions=True)
        assert [str(outcome) for outcome in outcomes] == ["enough"] * 2
        broker.held.set()


async def test_keys_are_derived_in_a_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker may ask for so many iterations that it takes seconds of CPU."""
    threads: list[int] = []
    derive = hashlib.pbkdf2_hmac

    def noted(*arguments: Any) -> bytes:
        threads.append(threading.get_ident())
        return derive(*arguments)

    monkeypatch.setattr(hashlib, "pbkdf2_hmac", noted)
    async with SaslBroker(ALL) as broker:
        (await connected(broker, **USER, sasl_mechanism="SCRAM-SHA-512")).close()
    assert len(threads) == 1 and threads[0] != threading.get_ident()
