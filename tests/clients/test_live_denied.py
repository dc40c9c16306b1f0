"""What a broker's rules deny, and how clients and commands tell it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ottla.broker.core.security.acls import AclOperation, Pattern, Permission, Resource
from ottla.clients import (
    Admin,
    ClusterAuthorizationFailed,
    Consumer,
    GroupAuthorizationFailed,
    NewTopic,
    Producer,
    TopicAuthorizationFailed,
    TransactionalIdAuthorizationFailed,
)
from ottla.clients.security_admin import AclRule, SecurityAdmin
from ottla.testing import Broker
from tests.cli.commands import HERE

pytestmark = pytest.mark.e2e

RULES = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:admin",
}
USERS = {"admin": "admin-secret", "bob": "bob-secret"}


def rule(kind: Resource, name: str, operation: AclOperation) -> AclRule:
    """Bob may do it."""
    return AclRule(kind, name, Pattern.LITERAL, "User:bob", "*", operation, Permission.ALLOW)


MAY_READ = [rule(Resource.TOPIC, "orders", AclOperation.READ), rule(Resource.GROUP, "g", AclOperation.READ)]


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(RULES, topics={"orders": 1, "pay": 1}, sasl=USERS) as broker:
        broker.produce("orders", [b"a"])
        asyncio.run(_permit(broker))
        yield broker


async def _permit(broker: Broker) -> None:
    async with SecurityAdmin(**broker.connection) as admin:
        await admin.add_acls(MAY_READ)
        assert sorted(await admin.list_acls()) == sorted(MAY_READ)


@pytest.fixture
def bob(broker: Broker) -> dict[str, Any]:
    """The options of a client that may read orders in the group g."""
    return broker.client_config("kafka-python", "bob")


async def test_topics(bob: dict[str, Any]) -> None:
    async with Admin(**bob) as admin:
        assert await admin.list_topics() == ["orders"]
        with pytest.raises(TopicAuthorizationFailed) as raised:
            await admin.describe_topics(["pay"])
        assert raised.value.topics == ("pay",)
        with pytest.raises(TopicAuthorizationFailed):
            await admin.create_topics([NewTopic("new", 1)])
        with pytest.raises(ClusterAuthorizationFailed):
            await admin.describe_client_quotas()


async def test_producers(bob: dict[str, Any]) -> None:
    async with Producer(**bob, enable_idempotence=False) as producer:
        with pytest.raises(TopicAuthorizationFailed) as raised:
            await producer.send_and_wait("orders", b"b")
        assert raised.value.topics == ("orders",)
    async with Producer(**bob) as producer:
        with pytest.raises(ClusterAuthorizationFailed, match="to no topic: ask for WRITE on 'orders'"):
            await producer.send_and_wait("orders", b"b")
    producer = Producer(**bob, transactional_id="t")
    with pytest.raises(TransactionalIdAuthorizationFailed):
        await producer.start()
    await producer.stop()


async def test_consumers(bob: dict[str, Any]) -> None:
    """What is denied is raised once, and what is permitted goes on."""
    async with Consumer(**bob, group_id="g", auto_offset_reset="earliest") as consumer:
        consumer.subscribe(["orders", "pay"])
        with pytest.raises(TopicAuthorizationFailed) as raised:
            await consumer.getone()
        assert raised.value.topics == ("pay",)
        assert (await consumer.getone()).value == b"a"
    consumer = Consumer("orders", **bob, group_id="other")
    with pytest.raises(GroupAuthorizationFailed):
        await consumer.start()
    await consumer.stop()


def client_file(broker: Broker, tmp_path: Path, user: str) -> Path:
    config = tmp_path / user
    config.write_text(
        f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism=SCRAM-SHA-512\nsasl.username={user}\n"
        f"sasl.password={USERS[user]}\nbootstrap.servers={broker.bootstrap_servers}\n"
    )
    return config


def test_a_topic_that_somebody_may_not_see_is_not_said_to_be_missing(broker: Broker, tmp_path: Path) -> None:
    words = "--command-config", client_file(broker, tmp_path, "bob")
    lines = tmp_path / "lines"
    lines.write_text("a\n")
    said = HERE.run("produce", "pay", lines, *words, expect=1).stderr
    assert "There is no topic" not in said and "'pay'" in said
    with Broker(RULES, sasl=USERS) as empty:
        said = HERE.run("topics", "list", "--command-config", client_file(empty, tmp_path, "bob")).stderr
    assert "There are no topics yet, or none that you may see" in said


def test_commands(broker: Broker, tmp_path: Path) -> None:
    def ask(user: str, *words: str, expect: int = 0) -> Any:
        return HERE.run(*words, "--command-config", client_file(broker, tmp_path, user), expect=expect, given="a\n")

    def verdict(principal: str, operation: str, *about: str, expect: int = 0) -> str:
        asked = ("--principal", principal, "--operation", operation, *about)
        return str(ask("admin", "acls", "test", *asked, expect=expect).stdout)

    assert "may Read topic 'orders': topic orders literal User:bob" in verdict("User:bob", "Read", "--topic", "orders")
    assert "may not Write" in verdict("User:bob", "Write", "--topic", "orders", expect=1)
    assert "super user" in verdict("User:admin", "Alter", "--cluster")
    ask("admin", "acls", "add", "--allow-principal", "User:bob", "--producer", "--topic", "made")
    assert ask("admin", "acls", "list", "--topic", "made").stdout.count("User:bob") == 3
    assert ask("admin", "acls", "remove", "--topic", "made", "--force").stdout == "3 rules removed.\n"
    assert "access" in ask("bob", "acls", "list", expect=1).stderr
    for command in ("consume", "produce"):
        said = ask("bob", command, "pay", expect=1).stderr
        denied = "Describe topic 'pay': topic authorization failed; ask for access to the topic."
        assert said == f"Error: {denied}\n", "nothing about what the broker would make"
