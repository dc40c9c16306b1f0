"""A PostgreSQL for as long as a test, or the tests of a module, need it."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager

from examples.cluster.postgresql import PostgresServer, new_directory


@contextmanager
def running_server() -> Iterator[PostgresServer]:
    """A server of its own, in a directory that goes with it."""
    directory = new_directory()
    server = PostgresServer(directory / "server")
    server.create()
    server.start()
    try:
        yield server
    finally:
        server.stop()
        shutil.rmtree(directory)
