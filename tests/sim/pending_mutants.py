"""Planted bugs of offsets that are committed in transactions; see `tests.sim.mutants`."""

from __future__ import annotations

from tests.sim.mutants import Mutant

PENDING_MUTANTS = [
    Mutant(
        "offsets of a transaction count at once",
        "groups.offsets.transactional:TransactionalCommitWrite.keep",
        "m.shards[self.shard.partition].hold(self.group, self.producer_id, topic, partition, committed)",
        "self.group.offsets.store(topic, partition, committed)",
    ),
    Mutant(
        "an aborted transaction counts",
        "groups.committed:CommittedOffsets.end_transaction",
        "if commit and pending.committed is not None:",
        "if pending.committed is not None:",
    ),
    Mutant(
        "a transaction that commits does not count",
        "groups.committed:CommittedOffsets.end_transaction",
        "if commit and pending.committed is not None:",
        "if not commit and pending.committed is not None:",
    ),
    Mutant(
        "what is pending wins over a later commit",
        "groups.committed:CommittedOffsets.store",
        "if self.pending:",
        "if False:",
    ),
    Mutant(
        "of two transactions the one that ends last wins",
        "groups.committed:CommittedOffsets.end_transaction",
        "self._overtake(topic, partition, pending.number)",
        "pass",
    ),
    Mutant(
        "of two transactions the one that ends first wins",
        "groups.committed:CommittedOffsets.end_transaction",
        "self._overtake(topic, partition, pending.number)",
        "self._overtake(topic, partition, self._number)",
    ),
    Mutant(
        "pending offsets have no order",
        "groups.committed:CommittedOffsets.hold",
        "self._number += 1",
        "pass",
    ),
    Mutant(
        "a tombstone leaves what is pending",
        "groups.committed:CommittedOffsets.discard",
        "for producer_id in list(self.pending):",
        "for producer_id in ():",
    ),
    Mutant(
        "who asks for stable offsets is shown what may change",
        "groups.offsets.fetch:_fetch_group",
        "offsets.pending_partitions() if stable and offsets.pending else ()",
        "()",
    ),
    Mutant(
        "pending offsets trouble those who do not ask for stable ones",
        "groups.offsets.fetch:_fetch_group",
        "if stable and offsets.pending else ()",
        "if offsets.pending else ()",
    ),
    Mutant(
        "a start takes what is pending for committed",
        "groups.replay:replay",
        "if producer_id >= 0:",
        "if False:",
    ),
    Mutant(
        "a transaction ends in one of its groups",
        "groups.offsets.transactional:transaction_ended",
        "shard.transactions.pop(producer_id, ())",
        "list(shard.transactions.pop(producer_id, ()))[:1]",
    ),
    Mutant(
        "a deleted group leaves what is pending",
        "groups.committed:CommittedOffsets.known_partitions",
        "for table in self.pending.values():",
        "for table in ():",
    ),
    Mutant(
        "a deleted topic leaves what is pending",
        "groups.committed:CommittedOffsets.known_partitions_of",
        "for table in self.pending.values():",
        "for table in ():",
    ),
    Mutant(
        "a group that only has something pending is taken back with a failed commit",
        "groups.committed:CommittedOffsets.__bool__",
        " or bool(self.pending)",
        "",
    ),
    Mutant(
        "a failed commit of a transaction is pending",
        "groups.offsets.commit:CommitWrite.done",
        "if not error:\n            self.keep",
        "if True:\n            self.keep",
    ),
    Mutant(
        "offsets expire though a transaction may change them",
        "groups.retention:expired_partitions",
        " or (topic, partition) in pending",
        "",
    ),
    Mutant(
        "a group expires though something is pending",
        "groups.retention:sweep",
        " or bool(offsets.pending)",
        "",
    ),
]
