"""Clients that tell a broker who they are, over real sockets: the included one, and others beside it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from aiokafka.abc import AbstractTokenProvider
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import KafkaError as AiokafkaError
from confluent_kafka.admin import AdminClient
from kafka import KafkaAdminClient

from ottla.clients import Admin, AuthenticationFailed, Consumer, Producer
from ottla.clients.security_admin import SecurityAdmin
from ottla.protocol.sasl.scram import Mechanism
from ottla.testing import Broker
from tests.cli.commands import HERE
from tests.core.security.issuer_keys import jwk, jwks, private, token

pytestmark = pytest.mark.e2e

PASSWORDS = {"alice": "alice-secret", "a,b=c": "with = and ,"}
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
KEY = private("ES256")


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """With two users and an issuer of tokens; sessions of the listener QUICK last two seconds."""
    folder = tmp_path_factory.mktemp("sasl")
    (folder / "jwks.json").write_text(jwks(jwk(KEY, kid="one")))
    lines = [_set(folder, name, password) for name, password in PASSWORDS.items()]
    (folder / "users").write_text("".join(lines))
    settings = {
        "listeners": "SASL_PLAINTEXT://127.0.0.1:0,QUICK://127.0.0.1:0",
        "listener.security.protocol.map": "SASL_PLAINTEXT:SASL_PLAINTEXT,QUICK:SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER",
        "ottla.sasl.plain.users.file": str(folder / "users"),
        "sasl.oauthbearer.jwks.endpoint.url": (folder / "jwks.json").as_uri(),
        "sasl.oauthbearer.expected.audience": "ottla",
        "sasl.oauthbearer.expected.issuer": "https://issuer",
        "connection.failed.authentication.delay.ms": "20",
        "listener.name.quick.connections.max.reauth.ms": "2000",
    }
    with Broker(settings, topics={"orders": 1}, data_dir=folder / "data") as broker:
        yield broker


def _set(folder: Path, name: str, password: str) -> str:
    """Make a user of the data directory, for both mechanisms; gives a line for PLAIN."""
    file = folder / "password"
    file.write_text(password)
    for mechanism in MECHANISMS[1:]:
        secret = "--password-file", file, "--iterations", 4096, "--mechanism", mechanism
        HERE.run("users", "set", name, "--data-dir", folder / "data", *secret)
    return HERE.run("users", "hash", name, "--password-file", file, "--iterations", 4096).stdout


class Tokens(AbstractTokenProvider):
    """Tokens of the issuer, for the included client and for aiokafka."""

    async def token(self) -> str:
        import time

        return token(KEY, headers={"kid": "one"}, iat=int(time.time()), exp=int(time.time()) + 60)

    def extensions(self) -> dict[str, str]:
        return {}


def options(broker: Broker, mechanism: str, name: str = "alice", password: str | None = None) -> dict[str, Any]:
    """As the included client, aiokafka and kafka-python name them."""
    who: dict[str, Any] = {
        "sasl_plain_username": name,
        "sasl_plain_password": PASSWORDS[name] if password is None else password,
    }
    return {
        "bootstrap_servers": broker.bootstrap_servers,
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": mechanism,
        **({"sasl_oauth_token_provider": Tokens()} if mechanism == "OAUTHBEARER" else who),
    }


@pytest.mark.parametrize("name", PASSWORDS)
@pytest.mark.parametrize("mechanism", [*MECHANISMS, "OAUTHBEARER"])
async def test_the_included_client(broker: Broker, mechanism: str, name: str) -> None:
    async with Admin(**options(broker, mechanism, name)) as admin:
        assert "orders" in await admin.list_topics()


@pytest.mark.parametrize("mechanism", MECHANISMS)
async def test_a_wrong_password(broker: Broker, mechanism: str) -> None:
    for name, password in (("alice", "other"), ("nobody", "other")):
        with pytest.raises(AuthenticationFailed) as raised:
            await Admin(**options(broker, mechanism, name, password)).start()
        assert "nvalid" in str(raised.value) and "other" not in str(raised.value)


@pytest.mark.parametrize("mechanism", [*MECHANISMS, "OAUTHBEARER"])
async def test_aiokafka(broker: Broker, mechanism: str) -> None:
    admin = AIOKafkaAdminClient(**options(broker, mechanism))
    await admin.start()
    assert "orders" in await admin.list_topics()
    await admin.close()


async def test_aiokafka_with_a_wrong_password(broker: Broker) -> None:
    admin = AIOKafkaAdminClient(**options(broker, "SCRAM-SHA-512", password="other"))
    with pytest.raises(AiokafkaError):
        await admin.start()
    await admin.close()


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_kafka_python(broker: Broker, mechanism: str) -> None:
    admin = KafkaAdminClient(**options(broker, mechanism))
    assert "orders" in admin.list_topics()
    admin.close()


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_librdkafka(broker: Broker, mechanism: str) -> None:
    given = {
        "bootstrap.servers": broker.bootstrap_servers,
        "security.protocol": "sasl_plaintext",
        "sasl.mechanism": mechanism,
        "sasl.username": "a,b=c",
        "sasl.password": PASSWORDS["a,b=c"],
    }
    assert "orders" in AdminClient(given).list_topics(timeout=20).topics


async def test_sessions_are_renewed_while_consuming(broker: Broker) -> None:
    where = options(broker, "SCRAM-SHA-512") | {"bootstrap_servers": f"127.0.0.1:{broker.port_of('QUICK')}"}
    async with Producer(**where) as producer, Consumer("orders", **where, group_id="g") as consumer:
        ends = asyncio.get_running_loop().time() + 4.5
        seen = 0
        while asyncio.get_running_loop().time() < ends:
            await producer.send_and_wait("orders", b"%d" % seen)
            assert (await consumer.getone()).value == b"%d" % seen
            seen += 1
            await asyncio.sleep(0.05)
        assert seen > 10


async def test_a_password_that_is_set_holds_at_once(broker: Broker) -> None:
    mechanism = Mechanism.SCRAM_SHA_512
    async with SecurityAdmin(**options(broker, "SCRAM-SHA-512")) as admin:
        await admin.set_user("carol", "first", mechanism, 4096)
        assert (await admin.list_users())["carol"] == [(mechanism, 4096)]
        for password in ("first", "second"):
            await admin.set_user("carol", password, mechanism, 4096)
            async with Admin(**options(broker, "SCRAM-SHA-512", "carol", password)) as carols:
                assert "orders" in await carols.list_topics()
        await admin.remove_user("carol", mechanism)
        with pytest.raises(AuthenticationFailed):
            await Admin(**options(broker, "SCRAM-SHA-512", "carol", "second")).start()


def test_commands(broker: Broker, tmp_path: Path) -> None:
    config = tmp_path / "client.properties"
    config.write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=SCRAM-SHA-512\n"
        "sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required "
        'username="alice" password="alice-secret";\n'
    )
    where = "-b", broker.bootstrap_servers
    assert "orders" in HERE.run("topics", "list", *where, "--command-config", config).stdout
    said = HERE.run("topics", "list", *where, expect=1).stderr
    assert "closes the connection" in said and "ottla help connecting" in said
    config.write_text(config.read_text().replace("alice-secret", "other-secret"))
    said = HERE.run("topics", "list", *where, "--command-config", config, expect=1).stderr
    assert "invalid credentials with SASL mechanism SCRAM-SHA-512" in said and "other-secret" not in said
