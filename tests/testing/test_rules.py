"""`Broker(acls=…)`, `denied`, `oauth` and `expire_sessions`: what tests of rights and of sessions need."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from ottla.clients import Admin, Consumer, KafkaError, Producer, TopicAuthorizationFailed
from ottla.clients import AuthenticationFailed as NotLetIn
from ottla.testing import Broker
from ottla.testing.rules import rules_of

USERS = {"alice": "alice-secret", "admin": "admin-secret"}


class Tokens:
    """Gives a client one token."""

    def __init__(self, token: str) -> None:
        self._token = token

    async def token(self) -> str:
        return self._token

    def extensions(self) -> dict[str, str]:
        return {}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("User:alice ALLOW READ topic:orders", "ALLOW READ on TOPIC:LITERAL:orders for User:alice from *"),
        ("User:a DENY all topic:*", "DENY ALL on TOPIC:LITERAL:* for User:a from *"),
        ("User:a ALLOW write topic:pay.*", "ALLOW WRITE on TOPIC:PREFIXED:pay. for User:a from *"),
        (
            "User:a ALLOW ALTER cluster from ::1",
            "ALLOW ALTER on CLUSTER:LITERAL:kafka-cluster for User:a from 0:0:0:0:0:0:0:1",
        ),
    ],
)
def test_rules_are_read(text: str, said: str) -> None:
    assert [str(one) for one in rules_of([text])] == [said]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "alice ALLOW READ topic:orders",
        "User:a ALLOW READ orders",
        "User:a ALLOW READ topic:",
        "User:a MAY READ topic:a",
        "User:a ALLOW LOOK topic:a",
        "User:a ALLOW READ topic:a at b",
        "User: ALLOW READ topic:a",
        "User:a ALLOW READ share:a",
    ],
)
def test_what_is_no_rule(text: str) -> None:
    with pytest.raises(ValueError, match=r"^acls: "):
        rules_of([text])


def test_what_code_lacks_is_told() -> None:
    rules = ["User:alice ALLOW READ topic:orders"]
    with Broker(topics=["orders", "other"], sasl=("PLAIN", USERS), acls=rules, super_users=["User:admin"]) as broker:
        broker.produce("orders", [b"a"])
        assert [row.value for row in broker.records("orders")] == [b"a"], "the verbs of tests are those of a super user"
        assert broker.denied == []

        async def write() -> None:
            options = broker.connection | {"sasl_plain_username": "alice", "sasl_plain_password": "alice-secret"}
            async with Producer(**options, enable_idempotence=False) as producer:
                await producer.send_and_wait("orders", b"b", partition=0)

        with pytest.raises(TopicAuthorizationFailed):
            asyncio.run(write())
        assert [(one["principal"], one["operation"], one["name"]) for one in broker.denied] == [
            ("User:alice", "WRITE", "orders")
        ]


def test_no_rule_at_all_allows_nothing() -> None:
    with Broker(topics=["orders"], acls=[]) as broker, pytest.raises(KafkaError):
        broker.produce("orders", [b"a"])


async def topics_of(broker: Broker, token: str) -> Any:
    options = broker.connection | {"sasl_oauth_token_provider": Tokens(token)}
    async with Admin(**options) as admin:
        return await admin.list_topics()


def test_tokens() -> None:
    with Broker(topics=["orders"], sasl="OAUTHBEARER", acls=["User:alice ALLOW DESCRIBE topic:orders"],
                super_users=["User:user"]) as broker:  # fmt: skip
        broker.produce("orders", [b"a"])
        assert asyncio.run(topics_of(broker, broker.oauth("alice"))) == ["orders"]
        assert asyncio.run(topics_of(broker, broker.oauth("bob"))) == []
        for token in (broker.oauth("alice", expires_in=-60), broker.oauth("alice", aud="others"), broker.oauth(sub="")):
            with pytest.raises(NotLetIn):
                asyncio.run(topics_of(broker, token))


def test_tokens_are_of_the_brokers_time() -> None:
    with Broker(sasl="OAUTHBEARER") as broker:
        token = broker.oauth("alice", expires_in=60)
        broker.clock.freeze()
        broker.clock.advance(seconds=3_600)
        with pytest.raises(NotLetIn):
            asyncio.run(topics_of(broker, token))
        asyncio.run(topics_of(broker, broker.oauth("alice")))


def test_there_are_no_tokens_without_oauthbearer() -> None:
    with Broker(sasl="PLAIN") as broker, pytest.raises(RuntimeError, match="sasl='OAUTHBEARER'"):
        broker.oauth("alice")


def test_sessions_end_when_a_test_says_so() -> None:
    settings = {"connections.max.reauth.ms": 3_600_000}
    with Broker(settings, topics=["orders"], sasl=("PLAIN", USERS)) as broker:
        broker.produce("orders", [b"a", b"b"])

        async def read() -> None:
            async with Consumer("orders", **broker.connection, group_id="g", auto_offset_reset="earliest") as consumer:
                assert (await consumer.getone()).value == b"a"
                assert await asyncio.to_thread(broker.expire_sessions) > 0
                assert (await consumer.getone()).value == b"b"
                await asyncio.to_thread(broker.produce, "orders", b"c")
                assert (await consumer.getone()).value == b"c", "it has connected again"

        asyncio.run(read())


def test_sessions_without_an_end_do_not_end() -> None:
    with Broker(topics=["orders"], sasl=("PLAIN", USERS)) as broker:
        broker.produce("orders", [b"a"])
        assert broker.expire_sessions() == 0


def test_settings_of_one_listener_are_described_and_secrets_are_not() -> None:
    """Kafka lists what it was given for a listener among the settings of a broker."""
    given = {"listener.name.x.max.connections": "5", "listener.name.x.ssl.keystore.password": "hush-hush"}

    async def described(broker: Broker) -> Any:
        async with Admin(**broker.connection) as admin:
            return await admin.describe_configs(brokers=[broker.settings.node_id], keys=list(given))

    with Broker(given) as broker:
        [found] = asyncio.run(described(broker)).values()
    assert {name: entry.value for name, entry in found.items()} == {
        "listener.name.x.max.connections": "5",
        "listener.name.x.ssl.keystore.password": None,
    }
    assert found["listener.name.x.ssl.keystore.password"].is_sensitive
