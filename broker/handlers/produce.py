"""Produce (key 0): append record batches and answer once they are durable.

Versions 0 to 2 are advertised, because older librdkafka takes their absence for a broker without compression
(KAFKA-18659), but the messages begin at 3, so the dispatcher closes a connection that sends them, as Kafka does.

A transactional batch that is the first of its transaction in a partition waits until the transaction coordinator has
said that the partition takes part; from version 12 on it is made to (KIP-890). From version 13 on topics are named by
their ids (KIP-516). Who sends a batch to a node that does not lead is told who does (KIP-951).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from struct import Struct
from typing import NamedTuple

from ottla.broker.context import RequestContext
from ottla.broker.core.security.acls import AclOperation, Resource
from ottla.broker.core.topics.accept import DECOMPRESSED_BYTES, allowance
from ottla.broker.core.topics.partition import ADDS_PARTITIONS, Partition, Standing, Topic
from ottla.broker.core.topics.transactions import Verification
from ottla.broker.core.transactions.requests import Question
from ottla.broker.engine import EngineError
from ottla.broker.handlers.services import Services
from ottla.protocol.batch_check import Allowance
from ottla.protocol.compression import Buffer
from ottla.protocol.errors import ErrorCode
from ottla.protocol.message_parts import LeaderIdAndEpoch
from ottla.protocol.messages.produce import (
    BatchIndexAndErrorMessage,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from ottla.protocol.records import (
    ATTRIBUTES_AT,
    BATCH_LENGTH_AT,
    HEADER_SIZE,
    LOG_OVERHEAD,
    MAGIC,
    MAGIC_AT,
    MOST_NAMED,
    TRANSACTIONAL_BIT,
    BatchError,
    BatchHeader,
    CorruptBatch,
    InvalidBatch,
    NotABatch,
    TopicPartition,
    framed,
    parse_header,
)
from ottla.protocol.steps import NEXT_IN_LINE, Steps
from ottla.protocol.structs import shared_default

_LENGTH = Struct(">i").unpack_from
_NOBODY = shared_default(LeaderIdAndEpoch)

ALL, NONE, LEADER = -1, 0, 1

TOPIC_IDS_SINCE = 13
"""From this version on topics are named by their ids."""

KNOWS_LEADERS = 10
"""From this version on a client can be told who leads (KIP-951)."""

KNOWS_ABORTABLE = 11
"""From this version on a client can be told that aborting the transaction is the way on (KIP-890)."""

_RETRIED: Mapping[int, ErrorCode] = dict.fromkeys(
    (
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    ),
    ErrorCode.NOT_ENOUGH_REPLICAS,
)
"""Errors that a producer would not retry, though it may, become one that it does retry, without fresh metadata."""

_SELF_EXPLAINING = (
    ErrorCode.CORRUPT_MESSAGE,
    ErrorCode.MESSAGE_TOO_LARGE,
    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
    ErrorCode.INVALID_PRODUCER_EPOCH,
    ErrorCode.INVALID_TXN_STATE,
)
"""Errors that producers handle themselves and log each time: as in Kafka, without words."""

_EXPLAINED = (ErrorCode.INVALID_TXN_STATE, ErrorCode.NOT_ENOUGH_REPLICAS)
"""Errors that come with words, as in Kafka, if the coordinator did not confirm a transaction."""


@dataclass(slots=True, eq=False)
class _Answer:
    """A Produce request whose batches are on their way. Answered when the last of them is settled.

    Attributes:
        allowance: what batches that are looked at may cost together.
        later: what is still to be done for batches that take long to look at, and those behind them.
        may_name: how many more records may be named as being at fault.
        open: counts the batches, plus one until all have been handed to their logs, plus one while the transaction
            coordinator is asked about some.
        is_verified: it is not being asked.
    """

    ctx: RequestContext
    request: ProduceRequest
    services: Services
    wall_ms: int
    allowance: Allowance
    later: list[Steps[None]] = field(default_factory=list)
    may_name: int = MOST_NAMED
    open: int = 1
    parked: bool = False
    is_verified: bool = True
    failure: str = ""
    response: ProduceResponse = field(default_factory=ProduceResponse)

    def settled(self) -> None:
        self.open -= 1
        if self.open == 0 and self.parked:
            self.finish()

    def finish(self) -> None:
        """Answer a request that was parked; with acks=0 there is no answer, only a closed connection on failure."""
        if self.request.acks != NONE:
            self.ctx.reply(self.response)
        elif self.failure:
            # The client cannot be told otherwise that records were lost.
            self.ctx.close(f"Produce with acks=0 failed for {self.failure}")
        else:
            self.ctx.no_reply()


def handle(request: ProduceRequest, ctx: RequestContext, services: Services) -> ProduceResponse | None:
    refused = _refused_as_a_whole(request)
    if refused is ErrorCode.NONE and not services.permits(
        ctx, AclOperation.WRITE, Resource.TRANSACTIONAL_ID, request.transactional_id or ""
    ):
        refused = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    if refused:
        if request.acks == NONE:
            ctx.close(f"Produce with acks=0 failed: {refused.text}")
            return None
        return failed(request, refused)
    acks = request.acks
    acks_are_valid = acks in (ALL, NONE, LEADER)
    most_bytes = max(services.settings.socket_request_max_bytes, DECOMPRESSED_BYTES)  # one batch always fits
    answer = _Answer(ctx, request, services, services.clock.wall_ms(), allowance(most_bytes))
    pending: list[_Pending] = []
    by_id = ctx.api_version >= TOPIC_IDS_SINCE
    for topic_data in request.topic_data:
        topic_id = topic_data.topic_id
        name = topic_data.name
        if not topic_data.partition_data:
            continue  # nothing is asked, and nothing is answered
        topic = services.topics.by_id.get(topic_id) if by_id else services.topics.topics.get(name)
        is_denied = services.authorizer is not None and _is_denied(topic_data, topic, ctx, services, by_id=by_id)
        rows: list[PartitionProduceResponse] = []
        answer.response.responses.append(TopicProduceResponse(name=name, topic_id=topic_id, partition_responses=rows))
        for data in topic_data.partition_data:
            row = PartitionProduceResponse(index=data.index, base_offset=-1, current_leader=_NOBODY)
            rows.append(row)
            partition = None if topic is None else topic.partition(data.index)
            if is_denied:
                _fail(answer, row, name or str(topic_id), ErrorCode.TOPIC_AUTHORIZATION_FAILED)
            elif partition is None:
                unknown_id = by_id and topic is None
                error = ErrorCode.UNKNOWN_TOPIC_ID if unknown_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                _fail(answer, row, name or str(topic_id), error)
            elif not acks_are_valid:
                error = ErrorCode.INVALID_REQUIRED_ACKS if data.records else ErrorCode.INVALID_RECORD
                _fail(answer, row, partition.tp.topic, error)
            elif partition.topic.is_internal:
                _fail(answer, row, partition.tp.topic, ErrorCode.INVALID_TOPIC_EXCEPTION)
            elif partition.standing is not Standing.LEADING:
                _fail(answer, row, partition.tp.topic, partition.refusal if data.records else ErrorCode.INVALID_RECORD)
            elif refused is not None and data.records is not None and _is_transactional(data.records):
                pending.append(_Pending(row, partition, data))
            else:
                _append(answer, row, partition, data)
    asking = bool(pending) and _begin(answer, request.transactional_id, pending)
    answer.open -= 1
    if not answer.open and acks != NONE:
        return answer.response
    answer.parked = True
    # Otherwise everything is in its log's queue, and the next Produce cannot overtake it.
    ctx.overlaps = not asking and not answer.later
    if not answer.open:
        answer.finish()
    return None


def _is_denied(
    data: TopicProduceData, topic: Topic | None, ctx: RequestContext, services: Services, *, by_id: bool
) -> bool:
    """Whether a client may not write to a topic. Nobody is denied an id that is nobody's: that is no secret."""
    if by_id and topic is None:
        return False
    name = topic.name if by_id and topic is not None else data.name
    items = len(data.partition_data)
    return not services.permits(ctx, AclOperation.WRITE, Resource.TOPIC, name, items=items)


