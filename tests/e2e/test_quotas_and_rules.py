"""Quotas, SCRAM credentials and access control rules with the admin clients of others, and with Kafka's own tools."""

from __future__ import annotations

import asyncio
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import aiokafka
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer
from kafka.admin import (
    ACL,
    ACLFilter,
    ACLOperation,
    ACLPermissionType,
    ACLResourcePatternType,
    ResourcePattern,
    ResourcePatternFilter,
)
from kafka.admin import ResourceType as PythonResourceType
from kafka.admin import ScramMechanism as PythonMechanism
from kafka.admin import UserScramCredentialDeletion as PythonDeletion
from kafka.admin import UserScramCredentialUpsertion as PythonUpsertion

import ottla.clients
from ottla.clients.connection import ClientConnection
from ottla.protocol.message_parts import QuotaEntityPart
from ottla.protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasRequestEntryData,
    AlterClientQuotasResponse,
    OpData,
)
from ottla.testing import Broker, BrokerProcess
from tests.differential.real_kafka import NoJava, jars
from tests.e2e import confluent_client

pytestmark = pytest.mark.e2e

SETTINGS = {"ottla.unenforced.security.apis.enable": "true"}


@pytest.fixture(scope="module")
def keeping() -> Iterator[Broker]:
    """A broker that keeps credentials and rules."""
    with Broker(SETTINGS) as broker:
        yield broker


@pytest.fixture
def admin(keeping: Broker) -> AdminClient:
    return AdminClient({"bootstrap.servers": keeping.bootstrap_servers, **confluent_client.QUIET})


@pytest.fixture
def python_admin(keeping: Broker) -> Iterator[KafkaAdminClient]:
    client = KafkaAdminClient(bootstrap_servers=keeping.bootstrap_servers)
    yield client
    client.close()


EVERY_RULE = AclBindingFilter(
    ResourceType.ANY, None, ResourcePatternType.ANY, None, None, AclOperation.ANY, AclPermissionType.ANY
)


def test_rules_with_confluent(admin: AdminClient) -> None:
    one = AclBinding(
        ResourceType.TOPIC, "t", ResourcePatternType.LITERAL, "User:u", "*", AclOperation.READ, AclPermissionType.ALLOW
    )
    two = AclBinding(
        ResourceType.GROUP, "g", ResourcePatternType.PREFIXED, "User:u", "*", AclOperation.ALL, AclPermissionType.DENY
    )
    for future in admin.create_acls([one, two]).values():
        assert future.result(30) is None
    assert set(admin.describe_acls(EVERY_RULE).result(30)) == {one, two}
    for future in admin.delete_acls([EVERY_RULE]).values():
        assert set(future.result(30)) == {one, two}
    assert admin.describe_acls(EVERY_RULE).result(30) == []


def test_rules_with_kafka_python(python_admin: KafkaAdminClient) -> None:
    pattern = ResourcePattern(PythonResourceType.TOPIC, "t")
    rule = ACL("User:u", "*", ACLOperation.READ, ACLPermissionType.ALLOW, pattern)
    told = python_admin.create_acls([rule])
    assert (told["succeeded"], told["failed"]) == ([rule], [])
    named = ResourcePatternFilter(PythonResourceType.TOPIC, "t", ACLResourcePatternType.LITERAL)
    wanted = ACLFilter(None, None, ACLOperation.ANY, ACLPermissionType.ANY, named)
    found, error = python_admin.describe_acls(wanted)
    assert (found, error.errno) == ([rule], 0)
    ((_, removed, error),) = python_admin.delete_acls([wanted])
    assert (removed, error.errno) == ([rule], 0)


