"""The parts of the broker that handlers may use; `ottla.broker.app` puts them in."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, TypeVar

from ottla.broker.clock import Clock
from ottla.broker.cluster.view import NOBODY, ClusterView, Leader, NodeInfo, Placement, home_of, replicas_of
from ottla.broker.context import RequestContext
from ottla.broker.core.configs.loggers import Logger
from ottla.broker.core.fetch_sessions import FetchSessions
from ottla.broker.core.fetches import TurnReads
from ottla.broker.core.groups.coordinator import GroupCoordinator
from ottla.broker.core.security.acls import (
    CLUSTER_NAME,
    Acl,
    AclOperation,
    Acls,
    Resource,
    address,
    all_operations,
    operations_of,
)
from ottla.broker.core.security.authorizer import Authorizer, Verdict
from ottla.broker.core.topics.catalog import TopicEntry
from ottla.broker.core.topics.partition import Standing
from ottla.broker.core.transactions.coordinator import TransactionCoordinator
from ottla.broker.core.transactions.requests import Question, Results
from ottla.broker.engine import IN_MEMORY, LogDir
from ottla.broker.runtime.audit import Audit, Who
from ottla.broker.runtime.host import Host
from ottla.broker.runtime.member_connections import MemberConnections
from ottla.broker.runtime.prepared_commits import PreparedCommits
from ottla.broker.runtime.topics import TopicManager
from ottla.broker.runtime.transaction_needs import TransactionNeeds
from ottla.broker.settings import Settings
from ottla.protocol.errors import ErrorCode
from ottla.protocol.groups import coordinator_partition
from ottla.protocol.message_parts import LeaderIdAndEpoch, NodeEndpoint
from ottla.protocol.records import TopicPartition
from ottla.protocol.steps import Later, Steps, finished

if TYPE_CHECKING:  # it takes messages that a single node need not load
    from ottla.broker.runtime.peer_transactions import PeerTransactions

T = TypeVar("T")


class Broker(NamedTuple):
    """A node of the cluster, and where a client finds it."""

    node_id: int
    host: str
    port: int
    rack: str | None


class _Told(NamedTuple):
    """What a view says of the nodes that clients are told of, worked out once."""

    view: ClusterView | None
    told: Sequence[NodeInfo]
    controller_id: int


class Cluster:
    """The cluster as clients are told of it.

    Args:
        placement: says who leads what.
        topics: those that there are.
        advertised: where clients find this node, by listener; those of others find it where they reached it.
    """

    __slots__ = ("_advertised", "_told", "_topics", "cluster_id", "placement")

    def __init__(
        self,
        placement: Placement,
        cluster_id: str,
        topics: TopicManager,
        advertised: Mapping[str, tuple[str, int]] = MappingProxyType({}),
    ) -> None:
        self.placement = placement
        self.cluster_id = cluster_id
        self._topics = topics
        self._advertised = advertised
        self._told = _Told(None, (), NOBODY)

    @property
    def me(self) -> int:
        """The id of this node."""
        return self.placement.view.me

    @property
    def has_others(self) -> bool:
        """Whether there may be more nodes than this one, as long as it runs."""
        return bool(self.placement.dealt_to)

    @property
    def node_ids(self) -> list[int]:
        """The ids of all nodes that are known, whether they are up or not."""
        return sorted(self.placement.view.nodes)

    @property
    def controller_id(self) -> int:
        """The node that is shown as the controller."""
        return self._now().controller_id

    def brokers(self, ctx: RequestContext) -> list[Broker]:
        """The nodes that are up, or will be at once, by id."""
        found = [self._broker(node, ctx) for node in self._now().told]
        return [broker for broker in found if broker is not None]

    def broker(self, node_id: int, ctx: RequestContext) -> Broker | None:
        """A node as the client of ``ctx`` is to reach it: at the listener by which it came to this one.

        Returns:
            None if the node is not known, or does not have that listener.
        """
        node = self.placement.view.nodes.get(node_id)
        return None if node is None else self._broker(node, ctx)

    def _broker(self, node: NodeInfo, ctx: RequestContext) -> Broker | None:
        connection = ctx.connection
        listener = connection.session.listener
        if node.node_id == self.placement.view.me:
            # As the other nodes say it: librdkafka takes a node with another name for another node.
            host, _ = node.endpoints.get(listener, ("", 0))
            host, port = self._advertised.get(listener) or (host, connection.local_port)
        elif listener in node.endpoints:
            host, port = node.endpoints[listener]
        else:
            return None
        return Broker(node.node_id, host or connection.local_host, port, node.rack)

    def _now(self) -> _Told:
        view = self.placement.view
        if self._told.view is not view:
            self._told = _Told(view, view.told, view.controller_id)
        return self._told

    def leader(self, tp: TopicPartition) -> Leader:
        """Who leads a partition, and since which epoch. Nobody, under the last epoch, where its log is damaged here."""
        entry = self._topics.catalog.topics.get(tp.topic)
        if entry is None or not 0 <= tp.partition < entry.partition_count:
            return Leader(NOBODY, -1)
        leader = self.placement.leader(entry, tp.partition)
        if leader.node_id == self.me:
            partition = self._topics.partition(tp)
            if partition is not None and partition.standing is Standing.OFFLINE:
                return Leader(NOBODY, leader.epoch)
        return leader

    def home(self, tp: TopicPartition) -> int:
        """The node with the only replica of a partition, which leads it whenever it can; this one if it is gone."""
        entry = self._topics.catalog.topics.get(tp.topic)
        if entry is None or tp.partition >= entry.partition_count:
            return self.me
        return home_of(entry, tp, self.me)

    def replicas(self, tp: TopicPartition, leader: int) -> tuple[list[int], list[int]]:
        """The nodes that a partition is shown with, the home first, and those of them that are up."""
        nodes, entry = self.placement.view.nodes, self._topics.catalog.topics.get(tp.topic)
        if self.placement.call_home is None or entry is None or tp.partition >= entry.partition_count:
            replicas = [self.home(tp)]
            return replicas, [] if leader == NOBODY else replicas
        replicas = replicas_of(entry, tp.partition, leader, nodes)
        return replicas, [node_id for node_id in replicas if node_id in nodes and nodes[node_id].is_up]

    def coordinator(self, topic: str, ctx: RequestContext, key: str) -> Broker | None:
        """The node that leads the partition of a topic that a group or a transactional id belongs to, if one does."""
        view = self.placement.view
        if len(view.nodes) == 1:
            return self.broker(view.me, ctx)  # without a look at the key: to hash a long one takes its time
        count = self._topics.partition_count(topic)
        if not count:
            return None
        return self.broker(self.leader(TopicPartition(topic, coordinator_partition(key, count))).node_id, ctx)

    def hint(self, tp: TopicPartition, ctx: RequestContext, endpoints: list[NodeEndpoint]) -> LeaderIdAndEpoch:
        """The leader of a partition, for a client that takes another for it (KIP-951).

        Args:
            endpoints: of the answer; those of the leader join them.
        """
        leader = self.leader(tp)
        if all(known.node_id != leader.node_id for known in endpoints) and (broker := self.broker(leader.node_id, ctx)):
            endpoints.append(NodeEndpoint(**broker._asdict()))
        return LeaderIdAndEpoch(leader_id=leader.node_id, leader_epoch=leader.epoch)


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


def ask(
    services: Services,
    ctx: RequestContext,
    entry: Callable[..., T | None],
    request: Any,
    done: Callable[[T], T],
    *more: Any,
) -> T | None:
    """Ask a coordinator; the request is answered with what ``done`` makes of its answer, now or later.

    Args:
        more: what the entry takes besides.
    """
    answer: T | None = services.host.enter(entry, request, Caller(lambda later: ctx.reply(done(later)), ctx), *more)
    return None if answer is None else done(answer)


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


class Asker(Who, Protocol):
    """Whoever is permitted something or not: a request, or somebody who asks by HTTP.

    Attributes:
        api: what he asks by, as ``OffsetCommit``.
    """

    api: str


NOBODY_DENIED: Final[Mapping[str, int]] = {}

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
    cluster: Cluster
    host: Host
    """Calls the entries of the coordinators, writes markers, and keeps fetches that wait."""
    groups: GroupCoordinator
    members: MemberConnections
    topics: TopicManager
    transactions: TransactionCoordinator
    transaction_needs: TransactionNeeds
    prepared: PreparedCommits
    elsewhere: PeerTransactions | None = None
    """Transactions that other nodes coordinate; None where there is no other node."""
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
    authorizer: Authorizer | None = None
    """Says who may do what; None: everybody may do everything, and nothing is asked."""
    audit: Audit = field(default_factory=Audit)
    connections: Callable[[], Iterable[Any]] = tuple
    """Those that are open."""

    def permits(
        self,
        ctx: Asker,
        operation: AclOperation,
        resource: Resource,
        name: str,
        *,
        silently: bool = False,
        items: int = 1,
    ) -> bool:
        """May whoever asks do something?

        Args:
            silently: it is not told that somebody may not: something else is asked next, or what is denied is hidden.
            items: how often the request names the resource.
        """
        if self.authorizer is None:
            return True
        verdict = self.authorizer.verdict(ctx.session.principal, host_of(ctx), operation, resource, name)
        if not verdict.is_allowed:
            if not silently:
                row = _row(ctx, operation, resource, name, items, verdict)
                self.audit.denied[operation.name, resource.name] += 1
                self.audit.tell_once("denied", ctx, (ctx.api, operation, resource, name), **row)
        elif self.logger is not None and self.logger.level == "debug":
            row = _row(ctx, operation, resource, name, items, verdict)
            self.audit.tell_debugging("allowed", ctx, **row)
        return verdict.is_allowed

    def permits_on_cluster(self, ctx: RequestContext, operation: AclOperation, *, silently: bool = False) -> bool:
        """May whoever sent a request do something with the cluster?"""
        return self.permits(ctx, operation, Resource.CLUSTER, CLUSTER_NAME, silently=silently)

    def denied(
        self,
        ctx: RequestContext,
        operation: AclOperation,
        resource: Resource,
        names: Iterable[str],
        *,
        silently: bool = False,
    ) -> Mapping[str, int]:
        """Those of some resources that are denied to whoever sent a request, and how often he names each."""
        if self.authorizer is None:
            return NOBODY_DENIED
        return {
            name: items
            for name, items in Counter(iter(names)).items()  # of a mapping it would take the values for counts
            if not self.permits(ctx, operation, resource, name, silently=silently, items=items)
        }

    def permits_somewhere(self, ctx: RequestContext, operation: AclOperation, resource: Resource) -> bool:
        """May whoever sent a request do something with any resource of a kind at all?"""
        authorizer = self.authorizer
        return authorizer is None or authorizer.permits_somewhere(
            ctx.session.principal, host_of(ctx), operation, resource
        )

    def tell_created(self, ctx: RequestContext, topic: TopicEntry) -> None:
        """Tell the audit of a topic that whoever sent a request has created."""
        row = {"topic": topic.name, "topic_id": str(topic.topic_id), "partitions": topic.partition_count}
        self.audit.tell("topic_created", ctx, **row)

    def visible_topics(self, ctx: Any, names: list[str]) -> list[str]:
        """Those of some topics that whoever sent a request may describe; for the core, which does not look at it."""
        hidden = self.denied(ctx, AclOperation.DESCRIBE, Resource.TOPIC, names, silently=True)
        return [name for name in names if name not in hidden]

    def operations(self, ctx: RequestContext, resource: Resource, name: str) -> int:
        """All that whoever sent a request may do with something, as a bit field (KIP-430)."""
        if self.authorizer is None:
            return all_operations(resource)
        return operations_of(resource, lambda each: self.permits(ctx, each, resource, name, silently=True))

    def rules_changed(self, acls: Acls) -> None:
        """Go by other rules from now on, on open connections too: what they may repeat has to be asked for anew."""
        if self.authorizer is not None:
            self.authorizer.change(acls)
            self.prepared.changed()
            for connection in self.connections():
                connection.repeat = None

    def verify(self, question: Question, then: Callable[[Results], None]) -> None:
        """Ask the transaction coordinator; ``then`` is called at once or later, with the code of each partition."""
        results = self.host.enter(self.transactions.verify, question, Caller(then))
        if results is None:
            return
        if self.elsewhere is not None and ErrorCode.NOT_COORDINATOR in results.values():
            self.elsewhere.verify(question, then)
        else:
            then(results)


def host_of(ctx: Asker) -> str:
    """The address of a client as rules have it."""
    return address(ctx.client_host[1:])


def _row(
    ctx: Asker, operation: AclOperation, resource: Resource, name: str, items: int, verdict: Verdict
) -> dict[str, Any]:
    """A verdict, as the audit tells it."""
    basis = verdict.basis
    return {
        "operation": operation.name,
        "resource": resource.name,
        "name": name,
        "api": ctx.api,
        "items": items,
        "rule": str(basis) if isinstance(basis, Acl) else basis.value,
    }
