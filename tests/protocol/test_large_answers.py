"""Answers of very many parts: the same bytes as of few, in little more memory than they take, and within a bound."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from ottla.protocol import structs
from ottla.protocol.errors import AnswerTooLarge
from ottla.protocol.messages.describe_configs import (
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from ottla.protocol.messages.describe_groups import DescribedGroup, DescribedGroupMember, DescribeGroupsResponse
from ottla.protocol.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from ottla.protocol.messages.metadata import MetadataResponse, MetadataResponsePartition, MetadataResponseTopic
from ottla.protocol.schema import Layout
from ottla.protocol.steps import Steps, finished
from tests.support.memory import allocations


def metadata(topics: int, partitions: int) -> MetadataResponse:
    rows = [MetadataResponsePartition(partition_index=i, replica_nodes=[i], isr_nodes=[1]) for i in range(partitions)]
    return MetadataResponse(topics=[MetadataResponseTopic(name=f"t{i}", partitions=rows) for i in range(topics)])


def configs(resources: int, *rows: DescribeConfigsResourceResult) -> DescribeConfigsResponse:
    results = [DescribeConfigsResult(resource_name=f"r{i}", configs=list(rows)) for i in range(resources)]
    return DescribeConfigsResponse(results=results)


def row(name: str) -> DescribeConfigsResourceResult:
    return DescribeConfigsResourceResult(name=name, value="v", documentation=None)


def groups(*names: str, members: int = 1) -> DescribeGroupsResponse:
    rows = [DescribedGroupMember(member_id=f"m{i}", member_metadata=b"x" * 100) for i in range(members)]
    return DescribeGroupsResponse(groups=[DescribedGroup(group_id=name, members=rows) for name in names])


ONE = groups("g", members=3_000)
LARGE: list[tuple[Any, int]] = [
    (metadata(3, 2_000), 12),
    (metadata(2_000, 3), 8),
    (metadata(200, 100), 13),
    (configs(500, row("a"), row("b"), row("a")), 4),
    (configs(70, *(row(f"k{i}") for i in range(70))), 1),
    (DescribeGroupsResponse(groups=ONE.groups * 3 + groups("h").groups + ONE.groups), 6),
]
"""Each has more chunks than are kept, in arrays of one kind or within one another."""


@pytest.mark.parametrize(("response", "version"), LARGE)
def test_large_answers_are_written_as_small_ones(response: Any, version: int) -> None:
    layout = type(response).layout(version)
    assert layout.encode(response) == layout.build(response)
    for tags in (False, True):
        fused = layout.response_encoder(header_tags=tags)
        whole = layout.response_encoder(header_tags=tags, fused=False)(response, 7)
        assert bytes(fused(response, 7)) == whole
        steps = list(pauses(in_steps(fused)(response, 7), whole))
        assert 1 < len(steps) < 100


def in_steps(encode: Any) -> Any:
    return encode.in_steps


def pauses(steps: Steps[Any], outcome: bytes) -> Iterator[None]:
    assert bytes((yield from steps)) == outcome


def test_records_stay_where_they_are_in_steps_too() -> None:
    rows = [PartitionData(partition_index=i, high_watermark=1, records=b"r" * 5_000) for i in range(3_000)]
    response = FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=rows)])
    encode = FetchResponse.layout(12).response_encoder(header_tags=True)
    frame = finished(in_steps(encode)(response, 7))
    assert bytes(frame) == bytes(encode(response, 7))
    assert rows[0].records in frame.pieces


def test_objects_with_equal_ids_are_not_taken_for_each_other() -> None:
    """An id is that of an object as long as it lives; the next message's may have the same one."""
    layout = DescribeConfigsResponse.layout(4)
    encode = layout.response_encoder(header_tags=True)
    for name in ("first", "second", "third"):
        response = configs(3, row(name))
        assert layout.decode(bytes(encode(response, 1))[9:]) == response


@pytest.mark.parametrize(("response", "version"), LARGE[:2])
def test_what_it_takes_to_write_a_large_answer(response: Any, version: int) -> None:
    encode = type(response).layout(version).response_encoder(header_tags=True)
    size = len(encode(response, 1))
    not_joined_yet = 1_300_000
    with allocations() as peak:
        encode(response, 1)
    assert peak.bytes < 2.5 * size + not_joined_yet


@pytest.mark.parametrize("fused", [True, False])
@pytest.mark.parametrize(("response", "version"), LARGE)
def test_no_answer_is_larger_than_the_bound(
    monkeypatch: pytest.MonkeyPatch, response: Any, version: int, fused: bool
) -> None:
    size = len(type(response).layout(version).response_encoder(header_tags=True)(response, 1))
    monkeypatch.setattr(structs, "MAX_ANSWER_BYTES", size)
    encode = Layout(type(response), version).response_encoder(header_tags=True, fused=fused)
    assert len(encode(response, 1)) == size
    monkeypatch.setattr(structs, "MAX_ANSWER_BYTES", size - 1)
    encode = Layout(type(response), version).response_encoder(header_tags=True, fused=fused)
    with pytest.raises(AnswerTooLarge, match=f"^{type(response).__name__} of more than {size - 1} bytes: ask"):
        encode(response, 1)


@pytest.mark.parametrize(
    ("response", "version"),
    [
        (DescribeGroupsResponse(groups=groups("g", members=2_000).groups * 20_000), 5),  # 4.6 GB
        (configs(200_000, *[row("k" * 1_000)] * 8), 4),  # 1.6 GB
    ],
)
def test_what_is_too_large_is_not_put_together(response: Any, version: int) -> None:
    encode = type(response).layout(version).response_encoder(header_tags=False)
    with allocations() as peak, pytest.raises(AnswerTooLarge):
        encode(response, 1)
    assert peak.bytes < 1.2 * structs.MAX_ANSWER_BYTES


def test_what_is_too_large_is_not_written_to_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing in it repeats: it is put together up to the bound."""
    monkeypatch.setattr(structs, "MAX_ANSWER_BYTES", 1 << 20)
    encode = Layout(MetadataResponse, 12).response_encoder(header_tags=True)
    seen = 0

    class Row(MetadataResponseTopic):
        """Counts how often it is written."""

        @property
        def error_code(self) -> int:
            nonlocal seen
            seen += 1
            return 0

        @error_code.setter
        def error_code(self, code: int) -> None:
            pass

    response = MetadataResponse(topics=[Row(name="t" * 100)] * 50_000)
    with pytest.raises(AnswerTooLarge):
        encode(response, 1)
    assert seen < 10_000


def test_answers_with_records_are_as_large_as_a_length_can_say() -> None:
    """Fetch has a bound of its own; but no length says 2 GiB."""
    records = b"x" * (1 << 20)
    layout = FetchResponse.layout(12)
    encode = layout.response_encoder(header_tags=True)

    def answer(partitions: int) -> FetchResponse:
        rows = [PartitionData(partition_index=i, records=records) for i in range(partitions)]
        return FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=rows)])

    assert len(encode(answer(2_047), 1)) > 2_047 << 20
    with pytest.raises(AnswerTooLarge, match="2147483651 bytes"):
        encode(answer(2_048), 1)
