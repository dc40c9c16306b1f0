"""Three brokers by a script, on real sockets: who leads and coordinates what is data, and so is what they answer."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Self
from uuid import UUID

from ottla.protocol.apis import ApiKey, api
from ottla.protocol.errors import ErrorCode
from ottla.protocol.headers import skip_tags, split_request
from tests.support.requests import response

HOST = "127.0.0.1"
IDS = (1, 2, 3)
TOPIC_ID = UUID(int=7)
Script = Callable[[int, Any], dict[str, Any] | Awaitable[dict[str, Any]]]
"""Gives the fields of an answer, from the broker's id and the request."""


class ThreeBrokers:
    """See the module. They know one topic, ``t``, whose leaders are those of `leaders`.

    Attributes:
        leaders: by partition the broker and its epoch, as all tell in their metadata.
        coordinators: brokers of groups and transactional ids, by name; 1 for others.
        answers: what each says to an API besides metadata and coordinators.
        asked: the requests that each got, as (broker, API), but for ApiVersions.
        down: brokers that hang up on whoever comes.
        silent: brokers that take connections, and say nothing.
    """

    def __init__(self) -> None:
        self.leaders = {0: (1, 1), 1: (2, 1), 2: (3, 1)}
        self.coordinators: dict[str, int] = {}
        self.answers: dict[ApiKey, Script] = {}
        self.asked: list[tuple[int, ApiKey]] = []
        self.down: set[int] = set()
        self.silent: set[int] = set()
        self.ports: dict[int, int] = {}
        self._servers: list[asyncio.Server] = []
        self._writers: dict[int, list[asyncio.StreamWriter]] = {node_id: [] for node_id in IDS}

    async def __aenter__(self) -> Self:
        for node_id in IDS:
            server = await asyncio.start_server(self._accepts(node_id), HOST, 0)
            self.ports[node_id] = server.sockets[0].getsockname()[1]
            self._servers.append(server)
        return self

    async def __aexit__(self, *_: object) -> None:
        for server in self._servers:
            server.close()
        for writers in self._writers.values():
            for writer in writers:
                writer.transport.abort()

    @property
    def options(self) -> dict[str, Any]:
        """Those of a client that begins at the first one and tries again soon."""
        soon = {"retry_backoff_ms": 5, "retry_backoff_max_ms": 20, "reconnect_backoff_ms": 5}
        return {"bootstrap_servers": f"{HOST}:{self.ports[1]}", "reconnect_backoff_max_ms": 20, **soon}

    def stop(self, node_id: int) -> None:
        """Let a broker hang up on everybody."""
        self.down.add(node_id)
        for writer in self._writers[node_id]:
            writer.transport.abort()

    def took(self, key: ApiKey) -> list[int]:
        """The brokers that were asked for something, in order."""
        return [node_id for node_id, api_key in self.asked if api_key is key]

    def _accepts(self, node_id: int) -> Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            self._writers[node_id].append(writer)
            try:
                while node_id not in self.down:
                    frame = await reader.readexactly(int.from_bytes(await reader.readexactly(4), "big"))
                    if node_id in self.silent:
                        continue
                    body = await self._answer(node_id, frame)
                    writer.write(len(body).to_bytes(4, "big") + body)
            except (asyncio.IncompleteReadError, ConnectionError):
                pass
            finally:
                writer.transport.abort()

        return serve

    async def _answer(self, node_id: int, frame: bytes) -> bytes:
        number, version, correlation_id, _, position = split_request(frame)
        row = api(ApiKey(number))
        if row.request_header_version(version) == 2:
            position = skip_tags(frame, position)
        request = row.request.layout(version).decode(frame, position)
        if row.key is not ApiKey.API_VERSIONS:
            self.asked.append((node_id, row.key))
        fields = self._fields(row.key, node_id, request)
        answer = response(row.key, fields if isinstance(fields, dict) else await fields)
        head = correlation_id.to_bytes(4, "big") + b"\0" * row.response_header_version(version)
        return head + type(answer).layout(version).encode(answer)

    def _fields(self, key: ApiKey, node_id: int, request: Any) -> dict[str, Any] | Awaitable[dict[str, Any]]:
        if key is ApiKey.API_VERSIONS:
            served = [one for one in ApiKey if not one.is_private]
            versions = [(one, api(one).request.versions) for one in served]
            return {
                "api_keys": [
                    {"api_key": one, "min_version": known.start, "max_version": known.stop - 1}
                    for one, known in versions
                ]
            }
        if key is ApiKey.METADATA:
            return self.metadata()
        if key is ApiKey.FIND_COORDINATOR:
            rows = [self._coordinator(name) for name in request.coordinator_keys or [request.key]]
            alone = {name: value for name, value in rows[0].items() if name != "key"}  # before KIP-699
            return {"coordinators": rows} | alone
        return self.answers[key](node_id, request)

    def metadata(self) -> dict[str, Any]:
        """What all of them tell of the cluster."""
        up = [node_id for node_id in IDS if node_id not in self.down]
        partitions = [
            {"partition_index": index, "leader_id": leader, "leader_epoch": epoch}
            for index, (leader, epoch) in self.leaders.items()
        ]
        return {
            "brokers": [{"node_id": one, "host": HOST, "port": self.ports[one]} for one in up],
            "controller_id": up[0],
            "topics": [{"name": "t", "topic_id": TOPIC_ID, "partitions": partitions}],
        }

    def _coordinator(self, name: str) -> dict[str, Any]:
        node_id = self.coordinators.get(name, 1)
        if node_id in self.down:
            code = ErrorCode.COORDINATOR_NOT_AVAILABLE
            return {"key": name, "node_id": -1, "host": "", "port": -1, "error_code": code}
        return {"key": name, "node_id": node_id, "host": HOST, "port": self.ports[node_id]}


def by_topic(request: Any, row: Callable[[Any], dict[str, Any]]) -> dict[str, Any]:
    """An answer with a row for each partition that a request names."""
    topics = [{"name": topic.name, "partitions": [row(one) for one in topic.partitions]} for topic in request.topics]
    return {"topics": topics}
