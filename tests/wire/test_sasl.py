"""The conversation before authentication and sessions that end, with raw frames on real sockets."""

from __future__ import annotations

import hashlib
import json
import os
import struct
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ottla.protocol.apis import ApiKey
from ottla.protocol.headers import frame_request
from ottla.protocol.messages.api_versions import ApiVersionsResponse
from ottla.protocol.sasl.scram import Mechanism, ScramClient, nonce_of
from ottla.testing import Broker
from tests.support.client import Client, fresh
from tests.support.peer import decoded
from tests.support.requests import fetch_fields, request
from tests.support.waiting import wait_for

pytestmark = pytest.mark.e2e

LISTENERS = "SASL_PLAINTEXT://127.0.0.1:0,PLAINTEXT://127.0.0.1:0,OTHER://127.0.0.1:0"
SETTINGS = {
    "listeners": LISTENERS,
    "listener.security.protocol.map": "SASL_PLAINTEXT:SASL_PLAINTEXT,PLAINTEXT:PLAINTEXT,OTHER:SASL_PLAINTEXT",
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512",
    "listener.name.sasl_plaintext.plain.sasl.jaas.config": (
        "org.apache.kafka.common.security.plain.PlainLoginModule required "
        'user_alice="alice-secret" user_bob="bob-secret";'
    ),
    "connection.failed.authentication.delay.ms": 40,
    "sasl.server.max.receive.size": 20_000,
    "listener.name.other.connections.max.reauth.ms": 400,
    "listener.name.other.plain.sasl.jaas.config": (
        "org.apache.kafka.common.security.plain.PlainLoginModule required "
        'user_alice="alice-secret" user_bob="bob-secret";'
    ),
}
DELAY_S = 0.04
SOFTWARE = {"client_software_name": "wire", "client_software_version": "1"}
ALICE = b"\0alice\0alice-secret"


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(SETTINGS, topics={"orders": 3}) as broker:
        yield broker


class Guest(Client):
    """A client of a listener with SASL."""

    def __init__(self, broker: Broker, listener: str = "SASL_PLAINTEXT") -> None:
        super().__init__(broker.port_of(listener))
        self.began = time.monotonic()

    def handshake(self, mechanism: str = "PLAIN", version: int = 1) -> int:
        error: int = self.call(ApiKey.SASL_HANDSHAKE, version, mechanism=mechanism).error_code
        return error

    def log_in(self, token: bytes = ALICE, version: int = 2) -> Any:
        assert self.handshake() == 0
        return self.call(ApiKey.SASL_AUTHENTICATE, version, auth_bytes=token)

    def waits(self) -> None:
        """The broker closes, and not before the delay."""
        assert self.is_closed() and time.monotonic() - self.began >= DELAY_S

    def fails(self) -> None:
        """What is sent next fails."""
        self.began = time.monotonic()


@pytest.fixture
def guest(broker: Broker) -> Iterator[Guest]:
    with Guest(broker) as guest:
        yield guest


def test_1_versions_handshake_token(guest: Guest) -> None:
    assert guest.call(ApiKey.API_VERSIONS, 3, **SOFTWARE).error_code == 0
    assert guest.log_in().error_code == 0
    assert "orders" in {topic.name for topic in guest.call(ApiKey.METADATA, 4, topics=None).topics}


def test_2_the_handshake_first(guest: Guest) -> None:
    assert guest.handshake() == 0


def test_3_versions_that_are_not_known(guest: Guest) -> None:
    guest.raw(frame_request(ApiKey.API_VERSIONS, 99, 5, "new", b"\xff", flexible=True))
    assert decoded(ApiVersionsResponse, 0, 0, guest.next_frame().rest).error_code == 35
    assert guest.call(ApiKey.API_VERSIONS, 3, **SOFTWARE).error_code == 0
    assert guest.handshake() == 0


def test_3_software_that_cannot_be(guest: Guest) -> None:
    bad = guest.call(ApiKey.API_VERSIONS, 3, client_software_name="-", client_software_version="1")
    assert bad.error_code == 42
    assert guest.call(ApiKey.API_VERSIONS, 3, **SOFTWARE).error_code == 0


