"""A topic's rows as they are now, for readers that want nothing to change under them."""

from __future__ import annotations

import os
import shutil
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ottla.pipeline.topic_lake.folder import BAD, LakeError, TopicFolder

KEPT_S = 24 * 3600
"""After so long a compaction removes snapshots that nobody has removed."""


@contextmanager
def snapshot(path: str | Path) -> Iterator[Path]:
    """A folder with the rows of a topic as they are now, that no batch and no compaction changes; removed in the end.

    ```python
    with snapshot("/lake/orders") as frozen:
        spark.read.parquet(str(frozen))             # or pandas.read_parquet(frozen), or DuckDB
    ```

    Its files are further names of those that are there (hard links): it is made in milliseconds and takes no space but
    that of files which a compaction would have removed.

    Raises:
        LakeError: it is no topic lake, or its file system has no hard links.
    """
    made = take(TopicFolder(path))
    try:
        yield made
    finally:
        shutil.rmtree(made, ignore_errors=True)


def take(folder: TopicFolder) -> Path:
    """Make a snapshot; whoever takes it removes it, or a compaction does a day later. Raises as `snapshot`."""
    folder.check()
    place = folder.path / "_snapshots" / f"{time.strftime('%Y%m%dT%H%M%S', time.gmtime())}-{uuid.uuid4().hex[:8]}"
    place.mkdir(parents=True)
    with folder.changing():
        for part in ("", BAD):
            for file in folder.files(part):
                to = place / file.relative_to(folder.path)
                to.parent.mkdir(parents=True, exist_ok=True)
                try:
                    os.link(file, to)
                except OSError as error:
                    raise LakeError(f"{file} cannot be given a second name: {error.strerror}") from error
    return place


def remove_old(folder: TopicFolder) -> None:
    """Remove snapshots that were taken so long ago."""
    for one in (folder.path / "_snapshots").glob("*"):
        if time.time() - one.stat().st_mtime > KEPT_S:
            shutil.rmtree(one, ignore_errors=True)
