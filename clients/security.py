"""Who a client is, and whom it trusts: TLS contexts, and the SASL exchange at the beginning of a connection."""

from __future__ import annotations

import asyncio
import secrets
import ssl
from collections.abc import Awaitable, Callable
from functools import partial
from typing import NamedTuple, Protocol

from ottla.clients.errors import (
    AuthenticationFailed,
    KafkaConnectionError,
    KafkaError,
    OptionError,
    UnsupportedByBroker,
    error_code,
)
from ottla.clients.options import ClientOptions
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from ottla.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from ottla.protocol.sasl.exchange import AuthenticationFailed as ExchangeFailed
from ottla.protocol.sasl.exchange import ClientExchange
from ottla.protocol.sasl.oauthbearer import OAUTHBEARER, OAuthBearerClient
from ottla.protocol.sasl.plain import PLAIN, PlainClient
from ottla.protocol.sasl.scram import MECHANISMS, NONCE_BYTES, ScramClient, nonce_of
from ottla.protocol.schema import Message


class Security(NamedTuple):
    """How a client's connections begin.

    Attributes:
        tls: checks the broker's certificate; None: no TLS.
        mechanism: of SASL; empty: none.
        exchange: makes the exchange of one connection.
    """

    tls: ssl.SSLContext | None = None
    mechanism: str = ""
    exchange: Callable[[], Awaitable[ClientExchange]] | None = None


OPEN = Security()
"""Neither TLS nor SASL."""


class Ask(Protocol):
    """Sends a request and gives its answer."""

    def __call__(self, request: Message) -> Awaitable[Message]: ...


def security_of(options: ClientOptions) -> Security:
    """The security that options ask for.

    Raises:
        OptionError: a file of theirs cannot be read.
    """
    tls = (options.ssl_context or _context(options)) if options.has_tls else None
    if not options.has_sasl:
        return Security(tls)
    return Security(tls, options.sasl_mechanism, partial(_exchange, options))


def _context(options: ClientOptions) -> ssl.SSLContext:
    try:
        made = ssl.create_default_context(cafile=options.ssl_cafile)
    except OSError as error:  # ssl.SSLError is one
        raise OptionError(f"ssl_cafile={options.ssl_cafile!r}: {_why(error)}") from None
    made.check_hostname = options.ssl_check_hostname
    if options.ssl_certfile is not None:
        # A password that is not text makes OpenSSL ask at the terminal, where nobody may be.
        password = options.ssl_password or ""
        try:
            made.load_cert_chain(options.ssl_certfile, options.ssl_keyfile, lambda: password)
        except OSError as error:
            files = f"ssl_certfile={options.ssl_certfile!r}, ssl_keyfile={options.ssl_keyfile!r}"
            raise OptionError(f"{files}: {_why(error)}") from None
    return made


def _why(error: OSError) -> str:
    if isinstance(error, ssl.SSLError) and error.reason == "KEY_VALUES_MISMATCH":
        return "this key is of another certificate"
    if isinstance(error, ssl.SSLError):
        return "it cannot be read; allowed are files in PEM, a key that fits, and its password as ssl_password"
    return error.strerror or str(error)


async def _exchange(options: ClientOptions) -> ClientExchange:
    name, password = options.sasl_plain_username or "", options.sasl_plain_password or ""
    if options.sasl_mechanism == PLAIN:
        return PlainClient(name, password)
    if options.sasl_mechanism != OAUTHBEARER:
        return ScramClient(
            MECHANISMS[options.sasl_mechanism], name, password, nonce_of(secrets.token_bytes(NONCE_BYTES))
        )
    provider = options.sasl_oauth_token_provider
    assert provider is not None  # the options have been checked
    try:
        token, extensions = await provider.token(), provider.extensions()
    except Exception as error:  # its words may have secrets; whoever wants them finds them in the cause
        raise KafkaConnectionError(f"sasl_oauth_token_provider gave no token: {type(error).__name__}") from error
    try:
        return OAuthBearerClient(token, extensions)
    except ValueError as error:
        raise OptionError(f"sasl_oauth_token_provider: {error}") from None


async def authenticate(security: Security, exchange: ClientExchange, ask: Ask) -> int:
    """Go through a SASL exchange (KIP-152).

    Args:
        ask: sends the requests of this exchange, and nothing else meanwhile.

    Returns:
        The time in ms after which the broker wants another one (KIP-368); 0: never.

    Raises:
        AuthenticationFailed: the broker does not accept it, or is not to be trusted.
        KafkaError: as ``ask`` raises.
    """
    try:
        chosen = await ask(SaslHandshakeRequest(mechanism=security.mechanism))
    except UnsupportedByBroker:
        raise AuthenticationFailed(
            "the broker does not know SASL as it has been since Kafka 1.0", ErrorCode.ILLEGAL_SASL_STATE
        ) from None
    assert isinstance(chosen, SaslHandshakeResponse)
    if chosen.error_code:
        raise _not_chosen(security.mechanism, chosen)
    token: bytes | None = exchange.first()
    lifetime_ms = 0
    while token is not None:
        answer = await ask(SaslAuthenticateRequest(auth_bytes=token))
        assert isinstance(answer, SaslAuthenticateResponse)
        if answer.error_code:
            code = error_code(answer.error_code)
            raise AuthenticationFailed(answer.error_message or code.text, code)
        lifetime_ms = answer.session_lifetime_ms
        try:
            # To answer a challenge may take milliseconds of CPU, or seconds of a broker that asks for it.
            token = (
                await asyncio.to_thread(exchange.answer, answer.auth_bytes)
                if answer.auth_bytes
                else exchange.answer(answer.auth_bytes)
            )
        except ExchangeFailed as error:
            raise AuthenticationFailed(error.reason) from None
    return lifetime_ms


def _not_chosen(mechanism: str, answer: SaslHandshakeResponse) -> KafkaError:
    code = error_code(answer.error_code)
    if code is ErrorCode.UNSUPPORTED_SASL_MECHANISM:
        having = ", ".join(answer.mechanisms) or "none"
        return AuthenticationFailed(f"the broker has no mechanism {mechanism} here; it has {having}", code)
    if code is ErrorCode.ILLEGAL_SASL_STATE:
        return AuthenticationFailed(
            "the broker has no SASL at this address: take SSL for SASL_SSL, or PLAINTEXT for SASL_PLAINTEXT", code
        )
    return AuthenticationFailed(code.text, code)
