"""The catalog of a data directory that no broker uses at the moment, to be changed in its place."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

from ottla.broker.engine import Corrupt, Unavailable
from ottla.broker.storage.local.catalog import locked
from ottla.broker.storage.local.directory import make_data_directory, take_lock
from ottla.broker.storage.local.files import Files, SyncFailed, engine_error, read_file, replace_file
from ottla.broker.storage.local.layout import FORMAT, Layout, decode_meta, decode_versioned, encode_catalog


@contextmanager
def unused_catalog(data_dir: str) -> Iterator[tuple[dict[str, Any] | None, Callable[[Any], None]]]:
    """Lock a directory, which is made if need be, for as long as the block lasts.

    Yields:
        The catalog's document, None for that of a new broker; and what puts another one, durably, in its place.

    Raises:
        EngineError: a broker uses it, it is none of ours, or it cannot be read or written.
    """
    files, layout = Files(), Layout(os.path.abspath(data_dir))
    try:
        make_data_directory(files, layout)
        lock = take_lock(files, layout)
        try:
            meta = read_file(files, layout.meta)
            if meta is not None and decode_meta(meta, layout.meta)[2] < FORMAT:
                raise Corrupt(f"{layout.data_dir} is of an earlier release: start a broker with it once, and stop it")
            is_shared = os.path.exists(layout.catalog_lock)  # with nodes that may run
            with locked(files, layout.catalog_lock) if is_shared else nullcontext():
                stored = read_file(files, layout.catalog)
                state, version = (None, 0) if stored is None else decode_versioned(stored, layout.catalog)
                yield state, lambda changed: replace_file(files, layout.catalog, encode_catalog(changed, version + 1))
        finally:
            files.close(lock)
    except SyncFailed as error:
        raise Unavailable(str(error)) from error
    except OSError as error:
        raise engine_error(error, f"changing {layout.catalog}") from error
