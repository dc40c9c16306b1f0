"""The data source ``ottla`` of Spark: consumer groups, and records of any topic, as rows.

    ottla.pipeline.register(spark)
    spark.read.format("ottla").option("kafka.bootstrap.servers", "localhost:9092").option("decode", "commits").load()

It reads a running cluster over TCP, Ottla or Apache Kafka (option ``kafka.bootstrap.servers``), or a directory of logs
(option ``path``), in a batch or as a stream. What is decoded (option ``decode``) is decoded here, in columns, before
Spark sees it: see `ottla.pipeline.codec`. Options have the names of Spark's Kafka connector where that has them
(`ottla.pipeline.source.options`).

The modules: `options` → `subscription` (which partitions) → `logs` (what a place of logs offers), which are `cluster`
over TCP or `log_directory`, `stored_log`, `segments` and `journal` in files → `planning` (which task
reads what) → `rows`. `batch`, `stream` and `ends_stream` are what Spark calls.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.pipeline.source.options import TASKS_VARIABLE

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def register(spark: SparkSession) -> None:
    """Let a session read ``format("ottla")``.

    Reads have twice as many tasks as the session runs at a time, unless option ``tasks`` says otherwise.
    """
    from ottla.pipeline.source.data_source import OttlaSource

    context = spark.sparkContext
    # Those who plan are processes of their own and know no session; this is what Spark hands on to them.
    context.environment[TASKS_VARIABLE] = str(2 * context.defaultParallelism)
    spark.dataSource.register(OttlaSource)
