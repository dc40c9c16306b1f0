"""The calls of the admin client: routed, tried again where that may help, with one outcome for each thing asked for."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import partial
from typing import TypeVar

from ottla.clients.client import GROUP, KEYS, Client
from ottla.clients.errors import (
    BrokerSilent,
    KafkaConnectionError,
    KafkaError,
    KafkaTimeout,
    SomeFailed,
    UnsupportedByBroker,
    error_of,
)
from ottla.clients.given import name
from ottla.clients.options import AdminOptions
from ottla.clients.partitions import label
from ottla.clients.structs import BrokerInfo
from ottla.protocol.errors import ErrorCode
from ottla.protocol.records import TopicPartition
from ottla.protocol.schema import Message

UNKNOWN = frozenset({ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID})
"""Retriable for clients that wait for a topic to be created; for whoever manages topics it is the answer."""

K = TypeVar("K")
N = TypeVar("N")
T = TypeVar("T")
R = TypeVar("R", bound=Message)
Outcomes = Mapping[K, T | KafkaError]
Routes = tuple[dict[N, list[K]], dict[K, KafkaError]]
"""Things by the broker to ask for them, and the errors of those that no broker can be asked for."""


def outcome(result: T, code: int, subject: str, detail: str | None = None) -> T | KafkaError:
    """One thing's result, or its error if it has a code other than NONE."""
    return error_of(code, subject, detail) if code else result


