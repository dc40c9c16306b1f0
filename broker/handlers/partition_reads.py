"""Reads of one partition: its batches, its offsets, or why there are none."""

from __future__ import annotations

from ottla.broker.core.topics.partition import Partition, Standing
from ottla.broker.engine import EngineError, NotHere
from ottla.protocol.compression import Buffer
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.fetch import AbortedTransaction, EpochEndOffset, FetchPartition, PartitionData
from ottla.protocol.records import end_of_batches

READ_UNCOMMITTED, READ_COMMITTED = 0, 1


def read_partition(
    row: PartitionData,
    want: FetchPartition,
    partition: Partition,
    left: int,
    min_one_batch: bool,
    committed: bool,
) -> NotHere | None:
    """Fill a row of the answer with what there is from the wanted offset on.

    Args:
        left: how many bytes the whole answer may still take.
        min_one_batch: give the first batch however large it is.
        committed: nothing at or above the last stable offset.

    Returns:
        What to wait for if there are records which are not here yet; the row has none then.
    """
    log = partition.log
    if error := fence(partition, want.current_leader_epoch):
        row.error_code = error
        return None
    offset = want.fetch_offset
    not_here = None
    try:
        if want.last_fetched_epoch >= 0 and _diverges(row, want, partition):
            return None
        if not log.log_start_offset <= offset <= log.log_end_offset:
            row.error_code = ErrorCode.OFFSET_OUT_OF_RANGE
            return None
        records = b""
        most = min(want.partition_max_bytes, left)
        upto = partition.last_stable_offset if committed else log.high_watermark
        if offset < upto and (most > 0 or min_one_batch):
            records = log.read(offset, max_bytes=most, upto_offset=upto, min_one_batch=min_one_batch)
            if not records and most > 0:
                row.aborted_transactions = None  # as Kafka, which drops a part of a batch together with the list
    except NotHere as later:
        not_here = later
    except EngineError:
        row.error_code = partition.refusal or ErrorCode.KAFKA_STORAGE_ERROR
        return None
    if committed and records and partition.transactions.aborted.reach(offset):
        row.aborted_transactions = [
            AbortedTransaction(producer_id=producer_id, first_offset=first_offset)
            for producer_id, first_offset in partition.aborted_in(offset, end_of_batches(records))
        ]
    row.records = records
    _fill_offsets(row, partition)
    return not_here


def _fill_offsets(row: PartitionData, partition: Partition) -> None:
    row.high_watermark = partition.log.high_watermark
    row.last_stable_offset = partition.last_stable_offset
    row.log_start_offset = partition.log.log_start_offset


def fence(partition: Partition, current_leader_epoch: int) -> ErrorCode:
    """Check the leader epoch that a client believes in (KIP-320); -1 is not checked."""
    if partition.standing is not Standing.LEADING:
        return partition.refusal  # whatever the epoch is: it is a leader's to compare
    if current_leader_epoch < 0 or current_leader_epoch == partition.log.leader_epoch:
        return ErrorCode.NONE
    if current_leader_epoch < partition.log.leader_epoch:
        return ErrorCode.FENCED_LEADER_EPOCH
    return ErrorCode.UNKNOWN_LEADER_EPOCH


def no_replica(partition: Partition, current_leader_epoch: int) -> ErrorCode:
    """The answer to a broker that takes itself for a follower; there are none."""
    if error := fence(partition, current_leader_epoch):
        return error
    return ErrorCode.NOT_LEADER_OR_FOLLOWER if current_leader_epoch < 0 else ErrorCode.UNKNOWN_LEADER_EPOCH


def _diverges(row: PartitionData, want: FetchPartition, partition: Partition) -> bool:
    """Whether the reader followed a log that parts from ours before its offset (KIP-595): then say where."""
    end = partition.log.epoch_end(want.last_fetched_epoch)
    if end.end_offset < 0 or want.fetch_offset < partition.log.log_start_offset:
        row.error_code = ErrorCode.OFFSET_OUT_OF_RANGE
        return True
    if end.leader_epoch < want.last_fetched_epoch or end.end_offset < want.fetch_offset:
        row.diverging_epoch = EpochEndOffset(epoch=end.leader_epoch, end_offset=end.end_offset)
        _fill_offsets(row, partition)
        return True
    return False


def counted(records: Buffer, most: int, partition: Partition, committed: bool) -> int:
    """How many bytes count as read where up to ``most`` were asked for.

    If more batches follow, all that was asked for: whole batches alone may never come to what a consumer waits for.
    """
    taken = len(records)
    if taken >= most:
        return taken
    upto = partition.last_stable_offset if committed else partition.log.high_watermark
    return most if end_of_batches(records) < upto else taken
