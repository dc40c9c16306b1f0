"""A client without any retry or memory: it sends one request, and knows whether the answer came."""

import socket
import struct
import threading
from collections.abc import Callable
from typing import Any

from ottla.protocol.apis import ApiKey, api
from ottla.protocol.headers import frame_request
from ottla.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from ottla.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from ottla.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.protocol.records import Record, build_batch


class RawClient:
    """One connection. Every failure of it is an `OSError`."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=30)
        self._correlation_id = 0

    def ask(self, key: ApiKey, version: int, message: Any) -> Any:
        """Send a request and wait for its answer."""
        self._correlation_id += 1
        row = api(key)
        flexible = row.request_header_version(version) == 2
        body = row.request.layout(version).encode(message)
        self._socket.sendall(frame_request(key, version, self._correlation_id, "raw", body, flexible=flexible))
        (size,) = struct.unpack(">i", self._receive(4))
        frame = self._receive(size)
        assert struct.unpack(">i", frame[:4]) == (self._correlation_id,)
        return row.response.layout(version).decode(frame[5 if flexible else 4 :])

    def produce(self, topic: str, partition: int, value: str, timestamp_ms: int) -> int:
        """Append one record with acks=all, and give its offset."""
        batch = build_batch([Record(0, timestamp_ms, None, value.encode(), [])])
        place = PartitionProduceData(index=partition, records=batch)
        answer = self.ask(
            ApiKey.PRODUCE,
            9,
            ProduceRequest(
                acks=-1, timeout_ms=30_000, topic_data=[TopicProduceData(name=topic, partition_data=[place])]
            ),
        )
        told = answer.responses[0].partition_responses[0]
        if told.error_code:
            raise OSError(f"produce: error {told.error_code}")
        offset: int = told.base_offset
        return offset

    def commit(self, group: str, topic: str, partition: int, offset: int) -> None:
        """Commit an offset of a group without members."""
        place = OffsetCommitRequestPartition(partition_index=partition, committed_offset=offset, committed_metadata="")
        topics = [OffsetCommitRequestTopic(name=topic, partitions=[place])]
        answer = self.ask(ApiKey.OFFSET_COMMIT, 8, OffsetCommitRequest(group_id=group, topics=topics))
        if code := answer.topics[0].partitions[0].error_code:
            raise OSError(f"commit: error {code}")

    def committed(self, group: str) -> dict[tuple[str, int], int]:
        """All offsets of a group."""
        asked = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group, topics=None)])
        (told,) = self.ask(ApiKey.OFFSET_FETCH, 8, asked).groups
        if told.error_code:
            raise OSError(f"offset fetch: error {told.error_code}")
        return {
            (topic.name, place.partition_index): place.committed_offset
            for topic in told.topics
            for place in topic.partitions
        }

    def close(self) -> None:
        self._socket.close()

    def _receive(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            if not (chunk := self._socket.recv(size - len(data))):
                raise ConnectionResetError("the broker closed the connection")
            data += chunk
        return data


class Persistent:
    """Does one step after another until it is stopped, with a new connection after each failure."""

    def __init__(self, port: int, step: Callable[[RawClient, int], None]) -> None:
        self.broken: BaseException | None = None
        self._port = port
        self._step = step
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join(60)
        assert not self._thread.is_alive(), "it does not end"
        if self.broken is not None:
            raise self.broken

    def _run(self) -> None:
        number = 0
        client: RawClient | None = None
        while not self._stopping.is_set():
            number += 1
            try:
                client = client or RawClient(self._port)
                self._step(client, number)
            except OSError:
                if client is not None:
                    client.close()
                client = None
                self._stopping.wait(0.02)
            except BaseException as error:
                self.broken = error
                return
        if client is not None:
            client.close()
