"""Tokens for the clients of a broker in tests. Each kind of client has its own way to ask for one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

LIFETIME_S = 3600


class Tokens:
    """Gives a user a new token for each connection.

    Args:
        wall_ms: the broker's time, in milliseconds since 1970.
    """

    def __init__(self, user: str, wall_ms: Callable[[], int]) -> None:
        self._user = user
        self._wall_ms = wall_ms

    def new(self) -> tuple[str, float]:
        """A token, and when it ends, in seconds since 1970."""
        from ottla.testing.issuer import issuer

        now_s = self._wall_ms() // 1000
        return issuer().token(self._user, now_s, LIFETIME_S, {}), float(now_s + LIFETIME_S)

    def options(self, client: str) -> dict[str, Any]:
        """What a client has to be told: ``confluent``, ``kafka-python``, or ``aiokafka``, whose words are ours, too.

        Raises:
            ModuleNotFoundError: the client is not installed.
        """
        if client == "confluent":
            return {"oauth_cb": lambda config: self.new()}
        # Both clients take nothing but what is of their own classes.
        if client == "kafka-python":
            from kafka.net.sasl.oauth import AbstractTokenProvider

            AbstractTokenProvider.register(Provider)
            return {"sasl_oauth_token_provider": Provider(self)}
        from aiokafka.abc import AbstractTokenProvider as AiokafkasProvider

        AiokafkasProvider.register(AsyncProvider)
        return {"sasl_oauth_token_provider": AsyncProvider(self)}


class Provider:
    """Gives tokens as kafka-python asks for them."""

    def __init__(self, tokens: Tokens) -> None:
        self._tokens = tokens

    def token(self) -> str:
        """A new one."""
        return self._tokens.new()[0]

    def extensions(self) -> Mapping[str, str]:
        """Nothing besides."""
        return {}


class AsyncProvider:
    """Gives tokens as aiokafka asks for them, and the included client."""

    def __init__(self, tokens: Tokens) -> None:
        self._tokens = tokens

    async def token(self) -> str:
        """A new one."""
        return self._tokens.new()[0]

    def extensions(self) -> Mapping[str, str]:
        """Nothing besides."""
        return {}
