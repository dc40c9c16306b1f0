"""TxnOffsetCommit, and what the end of a transaction does to the offsets committed in it (KIP-98, KIP-447)."""

from __future__ import annotations

from typing import Any

from ottla.broker.core.coordination.shard import ShardState
from ottla.broker.core.effects import Asker
from ottla.broker.core.events import OffsetsCommitted
from ottla.broker.core.groups.group import Group
from ottla.broker.core.groups.machine import Machine
from ottla.broker.core.groups.offsets.commit import (
    CommitWrite,
    Refusals,
    committing_group,
    decide_by_topic,
    refuse_older,
)
from ottla.broker.core.groups.offsets.committed import Accepted, CommittedOffset
from ottla.broker.core.groups.shard import GroupShard
from ottla.protocol.errors import ErrorCode
from ottla.protocol.message_parts import PartitionOutcome, TopicOutcome
from ottla.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)

KNOWS_LOADING = 2
"""Clients of older versions cannot bear to hear that the coordinator is loading."""

Undecided = tuple[TxnOffsetCommitRequestTopic, TxnOffsetCommitRequestPartition, PartitionOutcome]


class TransactionalCommitWrite(CommitWrite):
    """Offsets of a transaction on their way; when they are durable they wait for its end."""

    __slots__ = ("producer_epoch", "producer_id", "verified")

    def __init__(
        self,
        group: Group,
        ctx: Asker,
        request: TxnOffsetCommitRequest,
        response: TxnOffsetCommitResponse,
        undecided: list[Undecided],
        verified: object,
    ) -> None:
        super().__init__(group, ctx, request, response, undecided)
        self.producer_id = request.producer_id
        self.producer_epoch = request.producer_epoch
        self.verified = verified

    def committed(self, m: Machine, topic: Any, partition: Any, metadata: str) -> CommittedOffset:
        return CommittedOffset(partition.committed_offset, partition.committed_leader_epoch, metadata, m.wall_ms)

    def keep(self, m: Machine) -> Accepted:
        offsets, shard = self.group.offsets, m.shards[self.shard.partition]
        moved_back = []
        for topic, partition, committed in self.accepted:
            offsets.write_ends(topic, partition)
            shard.hold(self.group, self.producer_id, topic, partition, committed)
            before = offsets.get(topic, partition)
            if before is not None and before.offset > committed.offset:
                moved_back.append((topic, partition, before))
        return moved_back


def commit(
    m: Machine,
    shard: GroupShard,
    request: TxnOffsetCommitRequest,
    ctx: Asker,
    refused: Refusals,
    verified: object | None,
) -> TxnOffsetCommitResponse | None:
    """Commit offsets in a transaction; None if the answer waits for the records.

    Args:
        verified: shows that the transaction may write to the shard's partition; passed on to the log.
    """
    response, undecided = response_to(request, refused)
    if not undecided:
        return response
    generation = request.generation_id
    group, error = committing_group(m, shard, request.group_id, generation, ErrorCode.ILLEGAL_GENERATION)
    if group is not None:
        error = group.refuse_transactional_commit(request.member_id, request.group_instance_id, generation)
        if error is ErrorCode.STALE_MEMBER_EPOCH:
            error = refuse_older(m, group, request.member_id, generation, undecided)
            error = ErrorCode.ILLEGAL_GENERATION if error else error  # the only one that these versions know
    if error or group is None:
        return _failed(response, undecided, error, ctx)
    write = TransactionalCommitWrite(group, ctx, request, response, undecided, verified)
    return None if write.hand_over(m) else response


def response_to(request: TxnOffsetCommitRequest, refused: Refusals) -> tuple[TxnOffsetCommitResponse, list[Undecided]]:
    """An answer, and its partitions that the coordinator has to decide on."""
    topics, undecided = decide_by_topic(request.topics, refused, lambda topic: TopicOutcome(name=topic.name))
    return TxnOffsetCommitResponse(topics=topics), undecided


def unavailable(
    request: TxnOffsetCommitRequest, ctx: Asker, refused: Refusals, error: ErrorCode
) -> TxnOffsetCommitResponse:
    """The answer of a broker that cannot speak for the group, or of a group that does not take the offsets."""
    return _failed(*response_to(request, refused), error, ctx)


def _failed(
    response: TxnOffsetCommitResponse, undecided: list[Undecided], error: ErrorCode, ctx: Asker
) -> TxnOffsetCommitResponse:
    if error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS and ctx.api_version < KNOWS_LOADING:
        error = ErrorCode.COORDINATOR_NOT_AVAILABLE
    for _, _, answer in undecided:
        answer.error_code = error
    return response


def transaction_ended(m: Machine, shard: GroupShard, producer_id: int, *, commit: bool) -> None:
    """The marker of a producer's transaction is in the log of the shard: its offsets count now, or never will."""
    for group_id in shard.transactions.pop(producer_id, ()):
        group = shard.groups.get(group_id)
        if group is None:
            continue  # deleted since, and its offsets with it
        stored = group.offsets.end_transaction(producer_id, commit=commit)
        if stored and m.observed and shard.state is ShardState.ACTIVE:
            m.emit(
                OffsetsCommitted(
                    group_id=group_id, cause=m.cause, member_id="", partitions=stored, producer_id=producer_id
                )
            )
