"""A broker with TLS on the wire: strangers, certificates of clients, new certificates, slow readers."""

from __future__ import annotations

import io
import json
import os
import shutil
import signal
import socket
import ssl
import subprocess
import time
import urllib.request
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import trustme
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource

from ottla.observe.logs import logger
from ottla.protocol.apis import ApiKey
from ottla.testing import Broker, BrokerProcess
from tests.cli.commands import HERE
from tests.support.peer import PATIENCE_S, Peer
from tests.support.requests import request
from tests.support.waiting import seconds_of, wait_for

pytestmark = pytest.mark.e2e

CA, OTHER_CA = trustme.CA(), trustme.CA()
HANDSHAKE_FAILED = "TLS handshake: "
PRODUCED = 40 << 20


def written(path: Path, *parts: bytes) -> str:
    path.write_bytes(b"".join(parts))
    path.chmod(0o600)
    return str(path)


def new_certificate(path: Path, subject: str, until: datetime | None = None) -> trustme.LeafCert:
    """A certificate in the place of the one in a file, as careful programs put it there."""
    named = {"common_name": subject, "organization_name": "o", "organization_unit_name": "u"}
    leaf = CA.issue_cert("localhost", "127.0.0.1", **named, not_after=until)
    Path(written(path.with_suffix(".new"), leaf.private_key_and_cert_chain_pem.bytes())).replace(path)
    return leaf


def client_context(leaf: trustme.LeafCert | None = None) -> ssl.SSLContext:
    context = ssl.create_default_context()
    CA.configure_trust(context)
    if leaf is not None:
        leaf.configure_cert(context)
    return context


def peer_of(broker: Broker, context: ssl.SSLContext) -> Peer:
    peer = Peer(broker.port)
    peer.socket = context.wrap_socket(peer.socket, server_hostname="localhost")
    return peer


def versions(peer: Peer) -> int:
    """Ask something small; gives the error."""
    error: int = peer.ask(ApiKey.API_VERSIONS, 0, request(ApiKey.API_VERSIONS, {})).error_code
    return error


class Served:
    """A broker with TLS and its log."""

    def __init__(self, tmp_path: Path, **settings: Any) -> None:
        self.log = io.StringIO()
        self.pem = tmp_path / "broker.pem"
        self.leaf = new_certificate(self.pem, "broker")
        own = {"ssl.keystore.location": str(self.pem), "ottla.tls.reload.interval.ms": 100}
        self.broker = Broker({**own, **settings}, topics=["orders"], tls=True, log=logger(stream=self.log))

    def lines(self, text: str) -> list[str]:
        return [line for line in self.log.getvalue().splitlines() if text in line]

    def shown(self) -> bytes | None:
        """The certificate that a client sees."""
        with peer_of(self.broker, client_context()) as peer:
            return peer.socket.getpeercert(True)  # type: ignore[attr-defined, no-any-return]

    def __enter__(self) -> Served:
        self.broker.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.broker.stop()


@pytest.fixture
def trusted(tmp_path: Path) -> str:
    return written(tmp_path / "ca.pem", CA.cert_pem.bytes())


def der_of(leaf: trustme.LeafCert) -> bytes:
    return ssl.PEM_cert_to_DER_cert(leaf.cert_chain_pems[0].bytes().decode())


# who connects


def test_plain_bytes_are_closed_with_one_line(tmp_path: Path) -> None:
    with Served(tmp_path) as served:
        with Peer(served.broker.port) as peer:
            peer.send(ApiKey.API_VERSIONS, 0, request(ApiKey.API_VERSIONS, {}))
            peer.socket.settimeout(PATIENCE_S)
            with pytest.raises((ConnectionError, TimeoutError)):
                peer.answer()
        (line,) = wait_for(lambda: served.lines(HANDSHAKE_FAILED), "the line")
        assert "127.0.0.1" in line
        with peer_of(served.broker, client_context()) as peer:
            assert versions(peer) == 0


def test_who_trusts_others_does_not_connect(tmp_path: Path) -> None:
    with Served(tmp_path) as served:
        with pytest.raises(ssl.SSLCertVerificationError):
            peer_of(served.broker, ssl.create_default_context())
        assert wait_for(lambda: served.lines(HANDSHAKE_FAILED), "the line")