def test_the_same_versions_are_told_before_and_after(guest: Guest) -> None:
    before = guest.call(ApiKey.API_VERSIONS, 4, **SOFTWARE)
    guest.log_in()
    assert guest.call(ApiKey.API_VERSIONS, 4, **SOFTWARE) == before


def test_4_versions_twice(guest: Guest) -> None:
    guest.call(ApiKey.API_VERSIONS, 0)
    guest.send(ApiKey.API_VERSIONS, 0, request(ApiKey.API_VERSIONS, {}))
    assert guest.is_closed()


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-1", "plain"])
def test_5_and_6_mechanisms_that_are_not_offered(guest: Guest, mechanism: str) -> None:
    guest.fails()
    answer = guest.call(ApiKey.SASL_HANDSHAKE, 1, mechanism=mechanism)
    assert (answer.error_code, answer.mechanisms) == (33, ["PLAIN", "SCRAM-SHA-512"])
    guest.waits()


def test_7_and_8_other_requests(broker: Broker, guest: Guest) -> None:
    for handshake in (False, True):
        with Guest(broker) as other:
            if handshake:
                other.handshake()
            other.fails()
            other.send(ApiKey.METADATA, 4, request(ApiKey.METADATA, {"topics": None}))
            if handshake:
                other.waits()
            else:  # who has tried to be nobody need not wait, as in Kafka 4.3
                assert other.is_closed()


def test_9_raw_tokens(guest: Guest) -> None:
    assert guest.handshake(version=0) == 0
    guest.raw(struct.pack(">i", len(ALICE)) + ALICE)
    assert guest.socket.recv(4) == b"\0\0\0\0"
    assert guest.call(ApiKey.API_VERSIONS, 3, **SOFTWARE).error_code == 0


@pytest.mark.parametrize("token", [b"\0alice\0wrong", ApiKey.SASL_AUTHENTICATE.to_bytes(2) + bytes(10) + ALICE])
def test_10_and_11_raw_tokens_that_fail(guest: Guest, token: bytes) -> None:
    guest.handshake(version=0)
    guest.fails()
    guest.raw(struct.pack(">i", len(token)) + token)
    guest.waits()


@pytest.mark.parametrize("version", range(3))
def test_12_every_version(guest: Guest, version: int) -> None:
    assert guest.log_in(version=version).error_code == 0


def test_13_a_frame_that_is_too_long(broker: Broker, guest: Guest) -> None:
    guest.fails()
    guest.raw(struct.pack(">i", 20_001))
    guest.waits()
    with Guest(broker) as other:
        other.log_in()
        assert other.call(ApiKey.DELETE_GROUPS, 2, groups_names=["g" * 10_000] * 3).results


def test_14_random_bytes(guest: Guest) -> None:
    guest.raw(struct.pack(">i", 16) + os.urandom(16))
    assert guest.is_closed()


def test_15_where_nobody_is_asked(broker: Broker) -> None:
    with Client(broker.port_of("PLAINTEXT")) as client:
        answer = client.call(ApiKey.SASL_HANDSHAKE, 1, mechanism="PLAIN")
        assert (answer.error_code, answer.mechanisms) == (34, [])
        assert client.call(ApiKey.SASL_AUTHENTICATE, 2, auth_bytes=ALICE).error_code == 34
        assert client.call(ApiKey.API_VERSIONS, 0).error_code == 0


def test_16_a_handshake_in_a_session_without_an_end(guest: Guest) -> None:
    guest.log_in()
    assert guest.handshake() == 34
    assert guest.call(ApiKey.SASL_AUTHENTICATE, 2, auth_bytes=ALICE).error_code == 34
    assert guest.call(ApiKey.METADATA, 4, topics=None).topics


