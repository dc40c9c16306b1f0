"""What handlers may use. Each is given as an interface; `ottla.broker.app` puts the real ones in."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol
from uuid import UUID

from ottla.broker.clock import Clock
from ottla.broker.context import RequestContext
from ottla.broker.core.fetches import Parked
from ottla.broker.core.topics.catalog import NewTopic, Refusal, TopicEntry
from ottla.broker.core.topics.partition import Topic
from ottla.broker.settings import Settings
from ottla.protocol.records import TopicPartition


class Node(NamedTuple):
    """This broker, as clients see it. ``advertised`` is None where each client is told the address it reached."""

    node_id: int
    cluster_id: str
    advertised: tuple[str, int] | None = None

    def endpoint(self, ctx: RequestContext) -> tuple[str, int]:
        """The host and port that the client of ``ctx`` is to connect to."""
        return self.advertised or ctx.local_address


Outcome = TopicEntry | Refusal
"""What became of one wanted change: the topic as it is now (with validate_only: would be), or why not."""


class Topics(Protocol):
    """The topics that are served. Changes are durable before they are seen.

    Attributes:
        topics: by name; by_id: by topic id. To be read only. ``partition_count`` is 0 where there is no topic.
        storage_error: what logs raise when the storage fails.
    """

    @property
    def topics(self) -> Mapping[str, Topic]: ...
    @property
    def by_id(self) -> Mapping[UUID, Topic]: ...
    @property
    def storage_error(self) -> type[Exception]: ...

    def partition_count(self, name: str) -> int: ...
    async def create(self, wanted: Sequence[NewTopic], *, validate_only: bool = False) -> list[Outcome]: ...
    def auto_create(self, names: Sequence[str], created: Callable[[Sequence[Outcome]], None]) -> None: ...
    async def delete(self, names: Sequence[str]) -> list[Outcome]: ...
    async def grow(
        self,
        wanted: Sequence[tuple[str, int, Sequence[Sequence[int]] | None]],
        *,
        validate_only: bool = False,
    ) -> list[Outcome]: ...
    async def new_producer_id(self) -> int: ...


class Fetches(Protocol):
    """The parked fetches: `ottla.broker.core.fetches.FetchPurgatory` behind the driver, which arms the timer."""

    def park(self, parked: Parked) -> None: ...
    def drop(self, parked: Parked) -> None: ...
    def touched(self, tp: TopicPartition) -> None: ...


@dataclass(slots=True)
class Services:
    """What handlers get as their third argument.

    Attributes:
        groups: the group coordinator behind the driver's facade; the coordinator's method names.
    """

    settings: Settings
    clock: Clock
    node: Node
    groups: Any
    topics: Topics
    fetches: Fetches