def test_credentials_with_confluent(admin: AdminClient) -> None:
    info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 8192)
    upsertion = UserScramCredentialUpsertion("u", info, b"secret", b"salt")
    for future in admin.alter_user_scram_credentials([upsertion]).values():
        assert future.result(30) is None
    described: Any = admin.describe_user_scram_credentials().result(30)
    assert [(each.mechanism, each.iterations) for each in described["u"].scram_credential_infos] == [
        (ScramMechanism.SCRAM_SHA_256, 8192)
    ]
    deletion = UserScramCredentialDeletion("u", ScramMechanism.SCRAM_SHA_256)
    for future in admin.alter_user_scram_credentials([deletion]).values():
        assert future.result(30) is None
    assert admin.describe_user_scram_credentials().result(30) == {}


def test_credentials_with_kafka_python(python_admin: KafkaAdminClient) -> None:
    python_admin.alter_user_scram_credentials([PythonUpsertion("p", PythonMechanism.SCRAM_SHA_512, "secret")])
    told: Any = python_admin.describe_user_scram_credentials()
    assert [info["mechanism"] for info in told["p"]["credential_infos"]] == [PythonMechanism.SCRAM_SHA_512]
    python_admin.alter_user_scram_credentials([PythonDeletion("p", PythonMechanism.SCRAM_SHA_512)])


