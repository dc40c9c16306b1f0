"""Guests: whoever has not said who he is, or says it wrongly, beside those who have."""

from __future__ import annotations

import os
import re
import socket
import ssl
import struct
import threading
import time
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path
from random import Random

import pytest

from ottla.broker.core.security.users_file import user_line
from ottla.broker.net.guests import TLS_BYTES
from ottla.broker.settings import Settings
from ottla.protocol.apis import ApiKey
from ottla.protocol.sasl.scram import Mechanism, credential_of, salted_password
from ottla.testing import Broker
from ottla.testing.authority import authority
from tests.core.security.issuer_keys import jwk, jwks, private
from tests.hostile.logins import (
    ARGUMENTS,
    NOT_OFFERED,
    PASSWORDS,
    SETTINGS,
    asked,
    first_token,
    handshake,
    log_in,
    raw,
    spoilt,
    wrapped,
)
from tests.hostile.victim import Victim
from tests.support.client import Client
from tests.support.peer import ConnectionClosed
from tests.support.waiting import wait_for

pytestmark = pytest.mark.e2e

KIB, MIB = 1 << 10, 1 << 20
ONE, ALL = 512 * KIB, 4 * MIB
READ = 256 * KIB
"""As much as an event loop reads at a time, before anybody can say that it is too much."""
MANY = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
HANDSHAKES = 8
BUGS = re.compile(r"Traceback|request failed|Exception in callback|never retrieved|\[error|\[critical")
HARD: dict[str, object] = SETTINGS | {
    "sasl.enabled.mechanisms": ",".join(MANY),
    "connection.failed.authentication.delay.ms": 10,
    "ottla.authentication.timeout.ms": 1_500,
    "ottla.unauthenticated.request.bytes": 8 * MIB,
    "ottla.tls.handshakes.max": HANDSHAKES,
    "sasl.oauthbearer.expected.issuer": "https://issuer",
    "sasl.oauthbearer.expected.audience": "ottla",
    "max.connections": 400,
}
SASL, TLS = "SASL_PLAINTEXT", "SASL_SSL"
RIGHT = b"\0limited\0limited-secret"


@pytest.fixture(scope="module")
def victim(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Victim]:
    """A broker with a listener for honest groups, and two that ask who comes."""
    keys = tmp_path_factory.mktemp("keys") / "jwks.json"
    keys.write_text(jwks(jwk(private("ES256"), kid="one")))
    given = {
        "ssl.keystore.location": authority().serverfile,
        "sasl.oauthbearer.jwks.endpoint.url": keys.as_uri(),
    }
    with Victim(settings=HARD | given, listeners=(SASL, TLS), arguments=ARGUMENTS) as victim:
        yield victim
        assert not BUGS.search(victim.log_text()), "guests have found a fault of the broker"


def guest(victim: Victim, listener: str = SASL) -> Client:
    return Client(victim.ports[listener])


def let_in(victim: Victim) -> bool:
    """Whether somebody who has a password is served, as he should be."""
    with suppress(ConnectionClosed, OSError), guest(victim) as client:
        return log_in(client, "SCRAM-SHA-512", "limited") == 0 and bool(client.metadata().brokers)
    return False


def pushed(client: Client, data: bytes) -> int:
    """Send as much of it as the broker takes; gives how much that was."""
    client.socket.settimeout(0.02)
    sent = 0
    with suppress(TimeoutError, OSError):
        while sent < len(data):
            sent += client.socket.send(data[sent : sent + 64 * KIB])
    client.socket.settimeout(20)
    return sent


# -- memory


@pytest.fixture(scope="module")
def near() -> Iterator[Broker]:
    """A broker whose guests can be counted."""
    settings = SETTINGS | {
        "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
        "ottla.unauthenticated.request.bytes": ALL,
        "connection.failed.authentication.delay.ms": 5_000,
    }
    with Broker(settings) as broker:
        yield broker


