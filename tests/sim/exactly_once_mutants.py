"""Planted bugs: mistakes that one makes when one writes a transaction coordinator. The simulation must find each."""

from __future__ import annotations

from tests.sim.mutants import Mutant

MUTANTS = [
    Mutant(
        "it speaks before it is durable",
        "transactions.machine:Machine.move",
        "entry.pending = snapshot.state",
        "self.follow(entry, snapshot); then(ErrorCode.NONE); entry.pending = snapshot.state; then = str",
    ),
    Mutant(
        "memory follows a record that was not written",
        "transactions.machine:StateWrite.done",
        "if error is ErrorCode.NONE:",
        "if True:",
    ),
    Mutant(
        "a decision that could not be logged is told as if it were",
        "transactions.ending:_decide",
        "if error:",
        "if error and not commit:",
    ),
    Mutant(
        "a marker that failed counts as written",
        "transactions.markers:marker_written",
        "if error not in DONE:",
        "if error is ErrorCode.NOT_COORDINATOR:",
    ),
    Mutant(
        "markers that failed are not tried again",
        "transactions.markers:retry",
        "if token is None]",
        "if False]",
    ),
    Mutant(
        "a completion that failed is not tried again",
        "transactions.markers:CompletionWrite.done",
        "m.arm_retry(entry)",
        "pass",
    ),
    Mutant(
        "the end is logged after the first marker",
        "transactions.markers:marker_written",
        "if not entry.markers:",
        "if entry.pending:",
    ),
    Mutant(
        "one partition gets no marker",
        "transactions.markers:begin_markers",
        "in sorted(entry.current.partitions):",
        "in sorted(entry.current.partitions)[:1]:",
    ),
    Mutant(
        "decisions found at the start are not carried out",
        "transactions.coordinator:TransactionCoordinator._activate",
        "elif entry.current.state in PREPARED:",
        "elif False:",
    ),
    Mutant(
        "open transactions found at the start never time out",
        "transactions.coordinator:TransactionCoordinator._activate",
        "if entry.current.state is ONGOING:",
        "if False:",
    ),
    Mutant(
        "a commit found at the start becomes an abort",
        "transactions.records:snapshot",
        "state = BY_STATUS[TransactionStatus(value.transaction_status)]",
        "state = BY_STATUS[TransactionStatus(value.transaction_status + (value.transaction_status == 2))]",
    ),
    Mutant(
        "the coordinator forgets its epoch",
        "coordination.machine:_is_newer",
        "shard.epoch = epoch",
        "shard.epoch = -epoch",
    ),
    Mutant(
        "markers carry the epoch before",
        "transactions.machine:Machine.write_marker",
        "producer_epoch=tx.producer_epoch,",
        "producer_epoch=tx.last_producer_epoch,",
    ),
    Mutant(
        "commit markers abort",
        "transactions.machine:Machine.write_marker",
        "commit=tx.state is TransactionState.PREPARE_COMMIT,",
        "commit=False,",
    ),
    Mutant(
        "partitions are not in the log",
        "transactions.records:record",
        "None if tx.state is EMPTY else rows",
        "None",
    ),
    Mutant(
        "partitions added before are forgotten",
        "transactions.transitions:with_partitions",
        "tx.partitions.union(partitions)",
        "frozenset(partitions)",
    ),
    Mutant(
        "what is under way does not hold up a producer that adds",
        "transactions.adding:add",
        "if entry.pending is not None:",
        "if False:",
    ),
    Mutant(
        "who has waited is let through unseen",
        "transactions.machine:Machine.release",
        "entry.waiters.pop(0).again()",
        "entry.waiters.pop(0).again.args[-1](ErrorCode.NONE)",
    ),
    Mutant(
        "nobody who waits is called",
        "transactions.markers:CompletionWrite.done",
        "m.release(entry)",
        "entry.waiters.clear()",
    ),
    Mutant(
        "an old epoch may add partitions",
        "transactions.adding:add",
        "elif tx.producer_epoch != producer_epoch:",
        "elif False:",
    ),
    Mutant(
        "an old epoch may end a transaction",
        "transactions.ending:_judge",
        "if tx.producer_epoch != producer_epoch:",
        "if False:",
    ),
    Mutant(
        "a fenced producer keeps its epoch",
        "transactions.ending:fence",
        "False, TRANSACTION_V2, True",
        "False, 0, True",
    ),
    Mutant(
        "a transaction that times out is committed",
        "transactions.ending:fence",
        "False, TRANSACTION_V2, True",
        "True, TRANSACTION_V2, True",
    ),
    Mutant(
        "transactions do not time out",
        "transactions.sweeps:abort_timed_out",
        "tx.start_ms + tx.timeout_ms < m.wall_ms",
        "tx.start_ms < 0",
    ),
    Mutant(
        "the epoch does not rise at the end of a transaction",
        "transactions.transitions:prepared",
        "min(epoch + 1, MAX_EPOCH), epoch",
        "epoch, epoch",
    ),
    Mutant(
        "two producers get the same epoch",
        "transactions.transitions:with_next_epoch",
        "epoch, last = tx.producer_epoch + 1,",
        "epoch, last = max(tx.producer_epoch, 0),",
    ),
    Mutant(
        "a repeated request for an epoch counts for any old epoch",
        "transactions.transitions:with_next_epoch",
        "elif expected_epoch == tx.last_producer_epoch:",
        "elif expected_epoch < tx.producer_epoch:",
    ),
    Mutant(
        "a partition takes part as soon as somebody asks",
        "transactions.requests:verify_or_add",
        "add(m, *who, partitions, TRANSACTION_V2, then, waits_for_all=True)",
        "add(m, *who, partitions, 2, str, waits_for_all=True); then(ErrorCode.NONE)",
    ),
    Mutant(
        "readers are shown what is open",
        "topics.partition:Partition.last_stable_offset",
        "first_unstable is None or first_unstable >= high_watermark",
        "True",
    ),
    Mutant(
        "an append that failed stays in the memory of producers",
        "topics.partition:Partition.take_back",
        "self.producers.restore(failed.producer_id, failed.before)",
        "pass",
    ),
    Mutant(
        "offsets of an aborted transaction count",
        "groups.coordinator:GroupCoordinator.transaction_ended",
        "commit=commit)",
        "commit=True)",
    ),
    Mutant(
        "offsets of a committed transaction are lost",
        "groups.coordinator:GroupCoordinator.transaction_ended",
        "commit=commit)",
        "commit=False)",
    ),
]
