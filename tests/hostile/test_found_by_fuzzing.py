"""Faults that the fuzzer has found, each as the shortest request that shows it."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

import pytest

from ottla.protocol.apis import ApiKey, api
from ottla.protocol.errors import ErrorCode, MalformedFrame
from ottla.protocol.messages.create_topics import CreatableTopicResult
from ottla.protocol.messages.heartbeat import HeartbeatRequest
from ottla.protocol.primitives import uvarint_bytes
from tests.hostile.victim import Victim
from tests.support.client import Client

LONG = "x" * 32_767


@pytest.fixture(scope="module")
def victim() -> Iterator[Victim]:
    with Victim() as victim:
        yield victim
        assert "Traceback" not in victim.log_text()


@pytest.fixture
def client(victim: Victim) -> Iterator[Client]:
    with Client(victim.port) as client:
        yield client


@pytest.mark.e2e
def test_a_refusal_that_quotes_the_longest_name(client: Client) -> None:
    """The sentence around the name made it longer than a string can be, and the answer could not be encoded."""
    resources = [{"resource_type": 8, "resource_name": LONG, "configs": [{"name": LONG, "value": "x"}]}]
    told = client.call(ApiKey.ALTER_CONFIGS, 1, resources=resources).responses[0]
    assert told.error_code == ErrorCode.INVALID_REQUEST and LONG[:1000] in told.error_message


@pytest.mark.e2e
def test_a_refusal_of_a_handler_that_answers_at_once(client: Client) -> None:
    components = [{"entity_type": LONG, "match_type": 1, "match": None}]
    told = client.call(ApiKey.DESCRIBE_CLIENT_QUOTAS, 0, components=components, strict=False)
    assert told.error_code == ErrorCode.UNSUPPORTED_VERSION


@pytest.mark.e2e
def test_a_retention_time_that_does_not_end(client: Client) -> None:
    """The sum with the time of day did not fit the record, and the write that was begun never ended."""
    topic = client.topic()
    for retention_ms in (2**63 - 1, -(2**63)):
        assert client.commit("kept", topic, 5, version=4, retention_time_ms=retention_ms) == 0
        told = client.committed("kept", topic, require_stable=True)
        assert (told.error_code, told.committed_offset) == (0, 5)


@pytest.mark.e2e
@pytest.mark.parametrize(
    ("client_id", "instance"), [("c" * 32_731, None), ("c", "i" * 32_731)], ids=["client", "static"]
)
def test_a_member_id_that_no_answer_can_carry(victim: Victim, client_id: str, instance: str | None) -> None:
    """It begins with the client's id, or the instance's. Old members of the group could not be told their leader."""
    with Client(victim.port, client_id) as client:
        told = client.join("long", 9, instance=instance, rebalance_ms=1_000)
        assert (told.error_code, told.member_id) == (ErrorCode.UNKNOWN_SERVER_ERROR, "")
    with Client(victim.port, client_id[:-1]) as client:
        told = client.join("long", 9, instance=instance and instance[:-1], rebalance_ms=1_000)
        assert told.error_code in (ErrorCode.NONE, ErrorCode.MEMBER_ID_REQUIRED)
        assert len(told.member_id) in (32_767, 38)


LONG_NAMES = [f"{number:04}".ljust(32_000, "n") for number in range(300)]


@pytest.mark.e2e
@pytest.mark.parametrize(
    ("key", "version", "fields"),
    [
        (ApiKey.DELETE_GROUPS, 2, {"groups_names": LONG_NAMES}),
        (ApiKey.DESCRIBE_GROUPS, 5, {"groups": LONG_NAMES}),
        (ApiKey.OFFSET_FETCH, 8, {"groups": [{"group_id": name, "topics": None} for name in LONG_NAMES]}),
        (ApiKey.DESCRIBE_TRANSACTIONS, 0, {"transactional_ids": LONG_NAMES}),
    ],
    ids=lambda value: value.name if isinstance(value, ApiKey) else "",
)
def test_many_long_names(victim: Victim, client: Client, key: ApiKey, version: int, fields: dict[str, Any]) -> None:
    """Java's hash of each was taken in Python, 3 ms for a name: 100 MB of names stopped the broker for 10 s."""
    client.describe("nobody")  # the first request of a connection has to be short
    client.call(key, version, **fields)
    before_s = victim.cpu_s()
    client.call(key, version, **fields)
    assert victim.cpu_s() - before_s < 0.3


@pytest.mark.parametrize("form", ["fused", "construct"])
def test_long_words_are_cut_between_characters(form: str) -> None:
    layout = api(ApiKey.CREATE_TOPICS).response.layout(2)
    told = api(ApiKey.CREATE_TOPICS).response(topics=[CreatableTopicResult(name="t", error_message="ü" * 20_000)])
    data = layout.encode(told) if form == "fused" else layout.build(told)
    assert layout.decode(data).topics[0].error_message == "ü" * 16_383


@pytest.mark.parametrize("read", ["decode", "parse"])
def test_no_string_is_longer_than_an_old_version_can_say(read: str) -> None:
    """A group id that came in by a flexible version could not be listed by an older one, for anybody."""
    layout = HeartbeatRequest.layout(4)

    def request(size: int) -> bytes:
        return uvarint_bytes(size + 1) + b"g" * size + struct.pack(">i", 1) + b"\2m\0\0"

    reader: Any = layout.decode if read == "decode" else layout.parse
    assert reader(request(32_767)).group_id == "g" * 32_767
    with pytest.raises(MalformedFrame, match=r"32768|more than 32,767 bytes"):
        reader(request(32_768))
