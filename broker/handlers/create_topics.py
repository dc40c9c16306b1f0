"""CreateTopics (key 19)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable

from ottla.broker.context import RequestContext
from ottla.broker.core.configs.brokers import BrokerConfigs
from ottla.broker.core.security.acls import AclOperation, Resource
from ottla.broker.core.topics.catalog import NewTopic, Refusal, TopicEntry
from ottla.broker.core.topics.configs import effective_values
from ottla.broker.handlers.permits import permit
from ottla.broker.handlers.services import NOBODY_DENIED, Services
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)

_TELLS_CONFIGS_SINCE = 5
_REFUSED_SINCE = 6
"""From this version on clients know of quotas that are exceeded."""


async def handle(request: CreateTopicsRequest, ctx: RequestContext, services: Services) -> CreateTopicsResponse:
    times = Counter(topic.name for topic in request.topics)
    wanted = {topic.name: topic for topic in request.topics if times[topic.name] == 1}
    denied, secret = NOBODY_DENIED, NOBODY_DENIED
    if not services.permits_on_cluster(ctx, AclOperation.CREATE, silently=True):
        denied = services.denied(ctx, AclOperation.CREATE, Resource.TOPIC, wanted)
        wanted = {name: topic for name, topic in wanted.items() if name not in denied}
    if ctx.api_version >= _TELLS_CONFIGS_SINCE:
        secret = services.denied(ctx, AclOperation.DESCRIBE_CONFIGS, Resource.TOPIC, wanted, silently=True)
    outcomes = await services.topics.create(
        [_new_topic(topic) for topic in wanted.values()],
        validate_only=request.validate_only,
        permit=permit(ctx, _REFUSED_SINCE),
    )
    rows = [
        refused(name, ErrorCode.INVALID_REQUEST, "Duplicate topic name.") for name, count in times.items() if count > 1
    ]
    rows += [refused(name, ErrorCode.TOPIC_AUTHORIZATION_FAILED, "Authorization failed.") for name in denied]
    known: dict[Hashable, list[CreatableTopicConfigs]] = {}
    for name, outcome in zip(wanted, outcomes, strict=True):
        if isinstance(outcome, Refusal):
            rows.append(refused(name, outcome.error_code, outcome.message))
            continue
        if not request.validate_only:
            services.tell_created(ctx, outcome)
        if name in secret:
            rows.append(_secret(outcome))
        else:
            of = tuple(outcome.configs.items())
            configs = known.get(of)
            if configs is None:
                configs = known[of] = _configs(outcome, services.topics.broker_configs)
            rows.append(_created(outcome, configs))
    return CreateTopicsResponse(topics=rows)


def _new_topic(topic: CreatableTopic) -> NewTopic:
    return NewTopic(
        topic.name,
        topic.num_partitions,
        topic.replication_factor,
        [(assignment.partition_index, assignment.broker_ids) for assignment in topic.assignments],
        [(config.name, config.value) for config in topic.configs],
    )


def _created(entry: TopicEntry, configs: list[CreatableTopicConfigs]) -> CreatableTopicResult:
    return CreatableTopicResult(
        name=entry.name,
        topic_id=entry.topic_id,
        num_partitions=entry.partition_count,
        replication_factor=entry.replication_factor,
        error_message=None,
        configs=configs,
    )


def _secret(entry: TopicEntry) -> CreatableTopicResult:
    """The row of a topic for somebody who may create it, and may not be told how it is (KIP-525)."""
    error = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    return CreatableTopicResult(
        name=entry.name, topic_id=entry.topic_id, error_message=None, topic_config_error_code=error, configs=[]
    )


def _configs(entry: TopicEntry, broker: BrokerConfigs) -> list[CreatableTopicConfigs]:
    """The settings in force for a topic; the same list for all topics with the same settings."""
    return [
        CreatableTopicConfigs(
            name=value.key.name,
            value=value.value,
            read_only=False,
            config_source=value.source,
            is_sensitive=False,
        )
        for value in effective_values(entry.configs, broker)
    ]


def refused(name: str, code: int, message: str | None) -> CreatableTopicResult:
    """A row without a topic. `configs` is empty, not null: the Java admin client cannot read null there."""
    return CreatableTopicResult(name=name, error_code=code, error_message=message, configs=[])


def failed(request: CreateTopicsRequest, code: int) -> CreateTopicsResponse:
    """The answer when we have a bug."""
    return CreateTopicsResponse(topics=[refused(topic.name, code, None) for topic in request.topics])
