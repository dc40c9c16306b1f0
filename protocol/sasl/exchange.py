"""What every SASL exchange has in common, on either side.

A server's exchange is given the client's tokens one by one until it is complete or raises; a client's exchange is given
the server's. Neither is of use after an error.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias


class AuthenticationFailed(Exception):
    """The other side is not who it says, or breaks the rules of the mechanism.

    Args:
        told: what the other side may hear: nothing that it does not know yet.
        reason: the same for our log, without any secret.
    """

    def __init__(self, told: str, reason: str = "") -> None:
        super().__init__(reason or told)
        self.told = told
        self.reason = reason or told


Derivation: TypeAlias = Callable[[], Any]
"""Work that takes milliseconds of CPU, to be called in a thread; its result goes to ``resume``."""


class ServerExchange(ABC):
    """The broker's end.

    Attributes:
        mechanism: its name, as SaslHandshake has it.
        is_complete: True once the client is who it says.
        name: the user, without ``User:``. From the time on when the client has named itself: it may not be true yet.
        shown: of credentials that are not accepted, what the log may have besides; no secret.
        ends_ms: when what the client has shown is not valid any more (Unix ms); None: never.
    """

    def __init__(self, mechanism: str) -> None:
        self.mechanism = mechanism
        self.is_complete = False
        self.name = ""
        self.ends_ms: int | None = None
        self.shown: Mapping[str, str] = {}

    @abstractmethod
    def take(self, token: bytes) -> bytes | Derivation:
        """Take a token of the client, and give the next one for it, maybe an empty one.

        Raises:
            AuthenticationFailed: close the connection.
        """

    def resume(self, result: Any) -> bytes:
        """Go on with what the `Derivation` gave. Gives and raises what `take` does."""
        raise RuntimeError(f"{self.mechanism} did not ask for anything to be derived")

    def invalid(self, reason: str) -> AuthenticationFailed:
        """The error for credentials that do not fit, and for whatever else the client must not know. Kafka's words."""
        told = "Authentication failed during authentication due to invalid credentials with SASL mechanism "
        return AuthenticationFailed(told + self.mechanism, reason)

    def _completed(self) -> bytes:
        self.is_complete = True
        return b""


OTHER_NAME = "Authentication failed: Client requested an authorization id that is different from username"
"""What a client hears that wants to act as somebody else. Kafka's words."""


class ClientExchange(ABC):
    """The client's end."""

    @abstractmethod
    def first(self) -> bytes:
        """The token that begins the exchange."""

    @abstractmethod
    def answer(self, challenge: bytes) -> bytes | None:
        """Take a token of the server, and give the next one for it; None: the exchange is complete.

        Raises:
            AuthenticationFailed: the server does not know the password, or breaks the rules.
        """
