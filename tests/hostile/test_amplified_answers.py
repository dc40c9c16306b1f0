"""A small request may name the same thing thousands of times; Kafka answers each. What that costs here has bounds."""

from __future__ import annotations

import struct
import time
from collections.abc import Iterator
from typing import Any

import pytest

from ottla.protocol.apis import ApiKey
from ottla.protocol.primitives import uvarint_bytes
from ottla.protocol.structs import MAX_ANSWER_BYTES
from tests.hostile.victim import Victim
from tests.support.client import Client
from tests.support.peer import ConnectionClosed
from tests.support.requests import request

BROKER = {"resource_type": 4, "resource_name": "1"}
WORDY = {"include_synonyms": True, "include_documentation": True}

pytestmark = pytest.mark.e2e


@pytest.fixture(scope="module")
def victim() -> Iterator[Victim]:
    with Victim() as running:
        yield running


class Cost:
    """What a request cost the broker."""

    answer = b""
    cpu_s = 0.0
    more_bytes = 0


def ask(victim: Victim, key: ApiKey, version: int, **fields: Any) -> Cost:
    """Send one request; the answer is empty if there is none but the end of the connection."""
    cost = Cost()
    with Client(victim.port) as client:
        frame = client.frame(key, version, request(key, fields))
        victim.forget_peak()
        idle_bytes, idle_s = victim.peak_bytes(), victim.cpu_s()
        client.raw(frame)
        try:
            size = struct.unpack(">i", client._take(4))[0]
        except ConnectionClosed:
            size = 0
        answer = bytearray(client._buffer)
        while len(answer) < size:
            answer += client.socket.recv(1 << 20)
        cost.answer = bytes(answer)
        cost.cpu_s, cost.more_bytes = victim.cpu_s() - idle_s, victim.peak_bytes() - idle_bytes
    return cost


def test_the_broker_described_three_thousand_times(victim: Victim) -> None:
    """Five thousand times, 25 KB asked for 76 MB, and took 1.2 GB and 5 s of CPU; there are more settings now."""
    once = ask(victim, ApiKey.DESCRIBE_CONFIGS, 4, resources=[BROKER], **WORDY).answer
    begin = 4 + 1 + 4  # correlation id, tags, throttle time
    row = once[begin + 1 : -1]
    with victim.calm() as felt:
        cost = ask(victim, ApiKey.DESCRIBE_CONFIGS, 4, resources=[BROKER] * 3_000, **WORDY)
        time.sleep(0.1)
    assert len(cost.answer) > 50 << 20
    assert cost.answer[begin:] == uvarint_bytes(3_001) + row * 3_000 + b"\0"
    assert cost.more_bytes < 3 * len(cost.answer)
    assert cost.cpu_s < 1.5
    assert felt.longest_ms < 3_000


def test_the_configs_of_very_many_groups_that_are_not_there(victim: Victim) -> None:
    """Kafka knows the defaults of each. 14 MB took 430 MB and 2 s."""
    groups = [{"resource_type": 32, "resource_name": f"g{i}"} for i in range(20_000)]
    cost = ask(victim, ApiKey.DESCRIBE_CONFIGS, 4, resources=groups)
    assert len(cost.answer) > 10 << 20
    assert cost.more_bytes < 4 * len(cost.answer)
    assert cost.cpu_s < 1


def test_topics_that_might_be_created(victim: Victim) -> None:
    """The settings of each are told."""
    topics = [{"name": f"t{i}", "num_partitions": 1, "replication_factor": 1} for i in range(5_000)]
    cost = ask(victim, ApiKey.CREATE_TOPICS, 7, topics=topics, validate_only=True)
    assert len(cost.answer) > 4 << 20
    assert cost.more_bytes < 6 * len(cost.answer)
    assert cost.cpu_s < 1


def test_all_offsets_of_a_group_five_thousand_times(victim: Victim) -> None:
    """37 MB took 286 MB."""
    with Client(victim.port) as client:
        topic = client.topic(50)
        commit(client, topic, 50, "m" * 100)
    cost = ask(victim, ApiKey.OFFSET_FETCH, 8, groups=[{"group_id": topic, "topics": None}] * 5_000)
    assert len(cost.answer) > 25 << 20
    assert cost.more_bytes < 3 * len(cost.answer)


def test_an_answer_beyond_the_bound_is_not_given(victim: Victim) -> None:
    """Of 400 MB in both; they took 460 and 830 MB. The log says what was asked."""
    with Client(victim.port) as client:
        client.stable("wide", protocols={"range": b"x" * 20_000})
        topic = client.topic()
        commit(client, topic, 1, "m" * 4_000)
        alone = client.describe("wide")
    groups = ask(victim, ApiKey.DESCRIBE_GROUPS, 5, groups=["wide"] * 20_000)
    place = {"name": topic, "partition_indexes": [0] * 100_000}
    offsets = ask(victim, ApiKey.OFFSET_FETCH, 8, groups=[{"group_id": topic, "topics": [place]}])
    for cost in (groups, offsets):
        assert cost.answer == b""
        assert cost.more_bytes < 2 * MAX_ANSWER_BYTES
        assert cost.cpu_s < 1
    for name in ("DescribeGroupsResponse", "OffsetFetchResponse"):
        assert f"{name} of more than {MAX_ANSWER_BYTES} bytes: ask for fewer things" in victim.log_text()
    with Client(victim.port) as client:
        told = client.call(ApiKey.DESCRIBE_GROUPS, 5, groups=["wide", "none", "wide"]).groups
    assert told[0] == told[2] == alone
    assert told[1].group_state == "Dead"


def commit(client: Client, topic: str, partitions: int, metadata: str) -> None:
    """Offsets of a topic in a group of that name."""
    rows = [{"partition_index": i, "committed_offset": 1, "committed_metadata": metadata} for i in range(partitions)]
    asked = {"group_id": topic, "generation_id_or_member_epoch": -1, "topics": [{"name": topic, "partitions": rows}]}
    assert client.call(ApiKey.OFFSET_COMMIT, 8, **asked).topics[0].partitions[0].error_code == 0
