"""OAUTHBEARER (RFC 7628, KIP-255): a token that somebody else has signed."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import NamedTuple

from ottla.protocol.sasl.exchange import AuthenticationFailed, ClientExchange, ServerExchange
from ottla.protocol.sasl.scram import escaped, unescaped

OAUTHBEARER = "OAUTHBEARER"
MAX_TOKEN_LENGTH = 16_384
INVALID_TOKEN = '{"status":"invalid_token"}'
"""What a client hears of a token that is not accepted: what is wrong with it is for the log alone."""
_KEY = re.compile("[A-Za-z]+")
_VALUE = re.compile(r"[\x21-\x7e \t\r\n]+")
_FIRST = re.compile(
    r"n,(?:a=(?P<authorization>[^\x00\x01,]+))?,\x01(?P<pairs>(?:[A-Za-z]+=[\x21-\x7e \t\r\n]+\x01)*)\x01"
)
_BEARER = re.compile(r"bearer +(?P<token>[-._~+/A-Za-z0-9]+=*)", re.IGNORECASE)  # RFC 6750, 2.1


class Claims(NamedTuple):
    """What counts of a token: whose it is, and until when (Unix ms)."""

    name: str
    ends_ms: int


class InvalidToken(Exception):
    """A token that is not accepted; the message says why, without the token. It is for the log, not for the client.

    Attributes:
        shown: what else the log may have of it: the id of its key, and whose it is if its signature is good.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.shown: Mapping[str, str] = {}


class OAuthBearerServer(ServerExchange):
    """The broker's end.

    Args:
        verify: the claims of a token; raises `InvalidToken`. It is given tokens of three parts that are not too long.
    """

    def __init__(self, verify: Callable[[str], Claims]) -> None:
        super().__init__(OAUTHBEARER)
        self._verify = verify
        self._wrong = ""

    def take(self, token: bytes) -> bytes:
        if self._wrong:  # whatever the client says to that: RFC 7628 wants one byte 0x01
            raise AuthenticationFailed(INVALID_TOKEN, self._wrong)
        authorization, bearer = self._parse(token)
        try:
            if bearer.count(".") != 2 or len(bearer) > MAX_TOKEN_LENGTH:
                raise InvalidToken(f"it is no signed token of three parts and at most {MAX_TOKEN_LENGTH} characters")
            claims = self._verify(bearer)
        except InvalidToken as error:
            self._wrong = f"the token is not accepted: {error}"
            self.shown = error.shown
            return INVALID_TOKEN.encode()
        self.name, self.ends_ms = claims
        if authorization not in ("", self.name):
            raise AuthenticationFailed(
                "Authentication failed: Client requested an authorization id that is different from the token's "
                "principal name"
            )
        return self._completed()

    def _parse(self, token: bytes) -> tuple[str, str]:
        """The authorization id, maybe empty, and the bearer's token."""
        match = _FIRST.fullmatch(token.decode(errors="replace"))
        if match is None:
            raise self.invalid("its first message is not in the form of OAUTHBEARER")
        values = [pair.partition("=")[2] for pair in match["pairs"].split("\1") if pair.startswith("auth=")]
        bearer = _BEARER.fullmatch(values[0]) if len(values) == 1 else None
        if bearer is None:
            raise self.invalid("its first message does not have one 'auth=Bearer …'")
        authorization = match["authorization"] or ""  # which Kafka compares as it came
        try:
            unescaped(authorization)
            return authorization, bearer["token"]
        except ValueError:
            raise self.invalid("its authorization id has an equals sign that escapes nothing") from None


class OAuthBearerClient(ClientExchange):
    """The client's end.

    Args:
        token: what the broker is shown.
        extensions: more for it, by names of letters.
        authorization: the principal that is meant; empty leaves that to the broker.

    Raises:
        ValueError: the token or an extension cannot be sent; the message does not show them.
    """

    def __init__(self, token: str, extensions: Mapping[str, str] | None = None, authorization: str = "") -> None:
        if not _VALUE.fullmatch(token):
            raise ValueError("the token is empty, or has characters that cannot be sent")
        for key, value in (extensions or {}).items():
            if not _KEY.fullmatch(key) or key == "auth":
                raise ValueError(f"the extension {key!r} cannot be sent: a name has letters only, and is not 'auth'")
            if not _VALUE.fullmatch(value):
                raise ValueError(f"the value of extension {key!r} is empty, or has characters that cannot be sent")
        pairs = {"auth": f"Bearer {token}"} | dict(extensions or {})
        named = f"a={escaped(authorization)}" if authorization else ""
        parts = [f"n,{named},", *(f"{key}={value}" for key, value in pairs.items()), "", ""]
        self._first = "\1".join(parts).encode()

    def first(self) -> bytes:
        return self._first

    def answer(self, challenge: bytes) -> bytes | None:
        # A challenge says what is wrong, and that is a failure once this byte has been sent (RFC 7628, 3.2.3).
        return b"\1" if challenge else None
