"""PLAIN (RFC 4616): the password itself, in one token."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ottla.protocol.sasl.exchange import (
    OTHER_NAME,
    AuthenticationFailed,
    ClientExchange,
    Derivation,
    ServerExchange,
)

PLAIN = "PLAIN"


class PlainServer(ServerExchange):
    """The broker's end.

    Args:
        check: says of a user and a password whether they fit, or how to find that out.
        settle: makes the same of what that `Derivation` has given: user, password, result.
    """

    def __init__(
        self,
        check: Callable[[str, str], bool | Derivation],
        settle: Callable[[str, str, Any], bool],
    ) -> None:
        super().__init__(PLAIN)
        self._check = check
        self._settle = settle
        self._authorization = ""
        self._password = ""

    def take(self, token: bytes) -> bytes | Derivation:
        # Bytes that are no UTF-8 become what no password has, as in Java.
        parts = token.decode(errors="replace").split("\0")
        if len(parts) != 3:
            raise AuthenticationFailed(f"Invalid SASL/PLAIN response: expected 3 tokens, got {len(parts)}")
        self._authorization, self.name, self._password = parts
        if not self.name:
            raise AuthenticationFailed("Authentication failed: username not specified")
        if not self._password:
            raise AuthenticationFailed("Authentication failed: password not specified")
        verdict = self._check(self.name, self._password)
        return self._decided(verdict) if isinstance(verdict, bool) else verdict

    def resume(self, result: Any) -> bytes:
        return self._decided(self._settle(self.name, self._password, result))

    def _decided(self, fits: bool) -> bytes:
        self._password = ""
        if not fits:
            raise AuthenticationFailed(
                "Authentication failed: Invalid username or password", "the password is wrong, or nobody has the name"
            )
        if self._authorization not in ("", self.name):
            raise AuthenticationFailed(OTHER_NAME)
        return self._completed()


class PlainClient(ClientExchange):
    """The client's end."""

    def __init__(self, name: str, password: str) -> None:
        self._name = name
        self._password = password

    def first(self) -> bytes:
        return f"\0{self._name}\0{self._password}".encode()

    def answer(self, challenge: bytes) -> bytes | None:
        return None