@pytest.mark.parametrize("auth", ["requested", "required"])
def test_certificates_of_clients(tmp_path: Path, trusted: str, auth: str) -> None:
    settings = {"ssl.truststore.location": trusted, "ssl.client.auth": auth}
    with Served(tmp_path, **settings) as served:

        def session(context: ssl.SSLContext) -> str:
            with peer_of(served.broker, context) as peer:
                assert versions(peer) == 0
                connections = served.broker._running._server.connections
                return served.broker.run(lambda: next(reversed(connections)).session.principal)

        alice = CA.issue_cert(common_name="alice", organization_name="o", organization_unit_name="u")
        assert session(client_context(alice)) == "User:CN=alice,OU=u,O=o"
        with pytest.raises((ssl.SSLError, ConnectionError)):
            session(client_context(OTHER_CA.issue_cert(common_name="alice")))
        if auth == "required":
            with pytest.raises((ssl.SSLError, ConnectionError)):
                session(client_context())
        else:
            assert session(client_context()) == "User:ANONYMOUS"


def test_a_client_that_resumes_is_who_it_was() -> None:
    """A ticket spares the certificate, and not the question whose it was."""
    with Broker(tls="mutual") as broker:
        context, server = broker.ssl_context("CN=alice"), broker._running._server
        before = None
        for resumed in (False, True, True):
            with Peer(broker.port) as peer:
                peer.socket = context.wrap_socket(peer.socket, server_hostname="localhost", session=before)
                assert versions(peer) == 0
                assert peer.socket.session_reused == resumed
                principals = broker.run(lambda: [one.session.principal for one in server.connections])
                assert set(principals) == {"User:CN=alice"}
                before = peer.socket.session


def test_the_audit_tells_who_came_by_certificate_and_that_he_went(tmp_path: Path) -> None:
    path = tmp_path / "audit"
    with Broker({"ottla.audit.file": str(path)}, tls="mutual") as broker:
        with peer_of(broker, broker.ssl_context("CN=alice")) as peer:
            assert versions(peer) == 0
        wait_for(lambda: path.exists() and "disconnected" in path.read_text(), "the end of the connection")
    came, went = [json.loads(line) for line in path.read_text().splitlines() if "alice" in line]
    who = {"principal": "User:CN=alice", "listener": "SSL", "host": "127.0.0.1", "mechanism": "TLS"}
    assert came["event"] == "authenticated" and came.items() >= who.items()
    assert came["tls"].startswith("TLSv1.3 TLS_")
    assert went["event"] == "disconnected" and went.items() >= who.items()
    assert went["reason"] == "the client closed it" and went["port"] == came["port"] > 0


def test_the_audit_tells_who_leaves_for_the_certificate(tmp_path: Path) -> None:
    """Clients that do not trust it may go without a word; who only looks whether the port is open does so, too."""
    with Served(tmp_path) as served:
        with Peer(served.broker.port):
            pass
        with Peer(served.broker.port) as peer:
            to_broker = ssl.MemoryBIO()
            hello = client_context().wrap_bio(ssl.MemoryBIO(), to_broker, server_hostname="localhost")
            with pytest.raises(ssl.SSLWantReadError):
                hello.do_handshake()
            peer.socket.sendall(to_broker.read())
            assert peer.socket.recv(1) == b"\x16", "the broker answers"
        (line,) = wait_for(lambda: served.lines("authentication_failed"), "the event")
        assert "the client left once it had seen the certificate" in line


def test_the_audit_tells_what_a_new_file_of_users_did(tmp_path: Path) -> None:
    users, path, log = tmp_path / "users", tmp_path / "audit", io.StringIO()
    line = HERE.run("users", "hash", "bob", "--password-file", written(tmp_path / "password", b"secret of bob")).stdout
    users.write_text(line)
    users.chmod(0o644)
    settings = {"ottla.audit.file": str(path), "ottla.sasl.plain.users.file": str(users)}
    protected = {"listeners": "SASL_PLAINTEXT://127.0.0.1:0", "sasl.enabled.mechanisms": "PLAIN"}
    with Broker(settings | protected, log=logger(stream=log)) as broker:
        users.write_text(line.replace("bob", "carol"))
        broker.run(lambda: broker._running.look_at_files())
    rows = [json.loads(row) for row in path.read_text().splitlines()]
    told = [(row["event"], row["user"], row["mechanism"], row["listener"]) for row in rows if "user" in row]
    assert told == [
        ("credential_removed", "bob", "PLAIN", "SASL_PLAINTEXT"),
        ("credential_set", "carol", "PLAIN", "SASL_PLAINTEXT"),
    ]
    assert "Others on this machine can read the users of PLAIN" in log.getvalue()


