"""Committed offsets by topic id, and what becomes of them when a topic is deleted and made anew (KIP-848)."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import ErrorCode
from ottla.protocol.groups import coordinator_partition
from ottla.protocol.internal_topics import OFFSETS_TOPIC
from ottla.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from ottla.protocol.messages.delete_topics import DeleteTopicsRequest
from ottla.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from ottla.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from ottla.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from ottla.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopic
from ottla.protocol.offsets_topic import OffsetKey, decode_key, decode_offset_value
from ottla.protocol.primitives import ZERO_UUID
from ottla.protocol.records import decode_batch, iter_batches
from ottla.testing import Broker
from tests.wire.peer import Peer

pytestmark = pytest.mark.e2e

NOBODY = uuid.UUID(int=0xABCDEF)


@pytest.fixture
def peer(tmp_path: Path) -> Iterator[Peer]:
    with Broker(topics={"t": 2, "u": 1}) as broker, Peer(broker.port) as peer:
        yield peer


def topic_id(peer: Peer, name: str) -> uuid.UUID:
    asked = MetadataRequest(topics=[MetadataRequestTopic(name=name)])
    return uuid.UUID(bytes=peer.ask(ApiKey.METADATA, 12, asked).topics[0].topic_id.bytes)


def commit(peer: Peer, version: int, *topics: tuple[Any, dict[int, int]], group: str = "g") -> list[tuple[Any, ...]]:
    """``topics``: a name or an id, and offsets by partition. Gives topic, partition and error as they were answered."""
    rows = []
    for topic, offsets in topics:
        named = {"topic_id": topic} if isinstance(topic, uuid.UUID) else {"name": topic}
        places = [
            OffsetCommitRequestPartition(partition_index=index, committed_offset=offset, committed_metadata="m")
            for index, offset in offsets.items()
        ]
        rows.append(OffsetCommitRequestTopic(partitions=places, **named))
    answer = peer.ask(ApiKey.OFFSET_COMMIT, version, OffsetCommitRequest(group_id=group, topics=rows))
    return [
        (row.name or row.topic_id, place.partition_index, ErrorCode(place.error_code).name)
        for row in answer.topics
        for place in row.partitions
    ]


def fetch(peer: Peer, version: int, *topics: tuple[Any, list[int]], group: str = "g") -> list[tuple[Any, ...]]:
    """The same for committed offsets; without topics all of them."""
    rows = []
    for topic, indexes in topics:
        named = {"topic_id": topic} if isinstance(topic, uuid.UUID) else {"name": topic}
        rows.append(OffsetFetchRequestTopic(partition_indexes=indexes, **named))
    asked = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group, topics=rows or None)])
    (told,) = peer.ask(ApiKey.OFFSET_FETCH, version, asked).groups
    assert (told.group_id, told.error_code) == (group, 0)
    return [
        (row.name or row.topic_id, p.partition_index, p.committed_offset, p.metadata, ErrorCode(p.error_code).name)
        for row in told.topics
        for p in row.partitions
    ]


def recreate(peer: Peer, name: str) -> uuid.UUID:
    peer.ask(ApiKey.DELETE_TOPICS, 5, DeleteTopicsRequest(topic_names=[name], timeout_ms=10_000))
    wanted = CreatableTopic(name=name, num_partitions=2, replication_factor=1)
    peer.ask(ApiKey.CREATE_TOPICS, 7, CreateTopicsRequest(topics=[wanted], timeout_ms=10_000))
    return topic_id(peer, name)


def test_offsets_are_committed_and_fetched_by_topic_id(peer: Peer) -> None:
    t, u = topic_id(peer, "t"), topic_id(peer, "u")
    assert commit(peer, 10, (t, {0: 5, 1: 6}), (u, {0: 7})) == [(t, 0, "NONE"), (t, 1, "NONE"), (u, 0, "NONE")]
    assert fetch(peer, 10, (t, [1, 0]), (u, [0])) == [
        (t, 1, 6, "m", "NONE"),
        (t, 0, 5, "m", "NONE"),
        (u, 0, 7, "m", "NONE"),
    ]
    by_name = [("t", 0, 5, "m", "NONE"), ("t", 1, 6, "m", "NONE"), ("u", 0, 7, "m", "NONE")]
    assert fetch(peer, 9) == by_name
    assert fetch(peer, 10) == [({"t": t, "u": u}[name], *rest) for name, *rest in by_name]


def test_ids_that_nobody_has_are_refused_and_told_in_kafkas_order(peer: Peer) -> None:
    t = topic_id(peer, "t")
    wanted = (t, {0: 1, 2: 3}), (NOBODY, {0: 1}), (ZERO_UUID, {0: 1})
    assert commit(peer, 10, *wanted) == [
        (t, 2, "UNKNOWN_TOPIC_OR_PARTITION"),
        (t, 0, "NONE"),
        (NOBODY, 0, "UNKNOWN_TOPIC_ID"),
        (ZERO_UUID, 0, "UNKNOWN_TOPIC_ID"),
    ]
    assert fetch(peer, 10, (NOBODY, [0]), (t, [0, 2])) == [
        (t, 0, 1, "m", "NONE"),
        (t, 2, -1, "", "NONE"),
        (NOBODY, 0, -1, "", "UNKNOWN_TOPIC_ID"),
    ]


def test_offsets_go_with_their_topic_and_the_next_one_starts_without(peer: Peer) -> None:
    old = topic_id(peer, "t")
    commit(peer, 9, ("t", {0: 5}), ("u", {0: 7}))
    new = recreate(peer, "t")
    assert new != old
    assert fetch(peer, 9) == [("u", 0, 7, "m", "NONE")]
    assert fetch(peer, 10, (new, [0])) == [(new, 0, -1, "", "NONE")]
    assert fetch(peer, 10, (old, [0])) == [(old, 0, -1, "", "UNKNOWN_TOPIC_ID")]
    assert commit(peer, 10, (old, {0: 5})) == [(old, 0, "UNKNOWN_TOPIC_ID")]
    assert commit(peer, 10, (new, {0: 8})) == [(new, 0, "NONE")]
    assert fetch(peer, 8, ("t", [0])) == [("t", 0, 8, "m", "NONE")]


@pytest.mark.parametrize("version", [2, 8, 10])
def test_the_record_names_the_topic_id_whichever_version_committed_it(peer: Peer, version: int) -> None:
    t = topic_id(peer, "t")
    commit(peer, version, (t if version >= 10 else "t", {1: 5}))
    place = FetchPartition(partition=coordinator_partition("g"), fetch_offset=0, partition_max_bytes=1 << 20)
    topics = [FetchTopic(topic=OFFSETS_TOPIC, partitions=[place])]
    answer = peer.ask(ApiKey.FETCH, 12, FetchRequest(max_wait_ms=1000, min_bytes=1, max_bytes=1 << 20, topics=topics))
    (found,) = answer.responses[0].partitions
    records = [r for _, batch in iter_batches(bytes(found.records)) for r in decode_batch(batch)]
    (record,) = [r for r in records if isinstance(decode_key(r.key), OffsetKey)]
    assert record.value[:2] == b"\0\4"
    assert decode_offset_value(record.value).topic_id == t


def test_offsets_by_id_survive_a_restart(tmp_path: Path) -> None:
    with Broker(topics={"t": 1}, data_dir=tmp_path) as broker, Peer(broker.port) as peer:
        t = topic_id(peer, "t")
        commit(peer, 10, (t, {0: 5}))
    with Broker(data_dir=tmp_path) as broker, Peer(broker.port) as peer:
        assert topic_id(peer, "t") == t
        assert fetch(peer, 10, (t, [0])) == [(t, 0, 5, "m", "NONE")]
