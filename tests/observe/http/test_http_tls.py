"""The HTTP port with TLS."""

from __future__ import annotations

import http.client
import socket
import ssl
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from ottla.broker.app import CannotStart
from ottla.testing import Broker
from ottla.testing.authority import Authority, authority
from tests.support.waiting import wait_for

pytestmark = pytest.mark.e2e

TOKEN = "a-token-of-a-test"


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    file = tmp_path_factory.mktemp("token") / "token"
    file.write_text(TOKEN, encoding="utf-8")
    file.chmod(0o600)
    settings = {
        "ottla.http.tls": True,
        "ottla.http.ssl.keystore.location": authority().serverfile,
        "ottla.http.token.file": str(file),
    }
    with Broker(settings, http=True) as running:
        yield running


def connection(broker: Broker, cafile: str = "") -> http.client.HTTPSConnection:
    url = urlsplit(broker.http_url)
    assert url.scheme == "https" and url.hostname and url.port
    context = ssl.create_default_context(cafile=cafile or authority().cafile)
    return http.client.HTTPSConnection(url.hostname, url.port, context=context, timeout=20)


def test_answers_tell_browsers_to_stay_with_tls(broker: Broker) -> None:
    talk = connection(broker)
    talk.request("GET", "/readyz")
    answer = talk.getresponse()
    assert answer.status == 200
    assert answer.headers["Strict-Transport-Security"] == "max-age=31536000"


def test_the_cookie_is_for_this_host_by_tls_alone(broker: Broker) -> None:
    talk = connection(broker)
    talk.request("POST", "/login", f"token={TOKEN}", {"Content-Type": "application/x-www-form-urlencoded"})
    answer = talk.getresponse()
    answer.read()
    cookie = answer.headers["Set-Cookie"]
    assert cookie.startswith("__Host-ottla=")
    assert cookie.split("; ")[1:] == ["Path=/", "Max-Age=43200", "HttpOnly", "SameSite=Strict", "Secure"]
    talk.request("GET", "/v1/cluster", headers={"Cookie": cookie.partition(";")[0]})
    assert talk.getresponse().status == 200


def test_a_request_that_is_too_long_is_answered_before_the_end(broker: Broker) -> None:
    talk = connection(broker)
    talk.putrequest("GET", "/" + "x" * 400_000)
    talk.endheaders()
    assert talk.getresponse().status == 400


def test_plain_http_is_not_served(broker: Broker) -> None:
    url = urlsplit(broker.http_url)
    with socket.create_connection((url.hostname, url.port), 20) as plain:
        plain.sendall(b"GET /readyz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        try:
            heard = plain.recv(1000)
        except ConnectionResetError:
            heard = b""
        assert not heard.startswith(b"HTTP")
    talk = connection(broker)
    talk.request("GET", "/metrics", headers={"Authorization": f"Bearer {TOKEN}"})
    counted = talk.getresponse().read().decode()
    assert 'ottla_failed_authentications_total{listener="HTTP",mechanism="TLS"} 1' in counted
    assert 'ottla_tls_certificate_expiry_seconds{listener="HTTP"}' in counted


def test_handshakes_that_do_not_go_on_keep_nobody_out_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ottla.observe.http.server.REQUEST_S", 0.5)
    settings = {"ottla.http.tls": True, "ottla.http.max.connections": 8}
    with Broker(settings, http=True, tls=True) as broker:
        url = urlsplit(broker.http_url)
        silent = [socket.create_connection((url.hostname, url.port), 20) for _ in range(20)]
        talk = connection(broker)
        talk.request("GET", "/readyz")
        assert talk.getresponse().status == 200
        for one in silent:
            one.close()


def test_the_certificate_of_a_listener_does_as_well() -> None:
    with Broker({"ottla.http.tls": True}, http=True, tls="mutual") as broker:
        talk = connection(broker)  # which has no certificate of its own
        talk.request("GET", "/v1/cluster")
        assert talk.getresponse().status == 200


def test_without_any_certificate_there_is_no_start() -> None:
    with pytest.raises(CannotStart, match=r"^ottla\.http\.tls=true: ssl\.keystore\.location: "):
        Broker({"ottla.http.tls": True}, http=True).start()


def test_a_new_certificate_is_used_by_those_who_come_then(tmp_path: Path) -> None:
    file = tmp_path / "http.pem"
    file.write_bytes(Path(authority().serverfile).read_bytes())
    settings = {
        "ottla.http.tls": True,
        "ottla.http.ssl.keystore.location": str(file),
        "ottla.tls.reload.interval.ms": 100,
        "ssl.allow.dn.changes": True,
    }
    with Broker(settings, http=True) as broker:
        other = Authority()
        new = tmp_path / "new.pem"
        new.write_bytes(Path(other.serverfile).read_bytes())
        new.replace(file)

        def is_new() -> bool:
            try:
                connection(broker, other.cafile).connect()
            except ssl.SSLCertVerificationError:
                return False
            return True

        wait_for(is_new, "the new certificate", timeout_s=10)
