"""No secret is told: each of every kind is planted, used rightly and wrongly, and looked for wherever one could be.

A secret is looked for as it is, in Base64, in hexadecimal, and as a URL has it.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import secrets
import time
import traceback
import urllib.parse
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization

from ottla.broker.core.security.users_file import user_line
from ottla.broker.runtime.mechanisms import plain_users, read_users
from ottla.broker.settings import BadSetting
from ottla.cli.serve import settings_of
from ottla.clients import Admin, AuthenticationFailed
from ottla.observe.http.api import ENDPOINTS
from ottla.protocol.apis import ApiKey
from ottla.protocol.sasl.jaas import parse_jaas
from ottla.protocol.sasl.oauthbearer import OAuthBearerClient
from ottla.protocol.sasl.scram import Mechanism, credential_of, salted_password
from ottla.testing.authority import authority
from tests.cli.commands import Ottla
from tests.core.security.issuer_keys import jwk, jwks, private, token
from tests.hostile.logins import first_token, handshake, log_in, raw, wrapped
from tests.hostile.victim import Victim
from tests.observe.http.conftest import ask
from tests.support.client import Client, batch
from tests.support.peer import ConnectionClosed
from tests.support.rules import WITH_RULES
from tests.support.waiting import wait_for

pytestmark = pytest.mark.e2e

SASL, TLS = "SASL_PLAINTEXT", "SASL_SSL"
SHA_512 = Mechanism.SCRAM_SHA_512
MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule required"


class Secrets(dict[str, bytes]):
    """What must not be told, by what it is."""

    def made(self, what: str) -> str:
        """A new one, of a kind that nothing else looks like."""
        text = f"s3cret-{what}-{secrets.token_hex(6)}"
        self[what] = text.encode()
        return text

    def found(self, data: bytes) -> list[str]:
        """Those that are in some data, in whatever form."""
        return [what for what, secret in self.items() if any(form in data for form in _forms(secret))]


def _forms(secret: bytes) -> list[bytes]:
    """The texts by which a secret would be told. Of Base64 those that do not depend on what stands before it."""
    forms = [secret, secret.hex().encode(), urllib.parse.quote_from_bytes(secret).encode()]
    for before in range(3):
        encoded = base64.b64encode(bytes(before) + secret)
        forms += [encoded[4:-4], base64.urlsafe_b64encode(bytes(before) + secret)[4:-4]]
    return forms


PLANTED = Secrets()


class Place:
    """A broker with secrets of every kind, which has been used."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.data = folder / "data"
        self.issuer = private("ES256")
        files = {
            "jwks.json": jwks(jwk(self.issuer, kid="one")),
            "plain-password": PLANTED.made("plain-of-a-file"),
            "token": PLANTED.made("http-token"),
            "users": self._users(),
        }
        for name, text in files.items():
            (folder / name).write_text(text)
            (folder / name).chmod(0o600)
        self.plain = PLANTED.made("plain")
        self.scram = PLANTED.made("scram")
        config = {
            **WITH_RULES,
            "super.users": "User:ANONYMOUS;User:alice",
            "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512,OAUTHBEARER",
            "sasl.jaas.config": f'{MODULE} user_alice="{self.plain}" user_bob="{PLANTED.made("plain-of-bob")}";',
            "listener.name.sasl_ssl.plain.sasl.jaas.config": (
                f'{MODULE} user_alice="${{file:{folder}/plain-password}}";'
            ),
            "ssl.keystore.location": self._keystore(),
            "ssl.key.password": self.key_password,
            "sasl.oauthbearer.jwks.endpoint.url": (folder / "jwks.json").as_uri(),
            "sasl.oauthbearer.expected.issuer": "https://issuer",
            "sasl.oauthbearer.expected.audience": "ottla",
            "connection.failed.authentication.delay.ms": "1",
            "ottla.audit.file": str(folder / "audit.jsonl"),
            "ottla.recorder.file": str(folder / "recording.jsonl"),
            "ottla.http.token.file": str(folder / "token"),
            "group.initial.rebalance.delay.ms": "0",
        }
        self.config = folder / "server.properties"
        self.config.write_text("".join(f"{key}={value}\n" for key, value in config.items()))
        self.config.chmod(0o600)
        self.victim = Victim(
            self.data,
            listeners=(SASL, TLS),
            http=False,
            arguments=(
                *("--config", str(self.config), "--users-file", str(folder / "users"), "--log-level", "debug"),
                *("--http", "0"),
            ),
        )

    def _users(self) -> str:
        salt = secrets.token_bytes(16)
        salted = salted_password(SHA_512, PLANTED.made("scram-of-a-file"), salt, 4096)
        kept = credential_of(SHA_512, salted, salt, 4096)
        PLANTED.update({"salted password": salted, "salt": salt})
        PLANTED.update({"stored key": kept.stored_key, "server key": kept.server_key})
        return user_line("carol", SHA_512, kept)

    def _keystore(self) -> str:
        """The server's certificate with its key under a password."""
        self.key_password = PLANTED.made("key-password")
        pem = Path(authority().serverfile).read_bytes()
        key = serialization.load_pem_private_key(pem, None)
        plain = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        PLANTED["private key"] = b"".join(plain.splitlines()[1:2])[10:60]
        encrypted = key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.BestAvailableEncryption(self.key_password.encode()),
        )
        path = self.folder / "server.pem"
        path.write_bytes(encrypted + pem[pem.index(b"-----BEGIN CERTIFICATE") :])
        path.chmod(0o600)
        return str(path)

    def jwt(self, what: str, **claims: Any) -> str:
        """A token, of which nothing but the header may be told."""
        now = int(time.time())
        text = token(self.issuer, headers={"kid": "one"}, iat=now, exp=now + 600, **claims)
        for part, name in zip(text.split(".")[1:], ("claims", "signature"), strict=True):
            PLANTED[f"{name} of {what}"] = part.encode()
        return text

    def use(self) -> None:
        """Let clients come, right ones and wrong ones."""
        with Client(self.victim.port) as admin:
            topic = admin.topic()
            admin.produce(topic, batch(b"v"))
            salt = secrets.token_bytes(16)
            salted = hashlib.pbkdf2_hmac("sha512", self.scram.encode(), salt, 4096)
            PLANTED.update({"salt of the wire": salt, "salted password of the wire": salted})
            change = {"name": "dora", "mechanism": 2, "iterations": 4096, "salt": salt, "salted_password": salted}
            admin.call(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, 0, upsertions=[change])
            self._alter(admin)
            with self.guest() as member:
                assert log_in(member, "PLAIN", "alice", self.plain) == 0
                assert member.heartbeat("team", member.stable("team", session_ms=6_000)) == 0
                member.commit("team", topic)
        with self.guest() as dora:
            assert log_in(dora, "SCRAM-SHA-512", "dora", self.scram) == 0
            dora.metadata("denied")
        for text in (self.jwt("a token"), self.jwt("an expired token", nbf=2_000_000_000)):
            with self.guest() as bearer:
                first = OAuthBearerClient(text).first()
                bearer.raw(handshake("OAUTHBEARER") + wrapped(first))
                bearer.next_frame()
                bearer.next_frame()
        self._fail()

    def _alter(self, admin: Client) -> None:
        """Settings with secrets, which are refused or not."""
        for key, value in (
            ("listener.name.sasl_ssl.ssl.key.password", PLANTED.made("altered-key-password")),
            ("listener.name.sasl_ssl.ssl.keystore.key", PLANTED.made("altered-key")),
            ("sasl.jaas.config", f'{MODULE} user_alice="{PLANTED.made("altered-plain")}";'),
            ("ssl.truststore.password", PLANTED.made("altered-trust")),
            ("num.partitions", PLANTED.made("no-number") and "x"),
        ):
            entry = {"name": key, "config_operation": 0, "value": value}
            row = {"resource_type": 4, "resource_name": "1", "configs": [entry]}
            told = admin.call(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, resources=[row], validate_only=False)
            assert not PLANTED.found(repr(told).encode()), key

    def _fail(self) -> None:
        """Wrong passwords and tokens, in the right form and in none, where they belong and where they do not."""
        rng = Random(1)
        for mechanism in ("PLAIN", "SCRAM-SHA-512"):
            wrong = PLANTED.made(f"wrong-{mechanism}")
            for user in ("alice", "dora", "nobody"):
                with self.guest() as guest:
                    assert log_in(guest, mechanism, user, wrong) == 58
        shown = PLANTED.made("shown-at-the-wrong-place").encode()
        first, _ = first_token(rng, "PLAIN", "alice", shown.decode())
        for data in (
            raw(first),
            wrapped(first),
            handshake("PLAIN") + raw(first),
            handshake("PLAIN", 0) + raw(first + b"\0more"),
            handshake("PLAIN") + wrapped(b"\0\0" + shown),
            handshake("PLAIN") + wrapped(shown),
            handshake("SCRAM-SHA-512") + wrapped(b"n,,n=alice,r=abc,p=" + shown),
            handshake("OAUTHBEARER") + wrapped(b"n,,\1auth=Bearer " + shown + b"\1\1"),
            handshake("OAUTHBEARER") + wrapped(b"n,,\1auth=Bearer a." + shown + b".c\1\1") + wrapped(b"\1"),
            b"\x7f\xff" + shown,
        ):
            with self.guest() as guest, suppress(ConnectionClosed, OSError):
                guest.raw(data)
                while True:
                    frame = guest.next_frame()
                    assert not PLANTED.found(frame.rest)
        for wrong in (PLANTED.made("wrong-http-token"), ""):
            answer = ask(self.http, "/v1/cluster", Authorization=f"Bearer {wrong}")
            assert answer.status == 401 and not PLANTED.found(answer.body)

    def guest(self) -> Client:
        return Client(self.victim.ports[SASL])

    @property
    def http(self) -> str:
        """Where HTTP is."""
        found = [line for line in self.victim.log_text().splitlines() if "http://" in line]
        return "http://" + found[0].partition("http://")[2].split()[0].rstrip("/")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    place = Place(tmp_path_factory.mktemp("place"))
    with place.victim:
        wait_for(lambda: "http://" in place.victim.log_text(), "HTTP is served")
        place.use()
        yield place


