"""Whether a broker, Ottla or Kafka, has a directory open."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path


def in_use(path: Path) -> bool:
    """Whether a broker has the data directory open that a file or directory belongs to."""
    for directory in path.absolute().parents[:3]:
        for name, lock in (("LOCK", fcntl.flock), (".lock", fcntl.lockf)):
            try:
                handle = os.open(directory / name, os.O_RDWR)
            except OSError:
                continue
            try:
                lock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except OSError:
                return True
            finally:
                os.close(handle)
    return False
