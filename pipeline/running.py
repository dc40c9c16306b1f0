"""Spark kept quiet, and watched while it works."""

from __future__ import annotations

import contextlib
import json
import os
import re
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ottla.pipeline.lake import Lake

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

    from ottla.pipeline.config import Config

LOGS_KEPT = 10
_POLL_S = 0.25


class RunFailed(Exception):
    """Spark could not do it; the message is one sentence, and names the file in which it said more."""


@dataclass
class Spark:
    """A session, and the file that has what it says besides."""

    session: SparkSession
    log: Path

    @property
    def jvm_pid(self) -> int:
        """The process of its JVM."""
        return int(self.session._jvm.java.lang.ProcessHandle.current().pid())  # type: ignore[union-attr]


@contextmanager
def spark(config: Config, lake: Lake, what: str) -> Iterator[Spark]:
    """A session for the block. Whatever JVM and workers print goes to a file in ``LAKE/logs``.

    Raises:
        NoJava: see `ottla.pipeline.session.java_home`.
        RunFailed: Spark does not start.
    """
    from ottla.pipeline.session import java_home, session

    java_home()
    log = _new_log(lake, what)
    conf = {"spark.driver.memory": config.driver_memory, **config.spark_conf}
    with _output_to(log):
        try:
            made = session(f"ottla pipeline {what}", patient(config.master), **conf)
        except Exception as error:
            said = f"Spark does not start with --master {config.master}: {first_line(error)}"
            raise RunFailed(f"{said} ({log} has more.)") from error
    try:
        yield Spark(made, log)
    finally:
        # A JVM that was killed cannot be stopped; what it left is told by what went wrong before.
        with _output_to(log), contextlib.suppress(Exception):
            made.stop()


def patient(master: str) -> str:
    """On one machine a task that fails is not tried again unless the master's address says so; a cluster tries four
    times, and so do we: workers may be slow to start, and what a task reads is the same again."""
    return re.sub(r"^local(?:\[([\d*]+)\])?$", lambda found: f"local[{found[1] or 1},4]", master)


def _new_log(lake: Lake, what: str) -> Path:
    name = f"{time.strftime('%Y%m%dT%H%M%S', time.gmtime())}-{what}-{os.getpid()}.log"
    try:
        lake.logs.mkdir(parents=True, exist_ok=True)
        # Of each command: a stream runs for good, while `gold` beside it runs every few minutes.
        for old in sorted(lake.logs.glob(f"*T??????-{what}-*.log"))[: -LOGS_KEPT + 1]:
            old.unlink(missing_ok=True)
        (lake.logs / name).touch()
        return lake.logs / name
    except OSError:
        # A lake that may only be read.
        return Path(tempfile.mkdtemp(prefix="ottla-pipeline-")) / name


@contextmanager
def _output_to(log: Path) -> Iterator[None]:
    """Let what is started in the block, and Spark's own words, write to a file: the JVM keeps what it was given."""
    sys.stdout.flush()
    sys.stderr.flush()
    kept = [os.dup(1), os.dup(2)]
    with log.open("ab") as file:
        try:
            os.dup2(file.fileno(), 1)
            os.dup2(file.fileno(), 2)
            yield
        finally:
            for number, copy in enumerate(kept, start=1):
                os.dup2(copy, number)
                os.close(copy)


_EXCEPTION = re.compile(r"^(?:[\w$]+\.)*[\w$]*(?:Error|Exception|DataLoss)\b:?\s*")
_OWN = re.compile(r"(?:ottla[\w.]*|pyspark[\w.]*)\.(\w*(?:Error|Loss|Damage\w*)): (?P<text>.+)")


def first_line(error: BaseException) -> str:
    """The cause of an error without its stack: the innermost sentence if it is one of ours, else the first."""
    text = str(error)
    if own := _OWN.findall(text):
        return str(own[-1][1]).strip()
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return _EXCEPTION.sub("", lines[0]) if lines else type(error).__name__


# -- streams


@dataclass
class Progress:
    """The progress of a stream.

    Attributes:
        rows: that went to the table.
        batches: that were done.
        at: position of the source: the sum of its offsets.
        rate: rows per second of the last batch.
        batch_s: how long the last batch took.
    """

    rows: int = 0
    batches: int = 0
    at: int = 0
    rate: float = 0.0
    batch_s: float = 0.0
    _last: int = field(default=-1, repr=False)

    def take(self, progress: dict[str, Any]) -> None:
        """Add one of Spark's reports, if it is a new one."""
        number = int(progress["batchId"])
        duration_ms = int(progress.get("batchDuration") or progress.get("durationMs", {}).get("triggerExecution") or 0)
        source = (progress.get("sources") or [{}])[0]
        if number <= self._last or "addBatch" not in progress.get("durationMs", {}):
            return
        self._last = number
        self.batches += 1
        self.rows += int(progress.get("numInputRows") or 0)
        self.rate = float(progress.get("processedRowsPerSecond") or 0.0)
        self.batch_s = duration_ms / 1000
        self.at = position(source.get("endOffset"))


