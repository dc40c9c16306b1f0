"""OffsetCommit (key 8): topics are checked here, the group in the coordinator."""

from __future__ import annotations

import dataclasses

from ottla.broker.context import RequestContext
from ottla.broker.handlers.services import Services
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)

VERSIONS = range(2, 9)


def handle(request: OffsetCommitRequest, ctx: RequestContext, services: Services) -> OffsetCommitResponse | None:
    known, unknown = _split(request, services)
    if not unknown and known:
        return services.groups.commit_offsets(request, ctx)
    refused = _answer(unknown, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    if not known:
        # Nothing is left to commit: the coordinator is not asked at all, and no session is extended.
        return OffsetCommitResponse(topics=refused)
    merged = _Merged(ctx, request, refused)
    response = services.groups.commit_offsets(dataclasses.replace(request, topics=known), merged)
    return None if response is None else merged.merge(response)


def failed(request: OffsetCommitRequest, code: int) -> OffsetCommitResponse:
    return OffsetCommitResponse(topics=_answer(request.topics, code))


class _Merged:
    """A context whose answer is completed with the partitions that the coordinator was not asked about."""

    def __init__(
        self, ctx: RequestContext, request: OffsetCommitRequest, refused: list[OffsetCommitResponseTopic]
    ) -> None:
        self._ctx = ctx
        self._order = [topic.name for topic in request.topics]
        self._refused = refused
        self.api_version = ctx.api_version
        self.client_id = ctx.client_id
        self.client_host = ctx.client_host

    def reply(self, response: OffsetCommitResponse) -> None:
        self._ctx.reply(self.merge(response))

    def merge(self, response: OffsetCommitResponse) -> OffsetCommitResponse:
        """One entry a topic, in the order of the request."""
        topics: dict[str, OffsetCommitResponseTopic] = {}
        for topic in [*response.topics, *self._refused]:
            if topic.name in topics:
                topics[topic.name].partitions.extend(topic.partitions)
            else:
                topics[topic.name] = topic
        return OffsetCommitResponse(topics=[topics[name] for name in dict.fromkeys(self._order) if name in topics])


def _split(
    request: OffsetCommitRequest, services: Services
) -> tuple[list[OffsetCommitRequestTopic], list[OffsetCommitRequestTopic]]:
    """The request's partitions that exist, and those that do not."""
    known, unknown = [], []
    for topic in request.topics:
        count = services.topics.partition_count(topic.name)
        here = [p for p in topic.partitions if 0 <= p.partition_index < count]
        if len(here) == len(topic.partitions):
            known.append(topic)
            continue
        missing = [p for p in topic.partitions if not 0 <= p.partition_index < count]
        unknown.append(dataclasses.replace(topic, partitions=missing))
        if here:
            known.append(dataclasses.replace(topic, partitions=here))
    return [topic for topic in known if topic.partitions], unknown


def _answer(topics: list[OffsetCommitRequestTopic], code: int) -> list[OffsetCommitResponseTopic]:
    return [
        OffsetCommitResponseTopic(
            name=topic.name,
            partitions=[
                OffsetCommitResponsePartition(partition_index=p.partition_index, error_code=code)
                for p in topic.partitions
            ],
        )
        for topic in topics
    ]
