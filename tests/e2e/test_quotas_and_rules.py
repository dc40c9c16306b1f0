"""Quotas, SCRAM credentials and access control rules with the admin clients of others, and with Kafka's own tools."""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
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
from kafka import KafkaAdminClient
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

from ottla.protocol.apis import ApiKey
from ottla.testing import Broker, BrokerProcess
from tests.e2e.conftest import Tool
from tests.support.client import Client
from tests.support.clients import confluent
from tests.support.kit import KINDS, Row, kit_of
from tests.support.rules import WITH_RULES

pytestmark = pytest.mark.e2e


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    """A broker that keeps credentials and rules."""
    with Broker(WITH_RULES) as broker:
        yield broker


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


def test_rules_are_refused_where_nobody_would_enforce_them(shared_broker: Broker) -> None:
    """As Kafka does without an authorizer."""
    admin = confluent.admin(shared_broker.bootstrap_servers)
    rule = AclBinding(
        ResourceType.TOPIC, "t", ResourcePatternType.LITERAL, "User:u", "*", AclOperation.READ, AclPermissionType.ALLOW
    )
    for future in (*admin.create_acls([rule]).values(), *admin.delete_acls([EVERY_RULE]).values()):
        with pytest.raises(Exception, match=r"SECURITY_DISABLED.*everybody may do everything"):
            future.result(30)
    assert admin.describe_acls(EVERY_RULE).result(30) == []  # librdkafka tells nobody of the error


# ------------------------------------------------------------------------------------------------------- throttled

RATE = 50_000
RECORDS, RECORD_BYTES = 12, 10_000


@pytest.fixture(scope="module")
def limited() -> Iterator[Broker]:
    """A broker at which every client has a quota for producing and one for fetching."""
    entity = [{"entity_type": "client-id", "entity_name": None}]
    ops = [{"key": key, "value": RATE} for key in ("producer_byte_rate", "consumer_byte_rate")]
    with Broker({"quota.window.num": 2}, topics=dict.fromkeys(KINDS, 1)) as broker, Client(broker.port) as client:
        answer = client.call(ApiKey.ALTER_CLIENT_QUOTAS, 1, entries=[{"entity": entity, "ops": ops}])
        assert [entry.error_code for entry in answer.entries] == [0]
        yield broker


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_clients_bear_quotas(limited: Broker, kind: str) -> None:
    """They get everything to the broker and back, and take the time that their quotas give them."""
    kit = kit_of(kind, limited.bootstrap_servers)
    began = time.monotonic()
    kit.produce(kind, [Row(b"x" * RECORD_BYTES)] * RECORDS, one_by_one=True, client_id=kind)
    assert len(kit.read({(kind, 0): 0}, RECORDS, patience_s=30, client_id=kind)) == RECORDS
    assert time.monotonic() - began > 2


# --------------------------------------------------------------------------------------------- Kafka's own tools


@pytest.fixture
def process(tmp_path: Path) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path, settings=WITH_RULES, topics={"t": 1}) as broker:
        yield broker


@pytest.fixture
def tool(kafkas_tool: Tool, process: BrokerProcess) -> Tool:
    return partial(kafkas_tool, process)


@pytest.fixture
def plain_tool(kafkas_tool: Tool, tmp_path: Path) -> Iterator[Tool]:
    """Of a broker with no settings of its own."""
    with BrokerProcess(tmp_path) as broker:
        yield partial(kafkas_tool, broker)


CONFIGS, ACLS = "kafka.admin.ConfigCommand", "org.apache.kafka.tools.AclCommand"


@pytest.mark.slow
def test_quotas_with_kafka_configs(tool: Tool, process: BrokerProcess) -> None:
    client = ("--entity-type", "clients", "--entity-name", "slow")
    tool(CONFIGS, "--alter", *client, "--add-config", "producer_byte_rate=10000,request_percentage=200")
    everybody = ("--entity-type", "users", "--entity-default")
    tool(CONFIGS, "--alter", *everybody, *client, "--add-config", "consumer_byte_rate=5")
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
    told = {"throttle_cb": lambda event: waits.append(event.throttle_time)}
    producer = confluent.producer(process.bootstrap_servers, client_id=client_id, **told)
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