def test_a_secret_is_found_in_whatever_form() -> None:
    """The instrument of this file."""
    planted = Secrets()
    text = planted.made("x").encode()
    for told in (text, text.hex().encode(), base64.b64encode(b"user:" + text + b"!"), b"a" + text + b"b"):
        assert planted.found(b"..." + told + b"...") == ["x"]
    assert planted.found(b"s3cret") == []


def test_no_line_of_the_log_tells_one(place: Place) -> None:
    log = place.victim.log_text()
    assert "authentication_failed" in log and "[debug" in log
    assert PLANTED.found(log.encode()) == []


def test_the_audit_tells_none(place: Place) -> None:
    path = place.folder / "audit.jsonl"
    wait_for(lambda: path.exists() and "credential_set" in path.read_text(), "the audit")
    assert PLANTED.found(path.read_bytes()) == []


def test_neither_recordings_nor_why_tell_one(place: Place) -> None:
    wait_for(lambda: list(place.folder.glob("recording*")), "a recording")
    said = [path.read_bytes() for path in place.folder.glob("recording*")]
    ottla = Ottla(f"127.0.0.1:{place.victim.port}")
    for arguments in (
        ("why", "team"),
        ("why", "team", "--format", "json"),
        ("timeline", "team"),
        ("groups", "describe", "team"),
        ("users", "list"),
        ("acls", "list"),
        ("configs", "describe", "--broker"),
    ):
        result = ottla.run(*arguments, expect=None)
        said.append(result.output.encode())
    assert any(b"team" in text for text in said[-7:])
    assert PLANTED.found(b"\n".join(said)) == []


