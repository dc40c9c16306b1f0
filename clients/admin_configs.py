"""The part of the admin client that is about settings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import NoneType
from typing import TypeVar

from ottla.clients.admin_calls import AdminCalls, Outcomes
from ottla.clients.admin_structs import ConfigChange, ConfigEntry
from ottla.clients.errors import KafkaError, OptionError, error_of
from ottla.clients.given import mapping, several
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages import alter_client_quotas, alter_configs, incremental_alter_configs
from ottla.protocol.messages.describe_client_quotas import DescribeClientQuotasRequest, DescribeClientQuotasResponse
from ottla.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
)

TOPIC_RESOURCE = 2
BROKER_RESOURCE = 4
OPERATIONS = {"set": 0, "delete": 1, "append": 2, "subtract": 3}
"""What IncrementalAlterConfigs can do with a value, as numbers of the wire (KIP-339)."""
Thing = str | int
"""A topic by its name, or a broker by its id."""
Change = str | None | ConfigChange
C = TypeVar("C", bound=Change)


class AdminConfigs(AdminCalls):
    """See `ottla.clients.admin.Admin`, which is what to use."""

    async def describe_configs(
        self, *, topics: Iterable[str] = (), brokers: Iterable[int] = (), keys: Iterable[str] | None = None
    ) -> dict[Thing, dict[str, ConfigEntry]]:
        """Settings by topic name or broker id, then by key.

        Args:
            topics: names of topics.
            brokers: ids of brokers.
            keys: the settings to ask for; by default all.
        """
        wanted_keys = None if keys is None else several("keys", keys, str)
        things: list[Thing] = [*several("topics", topics, str), *several("brokers", brokers, int, "ids")]

        async def attempt(pending: list[Thing]) -> Outcomes[Thing, dict[str, ConfigEntry]]:
            by_node, errors = self._by_node(pending)
            outcomes: dict[Thing, dict[str, ConfigEntry] | KafkaError] = dict(errors)
            for node_id, group in by_node.items():
                outcomes |= await self._describe_configs(node_id, group, wanted_keys)
            return outcomes

        return await self._for_each(things, attempt)

    async def describe_client_quotas(self) -> list[tuple[dict[str, str | None], dict[str, float]]]:
        """All quotas: who is limited, as `alter_client_quotas` takes it, and the limits by their names."""

        async def attempt() -> list[tuple[dict[str, str | None], dict[str, float]]]:
            request = DescribeClientQuotasRequest(components=[], strict=False)
            answer = await self._running().send(self._controller(), request, DescribeClientQuotasResponse)
            if answer.error_code:
                raise error_of(answer.error_code, "describe quotas", answer.error_message)
            return [
                ({one.entity_type: one.entity_name for one in entry.entity}, {v.key: v.value for v in entry.values})
                for entry in answer.entries or ()
            ]

        return await self._again(attempt)

    async def alter_client_quotas(self, entity: Mapping[str, str | None], quotas: Mapping[str, float | None]) -> None:
        """Limit what clients may use, or lift limits (KIP-546).

        Args:
            entity: whom: ``{"client-id": "billing"}``, ``{"user": …}``, both together, or ``{"ip": "10.0.0.7"}``; None
                instead of a name stands for whoever has no limit of its own.
            quotas: by Kafka's names, as ``{"consumer_byte_rate": 1_048_576}``; None takes a limit away.
        """
        parts = [
            alter_client_quotas.AlterClientQuotasRequestEntityData(entity_type=kind, entity_name=name)
            for kind, name in mapping("entity", entity, "names by kind").items()
        ]
        ops = [
            alter_client_quotas.OpData(key=key, value=value or 0.0, remove=value is None)
            for key, value in mapping("quotas", quotas, "limits by name").items()
        ]
        entry = alter_client_quotas.AlterClientQuotasRequestEntryData(entity=parts, ops=ops)
        request = alter_client_quotas.AlterClientQuotasRequest(entries=[entry], validate_only=False)

        async def attempt() -> None:
            answer = await self._running().send(
                self._controller(), request, alter_client_quotas.AlterClientQuotasResponse
            )
            for one in answer.entries:
                if one.error_code:
                    raise error_of(one.error_code, f"alter quotas of {dict(entity)}", one.error_message)

        await self._again(attempt)

    async def _describe_configs(
        self, node_id: int, things: list[Thing], keys: list[str] | None
    ) -> dict[Thing, dict[str, ConfigEntry] | KafkaError]:
        resources = [
            DescribeConfigsResource(
                resource_type=TOPIC_RESOURCE if isinstance(thing, str) else BROKER_RESOURCE,
                resource_name=str(thing),
                configuration_keys=keys,
            )
            for thing in things
        ]
        request = DescribeConfigsRequest(resources=resources, include_documentation=True)
        answer = await self._running().send(node_id, request, DescribeConfigsResponse)
        outcomes: dict[Thing, dict[str, ConfigEntry] | KafkaError] = {}
        for result in answer.results:
            is_topic = result.resource_type == TOPIC_RESOURCE
            thing: Thing = result.resource_name if is_topic else int(result.resource_name)
            if result.error_code:
                outcomes[thing] = error_of(result.error_code, f"describe settings of {thing!r}", result.error_message)
                continue
            outcomes[thing] = {
                config.name: ConfigEntry(
                    config.name,
                    config.value,
                    config.config_source,
                    config.read_only,
                    config.is_sensitive,
                    config.config_type,
                    config.documentation,
                )
                for config in result.configs
            }
        return outcomes

    async def alter_configs(
        self,
        *,
        topics: Mapping[str, Mapping[str, str | None]] | None = None,
        brokers: Mapping[int, Mapping[str, str | None]] | None = None,
        validate_only: bool = False,
    ) -> None:
        """Replace all settings of topics or brokers: those that are not named go back to their defaults.

        Args:
            topics, brokers: by name or id the settings that are to remain, by key.
            validate_only: change nothing, and only check whether it could be done.

        Raises:
            KafkaError: INVALID_CONFIG, if there is no such setting or it cannot have that value.
        """
        wanted = _settings(topics, brokers)

        async def attempt(pending: list[Thing]) -> Outcomes[Thing, None]:
            by_node, errors = self._by_node(pending)
            outcomes: dict[Thing, KafkaError | None] = dict(errors)
            for node_id, group in by_node.items():
                request = alter_configs.AlterConfigsRequest(
                    resources=[
                        alter_configs.AlterConfigsResource(
                            resource_type=_type_of(thing),
                            resource_name=str(thing),
                            configs=[
                                alter_configs.AlterableConfig(name=key, value=value)
                                for key, value in wanted[thing].items()
                            ],
                        )
                        for thing in group
                    ],
                    validate_only=validate_only,
                )
                answer = await self._running().send(node_id, request, alter_configs.AlterConfigsResponse)
                for one in answer.responses:
                    outcomes |= _altered(one.resource_type, one.resource_name, one.error_code, one.error_message)
            return outcomes

        await self._for_each(wanted, attempt)

    async def incremental_alter_configs(
        self,
        *,
        topics: Mapping[str, Mapping[str, Change]] | None = None,
        brokers: Mapping[int, Mapping[str, Change]] | None = None,
        validate_only: bool = False,
    ) -> None:
        """Change single settings of topics or brokers, and leave the others as they are (KIP-339).

        Args:
            topics, brokers: by key a value to set, None to go back to the default, or a `ConfigChange`.
            validate_only: change nothing, and only check whether it could be done.

        Raises:
            OptionError: an operation that there is not.
            KafkaError: INVALID_CONFIG, if there is no such setting or it cannot have that value.
        """
        changes = _settings(topics, brokers)
        wanted = {thing: [_change(key, change) for key, change in new.items()] for thing, new in changes.items()}

        async def attempt(pending: list[Thing]) -> Outcomes[Thing, None]:
            by_node, errors = self._by_node(pending)
            outcomes: dict[Thing, KafkaError | None] = dict(errors)
            for node_id, group in by_node.items():
                request = incremental_alter_configs.IncrementalAlterConfigsRequest(
                    resources=[
                        incremental_alter_configs.AlterConfigsResource(
                            resource_type=_type_of(thing), resource_name=str(thing), configs=wanted[thing]
                        )
                        for thing in group
                    ],
                    validate_only=validate_only,
                )
                answer = await self._running().send(
                    node_id, request, incremental_alter_configs.IncrementalAlterConfigsResponse
                )
                for one in answer.responses:
                    outcomes |= _altered(one.resource_type, one.resource_name, one.error_code, one.error_message)
            return outcomes

        await self._for_each(wanted, attempt)

    def _by_node(self, things: Iterable[Thing]) -> tuple[dict[int, list[Thing]], dict[Thing, KafkaError]]:
        """Topics go to any broker, a broker's settings to itself. Brokers that there are not, as errors."""
        by_node: dict[int, list[Thing]] = {}
        errors: dict[Thing, KafkaError] = {}
        known = self._running().cluster.brokers
        for thing in things:
            if isinstance(thing, str):
                by_node.setdefault(self._any_node(), []).append(thing)
            elif thing in known:
                by_node.setdefault(thing, []).append(thing)
            else:
                errors[thing] = KafkaError(
                    f"no broker {thing}: there are {', '.join(map(str, sorted(known)))}",
                    ErrorCode.BROKER_NOT_AVAILABLE,
                )
        return by_node, errors


