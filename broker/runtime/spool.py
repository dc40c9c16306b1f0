"""Where the batches of a compacted segment wait until they are all there: in memory, or in a file without a name."""

from __future__ import annotations

import io
import mmap
from array import array
from collections.abc import Sequence
from pathlib import Path
from typing import IO, overload

from ottla.protocol.compression import Buffer

MEMORY_BYTES = 4 << 20
"""Less than this needs no file."""


class Spool(Sequence[Buffer]):
    """Batches that are added one by one and then read, as often as wanted and from any thread.

    Takes 8 bytes of memory for a batch, and a few MiB, however much is added, where there is a directory.
    """

    def __init__(self, directory: Path | None) -> None:
        self.size_bytes = 0
        self._directory = directory
        self._ends = array("Q")
        self._file: IO[bytes] = io.BytesIO()
        self._is_on_disk = False
        self._view: memoryview | None = None

    def add(self, batch: Buffer) -> None:
        """Add a batch; not once reading has begun. Raises ``OSError`` where there is no room."""
        assert self._view is None, "somebody reads already"
        if not self._is_on_disk and self._directory is not None and self.size_bytes > MEMORY_BYTES:
            import tempfile  # with all kinds of archives, which no start needs

            held, self._file = self._file, tempfile.TemporaryFile(dir=self._directory)  # noqa: SIM115
            self._is_on_disk = True
            self._file.write(held.getbuffer())  # type: ignore[attr-defined]
        self._file.write(batch)
        self.size_bytes += len(batch)
        self._ends.append(self.size_bytes)

    def close(self) -> None:
        """Nothing more is added. Who reads already may go on: a thread may still be at it."""
        self._file.close()

    def __len__(self) -> int:
        return len(self._ends)

    @overload
    def __getitem__(self, index: int) -> Buffer: ...
    @overload
    def __getitem__(self, index: slice) -> list[Buffer]: ...
    def __getitem__(self, index: int | slice) -> Buffer | list[Buffer]:
        if isinstance(index, slice):
            return [self[each] for each in range(*index.indices(len(self)))]
        if index < 0:
            index += len(self)
        end = self._ends[index]
        return self._whole()[self._ends[index - 1] if index else 0 : end]

    def _whole(self) -> memoryview:
        if self._view is None:
            self._file.flush()
            if self._is_on_disk:
                self._view = memoryview(mmap.mmap(self._file.fileno(), self.size_bytes, access=mmap.ACCESS_READ))
            else:
                self._view = memoryview(self._file.getvalue())  # type: ignore[attr-defined]
        return self._view
