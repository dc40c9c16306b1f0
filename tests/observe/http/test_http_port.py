"""The HTTP port as a whole: where it listens, what it says of the broker's health, and how it ends."""

from __future__ import annotations

import asyncio
import http.client
import json
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from ottla.broker.app import CannotStart
from ottla.broker.settings import BadSetting, Settings
from ottla.cli.serve import command
from ottla.observe.http import server, stream
from ottla.observe.http.address import is_loopback, parse_address, url_of
from ottla.observe.http.parts import Parts
from ottla.observe.http.server import HttpPort
from ottla.testing import Broker, BrokerProcess
from tests.observe.http.conftest import ask
from tests.observe.http.fakes import FakeView, Lines, ManualClock
from tests.support.waiting import wait_for

pytestmark = pytest.mark.e2e


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("9644", ("127.0.0.1", 9644)),
        (":0", ("0.0.0.0", 0)),
        ("0.0.0.0:9644", ("0.0.0.0", 9644)),
        ("[::1]:9644", ("::1", 9644)),
        ("localhost:80", ("localhost", 80)),
    ],
)
def test_a_port_alone_is_one_of_this_machine(text: str, address: tuple[str, int]) -> None:
    assert parse_address(text, "--http") == address


@pytest.mark.parametrize("text", ["", "localhost", "a:b", "::1:9644", "1:65536", "http://localhost:1", "٩"])
def test_what_is_no_address_is_refused_by_name(text: str) -> None:
    with pytest.raises(BadSetting, match="--http"):
        parse_address(text, "--http")


def test_which_hosts_are_loopback() -> None:
    assert all(map(is_loopback, ["127.0.0.1", "127.8.8.8", "::1", "localhost"]))
    assert not any(map(is_loopback, ["0.0.0.0", "::", "10.0.0.1", "example.com", ""]))
    assert url_of("0.0.0.0", 1) == "http://127.0.0.1:1"
    assert url_of("::", 1) == "http://[::1]:1"


def test_a_broker_is_healthy_and_ready_once_it_has_started() -> None:
    with Broker(http=True) as broker:
        for path in ("/healthz", "/readyz"):
            answer = ask(broker.http_url, path)
            assert (answer.status, answer.json) == (200, {"status": "ready"})
        url = broker.http_url
    with pytest.raises(ConnectionRefusedError):
        ask(url, "/healthz")


async def test_health_from_the_start_to_the_end() -> None:
    port = HttpPort(Settings(ottla_http_listen="127.0.0.1:0"), Lines())
    await port.start()

    async def asked(path: str) -> tuple[int, str]:
        answer = await asyncio.to_thread(ask, port.url, path)
        return answer.status, answer.json.get("status")

    assert await asked("/healthz") == (200, "starting")
    assert await asked("/readyz") == (503, "starting")
    answer = await asyncio.to_thread(ask, port.url, "/v1/cluster")
    assert (answer.status, answer.detail, answer.headers["retry-after"]) == (503, "the broker is starting", "1")
    port.open(Parts(FakeView(), ManualClock()))
    assert await asked("/healthz") == await asked("/readyz") == (200, "ready")
    port.stopping()
    assert await asked("/healthz") == (200, "stopping")
    assert await asked("/readyz") == (503, "stopping")
    port.health.status = "failed"
    assert await asked("/healthz") == await asked("/readyz") == (503, "failed")
    await port.stop()
    with pytest.raises(ConnectionRefusedError):
        await asyncio.to_thread(ask, port.url, "/healthz")


async def test_a_bug_is_logged_and_hurts_only_who_asked() -> None:
    log, view = Lines(), FakeView()
    port = HttpPort(Settings(ottla_http_listen="127.0.0.1:0"), log)
    await port.start()
    port.open(Parts(view, ManualClock()))
    view.put("a")
    view.broken = True
    answer = await asyncio.to_thread(ask, port.url, "/v1/groups")
    assert (answer.status, answer.detail) == (500, "this is a bug of the broker: its log says more")
    assert log.lines == [("error", "An HTTP request failed")]
    assert "content-security-policy" in answer.headers
    view.broken = False
    assert (await asyncio.to_thread(ask, port.url, "/v1/groups")).status == 200
    await port.stop()


def test_what_is_no_http_is_a_problem() -> None:
    with Broker(http=True) as broker:
        host, _, port = broker.http_url.removeprefix("http://").rpartition(":")
        with socket.create_connection((host, int(port)), timeout=10) as connection:
            connection.sendall(b"\x00\x00\x00\x10\x00\x12\x00\x00 not http\r\n\r\n")
            answer = connection.makefile("rb").read()
        assert answer.startswith(b"HTTP/1.1 400 Bad Request\r\n")
        assert b"application/problem+json" in answer


@pytest.mark.parametrize(
    "begun", [b"", b"GET / HTTP/1.1\r\nHo", b"GET /nothing HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n"]
)
def test_a_request_that_never_ends_does_not_hold_its_connection(begun: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "REQUEST_S", 0.3)
    with Broker(http=True) as broker:
        host, port = broker.http_url.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port))) as slow:
            slow.sendall(begun)
            slow.settimeout(0.05)
            deadline = time.monotonic() + 10
            with pytest.raises(ConnectionError):
                while time.monotonic() < deadline:
                    try:
                        if not slow.recv(4096):
                            raise ConnectionResetError
                    except TimeoutError:
                        slow.sendall(b"x" if begun.endswith(b"Ho") else b"")