def test_no_answer_of_http_tells_one(place: Place) -> None:
    bearer = "Bearer " + PLANTED["http-token"].decode()
    paths = ["/", "/metrics", "/healthz", "/readyz", "/openapi.json", "/v1/openapi.json", "/nothing"]
    paths += [one.path.replace("{group}", "team").replace("{topic}", "wire") for one in ENDPOINTS]
    codes = []
    for path in paths:
        for headers in ({"Authorization": bearer}, {}):
            answer = ask(place.http, path, **headers)
            codes.append(answer.status)
            assert PLANTED.found(answer.body + repr(answer.headers).encode()) == [], path
    assert codes.count(200) > 8 and 401 in codes


def test_what_is_described_tells_none(place: Place) -> None:
    with Client(place.victim.port) as admin:
        asked = [{"resource_type": 4, "resource_name": name, "configuration_keys": None} for name in ("", "1")]
        told = [
            admin.call(ApiKey.DESCRIBE_CONFIGS, 4, resources=asked, include_synonyms=True, include_documentation=True),
            admin.call(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, 0, users=None),
        ]
    rows = {row.name: row for row in told[0].results[1].configs}
    assert rows["sasl.jaas.config"].is_sensitive and rows["ssl.key.password"].is_sensitive
    assert "dora" in repr(told[1])
    assert PLANTED.found(repr(told).encode()) == []


