"""The journal of a data directory as the pipeline reads it: batches that are not, or not certainly, in segments."""

from __future__ import annotations

from pathlib import Path

from ottla.pipeline.source.logs import SourceError
from ottla.protocol.stored.journal import JournalView


class Journal(JournalView):
    """The journal at the moment when this is made.

    Raises:
        SourceError: the checkpoint cannot be read.
    """

    def __init__(self, data_dir: Path) -> None:
        super().__init__(data_dir)
        if self.problem:
            raise SourceError(f"{self.problem}: `ottla doctor` says more")
        found = self.followed
        if self.in_use:
            # Of a running broker only what is on the disk: after a loss of power the rest would never have been.
            synced_lsn = found.reader.synced_lsn
            for name, places in found.places.items():
                found.places[name] = [place for place in places if place.lsn < synced_lsn]

    @property
    def damage(self) -> str:
        """The reason why not all of the journal can be read; "" if all can."""
        if not self.is_damaged:
            return ""
        return f"{self.data_dir / 'journal'} is damaged at lsn {self.followed.reader.end_lsn}, and more was on the disk"
