"""One blocking connection to a broker: `ottla.clients.wire` with a socket around it."""

from __future__ import annotations

import contextlib
import socket
import ssl
import time
from typing import Any

from ottla.clients.errors import KafkaConnectionError, KafkaError, KafkaTimeout, OptionError
from ottla.clients.wire import Conversation
from ottla.pipeline.source.security import Tls
from ottla.protocol.errors import ProtocolError
from ottla.protocol.schema import Message

_GULP = 1 << 20


class Connection:
    """Requests and answers, one after the other.

    Args:
        address: host and port.
        timeout_ms: for connecting, and for each answer.
        tls: how it is encrypted; None for not at all.

    Raises:
        KafkaConnectionError: nobody answers there.
    """

    def __init__(self, address: tuple[str, int], client_id: str, timeout_ms: int, tls: Tls | None = None) -> None:
        self.name = f"{address[0]}:{address[1]}"
        self._timeout_ms = timeout_ms
        self._conversation = Conversation(client_id, ("ottla-pipeline", "1"))
        self._open: list[Any] = []
        try:
            self._socket = socket.create_connection(address, timeout_ms / 1000)
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if tls is not None:
                self._socket = _encrypted(self._socket, tls, address[0])
        except ssl.SSLCertVerificationError as error:
            raise OptionError(
                f"{self.name} shows a certificate that is not trusted ({error.verify_message}); say with "
                "'kafka.ssl.ca.location' who issued it"
            ) from None
        except OSError as error:
            raise KafkaConnectionError(f"{self.name} cannot be reached: {error}") from None
        try:
            self._conversation.hello(time.monotonic() * 1000, timeout_ms, lambda: None)
            self._exchange(lambda: self._conversation.ready)
        except BaseException:
            self.close()
            raise

    def send(self, request: Message, low: int = 0, high: int = 1 << 15) -> list[Any]:
        """Send without waiting: what `receive` wants to have.

        Raises:
            KafkaConnectionError: the connection broke.
            UnsupportedByBroker: no version in common.
        """
        box: list[Any] = []
        self._conversation.send(request, time.monotonic() * 1000, self._timeout_ms, box.append, low=low, high=high)
        self._write()
        return box

    def receive(self, box: list[Any]) -> Any:
        """The answer to a request that was sent.

        Raises:
            KafkaError: there is none, or it cannot be read; the connection is of no use any more.
        """
        self._exchange(lambda: bool(box))
        if isinstance(box[0], KafkaError):
            raise box[0]
        return box[0]

    def call(self, request: Message, low: int = 0, high: int = 1 << 15) -> Any:
        """Send a request and wait for its answer. Raises as `send` and `receive` do."""
        return self.receive(self.send(request, low, high))

    def close(self) -> None:
        """Close the socket."""
        with contextlib.suppress(OSError):
            self._socket.close()

    def _write(self) -> None:
        try:
            self._socket.sendall(self._conversation.take_output())
        except OSError as error:
            raise self._broken(error) from None

    def _exchange(self, done: Any) -> None:
        while not done():
            # Greeting may take a second request, for a version that the broker knows.
            self._write()
            try:
                data = self._socket.recv(_GULP)
            except TimeoutError:
                raise KafkaTimeout(f"{self.name} has not answered within {self._timeout_ms} ms") from None
            except OSError as error:
                raise self._broken(error) from None
            if not data:
                raise self._broken("it was closed by the other side")
            try:
                self._conversation.receive(data, time.monotonic() * 1000)
            except ProtocolError as error:
                raise self._broken(f"unreadable answer: {error}") from None

    def _broken(self, reason: object) -> KafkaConnectionError:
        return KafkaConnectionError(f"the connection to {self.name} broke: {reason}")


def _encrypted(plain: socket.socket, tls: Tls, host: str) -> socket.socket:
    try:
        return tls.context().wrap_socket(plain, server_hostname=host)
    except BaseException:
        plain.close()
        raise