def test_doctor_and_check_tell_none(place: Place) -> None:
    ottla = Ottla()
    ottla_http = "ottla.http.listen=127.0.0.1:0"
    listeners = f"listeners=SASL_PLAINTEXT://127.0.0.1:{place.victim.ports[SASL]},SASL_SSL://127.0.0.1:0"
    common = ("--config", place.config, "--set", listeners, "--set", ottla_http)
    said = ottla.run("doctor", *common, "--no-disk", expect=None).output
    said += ottla.run("doctor", *common, "--no-disk", "--format", "json", expect=None).output
    said += ottla.run("serve", *common, "--check", expect=None).output
    assert "SASL" in said
    assert PLANTED.found(said.encode()) == []


def test_the_data_directory_has_nothing_but_salted_forms(place: Place) -> None:
    """Of users the catalog has salts and keys; and it has what was altered of settings, which only the owner reads."""
    kept = {"salt", "stored key", "server key", "salt of the wire"}
    allowed = kept | {what for what in PLANTED if what.startswith("altered-")}
    for path in [one for one in place.data.rglob("*") if one.is_file()]:
        found = set(PLANTED.found(path.read_bytes()))
        assert found <= (allowed if path.name.startswith("catalog.json") else set()), (path, found)
        if found:
            assert path.stat().st_mode & 0o077 == 0
    assert place.data.stat().st_mode & 0o077 == 0
    assert (place.data / "sasl.secret").stat().st_mode & 0o077 == 0
    secret = (place.data / "sasl.secret").read_bytes()
    assert secret not in (place.data / "catalog.json").read_bytes()
    assert "dora" in (place.data / "catalog.json").read_text()


# -- what a process shows of itself


def shown(error: BaseException) -> bytes:
    """All of an error that anybody might print, with the errors behind it."""
    return "".join(traceback.format_exception(error)).encode() + repr(error).encode()


def test_settings_and_their_errors_show_none(place: Place, tmp_path: Path) -> None:
    settings = settings_of(str(place.config), ()).settings
    objects: list[object] = [settings, settings.describe(), parse_jaas(settings.sasl_jaas_config)]
    objects.append(plain_users("SASL_PLAINTEXT", settings))
    assert PLANTED.found(repr(objects).encode()) == []
    text = PLANTED.made("bad-jaas")
    bad = tmp_path / "users"
    for jaas in (f'{MODULE} user_alice="{text}', f"{MODULE} user_alice={text}!;", f'{MODULE} "{text}"'):
        with pytest.raises(BadSetting) as raised:
            plain_users("L", settings_of(None, (f"sasl.jaas.config={jaas}",)).settings)
        assert PLANTED.found(shown(raised.value)) == [], jaas
    bad.write_text(f"alice:{text}\n")
    with pytest.raises(BadSetting) as raised:
        read_users(str(bad), "--users-file")
    assert PLANTED.found(shown(raised.value)) == []


@pytest.mark.parametrize("arguments", [
    ("--set", "ssl.key.password={0}", "--set", "ssl.keystore.key={0}"),
    ("--add-scram", "SCRAM-SHA-512=[name=x,password={0}"),
    ("--add-scram", "SCRAM-SHA-1=[name=x,password={0}]"),
    ("--set", "sasl.jaas.config={0}", "--set", "listeners=SASL_PLAINTEXT://127.0.0.1:0"),
    ("--password", "{0}"),
])  # fmt: skip
def test_a_start_that_fails_shows_none(arguments: tuple[str, ...]) -> None:
    text = PLANTED.made("argument")
    listening = ("--set", "listeners=SSL://127.0.0.1:0") if "listeners" not in str(arguments) else ()
    given = [one.format(text) for one in arguments]
    result = Ottla().run("serve", "--check", "--ephemeral", *listening, *given, expect=None)
    assert result.exit_code != 0
    assert PLANTED.found(result.output.encode()) == [], result.output


async def test_a_client_that_fails_shows_none(place: Place) -> None:
    wrong = PLANTED.made("wrong-of-our-client")
    for mechanism in ("PLAIN", "SCRAM-SHA-512"):
        admin = Admin(
            bootstrap_servers=f"127.0.0.1:{place.victim.ports[SASL]}",
            security_protocol="SASL_PLAINTEXT",
            sasl_mechanism=mechanism,
            sasl_plain_username="alice",
            sasl_plain_password=wrong,
        )
        with pytest.raises(AuthenticationFailed) as raised:
            async with admin:
                await admin.list_topics()
        assert PLANTED.found(shown(raised.value) + repr(admin).encode()) == []
    assert os.environ.get("OTTLA_PASSWORD") is None and json.dumps(wrong)