def test_18_a_client_that_goes(broker: Broker) -> None:
    def present() -> int:
        return broker.run(lambda: len(broker._running._entrance._guests.present))  # type: ignore[union-attr]

    with Guest(broker) as other:
        other.handshake()
        other.fails()
        other.send(ApiKey.SASL_AUTHENTICATE, 2, request(ApiKey.SASL_AUTHENTICATE, {"auth_bytes": b"\0alice\0wrong"}))
        other.socket.shutdown(1)
    wait_for(lambda: present() == 0, "nothing to be left")


def test_19_crowds_that_say_nothing() -> None:
    settings = SETTINGS | {"ottla.authentication.timeout.ms": 300, "max.connections": 80}
    with Broker(settings) as broker, Guest(broker) as alice:
        alice.log_in()
        crowd = [Guest(broker) for _ in range(60)]  # of which 40 are let in at a time
        for _ in range(20):
            assert alice.call(ApiKey.METADATA, 4, topics=[]).brokers
        for one in crowd:
            assert one.is_closed()
            one.close()
        assert alice.call(ApiKey.METADATA, 4, topics=[]).brokers


@pytest.mark.parametrize(("token", "told"), [
    (b"\0alice\0wrong", "Invalid username or password"),
    (b"\0nobody\0alice-secret", "Invalid username or password"),
    (b"bob\0alice\0alice-secret", "different from username"),
    (b"alice", "expected 3 tokens, got 1"),
    (b"\0\0pw", "username not specified"),
    (b"\0alice\0", "password not specified"),
])  # fmt: skip
def test_27_what_is_wrong_with_plain(guest: Guest, token: bytes, told: str) -> None:
    guest.handshake()
    guest.fails()
    answer = guest.call(ApiKey.SASL_AUTHENTICATE, 2, auth_bytes=token)
    assert answer.error_code == 58 and told in answer.error_message and "secret" not in answer.error_message
    guest.waits()


def set_password(broker: Broker, name: str, password: str) -> None:
    salt = os.urandom(16)
    salted = hashlib.pbkdf2_hmac("sha512", password.encode(), salt, 4096)
    change = {"name": name, "mechanism": 2, "iterations": 4096, "salt": salt, "salted_password": salted}
    with Client(broker.port_of("PLAINTEXT")) as admin:
        (row,) = admin.call(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, 0, upsertions=[change]).results
        assert row.error_code == 0


def log_in_by_scram(guest: Guest, user: str, password: str) -> Any:
    """The last answer, whatever it says."""
    client = ScramClient(Mechanism.SCRAM_SHA_512, user, password, nonce_of(os.urandom(24)))
    assert guest.handshake("SCRAM-SHA-512") == 0
    first = guest.call(ApiKey.SASL_AUTHENTICATE, 2, auth_bytes=client.first())
    assert first.error_code == 0
    last = guest.call(ApiKey.SASL_AUTHENTICATE, 2, auth_bytes=client.answer(first.auth_bytes))
    if last.error_code == 0:
        assert client.answer(last.auth_bytes) is None, "it knows the password, too"
    return last


@pytest.mark.parametrize("terminate", [True, False])
def test_a_new_password_closes_connections_if_it_is_to(tmp_path: Path, terminate: bool) -> None:
    path = tmp_path / "audit"
    given = {"ottla.sasl.scram.terminate.on.change": terminate, "ottla.audit.file": str(path)}
    with Broker(SETTINGS | given) as broker:
        set_password(broker, "carol", "pw")
        with Guest(broker) as carol, Guest(broker) as alice:
            assert log_in_by_scram(carol, "carol", "pw").error_code == 0
            alice.log_in()
            set_password(broker, "carol", "other")
            assert alice.call(ApiKey.METADATA, 4, topics=[]).brokers
            if terminate:
                assert carol.is_closed()
            else:
                assert carol.call(ApiKey.METADATA, 4, topics=[]).brokers
            with Guest(broker) as again:
                assert log_in_by_scram(again, "carol", "other").error_code == 0
    rows = [json.loads(line) for line in path.read_text().splitlines() if "User:carol" in line]
    came = rows[0]
    (went,) = [row for row in rows if row["event"] == "disconnected" and row["port"] == came["port"]]
    assert came["event"] == "authenticated"
    assert went["reason"] == ("its user's password was changed or removed" if terminate else "the client closed it")


