"""The address of the HTTP port."""

from __future__ import annotations

import re
from ipaddress import IPv4Address, IPv6Address, ip_address

from ottla.broker.settings import BadSetting

LOOPBACK = "127.0.0.1"
EVERYWHERE = "0.0.0.0"


def parse_address(text: str, option: str) -> tuple[str, int]:
    """Read ``HOST:PORT``; a port alone is one of loopback, ``:PORT`` one of all interfaces, as for ``--listen``.

    Raises:
        BadSetting: it is no address; the message names the option.
    """
    match = re.fullmatch(r"(?:(?P<host>\[[0-9A-Fa-f:.%\w]+\]|[^:\[\]/\s]*):)?(?P<port>\d{1,5})", text.strip(), re.ASCII)
    if match is None or int(match["port"]) > 65_535:
        raise BadSetting(f"{option} {text!r}: write HOST:PORT or PORT, with a port from 0 to 65535")
    host = LOOPBACK if match["host"] is None else match["host"] or EVERYWHERE
    return host.strip("[]"), int(match["port"])


def ip_of(host: str) -> IPv4Address | IPv6Address | None:
    """The IP address that a host is; None if it is a name."""
    try:
        return ip_address(host.partition("%")[0])
    except ValueError:
        return None


def is_loopback(host: str) -> bool:
    """True if only this machine reaches a host."""
    address = ip_of(host)
    return host == "localhost" if address is None else address.is_loopback


def url_of(host: str, port: int, scheme: str = "http") -> str:
    """The address as this machine's browser takes it."""
    host = {"0.0.0.0": LOOPBACK, "::": "::1"}.get(host, host)
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"
