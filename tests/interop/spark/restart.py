"""A query that is killed with its process, and goes on from its checkpoint: each record is in the output once."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

from tests.interop.spark.harness import AVAILABLE, SCRATCH, T, session, test
from tests.support.waiting import wait_for

ROUND = 20  # offsets in a micro-batch


def go_on(topic: str, directory: Path) -> None:
    """The query: writes each record to files, a few in a micro-batch."""
    spark = session("restarted")
    reader = spark.readStream.format("kafka").option("kafka.bootstrap.servers", os.environ["BOOTSTRAP"])
    reader = reader.option("subscribe", topic).option("startingOffsets", "earliest")
    frame = reader.option("maxOffsetsPerTrigger", ROUND).load()
    rows = frame.selectExpr("partition", "offset", "CAST(CAST(value AS STRING) AS BIGINT) AS number")
    writer = rows.writeStream.format("parquet").option("path", str(directory / "out"))
    writer = writer.option("checkpointLocation", str(directory / "checkpoint"))
    writer.start().awaitTermination()


@test
def stream_killed_and_restarted_exactly_once(t: T) -> None:
    t.create(3)
    for partition in range(3):
        t.send(range(partition * 1000, partition * 1000 + 200), partition=partition)
    t.directory.mkdir()
    # In a virtual machine of its own, so that it can be killed as it stands.
    command = [sys.executable, "-m", "tests.interop.spark.restart", t.topic, str(t.directory)]
    env = {**os.environ, "SCRATCH": str(SCRATCH / "killed")}
    first = subprocess.Popen(
        command, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    )
    committed = t.directory / "checkpoint" / "commits"
    try:
        wait_for(lambda: first.poll() is not None or (committed / "2").exists(), "a few micro-batches")
        time.sleep(0.13)  # somewhere within the next
    finally:
        os.killpg(first.pid, 9)
        first.wait()
    done = len([name for name in os.listdir(committed) if name.isdigit()])
    assert 3 <= done < 600 // ROUND, f"{done} micro-batches were committed when it was killed"
    for partition in range(3):
        t.send(range(partition * 1000 + 200, partition * 1000 + 220), partition=partition)

    def rest() -> list[int]:
        reader = t.stream(maxOffsetsPerTrigger=200).selectExpr(
            "partition", "offset", "CAST(CAST(value AS STRING) AS BIGINT) AS number"
        )
        t.finish(t.start(reader, "parquet", path=t.directory / "out", trigger=AVAILABLE))
        return sorted(row.number for row in t.spark.read.parquet(str(t.directory / "out")).collect())

    wanted = sorted(partition * 1000 + n for partition in range(3) for n in range(220))
    assert rest() == wanted
    assert rest() == wanted  # nothing more, when there is nothing more


@test
def stream_state_after_a_restart(t: T) -> None:
    """Sums that were kept in the state; batches are repeated after a stop, their effect is not."""
    t.create(2)
    name = t.name

    def sums() -> dict[int, int]:
        frame = t.stream(maxOffsetsPerTrigger=15).selectExpr(
            "partition", "CAST(CAST(value AS STRING) AS BIGINT) AS number"
        )
        grouped = frame.groupBy("partition").sum("number").withColumnRenamed("sum(number)", "total")
        query = t.start(grouped, "memory", mode="complete", name=name)
        query.processAllAvailable()
        query.stop()
        return {row.partition: row.total for row in t.spark.table(name).collect()}

    for partition in range(2):
        t.send(range(20), partition=partition)
    assert sums() == {0: 190, 1: 190}
    t.send(range(20, 30))
    assert sums() == {0: 435, 1: 190}


if __name__ == "__main__":
    go_on(sys.argv[1], Path(sys.argv[2]))
