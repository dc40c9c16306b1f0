"""Room on the disk: refusing appends while it is short, and finding out that it is there again.

A ballast file keeps some room back. When the disk is full it is given up, so that what was acknowledged can be brought
to its segments, and retention and compaction can make room. Appends are taken again when the ballast has its room
again, or a tenth of the disk is free.
"""

import contextlib
import os
from typing import Final

from ottla.broker.engine import EngineError
from ottla.broker.storage.local.files import Files

BALLAST_NAME: Final = "ballast"
_FREE_PART: Final = 10
_MUCH: Final = 10


class Room:
    """``refusal`` is why appends are refused, None while they are taken. Read by everybody; changed here."""

    def __init__(self, files: Files, data_dir: str, ballast_bytes: int) -> None:
        self.refusal: EngineError | None = None
        self._files = files
        self._data_dir = data_dir
        self._path = os.path.join(data_dir, BALLAST_NAME)
        self._ballast_bytes = ballast_bytes

    def refuse(self, error: EngineError) -> None:
        """Take no more appends, until ``has_come_back``."""
        self.refusal = error

    def make_some(self) -> None:
        """A start needs a little: give the ballast up if there is less."""
        if self._files.free_space(self._data_dir)[0] < self._ballast_bytes:
            self.give_up_ballast()

    def keep_some_of_much(self) -> None:
        """Put the ballast file there if it is a small part of what is free: no disk is filled with it."""
        with contextlib.suppress(OSError):
            if self._files.free_space(self._data_dir)[0] >= _MUCH * self._ballast_bytes:
                self.keep_some()

    def keep_some(self) -> bool:
        """Put the ballast file there, unless it is; False if there is no room for it."""
        if not self._ballast_bytes:
            return True
        try:
            handle = self._files.open(self._path, create=True)
        except OSError:
            return False
        try:
            if self._files.size(handle) < self._ballast_bytes:
                self._files.allocate(handle, self._ballast_bytes)
            return True
        except OSError:
            self.give_up_ballast()
            return False
        finally:
            self._files.close(handle)

    def give_up_ballast(self) -> None:
        """Free what was kept back."""
        with contextlib.suppress(OSError):
            self._files.remove(self._path)

    def has_come_back(self) -> bool:
        """Look whether appends can be taken again, and if so, take them."""
        if self.refusal is not None:
            try:
                free, total = self._files.free_space(self._data_dir)
            except OSError:
                return False
            if not (self.keep_some() and free) and free * _FREE_PART < total:
                return False
            self.refusal = None
        return True
