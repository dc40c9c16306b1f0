"""Fetch (key 1): read record batches, waiting for them where there are too few (KIP-74).

A consumer names all partitions that it reads in each request, or keeps a session (KIP-227), in which it names what
changed and is told what changed. From version 13 on topics are named by their ids (KIP-516).

Partitions are served in the order of the request or the session, each with what is left of ``max_bytes``; those that
there are not come last, and are no reason to answer earlier: a consumer that asks for one again and again should not do
so all the time. Batches go out in the codec they came in, zstd to readers of versions before 10 too: Kafka has sent it
to them since it stopped converting, and some can read it.

A fetch of very many partitions is served in steps: each partition is read when its turn comes.

Readers of committed records are shown nothing at or above the last stable offset. Below it they get everything, and a
list of the aborted transactions whose batches they must skip (KIP-98).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import cast

from ottla.broker.context import MeteredContext, RequestContext
from ottla.broker.core.fetch_sessions import (
    FINAL_EPOCH,
    INITIAL_EPOCH,
    LARGEST_ID,
    LEAST_ID,
    NO_SESSION,
    AskedPartition,
    FetchSession,
    Key,
    Row,
    next_epoch,
)
from ottla.broker.core.fetches import Parked
from ottla.broker.core.security.acls import AclOperation, Resource
from ottla.broker.core.topics.partition import Partition
from ottla.broker.engine import NotHere
from ottla.broker.handlers.partition_reads import (
    READ_COMMITTED,
    READ_UNCOMMITTED,
    counted,
    fence,
    no_replica,
    read_partition,
)
from ottla.broker.handlers.services import Services, cut
from ottla.broker.runtime.topics import TopicManager
from ottla.protocol.errors import ErrorCode
from ottla.protocol.message_parts import LeaderIdAndEpoch, NodeEndpoint
from ottla.protocol.messages.fetch import (
    EpochEndOffset,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
    SnapshotId,
)
from ottla.protocol.records import TopicPartition
from ottla.protocol.steps import Steps
from ottla.protocol.structs import shared_default

_NOWHERE, _NOBODY, _NOTHING = (
    shared_default(EpochEndOffset),
    shared_default(LeaderIdAndEpoch),
    shared_default(SnapshotId),
)

AT_ONCE = 500
"""Partitions that are looked at without a pause."""

_SMALL_LIMIT = 64 * 1024
"""Up to this limit of a fetch it matters to the partitions behind what a cut one is counted as."""

_STORAGE_ERROR_SINCE = 6
_DIVERGING_SINCE = 12
_TOPIC_IDS_SINCE = 13
_NODE_ENDPOINTS_SINCE = 16


@dataclass(slots=True, init=False, eq=False)
class _Fetch:
    """A request that is being served, and what the last pass over its partitions gave.

    Attributes:
        asked: what it reads: the partitions that it names, or all of its session.
        session: the session that it goes on with.
        limit: the most bytes that it is answered with.
        rows: of partitions that there are, but for those of which a session has told everything.
        unserved: of those that there are not; those of topics whose ids are nobody's come first.
        partitions: all that there are.
        size: of the records.
        hurry: there is something that must not wait for more bytes.
        away: what to wait for in partitions whose records are not here yet.
    """

    request: FetchRequest
    ctx: RequestContext
    services: Services
    asked: dict[Key, AskedPartition]
    session: FetchSession | None
    limit: int
    min_bytes: int
    rows: list[Row]
    unserved: list[Row]
    partitions: list[Partition]
    size: int
    hurry: bool
    away: list[tuple[TopicPartition, NotHere]]

    def __init__(
        self,
        request: FetchRequest,
        ctx: RequestContext,
        services: Services,
        asked: dict[Key, AskedPartition],
        session: FetchSession | None = None,
    ) -> None:
        self.request = request
        self.ctx = ctx
        self.services = services
        self.asked = asked
        self.session = session
        self.limit = min(request.max_bytes, services.settings.fetch_max_bytes)
        if ctx.meter is not None:
            # More would have to be waited for, however little was read lately.
            self.limit = min(self.limit, ctx.meter.most_fetched(cast(MeteredContext, ctx)))
        self.min_bytes = min(request.min_bytes, self.limit)

    def look_again(self, parked: Parked) -> None:
        """Answer once woken, or be parked anew if there is still too little and time is left."""
        ctx = self.ctx
        ctx.on_close = None
        if ctx.closed:
            return
        served = len(self.partitions)
        if len(self.asked) > AT_ONCE:
            bug = partial(failed, self.request, ErrorCode.UNKNOWN_SERVER_ERROR)
            self.services.long_work(self._look_again_in_steps(parked, served), ctx, bug)
            return
        _read(self)
        if (answer := self._answer_or_wait(parked, served)) is not None:
            ctx.reply(answer)

    def _look_again_in_steps(self, parked: Parked, served: int) -> Steps[None]:
        yield from _reading(self)
        if (answer := self._answer_or_wait(parked, served)) is not None:
            yield from self.ctx.reply_in_steps(answer)

    def _answer_or_wait(self, parked: Parked, served: int) -> FetchResponse | None:
        if parked.expired or _is_enough(self) or len(self.partitions) < served:
            return _answer(self)
        _park(self, parked.deadline_ms)
        return None


def handle(
    request: FetchRequest, ctx: RequestContext, services: Services
) -> FetchResponse | Steps[FetchResponse | None] | None:
    if ctx.is_long:
        return _handled_in_steps(request, ctx, services)
    fetch = _opened(request, ctx, services, _asked(request.topics, ctx, services.topics))
    if not isinstance(fetch, _Fetch):
        return fetch
    if len(fetch.asked) > AT_ONCE:
        return _read_in_steps(fetch)
    _read(fetch)
    return _answer_or_park(fetch)


def _handled_in_steps(request: FetchRequest, ctx: RequestContext, services: Services) -> Steps[FetchResponse | None]:
    asked: dict[Key, AskedPartition] = {}
    for topics in cut(request.topics, AT_ONCE):
        asked.update(_asked(topics, ctx, services.topics))
        yield None
    fetch = _opened(request, ctx, services, asked)
    return fetch if not isinstance(fetch, _Fetch) else (yield from _read_in_steps(fetch))


def _read_in_steps(fetch: _Fetch) -> Steps[FetchResponse | None]:
    yield from _reading(fetch)
    answer = _answer_or_park(fetch)
    if answer is not None:
        yield None  # to let go of what was read takes long, too
    return answer


def _answer_or_park(fetch: _Fetch) -> FetchResponse | None:
    request, services = fetch.request, fetch.services
    if fetch.partitions and request.isolation_level not in (READ_UNCOMMITTED, READ_COMMITTED):
        return failed(request, ErrorCode.UNKNOWN_SERVER_ERROR)
    wait_ms = min(request.max_wait_ms, services.settings.fetch_max_wait_ms)
    if wait_ms <= 0 or _is_enough(fetch):
        return _answer(fetch)
    _park(fetch, services.clock.real.monotonic_ms() + wait_ms)
    return None


def _opened(
    request: FetchRequest, ctx: RequestContext, services: Services, asked: dict[Key, AskedPartition]
) -> _Fetch | FetchResponse:
    """What a request reads, by itself or with its session; or why it cannot."""
    if not LEAST_ID <= request.session_id <= LARGEST_ID:
        return failed(request, ErrorCode.UNKNOWN_SERVER_ERROR)
    by_id = ctx.api_version >= _TOPIC_IDS_SINCE
    sessions = services.fetch_sessions
    principal = ctx.session.principal
    if request.session_epoch in (INITIAL_EPOCH, FINAL_EPOCH):
        if request.session_id != NO_SESSION:
            sessions.close(request.session_id, principal)
        return _Fetch(request, ctx, services, asked)
    session = sessions.resume(
        request.session_id,
        request.session_epoch,
        asked,
        [
            (topic.topic_id if by_id else topic.topic, index)
            for topic in request.forgotten_topics_data
            for index in topic.partitions
        ],
        by_id=by_id,
        principal=principal,
        now_ms=services.clock.monotonic_ms(),
    )
    if isinstance(session, ErrorCode):
        return FetchResponse(error_code=session)
    return _Fetch(request, ctx, services, asked if session is None else session.partitions, session)


def _asked(named: Sequence[FetchTopic], ctx: RequestContext, topics: TopicManager) -> dict[Key, AskedPartition]:
    """The partitions that a request names; of one that it names twice, what it says last."""
    asked: dict[Key, AskedPartition] = {}
    by_id = ctx.api_version >= _TOPIC_IDS_SINCE
    for topic in named:
        if by_id:
            served = topics.by_id.get(topic.topic_id)
            key, name = (topic.topic_id, None) if served is None else (served.topic_id, served.name)
            for want in topic.partitions:
                asked[key, want.partition] = AskedPartition(key, name, want)
        else:
            name = topic.topic
            for want in topic.partitions:
                asked[name, want.partition] = AskedPartition(name, name, want)
    return asked


def _is_enough(fetch: _Fetch) -> bool:
    return fetch.hurry or fetch.size >= fetch.min_bytes or not fetch.partitions


def _park(fetch: _Fetch, deadline_ms: int) -> None:
    committed = fetch.request.isolation_level == READ_COMMITTED
    stable: dict[TopicPartition, int] | None = {} if committed else None
    watched = {}
    for partition in fetch.partitions:
        watched[partition.tp] = partition.log.size_bytes
        if stable is not None:
            stable[partition.tp] = partition.last_stable_offset
    missing = fetch.min_bytes - fetch.size
    ctx = fetch.ctx
    parked = Parked(ctx, fetch, deadline_ms=deadline_ms, missing_bytes=missing, watched=watched, stable=stable)
    host = fetch.services.host
    ctx.on_close = lambda: host.drop(parked)
    fetch.rows = fetch.unserved = []  # what was read is read again: nobody counts it while it waits
    host.park(parked)
    for tp, later in fetch.away:
        later.then(partial(host.touched, tp))


def _answer(fetch: _Fetch) -> FetchResponse:
    """The answer; the session, if there is one, takes it for told."""
    rows = fetch.rows + fetch.unserved if fetch.unserved else fetch.rows
    session = fetch.session
    session_id = NO_SESSION
    if session is not None:
        session_id = session.id
        if session.epoch != next_epoch(fetch.request.session_epoch):
            # The session went on with another request while this one waited.
            return FetchResponse(error_code=ErrorCode.INVALID_FETCH_SESSION_EPOCH, session_id=session_id)
        if wait_ms := _wait_ms(fetch, [row for row in rows if row[1].records]):
            return FetchResponse(throttle_time_ms=wait_ms, session_id=session_id)
        rows = session.changed(rows)
        if fetch.ctx.api_version < _DIVERGING_SINCE and any(row.diverging_epoch.end_offset >= 0 for _, row in rows):
            # The session learned in a later version which epochs its reader follows.
            return failed(fetch.request, ErrorCode.UNSUPPORTED_VERSION)
    elif wait_ms := _wait_ms(fetch, rows):
        return FetchResponse(throttle_time_ms=wait_ms)
    elif fetch.request.session_epoch == INITIAL_EPOCH:
        by_id = fetch.ctx.api_version >= _TOPIC_IDS_SINCE
        now_ms, principal = fetch.services.clock.monotonic_ms(), fetch.ctx.session.principal
        session_id = fetch.services.fetch_sessions.create(rows, by_id=by_id, principal=principal, now_ms=now_ms)
    response = FetchResponse(session_id=session_id, responses=_grouped(rows, fetch.ctx.api_version))
    if fetch.ctx.api_version >= _NODE_ENDPOINTS_SINCE and fetch.hurry:
        _name_leaders(response, fetch)
    return response


def _wait_ms(fetch: _Fetch, rows: list[Row]) -> int:
    """How long a client with a quota must wait; one that must is given nothing (KIP-219)."""
    ctx = fetch.ctx
    if ctx.meter is None:
        return 0
    return ctx.meter.fetched(cast(MeteredContext, ctx), FetchResponse(responses=_grouped(rows, ctx.api_version)))


def _grouped(rows: list[Row], version: int) -> list[FetchableTopicResponse]:
    """Rows by topic, as far as those of one topic stand side by side."""
    topics: list[FetchableTopicResponse] = []
    before = None
    for item, row in rows:
        topic = item.topic
        if topic is not before and topic != before:
            before = topic
            partitions: list[PartitionData] = []
            if isinstance(topic, str):
                topics.append(FetchableTopicResponse(topic=topic, partitions=partitions))
            else:
                topics.append(FetchableTopicResponse(topic_id=topic, partitions=partitions))
        partitions.append(row)
        if row.error_code == ErrorCode.KAFKA_STORAGE_ERROR and version < _STORAGE_ERROR_SINCE:
            row.error_code = ErrorCode.NOT_LEADER_OR_FOLLOWER  # which makes older clients try again, too
    return topics


def _is_follower(request: FetchRequest) -> bool:
    return request.replica_id >= 0 or request.replica_state.replica_id >= 0


def _name_leaders(response: FetchResponse, fetch: _Fetch) -> None:
    """Tell clients whose idea of the leader is out of date who leads (KIP-951)."""
    services = fetch.services
    endpoints: list[NodeEndpoint] = []
    for topic in response.responses:
        for row in topic.partitions:
            if row.error_code in (ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.NOT_LEADER_OR_FOLLOWER):
                by_name = services.topics.topics.get(topic.topic) or services.topics.by_id.get(topic.topic_id)
                if by_name is not None:  # it was not deleted while others were read
                    tp = TopicPartition(by_name.name, row.partition_index)
                    row.current_leader = services.cluster.hint(tp, fetch.ctx, endpoints)
    if not _is_follower(fetch.request):  # brokers know each other's addresses
        response.node_endpoints = endpoints


def _read(fetch: _Fetch) -> None:
    """Read every partition of a fetch here and now."""
    for _ in _reading(fetch):
        pass


def _reading(fetch: _Fetch) -> Steps[None]:
    """Read every partition of a fetch, as far as its limit goes, and the room that others leave."""
    reads, topics = fetch.services.reads, fetch.services.topics
    limit = left = min(fetch.limit, fetch.ctx.connection.answer_room_bytes, reads.room_bytes)
    by_name = topics.topics
    request = fetch.request
    committed = request.isolation_level == READ_COMMITTED
    is_follower = _is_follower(request)
    may_read = None if fetch.services.authorizer is None else _permission(fetch)
    rows, nameless, unserved = list[Row](), list[Row](), list[Row]()
    partitions: list[Partition] = []
    away: list[tuple[TopicPartition, NotHere]] = []
    size, hurry = 0, False
    items: Collection[AskedPartition] = fetch.asked.values()
    ends: list[int] = []  # of the partitions, as they were when each was read; kept where there are pauses
    if pauses := len(items) > AT_ONCE:
        items = list(items)  # others may change the session
    for number, item in enumerate(items, 1):
        if not number % AT_ONCE:
            yield None
        want = item.want
        name = item.name
        if name is None:
            name = _resolve(item, topics)
        is_denied = may_read is not None and not may_read(name)
        topic = None if name is None or is_denied else by_name.get(name)
        partition = topic.partition(want.partition) if topic is not None else None
        if partition is not None:
            partitions.append(partition)
            if pauses:
                ends.append(partition.log.high_watermark)
            if want.fetch_offset == item.high_watermark and _is_as_told(item, partition):
                continue
        row = PartitionData(
            partition_index=want.partition,
            high_watermark=-1,
            records=b"",
            # A reader of committed records expects the list even if there is nothing in it.
            aborted_transactions=[] if committed else None,
            diverging_epoch=_NOWHERE,
            current_leader=_NOBODY,
            snapshot_id=_NOTHING,
        )
        if partition is None:
            row.aborted_transactions = []
            row.error_code = _why_unserved(name, is_denied)
            (nameless if name is None and not is_denied else unserved).append((item, row))
            continue
        rows.append((item, row))
        if _is_another(item, partition):
            row.error_code = partition.refusal or ErrorCode.INCONSISTENT_TOPIC_ID
        elif is_follower:
            row.error_code = no_replica(partition, want.current_leader_epoch)
        elif later := read_partition(row, want, partition, left, size == 0, committed):
            away.append((partition.tp, later))
        if row.error_code or row.diverging_epoch.end_offset >= 0:
            row.aborted_transactions = None
            hurry = True
        elif records := row.records:
            taken = len(records)
            if (size + taken < fetch.min_bytes or limit <= _SMALL_LIMIT) and taken < left:
                taken = counted(records, min(want.partition_max_bytes, left), partition, committed)
            size += taken
            left = max(0, left - taken)
    fetch.rows, fetch.unserved, fetch.partitions, fetch.size = rows, nameless + unserved, partitions, size
    fetch.away = away
    fetch.hurry = hurry or (size > 0 and limit < fetch.limit)  # there may be more, but there is no room for it now
    if pauses and ends != [partition.log.high_watermark for partition in partitions]:
        fetch.hurry = True  # nobody would be woken by what was appended since
    reads.took(size)


def _why_unserved(name: str | None, is_denied: bool) -> ErrorCode:
    if is_denied:
        return ErrorCode.TOPIC_AUTHORIZATION_FAILED
    return ErrorCode.UNKNOWN_TOPIC_ID if name is None else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def _permission(fetch: _Fetch) -> Callable[[str | None], bool]:
    """Tells whether a topic may be read; None is one whose id is nobody's: every client may hear that.

    It is asked with each look: who waited for records may not be allowed to read them any more.
    """
    ctx, services = fetch.ctx, fetch.services
    if _is_follower(fetch.request):
        is_broker = services.permits_on_cluster(ctx, AclOperation.CLUSTER_ACTION)
        return lambda name: is_broker
    return cache(lambda name: name is None or services.permits(ctx, AclOperation.READ, Resource.TOPIC, name))


def _is_another(item: AskedPartition, partition: Partition) -> bool:
    """Whether this is a partition of another topic of the name, as a session knows ids longer than they are there."""
    key, topic_id = item.topic, partition.topic.topic_id
    return key is not item.name and key is not topic_id and key != topic_id


def _is_as_told(item: AskedPartition, partition: Partition) -> bool:
    """Whether there is nothing to read and nothing to tell of a partition whose end a session has told, and reads from.

    Most partitions of most sessions are like that at most times.
    """
    log, want = partition.log, item.want
    return (
        log.high_watermark == item.high_watermark
        and log.log_start_offset == item.log_start_offset
        and want.last_fetched_epoch < 0
        and not _is_another(item, partition)
        and not fence(partition, want.current_leader_epoch)
    )


def _resolve(item: AskedPartition, topics: TopicManager) -> str | None:
    """The name of a topic that there was not when its id was named first."""
    topic = topics.by_id.get(item.topic) if not isinstance(item.topic, str) else None
    if topic is not None:
        item.name = topic.name
    return item.name


def failed(request: FetchRequest, code: int) -> FetchResponse:
    """The answer when we have a bug."""
    return FetchResponse(
        error_code=code,
        session_id=request.session_id,
        responses=[
            FetchableTopicResponse(
                topic=topic.topic,
                partitions=[
                    PartitionData(partition_index=want.partition, error_code=code, high_watermark=-1, records=b"")
                    for want in topic.partitions
                ],
            )
            for topic in request.topics
            if topic.topic  # where topics are named by their ids, the code above says it all
        ],
    )
