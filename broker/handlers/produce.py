"""Produce (key 0): append record batches and answer once they are durable.

Versions 0 to 2 are advertised, because older librdkafka takes their absence for a broker without compression
(KAFKA-18659), but the messages begin at 3, so the dispatcher closes a connection that sends them, as Kafka does.
"""

from __future__ import annotations

from ottla.broker.context import RequestContext
from ottla.broker.core.topics.partition import Partition
from ottla.broker.handlers.services import Services
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.produce import (
    BatchIndexAndErrorMessage,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from ottla.protocol.records import BatchError, InvalidBatch

VERSIONS = range(10)
"""What is advertised. Requests of versions 0 to 2 close the connection."""

ALL, NONE, LEADER = -1, 0, 1


class _Answer:
    """A Produce request whose batches are on their way. Answered when the last of them is settled.

    ``open`` counts the batches, plus one until all have been handed to their logs.
    """

    __slots__ = ("acks", "ctx", "failure", "open", "parked", "response")

    def __init__(self, ctx: RequestContext, acks: int) -> None:
        self.ctx = ctx
        self.acks = acks
        self.open = 1
        self.parked = False
        self.failure = ""
        self.response = ProduceResponse()

    def settled(self) -> None:
        self.open -= 1
        if self.open == 0 and self.parked:
            self.finish()

    def finish(self) -> None:
        """Answer a request that was parked; with acks=0 there is no answer, only a closed connection on failure."""
        if self.acks != NONE:
            self.ctx.reply(self.response)
        elif self.failure:
            # The client cannot be told otherwise that records were lost.
            self.ctx.close(f"Produce with acks=0 failed for {self.failure}")
        else:
            self.ctx.no_reply()


def handle(request: ProduceRequest, ctx: RequestContext, services: Services) -> ProduceResponse | None:
    acks = request.acks
    if acks not in (ALL, NONE, LEADER):
        return failed(request, ErrorCode.INVALID_REQUIRED_ACKS)
    answer = _Answer(ctx, acks)
    wall_ms = services.clock.wall_ms()
    topics = services.topics.topics
    for topic_data in request.topic_data:
        name = topic_data.name
        topic = topics.get(name)
        rows: list[PartitionProduceResponse] = []
        answer.response.responses.append(TopicProduceResponse(name=name, partition_responses=rows))
        for data in topic_data.partition_data:
            row = PartitionProduceResponse(index=data.index, base_offset=-1)
            rows.append(row)
            partition = None if topic is None else topic.partition(data.index)
            if partition is None:
                _fail(answer, row, name, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            elif partition.topic.is_internal:
                _fail(answer, row, name, ErrorCode.INVALID_TOPIC_EXCEPTION)
            elif partition.offline:
                _fail(answer, row, name, ErrorCode.KAFKA_STORAGE_ERROR)
            else:
                _append(answer, row, partition, data, wall_ms, services)
    answer.open -= 1
    if not answer.open and acks != NONE:
        return answer.response
    answer.parked = True
    # Everything is in its log's queue, so the connection's next Produce cannot overtake it.
    ctx.overlaps = True
    if not answer.open:
        answer.finish()
    return None


def _append(
    answer: _Answer,
    row: PartitionProduceResponse,
    partition: Partition,
    data: PartitionProduceData,
    wall_ms: int,
    services: Services,
) -> None:
    def settled(base_offset: int, error: ErrorCode) -> None:
        if error:
            _fail(answer, row, partition.tp.topic, error)
        else:
            row.base_offset = base_offset
            row.log_start_offset = partition.log.log_start_offset
            if partition.topic.config.log_append_time:
                row.log_append_time_ms = wall_ms
        answer.settled()

    answer.open += 1
    try:
        partition.produce(data.records, answer.ctx.api_version, wall_ms, settled)
    except BatchError as error:
        answer.open -= 1
        _fail(answer, row, partition.tp.topic, error.error_code, str(error))
        if isinstance(error, InvalidBatch):
            row.record_errors = [
                BatchIndexAndErrorMessage(batch_index=index, batch_index_error_message=text)
                for index, text in error.record_errors
            ]
    except services.topics.storage_error as error:
        answer.open -= 1
        _fail(answer, row, partition.tp.topic, ErrorCode.KAFKA_STORAGE_ERROR, str(error))


def _fail(
    answer: _Answer, row: PartitionProduceResponse, topic: str, error: ErrorCode, message: str | None = None
) -> None:
    row.error_code = error
    row.error_message = message
    answer.failure = f"{topic}-{row.index}: {error.text}"


def failed(request: ProduceRequest, code: int) -> ProduceResponse:
    """The answer that refuses every partition."""
    return ProduceResponse(
        responses=[
            TopicProduceResponse(
                name=topic.name,
                partition_responses=[
                    PartitionProduceResponse(index=data.index, error_code=code, base_offset=-1)
                    for data in topic.partition_data
                ],
            )
            for topic in request.topic_data
        ]
    )
