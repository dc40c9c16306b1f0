"""Requests that are longer than any of their API: they are refused when their first bytes are there."""

from __future__ import annotations

import struct
import time
from contextlib import suppress

import pytest

from ottla.broker.handlers import HANDLERS
from ottla.protocol.apis import ApiKey
from ottla.protocol.framing import ANY_REQUEST_BYTES
from ottla.testing import Broker
from tests.hostile.victim import Victim
from tests.support.client import Client, batch
from tests.support.requests import fetch_fields

pytestmark = pytest.mark.e2e

MIB = 1 << 20
KEEP = {ApiKey.PRODUCE, ApiKey.FETCH, ApiKey.METADATA, ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP, ApiKey.OFFSET_COMMIT}


@pytest.fixture(scope="module")
def broker():
    with Broker() as running:
        yield running


def start(key: int, size: int, version: int = 0) -> bytes:
    return struct.pack(">ihh", size, key, version)


@pytest.mark.parametrize(
    "key", [key for key in HANDLERS if key.max_request_bytes < 100 * MIB], ids=lambda key: key.name
)
def test_a_request_that_is_too_long_is_refused_before_it_is_there(broker: Broker, key: ApiKey) -> None:
    assert key not in KEEP
    with Client(broker.port) as client:
        assert client.call(ApiKey.API_VERSIONS, 0).error_code == 0
        client.raw(start(key, key.max_request_bytes + 1))
        assert client.is_closed()


@pytest.mark.parametrize("key", sorted(KEEP), ids=lambda key: key.name)
def test_large_requests_have_the_limit_of_all(broker: Broker, key: ApiKey) -> None:
    with Client(broker.port) as client:
        assert client.call(ApiKey.API_VERSIONS, 0).error_code == 0
        client.raw(start(key, 90 * MIB))
        assert client.is_silent(0.02)


def test_an_admin_may_look_for_all_groups_at_once(broker: Broker) -> None:
    """Java's admin client does, for `kafka-consumer-groups.sh --describe --all-groups`."""
    keys = [f"console-consumer-{number:040}" for number in range(50_000)]
    with Client(broker.port) as client:
        assert client.call(ApiKey.API_VERSIONS, 0).error_code == 0
        found = client.call(ApiKey.FIND_COORDINATOR, 4, key_type=0, coordinator_keys=keys).coordinators
    assert [each.key for each in found] == keys
    assert {each.error_code for each in found} == {0}


def test_nobody_begins_with_a_long_request_but_a_producer(broker: Broker) -> None:
    with Client(broker.port) as client:
        client.raw(start(ApiKey.JOIN_GROUP, MIB + 1))
        assert client.is_closed()
    with Client(broker.port) as client:
        client.raw(start(ApiKey.PRODUCE, 90 * MIB))
        assert client.is_silent(0.02)


@pytest.mark.parametrize("pieces", [1, 3, 5, 6])
def test_an_unknown_api_is_refused_at_once(broker: Broker, pieces: int) -> None:
    with Client(broker.port) as client:
        frame = start(999, ANY_REQUEST_BYTES + 1)
        for at in range(0, 6, pieces):
            client.raw(frame[at : min(6, at + pieces)])
        assert client.is_closed()


def test_a_long_request_behind_another_is_refused_too(broker: Broker) -> None:
    with Client(broker.port) as client:
        topic = client.topic()
        client.start(ApiKey.FETCH, 12, **fetch_fields(topic, max_wait_ms=100, min_bytes=1))
        client.raw(start(ApiKey.API_VERSIONS, ANY_REQUEST_BYTES + 1))
        assert client.answer().error_code == 0
        assert client.is_closed()


def test_a_hundred_megabytes_of_api_versions_cost_next_to_nothing() -> None:
    with Victim() as victim:
        victim.forget_peak()
        before, peak = victim.cpu_s(), victim.peak_bytes()
        with victim.calm() as felt:
            for _ in range(20):
                with Client(victim.port) as client, suppress(ConnectionError):
                    client.raw(start(ApiKey.API_VERSIONS, 100 * MIB, 3))
                    for _ in range(100):
                        client.raw(bytes(MIB))
                time.sleep(0.01)
        assert victim.cpu_s() - before < 2
        assert victim.peak_bytes() - peak < 20 * MIB
        assert felt.longest_ms < 1_000


def test_a_produce_of_an_honest_client_is_as_large_as_before(broker: Broker) -> None:
    with Client(broker.port) as client:
        topic = client.topic(max_message_bytes="50000000")
        assert client.produce(topic, batch(b"x" * 20 * MIB)).error_code == 0