def position(offset: Any) -> int:
    """The sum of the offsets in what the source gives as its position, however they are nested."""
    if isinstance(offset, str):
        try:
            offset = json.loads(offset)
        except ValueError:
            return 0
    return _sum(offset)


def _sum(offset: Any) -> int:
    if isinstance(offset, dict):
        return sum(_sum(one) for name, one in offset.items() if name != "v")
    return offset if isinstance(offset, int) else 0


def stream_writer(rows: DataFrame, name: str, checkpoint: str, interval_ms: int | None) -> DataStreamWriter:
    """The writer of a streaming query, which only has to be told where to write.

    Args:
        checkpoint: the folder in which the query keeps how far it is.
        interval_ms: between two batches; None ends the query when all is read that is there now.
    """
    _forget_torn_start(Path(checkpoint.removeprefix("file:"), "offsets"))
    writer = rows.writeStream.queryName(name).outputMode("append").option("checkpointLocation", checkpoint)
    if interval_ms is None:
        return writer.trigger(availableNow=True)
    return writer.trigger(processingTime=f"{interval_ms} milliseconds")


def _forget_torn_start(offsets: Path) -> None:
    """Remove the files without a name of a query that was killed before its first batch: Spark refuses to begin
    where there are any.
    """
    left = list(offsets.iterdir()) if offsets.is_dir() else []
    if not any(one.name.isdecimal() for one in left):
        for one in left:
            one.unlink()


def watch(
    queries: dict[str, StreamingQuery], stopping: Callable[[float], bool], tell: Callable[[dict[str, Progress]], None]
) -> dict[str, Progress]:
    """Wait until all streams are done, one fails, or it is to stop; stop all, and give how far they came.

    Args:
        stopping: waits for at most so many seconds, and says whether to stop.
        tell: told how far they are, four times a second.

    Raises:
        RunFailed: a stream failed; the others were stopped.
    """
    found = {name: Progress() for name in queries}
    reports = {name: Reports(query) for name, query in queries.items()}
    failed: tuple[str, BaseException] | None = None
    while True:
        active = 0
        for name, query in queries.items():
            for one in reports[name].new():
                found[name].take(one)
            active += query.isActive
            error = None if query.isActive else query.exception()
            if error is not None and failed is None:
                failed = name, error
        tell(found)
        if failed or not active or stopping(_POLL_S):
            break
    for query in queries.values():
        query.stop()
    for name in queries:
        for one in reports[name].new():
            found[name].take(one)
    tell(found)
    if failed:
        raise RunFailed(f"{failed[0]}: {first_line(failed[1])}")
    return found


class Reports:
    """Spark's reports on a stream, each of them once.

    ``recentProgress`` would ask the JVM for every field of the last hundred, again and again: a core's work for a few
    streams. A report is told from the next by its batch and time, so only what is new is fetched.
    """

    def __init__(self, query: StreamingQuery) -> None:
        self._query: Any = query._jsq
        self._last: tuple[int, str] | None = None

    def new(self) -> list[dict[str, Any]]:
        """The reports that are new since the last call, in order."""
        kept = self._query.recentProgress()
        fresh: list[Any] = []
        mark = self._last
        for index in reversed(range(len(kept))):
            one = kept[index]
            this = (int(one.batchId()), str(one.timestamp()))
            if this == self._last:
                break
            mark = this if not fresh else mark
            fresh.append(one)
        self._last = mark
        return [dict(json.loads(one.json())) for one in reversed(fresh)]


@contextmanager
def tasks_told(session: SparkSession, tell: Callable[[int, int], None]) -> Iterator[None]:
    """While a job runs in the block, tell how many of its tasks are done, and how many there are."""
    import threading

    done = threading.Event()
    tracker = session.sparkContext.statusTracker()

    def look() -> None:
        while not done.wait(_POLL_S):
            stages = [tracker.getStageInfo(one) for one in tracker.getActiveStageIds()]
            known = [one for one in stages if one is not None]
            if known:
                tell(sum(one.numCompletedTasks for one in known), sum(one.numTasks for one in known))

    thread = threading.Thread(target=look, daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