def test_the_audit_tells_of_nobody_who_has_not_said_who_he_is(tmp_path: Path) -> None:
    path = tmp_path / "audit"
    with Broker({"ottla.audit.file": str(path)}, sasl=("PLAIN", {"alice": "alice-secret"})) as broker:
        with Peer(broker.port) as peer:
            assert versions(peer) == 0
        broker.produce("orders", b"a")  # by a connection that is told of
    events = [(row["event"], row["principal"]) for row in map(json.loads, path.read_text().splitlines())]
    assert ("authenticated", "User:alice") in events and ("disconnected", "User:alice") in events
    assert {who for _, who in events} == {"User:alice"}


def test_a_subject_that_no_rule_fits_is_closed(tmp_path: Path, trusted: str) -> None:
    settings = {
        "ssl.truststore.location": trusted,
        "ssl.client.auth": "required",
        "ssl.principal.mapping.rules": "RULE:^CN=(a.*?),.*$/$1/U",
    }
    with Served(tmp_path, **settings) as served:
        names = {"organization_name": "o", "organization_unit_name": "u"}
        with peer_of(served.broker, client_context(CA.issue_cert(common_name="alice", **names))) as peer:
            assert versions(peer) == 0
        with (
            peer_of(served.broker, client_context(CA.issue_cert(common_name="bob", **names))) as peer,
            pytest.raises(ConnectionError),
        ):
            versions(peer)
        (line,) = served.lines("authentication_failed")
        assert "no rule of ssl.principal.mapping.rules" in line and "CN=bob,OU=u,O=o" in line
        assert served.broker.run(lambda: served.broker._running._server.authentications) == {
            ("successful_authentications", "SSL", "TLS"): 1,
            ("failed_authentications", "SSL", "TLS"): 1,
        }


def test_a_handshake_that_does_not_go_on_is_closed(tmp_path: Path) -> None:
    with (
        Served(tmp_path, **{"ottla.authentication.timeout.ms": 200}) as served,
        socket.create_connection(("127.0.0.1", served.broker.port), PATIENCE_S) as silent,
    ):
        silent.sendall(b"\x16\x03\x01")
        assert silent.recv(100) == b""


def test_a_handshake_that_does_not_go_on_is_told_once(tmp_path: Path) -> None:
    """Also where SASL is to follow, which has a time of its own."""
    log, limits = io.StringIO(), {"ottla.authentication.timeout.ms": 200}
    with Broker(limits, tls=True, sasl=("PLAIN", {"alice": "alice-secret"}), log=logger(stream=log)) as broker:
        with socket.create_connection(("127.0.0.1", broker.port), PATIENCE_S) as silent:
            assert silent.recv(100) == b""
        wait_for(lambda: "authentication_failed" in log.getvalue(), "the event")
        server = broker._running._server
        assert [*broker.run(lambda: server.authentications.values())] == [1]
    (line,) = [line for line in log.getvalue().splitlines() if "authentication_failed" in line]
    assert "host=127.0.0.1" in line and "mechanism=TLS" in line


def test_a_start_tells_of_a_certificate_that_is_not_for_the_addresses_that_clients_are_told(tmp_path: Path) -> None:
    """Once for all listeners that have it."""
    leaf, log = CA.issue_cert("vm", "127.0.0.1"), io.StringIO()
    pem = written(tmp_path / "broker.pem", leaf.private_key_and_cert_chain_pem.bytes())
    given = {"listeners": "SSL://:0,B://:0,C://127.0.0.1:0", "listener.security.protocol.map": "SSL:SSL,B:SSL,C:SSL"}
    with Broker({**given, "ssl.keystore.location": pem, "ottla.insecure": "true"}, log=logger(stream=log)):
        pass
    (line,) = [line for line in log.getvalue().splitlines() if "is not for that, but for vm" in line]
    assert "listener=SSL, B " in line.replace("'", "").replace('"', "")


