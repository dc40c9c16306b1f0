"""How the admin client calls: to whom, again when that may help, and with one outcome for each thing asked for."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from types import TracebackType
from typing import Any, Self, TypeVar

from ottla.clients.backoff import Backoff
from ottla.clients.client import Client
from ottla.clients.coordinator import coordinator_in
from ottla.clients.errors import ClientClosed, KafkaError, SomeFailed
from ottla.clients.given import name
from ottla.clients.options import AdminOptions
from ottla.clients.structs import BrokerInfo
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse

UNKNOWN = frozenset({ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID})
"""Retriable for clients that wait for a topic to be created; for whoever manages topics it is the answer."""

GROUP_KEY, TRANSACTION_KEY = 0, 1
"""What a coordinator is looked up for."""

K = TypeVar("K")
T = TypeVar("T")
Outcomes = Mapping[K, T | KafkaError]


def _may_pass(error: KafkaError) -> bool:
    return error.retriable and error.code not in UNKNOWN


class AdminCalls:
    """Life and calls of `ottla.clients.admin.Admin`, which is what to use."""

    def __init__(self, **options: Any) -> None:
        self._options = AdminOptions.of(options)
        self._client: Client | None = None
        self._state = "new"

    @property
    def last_request(self) -> tuple[str, str] | None:
        """The address to which the last request went, and its API, such as FindCoordinator; None before there was one.

        While a call takes long, this is what it waits for.
        """
        return None if self._client is None else self._client.last_request

    async def start(self) -> None:
        """Connect to the cluster.

        Raises:
            KafkaConnectionError: no bootstrap server can be reached.
        """
        if self._state != "new":
            raise ClientClosed(f"start() of an admin client that is {self._state}: make a new one")
        self._client = client = Client(self._options)
        try:
            await client.start()
        except BaseException:
            await client.close()
            raise
        self._state = "running"

    async def close(self) -> None:
        """Close all connections. A second call does nothing."""
        self._state = "stopped"
        if self._client is not None:
            await self._client.close()

    async def stop(self) -> None:
        """The same as `close`, by the name that producer and consumer have."""
        await self.close()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    def _running(self) -> Client:
        if self._state != "running" or self._client is None:
            raise ClientClosed(f"the admin client is {self._state}: call start() first, and nothing after close()")
        return self._client

    async def _again(self, attempt: Callable[[], Awaitable[T]]) -> T:
        """Call until it succeeds, fails for good, or default_api_timeout_ms are over."""
        client = self._running()
        deadline = client.now_ms() + self._options.default_api_timeout_ms
        backoff = Backoff(self._options.retry_backoff_ms, self._options.retry_backoff_max_ms)
        while True:
            try:
                return await attempt()
            except KafkaError as error:
                pause = backoff.next_ms()
                if not _may_pass(error) or client.now_ms() + pause >= deadline:
                    raise
            await asyncio.sleep(pause / 1000)
            await self._refresh()

    async def _refresh(self) -> None:
        try:
            await self._running().ask(frozenset())
        except KafkaError:
            return  # the next attempt tells

    async def _for_each(
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
        client = self._running()
        deadline = client.now_ms() + self._options.default_api_timeout_ms
        backoff = Backoff(self._options.retry_backoff_ms, self._options.retry_backoff_max_ms)
        pending = asked
        while pending:
            outcomes = await self._outcomes(pending, attempt)
            pause = backoff.next_ms()
            over = client.now_ms() + pause >= deadline
            left: list[K] = []
            for thing, outcome in outcomes.items():
                if not isinstance(outcome, KafkaError):
                    results[thing] = outcome
                elif _may_pass(outcome) and not over:
                    left.append(thing)
                else:
                    errors[thing] = outcome
            pending = left
            if pending:
                await asyncio.sleep(pause / 1000)
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

    def _any_node(self) -> int:
        return self._running().some_nodes()[0]

    def _controller(self) -> int:
        """The broker that creates and deletes topics; any, while the controller is not known."""
        cluster = self._running().cluster
        return cluster.controller_id if cluster.controller_id in cluster.brokers else self._any_node()

    async def _coordinator(self, key: str, kind: int = GROUP_KEY) -> BrokerInfo:
        """Look up a group's coordinator, or a transactional id's, once."""
        what = "group" if kind == GROUP_KEY else "transactional id"
        name(what, key)
        client = self._running()
        request = FindCoordinatorRequest(key=key, key_type=kind, coordinator_keys=[key])
        low = 0 if kind == GROUP_KEY else 1
        answer = await client.send(self._any_node(), request, FindCoordinatorResponse, low=low)
        found = coordinator_in(answer, f"find the coordinator of {what} {key!r}")
        client.learn_broker(found)
        return found

    async def _by_coordinator(
        self, keys: Iterable[str], kind: int = GROUP_KEY
    ) -> tuple[dict[int, list[str]], dict[int, BrokerInfo], dict[str, KafkaError]]:
        """Keys by their coordinator's broker, the brokers, and the keys whose coordinator was not found."""
        by_node: dict[int, list[str]] = {}
        brokers: dict[int, BrokerInfo] = {}
        errors: dict[str, KafkaError] = {}
        for key in keys:
            try:
                found = await self._coordinator(key, kind)
            except KafkaError as error:
                errors[key] = error
            else:
                brokers[found.node_id] = found
                by_node.setdefault(found.node_id, []).append(key)
        return by_node, brokers, errors
