"""The parts of the broker that handlers may use; `ottla.broker.app` puts them in."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol

from ottla.broker.clock import Clock
from ottla.broker.context import RequestContext
from ottla.broker.core.configs.loggers import Logger
from ottla.broker.core.fetch_sessions import FetchSessions
from ottla.broker.core.fetches import TurnReads
from ottla.broker.core.groups.coordinator import GroupCoordinator
from ottla.broker.core.transactions.coordinator import TransactionCoordinator
from ottla.broker.core.transactions.requests import Question, Results
from ottla.broker.engine import IN_MEMORY, LogDir
from ottla.broker.runtime.host import Host
from ottla.broker.runtime.member_connections import MemberConnections
from ottla.broker.runtime.prepared_commits import PreparedCommits
from ottla.broker.runtime.topics import TopicManager
from ottla.broker.runtime.transaction_needs import TransactionNeeds
from ottla.broker.settings import Settings
from ottla.protocol.errors import ErrorCode
from ottla.protocol.steps import Later, Steps, finished


class Node(NamedTuple):
    """This broker, as clients see it.

    Attributes:
        advertised: what clients are told, by listener; those of others are told the address that each reached.
    """

    node_id: int
    cluster_id: str
    advertised: Mapping[str, tuple[str, int]] = MappingProxyType({})

    def endpoint(self, ctx: RequestContext) -> tuple[str, int]:
        """The host and port that the client of ``ctx`` is to connect to: of the listener that it came by."""
        connection = ctx.connection
        return self.advertised.get(connection.session.listener) or (connection.local_host, connection.local_port)


class Caller:
    """Somebody in this process who asks a coordinator; takes the place of a request's context.

    Args:
        then: is called with an answer that comes later.
        of: the request of which this is a part.
    """

    encoded = b""

    def __init__(self, then: Callable[[Any], None], of: RequestContext | None = None) -> None:
        self.reply = then
        self.client_id = "" if of is None else of.client_id
        self.client_host = "" if of is None else of.client_host
        self.api_version = 0 if of is None else of.api_version


def in_parts(
    services: Services, ctx: RequestContext, entry: Callable[..., Any], parts: Iterable[Sequence[Any]]
) -> Steps[list[Any]]:
    """Ask a coordinator for one part of a request after the other; gives their answers, in their order.

    To the coordinator each part is a request of its own. Whoever closes his connection is told nothing of those that
    were asked for, and the others are not.

    Args:
        parts: the arguments of each: the request, and what the entry takes besides.
    """
    answers: dict[int, Any] = {}
    waiting: list[Callable[[], None]] = []
    count = 0

    def answered(place: int, answer: Any) -> None:
        answers[place] = answer
        if waiting and len(answers) == count:
            waiting.pop()()

    for request, *more in parts:
        place, count = count, count + 1
        answer = services.host.enter(entry, request, Caller(partial(answered, place), ctx), *more)
        if answer is not None:
            answered(place, answer)
        yield None
    if len(answers) < count:
        yield Later(waiting.append)
    return [answers[place] for place in range(count)]


def cut(topics: Iterable[Any], most: int) -> Iterator[list[Any]]:
    """Topics with their partitions in parts: of so many partitions, or topics that name none, each."""
    part: list[Any] = []
    room = most
    for topic in topics:
        begin = 0
        while begin < len(topic.partitions) or not begin:
            some = topic.partitions[begin : begin + room]
            part.append(replace(topic, partitions=some))
            begin += max(1, len(some))
            room -= max(1, len(some))
            if not room:
                yield part
                part, room = [], most
    if part:
        yield part


class Explain(Protocol):
    """The history of groups, and its reasons, as JSON; None for a group of which nothing is known.

    See `ottla.observe.why.explain.Explanations`.
    """

    async def why(
        self, group_id: str, *, last: int | None = None, since_ms: int | None = None, generation: int | None = None
    ) -> bytes | None: ...
    async def timeline(
        self, group_id: str, *, last: int | None = None, since_ms: int | None = None
    ) -> bytes | None: ...
    def events(self, group_id: str, *, after: int = 0, limit: int | None = None) -> bytes | None: ...


class ControlRefused(Exception):
    """A workbench does not do what it was asked for; the text says why, and the code is for the answer."""

    def __init__(self, code: ErrorCode, why: str) -> None:
        super().__init__(why)
        self.code = code


class Control(Protocol):
    """A workbench, as it is asked from outside: see `ottla.workbench.control.Control`."""

    async def ask(self, verb: str, body: bytes) -> bytes:
        """Do something, and give the JSON document that tells what came of it.

        Args:
            body: a JSON object of arguments; empty for none.

        Raises:
            ControlRefused: it is not done.
        """
        ...


LongWork = Callable[[Steps[None], RequestContext, Callable[[], Any]], None]
"""Does what takes long, a step at a time, unless the connection of the context closes.

The last one makes the answer if it fails for a bug of ours.
"""


def at_once(steps: Steps[None], ctx: RequestContext, failed: Callable[[], Any]) -> None:
    """Do all of it here and now: where nobody else has to wait."""
    finished(steps)


@dataclass(slots=True)
class Services:
    """The third argument of every handler."""

    settings: Settings
    clock: Clock
    node: Node
    host: Host
    """Calls the entries of the coordinators, writes markers, and keeps fetches that wait."""
    groups: GroupCoordinator
    members: MemberConnections
    topics: TopicManager
    transactions: TransactionCoordinator
    transaction_needs: TransactionNeeds
    prepared: PreparedCommits
    log_dir: Callable[[], LogDir] = lambda: IN_MEMORY
    """Where the logs are and how much room there is now. Raises OSError if that cannot be told."""
    logger: Logger | None = None
    """The log for operators, if its level can be changed."""
    fetch_sessions: FetchSessions = field(default_factory=lambda: FetchSessions(0, int))
    """By default there is no room for any."""
    reads: TurnReads = field(default_factory=TurnReads)
    explain: Explain | None = None
    """None where no history is kept."""
    control: Control | None = None
    """None where nobody may interfere: the API Workbench is not served then."""
    look_up: LongWork = at_once
    """For records that have to be looked for in large batches."""
    long_work: LongWork = at_once
    """For requests that name, or answers that tell, very many things."""
    validate: LongWork = at_once
    """For large batches of producers that have to be looked at, record by record."""
    matching: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held while ids are held against a pattern, so that patterns keep no more than one thread busy."""

    def verify(self, question: Question, then: Callable[[Results], None]) -> None:
        """Ask the transaction coordinator; ``then`` is called at once or later, with the code of each partition."""
        results = self.host.enter(self.transactions.verify, question, Caller(then))
        if results is not None:
            then(results)