def _settings(
    topics: Mapping[str, Mapping[str, C]] | None, brokers: Mapping[int, Mapping[str, C]] | None
) -> dict[Thing, Mapping[str, C]]:
    """What is given for topics and for brokers, in one."""
    found: dict[Thing, Mapping[str, C]] = {}
    for key, kind, given in (("topics", str, topics or {}), ("brokers", int, brokers or {})):
        by_thing = mapping(key, given, "with a dict of settings for each")
        for thing in several(key, by_thing, kind, "names" if kind is str else "ids"):
            found[thing] = mapping(f"settings of {thing!r}", by_thing[thing], "values by key")
            for name, value in found[thing].items():
                if not isinstance(value, (str, NoneType, ConfigChange)):
                    raise OptionError(f"{name}={value!r}: allowed is a text, such as {str(value)!r}, or None")
    return found


def _type_of(thing: Thing) -> int:
    return TOPIC_RESOURCE if isinstance(thing, str) else BROKER_RESOURCE


def _altered(kind: int, name: str, code: int, message: str | None) -> dict[Thing, KafkaError | None]:
    thing: Thing = name if kind == TOPIC_RESOURCE else int(name)
    return {thing: error_of(code, f"change settings of {thing!r}", message) if code else None}


def _change(key: str, change: Change) -> incremental_alter_configs.AlterableConfig:
    if change is None:
        change = ConfigChange("delete", None)
    elif isinstance(change, str):
        change = ConfigChange("set", change)
    if change.operation not in OPERATIONS:
        raise OptionError(f"operation={change.operation!r} of {key!r}: allowed is {', '.join(map(repr, OPERATIONS))}")
    return incremental_alter_configs.AlterableConfig(
        name=key, config_operation=OPERATIONS[change.operation], value=change.value
    )
