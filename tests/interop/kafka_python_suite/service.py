"""Stands in for ``test/service.py`` of kafka-python, which its source distribution lacks."""

import select
import subprocess


class ExternalService:
    """A broker that is there before the tests and stays after them."""

    def __init__(self, host: str, port: int) -> None:
        self.host, self.port = host, port

    def open(self) -> None: ...

    def close(self) -> None: ...

    def start(self) -> None: ...

    def stop(self) -> None: ...

    def dump_logs(self) -> None: ...


class SpawnedService:
    """A broker that the tests start with a command, which prints its address once clients can connect."""

    def __init__(self, command: list[str], environment: dict[str, str]) -> None:
        self._command, self._environment = command, environment
        self._address = ""

    def start(self) -> None:
        self._process = subprocess.Popen(self._command, env=self._environment, stdout=subprocess.PIPE, text=True)

    def wait_for(self, pattern: str, timeout: float) -> bool:
        """Whether it is ready in time; Kafka would have written a line of this pattern."""
        assert self._process.stdout is not None
        # It has thirty seconds, as its tests give Kafka on their own machines less.
        if not self._address and select.select([self._process.stdout], [], [], max(timeout, 30))[0]:
            self._address = self._process.stdout.readline().strip()
        return bool(self._address)

    def stop(self) -> None:
        self._process.terminate()
        self._process.wait(20)

    def dump_logs(self) -> None: ...
