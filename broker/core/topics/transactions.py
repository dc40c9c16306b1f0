"""The transactions of one partition: which are open, how far committed reading may go, which were aborted (KIP-98).

A transaction begins in a partition with its first batch there and ends with a marker. Everything from the first batch
of the oldest transaction that has not ended is unstable, and readers of committed records are shown nothing of it; the
offset where it begins, or the high watermark if nothing is open, is the *last stable offset*. What lies below it may
contain batches of aborted transactions; readers are told which, and skip them.

State changes when a batch is handed to the log, so that the next one is judged by what the log will say. But a
transaction counts as ended only when its marker is durable, and what a failed append has changed is taken back.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections import deque
from collections.abc import Collection

from ottla.broker.core.topics.producers import Change, Transaction, TransactionMarker

MAX_VERIFICATIONS = 5_000


class Aborted:
    """The aborted transactions of a log, in the order of their markers; 32 bytes each.

    With each stands how far committed reading may go once its marker is there. That never falls, so a search ends where
    it has passed the offset up to which somebody reads.
    """

    __slots__ = ("_first_offsets", "_last_offsets", "_producer_ids", "_stable_offsets")

    def __init__(self) -> None:
        self._producer_ids = array("q")
        self._first_offsets = array("q")
        self._last_offsets = array("q")
        self._stable_offsets = array("q")

    def __len__(self) -> int:
        return len(self._last_offsets)

    def add(self, producer_id: int, first_offset: int, last_offset: int, stable_offset: int) -> None:
        """Remember one whose marker is the last one so far."""
        self._producer_ids.append(producer_id)
        self._first_offsets.append(first_offset)
        self._last_offsets.append(last_offset)
        self._stable_offsets.append(stable_offset)

    def reach(self, offset: int) -> bool:
        """True if a reader who begins at ``offset`` comes across one."""
        return bool(self._last_offsets) and self._last_offsets[-1] >= offset

    def between(self, start_offset: int, upto_offset: int) -> list[tuple[int, int]]:
        """Producer id and first offset of those with something in the range, in the order of their first offsets."""
        found = []
        for index in range(bisect_left(self._last_offsets, start_offset), len(self._last_offsets)):
            first_offset = self._first_offsets[index]
            if first_offset < upto_offset:
                found.append((first_offset, self._producer_ids[index]))
            if self._stable_offsets[index] >= upto_offset:
                break
        return [(producer_id, first_offset) for first_offset, producer_id in sorted(found)]

    def forget_below(self, offset: int) -> None:
        """The log begins at ``offset`` now: forget what ended before."""
        self._cut(0, bisect_left(self._last_offsets, offset))

    def forget(self, marker_offsets: Collection[int]) -> None:
        """Forget those whose markers compaction has removed, since nothing ends them for a reader any more."""
        for offset in sorted(marker_offsets, reverse=True):
            index = bisect_left(self._last_offsets, offset)
            if index < len(self._last_offsets) and self._last_offsets[index] == offset:
                self._cut(index, index + 1)

    def rows(self) -> list[tuple[int, int, int, int]]:
        """Producer id, first offset, offset of the marker and the last stable offset after it, of all."""
        columns = (self._producer_ids, self._first_offsets, self._last_offsets, self._stable_offsets)
        return list(zip(*columns, strict=True))

    def _cut(self, start: int, end: int) -> None:
        for column in (self._producer_ids, self._first_offsets, self._last_offsets, self._stable_offsets):
            del column[start:end]


class Verification:
    """Somebody asks the transaction coordinator whether the partition is part of a producer's transaction.

    ``lowest_sequence`` is the lowest that such batches of the newest ``epoch`` began with: one that comes before the
    others must be first.
    """

    __slots__ = ("epoch", "lowest_sequence")

    def __init__(self, epoch: int, lowest_sequence: int) -> None:
        self.epoch = epoch
        self.lowest_sequence = lowest_sequence


class Transactions:
    """The transactions of one partition.

    Attributes:
        aborted: those whose marker is durable.
        unstable: those whose end is not durable, by first offset, the oldest first.
        changes: what is on its way to the log, in its order.
        verifications: by producer id. A marker takes them away, so that a batch that was verified before and comes
            after it opens no transaction that nobody would end; see `void`.
    """

    __slots__ = ("aborted", "changes", "unstable", "verifications")

    def __init__(self) -> None:
        self.aborted = Aborted()
        self.unstable: dict[int, Transaction] = {}
        self.changes: deque[Change] = deque()
        self.verifications: dict[int, Verification] = {}

    @property
    def first_unstable_offset(self) -> int | None:
        """The begin of the oldest transaction whose end is not durable."""
        return next(iter(self.unstable), None)

    def verify(self, producer_id: int, epoch: int, sequence: int) -> Verification:
        """A batch with this epoch and sequence is being verified. Of too many producers the first is forgotten."""
        found = self.verifications.get(producer_id)
        if found is None:
            if len(self.verifications) >= MAX_VERIFICATIONS:
                del self.verifications[next(iter(self.verifications))]
            found = self.verifications[producer_id] = Verification(epoch, sequence)
        elif epoch > found.epoch:
            found.epoch, found.lowest_sequence = epoch, sequence
        elif epoch == found.epoch and sequence < found.lowest_sequence:
            found.lowest_sequence = sequence
        return found

    def void(self, marker: TransactionMarker) -> None:
        """A marker is appended: what is being verified of the transaction that it ends, or of older ones, is void.

        With version 2 a marker has the epoch of the producer's next transaction. That one may be verified already: its
        first batch is faster than a marker that comes from another node.
        """
        found = self.verifications.get(marker.producer_id)
        if found is not None and (marker.transaction_version < 2 or found.epoch < marker.producer_epoch):
            del self.verifications[marker.producer_id]

    def begin(self, producer_id: int, first_offset: int) -> Transaction:
        """A batch at ``first_offset`` begins a transaction; offsets rise from call to call."""
        transaction = self.unstable[first_offset] = Transaction(producer_id, first_offset)
        return transaction

    def complete(self, transaction: Transaction, *, aborted: bool) -> None:
        """The marker at ``transaction.last_offset`` is durable."""
        del self.unstable[transaction.first_offset]
        if aborted:
            end = transaction.last_offset
            self.aborted.add(
                transaction.producer_id, transaction.first_offset, end, min(next(iter(self.unstable), end + 1), end + 1)
            )

    def durable(self, change: Change) -> None:
        """The oldest change on its way is durable."""
        self.changes.popleft()
        change.is_over = True
        if change.ended is not None:
            self.complete(change.ended, aborted=change.aborts)

    def failed(self, change: Change) -> list[Change]:
        """An append has failed, and with it everything after it: what is to be taken back, the newest first.

        Empty if it was taken back already, with an older one.
        """
        taken_back: list[Change] = []
        while not change.is_over:
            last = self.changes.pop()
            last.is_over = True
            if last.began is not None:
                del self.unstable[last.began.first_offset]
            if last.ended is not None:
                last.ended.last_offset = -1
            taken_back.append(last)
        return taken_back