@pytest.mark.parametrize(("user", "password", "code"), [("carol", "pw", 0), ("carol", "no", 58), ("dave", "pw", 58)])
def test_21_scram(broker: Broker, guest: Guest, user: str, password: str, code: int) -> None:
    set_password(broker, "carol", "pw")
    last = log_in_by_scram(guest, user, password)
    assert last.error_code == code
    assert (last.error_message or "").endswith("with SASL mechanism SCRAM-SHA-512" if code else "")


def test_22_an_unknown_name_looks_the_same_after_a_restart(tmp_path: Path) -> None:
    def challenge(name: str) -> bytes:
        with Broker(SETTINGS, data_dir=tmp_path) as broker, Guest(broker) as guest:
            guest.handshake("SCRAM-SHA-512")
            token = f"n,,n={name},r=abc".encode()
            answer = guest.call(ApiKey.SASL_AUTHENTICATE, 2, auth_bytes=token)
            return bytes(answer.auth_bytes.split(b",", 1)[1])

    once = challenge("mallory")
    assert challenge("mallory") == once
    assert challenge("other") != once and challenge("other").startswith(b"s=")


def test_a_client_is_told_the_listener_that_it_came_by(broker: Broker, guest: Guest) -> None:
    guest.log_in()
    port = broker.port_of("SASL_PLAINTEXT")
    assert [(one.host, one.port) for one in guest.call(ApiKey.METADATA, 4, topics=[]).brokers] == [("127.0.0.1", port)]
    with Client(broker.port_of("PLAINTEXT")) as client:
        (row,) = client.call(ApiKey.METADATA, 4, topics=[]).brokers
        assert row.port == broker.port_of("PLAINTEXT") != port
        (row,) = client.call(ApiKey.DESCRIBE_CLUSTER, 0).brokers
        assert row.port == broker.port_of("PLAINTEXT")


def test_the_advertised_address_is_that_of_the_listener() -> None:
    told = {"advertised.listeners": "PLAINTEXT://one.example:1,OTHER://two.example:2"}
    with Broker(SETTINGS | told) as broker:
        found = []
        for listener in ("PLAINTEXT", "OTHER", "SASL_PLAINTEXT"):
            with Guest(broker, listener) as client:
                if listener != "PLAINTEXT":
                    client.log_in()
                (row,) = client.call(ApiKey.METADATA, 4, topics=[]).brokers
                found.append((row.host, row.port))
        here = "127.0.0.1", broker.port_of("SASL_PLAINTEXT")
        assert found == [("one.example", 1), ("two.example", 2), here]


def test_a_listener_has_its_own_number_of_connections() -> None:
    with Broker(SETTINGS | {"listener.name.plaintext.max.connections": 1}) as broker, Guest(broker) as guest:
        port = broker.port_of("PLAINTEXT")
        with Client(port) as one, Client(port) as two:
            assert one.call(ApiKey.API_VERSIONS, 0).api_keys
            two.send(ApiKey.API_VERSIONS, 0, request(ApiKey.API_VERSIONS, {}))
            assert two.is_silent(0.2)
            assert guest.handshake() == 0
            one.close()
            assert two.answer().api_keys


# -- sessions


@pytest.fixture
def ending(broker: Broker) -> Iterator[Guest]:
    with Guest(broker, "OTHER") as guest:
        assert guest.log_in().session_lifetime_ms == 400
        yield guest


def over(guest: Guest) -> None:
    """Wait until the session is over; nothing comes meanwhile."""
    assert guest.is_silent(0.45)


def test_35_a_session_ends(ending: Guest) -> None:
    assert ending.call(ApiKey.METADATA, 4, topics=[]).brokers
    over(ending)
    ending.send(ApiKey.METADATA, 4, request(ApiKey.METADATA, {"topics": []}))
    assert ending.is_closed()


