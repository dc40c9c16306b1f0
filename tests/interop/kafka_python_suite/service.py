"""Stands in for ``test/service.py`` of kafka-python, which its source distribution lacks: the broker is not theirs."""


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
    """What the tests start brokers with; none is started here."""

    def __init__(self, *arguments: object) -> None:
        raise RuntimeError("these tests run against a broker that is there already")
