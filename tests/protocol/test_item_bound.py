"""A frame of a size that is allowed must not become gigabytes of objects."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

import pytest

from ottla.broker.core.topics.catalog import MAX_PARTITIONS_PER_REQUEST
from ottla.protocol.apis import ApiKey, api
from ottla.protocol.errors import MalformedFrame
from ottla.protocol.messages.create_topics import CreatableTopicConfigs, CreatableTopicResult, CreateTopicsResponse
from ottla.protocol.messages.fetch import (
    AbortedTransaction,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from ottla.protocol.messages.list_offsets import ListOffsetsRequest
from ottla.protocol.messages.metadata import MetadataRequest
from ottla.protocol.primitives import MAX_ITEMS, UNKNOWN_BYTE_ITEMS, uvarint_bytes
from ottla.protocol.schema import Layout

TAG = b"\x7f\x00"
EMPTY_TOPIC = b"\x01\x00"  # a compact name of no bytes and no tags
FEW = 1_000
Reader = Callable[[type, int], Callable[[bytes], Any]]


@pytest.fixture(params=["decode", "parse"])
def reader(request: pytest.FixtureRequest) -> Reader:
    """Makes one of the readers of a message, with a bound that is quickly reached."""

    def bounded(message: type, version: int) -> Callable[[bytes], Any]:
        layout = Layout(message, version)
        layout.max_items = FEW
        return layout.decode if request.param == "decode" else layout.parse

    return bounded


def test_every_request_has_the_bound() -> None:
    assert max(api(key).request.max_items for key in ApiKey) == MAX_ITEMS


def test_a_fetch_may_tell_of_more_aborted_transactions() -> None:
    """One batch of a record and one marker each take 150 bytes; 50 MiB are asked for by default."""
    aborted = [AbortedTransaction(producer_id=1, first_offset=offset) for offset in range(2 * MAX_ITEMS)]
    topic = FetchableTopicResponse(partitions=[PartitionData(aborted_transactions=aborted)])
    layout = FetchResponse.layout(4)
    decoded = layout.decode(layout.encode(FetchResponse(responses=[topic])))
    assert decoded.responses[0].partitions[0].aborted_transactions == aborted


def test_what_a_request_may_create_is_read() -> None:
    """As many topics as it may make partitions, each with its settings."""
    topic = CreatableTopicResult(configs=[CreatableTopicConfigs()] * 40)
    response = CreateTopicsResponse(topics=[topic] * MAX_PARTITIONS_PER_REQUEST)
    layout = CreateTopicsResponse.layout(7)
    assert layout.decode(layout.encode(response)) == response


def test_one_array_over_the_bound_is_refused_before_it_is_read(reader: Reader) -> None:
    body = uvarint_bytes(FEW + 2) + EMPTY_TOPIC * (FEW + 1) + b"\0\0\0\0"
    with pytest.raises(MalformedFrame, match="topics: more array items and tags"):
        reader(MetadataRequest, 9)(body)


def test_nested_arrays_count_together(reader: Reader) -> None:
    """Six topics, each with a fifth of what is allowed."""
    many = FEW // 5
    topic = struct.pack(">h", 0) + struct.pack(">i", many) + struct.pack(">iq", 0, -1) * many
    body = struct.pack(">ii", -1, 6) + topic * 6
    with pytest.raises(MalformedFrame, match=r"topics\[\d\]\.partitions: more array items"):
        reader(ListOffsetsRequest, 1)(body)


def test_as_many_as_the_bound_are_read(reader: Reader) -> None:
    body = uvarint_bytes(FEW + 1) + EMPTY_TOPIC * FEW + b"\0\0\0\0"
    assert len(reader(MetadataRequest, 9)(body).topics) == FEW


def test_tags_count_as_items(reader: Reader) -> None:
    """Those of all sections together, and with the items."""
    topic = b"\x01" + uvarint_bytes(FEW // 10) + TAG * (FEW // 10)
    body = uvarint_bytes(10) + topic * 9 + b"\0\0\0" + uvarint_bytes(FEW // 10 - 9)
    read = reader(MetadataRequest, 9)
    assert len(read(body + TAG * (FEW // 10)).topics) == 9
    with pytest.raises(MalformedFrame, match="tags: more array items and tags"):
        read(body[:-1] + uvarint_bytes(FEW // 10 - 8) + TAG * (FEW // 10))


def test_what_nobody_knows_is_bounded(reader: Reader) -> None:
    """A tagged field that is known may be as large as it likes."""
    most = (FEW - 1) // UNKNOWN_BYTE_ITEMS
    body = b"\x01\0\0\0\x01"
    read = reader(MetadataRequest, 9)
    assert read(body + b"\x7f" + uvarint_bytes(most) + bytes(most)).topics == []
    with pytest.raises(MalformedFrame, match=r"tags\[127\]: more array items and tags"):
        read(body + b"\x7f" + uvarint_bytes(most + 1) + bytes(most + 1))
    name = b"c" * 4 * FEW
    known = b"\x01\0" + uvarint_bytes(len(name) + 2) + uvarint_bytes(len(name) + 1) + name
    fetch = FetchRequest.layout(15).encode(FetchRequest())[:-1] + known
    assert reader(FetchRequest, 15)(fetch).cluster_id == name.decode()
