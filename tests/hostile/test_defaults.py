"""Who is let in unless somebody says otherwise: this machine alone."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ottla.broker.net.listener import bind
from ottla.broker.settings import BadSetting, Settings
from ottla.cli.listening import Options, check_http, listeners
from ottla.cli.serve import settings_of
from ottla.testing.process import BrokerProcess
from tests.support.peer import Peer

STOCK = """
process.roles=broker,controller
node.id=1
controller.quorum.bootstrap.servers=localhost:9093
listeners=PLAINTEXT://:9092,CONTROLLER://:9093
inter.broker.listener.name=PLAINTEXT
advertised.listeners=PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL
num.network.threads=3
log.dirs=/tmp/kraft-combined-logs
offsets.topic.replication.factor=1
log.retention.hours=168
"""
"""As config/server.properties of Kafka 4.3 has it, without what says nothing about who is let in."""


@pytest.fixture(autouse=True)
def no_settings_of_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith(("OTTLA_", "KAFKA_"))]:
        monkeypatch.delenv(name)


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> None:
    """A hosts file of our own: ``here`` is loopback, ``both`` is an address of the network as well."""
    known = {"here": ["127.0.1.1", "::1"], "both": ["127.0.0.1", "192.0.2.1"], "public.example": ["192.0.2.2"]}

    def resolve(host: str | bytes, port: Any, *more: Any, **options: Any) -> list[Any]:
        host = host.decode() if isinstance(host, bytes) else host
        if (addresses := known.get(host)) is None:
            return real(host, port, *more, flags=socket.AI_NUMERICHOST, **options)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, 0)) for address in addresses]

    real = socket.getaddrinfo
    monkeypatch.setattr(socket, "getaddrinfo", resolve)


def listening_address(listen: str | None, settings: Settings) -> tuple[str, int]:
    (one,) = listeners(settings, Options(listen))
    return one.host, one.port


def reached(host: str, *pairs: str) -> tuple[str, int]:
    return listening_address(f"{host}:9092", settings_of(None, pairs).settings)


def test_a_broker_serves_this_machine_alone() -> None:
    settings = settings_of(None, ()).settings
    assert listening_address(None, settings) == ("localhost", 9092)
    check_http(settings)


LOOPBACK = ["127.0.0.1", "127.8.8.8", "[::1]", "localhost", "here"]
OPEN = ["", "0.0.0.0", "[::]", "0", "192.0.2.1", "[2001:db8::1]", "[fe80::1]", "both", "public.example", "no.such.name"]


@pytest.mark.usefixtures("names")
@pytest.mark.parametrize("host", LOOPBACK)
def test_loopback_needs_no_permission(host: str) -> None:
    assert reached(host)[1] == 9092
    check_http(settings_of(None, (f"ottla.http.listen={host}:9644",)).settings)


@pytest.mark.usefixtures("names")
@pytest.mark.parametrize("host", OPEN)
def test_beyond_loopback_a_listener_needs_permission(host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(BadSetting, match=r"there is no authentication; say --listen 127.0.0.1:9092 .* or --insecure"):
        reached(host)
    with pytest.raises(BadSetting, match=r"listeners='PLAINTEXT://.*there is no authentication"):
        listening_address(None, settings_of(None, (f"listeners=PLAINTEXT://{host}:9092",)).settings)
    assert reached(host, "ottla.insecure=true")[1] == 9092
    monkeypatch.setenv("OTTLA_INSECURE", "true")
    assert reached(host)[1] == 9092


@pytest.mark.usefixtures("names")
@pytest.mark.parametrize("host", [host for host in OPEN if host])  # no host is loopback there
def test_beyond_loopback_http_needs_a_token_or_permission(host: str, tmp_path: Path) -> None:
    listen, file = f"ottla.http.listen={host}:9644", tmp_path / "tokens"
    file.write_text(f"alice {'x' * 32}\n")
    with pytest.raises(BadSetting, match=r"--http 9644 .* --http-token-file FILE, or --insecure"):
        check_http(settings_of(None, (listen,)).settings)
    check_http(settings_of(None, (listen, f"ottla.http.token.file={file}")).settings)
    check_http(settings_of(None, (listen, "ottla.insecure=true")).settings)


@pytest.mark.parametrize("permitted", ["", "ottla.insecure=true\n"])
def test_security_that_there_is_not_is_refused(permitted: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "server.properties"
    file.write_text(permitted + STOCK + "ssl.later=/keys\nssl.client.auth=none\nssl.engine.factory.class=a.b.C\n")
    monkeypatch.setenv("KAFKA_PRINCIPAL_BUILDER_CLASS", "a.b.C")
    with pytest.raises(BadSetting) as refused:
        settings_of(str(file), ())
    said = str(refused.value)
    with pytest.raises(BadSetting, match=r"ssl.later \(--set\)"):
        settings_of(str(file), ("ssl.later=/other",))
    assert said.startswith(
        f"ssl.later ({file}), ssl.engine.factory.class ({file}), principal.builder.class (environment): there is no"
    )


def test_the_file_that_comes_with_kafka(tmp_path: Path) -> None:
    """It protects nothing and listens everywhere."""
    file = tmp_path / "server.properties"
    file.write_text(STOCK)
    stock = settings_of(str(file), ()).settings
    with pytest.raises(BadSetting, match="other machines reach this"):
        listening_address(None, stock)
    assert listening_address("127.0.0.1:9092", stock) == ("127.0.0.1", 9092)
    assert listening_address(None, settings_of(str(file), ("ottla.insecure=true",)).settings) == ("", 9092)


def test_localhost_is_both_addresses_of_loopback() -> None:
    sockets = bind("localhost", 0)
    try:
        addresses = [sock.getsockname()[:2] for sock in sockets]
        assert [host for host, _ in addresses] == ["127.0.0.1", "::1"][: len(addresses)]
        assert len(addresses) == (2 if has_ipv6() else 1)
        assert len({port for _, port in addresses}) == 1
        with pytest.raises(OSError):
            bind("localhost", addresses[0][1])
    finally:
        for sock in sockets:
            sock.close()


def has_ipv6() -> bool:
    try:
        with socket.create_server(("::1", 0), family=socket.AF_INET6):
            return True
    except OSError:
        return False


@pytest.mark.e2e
def test_a_process_that_would_be_open_ends_before_it_listens() -> None:
    command = [sys.executable, "-m", "ottla.cli", "serve", "--ephemeral", "--listen", ":0"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30)
    assert (done.returncode, done.stdout) == (2, "")
    assert "--insecure" in done.stderr


@pytest.mark.e2e
def test_a_process_serves_both_addresses_of_loopback_and_ends() -> None:
    class OnLocalhost(BrokerProcess):
        def command(self) -> list[str]:
            return [part.replace("127.0.0.1", "localhost") for part in super().command()]

    with OnLocalhost() as broker:
        assert broker.bootstrap_servers == f"localhost:{broker.port}"
        with Peer(broker.port) as peer:
            assert peer.socket.getpeername()[0] == "127.0.0.1"
        if has_ipv6():
            socket.create_connection(("::1", broker.port), timeout=10).close()
        assert broker.stop() == 0