def test_nothing_is_enforced_and_nothing_is_promised(broker: Broker) -> None:
    """Without the setting rules are refused, as Kafka does without an authorizer; of credentials the client knows."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers, **confluent_client.QUIET})
    rule = AclBinding(
        ResourceType.TOPIC, "t", ResourcePatternType.LITERAL, "User:u", "*", AclOperation.READ, AclPermissionType.ALLOW
    )
    for future in (*admin.create_acls([rule]).values(), *admin.delete_acls([EVERY_RULE]).values()):
        with pytest.raises(Exception, match=r"SECURITY_DISABLED.*everybody may do everything"):
            future.result(30)
    assert admin.describe_acls(EVERY_RULE).result(30) == []  # librdkafka tells nobody of the error
    upsertion = UserScramCredentialUpsertion("u", ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 8192), b"secret")
    with pytest.raises(Exception, match="not supported by broker"):
        admin.alter_user_scram_credentials([upsertion])["u"].result(30)
    assert admin.describe_user_scram_credentials().result(30) == {}


# ------------------------------------------------------------------------------------------------------- throttled

RATE = 50_000
RECORDS, RECORD_BYTES = 12, 10_000


@pytest.fixture(scope="module")
def limited() -> Iterator[Broker]:
    """A broker at which every client has a quota for producing and one for fetching."""
    with Broker({"quota.window.num": 2}, topics=dict.fromkeys(CLIENTS, 1)) as broker:
        asyncio.run(_limit(broker.bootstrap_servers))
        yield broker


async def _limit(bootstrap: str) -> None:
    ops = [OpData(key=key, value=RATE) for key in ("producer_byte_rate", "consumer_byte_rate")]
    everybody = [QuotaEntityPart(entity_type="client-id", entity_name=None)]
    request = AlterClientQuotasRequest(entries=[AlterClientQuotasRequestEntryData(entity=everybody, ops=ops)])
    host, port = bootstrap.split(":")
    connection = await ClientConnection.connect(host, int(port), client_id="admin", timeout_ms=10_000)
    answer = await connection.send(request, AlterClientQuotasResponse, timeout_ms=10_000)
    assert [entry.error_code for entry in answer.entries] == [0]
    connection.close()


async def _ottla(bootstrap: str, topic: str) -> int:
    async with ottla.clients.Producer(bootstrap_servers=bootstrap, client_id=topic, max_batch_size=1000) as producer:
        for _ in range(RECORDS):
            await producer.send_and_wait(topic, b"x" * RECORD_BYTES)
    options = {"bootstrap_servers": bootstrap, "client_id": topic, "auto_offset_reset": "earliest"}
    async with ottla.clients.Consumer(**options) as consumer:
        consumer.assign([ottla.clients.TopicPartition(topic, 0)])
        return len([await consumer.getone() for _ in range(RECORDS)])


async def _aiokafka(bootstrap: str, topic: str) -> int:
    producer = aiokafka.AIOKafkaProducer(bootstrap_servers=bootstrap, client_id=topic)
    async with producer:
        for _ in range(RECORDS):
            await producer.send_and_wait(topic, b"x" * RECORD_BYTES)
    consumer = aiokafka.AIOKafkaConsumer(
        topic, bootstrap_servers=bootstrap, client_id=topic, auto_offset_reset="earliest"
    )
    async with consumer:
        return len([await consumer.getone() for _ in range(RECORDS)])


async def _confluent(bootstrap: str, topic: str) -> int:
    options = {"bootstrap.servers": bootstrap, "client.id": topic, **confluent_client.QUIET}
    producer = Producer(options)
    for _ in range(RECORDS):
        producer.produce(topic, b"x" * RECORD_BYTES)
        assert producer.flush(30) == 0
    consumer = Consumer({**options, "group.id": topic, "auto.offset.reset": "earliest"})
    consumer.assign([TopicPartition(topic, 0, 0)])
    found = 0
    while found < RECORDS and (message := consumer.poll(30)) is not None:
        found += message.error() is None
    consumer.close()
    return found


async def _kafka_python(bootstrap: str, topic: str) -> int:
    with KafkaProducer(bootstrap_servers=bootstrap, client_id=topic) as producer:
        for _ in range(RECORDS):
            producer.send(topic, b"x" * RECORD_BYTES).get(30)
    with KafkaConsumer(
        topic, bootstrap_servers=bootstrap, client_id=topic, auto_offset_reset="earliest", consumer_timeout_ms=30_000
    ) as consumer:
        return len([record for _, record in zip(range(RECORDS), consumer, strict=False)])


CLIENTS = {"ottla": _ottla, "aiokafka": _aiokafka, "confluent": _confluent, "kafka-python": _kafka_python}


@pytest.mark.slow
@pytest.mark.parametrize("client", CLIENTS)
def test_clients_bear_quotas(limited: Broker, client: str) -> None:
    """They get everything to the broker and back, and take the time that their quotas give them."""
    began = time.monotonic()
    assert asyncio.run(CLIENTS[client](limited.bootstrap_servers, client)) == RECORDS
    assert time.monotonic() - began > 2


# --------------------------------------------------------------------------------------------- Kafka's own tools

Tool = Callable[..., str]


@pytest.fixture(scope="module")
def java() -> list[str]:
    try:
        return ["java", "-Xmx256m", "-XX:TieredStopAtLevel=1", "-cp", f"{jars()}/*"]
    except NoJava as missing:
        pytest.skip(str(missing))


@pytest.fixture
def process(tmp_path: Path) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path, settings=SETTINGS, topics={"t": 1}) as broker:
        yield broker


@pytest.fixture
def tool(java: list[str], process: BrokerProcess) -> Tool:
    return _tool_of(java, process)


@pytest.fixture
def plain_tool(java: list[str], tmp_path: Path) -> Iterator[Tool]:
    """Of a broker with no settings of its own."""
    with BrokerProcess(tmp_path) as broker:
        yield _tool_of(java, broker)


def _tool_of(java: list[str], process: BrokerProcess) -> Tool:
    def run(main: str, *arguments: str) -> str:
        command = [*java, main, "--bootstrap-server", process.bootstrap_servers, *arguments]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    return run


CONFIGS, ACLS = "kafka.admin.ConfigCommand", "org.apache.kafka.tools.AclCommand"


@pytest.mark.slow
def test_quotas_with_kafka_configs(tool: Tool, process: BrokerProcess) -> None:
    client = ("--entity-type", "clients", "--entity-name", "slow")
    tool(CONFIGS, "--alter", *client, "--add-config", "producer_byte_rate=10000,request_percentage=200")
    tool(
        CONFIGS,
        "--alter",
        "--entity-type",
        "users",
        "--entity-default",
        *client,
        "--add-config",
        "consumer_byte_rate=5",
    )
    tool(CONFIGS, "--alter", "--entity-type", "ips", "--entity-name", "10.0.0.1", "--add-config",
         "connection_creation_rate=7")  # fmt: skip
    told = tool(CONFIGS, "--describe", *client)
    assert "producer_byte_rate=10000.0" in told
    assert "request_percentage=200.0" in told
    waits = throttles(process, "slow")
    assert max(waits) > 0.05
    assert max(throttles(process, "fast")) == 0
    process.restart()
    assert max(throttles(process, "slow")) > 0.05
    assert "connection_creation_rate=7.0" in tool(CONFIGS, "--describe", "--entity-type", "ips")
    tool(CONFIGS, "--alter", *client, "--delete-config", "producer_byte_rate,request_percentage")
    assert "producer_byte_rate" not in tool(CONFIGS, "--describe", *client)
    assert max(throttles(process, "slow")) == 0


def throttles(process: BrokerProcess, client_id: str) -> list[float]:
    """For how long a real producer was told to wait, in seconds; it goes on all the same."""
    waits: list[float] = [0.0]
    producer = Producer(
        {
            "bootstrap.servers": process.bootstrap_servers,
            "client.id": client_id,
            "linger.ms": 0,
            "throttle_cb": lambda event: waits.append(event.throttle_time),
            **confluent_client.QUIET,
        }
    )
    failed: list[Any] = []
    for _ in range(3):
        producer.produce("t", b"x" * 50_000, on_delivery=lambda error, message: error and failed.append(error))
        assert producer.flush(30) == 0
        producer.poll(0)
        time.sleep(0)
    assert not failed
    return waits


@pytest.mark.slow
def test_credentials_with_kafka_configs(tool: Tool) -> None:
    user = ("--entity-type", "users", "--entity-name", "alice")
    tool(CONFIGS, "--alter", *user, "--add-config", "SCRAM-SHA-256=[iterations=8192,password=secret]")
    assert "SCRAM-SHA-256=iterations=8192" in tool(CONFIGS, "--describe", *user)
    tool(CONFIGS, "--alter", *user, "--delete-config", "SCRAM-SHA-256")
    assert "SCRAM" not in tool(CONFIGS, "--describe", *user)


@pytest.mark.slow
def test_users_are_described_by_default(plain_tool: Tool) -> None:
    """The tool asks for credentials whenever it describes users."""
    users = ("--entity-type", "users")
    assert plain_tool(CONFIGS, "--describe", *users) == ""
    plain_tool(CONFIGS, "--alter", *users, "--entity-name", "u", "--add-config", "producer_byte_rate=10000")
    assert "producer_byte_rate=10000.0" in plain_tool(CONFIGS, "--describe", *users)


@pytest.mark.slow
def test_what_was_just_set_is_described(plain_tool: Tool) -> None:
    """Keys that Kafka knows are shown, though there are no such threads here."""
    broker = ("--entity-type", "brokers", "--entity-name", "1")
    plain_tool(CONFIGS, "--alter", *broker, "--add-config", "num.io.threads=9")
    assert "num.io.threads=9 sensitive=false" in plain_tool(CONFIGS, "--describe", *broker)
    plain_tool(CONFIGS, "--alter", *broker, "--add-config", "plugin.secret=sesame")
    assert "plugin.secret=null sensitive=true" in plain_tool(CONFIGS, "--describe", *broker)


@pytest.mark.slow
def test_rules_with_kafka_acls(tool: Tool, process: BrokerProcess) -> None:
    tool(ACLS, "--add", "--allow-principal", "User:bob", "--producer", "--topic", "t")
    listed = tool(ACLS, "--list", "--topic", "t")
    for operation in ("WRITE", "DESCRIBE", "CREATE"):
        assert f"operation={operation}, permissionType=ALLOW" in listed
    process.restart()
    after = tool(ACLS, "--list", "--topic", "t")
    assert sorted(after.splitlines()) == sorted(listed.splitlines())  # the tool prints a set
    tool(ACLS, "--remove", "--force", "--topic", "t")
    assert "bob" not in tool(ACLS, "--list")
