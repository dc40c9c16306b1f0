#!/usr/bin/env python3
"""A server that can be fetched from and nothing else: what a pipeline reads from, where the broker is not measured.

It serves the logs of a directory from memory. With a rate it serves them as if they grew: the ends move on by so many
records a second, all partitions together. Prints `host:port` once it listens and runs until it is ended.
"""

from __future__ import annotations

import asyncio
import struct
import sys
import time
from bisect import bisect_right
from pathlib import Path
from typing import Any, cast

import click

from ottla.protocol.apis import ApiKey, api
from ottla.protocol.errors import ErrorCode
from ottla.protocol.framing import FrameReader
from ottla.protocol.headers import skip_tags, split_request
from ottla.protocol.messages.api_versions import ApiVersion, ApiVersionsResponse
from ottla.protocol.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from ottla.protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from ottla.protocol.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

VERSIONS = {ApiKey.FETCH: (4, 12), ApiKey.LIST_OFFSETS: (1, 7), ApiKey.METADATA: (1, 9), ApiKey.API_VERSIONS: (0, 4)}
EARLIEST = -2
_PLACE = struct.Struct(">qi").unpack_from
_DELTA = struct.Struct(">i").unpack_from


class Log:
    """One partition, with an index of its batches."""

    def __init__(self, data: bytes) -> None:
        self.data = memoryview(data)
        self.places: list[int] = []
        self.bases: list[int] = []
        at = end = 0
        while at < len(data):
            base, length = _PLACE(data, at)
            self.places.append(at)
            self.bases.append(base)
            end = base + _DELTA(data, at + 23)[0] + 1
            at += 12 + length
        self.end_offset = end
        self.places.append(at)

    def end_at(self, offset: int) -> int:
        """The last end of a batch that is not beyond an offset."""
        return (
            self.end_offset if offset >= self.end_offset else self.bases[max(bisect_right(self.bases, offset) - 1, 0)]
        )

    def read(self, offset: int, end: int, most_bytes: int) -> memoryview:
        """Whole batches from the one that has the offset, at least one if there is any below the end."""
        first = bisect_right(self.bases, offset) - 1
        start = self.places[first]
        last = len(self.bases) if end >= self.end_offset else bisect_right(self.bases, end - 1)
        stop = max(bisect_right(self.places, start + most_bytes) - 1, first + 1)
        return self.data[start : self.places[min(stop, last)]] if last > first else self.data[:0]


class Served:
    """The logs of a directory as topics, and how far they go now."""

    def __init__(self, directory: Path, rate: float) -> None:
        self.topics: dict[str, dict[int, Log]] = {}
        self.rate = rate
        for path in sorted(directory.iterdir()):
            topic, _, number = path.name.rpartition("-")
            self.topics.setdefault(topic, {})[int(number)] = Log((path / f"{0:020d}.log").read_bytes())
        self.total = sum(log.end_offset for logs in self.topics.values() for log in logs.values())
        self.started = time.monotonic()
        self.address = ("", 0)

    def end(self, log: Log) -> int:
        """The high watermark."""
        if not self.rate:
            return log.end_offset
        share = min(1.0, (time.monotonic() - self.started) * self.rate / self.total)
        return log.end_at(int(log.end_offset * share))

    def answer(self, key: ApiKey, request: Any) -> Any:
        """The answer of a broker."""
        if key is ApiKey.METADATA:
            return self._metadata(request)
        if key is ApiKey.LIST_OFFSETS:
            return self._list_offsets(request)
        if key is ApiKey.FETCH:
            return self._fetch(request)
        rows = [ApiVersion(api_key=one, min_version=low, max_version=high) for one, (low, high) in VERSIONS.items()]
        return ApiVersionsResponse(error_code=0, api_keys=rows)

    def _metadata(self, request: Any) -> MetadataResponse:
        names = [one.name for one in request.topics] if request.topics is not None else list(self.topics)
        rows = []
        for name in names:
            unknown = ErrorCode.NONE if name in self.topics else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            partitions = [
                MetadataResponsePartition(
                    error_code=0, partition_index=number, leader_id=1, leader_epoch=0, replica_nodes=[1], isr_nodes=[1]
                )
                for number in self.topics.get(name, ())
            ]
            rows.append(MetadataResponseTopic(error_code=unknown, name=name, is_internal=True, partitions=partitions))
        host, port = self.address
        brokers = [MetadataResponseBroker(node_id=1, host=host, port=port)]
        return MetadataResponse(brokers=brokers, cluster_id="bench", controller_id=1, topics=rows)

    def _list_offsets(self, request: Any) -> ListOffsetsResponse:
        topics = []
        for topic in request.topics:
            rows = [
                ListOffsetsPartitionResponse(
                    partition_index=one.partition_index,
                    error_code=0,
                    offset=0 if one.timestamp == EARLIEST else self.end(self.topics[topic.name][one.partition_index]),
                )
                for one in topic.partitions
            ]
            topics.append(ListOffsetsTopicResponse(name=topic.name, partitions=rows))
        return ListOffsetsResponse(topics=topics)

    def _fetch(self, request: Any) -> FetchResponse:
        left = request.max_bytes
        topics = []
        for topic in request.topics:
            rows = []
            for one in topic.partitions:
                log = self.topics[topic.topic][one.partition]
                end = self.end(log)
                data: Any = b""
                if left > 0 and one.fetch_offset < end:
                    data = log.read(one.fetch_offset, end, min(left, one.partition_max_bytes))
                left -= len(data)
                rows.append(
                    PartitionData(
                        partition_index=one.partition,
                        error_code=0,
                        high_watermark=end,
                        last_stable_offset=end,
                        records=bytes(data),
                    )
                )
            topics.append(FetchableTopicResponse(topic=topic.topic, partitions=rows))
        return FetchResponse(responses=topics)


class Connection(asyncio.Protocol):
    """Answers each request at once."""

    def __init__(self, served: Served) -> None:
        self.served = served
        self.reader = FrameReader()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.WriteTransport, transport)

    def data_received(self, data: bytes) -> None:
        self.reader.feed(data)
        while (frame := self.reader.next()) is not None:
            number, version, correlation_id, _, position = split_request(bytes(frame))
            row = api(ApiKey(number))
            low, high = VERSIONS[row.key]
            if not low <= version <= high:
                raise ValueError(f"{row.key.name} of version {version}")
            if row.request_header_version(version) == 2:
                position = skip_tags(bytes(frame), position)
            answer = self.served.answer(row.key, row.request.layout(version).decode(bytes(frame), position))
            encode = row.response.layout(version).response_encoder(
                header_tags=bool(row.response_header_version(version))
            )
            self.transport.write(bytes(encode(answer, correlation_id)))


@click.command()
@click.option("--logs", required=True, type=click.Path(path_type=Path), help="A log directory in Kafka's layout.")
@click.option("--rate", default=0.0, help="Records a second by which the ends move; 0 serves all at once.")
def main(logs: Path, rate: float) -> None:
    """Serve a directory of logs on a free loopback port."""
    served = Served(logs, rate)

    async def serve() -> None:
        server = await asyncio.get_running_loop().create_server(lambda: Connection(served), "127.0.0.1", 0)
        served.address = server.sockets[0].getsockname()
        served.started = time.monotonic()
        print(f"{served.address[0]}:{served.address[1]}", flush=True)
        await server.serve_forever()

    try:
        asyncio.run(serve())
    except KeyboardInterrupt:
        sys.exit(0)


if __name__ == "__main__":
    main()
