"""The source where three brokers lead partitions, and leaders move, are away, and come back."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import closing
from typing import Any

import pytest
import pytest_asyncio

from ottla.pipeline.source.cluster import Cluster
from ottla.pipeline.source.logs import Bounds, SourceError, Span
from ottla.pipeline.source.mirror import Mirror
from ottla.pipeline.source.offsets import Progress
from ottla.pipeline.source.options import parse_options
from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import ErrorCode
from ottla.protocol.records import Record, TopicPartition
from tests.clients.three_brokers import HOST, IDS, ThreeBrokers, by_topic
from tests.support.batches import build_batch

ALL = [TopicPartition("t", index) for index in range(3)]
E = ErrorCode
NOT_HERE = [E.NOT_LEADER_OR_FOLLOWER, E.FENCED_LEADER_EPOCH, E.UNKNOWN_LEADER_EPOCH, E.UNKNOWN_TOPIC_OR_PARTITION]


class Logs(ThreeBrokers):
    """Each partition has five records, which only its leader gives out.

    Attributes:
        moves: by partition the broker and epoch that lead it as soon as somebody has fetched from it.
        wrong: the code of those who do not lead.
    """

    def __init__(self) -> None:
        super().__init__()
        self.moves: dict[int, tuple[int, int]] = {}
        self.true_leaders = dict(self.leaders)
        self.wrong = E.NOT_LEADER_OR_FOLLOWER
        self.answers |= {
            ApiKey.FETCH: self._fetch, ApiKey.LIST_OFFSETS: self._offsets, ApiKey.OFFSET_COMMIT: self._commit,
        }  # fmt: skip

    def move(self, partition: int, leader: tuple[int, int]) -> None:
        """Let another broker lead."""
        self.true_leaders[partition] = self.leaders[partition] = leader

    def _leads(self, node_id: int, partition: int) -> bool:
        return self.true_leaders[partition][0] == node_id

    def _offsets(self, node_id: int, request: Any) -> dict[str, Any]:
        def row(one: Any) -> dict[str, Any]:
            leads = self._leads(node_id, one.partition_index)
            offset = 0 if one.timestamp == -2 else 5
            return {"partition_index": one.partition_index, "error_code": 0 if leads else self.wrong, "offset": offset}

        return by_topic(request, row)

    def _fetch(self, node_id: int, request: Any) -> dict[str, Any]:
        rows = []
        for one in request.topics[0].partitions:
            row: dict[str, Any] = {"partition_index": one.partition, "high_watermark": 5, "last_stable_offset": 5}
            if not self._leads(node_id, one.partition):
                row["error_code"] = self.wrong
            elif one.fetch_offset < 5:
                value = b"%d-%d" % (one.partition, one.fetch_offset)
                row["records"] = build_batch([Record(value=value)], base_offset=one.fetch_offset)
                if one.partition in self.moves:
                    self.move(one.partition, self.moves.pop(one.partition))
            rows.append(row)
        return {"responses": [{"topic": "t", "partitions": rows}]}

    def _commit(self, node_id: int, request: Any) -> dict[str, Any]:
        code = 0 if self.coordinators["g"] == node_id else E.NOT_COORDINATOR
        topics = [
            {"name": topic.name, "partitions": [{"partition_index": one.partition_index, "error_code": code}
                                                for one in topic.partitions]}
            for topic in request.topics
        ]  # fmt: skip
        return {"topics": topics}


@pytest_asyncio.fixture
async def logs() -> AsyncIterator[Logs]:
    async with Logs() as made:
        yield made


def options(logs: Logs, **more: str) -> Any:
    servers = ",".join(f"{HOST}:{logs.ports[node_id]}" for node_id in IDS)
    given = {"kafka.bootstrap.servers": servers, "subscribe": "t", "fetchOffset.retryIntervalMs": "1", **more}
    return parse_options(given, streaming=True)


def opened(logs: Logs, **more: str) -> Cluster:
    return Cluster(options(logs, **more), lambda seconds: None)


def _nothing(*lost: object) -> None:
    raise AssertionError(lost)


def records(cluster: Cluster) -> list[int]:
    """How many records each partition gave."""
    spans = [Span(tp, 0, 5) for tp in ALL]
    counts = [0, 0, 0]
    with closing(cluster):
        for chunk in cluster.chunks(spans, _nothing, _nothing):
            counts[chunk.partition] += len(chunk)
    return counts


def bounds(cluster: Cluster, meanwhile: Callable[[], None] = lambda: None) -> dict[TopicPartition, Bounds]:
    """Those of all, asked for when something has happened since the leaders were looked up."""
    with closing(cluster):
        cluster.topics(["t"])
        meanwhile()
        return cluster.bounds(ALL)


async def test_each_leader_is_asked_for_its_own(logs: Logs) -> None:
    assert await asyncio.to_thread(bounds, opened(logs)) == dict.fromkeys(ALL, Bounds(0, 5))
    assert set(logs.took(ApiKey.LIST_OFFSETS)) == set(IDS)
    assert await asyncio.to_thread(records, opened(logs)) == [5, 5, 5]
    assert set(logs.took(ApiKey.FETCH)) == set(IDS)


@pytest.mark.parametrize("code", NOT_HERE)
async def test_leaders_that_move_while_it_is_read(logs: Logs, code: ErrorCode) -> None:
    logs.wrong = code
    logs.moves = {0: (2, 2), 1: (3, 2), 2: (1, 2)}
    assert await asyncio.to_thread(records, opened(logs)) == [5, 5, 5]


@pytest.mark.parametrize("code", NOT_HERE)
async def test_bounds_of_leaders_that_moved(logs: Logs, code: ErrorCode) -> None:
    logs.wrong = code
    found = await asyncio.to_thread(bounds, opened(logs), lambda: logs.move(1, (3, 2)))
    assert found == dict.fromkeys(ALL, Bounds(0, 5))


async def test_a_broker_that_is_away_is_waited_for(logs: Logs) -> None:
    """Without another that takes over, its partitions have no leader until it is back."""
    cluster = opened(logs)
    await asyncio.to_thread(cluster.topics, ["t"])
    logs.stop(2)
    logs.leaders[1] = -1, 1
    pauses = 0

    def come_back(seconds: float) -> None:
        nonlocal pauses
        pauses += 1
        if pauses == 3:
            logs.down.clear()
            logs.move(1, (2, 2))

    cluster.sleep = come_back
    assert await asyncio.to_thread(records, cluster) == [5, 5, 5]
    assert pauses == 3


async def test_one_that_does_not_come_back_is_named(logs: Logs) -> None:
    logs.leaders[1] = -1, 1
    cluster = opened(logs, **{"fetchOffset.numRetries": "3"})
    with pytest.raises(SourceError, match="t-1 has no leader"):
        await asyncio.to_thread(records, cluster)


async def test_progress_is_mirrored_to_the_coordinator_wherever_it_is(logs: Logs) -> None:
    logs.coordinators["g"] = 1
    progress = Progress({"t": "0" * 32}, {ALL[0]: 3})

    def mirrored() -> None:
        with closing(Mirror(options(logs, group="g"))) as mirror:
            mirror.commit(progress)
            logs.coordinators["g"] = 3
            mirror.commit(progress)

    await asyncio.to_thread(mirrored)
    assert logs.took(ApiKey.OFFSET_COMMIT) == [1, 1, 3]
