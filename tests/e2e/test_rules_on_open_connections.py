"""Rules that change while clients are connected: the next request of each hears of them, whichever way it is served."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from kafka import KafkaConsumer
from kafka.admin import ACL, ACLOperation, ACLPermissionType, KafkaAdminClient, ResourcePattern, ResourceType

from ottla.broker.app import CannotStart
from ottla.broker.core.security.acls import AclOperation, Pattern, Permission, Resource
from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import ErrorCode
from ottla.testing import Broker
from tests.support.client import Client, fresh
from tests.support.requests import consumer_heartbeat_fields, fetch_fields
from tests.support.waiting import wait_for

pytestmark = pytest.mark.e2e

SETTINGS = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
    "group.initial.rebalance.delay.ms": 0,
    "group.consumer.assignment.interval.ms": 0,
}
"""Nobody is a super user: what no rule is about is open to all, and so are the rules."""


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(SETTINGS) as broker:
        yield broker


@pytest.fixture
def peer(broker: Broker) -> Iterator[Client]:
    with Client(broker.port) as peer:
        yield peer


@contextmanager
def denied(broker: Broker, operation: AclOperation, resource: Resource, name: str) -> Iterator[None]:
    """For as long as this lasts nobody may do something."""
    rule = {"resource_type": resource, "resource_name": name, "principal": "User:*", "host": "*"}
    rule |= {"operation": operation, "permission_type": Permission.DENY}
    with Client(broker.port) as admin:
        created = admin.call(ApiKey.CREATE_ACLS, 3, creations=[rule | {"resource_pattern_type": Pattern.LITERAL}])
        assert [row.error_code for row in created.results] == [0]
        yield
        chosen = {
            "resource_type_filter": resource,
            "resource_name_filter": name,
            "pattern_type_filter": Pattern.LITERAL,
        }
        chosen |= {"principal_filter": None, "host_filter": None, "operation": operation, "permission_type": 1}
        (gone,) = admin.call(ApiKey.DELETE_ACLS, 3, filters=[chosen]).filter_results
        assert len(gone.matching_acls) == 1


def test_heartbeats_that_come_again(broker: Broker, peer: Client) -> None:
    group = fresh("group")
    member = peer.stable(group)
    assert [peer.heartbeat(group, member) for _ in range(3)] == [0] * 3
    with denied(broker, AclOperation.READ, Resource.GROUP, group):
        assert [peer.heartbeat(group, member) for _ in range(3)] == [ErrorCode.GROUP_AUTHORIZATION_FAILED] * 3
    assert [peer.heartbeat(group, member) for _ in range(3)] == [0] * 3


def test_heartbeats_of_consumer_groups_that_come_again(broker: Broker, peer: Client) -> None:
    group, topic = fresh("group"), peer.topic()

    def beat(epoch: int, names: list[str] | None = None) -> int:
        fields = consumer_heartbeat_fields(group, "m", epoch, names=names)
        return int(peer.call(ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, **fields).error_code)

    assert [beat(0, [topic]), beat(2), beat(2), beat(2)] == [0] * 4
    with denied(broker, AclOperation.READ, Resource.GROUP, group):
        assert [beat(2), beat(2)] == [ErrorCode.GROUP_AUTHORIZATION_FAILED] * 2
    assert [beat(2), beat(2)] == [0] * 2
    with denied(broker, AclOperation.DESCRIBE, Resource.TOPIC, topic):
        assert beat(0, [topic]) == ErrorCode.TOPIC_AUTHORIZATION_FAILED
        assert beat(2) == 0, "it names no topic"


@pytest.mark.parametrize("resource", [Resource.GROUP, Resource.TOPIC])
def test_commits_that_come_again(broker: Broker, peer: Client, resource: Resource) -> None:
    group, topic = fresh("group"), peer.topic()
    assert [peer.commit(group, topic, offset) for offset in range(6)] == [0] * 6
    name, error = {
        Resource.GROUP: (group, ErrorCode.GROUP_AUTHORIZATION_FAILED),
        Resource.TOPIC: (topic, ErrorCode.TOPIC_AUTHORIZATION_FAILED),
    }[resource]
    with denied(broker, AclOperation.READ, resource, name):
        assert [peer.commit(group, topic, offset) for offset in range(10, 16)] == [error] * 6
    assert peer.all_committed(group) == {(topic, 0): 5}
    assert [peer.commit(group, topic, offset) for offset in range(20, 26)] == [0] * 6
    assert peer.all_committed(group) == {(topic, 0): 25}


def test_a_fetch_that_waits(broker: Broker, peer: Client) -> None:
    """20.5, 52: it is answered when it is looked at again."""
    topic = peer.topic()
    peer.produce(topic)
    peer.start(ApiKey.FETCH, 12, **fetch_fields(topic, 0, min_bytes=1 << 20, max_wait_ms=1_000))
    with denied(broker, AclOperation.READ, Resource.TOPIC, topic):
        (row,) = peer.answer().responses[0].partitions
        assert (row.error_code, row.high_watermark, row.records) == (29, -1, b"")
        assert peer.fetch(topic).error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED


def test_a_regex_comes_to_what_its_member_may_describe(broker: Broker, peer: Client) -> None:
    group, prefix = fresh("group"), fresh("topic")
    for name in ("a", "b"):
        peer.create(f"{prefix}-{name}")
    with denied(broker, AclOperation.DESCRIBE, Resource.TOPIC, f"{prefix}-b"):
        fields = consumer_heartbeat_fields(group, "m", names=None) | {
            "rebalance_timeout_ms": 30_000,
            "topic_partitions": [],
            "subscribed_topic_regex": f"{prefix}-.*",
        }
        assert peer.call(ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, **fields).error_code == 0

        def assigned() -> list[str]:
            answer = peer.call(ApiKey.CONSUMER_GROUP_DESCRIBE, 1, group_ids=[group]).groups[0]
            beat = consumer_heartbeat_fields(group, "m", answer.members[0].member_epoch)
            peer.call(ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, **beat)
            return [topic.topic_name for topic in answer.members[0].target_assignment.topic_partitions]

        assert wait_for(assigned, "an assignment") == [f"{prefix}-a"]


def test_what_is_denied_stands_in_the_audit_file(tmp_path: Path) -> None:
    path = tmp_path / "audit.log"
    settings = SETTINGS | {"allow.everyone.if.no.acl.found": "false", "ottla.audit.file": str(path)}
    with Broker(settings) as broker, Client(broker.port) as peer:
        for _ in range(3):
            assert peer.metadata("orders").topics[0].error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    first, others = map(json.loads, path.read_text().splitlines())
    assert first | {"at": ""} == {
        "at": "",
        "event": "denied",
        "principal": "User:ANONYMOUS",
        "listener": "PLAINTEXT",
        "host": "127.0.0.1",
        "port": first["port"],
        "client_id": "peer",
        "operation": "DESCRIBE",
        "resource": "TOPIC",
        "name": "orders",
        "api": "Metadata",
        "items": 1,
        "rule": "no rule is about the resource",
    }
    assert others | {"at": ""} == first | {"at": "", "others": 2}


def test_super_users_that_are_none_end_the_start() -> None:
    with pytest.raises(CannotStart, match="'admin' is no principal"), Broker(SETTINGS | {"super.users": "admin"}):
        pass


def test_users_with_rights_of_their_own() -> None:
    """Who says who he is may do what the rules for him say, and no more."""
    settings = SETTINGS | {"allow.everyone.if.no.acl.found": "false", "super.users": "User:admin"}
    users = {"admin": "admin-secret", "alice": "alice-secret", "bob": "bob-secret"}
    with Broker(settings, sasl=("PLAIN", users), topics={"orders": 3, "pay.in": 1}) as broker:
        told = {}
        admin = KafkaAdminClient(**broker.client_config("kafka-python", "admin"))
        pattern = ResourcePattern(ResourceType.TOPIC, "orders")
        admin.create_acls([ACL("User:alice", "*", ACLOperation.READ, ACLPermissionType.ALLOW, pattern)])
        admin.close()
        for user in users:
            consumer = KafkaConsumer(**broker.client_config("kafka-python", user))
            told[user] = consumer.topics()
            consumer.close()
    assert told == {"admin": {"orders", "pay.in"}, "alice": {"orders"}, "bob": set()}
