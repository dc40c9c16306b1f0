"""Metadata (key 3): the brokers, and topics with their partitions. Creates topics where the broker allows it.

Many topics are told in steps, each as it is when its turn comes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from uuid import UUID

from ottla.broker.cluster.view import NOBODY
from ottla.broker.context import RequestContext
from ottla.broker.core.security.acls import AclOperation, Resource
from ottla.broker.core.topics.catalog import MAX_PARTITIONS_PER_REQUEST, Refusal, invalid_name
from ottla.broker.core.topics.partition import Partition, Topic
from ottla.broker.handlers.authorized import NOT_ASKED
from ottla.broker.handlers.describe_cluster import cluster_operations
from ottla.broker.handlers.permits import permit_by_asking
from ottla.broker.handlers.services import Services
from ottla.broker.runtime.topics import Outcome
from ottla.protocol.errors import ErrorCode
from ottla.protocol.internal_topics import INTERNAL_TOPICS
from ottla.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from ottla.protocol.primitives import ZERO_UUID
from ottla.protocol.steps import Steps, finished

_LOOKUP_BY_ID_SINCE = 12
_DENIED = ErrorCode.TOPIC_AUTHORIZATION_FAILED

AT_ONCE = 500
"""Topics, or partitions of topics, that are told without a pause."""


def names(request: MetadataRequest, ctx: RequestContext) -> Iterator[str | UUID]:
    return (topic.topic_id if topic.topic_id.int else topic.name or "" for topic in request.topics or ())


def handle(
    request: MetadataRequest, ctx: RequestContext, services: Services
) -> MetadataResponse | Steps[MetadataResponse | None] | None:
    wanted = request.topics
    if ctx.api_version == 0 and not wanted:
        wanted = None  # the empty list of version 0 is the null of later ones
    steps = _handled(request, wanted, ctx, services)
    return finished(steps) if _is_little(wanted, services) else steps


def _is_little(wanted: Sequence[MetadataRequestTopic] | None, services: Services) -> bool:
    topics = services.topics.topics
    if len(topics if wanted is None else wanted) > AT_ONCE:
        return False
    told = topics.values() if wanted is None else [_found(asked, services) for asked in wanted]
    return sum(len(topic.partitions) for topic in told if topic is not None) <= AT_ONCE


def _found(asked: MetadataRequestTopic, services: Services) -> Topic | None:
    topics = services.topics
    return topics.by_id.get(asked.topic_id) if asked.topic_id.int else topics.topics.get(asked.name or "")


def _handled(
    request: MetadataRequest, wanted: Sequence[MetadataRequestTopic] | None, ctx: RequestContext, services: Services
) -> Steps[MetadataResponse | None]:
    if wanted and ctx.api_version < _LOOKUP_BY_ID_SINCE and any(t.name is None or t.topic_id.int for t in wanted):
        return failed(request, ErrorCode.INVALID_REQUEST)
    missing, refused = yield from _to_create(wanted or (), request, ctx, services)

    def tell(outcomes: Sequence[Outcome]) -> None:
        for outcome in outcomes:
            if not isinstance(outcome, Refusal):
                services.tell_created(ctx, outcome)

    if not missing or len(missing) > MAX_PARTITIONS_PER_REQUEST:
        refused |= dict.fromkeys(missing, ErrorCode.POLICY_VIOLATION)
        return (yield from _answer(request, wanted, ctx, services, refused))

    if any(services.topics.was_deleted(name) for name in missing):
        # A producer may have batches with the old id under way. Told of the new id now, it would send the next batch
        # before it repeats those, and none of them would be in order any more. As in Kafka it has to ask again.
        services.topics.auto_create(missing, tell, permit=permit_by_asking(ctx))
        return (yield from _answer(request, wanted, ctx, services, refused))

    def created(outcomes: Sequence[Outcome]) -> None:
        tell(outcomes)
        for name, outcome in zip(missing, outcomes, strict=True):
            if isinstance(outcome, Refusal):
                refused[name] = outcome.error_code
        steps = _answer(request, wanted, ctx, services, refused)
        if _is_little(wanted, services):
            ctx.reply(finished(steps))
        else:
            services.long_work(_replied(steps, ctx), ctx, partial(failed, request, ErrorCode.UNKNOWN_SERVER_ERROR))

    services.topics.auto_create(missing, created, permit=permit_by_asking(ctx))
    return None


def _replied(steps: Steps[MetadataResponse], ctx: RequestContext) -> Steps[None]:
    yield from ctx.reply_in_steps((yield from steps))


def _to_create(
    wanted: Sequence[MetadataRequestTopic], request: MetadataRequest, ctx: RequestContext, services: Services
) -> Steps[tuple[list[str], dict[str, ErrorCode]]]:
    """The names of topics that are to be created by asking for them, and those that this client may not create."""
    if not (request.allow_auto_topic_creation and services.settings.auto_create_topics_enable):
        return [], {}
    topics = services.topics.topics
    missing: dict[str, None] = {}
    for number, topic in enumerate(wanted, 1):
        name = topic.name
        if (
            name is not None
            and name not in topics
            and not topic.topic_id.int
            and name not in INTERNAL_TOPICS
            and not invalid_name(name)
            and services.permits(ctx, AclOperation.DESCRIBE, Resource.TOPIC, name, silently=True)  # told in the answer
        ):
            missing[name] = None
        if not number % AT_ONCE:
            yield None
    if not missing or services.permits_on_cluster(ctx, AclOperation.CREATE, silently=True):
        return list(missing), {}
    denied = services.denied(ctx, AclOperation.CREATE, Resource.TOPIC, missing)
    return [name for name in missing if name not in denied], dict.fromkeys(denied, _DENIED)


def _answer(
    request: MetadataRequest,
    wanted: Sequence[MetadataRequestTopic] | None,
    ctx: RequestContext,
    services: Services,
    refused: dict[str, ErrorCode],
) -> Steps[MetadataResponse]:
    topics = services.topics.topics
    asks = services.authorizer is not None
    rows = []
    if wanted is None:
        count = 0
        for topic in list(topics.values()):
            if asks and not services.permits(ctx, AclOperation.DESCRIBE, Resource.TOPIC, topic.name, silently=True):
                continue
            known = topic.described
            rows.append(_row(topic, request, ctx, services))
            count += 1 if topic.described is known else 1 + len(topic.partitions)
            if count > AT_ONCE:
                count = 0
                yield None
        return _response(request, ctx, services, rows)
    seen = set()
    for number, asked in enumerate(wanted, 1):
        if not number % AT_ONCE:
            yield None
        by_id = asked.topic_id.int != 0
        key = asked.topic_id if by_id else asked.name
        if key in seen:
            continue
        seen.add(key)
        if asks and not by_id and not services.permits(ctx, AclOperation.DESCRIBE, Resource.TOPIC, asked.name or ""):
            # Whether it exists or not.
            rows.append(MetadataResponseTopic(error_code=_DENIED, name=asked.name or ""))
            continue
        found = _found(asked, services)
        if asks and by_id and found and not services.permits(ctx, AclOperation.DESCRIBE, Resource.TOPIC, found.name):
            rows.append(MetadataResponseTopic(error_code=_DENIED, topic_id=asked.topic_id, name=None))
        elif found is not None:
            rows.append(_row(found, request, ctx, services))
        elif by_id:
            unknown = ErrorCode.UNKNOWN_TOPIC_ID
            rows.append(MetadataResponseTopic(error_code=unknown, topic_id=asked.topic_id, name=None))
        else:
            error = _why_missing(asked.name or "", refused)
            may = NOT_ASKED if error is _DENIED else _operations(asked.name or "", request, ctx, services)
            rows.append(_missing(asked, error, may))
    return _response(request, ctx, services, rows)


def _why_missing(name: str, refused: dict[str, ErrorCode]) -> ErrorCode:
    if invalid_name(name):
        return ErrorCode.INVALID_TOPIC_EXCEPTION
    error = refused.get(name, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    # Created and deleted while this request waited: it is unknown again.
    return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if error is ErrorCode.TOPIC_ALREADY_EXISTS else error


def _missing(asked: MetadataRequestTopic, error: ErrorCode, operations: int) -> MetadataResponseTopic:
    return MetadataResponseTopic(
        error_code=error,
        name=asked.name or "",
        topic_id=ZERO_UUID,
        is_internal=asked.name in INTERNAL_TOPICS,
        topic_authorized_operations=operations,
    )


def _operations(name: str, request: MetadataRequest, ctx: RequestContext, services: Services) -> int:
    if not request.include_topic_authorized_operations:
        return NOT_ASKED
    return services.operations(ctx, Resource.TOPIC, name)


def _row(topic: Topic, request: MetadataRequest, ctx: RequestContext, services: Services) -> MetadataResponseTopic:
    view, described = services.cluster.placement.view, topic.described
    if described is None or described[0] is not view:
        topic.described = described = view, [_partition(partition, services) for partition in topic.partitions]
    return MetadataResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.is_internal,
        partitions=described[1] if ctx.api_version else _of_those_that_are_up(described[1]),
        topic_authorized_operations=_operations(topic.name, request, ctx, services),
    )


def _partition(partition: Partition, services: Services) -> MetadataResponsePartition:
    leader = services.cluster.leader(partition.tp)
    replicas, in_sync = services.cluster.replicas(partition.tp, leader.node_id)
    is_led = leader.node_id != NOBODY
    return MetadataResponsePartition(
        error_code=ErrorCode.NONE if is_led else ErrorCode.LEADER_NOT_AVAILABLE,
        partition_index=partition.tp.partition,
        leader_id=leader.node_id,
        leader_epoch=leader.epoch,
        replica_nodes=replicas,
        isr_nodes=in_sync,
        offline_replicas=[node_id for node_id in replicas if node_id not in in_sync],
    )


def _of_those_that_are_up(partitions: list[MetadataResponsePartition]) -> list[MetadataResponsePartition]:
    """Version 0 cannot say which replicas are offline, and names the others alone."""
    return [replace(row, replica_nodes=row.isr_nodes) for row in partitions]


def _response(
    request: MetadataRequest, ctx: RequestContext, services: Services, rows: list[MetadataResponseTopic]
) -> MetadataResponse:
    cluster = services.cluster
    return MetadataResponse(
        brokers=[
            MetadataResponseBroker(node_id=node_id, host=host, port=port, rack=rack)
            for node_id, host, port, rack in cluster.brokers(ctx)
        ],
        cluster_id=cluster.cluster_id,
        controller_id=cluster.controller_id,
        topics=rows,
        cluster_authorized_operations=cluster_operations(
            ctx, services, asked=request.include_cluster_authorized_operations
        ),
    )


def failed(request: MetadataRequest, code: int) -> MetadataResponse:
    """The topics that were named, each with the code, and nothing of the cluster."""
    rows = [
        MetadataResponseTopic(error_code=code, name=topic.name or "", topic_id=topic.topic_id)
        for topic in request.topics or ()
    ]
    return MetadataResponse(topics=rows)
