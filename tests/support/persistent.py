"""Work on a connection that goes on over the broker's restarts, without any retry: a request is answered or not."""

from __future__ import annotations

import threading
from collections.abc import Callable

from tests.support.client import Client


class Persistent:
    """Does one step after another until it is stopped, with a new connection after each failure."""

    def __init__(self, port: int, step: Callable[[Client, int], None]) -> None:
        self.broken: BaseException | None = None
        self._port = port
        self._step = step
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join(60)
        assert not self._thread.is_alive(), "it does not end"
        if self.broken is not None:
            raise self.broken

    def _run(self) -> None:
        number = 0
        client: Client | None = None
        while not self._stopping.is_set():
            number += 1
            try:
                client = client or Client(self._port)
                self._step(client, number)
            except OSError:
                if client is not None:
                    client.close()
                client = None
                self._stopping.wait(0.02)
            except BaseException as error:
                self.broken = error
                return
        if client is not None:
            client.close()
