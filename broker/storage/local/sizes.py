"""Limits and intervals of the local engine."""

from dataclasses import dataclass
from typing import Final

MIB: Final = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """Sizes in bytes, counts, and intervals of the engine."""

    journal_file_bytes: int = 64 * MIB
    first_journal_file_bytes: int = MIB // 4
    """The first file of a directory is this small, so that it is there at once."""
    checkpoint_bytes: int = 64 * MIB
    """Bytes of the journal after which a checkpoint is taken."""
    checkpoint_batches: int = 250_000
    """Batches after which a checkpoint is taken: a start after a crash spends a few microseconds on each."""
    checkpoint_ms: int = 60_000
    ballast_bytes: int = 64 * MIB
    gulp_bytes: int = 4 * MIB
    """Bytes that are brought to segments at a time; fewer after a quarter of a second."""
    tail_bytes: int = 64 * MIB
    """Most bytes that wait in memory to be brought to segments."""
    most_readers: int = 64
    most_writers: int = 128
    """Segments that are open at a time to be read and to be written."""
    most_pinned: int = 32
    """Segments that one may take the place of at a time: they stay open until it has."""

    @property
    def most_handles(self) -> int:
        """The largest number of files that are open at a time.

        Besides segments these are LOCK, the journal's directory, its file and the one that is to follow; of the keeper
        a directory, a file in it, and what listing takes; of the event loop an index, and what listing takes.
        """
        return self.most_readers + self.most_writers + self.most_pinned + 10
