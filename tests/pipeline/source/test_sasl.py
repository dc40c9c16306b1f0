"""The source tells a broker who reads: records, a wrong password, and what its rules do not permit."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla.pipeline.source.batch import OttlaReader
from ottla.pipeline.source.logs import SourceError
from ottla.pipeline.source.options import parse_options
from ottla.testing import Broker
from tests.pipeline.source.reading import rows_of

RULES = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:admin",
}
USERS = {"admin": "admin-secret", "bob": "bob-secret"}


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    """Whose only rule is that admin may do everything."""
    with Broker(RULES, topics={"orders": 2}, sasl=USERS) as broker:
        broker.produce("orders", [b"a", b"b", b"c"])
        yield broker


def reader(broker: Broker, user: str, password: str) -> OttlaReader:
    options = {
        "kafka.bootstrap.servers": broker.bootstrap_servers,
        "subscribe": "orders",
        "kafka.security.protocol": "SASL_PLAINTEXT",
        "kafka.sasl.mechanism": "SCRAM-SHA-512",
        "kafka.sasl.username": user,
        "kafka.sasl.password": password,
    }
    return OttlaReader(parse_options(options, streaming=False))


def test_records_are_read(broker: Broker) -> None:
    asked = reader(broker, "admin", "admin-secret")
    rows = rows_of([batch for part in asked.partitions() for batch in asked.read(part)])
    assert sorted(row["value"] for row in rows) == [b"a", b"b", b"c"]


def test_a_wrong_password_is_told_at_once(broker: Broker) -> None:
    with pytest.raises(SourceError, match="invalid credentials") as raised:
        reader(broker, "admin", "another-secret").partitions()
    assert "another-secret" not in str(raised.value)


def test_what_is_denied_is_told_with_what_permits_it(broker: Broker) -> None:
    with pytest.raises(SourceError, match="--allow-principal User:bob --operation Read --topic orders"):
        reader(broker, "bob", "bob-secret").partitions()


def test_a_token_is_read_at_each_connection(tmp_path: Path) -> None:
    file = tmp_path / "token"
    given = {
        "kafka.bootstrap.servers": "h:1",
        "subscribe": "orders",
        "kafka.security.protocol": "SASL_SSL",
        "kafka.sasl.mechanism": "OAUTHBEARER",
        "kafka.sasl.oauthbearer.token.file": str(file),
    }
    secured = parse_options(given, streaming=False).secured
    provider = secured.client_options()["sasl_oauth_token_provider"]
    for text in ("a.b.c", "d.e.f"):
        file.write_text(f"{text}\n")
        assert asyncio.run(provider.token()) == text