def _refused_as_a_whole(request: ProduceRequest) -> ErrorCode | None:
    """The error of every partition of the request; None if it has no transactional batch at all.

    Kafka looks for transactional batches before anything else, so one that cannot be told from its neighbours stands
    in the way of all; and transactional batches need a transactional id.
    """
    for topic in request.topic_data:
        for data in topic.partition_data:
            records = data.records
            if records is None or _is_plain(records):
                continue
            try:
                if framed(records, 0) is None or not _is_transactional(records):
                    continue
            except CorruptBatch as error:
                return error.error_code
            if request.transactional_id is None:
                return ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
            return ErrorCode.NONE
    return None


def _is_plain(records: Buffer) -> bool:
    """Tell, without parsing, that records begin with a batch that is not transactional."""
    return (
        len(records) >= HEADER_SIZE
        and not records[ATTRIBUTES_AT + 1] & TRANSACTIONAL_BIT
        and records[MAGIC_AT] == MAGIC
        and _LENGTH(records, BATCH_LENGTH_AT)[0] >= HEADER_SIZE - LOG_OVERHEAD
    )


def _append(
    answer: _Answer,
    row: PartitionProduceResponse,
    partition: Partition,
    data: PartitionProduceData,
    verified: Verification | None = None,
) -> None:
    wall_ms = answer.wall_ms

    def settled(base_offset: int, error: ErrorCode) -> None:
        if error:
            _fail(answer, row, partition.tp.topic, _unless_deleted(error, answer, partition))
        else:
            row.base_offset = base_offset
            row.log_start_offset = partition.log.log_start_offset
            if partition.topic.config.log_append_time:
                row.log_append_time_ms = wall_ms
        answer.settled()

    answer.open += 1
    version, steps = answer.ctx.api_version, None
    if not answer.later:
        try:
            steps = partition.produce(data.records, version, wall_ms, settled, verified, answer.allowance)
        except BatchError as error:
            _refuse(answer, row, partition, error)
        except EngineError:
            _fail_stored(answer, row, partition)
        if steps is None:
            return
    produce = partial(partition.produce, data.records, version, wall_ms, settled, verified, answer.allowance)
    answer.later.append(_append_later(answer, row, partition, produce, steps))
    if len(answer.later) == 1:
        bug = partial(failed, answer.request, ErrorCode.UNKNOWN_SERVER_ERROR)
        answer.services.validate(_in_order(answer), answer.ctx, bug)


