"""One blocking connection to a broker: `ottla.clients.connection` with an event loop of its own."""

from __future__ import annotations

import asyncio
import math
import ssl
from typing import Any

from ottla.clients.connection import ClientConnection
from ottla.clients.errors import KafkaTimeout, OptionError
from ottla.pipeline.source.security import Secured
from ottla.protocol.schema import Message


class _Named(ClientConnection):
    software = ("ottla-pipeline", "1")


class Connection:
    """Requests and answers, one after the other.

    Args:
        address: host and port.
        timeout_ms: for connecting, and for each answer.
        secured: how it begins; None: with neither TLS nor SASL.

    Raises:
        KafkaError: nobody answers there.
        OptionError: the broker's certificate is not trusted, or a file of ``secured`` cannot be read.
    """

    def __init__(
        self, address: tuple[str, int], client_id: str, timeout_ms: int, secured: Secured | None = None
    ) -> None:
        self.name = f"{address[0]}:{address[1]}"
        self._timeout_ms = timeout_ms
        # With a factory it does not become the thread's own loop, of which there may be another.
        self._runner = asyncio.Runner(loop_factory=asyncio.new_event_loop)
        try:
            security = (secured or Secured()).security()
            self._connection = self._runner.run(
                _Named.connect(*address, client_id=client_id, timeout_ms=timeout_ms, security=security)
            )
        except BaseException as error:
            self._runner.close()
            if isinstance(error.__context__, ssl.SSLCertVerificationError):
                raise OptionError(
                    f"{self.name} shows a certificate that is not trusted ({error.__context__.verify_message}); say "
                    "with 'kafka.ssl.ca.location' who issued it"
                ) from None
            raise

    def send(self, request: Message, low: int = 0, high: int = 1 << 15) -> asyncio.Task[Any]:
        """Send without waiting; give what comes back to `receive`."""
        return self._runner.run(self._begin(request, low, high))

    async def _begin(self, request: Message, low: int, high: int) -> asyncio.Task[Any]:
        # The time allowed counts from `receive`: until then an answer may lie in the socket, and nobody reads.
        asking = self._connection.send(request, Message, timeout_ms=math.inf, low=low, high=high)
        task = asyncio.create_task(asking)
        # Whoever gave up meanwhile need not be told of it.
        task.add_done_callback(lambda done: done.cancelled() or done.exception())
        await asyncio.sleep(0)  # the request is written before the loop stops
        return task

    def receive(self, asked: asyncio.Task[Any]) -> Any:
        """The answer to a request that was sent.

        Raises:
            KafkaError: there is none, or it cannot be read; the connection is of no use any more.
            UnsupportedByBroker: no version in common.
        """
        try:
            return self._runner.run(asyncio.wait_for(asked, self._timeout_ms / 1000))
        except TimeoutError:
            raise KafkaTimeout(f"{self.name} has not answered within {self._timeout_ms} ms") from None

    def call(self, request: Message, low: int = 0, high: int = 1 << 15) -> Any:
        """Send a request and wait for its answer. Raises as `receive` does."""
        return self.receive(self.send(request, low, high))

    def close(self) -> None:
        """Close the socket."""
        self._connection.close()
        self._runner.run(self._connection.wait_closed())
        self._runner.close()