def held(broker: Broker) -> tuple[int, int, int]:
    """What guests hold, by the broker's count and by a count of our own; and the most that one holds."""

    def look() -> tuple[int, int, int]:
        guests = broker._running._entrance._guests
        assert guests is not None
        each = [connection.buffered_bytes for connection in guests.present]
        return guests.requests.held_bytes, sum(each), max(each, default=0)

    return broker.run(look)


@pytest.mark.parametrize("size", [ONE, 40 * KIB, 3 * KIB], ids=["large", "small", "tiny"])
def test_what_guests_have_sent_is_bounded_for_one_and_for_all(near: Broker, size: int) -> None:
    """Requests that are begun and not finished, four times as much as there is room for."""
    count = 4 * ALL // size if size > 10 * KIB else 300
    with ExitStack() as stack:
        for number in range(min(count, 300)):
            with suppress(ConnectionError):
                client = stack.enter_context(Client(near.port))
                pushed(client, struct.pack(">ihh", size, ApiKey.SASL_AUTHENTICATE, 2) + bytes(size - 5))
            counted, ours, most = held(near)
            assert most <= ONE and counted <= ALL + READ and ours <= ALL + READ, number
    wait_for(lambda: held(near) == (0, 0, 0), "nothing is held for those who are gone")


def test_what_comes_behind_a_request_is_not_read(near: Broker) -> None:
    """Somebody who failed, and sends on while he waits to be told."""
    with Client(near.port) as client:
        client.raw(handshake("PLAIN"))
        client.next_frame()
        sent = pushed(client, wrapped(b"\0limited\0no") + handshake("PLAIN") * 500_000)
        assert sent < 20 * MIB, "what is not read stays in the sockets"
        counted, ours, most = held(near)
        assert max(counted, ours, most) <= ONE


def test_memory_follows_what_is_counted(victim: Victim) -> None:
    victim.forget_peak()
    before = victim.peak_bytes()
    with victim.calm() as felt, ExitStack() as stack:
        for _ in range(120):
            with suppress(ConnectionError):
                pushed(stack.enter_context(guest(victim)), struct.pack(">ihh", ONE, 36, 2) + bytes(ONE - 5))
        wait_for(lambda: let_in(victim), "there is room for those who go on")
    assert victim.peak_bytes() - before < 8 * MIB + 20 * MIB
    assert felt.p99_ms < 500