class AdminCalls:
    """Calls brokers until they succeed, fail for good, or default_api_timeout_ms are over.

    Args:
        running: gives the client, and raises `ClientClosed` unless it runs.
    """

    def __init__(self, running: Callable[[], Client[AdminOptions]], options: AdminOptions) -> None:
        self._running = running
        self._options = options

    async def send(self, node_id: int, request: Message, answer: type[R], *, low: int = 0) -> R:
        """Send a request once. ``low`` is the lowest version that will do."""
        return await self._running().send(node_id, request, answer, low=low)

    async def send_ours(self, node_id: int, request: Message, answer: type[R], unknown: str) -> R:
        """Send a request once that only Ottla knows.

        Args:
            unknown: says so of a broker that does not know it.

        Raises:
            UnsupportedByBroker: it does not.
        """
        try:
            return await self.send(node_id, request, answer)
        except KafkaTimeout:
            raise
        except KafkaConnectionError as error:
            # Kafka closes a connection on which it is asked for what it does not know. If it is there all the same,
            # that was why.
            await self._running().ask(frozenset())
            raise UnsupportedByBroker(unknown) from error

    # to whom

    @property
    def any_node(self) -> int:
        return self._running().some_nodes()[0]

    @property
    def controller(self) -> int:
        """The broker that creates and deletes topics; any, while the controller is not known."""
        cluster = self._running().cluster
        return cluster.controller_id if cluster.controller_id in cluster.brokers else self.any_node

    async def coordinator(self, key: str, role: str = GROUP) -> BrokerInfo:
        """Look up a group's coordinator, or a transactional id's, once."""
        name(KEYS[role][1], key)
        return await self._running().find_coordinator(key, role)

    # how often

    def _may_pass(self, error: KafkaError) -> bool:
        is_given_up = isinstance(error, BrokerSilent) and not self._options.retry_silent_brokers
        return error.retriable and error.code not in UNKNOWN and not is_given_up

    async def again(self, attempt: Callable[[], Awaitable[T]]) -> T:
        """Call for one thing."""
        tries = self._running().tries(self._options.default_api_timeout_ms)
        while True:
            try:
                return await attempt()
            except KafkaError as error:
                if not (self._may_pass(error) and await tries.again()):
                    raise
            await self._refresh()

    async def _refresh(self) -> None:
        try:
            await self._running().ask(frozenset())
        except KafkaError:
            return  # the next attempt tells

    async def for_each(
        self, things: Iterable[K], attempt: Callable[[list[K]], Awaitable[Outcomes[K, T]]]
    ) -> dict[K, T]:
        """Call for several things, again for those that failed in a way that may pass.

        Raises:
            KafkaError: the one thing asked for failed.
            SomeFailed: several were asked for and some failed.
        """
        asked = list(dict.fromkeys(things))
        results: dict[K, T] = {}
        errors: dict[K, KafkaError] = {}
        tries = self._running().tries(self._options.default_api_timeout_ms)
        pending = asked
        while pending:
            for thing, found in (await self._outcomes(pending, attempt)).items():
                errors.pop(thing, None)
                if isinstance(found, KafkaError):
                    errors[thing] = found
                else:
                    results[thing] = found
            pending = [thing for thing in pending if thing in errors and self._may_pass(errors[thing])]
            if not pending or not await tries.again():
                break
            await self._refresh()
        if errors and len(asked) == 1:
            raise next(iter(errors.values()))
        if errors:
            raise SomeFailed(errors, results)
        return {thing: results[thing] for thing in asked}

    async def _outcomes(
        self, things: list[K], attempt: Callable[[list[K]], Awaitable[Outcomes[K, T]]]
    ) -> Outcomes[K, T]:
        try:
            outcomes = await attempt(things)
        except KafkaError as error:
            return dict.fromkeys(things, error)
        missing = KafkaError("the broker's answer lacks it")
        return {thing: outcomes.get(thing, missing) for thing in things}

    # whom for what

    async def _routed(
        self,
        things: Iterable[K],
        route: Callable[[list[K]], Awaitable[Routes[N, K]]],
        ask: Callable[[N, list[K]], Awaitable[Outcomes[K, T]]],
    ) -> dict[K, T]:
        async def attempt(pending: list[K]) -> Outcomes[K, T]:
            groups, errors = await route(pending)
            found = await asyncio.gather(*(self._outcomes(group, partial(ask, node)) for node, group in groups.items()))
            outcomes: dict[K, T | KafkaError] = dict(errors)
            for some in found:
                outcomes |= some
            return outcomes

        return await self.for_each(things, attempt)

    async def at_coordinators(
        self, keys: Iterable[str], role: str, ask: Callable[[BrokerInfo, list[str]], Awaitable[Outcomes[str, T]]]
    ) -> dict[str, T]:
        """Ask the coordinators of groups or transactional ids, each for all that it coordinates."""

        async def route(pending: list[str]) -> Routes[BrokerInfo, str]:
            groups: dict[BrokerInfo, list[str]] = {}
            errors: dict[str, KafkaError] = {}
            found = await asyncio.gather(*(self.coordinator(key, role) for key in pending), return_exceptions=True)
            for key, node in zip(pending, found, strict=True):
                if isinstance(node, KafkaError):
                    errors[key] = node
                elif isinstance(node, BaseException):
                    raise node
                else:
                    groups.setdefault(node, []).append(key)
            return groups, errors

        return await self._routed(keys, route, ask)

    async def at_leaders(
        self,
        partitions: Iterable[TopicPartition],
        ask: Callable[[int, list[TopicPartition]], Awaitable[Outcomes[TopicPartition, T]]],
        subject: str = "find the leader of",
    ) -> dict[TopicPartition, T]:
        """Ask the leaders of partitions. ``subject`` begins the error of a partition without one."""

        async def route(pending: list[TopicPartition]) -> Routes[int, TopicPartition]:
            client = self._running()
            await client.ask(frozenset(tp.topic for tp in pending))
            groups = client.cluster.by_leader(pending)
            codes = client.cluster.errors
            return {node_id: tps for node_id, tps in groups.items() if node_id is not None}, {
                tp: error_of(
                    codes.get(tp.topic, ErrorCode.LEADER_NOT_AVAILABLE), f"{subject} {label(tp)}", topic=tp.topic
                )
                for tp in groups.get(None, ())
            }

        return await self._routed(partitions, route, ask)

    async def for_configured(
        self, things: Iterable[str | int], ask: Callable[[int, list[str | int]], Awaitable[Outcomes[str | int, T]]]
    ) -> dict[str | int, T]:
        """Ask any broker for what has a name, topics and groups, and each broker, by its id, for itself."""

        async def route(pending: list[str | int]) -> Routes[int, str | int]:
            groups: dict[int, list[str | int]] = {}
            errors: dict[str | int, KafkaError] = {}
            known = self._running().cluster.brokers
            for thing in pending:
                if isinstance(thing, str) or thing in known:
                    groups.setdefault(self.any_node if isinstance(thing, str) else thing, []).append(thing)
                else:
                    there = ", ".join(map(str, sorted(known)))
                    errors[thing] = KafkaError(f"no broker {thing}: there are {there}", ErrorCode.BROKER_NOT_AVAILABLE)
            return groups, errors

        return await self._routed(things, route, ask)

    async def at_all_brokers(self, ask: Callable[[int], Awaitable[dict[str, T]]]) -> list[T]:
        """Ask every broker that there is now, and put what they have together, ordered by name.

        Raises:
            KafkaError: the only broker failed.
            SomeFailed: some of several did; ``errors`` are by the broker's id, ``results`` by name.
        """
        await self.again(partial(self._running().ask, frozenset()))
        nodes = sorted(self._running().cluster.brokers)
        found: dict[str, T] = {}

        async def one(node_id: int) -> dict[str, T] | KafkaError:
            try:
                return await self.again(partial(ask, node_id))
            except KafkaError as error:
                return error

        answers = dict(zip(nodes, await asyncio.gather(*map(one, nodes)), strict=True))
        errors = {node_id: answer for node_id, answer in answers.items() if isinstance(answer, KafkaError)}
        for answer in answers.values():
            if not isinstance(answer, KafkaError):
                found |= answer
        if errors and len(nodes) == 1:
            raise errors[nodes[0]]
        if errors:
            raise SomeFailed(errors, found)
        return [found[key] for key in sorted(found)]
