"""How much of everything the local engine takes."""

from dataclasses import dataclass
from typing import Final

MIB: Final = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """What the engine takes, and how often it does what it does now and then."""

    journal_file_bytes: int = 64 * MIB
    first_journal_file_bytes: int = MIB // 4
    """The first file of a directory is this small, so that it is there at once."""
    checkpoint_bytes: int = 64 * MIB
    """So much of journal is followed by a checkpoint."""
    checkpoint_batches: int = 250_000
    """So many batches are, however small: a start after a crash takes a few microseconds for each."""
    checkpoint_ms: int = 60_000
    ballast_bytes: int = 64 * MIB
    gulp_bytes: int = 4 * MIB
    """So much is brought to segments at a time; less after a quarter of a second."""
    tail_bytes: int = 64 * MIB
    """More than this does not wait in memory to be brought to segments."""
    most_readers: int = 64
    most_writers: int = 128
    """Segments that are open at a time to be read and to be written."""
    most_pinned: int = 32
    """Segments that one may take the place of at a time: they stay open until it has."""

    @property
    def most_handles(self) -> int:
        """So many files are open at a time, at most.

        Besides segments these are LOCK, the journal's directory, its file and the one that is to follow; of the keeper
        a directory, a file in it, and what listing takes; of the event loop an index, and what listing takes.
        """
        return self.most_readers + self.most_writers + self.most_pinned + 10
