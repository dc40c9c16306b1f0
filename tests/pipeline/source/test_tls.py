"""TLS between the source and a cluster: a proxy ends it before a broker that has none."""

import contextlib
import socket
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla.clients.errors import OptionError
from ottla.pipeline.source.batch import OttlaReader
from ottla.pipeline.source.options import parse_options
from ottla.testing import BrokerProcess
from tests.pipeline.source.reading import produce, rows_of

# A certificate for localhost that lasts a hundred years, and its key; nothing but this file trusts it.
HERE = Path(__file__).parent / "tls"
CERTIFICATE, KEY = HERE / "broker.pem", HERE / "broker.key.pem"


class Proxy:
    """Takes connections with TLS, and hands what comes to an address without."""

    def __init__(self, wants_certificate: bool = False) -> None:
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.load_cert_chain(CERTIFICATE, KEY)
        if wants_certificate:
            self.context.verify_mode = ssl.CERT_REQUIRED
            self.context.load_verify_locations(CERTIFICATE)
        self.listening = socket.create_server(("127.0.0.1", 0))
        self.port: int = self.listening.getsockname()[1]
        self.behind = ("", 0)

    def serve(self, behind: str) -> None:
        host, port = behind.split(":")
        self.behind = (host, int(port))
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                plain, _ = self.listening.accept()
            except OSError:
                return
            threading.Thread(target=self._connect, args=(plain,), daemon=True).start()

    def _connect(self, plain: socket.socket) -> None:
        with (
            contextlib.suppress(OSError),
            self.context.wrap_socket(plain, server_side=True) as near,
            socket.create_connection(self.behind) as far,
        ):
            threading.Thread(target=_copy, args=(far, near), daemon=True).start()
            _copy(near, far)


def _copy(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(65_536):
            target.sendall(data)
        target.shutdown(socket.SHUT_RDWR)


@pytest.fixture(params=[False, True], ids=["", "both-sides"])
def proxy(request: pytest.FixtureRequest) -> Iterator[Proxy]:
    made = Proxy(request.param)
    behind = BrokerProcess(topics={"orders": 2}, arguments=("--advertise", f"localhost:{made.port}"))
    with behind as broker:
        made.serve(broker.bootstrap_servers)
        # Clients of the tests are told the address of the proxy, too.
        own = {"security.protocol": "ssl", "ssl.ca.location": str(CERTIFICATE)}
        mine = {"ssl.certificate.location": str(CERTIFICATE), "ssl.key.location": str(KEY)}
        produce(f"localhost:{made.port}", "orders", 20, **own, **mine)
        yield made
    made.listening.close()


def test_records_are_read_through_tls(proxy: Proxy) -> None:
    options = {
        "kafka.bootstrap.servers": f"localhost:{proxy.port}",
        "subscribe": "orders",
        "kafka.security.protocol": "SSL",
        "kafka.ssl.ca.location": str(CERTIFICATE),
        "kafka.ssl.certificate.location": str(CERTIFICATE),
        "kafka.ssl.key.location": str(KEY),
    }
    reader = OttlaReader(parse_options(options, streaming=False))
    rows = rows_of([batch for part in reader.partitions() for batch in reader.read(part)])
    assert len(rows) == 20 and {row["partition"] for row in rows} == {0, 1}


def test_a_certificate_of_nobody_that_is_trusted_is_refused(proxy: Proxy) -> None:
    options = {"kafka.bootstrap.servers": f"localhost:{proxy.port}", "subscribe": "orders"}
    options |= {"kafka.security.protocol": "SSL"}
    reader = OttlaReader(parse_options(options, streaming=False))
    with pytest.raises(OptionError, match=rf"localhost:{proxy.port} .*not trusted.*'kafka.ssl.ca.location'"):
        reader.partitions()
