"""Users of a broker in tests: whom it lets in, by SASL, and what clients say to be let in."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from ottla.protocol.sasl.scram import (
    LEAST_ITERATIONS,
    MECHANISMS,
    Credential,
    Mechanism,
    credential_of,
    salted_password,
)

if TYPE_CHECKING:
    from ottla.broker.core.security.scram import Credentials

GivenSasl: TypeAlias = str | Mapping[str, str] | tuple[str, Mapping[str, str]] | None
"""A mechanism, passwords by user, or both; None: everybody is let in."""
PASSWORDS = {"user": "user-secret"}
"""Of who there is if only a mechanism is given."""
DEFAULT = "SCRAM-SHA-512"
OAUTHBEARER = "OAUTHBEARER"
_MECHANISMS = ("PLAIN", *MECHANISMS)


class Logins(NamedTuple):
    """The mechanism by which users log in, and their passwords."""

    mechanism: str
    passwords: Mapping[str, str]

    def __repr__(self) -> str:
        return f"Logins({self.mechanism}, {list(self.passwords)})"

    def settings(self) -> dict[str, str]:
        """The settings of the broker."""
        settings = {"sasl.enabled.mechanisms": self.mechanism}
        if self.mechanism == OAUTHBEARER:
            from ottla.testing.issuer import issuer  # its key is made when it is needed

            settings |= issuer().settings()
        if self.mechanism == "PLAIN":
            users = [f"{_quoted(f'user_{name}')}={_quoted(text)}" for name, text in self.passwords.items()]
            module = "org.apache.kafka.common.security.plain.PlainLoginModule"
            settings["sasl.jaas.config"] = f"{module} required {' '.join(users)};"
        return settings

    def credentials(self) -> Credentials:
        """What the broker keeps of the passwords, for SCRAM."""
        if self.mechanism not in MECHANISMS:
            return {}
        kind = MECHANISMS[self.mechanism]
        return {(name, kind): _credential(kind, name, text) for name, text in self.passwords.items()}

    def options(self, user: str = "") -> dict[str, Any]:
        """What the included client, aiokafka and kafka-python have to be told; by default of the first user.

        For OAUTHBEARER it is `ottla.testing.tokens` that says so.

        Raises:
            ValueError: there is no such user.
        """
        name = user or next(iter(self.passwords))
        if name not in self.passwords:
            raise ValueError(f"user={user!r}: the broker has {', '.join(map(repr, self.passwords))}")
        return {
            "sasl_mechanism": self.mechanism,
            "sasl_plain_username": name,
            "sasl_plain_password": self.passwords[name],
        }


def logins_of(given: GivenSasl) -> Logins | None:
    """The users that are given.

    Raises:
        TypeError: they are not given as `GivenSasl` has it; the message shows no password.
    """
    match given:
        case None:
            return None
        case "OAUTHBEARER":
            return Logins(OAUTHBEARER, {})
        case str():
            mechanism, passwords = given, PASSWORDS
        case Mapping():
            mechanism, passwords = DEFAULT, dict(given)
        case (str() as mechanism, Mapping() as named):
            passwords = dict(named)
        case _:
            raise TypeError("sasl: write a mechanism, passwords by user, or a tuple of both")
    if mechanism not in _MECHANISMS:
        known = f"{', '.join(_MECHANISMS)}, or {OAUTHBEARER} alone"
        raise TypeError(f"sasl: there is no mechanism {mechanism!r} for tests; write one of {known}")
    if not passwords or not all(isinstance(one, str) and one for pair in passwords.items() for one in pair):
        raise TypeError("sasl: name users with their passwords, none of them empty")
    return Logins(mechanism, passwords)


def _credential(kind: Mechanism, name: str, password: str) -> Credential:
    salt = name.encode().ljust(16, b".")
    return credential_of(kind, salted_password(kind, password, salt, LEAST_ITERATIONS), salt, LEAST_ITERATIONS)


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'
