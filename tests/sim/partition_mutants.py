"""Planted bugs of transactions in a partition; see `tests.sim.mutants`."""

from __future__ import annotations

from tests.sim.mutants import Mutant

PARTITION_MUTANTS = [
    Mutant(
        "open transactions do not hold committed reading back",
        "topics.partition:Partition.last_stable_offset",
        "if first_unstable is None or first_unstable >= high_watermark:",
        "if True:",
    ),
    Mutant(
        "a transaction is over before its marker is durable",
        "topics.partition:Partition.last_stable_offset",
        "self.transactions.first_unstable_offset",
        "next((first for first, one in self.transactions.unstable.items() if one.last_offset < 0), None)",
    ),
    Mutant(
        "a transaction begins with its second batch",
        "topics.partition:Partition._changed",
        "self.transactions.begin(header.producer_id, base_offset)",
        "self.transactions.begin(header.producer_id, base_offset + header.last_offset_delta)",
    ),
    Mutant(
        "what a failed marker has ended stays ended",
        "topics.partition:Partition.take_back",
        "self.producers.restore(failed.producer_id, failed.before)",
        "pass",
    ),
    Mutant(
        "what a failed batch has begun stays open",
        "topics.transactions:Transactions.failed",
        "del self.unstable[last.began.first_offset]",
        "pass",
    ),
    Mutant(
        "changes are taken back one by one, the oldest last",
        "topics.transactions:Transactions.failed",
        "while not change.is_over:\n        last = self.changes.pop()",
        "if not change.is_over:\n        self.changes.remove(change); last = change",
    ),
    Mutant(
        "committed transactions are listed as aborted",
        "topics.transactions:Transactions.durable",
        "aborted=change.aborts",
        "aborted=True",
    ),
    Mutant(
        "aborted transactions are not listed",
        "topics.transactions:Transactions.complete",
        "if aborted:",
        "if False:",
    ),
    Mutant(
        "a transaction that began before the range is not listed",
        "topics.transactions:Aborted.between",
        "bisect_left(self._last_offsets, start_offset)",
        "bisect_left(self._first_offsets, start_offset)",
    ),
    Mutant(
        "the search for aborted transactions ends too early",
        "topics.transactions:Aborted.between",
        "if self._stable_offsets[index] >= upto_offset:",
        "if self._last_offsets[index] >= upto_offset:",
    ),
    Mutant(
        "aborted transactions are listed in the order of their markers",
        "topics.transactions:Aborted.between",
        "sorted(found)",
        "found",
    ),
    Mutant(
        "the stable offset after a marker is the one without other transactions",
        "topics.transactions:Transactions.complete",
        "min(next(iter(self.unstable), end + 1), end + 1)",
        "end + 1",
    ),
    Mutant(
        "what was verified before a marker counts after it",
        "topics.partition:Partition.append_marker",
        "self.transactions.verifications.pop(producer_id, None)",
        "pass",
    ),
    Mutant(
        "a batch begins a transaction that nobody has confirmed",
        "topics.partition:Partition._check_transaction",
        "verified is not None and",
        "verified is None or",
    ),
    Mutant(
        "markers of older epochs are taken",
        "topics.producers:Producers.judge_marker",
        "if marker.producer_epoch < state.epoch:",
        "if False:",
    ),
    Mutant(
        "markers of older coordinators are taken",
        "topics.producers:Producers.judge_marker",
        "if marker.coordinator_epoch < state.coordinator_epoch:",
        "if False:",
    ),
    Mutant(
        "sequences go on after a marker with a newer epoch",
        "topics.producers:Producers._moved",
        "state.batches = []",
        "pass",
    ),
    Mutant(
        "plain batches are taken in the middle of a transaction",
        "topics.producers:Producers.judge",
        "if state.transaction is not None and not header.is_transactional:",
        "if False:",
    ),
    Mutant(
        "a start takes every batch for the first of a transaction",
        "topics.partition:Partition.replay",
        "state is not None and state.transaction is None:",
        "state is not None:",
    ),
    Mutant(
        "a start forgets what was aborted",
        "topics.partition:Partition._replay_marker",
        "aborted=not end.commit",
        "aborted=False",
    ),
    Mutant(
        "a snapshot leaves out what was aborted",
        "topics.snapshot:take",
        "transactions.aborted.rows()",
        "[]",
    ),
    Mutant(
        "a snapshot leaves out what is open",
        "topics.snapshot:restore",
        "sorted([*open_ones, *ended]",
        "sorted([*ended]",
    ),
]
