"""Servers and processes are recognised, and no command goes to another's broker unless that one was named."""

from __future__ import annotations

import asyncio
import os
import re
import socket
import socketserver
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import trustme

from ottla.broker import dispatch
from ottla.broker.handlers import HANDLERS, Handler, handler
from ottla.cli import common, silence
from ottla.cli.greeting import Who, _hung_up, free_port, greet, holder
from ottla.cli.output import Refused
from ottla.cli.topics import command as topics
from ottla.clients import Admin, AuthenticationFailed
from ottla.protocol.apis import ApiKey
from ottla.testing.broker import Broker
from tests.cli.commands import HERE, Ottla

AUTHORITY = trustme.CA()


@contextmanager
def server(serve: Callable[[socket.socket], None]) -> Iterator[int]:
    """Serves each connection with a function; gives the port."""

    class Handler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            serve(self.request)

    with socketserver.TCPServer(("127.0.0.1", 0), Handler) as listening:
        threading.Thread(target=listening.serve_forever, args=(0.02,), daemon=True).start()
        yield listening.server_address[1]
        listening.shutdown()


@pytest.fixture
def kafka(monkeypatch: pytest.MonkeyPatch, ottla_broker_factory: Callable[..., Broker]) -> Broker:
    """A broker that closes the connection on which it is asked for what Kafka does not know."""
    monkeypatch.setattr(dispatch, "HANDLERS", {key: served for key, served in HANDLERS.items() if not key.is_private})
    return ottla_broker_factory(topics={"orders": 1})


def test_an_ottla_is_known(ottla_broker: Broker) -> None:
    assert greet("127.0.0.1", ottla_broker.port) is Who.OTTLA


def test_another_broker_is_known(kafka: Broker) -> None:
    assert greet("127.0.0.1", kafka.port) is Who.BROKER


@pytest.mark.parametrize(
    ("answer", "who"),
    [
        (b"", Who.CLOSES),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", Who.STRANGER),
        (b"\0\0\0\4\0\0\0\x63", Who.STRANGER),  # an answer to another request
    ],
)
def test_what_is_no_broker_is_known(answer: bytes, who: Who) -> None:
    def serve(connection: socket.socket) -> None:
        if answer:
            connection.recv(1 << 16)
            connection.sendall(answer)

    with server(serve) as port:
        assert greet("127.0.0.1", port) is who


def test_whoever_says_nothing_is_not_waited_for_without_end() -> None:
    gone = threading.Event()
    with server(lambda connection: gone.wait(10) and None) as port:
        assert greet("127.0.0.1", port, patience_s=0.05) is Who.SILENT
        gone.set()


def test_nobody_is_nobody(unused_tcp_port: int) -> None:
    assert greet("127.0.0.1", unused_tcp_port) is Who.NOBODY
    assert holder(unused_tcp_port) == ""


@pytest.mark.skipif(not os.path.exists("/proc/net/tcp"), reason="only Linux tells")
def test_the_process_that_has_a_port_is_told() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        assert holder(port).startswith(f"process {os.getpid()}: python")
        assert free_port("127.0.0.1", port) != port


