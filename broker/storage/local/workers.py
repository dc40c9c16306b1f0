"""Syncing many files at once.

A file system writes its journal once for all who wait at the same moment: sixty-four files synced one after the other
cost sixty-four commits, synced by eight threads they cost a few.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait


class Workers:
    """Threads for tasks that wait for the disk; with ``threads`` 0 the caller does them, one after the other."""

    def __init__(self, threads: int) -> None:
        # Threads are started when there is work for them.
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="ottla-sync") if threads else None

    def run(self, tasks: Sequence[Callable[[], None]]) -> None:
        """Do all tasks; when all are over, raise the first error that there was."""
        if self._pool is None or len(tasks) < 2:
            for task in tasks:
                task()
            return
        futures = [self._pool.submit(task) for task in tasks]
        wait(futures)
        for future in futures:
            future.result()

    def close(self) -> None:
        if self._pool is not None:
            self._pool.shutdown()
