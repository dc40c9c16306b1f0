"""Every version of every API that ApiVersions advertises is answered as what it is, and no other one is.

The cases come from the table, so whatever is served next is tried without a word here. `requests` says what is asked.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

import pytest

from ottla.broker.handlers.api_versions import table
from ottla.protocol.apis import ApiKey, api
from ottla.protocol.errors import ErrorCode
from ottla.protocol.headers import frame_request
from ottla.protocol.messages.api_versions import ApiVersionsResponse
from ottla.testing import Broker
from tests.support.client import Client
from tests.support.peer import decoded
from tests.support.requests import request
from tests.support.rules import WITH_RULES
from tests.wire.requests import World, error_codes, one_of_everything

pytestmark = pytest.mark.e2e

TABLE = table()
ROWS = [(ApiKey(row.api_key), row.min_version, row.max_version) for row in TABLE]
ADVERTISED = [(key, version) for key, low, high in ROWS for version in range(low, high + 1)]
SERVED = [(key, version) for key, version in ADVERTISED if version in api(key).request.versions]
CLOSED = [(key, version) for key, version in ADVERTISED if version not in api(key).request.versions]
"""Versions that are advertised and not served."""

SOFTWARE = {"client_software_name": "wire", "client_software_version": "1"}
CORRELATION_IDS = (0, -1, 2**31 - 1, -(2**31))

EXPECTED = {
    ApiKey.JOIN_GROUP: {ErrorCode.MEMBER_ID_REQUIRED},
    ApiKey.SASL_HANDSHAKE: {ErrorCode.ILLEGAL_SASL_STATE},  # this listener asks nobody who he is
    ApiKey.SASL_AUTHENTICATE: {ErrorCode.ILLEGAL_SASL_STATE},
}
"""Errors that say that all is well."""

REFUSES_DEFAULTS = {ApiKey.DESCRIBE_ACLS, ApiKey.CREATE_ACLS, ApiKey.DELETE_ACLS}
"""As in Kafka a rule about an unknown kind of thing is no request, and closes the connection."""


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(WITH_RULES) as broker:
        yield broker


@pytest.fixture(scope="module")
def world(broker: Broker) -> Iterator[World]:
    with Client(broker.port) as peer:
        yield World(peer)


@pytest.fixture
def peer(broker: Broker) -> Iterator[Client]:
    with Client(broker.port) as peer:
        yield peer


def name(case: object) -> str:
    return case.name if isinstance(case, ApiKey) else str(case)


def any_body(key: ApiKey) -> bytes:
    """A body of the newest layout there is, for versions that there are not."""
    newest = api(key).request.layout(api(key).request.versions[-1])
    return newest.encode(api(key).request())


@pytest.mark.parametrize(("key", "version"), SERVED, ids=name)
def test_each_version_is_answered_in_itself(peer: Client, world: World, key: ApiKey, version: int) -> None:
    answer = peer.ask(key, version, world.minimal(key, version))
    assert set(error_codes(answer)) - EXPECTED.get(key, set()) <= {0}, answer
    assert peer.call(ApiKey.API_VERSIONS, 0).error_code == 0, "nothing is left over"


@pytest.mark.parametrize(("key", "version"), SERVED, ids=name)
def test_each_version_is_answered_whatever_is_asked(peer: Client, key: ApiKey, version: int) -> None:
    """Empty names, zero ids and a bit of everything: there is an answer, if only that this cannot be."""
    asked = one_of_everything(api(key).request, version)
    if key is ApiKey.PRODUCE:
        asked.acks = 1  # 0 is not answered
    if key in REFUSES_DEFAULTS:
        peer.send(key, version, asked)
        assert peer.is_closed()
        return
    peer.ask(key, version, asked)
    assert peer.call(ApiKey.API_VERSIONS, 0).error_code == 0


@pytest.mark.parametrize(("key", "version"), CLOSED + [(key, low - 1) for key, low, _ in ROWS if low], ids=name)
def test_versions_that_are_not_served_close(peer: Client, key: ApiKey, version: int) -> None:
    peer.raw(frame_request(key, version, 1, "old", any_body(key), flexible=False))
    assert peer.is_closed()


def test_what_is_advertised_and_not_served_is_produce_alone() -> None:
    """librdkafka before 2.4 takes a higher minimum for a broker that cannot compress."""
    assert [(ApiKey.PRODUCE, version) for version in range(3)] == CLOSED


@pytest.mark.parametrize(("key", "low", "high"), ROWS, ids=name)
def test_one_above_the_maximum_closes(peer: Client, key: ApiKey, low: int, high: int) -> None:
    flexible = high + 1 >= api(key).request.flexible_from
    peer.raw(frame_request(key, high + 1, 77, "new", any_body(key), flexible=flexible))
    if key is not ApiKey.API_VERSIONS:
        assert peer.is_closed()
        return
    frame = peer.next_frame()
    assert frame.correlation_id == 77
    answer = decoded(ApiVersionsResponse, 0, 0, frame.rest)
    assert answer.error_code == ErrorCode.UNSUPPORTED_VERSION
    assert [(row.api_key, row.min_version, row.max_version) for row in answer.api_keys] == [(key, low, high)]
    assert peer.call(key, high, **SOFTWARE).api_keys


@pytest.mark.parametrize("version", [-1, 32_767])
def test_versions_beyond_everything(peer: Client, broker: Broker, version: int) -> None:
    peer.raw(frame_request(ApiKey.METADATA, version, 1, "odd", b"", flexible=False))
    assert peer.is_closed()
    with Client(broker.port) as other:
        other.raw(frame_request(ApiKey.API_VERSIONS, version, 5, "odd", b"\xff\xff", flexible=version > 0))
        assert decoded(ApiVersionsResponse, 0, 0, other.next_frame().rest).error_code == 35


@pytest.mark.parametrize("key", [4, 5, 6, 7, 38, 52, 71, 72, 93, 999, -1, 32_767])
def test_keys_that_nobody_knows_close(peer: Client, key: int) -> None:
    assert key not in {row.api_key for row in TABLE}
    peer.raw(struct.pack(">ihhih", 10, key, 0, 1, -1))
    assert peer.is_closed()


@pytest.mark.parametrize("version", [version for key, version in SERVED if key is ApiKey.API_VERSIONS])
def test_the_table_that_is_told_is_the_one_that_is_tried(peer: Client, version: int) -> None:
    told = peer.call(ApiKey.API_VERSIONS, version, **SOFTWARE).api_keys
    assert [(row.api_key, row.min_version, row.max_version) for row in told] == ROWS


@pytest.mark.parametrize("correlation_id", CORRELATION_IDS)
@pytest.mark.parametrize("client_id", ["", None, "é" * 100])
def test_the_answer_has_the_correlation_id_of_its_request(
    broker: Broker, correlation_id: int, client_id: str | None
) -> None:
    with Client(broker.port, client_id) as peer:
        for version in (1, 3):
            asked = request(ApiKey.API_VERSIONS, SOFTWARE)
            peer.raw(peer.frame(ApiKey.API_VERSIONS, version, asked, correlation_id))
            assert peer.next_frame().correlation_id == correlation_id
