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
from ottla.protocol.offsets_topic import OffsetKey, OffsetValue, decode_key, decode_value
from ottla.protocol.primitives import ZERO_UUID
from ottla.testing import Broker
from tests.support.client import Client
from tests.support.requests import commit_fields, offset_fetch_fields

pytestmark = pytest.mark.e2e

NOBODY = uuid.UUID(int=0xABCDEF)


@pytest.fixture
def peer(tmp_path: Path) -> Iterator[Client]:
    with Broker(topics={"t": 2, "u": 1}) as broker, Client(broker.port) as peer:
        yield peer


def commit(peer: Client, version: int, *topics: tuple[Any, dict[int, int]]) -> list[tuple[Any, ...]]:
    """``topics``: a name or an id, and offsets by partition. Gives topic, partition and error as they were answered."""
    rows = [(topic, index, offset) for topic, offsets in topics for index, offset in offsets.items()]
    answer = peer.call(ApiKey.OFFSET_COMMIT, version, **commit_fields("g", rows))
    return [
        (row.name or row.topic_id, place.partition_index, ErrorCode(place.error_code).name)
        for row in answer.topics
        for place in row.partitions
    ]


def fetch(peer: Client, version: int, *topics: tuple[Any, list[int]]) -> list[tuple[Any, ...]]:
    """The same for committed offsets; without topics all of them."""
    (told,) = peer.call(ApiKey.OFFSET_FETCH, version, **offset_fetch_fields("g", dict(topics) or None)).groups
    assert (told.group_id, told.error_code) == ("g", 0)
    return [
        (row.name or row.topic_id, p.partition_index, p.committed_offset, p.metadata, ErrorCode(p.error_code).name)
        for row in told.topics
        for p in row.partitions
    ]


def recreate(peer: Client, name: str) -> uuid.UUID:
    peer.call(ApiKey.DELETE_TOPICS, 5, topic_names=[name], timeout_ms=10_000)
    return peer.topic_id(peer.create(name, 2))


def test_offsets_are_committed_and_fetched_by_topic_id(peer: Client) -> None:
    t, u = peer.topic_id("t"), peer.topic_id("u")
    assert commit(peer, 10, (t, {0: 5, 1: 6}), (u, {0: 7})) == [(t, 0, "NONE"), (t, 1, "NONE"), (u, 0, "NONE")]
    assert fetch(peer, 10, (t, [1, 0]), (u, [0])) == [
        (t, 1, 6, "m", "NONE"),
        (t, 0, 5, "m", "NONE"),
        (u, 0, 7, "m", "NONE"),
    ]
    by_name = [("t", 0, 5, "m", "NONE"), ("t", 1, 6, "m", "NONE"), ("u", 0, 7, "m", "NONE")]
    assert fetch(peer, 9) == by_name
    assert fetch(peer, 10) == [({"t": t, "u": u}[name], *rest) for name, *rest in by_name]


def test_ids_that_nobody_has_are_refused_and_told_in_kafkas_order(peer: Client) -> None:
    t = peer.topic_id("t")
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


def test_offsets_go_with_their_topic_and_the_next_one_starts_without(peer: Client) -> None:
    old = peer.topic_id("t")
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
def test_the_record_names_the_topic_id_whichever_version_committed_it(peer: Client, version: int) -> None:
    t = peer.topic_id("t")
    commit(peer, version, (t if version >= 10 else "t", {1: 5}))
    records, _ = peer.read_log(OFFSETS_TOPIC, coordinator_partition("g"))
    (record,) = [r for r in records if isinstance(decode_key(r.key), OffsetKey)]
    assert record.value[:2] == b"\0\4"
    assert decode_value(OffsetValue, record.value).topic_id == t


def test_offsets_by_id_survive_a_restart(tmp_path: Path) -> None:
    with Broker(topics={"t": 1}, data_dir=tmp_path) as broker, Client(broker.port) as peer:
        t = peer.topic_id("t")
        commit(peer, 10, (t, {0: 5}))
    with Broker(data_dir=tmp_path) as broker, Client(broker.port) as peer:
        assert peer.topic_id("t") == t
        assert fetch(peer, 10, (t, [0])) == [(t, 0, 5, "m", "NONE")]
