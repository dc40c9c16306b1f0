"""What handlers may use. Each is given as an interface; `ottla.broker.app` puts the real ones in."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Concatenate, NamedTuple, ParamSpec, Protocol, TypeVar
from uuid import UUID

from ottla.broker.clock import Clock
from ottla.broker.context import RequestContext
from ottla.broker.core.configs.alterations import Alteration
from ottla.broker.core.configs.brokers import BrokerConfigs
from ottla.broker.core.configs.loggers import Logger
from ottla.broker.core.fetch_sessions import FetchSessions
from ottla.broker.core.fetches import Parked, TurnReads
from ottla.broker.core.groups.coordinator import GroupCoordinator
from ottla.broker.core.log_dir import LogDir, in_memory
from ottla.broker.core.topics.catalog import Catalog, NewTopic, Permit, Refusal, TopicEntry
from ottla.broker.core.topics.partition import Topic
from ottla.broker.core.topics.producers import Settled, TransactionMarker
from ottla.broker.core.transactions.coordinator import TransactionCoordinator
from ottla.broker.core.transactions.requests import Question, Results
from ottla.broker.settings import Settings
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from ottla.protocol.records import TopicPartition
from ottla.protocol.steps import Steps, finished


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

T = TypeVar("T")
Q = TypeVar("Q")
C = TypeVar("C")
A = TypeVar("A")
P = ParamSpec("P")


class Topics(Protocol):
    """The topics that are served. Changes are durable before they are seen.

    Attributes:
        topics: by name; by_id: by topic id. To be read only. ``partition_count`` is 0 where there is no topic.
        storage_error: what logs raise when the storage fails.
        broker_configs: the broker's settings in layers, dynamic ones included; group_configs: those of groups.
        catalog: what is in force of everything that is changed at run time.
    """

    @property
    def topics(self) -> Mapping[str, Topic]: ...
    @property
    def by_id(self) -> Mapping[UUID, Topic]: ...
    @property
    def storage_error(self) -> type[Exception]: ...
    @property
    def broker_configs(self) -> BrokerConfigs: ...
    @property
    def catalog(self) -> Catalog: ...
    @property
    def group_configs(self) -> Mapping[str, Mapping[str, str]]: ...

    def partition_count(self, name: str) -> int: ...
    def was_deleted(self, name: str) -> bool: ...
    async def create(
        self, wanted: Sequence[NewTopic], *, validate_only: bool = False, permit: Permit | None = None
    ) -> list[Outcome]: ...
    def auto_create(
        self, names: Sequence[str], created: Callable[[Sequence[Outcome]], None], *, permit: Permit | None = None
    ) -> None: ...
    async def delete(self, wanted: Sequence[str | UUID], *, permit: Permit | None = None) -> list[Outcome]: ...
    async def grow(
        self,
        wanted: Sequence[tuple[str, int, Sequence[Sequence[int]] | None]],
        *,
        validate_only: bool = False,
        permit: Permit | None = None,
    ) -> list[Outcome]: ...
    async def change(self, plan: Callable[[Catalog], tuple[Catalog, T]]) -> T: ...
    async def alter_configs(
        self, alterations: Sequence[Alteration], *, validate_only: bool = False
    ) -> list[Refusal | None]: ...
    async def new_producer_id(self) -> int: ...


class Fetches(Protocol):
    """The parked fetches: `ottla.broker.core.fetches.FetchPurgatory` behind the driver, which arms the timer."""

    def park(self, parked: Parked) -> None: ...
    def drop(self, parked: Parked) -> None: ...
    def touched(self, tp: TopicPartition) -> None: ...


class Enter(Protocol):
    """Calls an entry of a coordinator: `ottla.broker.runtime.host.Host.enter`. None means that the answer comes later,
    through the context."""

    def __call__(
        self,
        entry: Callable[Concatenate[Q, C, int, int, P], A],
        request: Q,
        ctx: C,
        /,
        *more: P.args,
        **named: P.kwargs,
    ) -> A: ...


class Members(Protocol):
    """Knows over which connection each member has joined."""

    def join(
        self, request: JoinGroupRequest, ctx: RequestContext, now_ms: int, wall_ms: int
    ) -> JoinGroupResponse | None: ...


class _Caller:
    """Somebody in this process who asks a coordinator; takes the place of a request's context."""

    client_id = ""
    client_host = ""
    api_version = 0

    def __init__(self, then: Callable[[Any], None]) -> None:
        self.reply = then


class Explain(Protocol):
    """What happened to groups, and why, as JSON; None for a group of which nothing is known.

    See `ottla.broker.observe.why.explain.Explanations`.
    """

    async def why(
        self, group_id: str, *, last: int | None = None, since_ms: int | None = None, generation: int | None = None
    ) -> bytes | None: ...
    async def timeline(
        self, group_id: str, *, last: int | None = None, since_ms: int | None = None
    ) -> bytes | None: ...
    def events(self, group_id: str, *, after: int = 0, limit: int | None = None) -> bytes | None: ...


LongWork = Callable[[Steps[None], RequestContext, Callable[[], Any]], None]
"""Does what takes long, a step at a time, unless the connection of the context closes.

The last one makes the answer if it fails for a bug of ours.
"""


def at_once(steps: Steps[None], ctx: RequestContext, failed: Callable[[], Any]) -> None:
    """Do all of it here and now: where nobody else has to wait."""
    finished(steps)


@dataclass(slots=True)
class Services:
    """What handlers get as their third argument."""

    settings: Settings
    clock: Clock
    node: Node
    enter: Enter
    groups: GroupCoordinator
    members: Members
    topics: Topics
    fetches: Fetches
    transactions: TransactionCoordinator
    prepare_transactions: Callable[[Callable[[ErrorCode], None]], None]
    """Sees to it that there is something to coordinate transactions with, and calls back, maybe at once."""
    write_marker: Callable[[TopicPartition, TransactionMarker, Settled], None]
    """Ends a transaction in a partition; see `ottla.broker.runtime.host.Host.write_marker`."""
    log_dir: Callable[[], LogDir] = in_memory
    """Where the logs are and how much room there is now. Raises OSError if that cannot be told."""
    logger: Logger | None = None
    """The log for operators, if its level can be changed."""
    fetch_sessions: FetchSessions = field(default_factory=lambda: FetchSessions(0, int))
    """By default there is no room for any."""
    reads: TurnReads = field(default_factory=TurnReads)
    explain: Explain | None = None
    """None where no history is kept."""
    look_up: LongWork = at_once
    """For records that have to be looked for in large batches."""
    validate: LongWork = at_once
    """For large batches of producers that have to be looked at, record by record."""
    matching: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held while ids are held against a pattern, so that patterns keep no more than one thread busy."""

    def verify(self, question: Question, then: Callable[[Results], None]) -> None:
        """Ask the transaction coordinator; ``then`` is called at once or later, with the code of each partition."""
        results = self.enter(self.transactions.verify, question, _Caller(then))
        if results is not None:
            then(results)
