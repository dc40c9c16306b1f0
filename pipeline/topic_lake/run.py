"""Write topics: a streaming query for each, with a checkpoint in its own folder."""

from __future__ import annotations

import json
import shutil
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ottla.pipeline.parquet_files import rows_of
from ottla.pipeline.running import stream_writer
from ottla.pipeline.topic_lake import columns
from ottla.pipeline.topic_lake.folder import BAD, LakeError, TopicFolder

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.types import StructType


class LakeSettings(NamedTuple):
    """A topic to write, and how to write it.

    Attributes:
        topic: its name.
        folder: where its rows go.
        options: of the source: ``kafka.bootstrap.servers`` or ``path``, and others.
        interval_ms: between two batches; None ends the query when all is written that is there now.
        json_schema: typed columns of JSON values, see `columns.read_schema`; None for none.
        json_prefix: before their names.
        cluster_id: of the cluster, so that no other is written to the same folder; None is not known.
    """

    topic: str
    folder: str
    options: Mapping[str, str]
    interval_ms: int | None = None
    json_schema: str | None = None
    json_prefix: str = ""
    cluster_id: str | None = None


class Written(NamedTuple):
    """A batch that is in: rows, those of them that are bad, files, and bytes."""

    topic: str
    batch: int
    rows: int
    bad: int
    files: int
    size: int


@dataclass(frozen=True)
class BatchWriter:
    """A function that Spark calls for every batch; a batch that is in already is passed over.

    Args:
        folder: of the topic.
        schema: of JSON values; None for none.
        told: called with every batch that was written.
    """

    folder: TopicFolder
    topic: str
    schema: StructType | None = None
    prefix: str = ""
    told: Callable[[Written], None] | None = None

    def __call__(self, batch: DataFrame, number: int) -> None:
        query = query_id(self.folder)
        with self.folder.changing():  # what a crash left undone belongs to the batch before
            last = self.folder.committed(query)
        if number <= last:
            return
        # A name of its own: the JVM of a driver that was killed may still be writing to the one before.
        place = self.folder.new_staging(f"batch-{number:010d}-{uuid.uuid4().hex[:8]}")
        staged = {"": place / "rows"}
        made = columns.rows(batch, self.schema, self.prefix)
        bad = 0
        if self.schema is None:
            _write(made, staged[""])
        else:
            bad = self._both(made, staged, place)
        written = list(place.rglob("*.parquet"))
        size = sum(file.stat().st_size for file in written)
        done = Written(self.topic, number, rows_of(written), bad, len(written), size)
        figures = {"rows": done.rows, "bad": done.bad, "files": done.files, "bytes": done.size}
        self.folder.commit(number, query, staged, figures)
        shutil.rmtree(place, ignore_errors=True)
        if self.told is not None:
            self.told(done)

    def _both(self, made: DataFrame, staged: dict[str, Path], place: Path) -> int:
        """Rows that fit, and counts the others on the way; only if there are any is the batch read a second time."""
        from pyspark.sql import Observation
        from pyspark.sql import functions as f

        seen = Observation()
        watched = made.observe(seen, f.count_if(f.col(columns.ERROR).isNotNull()).alias("bad"))
        _write(watched.where(f"{columns.ERROR} IS NULL").drop(columns.ERROR), staged[""])
        bad = int(seen.get["bad"])
        if bad:
            staged[BAD] = place / "bad"
            names = [*(name for name in columns.OWN if name != "date"), columns.ERROR, "date"]
            _write(made.where(f"{columns.ERROR} IS NOT NULL").select(*names), staged[BAD])
            found = rows_of(staged[BAD].rglob("*.parquet"))
            if found != bad:
                raise LakeError(
                    f"{bad} rows did not fit, but {found} came when they were read again; the batch is redone"
                )
        return bad


def _write(rows: DataFrame, to: Path) -> None:
    writer = rows.write.mode("overwrite").partitionBy("date").option("compression", "zstd")
    writer.parquet(_spark_path(to))
    to.mkdir(parents=True, exist_ok=True)  # Spark makes none for a batch without rows


def _spark_path(path: Path) -> str:
    """Hadoop takes the text behind the colon as it is: ``Path.as_uri`` would make ``%20`` of a space."""
    return f"file:{path}"


def query_id(folder: TopicFolder) -> str:
    """The id that Spark gave the checkpoint; batches are numbered by it."""
    return str(json.loads((folder.checkpoint / "metadata").read_text("utf-8"))["id"])


@contextmanager
def start(
    spark: SparkSession, wanted: list[LakeSettings], told: Callable[[Written], None] | None = None
) -> Iterator[list[StreamingQuery]]:
    """Start a query for each topic; none other may write to their folders meanwhile.

    Raises:
        LakeError: a folder holds something else, or a schema cannot be read.
    """
    with ExitStack() as held:
        queries = []
        try:
            for settings in wanted:
                folder, schema = _ready(held, settings)
                queries.append(_query(spark, settings, folder, schema, told))
            yield queries
        finally:
            for query in queries:
                if query.isActive:
                    query.stop()


def _ready(held: ExitStack, settings: LakeSettings) -> tuple[TopicFolder, StructType | None]:
    folder = TopicFolder(settings.folder)
    folder.about()
    schema = columns.read_schema(settings.json_schema, settings.json_prefix) if settings.json_schema else None
    held.enter_context(folder.only("writer"))
    folder.claim(topic=settings.topic, cluster_id=settings.cluster_id)
    if schema is not None:
        _note_schema(folder, schema, settings.json_prefix)
    with folder.changing():
        if (folder.checkpoint / "metadata").exists():
            folder.committed(query_id(folder))
        elif folder.files() or folder.files(BAD):
            raise LakeError(
                f"{folder.path} has rows, but its checkpoint {folder.checkpoint} is gone: restore it, or begin in a "
                "new folder; rows would come twice otherwise"
            )
    for left in folder.staging.glob("batch-*"):
        shutil.rmtree(left, ignore_errors=True)
    return folder, schema


def _note_schema(folder: TopicFolder, schema: StructType, prefix: str) -> None:
    from pyspark.sql.types import StructField, StructType

    named = StructType([StructField(f"{prefix}{one.name}", one.dataType) for one in schema.fields])
    before = (folder.about() or {}).get("json_schema")
    columns.check_change(before, named)
    known = {one.name: one for one in StructType.fromJson(json.loads(before)).fields} if before else {}
    folder.note(json_schema=StructType(list({**known, **{one.name: one for one in named.fields}}.values())).json())


def _query(
    spark: SparkSession,
    settings: LakeSettings,
    folder: TopicFolder,
    schema: StructType | None,
    told: Callable[[Written], None] | None,
) -> StreamingQuery:
    options = {"startingOffsets": "earliest", "includeHeaders": "true", **settings.options}
    source = spark.readStream.format("ottla").options(**options).option("decode", "raw")
    rows = source.option("subscribe", settings.topic).load()
    write = BatchWriter(folder, settings.topic, schema, settings.json_prefix, told)
    checkpoint = _spark_path(folder.checkpoint)
    writer = stream_writer(rows, f"ottla lake: {settings.topic}", checkpoint, settings.interval_ms)
    return writer.foreachBatch(write).start()