def test_what_tls_holds_of_guests_is_bounded_too(victim: Victim) -> None:
    """A guest whose bytes are not looked at fills buffers of TLS, which nobody counts: so he has few beside him."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    victim.forget_peak()
    before, at_once = victim.peak_bytes(), 0
    with victim.calm() as felt, ExitStack() as stack:
        for number in range(2 * HANDSHAKES + 1):
            began = time.monotonic()
            sock = socket.create_connection(("127.0.0.1", victim.ports[TLS]), timeout=20)
            client = stack.enter_context(context.wrap_socket(sock))
            if time.monotonic() - began < 1 and at_once == number:
                at_once += 1
            client.settimeout(0.02)
            with suppress(OSError):
                client.sendall(struct.pack(">ihh", ONE, 36, 2) + bytes(ONE - 5))
    assert at_once <= 8 * MIB // 2 // TLS_BYTES
    assert victim.peak_bytes() - before < 8 * MIB + 10 * MIB
    assert felt.p99_ms < 500


def test_a_chain_of_certificates_that_does_not_end(tmp_path: Path) -> None:
    """It is not kept until it is whole: OpenSSL ends the handshake when a chain is announced as longer than 100 KiB."""
    chain = tmp_path / "chain.pem"
    files = authority().client("CN=alice")
    chain.write_text(Path(files.certfile).read_text() * 2_000)
    settings = {
        "ssl.keystore.location": authority().serverfile,
        "ssl.truststore.location": authority().cafile,
        "ssl.truststore.type": "PEM",
        "ssl.client.auth": "requested",
    }
    with Victim(settings=settings, listeners=("SSL",)) as victim:
        for certificates, is_let_in in ((files.certfile, True), (chain, False)):
            context = ssl.create_default_context(cafile=authority().cafile)
            context.load_cert_chain(certificates, files.keyfile)
            assert speaks_tls(victim, context, "SSL") is is_let_in
        wait_for(lambda: "excessive message size" in victim.log_text(), "the log says what was wrong")


# -- time


def test_a_crowd_that_never_says_who_it_is(victim: Victim) -> None:
    """Of which some say nothing, and some a byte now and then: each has its time, and the others have half the room."""
    with victim.calm() as felt, guest(victim) as known, ExitStack() as stack:
        assert log_in(known, "SCRAM-SHA-256", "limited") == 0
        crowd = [stack.enter_context(guest(victim)) for _ in range(300)]
        slow = crowd[:20]
        frame = handshake("PLAIN")
        for at in range(0, 20, 2):
            for client in slow:
                with suppress(OSError):
                    client.socket.sendall(frame[at : at + 2])
            assert known.metadata().brokers
        for client in crowd:
            assert client.is_closed()
        wait_for(lambda: let_in(victim), "others have their turn")
    assert felt.p99_ms < 500


def test_whoever_does_not_read_is_closed_in_time(victim: Victim) -> None:
    """Answers that nobody reads, and then a failure: the end of it does not wait until they are read."""
    asks = asked(ApiKey.API_VERSIONS, 2)[:6] + b"\0\x63" + asked(ApiKey.API_VERSIONS, 2)[8:]
    with guest(victim) as client:
        client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        pushed(client, asks * 100_000 + asked(ApiKey.METADATA, 4, topics=None))
        wait_for(lambda: is_reset(client), "it is closed, long before it counts as idle", timeout_s=30)
    assert let_in(victim)


def is_reset(client: Client) -> bool:
    """Whether the other end is gone, without reading what it has sent."""
    try:
        client.socket.sendall(b"\0")
    except OSError:
        return True
    return False


def test_tls_handshakes_that_are_not_finished(victim: Victim) -> None:
    """They are few at a time; others wait, at most as long as those may take; nobody else feels it."""
    hello = client_hello()
    with victim.calm() as felt, ExitStack() as stack:
        crowd = [stack.enter_context(guest(victim, TLS)) for _ in range(3 * HANDSHAKES)]
        for number, client in enumerate(crowd):
            client.socket.sendall(hello[: (0, 1, 5, len(hello) // 2)[number % 4]])
        assert let_in(victim), "who comes by another listener is served meanwhile"
        for client in crowd[:HANDSHAKES]:
            assert client.is_closed()
        wait_for(lambda: speaks_tls(victim), "honest clients have their turn", timeout_s=20)
    assert felt.p99_ms < 500


def test_a_thousand_handshakes_at_once() -> None:
    """Each takes the loop a millisecond or so: they are let in a few at a time, and heartbeats come in between."""
    context = ssl.create_default_context(cafile=authority().cafile)

    def connect(number: int) -> bool:
        with (
            socket.create_connection(("127.0.0.1", victim.ports["SSL"]), timeout=60) as plain,
            context.wrap_socket(plain, server_hostname="localhost") as sock,
        ):
            return sock.version() == "TLSv1.3"

    settings = {"ssl.keystore.location": authority().serverfile}
    with (
        Victim(settings=settings, listeners=("SSL",)) as victim,
        ThreadPoolExecutor(200) as threads,
        victim.calm() as felt,
    ):
        assert all(threads.map(connect, range(1_000)))
    assert felt.p99_ms < 500


def client_hello() -> bytes:
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    with suppress(ssl.SSLWantReadError):
        ssl.create_default_context().wrap_bio(incoming, outgoing, server_hostname="localhost").do_handshake()
    return outgoing.read()


def speaks_tls(victim: Victim, context: ssl.SSLContext | None = None, listener: str = TLS) -> bool:
    context = context or ssl.create_default_context(cafile=authority().cafile)
    try:
        with (
            socket.create_connection(("127.0.0.1", victim.ports[listener]), timeout=5) as plain,
            context.wrap_socket(plain, server_hostname="localhost") as sock,
        ):
            sock.sendall(handshake("PLAIN"))
            return len(sock.recv(4)) > 0
    except OSError:
        return False


# -- another protocol


@pytest.mark.parametrize(
    "data",
    [handshake("PLAIN"), b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", os.urandom(300), b"\x16\x03\x01\xff\xff" + bytes(900)],
    ids=["kafka", "http", "random", "tls"],
)
def test_other_bytes_on_a_tls_port(victim: Victim, data: bytes) -> None:
    with guest(victim, TLS) as client:
        client.raw(data)
        client.socket.settimeout(5)
        said = b""
        with suppress(ConnectionError):
            while chunk := client.socket.recv(4_096):
                said += chunk
        assert said[:1] in (b"", b"\x15"), "but for an alert of TLS"
        assert b"PLAIN" not in said
    assert speaks_tls(victim)


def test_tls_where_there_is_none(victim: Victim) -> None:
    with guest(victim) as client:
        client.raw(client_hello())
        assert client.is_closed()


def test_an_older_tls(victim: Victim) -> None:
    old = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    old.check_hostname, old.verify_mode = False, ssl.CERT_NONE
    with warnings.catch_warnings(action="ignore"):
        old.minimum_version, old.maximum_version = ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1
    old.set_ciphers("ALL:@SECLEVEL=0")
    assert not speaks_tls(victim, old)
    assert speaks_tls(victim)


# -- other mechanisms


@pytest.mark.parametrize("mechanism", NOT_OFFERED)
@pytest.mark.parametrize("version", [0, 1])
def test_a_mechanism_that_is_not_offered(victim: Victim, mechanism: str, version: int) -> None:
    with guest(victim) as client:
        answer = client.call(ApiKey.SASL_HANDSHAKE, version, mechanism=mechanism)
        assert (answer.error_code, answer.mechanisms) == (33, [*MANY])
        assert client.is_closed()


@pytest.mark.parametrize(
    "then",
    [
        handshake("PLAIN"),
        raw(b"\0limited\0limited-secret"),
        wrapped(b"\0limited\0limited-secret"),
        handshake("PLAIN", 0),
    ],
    ids=["handshake", "raw", "token", "raw handshake"],
)
def test_no_weaker_mechanism_follows_a_stronger_one(victim: Victim, then: bytes) -> None:
    """With the right password of PLAIN: at most one answer comes, and that is an error."""
    with guest(victim) as client:
        assert client.call(ApiKey.SASL_HANDSHAKE, 1, mechanism="SCRAM-SHA-512").error_code == 0
        client.raw(then + asked(ApiKey.METADATA, 4, 99, topics=None))
        with suppress(ConnectionClosed):
            assert client.next_frame().correlation_id == 7
            assert client.is_closed()


@pytest.mark.parametrize("flag", [b"y,,", b"p=tls-unique,,", b"p=tls-exporter,,"])
def test_no_channel_binding_that_there_is_not(victim: Victim, flag: bytes) -> None:
    with guest(victim) as client:
        client.raw(handshake("SCRAM-SHA-512") + wrapped(flag + b"n=limited,r=abc"))
        client.next_frame()
        assert struct.unpack_from(">h", client.next_frame().rest, 1)[0] == 58


# -- passwords and tokens


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512"])
def test_a_thousand_wrong_passwords_beside_honest_groups(victim: Victim, mechanism: str) -> None:
    before = victim.log_text().count("authentication_failed")
    codes: list[int] = []

    def guess(first: int) -> None:
        for number in range(first, 500, 4):
            with suppress(ConnectionClosed, ConnectionResetError), guest(victim) as client:
                codes.append(log_in(client, mechanism, ("limited", "nobody")[number % 2], f"guess-{number}"))

    with victim.calm() as felt:
        threads = [threading.Thread(target=guess, args=(first,)) for first in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert let_in(victim)
    assert set(codes) == {58} and len(codes) > 480
    assert felt.p99_ms < 500
    log = victim.log_text()
    assert log.count("authentication_failed") - before < 200, "some are told, the rest is counted"
    assert "guess-" not in log


@pytest.mark.parametrize("mechanism", MANY)
@pytest.mark.parametrize("version", [0, 1])
def test_tokens_that_are_none(victim: Victim, mechanism: str, version: int) -> None:
    """They are refused, each in its turn; nobody gets in, and nothing breaks."""
    rng = Random(f"{mechanism} {version}")
    for _ in range(40):
        token, _ = first_token(rng, mechanism, "limited", "wrong")
        with guest(victim) as client:
            client.raw(handshake(mechanism, version))
            assert struct.unpack_from(">h", client.next_frame().rest)[0] == 0
            for _ in range(rng.choice((1, 2))):
                bad = spoilt(rng, token)
                with suppress(OSError):
                    client.socket.sendall(wrapped(bad) if version else raw(bad))
            with suppress(OSError):
                client.socket.sendall(asked(ApiKey.METADATA, 4, 99, topics=None))
            client.socket.settimeout(5)
            with suppress(ConnectionClosed, ConnectionError):
                while True:
                    assert client.next_frame().correlation_id != 99, (bad, "is let in")
    assert let_in(victim)


def test_a_last_token_of_scram_that_is_none(victim: Victim) -> None:
    rng = Random(7)
    for _ in range(60):
        with guest(victim) as client:
            token, scram = first_token(rng, "SCRAM-SHA-512", "limited", PASSWORDS["limited"])
            assert client.call(ApiKey.SASL_HANDSHAKE, 1, mechanism="SCRAM-SHA-512").error_code == 0
            challenge = client.call(ApiKey.SASL_AUTHENTICATE, 2, auth_bytes=token).auth_bytes
            assert scram is not None
            final = scram.answer(challenge)
            assert final is not None
            bad = spoilt(rng, final)
            told = client.call(ApiKey.SASL_AUTHENTICATE, 2, auth_bytes=bad)
            assert told.error_code == (0 if bad == final else 58), bad
    assert let_in(victim)


def test_work_for_guests_who_have_gone_is_not_done(tmp_path: Path) -> None:
    """Passwords that are salted take milliseconds: whoever shows them and goes must not leave a queue behind."""
    kind, salt, most = Mechanism.SCRAM_SHA_512, b"salt of sixteen.", 16_384
    credential = credential_of(kind, salted_password(kind, "x", salt, most), salt, most)
    users = tmp_path / "users"
    users.write_text(user_line("limited", kind, credential))
    settings = {"sasl.enabled.mechanisms": "PLAIN", "ottla.sasl.plain.users.file": str(users)}
    with Victim(settings=settings, listeners=(SASL,)) as victim:
        for number in range(400):
            with guest(victim) as client:
                client.raw(handshake("PLAIN") + wrapped(f"\0limited\0guess-{number}".encode()))
        before = victim.cpu_s()
        with guest(victim) as client:
            assert log_in(client, "PLAIN", "limited", "x") == 0
        assert victim.cpu_s() - before < 3, "400 times 20 ms"


def test_the_figures_of_the_settings_are_those_of_the_promise() -> None:
    """512 KiB for a guest, 64 MiB for all, 64 handshakes, ten seconds: what nobody has changed."""
    default = Settings()
    assert default.sasl_server_max_receive_size == 512 * KIB
    assert default.ottla_unauthenticated_request_bytes == 64 * MIB
    assert default.ottla_tls_handshakes_max == 64
    assert default.ottla_authentication_timeout_ms == 10_000