def test_a_stream_and_an_idle_connection_are_not_taken_for_slow_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "REQUEST_S", 0.2)
    monkeypatch.setattr(stream, "PING_S", 0.1)
    with Broker(http=True) as broker:
        host, port = broker.http_url.removeprefix("http://").split(":")
        asked = http.client.HTTPConnection(host, int(port), timeout=10)
        with socket.create_connection((host, int(port))) as reading:
            reading.sendall(b"GET /v1/stream HTTP/1.1\r\nHost: localhost\r\n\r\n")
            reading.settimeout(10)
            received = b""
            while received.count(b": ping") < 5:
                asked.request("GET", "/healthz")
                assert asked.getresponse().read()
                chunk = reading.recv(4096)
                assert chunk, received
                received += chunk
        asked.close()


@pytest.mark.parametrize("rounds", range(6))
async def test_nothing_is_left_of_it_whatever_its_clients_were_at(rounds: int) -> None:
    port = HttpPort(Settings(ottla_http_listen="127.0.0.1:0"), Lines())
    await port.start()
    port.open(Parts(FakeView(), ManualClock()))
    begun = [
        b"what?\r\n\r\n",
        b"GET /v1/stream HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\na",
        b"GET /",
    ]
    clients = [socket.create_connection(("127.0.0.1", port.port)) for _ in range(12)]
    for number, client in enumerate(clients):
        client.sendall(begun[number % 4])
    for _ in range(rounds):
        await asyncio.sleep(0)
    await port.stop()
    assert asyncio.all_tasks() == {asyncio.current_task()}
    for client in clients:
        client.close()


def test_a_port_that_is_taken_is_a_clear_error() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        where = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(CannotStart, match=f"cannot listen on {where} for HTTP.*choose another --http"):
            Broker({"ottla.http.listen": where}).start()


def test_a_broker_that_cannot_start_lets_go_of_the_port(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken, socket.create_server(("127.0.0.1", 0)) as free:
        where = f"127.0.0.1:{free.getsockname()[1]}"
        free.close()
        with pytest.raises(CannotStart, match="choose another address"):
            Broker({"ottla.http.listen": where}, port=taken.getsockname()[1]).start()
        with Broker({"ottla.http.listen": where}) as broker:
            assert broker.http_url == f"http://{where}"


def logged(broker: BrokerProcess, begins: str) -> dict[str, Any]:
    """The line of its log that begins so; the address is printed before any."""

    def line() -> dict[str, Any]:
        lines = map(json.loads, broker.log_text().splitlines())
        return next((one for one in lines if one["event"].startswith(begins)), {})

    return wait_for(line, f"a line {begins}", show=broker.log_text)


def test_a_served_broker_says_where_it_is() -> None:
    with BrokerProcess(arguments=("--http", "0", "--log-format", "json")) as broker:
        said = logged(broker, "HTTP")
        assert ask(said["url"], "/v1/cluster").json["listen"] == broker.bootstrap_servers
        assert broker.stop() == 0
        assert '"level":"warning"' not in broker.log_text().replace(" ", "")


def test_a_port_for_others_is_told_of() -> None:
    with BrokerProcess(arguments=("--http", "0.0.0.0:0", "--insecure", "--log-format", "json")) as broker:
        warning = logged(broker, "HTTP is open to other machines")
        assert warning["level"] == "warning"


def test_a_process_keeps_its_port() -> None:
    with BrokerProcess(http=True) as broker:
        url = broker.http_url
        assert ask(url, "/readyz").status == 200
        broker.kill()
        broker.restart()
        assert broker.http_url == url
        assert ask(url, "/readyz").status == 200
    with pytest.raises(RuntimeError, match="http=True"):
        _ = BrokerProcess().http_url


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--http", "localhost"], "--http 'localhost': write HOST:PORT or PORT"),
        (["--set", "ottla.http.listen=x:1:2"], "ottla.http.listen 'x:1:2': write HOST:PORT"),
        (["--http-token-file", "/some/where"], "add --http PORT"),
    ],
)
def test_a_bad_option_says_what_is_allowed(arguments: list[str], said: str) -> None:
    result = CliRunner().invoke(command, arguments)
    assert result.exit_code == 2
    assert said in " ".join(result.output.split())


def test_a_port_that_cannot_be_had_ends_the_command(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="there is no token in it"):
        token = tmp_path / "token"
        token.write_text("")
        BrokerProcess(http=True, arguments=("--http-token-file", str(token))).start()


def test_nothing_of_it_is_imported_without_it() -> None:
    """Start-up time is a feature."""
    heavy = ("starlette", "uvicorn", "h11", "anyio", "prometheus_client", "ottla.observe.http.routes")
    program = f"""
import sys
from ottla.testing import Broker
with Broker() as broker:
    print([name for name in {heavy} if name in sys.modules])
with Broker(http=True) as broker:
    print("uvicorn" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["[]", "True"]


def test_a_missing_extra_is_named() -> None:
    program = """
import sys
sys.modules["uvicorn"] = None
from ottla.broker.app import CannotStart
from ottla.testing import Broker
try:
    Broker(http=True).start()
except CannotStart as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    how = "pip install 'ottla[http]', or in a checkout: pip install '.[http]'"
    assert done.stdout.strip() == f"HTTP needs uvicorn: {how}"
