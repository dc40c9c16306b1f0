"""`Broker(sasl=…)`: brokers with users in tests, with and without TLS, and what tests connect with."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from ottla.clients import Admin, AuthenticationFailed
from ottla.testing import Broker
from tests.testing.test_tls import aiokafka, confluent, kafka_python

pytestmark = pytest.mark.e2e

USERS = {"alice": "alice-secret", 'b\\"o b': 'with " and \\'}


class Another:
    """Gives what is no token of the broker's issuer."""

    async def token(self) -> str:
        return "a.b.c"

    def extensions(self) -> dict[str, str]:
        return {}


@pytest.fixture(
    params=[
        {"sasl": USERS},
        {"sasl": ("PLAIN", USERS)},
        {"sasl": "SCRAM-SHA-256"},
        {"sasl": USERS, "tls": True},
        {"sasl": USERS, "tls": "mutual"},
        {"sasl": "OAUTHBEARER"},
        {"sasl": "OAUTHBEARER", "tls": True},
    ],
    ids=lambda one: "-".join(map(str, one)),
    scope="module",
)
def broker(request: pytest.FixtureRequest) -> Any:
    with Broker(topics={"orders": 2}, **request.param) as broker:
        yield broker


def test_the_verbs_of_tests_work(broker: Broker) -> None:
    broker.produce("orders", [b"a", b"b"], partition=0)
    assert [row.value for row in broker.records("orders")][:2] == [b"a", b"b"]


@pytest.mark.parametrize("ask", [confluent, kafka_python, aiokafka])
def test_configurations_of_clients(broker: Broker, ask: Any) -> None:
    assert "orders" in ask(broker.client_config(ask.__name__.replace("_", "-")))


def test_a_user_is_chosen_by_name() -> None:
    with Broker(topics=["orders"], sasl=("PLAIN", USERS)) as broker:
        for name, password in USERS.items():
            config = broker.client_config("kafka-python", name)
            assert config["sasl_plain_password"] == password
            assert "orders" in kafka_python(config)
        with pytest.raises(ValueError, match="user='nobody': the broker has 'alice'"):
            broker.client_config("kafka-python", "nobody")


@pytest.mark.parametrize("ask", [confluent, kafka_python, aiokafka])
def test_tokens_are_of_whom_a_test_names(ask: Any) -> None:
    rules = ["User:alice ALLOW DESCRIBE topic:orders"]
    with Broker(topics=["orders"], sasl="OAUTHBEARER", acls=rules) as broker:
        client = ask.__name__.replace("_", "-")
        assert "orders" in ask(broker.client_config(client, "alice"))
        assert "orders" not in ask(broker.client_config(client))
        broker.clock.advance(seconds=7_200)
        assert "orders" in ask(broker.client_config(client, "alice")), "of the broker's time"


def test_who_knows_no_password_is_not_let_in(broker: Broker) -> None:
    known = broker.connection
    secret: Any = {"sasl_plain_password": "another"}
    if "sasl_plain_password" not in known:
        secret = {"sasl_oauth_token_provider": Another()}
    with pytest.raises(AuthenticationFailed):
        asyncio.run(Admin(**known | secret).start())


@pytest.mark.parametrize(
    "sasl", [7, {}, {"alice": ""}, {"alice": b"secret"}, "GSSAPI", ("OAUTHBEARER", USERS), ("PLAIN", "my-secret")]
)
def test_what_is_no_user_is_not_shown(sasl: Any) -> None:
    with pytest.raises(TypeError, match=r"^sasl: ") as raised:
        Broker(sasl=sasl)
    assert "secret" not in str(raised.value)
