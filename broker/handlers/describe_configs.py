"""DescribeConfigs (key 32): the settings of topics, of this broker, and of groups."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence

from ottla.broker.context import RequestContext
from ottla.broker.core.configs.alterations import ALL_BROKERS
from ottla.broker.core.configs.brokers import BrokerConfigs, is_read_only
from ottla.broker.core.configs.groups import GROUP_KEYS, group_synonyms
from ottla.broker.core.configs.idle import idle_type
from ottla.broker.core.configs.kinds import ConfigSource, ConfigType, ResourceType, Synonym
from ottla.broker.core.configs.loggers import ROOT, Logger, kafkas_level, other_node
from ottla.broker.core.refusal import Refusal, bad_request
from ottla.broker.core.security.acls import CLUSTER_NAME, AclOperation, Resource
from ottla.broker.core.topics.catalog import invalid_name
from ottla.broker.core.topics.configs import EffectiveValue, effective_values
from ottla.broker.handlers.config_changes import RESOURCES
from ottla.broker.handlers.services import Services
from ottla.broker.setting_keys import OF_LISTENER, of_listener
from ottla.broker.settings import FIELDS, as_text, type_of
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)

_ADVERTISED = "advertised.listeners"
_DEFAULT_BROKER = ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG
_Row = DescribeConfigsResourceResult
_Rows = Iterable[_Row]


class _Shared:
    """The rows of one answer. What is said of many resources is one object, which is encoded once."""

    def __init__(self, request: DescribeConfigsRequest) -> None:
        self._request = request
        self._rows: dict[Hashable, _Row] = {}
        self._of: dict[Hashable, list[_Row]] = {}

    def rows(self, kind: int, of: Hashable, make: Callable[[], _Rows]) -> list[_Row]:
        """The rows that ``make`` gives for a kind of resource; ``of`` is what they depend on besides."""
        rows = self._of.get((kind, of))
        if rows is None:
            rows = self._of[kind, of] = [self._row(kind, row) for row in make()]
        return rows

    def _row(self, kind: int, row: _Row) -> _Row:
        if not self._request.include_synonyms:
            row.synonyms = []
        if not self._request.include_documentation:
            row.documentation = None
        synonyms = tuple((each.name, each.value, each.source) for each in row.synonyms)
        return self._rows.setdefault((kind, row.name, row.value, row.read_only, row.config_source, synonyms), row)


def names(request: DescribeConfigsRequest, ctx: RequestContext) -> Iterator[str]:
    return (row.resource_name for row in request.resources if row.resource_type == ResourceType.TOPIC)


def handle(request: DescribeConfigsRequest, ctx: RequestContext, services: Services) -> DescribeConfigsResponse:
    if unknown := [row.resource_type for row in request.resources if row.resource_type not in RESOURCES]:
        text = f"Unsupported resource type: {unknown[0]}"  # as Kafka, of the whole request, before anything is asked
        rows = [_failed(row, ErrorCode.INVALID_REQUEST, text) for row in request.resources]
        return DescribeConfigsResponse(results=rows)
    shared = _Shared(request)
    allowed: list[DescribeConfigsResult] = []
    denied: list[DescribeConfigsResult] = []
    for row in request.resources:
        if (error := _refusal(row, ctx, services)) is ErrorCode.NONE:
            allowed.append(_result(row, shared, ctx, services))
        else:
            denied.append(_failed(row, error, error.text))
    return DescribeConfigsResponse(results=allowed + denied)


def _refusal(row: DescribeConfigsResource, ctx: RequestContext, services: Services) -> ErrorCode:
    """Why somebody may not see the settings of something."""
    if services.authorizer is None:
        return ErrorCode.NONE
    resource, error = RESOURCES[row.resource_type]
    name = row.resource_name if resource is not Resource.CLUSTER else CLUSTER_NAME
    return ErrorCode.NONE if services.permits(ctx, AclOperation.DESCRIBE_CONFIGS, resource, name) else error


def _result(
    resource: DescribeConfigsResource, shared: _Shared, ctx: RequestContext, services: Services
) -> DescribeConfigsResult:
    result = DescribeConfigsResult(
        resource_type=resource.resource_type, resource_name=resource.resource_name, error_message=""
    )
    rows = _rows(resource, shared, ctx, services)
    if isinstance(rows, Refusal):
        result.error_code = rows.error_code
        result.error_message = rows.message
        return result
    keys = set(resource.configuration_keys or ())
    result.configs = [row for row in rows if row.name in keys] if keys else rows
    return result


def _rows(
    resource: DescribeConfigsResource, shared: _Shared, ctx: RequestContext, services: Services
) -> list[_Row] | Refusal:
    name = resource.resource_name
    topics = services.topics
    if resource.resource_type == ResourceType.TOPIC:
        if problem := invalid_name(name):
            return Refusal(ErrorCode.INVALID_TOPIC_EXCEPTION, problem)
        topic = topics.topics.get(name)
        if topic is None:
            return Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"There is no topic '{name}'")
        overrides = topic.overrides
        return shared.rows(
            ResourceType.TOPIC,
            tuple(overrides.items()),
            lambda: map(_topic_row, effective_values(overrides, topics.broker_configs)),
        )
    if resource.resource_type == ResourceType.BROKER:
        if name == ALL_BROKERS:
            return shared.rows(ResourceType.BROKER, name, lambda: _default_rows(topics.broker_configs))
        if name != str(services.cluster.me):
            text = f"This is broker {services.cluster.me}; broker '{name}' was asked for"
            return bad_request(text)
        return shared.rows(ResourceType.BROKER, name, lambda: _broker_rows(ctx, services))
    if resource.resource_type == ResourceType.GROUP:
        if not name:
            return bad_request("The group id is empty")
        configs = topics.group_configs.get(name, {})
        return shared.rows(
            ResourceType.GROUP, tuple(configs.items()), lambda: _group_rows(configs, topics.broker_configs)
        )
    if resource.resource_type == ResourceType.BROKER_LOGGER and services.logger is not None:
        return other_node(name, services.cluster.me) or [_level_row(services.logger)]
    return bad_request(f"Unsupported resource type: {resource.resource_type}")


def _group_rows(configs: Mapping[str, str], broker: BrokerConfigs) -> _Rows:
    for key in GROUP_KEYS.values():
        documentation = _documentation(key.documentation, key.effective)
        yield _row(key.name, group_synonyms(key, configs, broker), key.type, documentation)


def _level_row(logger: Logger) -> DescribeConfigsResourceResult:
    level = Synonym(ROOT, kafkas_level(logger.level), ConfigSource.DYNAMIC_BROKER_LOGGER_CONFIG)
    row = _row(ROOT, (level,), ConfigType.UNKNOWN, "The least severe level that is logged.")
    row.synonyms = []
    return row


def _documentation(text: str, effective: bool) -> str:
    return text if effective else f"{text} No effect yet."


def _topic_row(effective: EffectiveValue) -> DescribeConfigsResourceResult:
    key = effective.key
    # A key that brokers do not have has no synonym while it is not set.
    synonyms = effective.synonyms or (Synonym(key.name, effective.value, effective.source),)
    row = _row(key.name, synonyms, key.type, _documentation(key.documentation, key.effective))
    if not effective.synonyms:
        row.synonyms = []
    return row


def _broker_rows(ctx: RequestContext, services: Services) -> _Rows:
    configs = services.topics.broker_configs
    for row in configs.static.describe():
        synonyms = configs.synonyms(row.name)
        if row.name == _ADVERTISED and not synonyms[0].value:
            # Clients are told the address that they reached; for whoever asks, that is the setting's value.
            told = services.cluster.broker(services.cluster.me, ctx)
            assert told is not None, "a node has the listeners by which clients come"
            value = f"{ctx.session.listener}://{told.host}:{told.port}"
            synonyms = (Synonym(row.name, value, ConfigSource.STATIC_BROKER_CONFIG), synonyms[-1])
        metadata = FIELDS[row.name].metadata
        documentation = _documentation(row.documentation, metadata["effective"])
        kind = ConfigType[row.type.upper()]
        read_only = is_read_only(row.name)
        if metadata["sensitive"]:
            yield _hidden(_row(row.name, _without_values(synonyms), kind, documentation, read_only=read_only))
        else:
            yield _row(row.name, synonyms, kind, documentation, read_only=read_only)
    static = {OF_LISTENER + key: as_text(value) for key, value in configs.static.by_listener.items()}
    layers = (
        (configs.own, ConfigSource.DYNAMIC_BROKER_CONFIG),
        (configs.default, _DEFAULT_BROKER),
        (static, ConfigSource.STATIC_BROKER_CONFIG),
    )
    for name in sorted({*configs.own, *configs.default, *static} - FIELDS.keys()):
        synonyms = tuple(Synonym(name, layer[name], source) for layer, source in layers if name in layer)
        if (setting := of_listener(name)) is None:
            yield _foreign_row(name, synonyms)
        else:
            yield _listener_row(name, setting, synonyms + configs.synonyms(setting))


def _default_rows(configs: BrokerConfigs) -> _Rows:
    """The settings made for all brokers while they ran."""
    for name, value in sorted(configs.default.items()):
        if name in FIELDS:
            metadata = FIELDS[name].metadata
            documentation = _documentation(metadata["documentation"], metadata["effective"])
            yield _row(name, (Synonym(name, value, _DEFAULT_BROKER),), ConfigType[type_of(name).upper()], documentation)
        else:
            yield _foreign_row(name, [Synonym(name, value, _DEFAULT_BROKER)])


def _foreign_row(name: str, synonyms: Sequence[Synonym]) -> DescribeConfigsResourceResult:
    """A key that is not ours. If Kafka does not know it either its value may be a secret, and is not shown."""
    kind = idle_type(name)
    if kind is not None:
        return _row(name, synonyms, kind, "A setting of Kafka's. No effect.")
    return _hidden(_row(name, _without_values(synonyms), ConfigType.UNKNOWN, None, read_only=True))


def _listener_row(name: str, setting: str, synonyms: Sequence[Synonym]) -> DescribeConfigsResourceResult:
    """A key for one listener, before the key that holds for all of them."""
    metadata, kind = FIELDS[setting].metadata, ConfigType[type_of(setting).upper()]
    if metadata["sensitive"]:
        synonyms = _without_values(synonyms)
    row = _row(name, synonyms, kind, metadata["documentation"], read_only=is_read_only(name))
    return _hidden(row) if metadata["sensitive"] else row


def _without_values(synonyms: Sequence[Synonym]) -> list[Synonym]:
    return [synonym._replace(value=None) for synonym in synonyms]


def _hidden(row: DescribeConfigsResourceResult) -> DescribeConfigsResourceResult:
    """The row of a secret."""
    row.is_sensitive = True
    return row


def _row(
    name: str, synonyms: Sequence[Synonym], kind: ConfigType, documentation: str | None, *, read_only: bool = False
) -> DescribeConfigsResourceResult:
    """A key whose first synonym counts."""
    return DescribeConfigsResourceResult(
        name=name,
        value=synonyms[0].value,
        read_only=read_only,
        config_source=synonyms[0].source,
        is_sensitive=False,
        config_type=kind,
        documentation=documentation,
        synonyms=[DescribeConfigsSynonym(name=each, value=value, source=source) for each, value, source in synonyms],
    )


def failed(request: DescribeConfigsRequest, code: int) -> DescribeConfigsResponse:
    """The answer with one code for all: also that when we have a bug."""
    return DescribeConfigsResponse(results=[_failed(row, code, None) for row in request.resources])


def _failed(row: DescribeConfigsResource, code: int, message: str | None) -> DescribeConfigsResult:
    return DescribeConfigsResult(
        error_code=code, error_message=message, resource_type=row.resource_type, resource_name=row.resource_name
    )
