"""What handlers may use. Each is given as an interface; `ottla.broker.app` puts the real ones in."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol, TypeVar
from uuid import UUID

from ottla.broker.clock import Clock
from ottla.broker.context import RequestContext
from ottla.broker.core.configs.alterations import Alteration
from ottla.broker.core.configs.brokers import BrokerConfigs
from ottla.broker.core.configs.loggers import Logger
from ottla.broker.core.fetch_sessions import FetchSessions
from ottla.broker.core.fetches import Parked, TurnReads
from ottla.broker.core.groups.offsets import Refusals, TopicIds
from ottla.broker.core.log_dir import LogDir, in_memory
from ottla.broker.core.topics.catalog import Catalog, NewTopic, Permit, Refusal, TopicEntry
from ottla.broker.core.topics.partition import Topic
from ottla.broker.core.topics.producers import Settled
from ottla.broker.core.topics.transactions import TransactionMarker, Verification
from ottla.broker.core.transactions.requests import Refused
from ottla.broker.settings import Settings
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from ottla.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnResponse
from ottla.protocol.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from ottla.protocol.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from ottla.protocol.messages.describe_transactions import DescribeTransactionsRequest, DescribeTransactionsResponse
from ottla.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from ottla.protocol.messages.heartbeat import HeartbeatRequest
from ottla.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from ottla.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from ottla.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from ottla.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from ottla.protocol.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from ottla.protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from ottla.protocol.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse
from ottla.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchResponse
from ottla.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from ottla.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest, TxnOffsetCommitResponse
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


class Topics(Protocol):
    """The topics that are served. Changes are durable before they are seen.

    Attributes:
        topics: by name; by_id: by topic id. To be read only. ``partition_count`` is 0 where there is no topic.
        broker_configs: the broker's settings in layers, dynamic ones included; group_configs: those of groups.
        catalog: what is in force of everything that is changed at run time.
    """

    @property
    def topics(self) -> Mapping[str, Topic]: ...
    @property
    def by_id(self) -> Mapping[UUID, Topic]: ...
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


class Groups(Protocol):
    """The group coordinator behind the driver; see `ottla.broker.core.groups.coordinator.GroupCoordinator`.

    None for an answer means that it comes later, through the context.
    """

    @property
    def heartbeat(self) -> Callable[[HeartbeatRequest, int], int]: ...
    def join(self, request: JoinGroupRequest, ctx: RequestContext) -> JoinGroupResponse | None: ...
    def sync(self, request: SyncGroupRequest, ctx: RequestContext) -> SyncGroupResponse | None: ...
    def leave(self, request: LeaveGroupRequest, ctx: RequestContext) -> LeaveGroupResponse | None: ...
    def commit_offsets(
        self, request: OffsetCommitRequest, ctx: RequestContext, refused: Refusals
    ) -> OffsetCommitResponse | None: ...
    def commit_transactional_offsets(
        self, request: TxnOffsetCommitRequest, ctx: RequestContext, refused: Refusals, verified: Verification | None
    ) -> TxnOffsetCommitResponse | None: ...
    def write_marker(self, tp: TopicPartition, marker: TransactionMarker, settled: Settled) -> None: ...
    def fetch_offsets(
        self, request: OffsetFetchRequest, ctx: RequestContext, topic_ids: TopicIds
    ) -> OffsetFetchResponse | None: ...
    def delete_offsets(
        self, request: OffsetDeleteRequest, ctx: RequestContext, refused: Refusals
    ) -> OffsetDeleteResponse | None: ...
    def delete_groups(self, request: DeleteGroupsRequest, ctx: RequestContext) -> DeleteGroupsResponse | None: ...
    def describe_groups(self, request: DescribeGroupsRequest, ctx: RequestContext) -> DescribeGroupsResponse: ...
    def list_groups(self, request: ListGroupsRequest, ctx: RequestContext) -> ListGroupsResponse: ...


class Transactions(Protocol):
    """The transaction coordinator behind its driver; see `ottla.broker.core.transactions.coordinator`.

    None for an answer means that it comes later, through the context.
    """

    def prepare(self, then: Callable[[ErrorCode], None]) -> None:
        """See to it that there is something to coordinate with; ``then`` is called at once or later."""

    def init_producer_id(
        self, request: InitProducerIdRequest, ctx: RequestContext
    ) -> InitProducerIdResponse | None: ...
    def add_partitions(
        self, request: AddPartitionsToTxnRequest, ctx: RequestContext, refused: Refused
    ) -> AddPartitionsToTxnResponse | None: ...
    def add_offsets(
        self, request: AddOffsetsToTxnRequest, ctx: RequestContext, offsets_partition: TopicPartition
    ) -> AddOffsetsToTxnResponse | None: ...
    def end(self, request: EndTxnRequest, ctx: RequestContext) -> EndTxnResponse | None: ...
    def describe(self, request: DescribeTransactionsRequest, ctx: RequestContext) -> DescribeTransactionsResponse: ...
    async def list(self, request: ListTransactionsRequest, ctx: RequestContext) -> ListTransactionsResponse | None: ...
    def verify(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        tps: Sequence[TopicPartition],
        *,
        add: bool,
        then: Callable[[Mapping[TopicPartition, ErrorCode]], None],
    ) -> None:
        """Whether partitions take part in a producer's transaction; with ``add`` they do from now on, durably.

        ``then`` is called at once or later, with the code of each: those that AddPartitionsToTxn answers, as
        TRANSACTION_ABORTABLE for one that takes no part.
        """


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
    groups: Groups
    topics: Topics
    fetches: Fetches
    transactions: Transactions
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
