"""Folders of topics for tests, made without Spark and without a broker."""

from collections import Counter
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from ottla.pipeline.topic_lake.folder import TopicFolder, no_step

SCHEMA = pa.schema(
    [
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("ts", pa.timestamp("us", tz="UTC")),
        ("ts_type", pa.int32()),
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("headers", pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))),
    ]
)


class Killed(BaseException):
    """Nothing but the test catches it: what follows a kill does not run."""


class KillAt:
    """Kills at the n-th step, counted from 0; ``steps`` are those that were passed."""

    def __init__(self, at: int | None) -> None:
        self.at = at
        self.steps: list[str] = []

    def __call__(self, name: str) -> None:
        self.steps.append(name)
        if self.at is not None and len(self.steps) == self.at + 1:
            raise Killed(name)


def table(records: Iterable[tuple[int, int]], size: int = 8) -> pa.Table:
    """Records (partition, offset) with values of ``size`` bytes that do not compress."""
    from random import Random

    return pa.Table.from_pylist(
        [
            {
                "partition": partition, "offset": offset, "ts": datetime(2026, 11, 20, 12, tzinfo=UTC), "ts_type": 0,
                "key": b"k%d" % offset, "value": Random(f"{partition} {offset}").randbytes(size),
                "headers": [{"key": "h", "value": b"v"}],
            }
            for partition, offset in records
        ],
        SCHEMA,
    )  # fmt: skip


def stage(folder: TopicFolder, name: str, days: dict[str, list[tuple[int, int]]], size: int = 8) -> Path:
    """Files as Spark writes them, one for each day."""
    place = folder.new_staging(name)
    for day, records in days.items():
        (place / f"date={day}").mkdir()
        pq.write_table(table(records, size), place / f"date={day}" / "part-0.parquet", compression="zstd")
    return place


def commit(folder: TopicFolder, number: int, days: dict[str, list[tuple[int, int]]], size: int = 8) -> None:
    folder.commit(number, "q", {"": stage(folder, f"batch-{number}", days, size)}, {"rows": 1})


def rows(path: Path) -> Counter[tuple[int, int]]:
    """Records as any reader of Parquet sees them that is pointed at the folder: how often each."""
    found = ds.dataset(path, partitioning="hive").to_table(["partition", "offset"])
    return Counter(zip(found["partition"].to_pylist(), found["offset"].to_pylist(), strict=True))


def new_folder(path: Path) -> TopicFolder:
    folder = TopicFolder(path, no_step)
    folder.claim(topic="orders")
    return folder
