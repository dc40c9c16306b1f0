"""What guests say before they are known: tokens of every mechanism, right ones and ones that are spoilt."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from random import Random
from typing import Any

from ottla.protocol.apis import ApiKey
from ottla.protocol.sasl.oauthbearer import OAuthBearerClient
from ottla.protocol.sasl.scram import MECHANISMS, ScramClient
from tests.support.client import Client
from tests.support.peer import request_frame
from tests.support.requests import request

PASSWORDS = {"limited": "limited-secret", "mighty": "mighty-secret"}
"""Of users of every mechanism but OAUTHBEARER."""
SETTINGS: dict[str, Any] = {
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
    "sasl.jaas.config": "org.apache.kafka.common.security.plain.PlainLoginModule required "
    + " ".join(f'user_{name}="{text}"' for name, text in PASSWORDS.items())
    + ";",
}
ARGUMENTS = tuple(
    text
    for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512")
    for name, password in PASSWORDS.items()
    for text in ("--add-scram", f"{mechanism}=[name={name},password={password},iterations=4096]")
)
"""Of ``ottla serve``, so that it has the users of SCRAM."""
NOT_OFFERED = ("SCRAM-SHA-1", "plain", "GSSAPI", "", "PLAIN ", "PLAIN\0", "ANONYMOUS", "EXTERNAL", "SCRAM-SHA-512-PLUS")
JWT = "eyJhbGciOiJFUzI1NiJ9.eyJzdWIiOiJhbGljZSJ9.c2lnbmF0dXJl"


def first_token(rng: Random, mechanism: str, name: str, password: str) -> tuple[bytes, ScramClient | None]:
    """How an exchange begins; and for SCRAM the client that goes on with it."""
    if mechanism in MECHANISMS:
        client = ScramClient(MECHANISMS[mechanism], name, password, f"nonce{rng.getrandbits(64):x}")
        return client.first(), client
    if mechanism == "OAUTHBEARER":
        return OAuthBearerClient(JWT).first(), None
    return f"\0{name}\0{password}".encode(), None


def spoilt(rng: Random, token: bytes) -> bytes:
    """A token with something wrong, most of which has a structure."""
    at = rng.randrange(len(token) + 1)
    parts = token.split(b",")
    cases: list[Callable[[], bytes]] = [
        lambda: token[:at],
        lambda: token[:at] + rng.randbytes(rng.choice((1, 4, 40))) + token[at:],
        lambda: token[:at] + rng.choice((b"\0", b",", b"=", b"\1", b"\xff", b"\r\n", b"%s{0}")) + token[at:],
        lambda: token * rng.choice((2, 50)),
        lambda: b"",
        lambda: rng.randbytes(rng.choice((1, 16, 300))),
        lambda: token.replace(b"n,", rng.choice((b"y,", b"p=tls-unique,", b"n,a=mighty")), 1),
        lambda: b",".join(rng.sample(parts, len(parts))),
        lambda: b",".join([*parts, rng.choice((b"tokenauth=true", b"m=x", b"x=" + b"y" * 9_000, b"p=AAAA"))]),
        lambda: b",".join(parts[: rng.randrange(len(parts) + 1)]),
        lambda: token.replace(b"r=", b"r=" + b"r" * rng.choice((1, 1_025, 60_000))),
        lambda: token.replace(b"n=", b"n=" + rng.choice((b"", b"=2D", b"=", b"\xc3\xbc" * 30_000))),
        lambda: token.replace(b"p=", b"p=" + rng.choice((b"", b"AAAA", b"=", b"!"))),
        lambda: token.replace(b".", rng.choice((b"", b"..", b".=.")), 1),
        lambda: token.replace(b"Bearer", rng.choice((b"Basic", b"Bearer Bearer", b"bearer \1auth=bearer"))),
        lambda: b"\0" * rng.choice((1, 2, 3, 4, 10_000)),
    ]
    return rng.choice(cases)()


def asked(key: ApiKey, version: int, correlation_id: int = 7, **fields: Any) -> bytes:
    """The frame of a request."""
    return request_frame(key, version, request(key, fields), correlation_id, "fuzz-login")


def handshake(mechanism: str, version: int = 1, correlation_id: int = 7) -> bytes:
    return asked(ApiKey.SASL_HANDSHAKE, version, correlation_id, mechanism=mechanism)


def wrapped(token: bytes, version: int = 2, correlation_id: int = 7) -> bytes:
    return asked(ApiKey.SASL_AUTHENTICATE, version, correlation_id, auth_bytes=token)


def raw(token: bytes) -> bytes:
    return struct.pack(">i", len(token)) + token


def log_in(client: Client, mechanism: str, name: str, password: str = "") -> int:
    """Log in, with the right password unless another is given; the error of the last answer.

    Raises:
        ConnectionClosed: the broker does not let it come to that.
    """
    password = password or PASSWORDS.get(name, "wrong")
    error: int = client.call(ApiKey.SASL_HANDSHAKE, 1, mechanism=mechanism).error_code
    token, scram = first_token(Random(name), mechanism, name, password)
    while not error:
        told = client.call(ApiKey.SASL_AUTHENTICATE, 2, auth_bytes=token)
        error = told.error_code
        if error or scram is None or (answer := scram.answer(told.auth_bytes)) is None:
            return error
        token = answer
    return error


def frames(data: bytes) -> Iterator[bytes]:
    """The whole frames in what a broker has sent."""
    while len(data) >= 4 and len(data) - 4 >= (size := struct.unpack_from(">i", data)[0]):
        yield data[4 : 4 + size]
        data = data[4 + size :]
