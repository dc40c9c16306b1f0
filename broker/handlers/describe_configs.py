"""DescribeConfigs (key 32): the settings of topics, of this broker, and of groups."""

from __future__ import annotations

from collections.abc import Iterable

from ottla.broker.context import RequestContext
from ottla.broker.core.topics.catalog import Refusal, invalid_name
from ottla.broker.core.topics.configs import ConfigSource, ConfigType, EffectiveValue, effective_values
from ottla.broker.handlers.services import Services
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)

VERSIONS = range(1, 5)

TOPIC, BROKER, GROUP = 2, 4, 32
_ADVERTISED = "advertised.listeners"


def handle(request: DescribeConfigsRequest, ctx: RequestContext, services: Services) -> DescribeConfigsResponse:
    return DescribeConfigsResponse(results=[_result(row, request, ctx, services) for row in request.resources])


def _result(
    resource: DescribeConfigsResource, request: DescribeConfigsRequest, ctx: RequestContext, services: Services
) -> DescribeConfigsResult:
    result = DescribeConfigsResult(
        resource_type=resource.resource_type, resource_name=resource.resource_name, error_message=""
    )
    rows = _rows(resource, ctx, services)
    if isinstance(rows, Refusal):
        result.error_code = rows.error_code
        result.error_message = rows.message
        return result
    keys = resource.configuration_keys
    for row in rows:
        if keys and row.name not in keys:
            continue
        if not request.include_synonyms:
            row.synonyms = []
        if not request.include_documentation:
            row.documentation = None
        result.configs.append(row)
    return result


def _rows(
    resource: DescribeConfigsResource, ctx: RequestContext, services: Services
) -> Iterable[DescribeConfigsResourceResult] | Refusal:
    name = resource.resource_name
    if resource.resource_type == TOPIC:
        if problem := invalid_name(name):
            return Refusal(ErrorCode.INVALID_TOPIC_EXCEPTION, problem)
        topic = services.topics.topics.get(name)
        if topic is None:
            return Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"There is no topic '{name}'")
        return map(_topic_row, effective_values(topic.overrides, services.settings))
    if resource.resource_type == BROKER:
        if not name:
            return ()  # what was set for all brokers at run time: nothing
        if name != str(services.node.node_id):
            text = f"This is broker {services.node.node_id}; broker '{name}' was asked for"
            return Refusal(ErrorCode.INVALID_REQUEST, text)
        return _broker_rows(ctx, services)
    if resource.resource_type == GROUP:
        if not name:
            return Refusal(ErrorCode.INVALID_REQUEST, "The group id is empty")
        # Kafka's group settings concern the consumer and share protocols only, which this broker does not have.
        return ()
    return Refusal(ErrorCode.INVALID_REQUEST, f"Unsupported resource type: {resource.resource_type}")


def _topic_row(effective: EffectiveValue) -> DescribeConfigsResourceResult:
    return DescribeConfigsResourceResult(
        name=effective.key.name,
        value=effective.value,
        read_only=False,
        config_source=effective.source,
        is_sensitive=False,
        config_type=effective.key.type,
        documentation=effective.key.documentation,
        synonyms=[_synonym(*synonym) for synonym in effective.synonyms],
    )


def _broker_rows(ctx: RequestContext, services: Services) -> Iterable[DescribeConfigsResourceResult]:
    for row in services.settings.describe():
        synonyms = [_synonym(row.name, row.default, ConfigSource.DEFAULT_CONFIG)]
        value, source = row.value, ConfigSource.DEFAULT_CONFIG
        if row.name == _ADVERTISED or not row.is_default:
            if row.name == _ADVERTISED and not value:
                # Clients are told the address that they reached; for whoever asks, that is the setting's value.
                host, port = services.node.endpoint(ctx)
                value = f"PLAINTEXT://{host}:{port}"
            source = ConfigSource.STATIC_BROKER_CONFIG
            synonyms.insert(0, _synonym(row.name, value, source))
        yield DescribeConfigsResourceResult(
            name=row.name,
            value=value,
            read_only=True,
            config_source=source,
            is_sensitive=False,
            config_type=ConfigType[row.type.upper()],
            documentation=row.documentation,
            synonyms=synonyms,
        )


def _synonym(name: str, value: str, source: ConfigSource) -> DescribeConfigsSynonym:
    return DescribeConfigsSynonym(name=name, value=value, source=source)


def failed(request: DescribeConfigsRequest, code: int) -> DescribeConfigsResponse:
    """The answer when we have a bug."""
    rows = [
        DescribeConfigsResult(
            error_code=code, error_message=None, resource_type=row.resource_type, resource_name=row.resource_name
        )
        for row in request.resources
    ]
    return DescribeConfigsResponse(results=rows)
