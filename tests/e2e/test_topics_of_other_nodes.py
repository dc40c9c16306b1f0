"""A node says that there is no such topic after a look at what the others have changed alone (R17).

Here nodes look at nothing by themselves: what one of them does the other learns because somebody asks for it.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ottla.broker.runtime import looking
from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import ErrorCode
from tests.e2e.test_nodes_of_one_directory import NODES, Nodes, group_in
from tests.support.client import Client, fresh
from tests.support.requests import delete_offsets_fields, list_offsets_fields, txn_commit_fields

pytestmark = pytest.mark.e2e

NEVER_MS = 1 << 30
UNKNOWN = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
GROUP = group_in(1)
"""It is coordinated by the second node."""


@pytest.fixture
def second(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Client, Client]]:
    """Clients of the first node and of the second."""
    monkeypatch.setattr(looking, "LOOK_MS", NEVER_MS)
    nodes = Nodes(tmp_path / "data", monkeypatch)
    first, second = map(nodes.start, NODES)
    second.topic()
    yield first, second
    for node_id in NODES:
        nodes.end(node_id)


def committed(client: Client, topic: str, version: int, topic_id: Any) -> list[int]:
    rows = [{"name": topic, "topic_id": topic_id, "partitions": [{"partition_index": 0, "committed_offset": 3}]}]
    fields = {"group_id": GROUP, "generation_id_or_member_epoch": -1, "topics": rows}
    answer = client.call(ApiKey.OFFSET_COMMIT, version, **fields)
    return [row.error_code for each in answer.topics for row in each.partitions]


@pytest.mark.parametrize("version", [8, 10])
def test_a_commit(second: tuple[Client, Client], version: int) -> None:
    first, other = second
    topic = first.topic()
    topic_id = first.topic_id(topic)
    assert committed(other, topic, version, topic_id) == [0]
    assert committed(other, topic, version, topic_id) == [0]
    assert other.all_committed(GROUP) == {(topic, 0): 3}


def test_a_commit_that_comes_again_for_a_topic_that_there_is_not(second: tuple[Client, Client]) -> None:
    """A request that waits for a look is not taken for one that was served and may be repeated without one."""
    _, other = second
    other.commit(GROUP, other.topic())
    missing = fresh("missing")
    for _ in range(5):
        assert other.commit(GROUP, missing) == UNKNOWN
    assert (missing, 0) not in other.all_committed(GROUP)


ASKED: dict[str, Callable[[Client, str], list[int]]] = {
    "Metadata": lambda client, topic: [row.error_code for row in client.metadata(topic).topics],
    "DescribeTopicPartitions": lambda client, topic: [
        row.error_code
        for row in client.call(
            ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, topics=[{"name": topic}], response_partition_limit=9
        ).topics
    ],
    "ListOffsets": lambda client, topic: [
        row.error_code
        for each in client.call(ApiKey.LIST_OFFSETS, 5, **list_offsets_fields(topic, -1, 0)).topics
        for row in each.partitions
    ],
    "DescribeConfigs": lambda client, topic: [
        row.error_code
        for row in client.call(
            ApiKey.DESCRIBE_CONFIGS, 4, resources=[{"resource_type": 2, "resource_name": topic}]
        ).results
    ],
    "IncrementalAlterConfigs": lambda client, topic: [
        row.error_code
        for row in client.call(
            ApiKey.INCREMENTAL_ALTER_CONFIGS,
            1,
            resources=[
                {
                    "resource_type": 2,
                    "resource_name": topic,
                    "configs": [{"name": "retention.ms", "value": "9999", "config_operation": 0}],
                }
            ],
        ).responses
    ],
    "CreatePartitions": lambda client, topic: [
        row.error_code
        for row in client.call(
            ApiKey.CREATE_PARTITIONS, 3, topics=[{"name": topic, "count": 3}], timeout_ms=5_000
        ).results
    ],
    "DeleteTopics": lambda client, topic: [
        row.error_code for row in client.call(ApiKey.DELETE_TOPICS, 5, topic_names=[topic], timeout_ms=5_000).responses
    ],
    "TxnOffsetCommit": lambda client, topic: [
        row.error_code
        for each in client.call(
            ApiKey.TXN_OFFSET_COMMIT, 3, **txn_commit_fields("x", (7, 0), GROUP, [(topic, 0, 1)])
        ).topics
        for row in each.partitions
    ],
    "OffsetDelete": lambda client, topic: [
        row.error_code
        for each in client.call(ApiKey.OFFSET_DELETE, 0, **delete_offsets_fields(GROUP, [(topic, 0)])).topics
        for row in each.partitions
    ],
}


def test_everything_that_names_topics(second: tuple[Client, Client]) -> None:
    first, other = second
    other.commit(GROUP, other.topic())
    for api, ask in ASKED.items():
        topic = first.topic()
        assert UNKNOWN not in ask(other, topic), api
        assert ask(other, fresh("missing")) == [UNKNOWN], api
