"""Putting one segment in the place of several, at once: what compaction does.

The new files are written under names that end in ``.cleaned``, and renamed, the batches last, to ``.swap``. When that
name is on the disk it counts: the old segments are removed and the new one takes its own name. A start finishes what
had come so far, and removes what had not.
"""

import contextlib
import os
import re
from collections.abc import Callable, Sequence
from typing import Final

from ottla.broker.storage.local.files import Files, directory, joined, opened, sync, write_whole
from ottla.broker.storage.local.segment import SegmentIndex, remove_segment, segment_path
from ottla.protocol.compression import Buffer
from ottla.protocol.records import parse_header
from ottla.protocol.stored.names import INDEX_SUFFIX, LOG_SUFFIX, TIME_INDEX_SUFFIX, parse_segment_name

CLEANED_SUFFIX: Final = ".cleaned"
SWAP_SUFFIX: Final = ".swap"
_SWAP: Final = re.compile(r"(\d{20})\.(\d{20})(\.log|\.index|\.timeindex)\.swap")
_GULP: Final = 512


def replace_segments(
    files: Files, path: str, first_offset: int, next_offset: int, batches: Sequence[Buffer], interval: int
) -> tuple[int, int]:
    """Replace a log's segments of these offsets by one with ``batches``; return its size and its largest timestamp.

    Raises ``OSError`` when nothing has changed, ``SyncFailed`` when that is not certain.
    """
    prefix = f"{first_offset:020d}.{next_offset:020d}"
    index = SegmentIndex(first_offset)
    size = 0
    for batch in batches:
        header = parse_header(bytes(batch[:61]))
        index.add(header.last_offset, size, len(batch), header.max_timestamp, interval)
        size += len(batch)
    index.note_time()
    offsets, times = index.encode()
    # Files of a turn that had no room may be there still; and the batches come last, as they are what counts.
    contents: list[tuple[str, Sequence[Buffer]]] = [
        (INDEX_SUFFIX, (offsets,)),
        (TIME_INDEX_SUFFIX, (times,)),
        (LOG_SUFFIX, batches),
    ]
    with directory(files, path) as sync_names:
        # From the swap on nothing has to be opened.
        names = files.list(path)
        try:
            for suffix, content in contents:
                _write(files, os.path.join(path, prefix + suffix + CLEANED_SUFFIX), content)
            for suffix, _ in contents:
                new = os.path.join(path, prefix + suffix)
                files.rename(new + CLEANED_SUFFIX, new + SWAP_SUFFIX)
        except OSError:
            for suffix, _ in contents:
                for ending in (CLEANED_SUFFIX, SWAP_SUFFIX):
                    with contextlib.suppress(FileNotFoundError):
                        files.remove(os.path.join(path, prefix + suffix + ending))
            raise
        sync_names()
        _swap(files, path, first_offset, next_offset, names, sync_names)
    return size, index.max_timestamp_ms


def finish_replacing(files: Files, path: str) -> None:
    """Finish or undo what a crash interrupted in a log's directory. Raises ``OSError`` and ``SyncFailed``."""
    names = files.list(path)
    for name in names:
        if name.endswith(CLEANED_SUFFIX):
            files.remove(os.path.join(path, name))
    swaps = [found for name in names if (found := _SWAP.fullmatch(name)) is not None]
    counting = {(int(found[1]), int(found[2])) for found in swaps if found[3] == LOG_SUFFIX}
    for found in swaps:
        if (int(found[1]), int(found[2])) not in counting:
            files.remove(os.path.join(path, found[0]))
    for first_offset, next_offset in sorted(counting):
        with directory(files, path) as sync_names:
            # The process may have died before the names were on the disk: nothing is removed until they are.
            sync_names()
            _swap(files, path, first_offset, next_offset, names, sync_names)


def _swap(
    files: Files, path: str, first_offset: int, next_offset: int, names: Sequence[str], sync_names: Callable[[], None]
) -> None:
    """Let the swapped files take the place of what they replace: of segments that are among ``names``."""
    prefix = f"{first_offset:020d}.{next_offset:020d}"
    for name in sorted(names):
        base = parse_segment_name(name)
        if base is not None and first_offset <= base < next_offset:
            remove_segment(files, path, base)
    for suffix in (INDEX_SUFFIX, TIME_INDEX_SUFFIX, LOG_SUFFIX):
        with contextlib.suppress(FileNotFoundError):
            files.rename(
                os.path.join(path, prefix + suffix + SWAP_SUFFIX),
                segment_path(path, first_offset, suffix),
            )
    sync_names()


def _write(files: Files, path: str, pieces: Sequence[Buffer]) -> None:
    with opened(files, path, create=True) as handle:
        files.truncate(handle, 0)
        position = 0
        for start in range(0, len(pieces), _GULP):
            position += write_whole(files, handle, joined(pieces[start : start + _GULP]), position)
        sync(files, handle, path)
