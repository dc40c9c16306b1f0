"""The listeners of a broker as its settings name them: where each is, and how safe it is."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from ottla.broker.setting_keys import OF_LISTENER
from ottla.broker.settings import BadSetting, Settings

PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
DEFAULT_LISTENER: Final = "PLAINTEXT"
BETWEEN_NODES: Final = "NODES"
"""The name of the listener for the other nodes of a machine: clients are not told of it."""


class Endpoint(NamedTuple):
    """A listener.

    Attributes:
        host: where it listens; empty: all interfaces.
        port: 0: any free one.
        name: in upper case.
        protocol: one of `PROTOCOLS`.
        advertised: the host and port that the settings want its clients to be told; None: they do not say.
    """

    host: str
    port: int
    name: str = DEFAULT_LISTENER
    protocol: str = "PLAINTEXT"
    advertised: tuple[str, int] | None = None

    @property
    def told(self) -> tuple[str, int] | None:
        """The host and port that its clients are told; None: those that each of them reached.

        A name of the listener is told, as by Kafka: clients with TLS look for it in the certificate.
        """
        is_address = not self.host.strip("0123456789.") or ":" in self.host
        if self.advertised or is_address or not self.port or (self.host == "localhost" and not self.has_tls):
            return self.advertised
        return self.host, self.port

    @property
    def is_for_others(self) -> bool:
        """Whether other machines reach it; only this one does by an address of loopback, and by ``localhost``."""
        return self.host not in ("localhost", "::1") and not self.host.startswith("127.")

    @property
    def has_tls(self) -> bool:
        """Whether what goes over the wire is encrypted."""
        return self.protocol in ("SSL", "SASL_SSL")

    @property
    def has_sasl(self) -> bool:
        """Whether clients have to say who they are, by SASL."""
        return self.protocol in ("SASL_PLAINTEXT", "SASL_SSL")

    def mechanisms(self, settings: Settings) -> list[str]:
        """The mechanisms of SASL that it offers, in the order of the settings, each once."""
        names = settings.of_listener(self.name, "sasl.enabled.mechanisms").split(",") if self.has_sasl else []
        return list(dict.fromkeys(filter(None, map(str.strip, names))))

    def asks(self, settings: Settings) -> bool:
        """Whether nobody gets in who has not proved who he is."""
        return self.has_sasl or (self.has_tls and settings.of_listener(self.name, "ssl.client.auth") == "required")

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.name}://{host}:{self.port}"


def endpoints(settings: Settings) -> list[Endpoint]:
    """The listeners that ``listeners``, ``advertised.listeners`` and ``listener.security.protocol.map`` name.

    Raises:
        BadSetting: one is no address, is named twice, or has no protocol.
    """
    key, protocols = "listeners", _protocols(settings.listener_security_protocol_map)
    found: dict[str, Endpoint] = {}
    for name, host, port in _addresses(settings.listeners, key):
        if name not in protocols:
            raise BadSetting(
                f"{key}={settings.listeners!r}: listener.security.protocol.map does not say which protocol {name} "
                f"has; add {name}: to it, and one of {', '.join(PROTOCOLS)}"
            )
        if name in found or any(port and port == other.port for other in found.values()):
            raise BadSetting(f"{key}={settings.listeners!r}: each name and each port may stand there once")
        found[name] = Endpoint(host, port, name, protocols[name])
    if not found:
        raise BadSetting(f"{key}={settings.listeners!r}: allowed is NAME://HOST:PORT, or several with commas")
    return _advertised(found, settings)


def _advertised(found: dict[str, Endpoint], settings: Settings) -> list[Endpoint]:
    key, text = "advertised.listeners", settings.advertised_listeners
    told: dict[str, None] = {}
    for name, host, port in _addresses(text, key):
        if name not in found or name in told:
            raise BadSetting(f"{key}={text!r}: {name} {'stands there twice' if name in told else 'is no listener'}")
        if not host or not port or host in ("0.0.0.0", "::"):
            raise BadSetting(f"{key}={text!r}: clients need a host and a port they can connect to")
        told[name] = None
        found[name] = found[name]._replace(advertised=(host, port))
    return list(found.values())


def check_names(found: Iterable[Endpoint], settings: Settings) -> None:
    """Refuse settings for a listener that there is not: what they would protect might be open.

    Raises:
        BadSetting: there is one.
    """
    names = list(dict.fromkeys(one.name.lower() for one in found))
    for key in settings.by_listener:
        name, _, rest = key.partition(".")
        if name not in names:
            from difflib import get_close_matches  # which few starts need

            close = get_close_matches(name, names, 1)
            meant = f"did you mean {OF_LISTENER}{close[0]}.{rest}?" if close else f"allowed are {', '.join(names)}"
            raise BadSetting(f"{OF_LISTENER}{key}: no listener is named {name}; {meant}")


def told_hosts(settings: Settings) -> list[str]:
    """The names of this machine that clients are told. Raises BadSetting if one is no address."""
    return [one.told[0] for one in endpoints(settings) if one.told is not None]


def _addresses(text: str, key: str) -> list[tuple[str, str, int]]:
    rows = []
    for item in filter(None, map(str.strip, text.split(","))):
        name, separator, address = item.partition("://")
        if not separator or not name:
            raise BadSetting(f"{key}={text!r}: allowed is NAME://HOST:PORT, or several with commas")
        rows.append((name.upper(), *address_of(address, f"{key}={text!r}: {item}")))
    return rows


def _protocols(text: str) -> dict[str, str]:
    protocols = {}
    for item in filter(None, map(str.strip, text.split(","))):
        name, _, protocol = (part.strip().upper() for part in item.partition(":"))
        if protocol not in PROTOCOLS:
            raise BadSetting(
                f"listener.security.protocol.map={text!r}: {item}: allowed is NAME:PROTOCOL with {', '.join(PROTOCOLS)}"
            )
        protocols[name] = protocol
    return protocols


def address_of(text: str, said: str) -> tuple[str, int]:
    """``host:port``, ``:port``, ``[::1]:port``.

    Args:
        said: how the user wrote it, and where.

    Raises:
        BadSetting: it is no address.
    """
    host, colon, port = text.rpartition(":")
    if not colon or not port.isdecimal() or int(port) > 65_535:
        raise BadSetting(f"{said}: write HOST:PORT, with a port from 0 to 65535")
    return host.strip("[]"), int(port)
