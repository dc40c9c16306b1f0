"""Begins the HTTP port, if the settings want one."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from ottla.broker.logger import Logger
from ottla.broker.observing import CannotObserve
from ottla.broker.settings import BadSetting, Settings

if TYPE_CHECKING:
    from ottla.observe.http.server import HttpPort


async def start_http(settings: Settings, log: Logger) -> HttpPort:
    """A port that listens as the settings want it. It has nothing to show yet but health.

    Raises:
        CannotObserve: packages are missing, the address is taken, or the token cannot be read.
    """
    try:
        from ottla.observe.http.server import HttpPort

        import_module("prometheus_client")
    except ModuleNotFoundError as error:
        how = "pip install 'ottla[http]', or in a checkout: pip install '.[http]'"
        raise CannotObserve(f"HTTP needs {error.name}: {how}") from error
    try:
        port = HttpPort(settings, log)
    except (BadSetting, OSError, UnicodeDecodeError) as error:
        raise CannotObserve(str(error)) from error
    try:
        await port.start()
    except OSError as error:
        where = f"{port.host}:{port.port}"
        raise CannotObserve(
            f"cannot listen on {where} for HTTP: {error.strerror or error}; choose another --http"
        ) from error
    return port
