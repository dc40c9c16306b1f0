"""Which leader epoch began at which offset of a log (KIP-101), to answer OffsetForLeaderEpoch."""

from bisect import bisect_right
from collections.abc import Iterable

from ottla.broker.engine import EpochEnd

_UNKNOWN = EpochEnd(-1, -1)


class EpochHistory:
    """Pairs of an epoch and its first offset, both rising."""

    __slots__ = ("_epochs", "_starts")

    def __init__(self, entries: Iterable[tuple[int, int]] = ()) -> None:
        self._epochs: list[int] = []
        self._starts: list[int] = []
        for epoch, start in entries:
            self.begin(epoch, start)

    @property
    def entries(self) -> list[tuple[int, int]]:
        return list(zip(self._epochs, self._starts, strict=True))

    def begin(self, epoch: int, start_offset: int) -> None:
        """Note that ``epoch`` begins at ``start_offset``; nothing happens unless it is later than all others.

        Epochs that began there or later have left nothing behind, so they are forgotten.
        """
        if self._epochs and epoch <= self._epochs[-1]:
            return
        while self._starts and self._starts[-1] >= start_offset:
            self._epochs.pop()
            self._starts.pop()
        self._epochs.append(epoch)
        self._starts.append(start_offset)

    def end_of(self, epoch: int, log_end_offset: int) -> EpochEnd:
        """The answer for ``epoch``: where the next later one begins, or the log's end for the latest."""
        if epoch < 0 or not self._epochs or epoch > self._epochs[-1]:
            return _UNKNOWN
        if epoch == self._epochs[-1]:
            return EpochEnd(epoch, log_end_offset)
        after = bisect_right(self._epochs, epoch)
        floor = self._epochs[after - 1] if after else epoch
        return EpochEnd(floor, self._starts[after])
