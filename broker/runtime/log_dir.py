"""The data directory and the volume that it is on."""

from __future__ import annotations

import os
from pathlib import Path

from ottla.broker.core.log_dir import LogDir


def measured(directory: Path) -> LogDir:
    """The directory with the space of its volume as it is now.

    Raises:
        OSError: the directory is gone, or its volume does not answer.
    """
    volume = os.statvfs(directory)
    return LogDir(
        path=str(directory.absolute()),
        total_bytes=volume.f_blocks * volume.f_frsize,
        usable_bytes=volume.f_bavail * volume.f_frsize,
    )
