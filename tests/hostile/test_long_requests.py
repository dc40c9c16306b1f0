"""Requests that are served in steps: answered as they would be at once, in their order, recorded, and left undone."""

from __future__ import annotations

import json
import socket
import struct
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ottla.broker.core.groups.admin import AT_ONCE
from ottla.broker.core.security.acls import Resource, all_operations
from ottla.broker.handlers.authorized import NOT_ASKED
from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import ErrorCode
from ottla.testing import Broker, BrokerProcess
from tests.support.client import Client, batch, values
from tests.support.peer import ConnectionClosed
from tests.support.processes import python
from tests.support.requests import fetch_fields, list_offsets_fields, request

pytestmark = pytest.mark.e2e

PARTITIONS = 3_000


@pytest.fixture(scope="module")
def wide() -> Iterator[Broker]:
    """A broker with a topic of very many partitions."""
    with Broker(topics={"wide": PARTITIONS}) as broker:
        yield broker


def groups_made(client: Client, prefix: str, count: int) -> list[str]:
    """Groups without members, each with an offset."""
    names = [f"{prefix}-{number}" for number in range(count)]
    for name in names:
        assert client.commit(name, "wide") == 0
    return names


def test_lists_and_descriptions_are_whole(wide: Broker) -> None:
    with Client(wide.port) as client:
        names = groups_made(client, "listed", AT_ONCE + 1)
        listed = client.call(ApiKey.LIST_GROUPS, 5, states_filter=["Empty"]).groups
        assert set(names) <= {row.group_id for row in listed}
        assert client.call(ApiKey.LIST_GROUPS, 5, states_filter=["Stable"]).groups == []
        asked = [*names, "absent", names[0]]
        for version, operations in ((5, NOT_ASKED), (6, all_operations(Resource.GROUP))):
            more = {"include_authorized_operations": operations != NOT_ASKED}
            told = client.call(ApiKey.DESCRIBE_GROUPS, version, groups=asked, **more).groups
            assert [row.group_id for row in told] == asked
            assert told[0].authorized_operations == operations
            for row in told[-3:]:
                assert [row] == client.call(ApiKey.DESCRIBE_GROUPS, version, groups=[row.group_id], **more).groups


def test_a_deletion_in_parts_answers_for_each_group_once(wide: Broker) -> None:
    with Client(wide.port) as client:
        names = groups_made(client, "deleted", 60)
        client.stable("busy")
        asked = [*names[:30], "absent", "busy", *names[30:], names[0]]
        told = client.call(ApiKey.DELETE_GROUPS, 2, groups_names=asked).results
        assert [row.group_id for row in told] == asked[:-1]
        codes = {row.group_id: row.error_code for row in told}
        assert (codes.pop("absent"), codes.pop("busy")) == (ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.NON_EMPTY_GROUP)
        assert set(codes.values()) == {0}
        assert not set(names) & {row.group_id for row in client.call(ApiKey.LIST_GROUPS, 5).groups}


def commit_fields(group: str, *partitions: int, topic: str = "wide") -> dict[str, Any]:
    rows = [{"partition_index": index, "committed_offset": index} for index in partitions]
    return {"group_id": group, "generation_id_or_member_epoch": -1, "topics": [{"name": topic, "partitions": rows}]}


def test_a_commit_in_parts_is_answered_as_one(wide: Broker) -> None:
    with Client(wide.port) as client:
        fields = commit_fields("committed", *range(PARTITIONS + 10))
        fields["topics"].append({"name": "none", "partitions": [{"partition_index": 0, "committed_offset": 1}]})
        (told, none) = client.call(ApiKey.OFFSET_COMMIT, 8, **fields).topics
        codes = {row.partition_index: row.error_code for row in told.partitions}
        assert len(told.partitions) == len(codes) == PARTITIONS + 10
        unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert [codes[index] for index in range(PARTITIONS + 10)] == [0] * PARTITIONS + [unknown] * 10
        assert [(none.name, row.error_code) for row in none.partitions] == [("none", unknown)]
        assert client.all_committed("committed") == {("wide", index): index for index in range(PARTITIONS)}


