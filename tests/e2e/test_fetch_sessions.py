"""Fetch sessions on real sockets: what a consumer does not say again, and connections that come and go."""

import socket
import struct
import time
from collections.abc import Iterator
from typing import Any

import kafka
import pytest

from ottla.broker.core.fetch_sessions import FetchSessions
from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import ErrorCode
from ottla.testing import Broker
from tests.support.client import Client, batch
from tests.support.requests import fetch_fields
from tests.support.waiting import wait_for

pytestmark = pytest.mark.e2e

PARTITIONS = 40


def sessions(broker: Broker) -> FetchSessions:
    return broker._running._services.fetch_sessions


@pytest.fixture
def quiet_broker() -> Iterator[Broker]:
    """A broker whose sessions are this test's alone."""
    with Broker({"group.initial.rebalance.delay.ms": 0}, topics={"t": PARTITIONS}) as broker:
        yield broker


@pytest.fixture
def raw(quiet_broker: Broker) -> Iterator[Client]:
    with Client(quiet_broker.port) as client:
        yield client


class Reader:
    """A consumer by topic id with a session, over any connection."""

    def __init__(self, client: Client) -> None:
        self.topic_id = client.topic_id("t")
        self.session_id = self.epoch = 0

    def fields(self, *offsets: tuple[int, int], max_wait_ms: int = 0) -> dict[str, Any]:
        session = {"session_id": self.session_id, "session_epoch": self.epoch, "max_bytes": (1 << 31) - 1}
        rows = [row for index, offset in offsets for row in fetch_fields(self.topic_id, offset, index)["topics"]]
        return {"max_wait_ms": max_wait_ms, "min_bytes": 1, "topics": rows, **session}

    def ask(self, client: Client, *offsets: tuple[int, int], max_wait_ms: int = 0) -> dict[int, int]:
        """The bytes of each partition that was told."""
        answer = client.call(ApiKey.FETCH, 18, **self.fields(*offsets, max_wait_ms=max_wait_ms))
        assert answer.error_code == 0
        self.session_id = answer.session_id
        self.epoch += 1
        return {row.partition_index: len(row.records or b"") for topic in answer.responses for row in topic.partitions}


def test_a_session_goes_on_over_another_connection(quiet_broker: Broker, raw: Client) -> None:
    first = Client(quiet_broker.port)
    reader = Reader(first)
    everything = [(index, 0) for index in range(PARTITIONS)]
    assert reader.ask(first, *everything) == dict.fromkeys(range(PARTITIONS), 0)
    first.close()
    assert reader.ask(raw) == {}
    raw.produce("t", partition=7)
    told = reader.ask(raw)
    assert (list(told), told[7] > 0) == ([7], True)
    assert len(sessions(quiet_broker)) == 1


def test_a_connection_that_ends_within_a_fetch_leaves_nothing_parked(quiet_broker: Broker, raw: Client) -> None:
    lost = Client(quiet_broker.port)
    reader = Reader(lost)
    reader.ask(lost, (0, 0), (1, 0))
    lost.start(ApiKey.FETCH, 18, **reader.fields(max_wait_ms=60_000))
    assert lost.is_silent(0.3)
    lost.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # a reset, no orderly end
    lost.close()
    parked = quiet_broker._running._host._fetches
    wait_for(lambda: not quiet_broker.run(lambda: len(parked)), "no more fetch of a connection that is gone")
    raw.produce("t", partition=1)
    # The client cannot know whether its last request arrived: it begins anew, and ends its old session with that.
    reader.epoch = 0
    assert reader.ask(raw, (0, 0), (1, 0))[1] > 0
    assert len(sessions(quiet_broker)) == 1


def test_a_session_by_id_does_not_go_on_by_name(quiet_broker: Broker, raw: Client) -> None:
    reader = Reader(raw)
    reader.ask(raw, (0, 0))
    answer = raw.call(ApiKey.FETCH, 12, **reader.fields())
    assert (answer.error_code, answer.session_id) == (ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR, 0)
    assert reader.ask(raw) == {}


def test_kafka_python_reads_many_partitions_in_a_session(quiet_broker: Broker, raw: Client) -> None:
    consumer = kafka.KafkaConsumer(
        bootstrap_servers=quiet_broker.bootstrap_servers,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        group_id=None,
        fetch_max_bytes=4000,  # less than there is: who was read must not be read again before the others
        max_poll_records=500,
    )
    try:
        consumer.assign([kafka.TopicPartition("t", index) for index in range(PARTITIONS)])
        for turn in range(3):
            for index in range(PARTITIONS):
                raw.produce("t", batch(f"{turn}-{index}".encode() + b"." * 300), partition=index)
            found: set[tuple[int, int]] = set()
            deadline = time.monotonic() + 30
            while len(found) < PARTITIONS and time.monotonic() < deadline:
                for rows in consumer.poll(timeout_ms=500).values():
                    found.update((row.partition, row.offset) for row in rows)
            assert found == {(index, turn) for index in range(PARTITIONS)}
        assert (len(sessions(quiet_broker)), sessions(quiet_broker).partitions) == (1, PARTITIONS)
    finally:
        consumer.close()