def _in_order(answer: _Answer) -> Steps[None]:
    while answer.later:
        yield from answer.later[0]
        del answer.later[0]
        if answer.later:
            yield NEXT_IN_LINE
    if answer.is_verified and answer.parked:
        answer.ctx.let_overlap()  # everything is in its log's queue now


def _append_later(
    answer: _Answer,
    row: PartitionProduceResponse,
    partition: Partition,
    produce: Callable[[], Steps[None] | None],
    steps: Steps[None] | None,
) -> Steps[None]:
    """Append a batch that takes long to look at, in ``steps``; or one behind such, to which there are none yet."""
    try:
        if steps is None:
            steps = produce()
        if steps is not None:
            yield from steps
    except BatchError as error:
        _refuse(answer, row, partition, error)
    except EngineError:
        _fail_stored(answer, row, partition)


def _refuse(answer: _Answer, row: PartitionProduceResponse, partition: Partition, error: BatchError) -> None:
    words = None if error.error_code in _SELF_EXPLAINING else str(error)
    _fail(answer, row, partition.tp.topic, error.error_code, words)
    if isinstance(error, InvalidBatch) and not isinstance(error, NotABatch):
        row.log_start_offset = partition.log.log_start_offset
        named = error.record_errors[: answer.may_name]
        answer.may_name -= len(named)
        row.record_errors = [
            BatchIndexAndErrorMessage(batch_index=index, batch_index_error_message=text) for index, text in named
        ]
    answer.settled()


def _fail_stored(answer: _Answer, row: PartitionProduceResponse, partition: Partition) -> None:
    error = partition.refusal or ErrorCode.KAFKA_STORAGE_ERROR
    _fail(answer, row, partition.tp.topic, _unless_deleted(error, answer, partition))
    answer.settled()


def _unless_deleted(error: ErrorCode, answer: _Answer, partition: Partition) -> ErrorCode:
    """Why a batch was not written: its log may be gone because its topic was deleted while the batch was under way."""
    if answer.services.topics.by_id.get(partition.topic.topic_id) is partition.topic:
        return error
    by_id = answer.ctx.api_version >= TOPIC_IDS_SINCE
    return ErrorCode.UNKNOWN_TOPIC_ID if by_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def _fail(
    answer: _Answer, row: PartitionProduceResponse, topic: str, error: ErrorCode, message: str | None = None
) -> None:
    row.error_code = error
    row.error_message = message
    if error is ErrorCode.NOT_LEADER_OR_FOLLOWER and answer.ctx.api_version >= KNOWS_LEADERS:
        endpoints = answer.response.node_endpoints
        row.current_leader = answer.services.cluster.hint(TopicPartition(topic, row.index), answer.ctx, endpoints)
    answer.failure = f"{topic}-{row.index}: {error.text}"