def test_the_default_address_is_for_an_ottla(kafka: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    """`ottla serve` could not start, and whoever goes on all the same must not change the broker that has the port."""
    default = f"localhost:{kafka.port}"
    monkeypatch.setattr(common, "DEFAULT_BOOTSTRAP", default)
    # What the options have as their default was read when they were made.
    option = next(one for one in topics.commands["create"].params if one.name == "bootstrap")
    monkeypatch.setattr(option, "default", default)
    refused = HERE.run("topics", "create", "payments", expect=1)
    assert f"The broker at {default} is none of Ottla's: Apache Kafka, or another" in refused.stderr
    assert f"-b {default}" in refused.stderr and "export OTTLA_BOOTSTRAP_SERVERS=" in refused.stderr
    assert Ottla(kafka.bootstrap_servers).rows("topics", "list", "--exclude-internal")[1:] == [["orders", "1", "1"]]
    HERE.run("topics", "create", "payments", "-b", default)


def test_a_broker_without_room_is_not_said_to_be_missing(ottla_broker_factory: Callable[..., Broker]) -> None:
    broker = ottla_broker_factory(settings={"max.connections.per.ip": 0})
    refused = Ottla(broker.bootstrap_servers).run("topics", "list", expect=1).stderr
    assert refused.startswith(f"Error: {broker.bootstrap_servers} closes the connection at once.\n")
    assert "max.connections.per.ip" in refused


BY_TLS = "--security-protocol", "SSL", "--cafile", "CA"


@pytest.mark.parametrize(
    ("broker_has", "words", "said"),
    [
        ({"tls": True}, (), "closes the connection at once.\n  It may want TLS: say --security"),
        ({}, BY_TLS, "answers without TLS, and this command speaks TLS.\n  Say --security-protocol SASL_PLAINTEXT"),
        ({"tls": True, "sasl": {"bob": "secret"}}, BY_TLS, "closes the connection.\n  It may want a password: say"),
        ({"tls": "mutual"}, BY_TLS, "wants to see your certificate.\n  Say --certfile FILE"),
        (
            {"tls": "mutual"},
            ("--certfile", "OWN", *BY_TLS),
            "does not accept your certificate.\n  Its ssl.truststore",
        ),
    ],
)
def test_a_broker_that_hangs_up_is_said_to_want_what_it_wants(
    ottla_broker_factory: Callable[..., Broker], tmp_path: Path, broker_has: Any, words: tuple[str, ...], said: str
) -> None:
    broker = ottla_broker_factory(**broker_has)
    client = trustme.CA().issue_cert("alice@example.org")
    client.private_key_and_cert_chain_pem.write_to_path(str(tmp_path / "own.pem"))
    trusted = str(tmp_path / "own.pem") if "tls" not in broker_has else broker.cafile
    files = {"OWN": str(tmp_path / "own.pem"), "CA": trusted}
    words = tuple(files.get(word, word) for word in words)
    assert said in HERE.run("topics", "list", "-b", broker.bootstrap_servers, *words, expect=1).stderr


@pytest.mark.parametrize(
    ("names", "days", "words"),
    [
        (["localhost"], -1, "certificate has expired; the broker needs one that is good now, unless the clock"),
        (["other.example"], 1, "not valid for 'localhost'; connect by a name that it is for, or let the broker"),
    ],
)
def test_a_certificate_whose_authority_is_not_what_is_wrong(
    tmp_path: Path, names: list[str], days: int, words: str
) -> None:
    now = datetime.now(UTC)
    leaf = AUTHORITY.issue_cert(*names, not_before=now - timedelta(days=9), not_after=now + timedelta(days=days))
    pem, ca = tmp_path / "broker.pem", tmp_path / "ca.pem"
    leaf.private_key_and_cert_chain_pem.write_to_path(str(pem))
    AUTHORITY.cert_pem.write_to_path(str(ca))
    other = tmp_path / "other.pem"
    trustme.CA().cert_pem.write_to_path(str(other))
    with Broker({"ssl.keystore.location": str(pem)}, tls=True) as broker:
        where = ("-b", f"localhost:{broker.port}", "--security-protocol", "SSL")
        refused = HERE.run("topics", "list", *where, "--cafile", ca, expect=1).stderr
        assert " ".join(words.split()) in " ".join(refused.split()) and "cafile" not in refused
        refused = HERE.run("topics", "list", *where, "--cafile", other, expect=1).stderr
        assert "; --cafile names the authorities to trust." in refused


def test_a_broker_that_sends_clients_elsewhere_is_named_and_so_is_where(
    ottla_broker_factory: Callable[..., Broker], unused_tcp_port: int
) -> None:
    elsewhere = f"PLAINTEXT://127.0.0.1:{unused_tcp_port}"
    settings = {"listeners": "PLAINTEXT://127.0.0.1:0", "advertised.listeners": elsewhere}
    bootstrap = ottla_broker_factory(settings=settings).bootstrap_servers

    async def ask() -> None:
        async with Admin(bootstrap_servers=bootstrap, default_api_timeout_ms=100) as admin:
            await admin.list_groups()

    with pytest.raises(Refused) as refused:
        common.run(ask(), bootstrap)
    assert refused.value.lines[0] == (
        f"The broker at {bootstrap} answers, and sends clients to 127.0.0.1:{unused_tcp_port}, "
        "where no broker answers (connection refused)."
    )
    assert "--advertise HOST:PORT" in refused.value.lines[1]


@pytest.mark.parametrize("api", [ApiKey.FIND_COORDINATOR, ApiKey.DESCRIBE_GROUP_HISTORY])
def test_what_a_command_waits_for_is_told(
    monkeypatch: pytest.MonkeyPatch, ottla_broker_factory: Callable[..., Broker], api: ApiKey
) -> None:
    asked, told = threading.Event(), threading.Event()

    def late(key: ApiKey) -> Handler:
        served = handler(key)
        if key is not api:
            return served
        return served._replace(handle=lambda *given: (asked.set(), told.wait(10), served.handle(*given))[2])

    monkeypatch.setattr(dispatch, "handler", late)
    monkeypatch.setattr(silence, "patience", lambda: asyncio.to_thread(asked.wait, 10))
    monkeypatch.setattr(silence, "note", lambda text: (said.append(text), told.set()))
    said: list[str] = []
    bootstrap = ottla_broker_factory().bootstrap_servers
    Ottla(bootstrap).run("why", "billing", expect=1)
    assert said == [f"Waiting for {bootstrap} to answer {api.name.title().replace('_', '')}; Ctrl-C stops that."]


@pytest.mark.e2e
def test_a_port_that_is_taken_says_by_whom_and_what_to_do(ottla: Any, broker: Broker) -> None:
    done = ottla.process("serve", "--ephemeral", "--listen", broker.bootstrap_servers, expect=1).stderr.decode()
    assert "Cannot start" in done
    assert f"Port {broker.port} is taken by an Ottla broker" in done
    assert "To have your own beside it, and to let the other commands find it:\n" in done
    assert re.search(
        r"^    ottla serve --ephemeral --listen (127.0.0.1:\d+)\n    export OTTLA_BOOTSTRAP_SERVERS=\1$", done, re.M
    )


@pytest.mark.e2e
def test_all_ports_that_are_taken_are_told_at_once_with_one_command_that_works(ottla: Any, broker: Broker) -> None:
    with socket.create_server(("127.0.0.1", 0)) as console:
        http = console.getsockname()[1]
        words = ["serve", "--ephemeral", "--listen", broker.bootstrap_servers, "--http", str(http)]
        done = ottla.process(*words, expect=1).stderr.decode()
    assert f"Port {broker.port} is taken by an Ottla broker" in done
    assert f"Port {http}, for HTTP, is taken" in done
    found = re.search(
        r"^    ottla serve --ephemeral --listen 127.0.0.1:(\d+) --http (\d+)\n    export OTTLA_", done, re.M
    )
    assert found is not None, done
    assert len({found[1], found[2], str(broker.port), str(http)}) == 4


@pytest.mark.e2e
def test_a_taken_port_of_several_listeners_does_not_make_them_one(ottla: Any, broker: Broker) -> None:
    listeners = f"PLAINTEXT://127.0.0.1:0,SASL_PLAINTEXT://{broker.bootstrap_servers}"
    done = ottla.process("serve", "--ephemeral", "--set", f"listeners={listeners}", expect=1).stderr.decode()
    assert f"Port {broker.port} is taken by an Ottla broker" in done
    assert re.search(r"name other ports: listeners=PLAINTEXT://127.0.0.1:0,SASL_PLAINTEXT://127.0.0.1:\d+\n", done), (
        done
    )
    assert "--listen" not in done


@pytest.mark.e2e
def test_a_port_for_http_that_is_taken_leaves_the_other_as_it_is(ottla: Any) -> None:
    with socket.create_server(("127.0.0.1", 0)) as console:
        http = f"127.0.0.1:{console.getsockname()[1]}"
        done = ottla.process("serve", "--ephemeral", "--listen", "0", "--http", http, expect=1).stderr.decode()
    assert re.search(
        r"To have your own beside it:\n    ottla serve --ephemeral --listen 0 --http 127.0.0.1:\d+\n", done
    )
    assert "export" not in done


def test_a_session_that_ended_is_among_the_reasons_of_a_broker_that_hangs_up() -> None:
    said = _hung_up("b:1", "b:1: it closed the connection", {"security_protocol": "SASL_SSL"})
    assert "its session or a token may have ended" in str(said)


def test_whose_token_is_not_accepted_is_told_where_to_look() -> None:
    """Clients are told nothing but that."""

    async def refused() -> None:
        raise AuthenticationFailed('{"status":"invalid_token"}')

    with pytest.raises(Refused) as raised:
        common.run(refused(), "")
    assert "does not accept the token" in str(raised.value)
    assert "The broker's log and audit say why." in str(raised.value)