def test_handshakes_under_way_are_bounded_and_others_wait(tmp_path: Path) -> None:
    """Whoever comes while there are so many waits in the backlog, and gets in when one of them has given up."""
    limits = {"ottla.tls.handshakes.max": 3, "ottla.authentication.timeout.ms": 1_000}
    with Served(tmp_path, **limits) as served:
        silent = [socket.create_connection(("127.0.0.1", served.broker.port), PATIENCE_S) for _ in range(3)]
        server = served.broker._running._server
        wait_for(lambda: served.broker.run(lambda: len(server.connections)) == 3, "three handshakes")
        started = time.monotonic()
        with peer_of(served.broker, client_context()) as peer:
            assert versions(peer) == 0
        assert time.monotonic() - started > 0.3
        for one in silent:
            one.close()


# kcat


@pytest.mark.skipif(shutil.which("kcat") is None, reason="kcat is not installed (Debian, Ubuntu: apt-get install kcat)")
def test_kcat(tmp_path: Path, trusted: str) -> None:
    with Served(tmp_path) as served:
        address = f"localhost:{served.broker.port}"
        command = ["kcat", "-L", "-b", address, "-m", "5", "-X", "security.protocol=ssl"]
        good = subprocess.run([*command, "-X", f"ssl.ca.location={trusted}"], capture_output=True, text=True)
        assert 'topic "orders"' in good.stdout, good.stderr
        other = written(tmp_path / "other.pem", OTHER_CA.cert_pem.bytes())
        bad = subprocess.run([*command, "-X", f"ssl.ca.location={other}"], capture_output=True, text=True)
        assert bad.returncode != 0
        assert "certificate verify failed" in bad.stderr or "broker certificate could not be verified" in bad.stderr


# new certificates


def test_new_files_are_used_by_those_who_come_then(tmp_path: Path) -> None:
    with Served(tmp_path) as served, peer_of(served.broker, client_context()) as before:
        assert served.shown() == der_of(served.leaf)
        leaf = new_certificate(served.pem, "broker")
        wait_for(lambda: served.shown() == der_of(leaf), "the new certificate", timeout_s=10)
        assert versions(before) == 0, "who is there stays"
        new_certificate(served.pem, "somebody else")
        (line,) = wait_for(lambda: served.lines("the old ones stay"), "a line")
        assert "ssl.allow.dn.changes=true" in line
        assert served.shown() == der_of(leaf)


def test_key_and_certificate_of_a_process_and_a_hangup(tmp_path: Path) -> None:
    chain, key = tmp_path / "tls.crt", tmp_path / "tls.key"

    def issue() -> bytes:
        leaf = CA.issue_cert("localhost", common_name="b", organization_name="o", organization_unit_name="u")
        written(chain, leaf.cert_chain_pems[0].bytes())
        written(key, leaf.private_key_pem.bytes())
        return der_of(leaf)

    def shown(port: int) -> bytes | None:
        with socket.create_connection(("127.0.0.1", port), PATIENCE_S) as plain:
            return client_context().wrap_socket(plain, server_hostname="localhost").getpeercert(True)

    first = issue()
    with BrokerProcess(arguments=("--tls-cert", str(chain), "--tls-key", str(key))) as process:
        assert shown(process.port) == first
        second = issue()
        os.kill(process.pid, signal.SIGHUP)
        wait_for(lambda: shown(process.port) == second, "the new certificate", timeout_s=5, show=process.log_text)


def test_who_has_not_finished_a_handshake_keeps_no_broker_from_stopping(tmp_path: Path) -> None:
    served = Served(tmp_path)
    with served, socket.create_connection(("127.0.0.1", served.broker.port), PATIENCE_S) as silent:
        server = served.broker._running._server
        wait_for(lambda: served.broker.run(lambda: len(server.connections)) == 1, "the handshake")
        assert seconds_of(served.broker.stop) < 3
        assert silent.recv(100) == b""


