"""TLS and SASL between the source and a cluster: options as librdkafka and Kafka's own clients name them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ottla.clients.errors import OptionError
from ottla.clients.options import ClientOptions
from ottla.clients.properties import NAMES, TOKEN_URL, security_options
from ottla.clients.security import Security, security_of

TOKEN_FILE = "kafka.sasl.oauthbearer.token.file"
SECURITY_NAMES = (*(f"kafka.{name}" for name in NAMES), TOKEN_FILE)
SECURITY_PREFIXES = ("kafka.sasl.", "kafka.ssl.", "kafka.security.", "sasl.", "ssl.", "security.")
_PROTOCOL = "security.protocol"
_OPTIONS = {
    "security_protocol": "kafka.security.protocol",
    "ssl_cafile": "kafka.ssl.ca.location",
    "ssl_certfile": "kafka.ssl.certificate.location",
    "ssl_keyfile": "kafka.ssl.key.location",
    "ssl_password": "kafka.ssl.key.password",
    "sasl_mechanism": "kafka.sasl.mechanism",
    "sasl_plain_username": "kafka.sasl.username",
    "sasl_plain_password": "kafka.sasl.password",
    "sasl_oauth_token_provider": TOKEN_FILE,
}
"""The options of the source by those of the client."""


@dataclass(frozen=True, slots=True)
class Secured:
    """How connections begin; workers get it from the driver.

    Attributes:
        properties: those about security, without ``kafka.``. They have secrets.
    """

    properties: tuple[tuple[str, str], ...] = field(default=(), repr=False)

    @property
    def principal(self) -> str:
        """Who reads, as rules name him; with a word in the place of a name that only the broker knows."""
        return f"User:{self.client_options().get('sasl_plain_username', 'NAME')}"

    def client_options(self) -> dict[str, Any]:
        """The same as options of a client.

        Raises:
            OptionError: they cannot be; no secret is shown.
        """
        try:
            options = security_options(dict(self.properties))
            ClientOptions(**options)
        except OptionError as error:
            raise OptionError(_named(str(error))) from None
        return options

    def security(self) -> Security:
        """For connections. Raises as `client_options`, and if a file cannot be read."""
        options = ClientOptions(**self.client_options())
        try:
            return security_of(options)
        except OptionError as error:
            raise OptionError(_named(str(error))) from None


def _named(text: str) -> str:
    """A message with the names of our options in the place of those of the client."""

    def option(found: re.Match[str]) -> str:
        name = found[0]
        return _OPTIONS.get(name, f"kafka.{name}" if name in NAMES else name)

    return "option " + re.sub(r"\b(?:s(?:sl|asl|ecurity))[._][\w.]*\w", option, text)


def refuse_security(key: str) -> OptionError:
    """Why an option of security is not possible."""
    return OptionError(
        f"option {key!r} is not possible; for TLS and SASL there are {', '.join(SECURITY_NAMES)}, files being in PEM"
    )


def parse_security(options: Mapping[str, str]) -> Secured:
    """The security among options.

    Raises:
        OptionError: it cannot be.
    """
    given = {name.removeprefix("kafka."): options[name] for name in SECURITY_NAMES if name in options}
    if (file := given.pop(TOKEN_FILE.removeprefix("kafka."), None)) is not None:
        given[TOKEN_URL] = Path(file).absolute().as_uri()
    if given.get(_PROTOCOL, "PLAINTEXT").strip().upper() == "PLAINTEXT":
        given.pop(_PROTOCOL, None)
        if given:
            protocols = "SSL, SASL_PLAINTEXT or SASL_SSL"
            raise OptionError(
                f"option 'kafka.{next(iter(given))}' is given without kafka.security.protocol={protocols}"
            )
        return Secured()
    secured = Secured(tuple(given.items()))
    secured.security()
    return secured