def test_36_a_session_is_renewed_and_its_member_stays(ending: Guest) -> None:
    group = fresh("group")
    member = ending.call(ApiKey.JOIN_GROUP, 3, group_id=group, protocol_type="consumer", session_timeout_ms=10_000,
                         rebalance_timeout_ms=10_000, protocols=[{"name": "range", "metadata": b""}])  # fmt: skip
    assert member.error_code == 0
    over(ending)
    assert ending.log_in().session_lifetime_ms == 400
    synced = ending.call(ApiKey.SYNC_GROUP, 1, group_id=group, generation_id=1, member_id=member.member_id)
    assert synced.error_code == 0


def test_37_neither_principal_nor_mechanism_changes(broker: Broker, ending: Guest) -> None:
    answer = ending.log_in(b"\0bob\0bob-secret")
    assert answer.error_code == 58
    assert "User:alice" in answer.error_message and "User:bob" in answer.error_message
    assert ending.is_closed()
    with Guest(broker, "OTHER") as other:
        other.log_in()
        assert other.handshake("SCRAM-SHA-512") == 0
        other.send(ApiKey.SASL_AUTHENTICATE, 2, request(ApiKey.SASL_AUTHENTICATE, {"auth_bytes": b"n,,n=alice,r=x"}))
        assert other.is_closed()


def test_38_twice_within_a_second(ending: Guest) -> None:
    assert ending.log_in().error_code == 0
    assert ending.handshake() == 34
    assert ending.call(ApiKey.METADATA, 4, topics=[]).brokers


def test_39_what_is_parked_is_answered(ending: Guest) -> None:
    """A Fetch that waits until the session is over."""
    topics = fetch_fields("orders", 0)["topics"]
    ending.send(ApiKey.FETCH, 4, request(ApiKey.FETCH, {"max_wait_ms": 600, "min_bytes": 1, "topics": topics}))
    assert ending.answer().responses[0].partitions[0].error_code == 0
    ending.send(ApiKey.METADATA, 4, request(ApiKey.METADATA, {"topics": []}))
    assert ending.is_closed()


def test_40_the_same_heartbeat_again_and_again(ending: Guest) -> None:
    group = fresh("group")
    member = ending.call(ApiKey.JOIN_GROUP, 3, group_id=group, protocol_type="consumer", session_timeout_ms=10_000,
                         rebalance_timeout_ms=10_000, protocols=[{"name": "range", "metadata": b""}])  # fmt: skip
    mine = {"group_id": group, "generation_id": 1, "member_id": member.member_id}
    assert ending.call(ApiKey.SYNC_GROUP, 1, **mine).error_code == 0
    for _ in range(5):
        assert ending.call(ApiKey.HEARTBEAT, 1, **mine).error_code == 0
    over(ending)
    ending.send(ApiKey.HEARTBEAT, 1, request(ApiKey.HEARTBEAT, mine))
    assert ending.is_closed()


def test_secrets_are_not_described(broker: Broker) -> None:
    with Client(broker.port_of("PLAINTEXT")) as client:
        asked = [{"resource_type": 4, "resource_name": "1", "configuration_keys": None}]
        (result,) = client.call(ApiKey.DESCRIBE_CONFIGS, 4, resources=asked, include_synonyms=True).results
        rows = {row.name: row for row in result.configs}
        assert rows["sasl.jaas.config"].is_sensitive and rows["sasl.jaas.config"].value is None
        assert "secret" not in str([(row.value, row.synonyms) for row in result.configs])


class Warnings:
    """A log that keeps its warnings."""

    level = "info"

    def __init__(self) -> None:
        self.lines: list[str] = []

    def warning(self, event: str, **fields: Any) -> None:
        self.lines.append(event)

    def debug(self, event: str, **fields: Any) -> None: ...

    info = error = debug


def test_that_nobody_can_log_in_is_told() -> None:
    """And where somebody can, or nobody is asked, it is not."""
    logs = []
    for settings in (SETTINGS, SETTINGS | {"sasl.enabled.mechanisms": "PLAIN"}, {}):
        log = Warnings()
        with Broker(settings, log=log):
            logs.append(any("Nobody can log in by SCRAM" in line for line in log.lines))
    assert logs == [True, False, False]