def alter(broker: Broker, **configs: str) -> None:
    """What ``kafka-configs --alter --entity-type brokers --entity-name 1`` does. Raises KafkaException."""
    entries = [ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET) for name, value in configs.items()]
    resource = ConfigResource(ConfigResource.Type.BROKER, "1", incremental_configs=entries)
    trusted = {"security.protocol": "ssl", "ssl.ca.pem": CA.cert_pem.bytes().decode()}
    client = AdminClient({"bootstrap.servers": broker.bootstrap_servers, **trusted})
    client.incremental_alter_configs([resource])[resource].result()


def test_a_setting_that_is_set_again_has_its_files_read(tmp_path: Path) -> None:
    location = "listener.name.ssl.ssl.keystore.location"
    with Served(tmp_path, **{"ottla.tls.reload.interval.ms": 3_600_000}) as served:
        leaf = new_certificate(served.pem, "broker")
        assert served.shown() == der_of(served.leaf)
        alter(served.broker, **{location: str(served.pem)})
        assert served.shown() == der_of(leaf)
        new_certificate(served.pem, "somebody else")
        with pytest.raises(KafkaException, match=r"INVALID_CONFIG.*ssl.allow.dn.changes=true"):
            alter(served.broker, **{location: str(served.pem)})
        with pytest.raises(KafkaException, match=r"INVALID_CONFIG.*/nowhere/b.pem: cannot be read"):
            alter(served.broker, **{location: "/nowhere/b.pem"})
        with pytest.raises(KafkaException, match="cannot be changed while the broker runs"):
            alter(served.broker, **{"listener.name.ssl.ssl.client.auth": "required"})
        assert served.shown() == der_of(leaf)


def test_the_metric_is_of_the_certificate_that_is_shown_now(tmp_path: Path) -> None:
    def ends() -> float:
        told = urllib.request.urlopen(f"{served.broker.http_url}/metrics", timeout=10).read().decode()
        return float(told.partition('ottla_tls_certificate_expiry_seconds{listener="SSL"} ')[2].split()[0])

    settings = {"ottla.http.listen": "127.0.0.1:0", "ottla.tls.reload.interval.ms": 3_600_000}
    with Served(tmp_path, **settings) as served:
        until = datetime(2090, 1, 2, 3, 4, 5, tzinfo=UTC)
        leaf = new_certificate(served.pem, "broker", until)
        assert ends() != until.timestamp()
        alter(served.broker, **{"listener.name.ssl.ssl.keystore.location": str(served.pem)})
        assert served.shown() == der_of(leaf)
        assert ends() == until.timestamp()


# slow readers


def test_an_answer_that_is_read_slowly_costs_little() -> None:
    """40 MiB that nobody reads stay what they are, once; and the others are served meanwhile."""
    limits = {"fetch.max.bytes": PRODUCED + 1024, "message.max.bytes": 8 << 20}
    with Broker(limits, topics=["orders"], tls=True) as broker:
        for _ in range(PRODUCED // 1_000_000):
            broker.produce("orders", [b"x" * 1_000_000])
        context, server = broker.ssl_context(), broker._running._server
        partition = {"partition": 0, "partition_max_bytes": PRODUCED, "fetch_offset": 0}
        wanted = {"topics": [{"topic": "orders", "partitions": [partition]}], "max_bytes": PRODUCED, "max_wait_ms": 100}
        with peer_of(broker, context) as slow:
            slow.send(ApiKey.FETCH, 4, request(ApiKey.FETCH, {"replica_id": -1, "min_bytes": 1, **wanted}))
            wait_for(lambda: broker.run(lambda: max(one.unread_bytes for one in server.connections)), "the answer")
            with peer_of(broker, context) as other:
                for _ in range(20):
                    started = time.monotonic()
                    assert versions(other) == 0
                    assert time.monotonic() - started < 1
            assert broker.run(lambda: max(one.kept_bytes for one in server.connections)) < PRODUCED + (4 << 20)
            size, read = int.from_bytes(slow.socket.recv(4), "big"), 0
            while read < size:
                read += len(slow.socket.recv(1 << 20))
        assert read == size > 30 << 20