class _Pending(NamedTuple):
    """A transactional batch that may have to wait for the transaction coordinator."""

    row: PartitionProduceResponse
    partition: Partition
    data: PartitionProduceData


def _is_transactional(records: Buffer) -> bool:
    return (
        len(records) > ATTRIBUTES_AT + 1
        and records[MAGIC_AT] == MAGIC
        and bool(records[ATTRIBUTES_AT + 1] & TRANSACTIONAL_BIT)
    )


def _begin(answer: _Answer, transactional_id: str | None, pending: list[_Pending]) -> bool:
    """Append transactional batches; those that are the first ones of their transaction once that is confirmed.

    Returns:
        Whether some wait for that.
    """
    if transactional_id is None:  # none of these is a whole batch, or the request would have been refused as a whole
        for batch in pending:
            _append(answer, batch.row, batch.partition, batch.data)
        return False
    headers = dict(_headers(pending))
    who = {(header.producer_id, header.producer_epoch) for header in headers.values() if header.producer_id >= 0}
    if len(who) > 1:
        for batch in pending:
            _fail(answer, batch.row, batch.partition.tp.topic, ErrorCode.INVALID_PRODUCER_ID_MAPPING)
        return False
    asked: list[tuple[_Pending, Verification]] = []
    for index, batch in enumerate(pending):
        header = headers.get(index)
        partition = batch.partition
        if header is None or not _takes_part_anew(header, partition):
            _append(answer, batch.row, partition, batch.data)
        else:
            verification = partition.begin_verification(header.producer_id, header.producer_epoch, header.base_sequence)
            asked.append((batch, verification))
    if not asked:
        return False
    answer.open += 1
    answer.is_verified = False
    tps = list(dict.fromkeys(batch.partition.tp for batch, _ in asked))
    adds = answer.ctx.api_version >= ADDS_PARTITIONS
    question = Question(transactional_id, *who.pop(), tps, adds)
    answer.services.verify(question, partial(_verified, answer, asked))
    return not answer.is_verified


def _takes_part_anew(header: BatchHeader, partition: Partition) -> bool:
    """Tell whether a transactional batch is the first of its transaction in a partition.

    One without a producer id takes part in nothing: Kafka writes it as if it were plain.
    """
    return header.producer_id >= 0 and not partition.in_transaction(header.producer_id, header.producer_epoch)


def _headers(pending: list[_Pending]) -> Iterator[tuple[int, BatchHeader]]:
    """The headers of those batches that have one; the others are refused when they are to be appended."""
    for index, batch in enumerate(pending):
        assert batch.data.records is not None
        try:
            yield index, parse_header(batch.data.records)
        except BatchError:
            continue


def _verified(
    answer: _Answer, asked: Sequence[tuple[_Pending, Verification]], errors: Mapping[TopicPartition, ErrorCode]
) -> None:
    """The transaction coordinator has answered: append what takes part in the transaction."""
    answer.is_verified = True
    answer.wall_ms = answer.services.clock.wall_ms()
    for batch, verification in asked:
        tp = batch.partition.tp
        if error := _shown(errors[tp], answer.ctx.api_version):
            reason = "the partition could not be verified to be part of the transaction"
            words = f"{reason}: {errors[tp].name}" if error in _EXPLAINED else None
            _fail(answer, batch.row, tp.topic, error, words)
        else:
            _append(answer, batch.row, batch.partition, batch.data, verification)
    answer.settled()


def _shown(error: ErrorCode, version: int) -> ErrorCode:
    """The error of a producer whose transaction the coordinator does not confirm, by the version of its request."""
    if error is ErrorCode.PRODUCER_FENCED:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    if error is ErrorCode.TRANSACTION_ABORTABLE and version < KNOWS_ABORTABLE:
        return ErrorCode.INVALID_TXN_STATE
    if error is ErrorCode.CONCURRENT_TRANSACTIONS and version < ADDS_PARTITIONS:
        return ErrorCode.NOT_ENOUGH_REPLICAS
    return _RETRIED.get(error, error)


def failed(request: ProduceRequest, code: int) -> ProduceResponse:
    """The answer that refuses every partition."""
    return ProduceResponse(
        responses=[
            TopicProduceResponse(
                name=topic.name,
                topic_id=topic.topic_id,
                partition_responses=[
                    PartitionProduceResponse(index=data.index, error_code=code, base_offset=-1)
                    for data in topic.partition_data
                ],
            )
            for topic in request.topic_data
        ]
    )
