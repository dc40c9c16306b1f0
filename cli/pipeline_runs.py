"""Runs of the pipeline from the shell: faults in a sentence, a session of Spark's, Ctrl-C, and the cluster to read."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING

import click

from ottla.cli.output import Refused, note
from ottla.pipeline.config import Config, ConfigError

if TYPE_CHECKING:
    from ottla.pipeline.cluster import Cluster
    from ottla.pipeline.lake import Lake
    from ottla.pipeline.running import Spark

_AGAIN = "Stopping; what is under way is done again at the next start, and counts once."


@contextmanager
def failures(what: str = "pipeline") -> Iterator[None]:
    """Let what can go wrong end the command with one sentence and exit code 1; ``what`` needs Spark's packages."""
    missing = [name for name in ("pyspark", "pyarrow", "numpy") if find_spec(name) is None]
    if missing:
        raise Refused(f"The {what} needs {' and '.join(missing)}.", "pip install 'ottla[spark]'")
    from ottla.pipeline.cluster import NoCluster
    from ottla.pipeline.lake import LakeError
    from ottla.pipeline.parquet_files import UnreadableTable
    from ottla.pipeline.running import RunFailed
    from ottla.pipeline.session import NoJava
    from ottla.pipeline.sinks import NoPackage

    try:
        yield
    except ConfigError as error:
        raise click.UsageError(str(error)) from None
    except (NoCluster, LakeError, UnreadableTable, RunFailed, NoJava, NoPackage) as error:
        raise Refused(str(error)) from None


@contextmanager
def with_spark(config: Config, lake: Lake, what: str) -> Iterator[Spark]:
    """A session; what Spark raises in the block is said in a sentence, with the file that has more."""
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]
    from pyspark.errors import PySparkException

    from ottla.pipeline.running import RunFailed, first_line, spark

    if sys.stderr.isatty():
        note("Starting Spark …")
    with spark(config, lake, what) as running:
        try:
            yield running
        except RunFailed as error:
            raise Refused(str(error), f"What Spark says: {running.log}") from None
        except (PySparkException, Py4JError, ConnectionError) as error:
            raise Refused(first_line(error), f"What Spark says: {running.log}") from None


@contextmanager
def to_stop(said: str = _AGAIN) -> Iterator[Callable[[float], bool]]:
    """Ctrl-C and SIGTERM ask to stop; a second one ends at once. Gives what waits, and says whether to stop."""
    asked = threading.Event()

    def ask(number: int, frame: object) -> None:
        if asked.is_set():
            os._exit(128 + number)
        asked.set()
        note(said)

    before = {one: signal.signal(one, ask) for one in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield asked.wait
    finally:
        for one, handler in before.items():
            signal.signal(one, handler)


def look_at(config: Config) -> Cluster:
    from ottla.pipeline.cluster import look

    if not config.bootstrap_server and not config.log_dir:
        raise click.UsageError("Say what to read: --bootstrap-server HOST:PORT, or --log-dir DIR.")
    return look(config)
