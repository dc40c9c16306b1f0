"""Groups of the consumer protocol, request by request: what the broker around the coordinator does for them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from ottla.broker.core.consumer_groups import assigning
from ottla.broker.core.security.acls import Resource, all_operations
from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import ErrorCode
from ottla.testing import Broker
from tests.support.client import Client, fresh
from tests.support.requests import commit_fields, consumer_heartbeat_fields, offset_fetch_fields

pytestmark = pytest.mark.e2e

GROUP = 32
"""The type of a resource in requests for settings."""


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker({"group.consumer.assignment.interval.ms": 0}) as broker:
        yield broker


@pytest.fixture
def peer(broker: Broker) -> Iterator[Client]:
    with Client(broker.port) as peer:
        yield peer


def beat(peer: Client, group: str, member: str = "m", epoch: int = 0, **fields: Any) -> Any:
    return peer.call(ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, **consumer_heartbeat_fields(group, member, epoch) | fields)


def join(peer: Client, group: str, *topics: str, member: str = "m") -> Any:
    fields = consumer_heartbeat_fields(group, member, names=list(topics))
    return peer.call(ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, **fields)


def partitions(answer: Any) -> list[int]:
    return sorted(number for topic in answer.assignment.topic_partitions for number in topic.partitions)


def described(peer: Client, group: str, version: int = 1, **fields: Any) -> Any:
    (told,) = peer.call(ApiKey.CONSUMER_GROUP_DESCRIBE, version, group_ids=[group], **fields).groups
    return told


def set_for(peer: Client, kind: int, name: str, key: str, value: str) -> None:
    configs = [{"name": key, "config_operation": 0, "value": value}]
    resources = [{"resource_type": kind, "resource_name": name, "configs": configs}]
    answer = peer.call(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, resources=resources)
    assert answer.responses[0].error_code == 0, answer


def test_topics_that_come_and_grow_reach_the_group(peer: Client) -> None:
    group, topic = fresh("group"), fresh("topic")
    assert join(peer, group, topic).member_epoch == 2
    peer.create(topic, 2)
    answer = beat(peer, group, epoch=2)
    assert (answer.member_epoch, partitions(answer)) == (3, [0, 1])
    wanted = {"name": topic, "count": 3, "assignments": None}
    assert peer.call(ApiKey.CREATE_PARTITIONS, 3, topics=[wanted], timeout_ms=10_000).results[0].error_code == 0
    answer = beat(peer, group, epoch=3)
    assert (answer.member_epoch, partitions(answer)) == (4, [0, 1, 2])
    told = described(peer, group).members[0].assignment.topic_partitions
    assert [(one.topic_name, one.partitions) for one in told] == [(topic, [0, 1, 2])]


def test_a_topic_that_is_deleted_and_its_offsets(peer: Client) -> None:
    group, topic = fresh("group"), peer.topic()
    join(peer, group, topic)
    fields = commit_fields(group, [(topic, 0, 5)], generation=2, member_id="m")
    assert peer.call(ApiKey.OFFSET_COMMIT, 9, **fields).topics[0].partitions[0].error_code == 0
    deleted = peer.call(ApiKey.DELETE_TOPICS, 6, topics=[{"name": topic}], timeout_ms=10_000)
    assert deleted.responses[0].error_code == 0
    assert partitions(beat(peer, group, epoch=2)) == []
    assert beat(peer, group, epoch=2, topic_partitions=[]).member_epoch == 3
    answer = peer.call(ApiKey.OFFSET_FETCH, 8, **offset_fetch_fields(group))
    assert answer.groups[0].topics == []


def test_commits_name_the_member_epoch(peer: Client) -> None:
    """By name or by id; the prepared way of commits that come again is the same."""
    group, topic = fresh("group"), peer.topic()
    topic_id = peer.topic_id(topic)
    join(peer, group, topic)

    def commit(version: int, epoch: int, offset: int) -> int:
        offsets = [(topic_id if version >= 10 else topic, 0, offset)]
        fields = commit_fields(group, offsets, generation=epoch, member_id="m")
        code: int = peer.call(ApiKey.OFFSET_COMMIT, version, **fields).topics[0].partitions[0].error_code
        return code

    for version in (9, 10):
        assert [commit(version, 2, offset) for offset in range(8)] == [0] * 8
        assert commit(version, 3, 9) == ErrorCode.STALE_MEMBER_EPOCH
    assert commit(8, 2, 9) == ErrorCode.UNSUPPORTED_VERSION
    join(peer, group, topic, member="other")
    assert commit(9, 2, 8) == 0
    answer = peer.call(ApiKey.OFFSET_FETCH, 8, **offset_fetch_fields(group))
    assert answer.groups[0].topics[0].partitions[0].committed_offset == 8
    wanted = {"group_id": group, "member_id": "m", "member_epoch": 2, "topics": None}
    assert peer.call(ApiKey.OFFSET_FETCH, 9, groups=[wanted]).groups[0].error_code == 0
    assert peer.call(ApiKey.OFFSET_FETCH, 9, groups=[wanted | {"member_epoch": 3}]).groups[0].error_code == (
        ErrorCode.STALE_MEMBER_EPOCH
    )


def test_heartbeats_that_come_again(peer: Client) -> None:
    """The same bytes are answered the same way as long as nothing happens, and served anew when something does."""
    group, topic = fresh("group"), peer.topic(2)
    join(peer, group, topic)
    quiet = [beat(peer, group, epoch=2) for _ in range(4)]
    assert {(one.member_epoch, one.assignment, one.heartbeat_interval_ms) for one in quiet} == {(2, None, 200)}
    with Client(peer.socket.getpeername()[1]) as other:
        join(other, group, topic, member="other")
    assert partitions(beat(peer, group, epoch=2)) == [0]
    assert beat(peer, group, epoch=2).assignment is None
    assert beat(peer, group, epoch=7).error_code == ErrorCode.FENCED_MEMBER_EPOCH
    assert beat(peer, group, epoch=7).error_code == ErrorCode.FENCED_MEMBER_EPOCH


def test_settings_of_a_group_and_of_the_broker(peer: Client) -> None:
    """R9.4: they count from the next answer on."""
    group = fresh("group")
    assert join(peer, group, "t").heartbeat_interval_ms == 200
    set_for(peer, GROUP, group, "consumer.heartbeat.interval.ms", "6000")
    assert beat(peer, group, epoch=2).heartbeat_interval_ms == 6_000
    topic = peer.topic()
    set_for(peer, 4, "", "group.consumer.assignment.interval.ms", "15000")
    try:
        late = fresh("group")
        join(peer, late, topic)
        assert partitions(join(peer, late, topic, member="other")) == []
        assert described(peer, late).group_state == "Assigning"
    finally:
        set_for(peer, 4, "", "group.consumer.assignment.interval.ms", "0")
    assert beat(peer, late, "other", 2).member_epoch == 3


def test_the_operations_that_everybody_may_do(peer: Client) -> None:
    """R1.15: where they are asked for, and there is no error."""
    group = fresh("group")
    join(peer, group, "t")
    assert described(peer, group).authorized_operations == -(1 << 31)
    assert described(peer, group, include_authorized_operations=True).authorized_operations == all_operations(
        Resource.GROUP
    )
    missing = described(peer, fresh("group"), include_authorized_operations=True)
    assert (missing.error_code, missing.authorized_operations) == (ErrorCode.GROUP_ID_NOT_FOUND, -(1 << 31))


def test_very_many_groups_are_described_in_steps(peer: Client) -> None:
    groups = [fresh("group") for _ in range(600)]
    for group in groups[::100]:
        join(peer, group, "t")
    told = peer.call(ApiKey.CONSUMER_GROUP_DESCRIBE, 1, group_ids=groups, include_authorized_operations=True).groups
    assert [one.group_id for one in told] == groups
    assert [one.group_id for one in told if not one.error_code] == groups[::100]
    assert {one.authorized_operations for one in told if not one.error_code} == {all_operations(Resource.GROUP)}


@pytest.mark.parametrize("api", ["heartbeat", "describe"])
def test_a_broker_without_the_protocol(api: str) -> None:
    """S5: it lists the APIs all the same."""
    with Broker({"group.coordinator.rebalance.protocols": "classic"}) as broker, Client(broker.port) as peer:
        ask: Callable[[], Any] = {
            "heartbeat": lambda: join(peer, "g", "t"),
            "describe": lambda: described(peer, "g"),
        }[api]
        assert ask().error_code == ErrorCode.UNSUPPORTED_VERSION
        keys = {row.api_key for row in peer.call(ApiKey.API_VERSIONS, 0).api_keys}
        assert keys >= {ApiKey.CONSUMER_GROUP_HEARTBEAT, ApiKey.CONSUMER_GROUP_DESCRIBE}


def test_a_large_assignment_is_computed_beside_other_requests(peer: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its answer is what it would have been; who asks meanwhile waits behind it."""
    monkeypatch.setattr(assigning, "LARGE", 0)
    group, topic = fresh("group"), peer.topic(2)
    with Client(peer.socket.getpeername()[1]) as other:
        for one, member in ((peer, "m"), (other, "n")):
            fields = consumer_heartbeat_fields(group, member, names=[topic])
            one.start(ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, **fields)
        first, second = peer.answer(), other.answer()
    assert (first.member_epoch, partitions(first)) == (2, [0, 1])
    assert (second.member_epoch, partitions(second)) == (3, [])
    assert partitions(beat(peer, group, epoch=2)) == [0]