def test_answers_keep_their_order(wide: Broker) -> None:
    with Client(wide.port) as client:
        joined = client.stable("ordered")
        groups_made(client, "ordered", AT_ONCE + 1)
        client.start(ApiKey.LIST_GROUPS, 4)
        client.start(ApiKey.OFFSET_COMMIT, 8, **commit_fields("ordered-0", *range(PARTITIONS)))
        client.start(ApiKey.HEARTBEAT, 4, group_id="ordered", generation_id=1, member_id=joined.member_id)
        assert len(client.answer().groups) > AT_ONCE
        assert len(client.answer().topics[0].partitions) == PARTITIONS
        assert client.answer().error_code == 0


def test_topics_by_the_thousand(wide: Broker) -> None:
    with Client(wide.port) as client:
        asked = ["wide", *(f"missing-{number}" for number in range(AT_ONCE * 2)), "not a name"]
        told = client.metadata(*asked).topics
        assert [row.name for row in told] == asked
        assert len(told[0].partitions) == PARTITIONS
        errors = {row.error_code for row in told[1:-1]}
        assert (errors, told[-1].error_code) == (
            {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION},
            ErrorCode.INVALID_TOPIC_EXCEPTION,
        )


@pytest.mark.parametrize("session", [False, True])
def test_a_fetch_of_very_many_partitions_waits_and_is_woken(wide: Broker, session: bool) -> None:
    with Client(wide.port) as client, Client(wide.port) as other:
        other.produce("wide", batch(b"first"), partition=PARTITIONS - 1)
        end = other.call(ApiKey.LIST_OFFSETS, 7, **list_offsets_fields("wide", -1, PARTITIONS - 1))
        offset = end.topics[0].partitions[0].offset
        fields = fetch_fields("wide", 0, *range(PARTITIONS - 1), max_wait_ms=10_000, min_bytes=1, max_bytes=1 << 20)
        last = fetch_fields("wide", offset, PARTITIONS - 1)["topics"][0]["partitions"]
        fields["topics"][0]["partitions"] += last
        fields["session_epoch"] = 0 if session else -1
        if session:
            opened = client.call(ApiKey.FETCH, 12, **(fields | {"max_wait_ms": 0}))
            fields |= {"session_id": opened.session_id, "session_epoch": 1, "topics": []}
            assert opened.session_id
        client.start(ApiKey.FETCH, 12, **fields)
        other.metadata("wide")
        other.produce("wide", batch(b"second"), partition=PARTITIONS - 1)
        rows = client.answer().responses[0].partitions
        found = {row.partition_index: values(bytes(row.records)) for row in rows if row.records}
        assert found == {PARTITIONS - 1: [b"second"]}


def test_a_long_request_that_is_malformed_closes_its_connection(wide: Broker) -> None:
    with Client(wide.port) as client:
        frame = client.frame(ApiKey.OFFSET_COMMIT, 8, request(ApiKey.OFFSET_COMMIT, commit_fields("g", *range(5_000))))
        cut = frame[4:-1]
        client.raw(struct.pack(">i", len(cut)) + cut)
        with pytest.raises(ConnectionClosed):
            client.next_frame()
    with Client(wide.port) as client:
        assert client.commit("after", "wide") == 0


def test_whoever_leaves_is_not_worked_for(wide: Broker) -> None:
    """The first of his groups may be gone; the last are there, and the next in line has his turn."""
    with Client(wide.port) as client:
        names = groups_made(client, "left", 3_000)
        leaver = Client(wide.port)
        leaver.start(ApiKey.DELETE_GROUPS, 2, groups_names=names)
        leaver.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        leaver.close()
        time.sleep(0.1)
        left = {row.group_id for row in client.call(ApiKey.LIST_GROUPS, 5).groups}
        assert names[-1] in left
        time.sleep(0.1)
        assert left == {row.group_id for row in client.call(ApiKey.LIST_GROUPS, 5).groups}


def test_parts_are_recorded_and_replayed_as_parts(tmp_path: Path) -> None:
    path = tmp_path / "events.rec"
    with BrokerProcess(arguments=("--record", str(path)), topics={"wide": PARTITIONS}) as broker:
        with Client(broker.port) as client:
            names = groups_made(client, "recorded", 70)
            client.call(ApiKey.OFFSET_COMMIT, 8, **commit_fields(names[0], *range(PARTITIONS)))
            assert len(client.call(ApiKey.DELETE_GROUPS, 2, groups_names=names[:60]).results) == 60
        broker.stop()
    verdict = json.loads(python("ottla.cli", "replay", str(path), "--format", "json"))
    assert verdict["differences"] == []
    assert (verdict["left_out"], verdict["notes"]) == ([], [])
    assert verdict["compared"] > 100
