"""Frames spelled out by hand from the protocol guide (https://kafka.apache.org/protocol), byte by byte.

Everything else here compares programs with programs; this compares with what is written down.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest

from ottla.protocol.apis import ApiKey, api
from ottla.protocol.headers import frame_request, skip_tags, split_request
from ottla.protocol.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from ottla.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ReplicaState
from ottla.protocol.messages.find_coordinator import Coordinator, FindCoordinatorResponse
from ottla.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from ottla.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from ottla.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from ottla.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopic
from ottla.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.protocol.messages.sync_group import SyncGroupResponse


def bytes_of(text: str) -> bytes:
    """Hex with spaces; 'quoted words' stand for their own characters."""
    data = b""
    for word in text.split():
        data += word.strip("'").encode() if word.startswith("'") else bytes.fromhex(word)
    return data


JOIN = JoinGroupRequest(
    group_id="g",
    session_timeout_ms=6000,
    rebalance_timeout_ms=300000,
    member_id="",
    protocol_type="consumer",
    protocols=[JoinGroupRequestProtocol(name="range", metadata=b"\xde\xad\xbe\xef")],
)

REQUESTS: list[tuple[str, Any, int, str]] = [
    # length    key  version correlation  client id          body
    (
        "00000023   000c 0000    00000007     0006 'client'      0005 'group'  00000003  0006 'member'",
        HeartbeatRequest(group_id="group", generation_id=3, member_id="member"),
        0,
        "client",
    ),
    (
        "00000028   000c 0003    00000007     0006 'client'      0005 'group'  00000003  0006 'member'  0003 'ins'",
        HeartbeatRequest(group_id="group", generation_id=3, member_id="member", group_instance_id="ins"),
        3,
        "client",
    ),
    (  # header 2: the client id keeps its classic form, then tags; compact strings; null instance id; tags
        "00000024   000c 0004    00000007     0006 'client' 00   06 'group'  00000003  07 'member'  00  00",
        HeartbeatRequest(group_id="group", generation_id=3, member_id="member"),
        4,
        "client",
    ),
    (
        "0000000a   0012 0000    ffffffff     ffff",
        ApiVersionsRequest(client_software_name="", client_software_version=""),
        0,
        "",
    ),
    (
        "00000018   0012 0003    00000001     0001 'c' 00        05 'name'  06 '1.2.3'  00",
        ApiVersionsRequest(client_software_name="name", client_software_version="1.2.3"),
        3,
        "c",
    ),
    ("0000000e   0003 0001    00000001     0000              ffffffff", MetadataRequest(topics=None), 1, ""),
    ("0000000e   0003 0001    00000001     0000              00000000", MetadataRequest(topics=[]), 1, ""),
    (  # topic by id: uuid, null name, tags; then two flags, tags
        "00000021   0003 000c    00000001     0000 00           02 000102030405060708090a0b0c0d0e0f 00 00   00 01 00",
        MetadataRequest(
            topics=[MetadataRequestTopic(topic_id=UUID(int=0x000102030405060708090A0B0C0D0E0F), name=None)],
            allow_auto_topic_creation=False,
            include_topic_authorized_operations=True,
        ),
        12,
        "",
    ),
    (
        "00000036   000b 0005    00000002     0000  0001 'g'  00001770  000493e0  0000  ffff  0008 'consumer'"
        "  00000001  0005 'range'  00000004 deadbeef",
        JOIN,
        5,
        "",
    ),
    (
        "0000003c   000b 0009    00000002     0000 00  02 'g'  00001770  000493e0  01  00  09 'consumer'"
        "  02  06 'range' 05 deadbeef 00  0e 'just' 20 'starting' 00",
        replace(JOIN, reason="just starting"),
        9,
        "",
    ),
    (  # all topics of one group: a null array
        "00000018   0009 0009    00000003     0000 00  02  02 'g'  02 'm'  00000005  00  00  01 00",
        OffsetFetchRequest(
            groups=[OffsetFetchRequestGroup(group_id="g", member_id="m", member_epoch=5, topics=None)],
            require_stable=True,
        ),
        9,
        "",
    ),
    (
        "0000001e   0009 0008    00000003     0000 00  02  02 'g'  02  02 't' 03 00000000 00000001 00  00  00 00",
        OffsetFetchRequest(
            groups=[
                OffsetFetchRequestGroup(
                    group_id="g", topics=[OffsetFetchRequestTopic(name="t", partition_indexes=[0, 1])]
                )
            ],
        ),
        8,
        "",
    ),
    (
        "0000002f   0000 0003    00000004     0000  ffff  ffff  000005dc  00000001  0001 't'  00000002"
        "  00000000 00000002 abcd  00000001 ffffffff",
        ProduceRequest(
            acks=-1,
            timeout_ms=1500,
            topic_data=[
                TopicProduceData(
                    name="t",
                    partition_data=[
                        PartitionProduceData(index=0, records=b"\xab\xcd"),
                        PartitionProduceData(index=1, records=None),
                    ],
                )
            ],
        ),
        3,
        "",
    ),
    (  # tags at two levels: cluster id 0 and replica state 1 of the request, high watermark 1 of the partition
        "00000077   0001 0012    00000005     0000 00  000001f4 00000001 03200000 00  00000000 ffffffff"
        "  02  000102030405060708090a0b0c0d0e0f"
        "  02  00000003 ffffffff 0000000000000064 ffffffff ffffffffffffffff 00100000  01 01 08 0000000000000065  00"
        "  01  01"
        "  02  00 05 05 'clus'  01 0d 00000002 0000000000000009 00",
        FetchRequest(
            cluster_id="clus",
            replica_state=ReplicaState(replica_id=2, replica_epoch=9),
            max_wait_ms=500,
            min_bytes=1,
            max_bytes=52428800,
            session_epoch=-1,
            topics=[
                FetchTopic(
                    topic_id=UUID(int=0x000102030405060708090A0B0C0D0E0F),
                    partitions=[
                        FetchPartition(partition=3, fetch_offset=100, partition_max_bytes=1048576, high_watermark=101)
                    ],
                )
            ],
        ),
        18,
        "",
    ),
]


@pytest.mark.parametrize(("text", "request_", "version", "client_id"), REQUESTS)
def test_requests(text: str, request_: Any, version: int, client_id: str) -> None:
    frame = bytes_of(text)
    assert len(frame) == 4 + int.from_bytes(frame[:4], "big")
    key, sent_version, correlation_id, raw_client_id, position = split_request(frame, 4)
    assert (ApiKey(key), sent_version, raw_client_id.decode()) == (_key_of(request_), version, client_id)
    row = api(ApiKey(key))
    if row.request_header_version(version) == 2:
        position = skip_tags(frame, position)
    layout = row.request.layout(version)
    assert layout.decode(frame, position) == layout.parse(frame, position) == request_
    assert layout.encode(request_) == frame[position:]
    null_client_id = frame[12:14] == b"\xff\xff"
    assert frame == frame_request(
        key,
        version,
        correlation_id,
        None if null_client_id else client_id,
        layout.encode(request_),
        flexible=layout.flexible,
    )


def _key_of(request: Any) -> ApiKey:
    return next(key for key in ApiKey if api(key).request is type(request))


RESPONSES: list[tuple[str, Any, int]] = [
    ("00000006  00000007  001b", HeartbeatResponse(throttle_time_ms=0, error_code=27), 0),
    ("0000000a  00000007  00000064 001b", HeartbeatResponse(throttle_time_ms=100, error_code=27), 1),
    ("0000000c  00000007 00  00000064 001b 00", HeartbeatResponse(throttle_time_ms=100, error_code=27), 4),
    (  # header 0 although the body is flexible (KIP-511); throttle time behind the array; no tags
        "0000001a  00000001  0000  03 0000 0000 0009 00  0012 0000 0004 00  00000000  00",
        ApiVersionsResponse(
            error_code=0,
            api_keys=[
                ApiVersion(api_key=0, min_version=0, max_version=9),
                ApiVersion(api_key=18, min_version=0, max_version=4),
            ],
        ),
        3,
    ),
    (  # the answer to a version that is not known: version 0 with error 35
        "00000010  00000001  0023  00000001 0012 0000 0004",
        ApiVersionsResponse(error_code=35, api_keys=[ApiVersion(api_key=18, min_version=0, max_version=4)]),
        0,
    ),
    (
        "00000027  00000001 00  00000000  02  02 'g' 00000001 0a '127.0.0.1' 00002384 0000 05 'none' 00  00",
        FindCoordinatorResponse(
            coordinators=[
                Coordinator(key="g", node_id=1, host="127.0.0.1", port=9092, error_code=0, error_message="none")
            ]
        ),
        4,
    ),
    (
        "0000001e  00000009 00  00000000 0000 09 'consumer' 06 'range' 03 0102 00",
        SyncGroupResponse(error_code=0, protocol_type="consumer", protocol_name="range", assignment=b"\x01\x02"),
        5,
    ),
]


@pytest.mark.parametrize(("text", "response", "version"), RESPONSES)
def test_responses(text: str, response: Any, version: int) -> None:
    frame = bytes_of(text)
    assert len(frame) == 4 + int.from_bytes(frame[:4], "big")
    row = next(api(key) for key in ApiKey if api(key).response is type(response))
    header_version = row.response_header_version(version)
    layout = row.response.layout(version)
    position = 8 + header_version
    assert layout.decode(frame, position) == layout.parse(frame, position) == response
    for fused in (True, False):
        encode = layout.response_encoder(header_tags=bool(header_version), fused=fused)
        assert encode(response, int.from_bytes(frame[4:8], "big")) == frame
