"""SCRAM-SHA-256 and SCRAM-SHA-512 (RFC 5802, RFC 7677): both sides show that they know a password, and nobody says it.

Names and passwords are compared as they are: Kafka and its clients go without SASLprep. There is no channel binding.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping
from enum import IntEnum
from typing import Any, NamedTuple

from ottla.protocol.sasl.exchange import (
    OTHER_NAME,
    AuthenticationFailed,
    ClientExchange,
    ServerExchange,
)

LEAST_ITERATIONS = 4096
MOST_CLIENT_ITERATIONS = 10_000_000
"""More than that only keep the client busy: some seconds of CPU."""
NONCE_BYTES = 24
MAX_NONCE_LENGTH = 1024


class Mechanism(IntEnum):
    """A way to derive keys, by its number in requests."""

    SCRAM_SHA_256 = 1
    SCRAM_SHA_512 = 2

    @property
    def words(self) -> str:
        """Its name, as SaslHandshake has it."""
        return self.name.replace("_", "-")

    @property
    def hash(self) -> Callable[..., Any]:
        """Its hash, as `hashlib` has it."""
        return _HASHES[self]


_HASHES: Mapping[Mechanism, Callable[..., Any]] = {
    Mechanism.SCRAM_SHA_256: hashlib.sha256,
    Mechanism.SCRAM_SHA_512: hashlib.sha512,
}
MECHANISMS: Mapping[str, Mechanism] = {one.words: one for one in Mechanism}
"""By name."""


class Credential(NamedTuple):
    """The data by which a server checks a password and proves that it knows it (RFC 5802 section 3)."""

    salt: bytes
    iterations: int
    stored_key: bytes
    server_key: bytes

    def __repr__(self) -> str:
        return f"Credential(iterations={self.iterations})"


class Found(NamedTuple):
    """The credential with which a server goes on when a client has named itself.

    Attributes:
        refused: why it fails at the proof, whatever that is; empty if it need not. The client hears the same words.
    """

    credential: Credential
    refused: str = ""


def salted_password(mechanism: Mechanism, password: str, salt: bytes, iterations: int) -> bytes:
    """What is left of a password once it is salted: milliseconds of CPU."""
    return hashlib.pbkdf2_hmac(mechanism.hash().name, password.encode(), salt, iterations)


def credential_of(mechanism: Mechanism, salted: bytes, salt: bytes, iterations: int) -> Credential:
    """What a server keeps of a salted password."""
    client_key = hmac.digest(salted, b"Client Key", mechanism.hash)
    server_key = hmac.digest(salted, b"Server Key", mechanism.hash)
    return Credential(salt, iterations, mechanism.hash(client_key).digest(), server_key)


def nonce_of(chance: bytes) -> str:
    """A nonce of random bytes, of which `NONCE_BYTES` are enough."""
    return b64encode(chance).decode().rstrip("=")


def escaped(name: str) -> str:
    """A name as messages have it."""
    return name.replace("=", "=3D").replace(",", "=2C")


def unescaped(name: str) -> str:
    """The name that a message has.

    Raises:
        ValueError: it has an equals sign that escapes nothing.
    """
    if re.search("=(?!2C|3D)", name):
        raise ValueError("its name has an equals sign that escapes nothing")
    return name.replace("=2C", ",").replace("=3D", "=")


# The header is signed as it is. What may be in front of the name is not: Kafka skips it.
_NAME = r"[^\x00,]+"
_EXTENSIONS = r"(?:,[A-Za-z]+=[^\x00,]+)*"
_NONCE = r"[\x21-\x2b\x2d-\x7e]+"
_CLIENT_FIRST = re.compile(
    rf"(?P<header>n,(?:a=(?P<authorization>{_NAME}))?,)(?:m=[^\x00,]+,)?"
    rf"(?P<bare>n=(?P<name>{_NAME}),r=(?P<nonce>{_NONCE})(?P<extensions>{_EXTENSIONS}))"
)
_SERVER_FIRST = re.compile(
    rf"(?:m=[^\x00,]+,)?r=(?P<nonce>{_NONCE}),s=(?P<salt>[A-Za-z0-9+/]*={{0,2}}),i=(?P<iterations>[0-9]{{1,10}}){_EXTENSIONS}"
)
_CLIENT_FINAL = re.compile(
    rf"(?P<bare>c=(?P<binding>[A-Za-z0-9+/=]+),r=(?P<nonce>{_NONCE}){_EXTENSIONS}),p=(?P<proof>[A-Za-z0-9+/]+={{0,2}})"
)


class ScramServer(ServerExchange):
    """The broker's end.

    Args:
        found: the credential of a user; a made-up one for a name that is nobody's. It is asked once, so that a change
            of the password holds from the next exchange on.
        nonce: the broker's part of it, made by `nonce_of`, once for each exchange.
    """

    def __init__(self, mechanism: Mechanism, found: Callable[[str], Found], nonce: str) -> None:
        super().__init__(mechanism.words)
        self._mechanism = mechanism
        self._found = found
        self._nonce = nonce
        self._header = b""
        self._signed = b""
        self._credential: Found | None = None

    def take(self, token: bytes) -> bytes:
        if self._credential is None:
            return self._first(token)
        return self._final(token, *self._credential)

    def _first(self, token: bytes) -> bytes:
        match = _CLIENT_FIRST.fullmatch(_text(token))
        if match is None:
            raise self.invalid("its first message is not in the form of SCRAM without channel binding")
        try:
            self.name = unescaped(match["name"])
            authorization = match["authorization"] or ""  # which Kafka compares as it came
            unescaped(authorization)
        except ValueError as error:
            raise self.invalid(str(error)) from None
        if len(match["nonce"]) > MAX_NONCE_LENGTH:
            raise self.invalid(f"its nonce is longer than {MAX_NONCE_LENGTH} characters")
        found = self._found(self.name)
        if "tokenauth=true" in match["extensions"].lower().split(","):
            raise self.invalid("it shows a delegation token, and there are none")
        if authorization not in ("", self.name):
            raise AuthenticationFailed(OTHER_NAME)
        self._nonce = match["nonce"] + self._nonce
        self._header = match["header"].encode()
        salt, iterations = found.credential.salt, found.credential.iterations
        first = f"r={self._nonce},s={b64encode(salt).decode()},i={iterations}".encode()
        self._signed = match["bare"].encode() + b"," + first
        self._credential = found
        return first

    def _final(self, token: bytes, credential: Credential, refused: str) -> bytes:
        match = _CLIENT_FINAL.fullmatch(_text(token))
        if match is None:
            raise self.invalid("its last message is not in the form of SCRAM")
        # librdkafka before 2.6.1 sends its own part twice, and signs that; Kafka looks at the end alone, too.
        if not match["nonce"].endswith(self._nonce):
            raise self.invalid("its last message has another nonce")
        if _decoded(match["binding"]) != self._header:
            raise self.invalid("its last message has another header than its first")
        signed = self._signed + b"," + match["bare"].encode()
        signature = hmac.digest(credential.stored_key, signed, self._mechanism.hash)
        proof = _decoded(match["proof"]) or b""
        shown = self._mechanism.hash(_xor(proof, signature)).digest()
        # Both at once: whether the credential is real must not be seen in the time that it takes.
        if not hmac.compare_digest(shown, credential.stored_key) or len(proof) != len(signature) or refused:
            raise self.invalid(refused or "the password is wrong")
        server_signature = hmac.digest(credential.server_key, signed, self._mechanism.hash)
        self._completed()
        return b"v=" + b64encode(server_signature)


class ScramClient(ClientExchange):
    """The client's end. It takes milliseconds of CPU to answer the first challenge."""

    def __init__(self, mechanism: Mechanism, name: str, password: str, nonce: str) -> None:
        self._mechanism = mechanism
        self._password = password
        self._nonce = nonce
        self._bare = f"n={escaped(name)},r={nonce}"
        self._server_signature: bytes | None = None

    def first(self) -> bytes:
        return f"n,,{self._bare}".encode()

    def answer(self, challenge: bytes) -> bytes | None:
        if self._server_signature is None:
            return self._final(challenge)
        if challenge.startswith(b"e="):
            raise AuthenticationFailed(f"the broker refuses: {challenge[2:100]!r}")
        if not hmac.compare_digest(challenge.split(b",")[0], b"v=" + b64encode(self._server_signature)):
            raise AuthenticationFailed("the broker does not know the password: its signature is wrong")
        return None

    def _final(self, challenge: bytes) -> bytes:
        match = _SERVER_FIRST.fullmatch(_text(challenge))
        salt = match and _decoded(match["salt"])
        if match is None or salt is None:
            raise AuthenticationFailed("the broker's first message is not in the form of SCRAM")
        if not match["nonce"].startswith(self._nonce) or match["nonce"] == self._nonce:
            raise AuthenticationFailed("the broker's nonce does not begin with the client's, or adds nothing to it")
        iterations = int(match["iterations"])
        if not LEAST_ITERATIONS <= iterations <= MOST_CLIENT_ITERATIONS:
            allowed = f"allowed are {LEAST_ITERATIONS} to {MOST_CLIENT_ITERATIONS}"
            raise AuthenticationFailed(f"the broker asks for {iterations} iterations; {allowed}")
        salted = salted_password(self._mechanism, self._password, salt, iterations)
        self._password = ""
        client_key = hmac.digest(salted, b"Client Key", self._mechanism.hash)
        stored_key = self._mechanism.hash(client_key).digest()
        final = b"c=biws,r=" + match["nonce"].encode()
        signed = b",".join((self._bare.encode(), challenge, final))
        proof = _xor(client_key, hmac.digest(stored_key, signed, self._mechanism.hash))
        server_key = hmac.digest(salted, b"Server Key", self._mechanism.hash)
        self._server_signature = hmac.digest(server_key, signed, self._mechanism.hash)
        return final + b",p=" + b64encode(proof)


def _text(token: bytes) -> str:
    """A token as text; one that is not UTF-8 as what no message is."""
    try:
        return token.decode()
    except UnicodeDecodeError:
        return ""


def _decoded(text: str) -> bytes | None:
    """The bytes of a text in Base64; None if it is none."""
    try:
        return b64decode(text, validate=True)
    except ValueError:
        return None


def _xor(one: bytes, other: bytes) -> bytes:
    return bytes(a ^ b for a, b in zip(one, other, strict=False))
