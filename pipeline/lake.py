"""Where tables lie: ``LAKE/<layer>/<table>``, ``LAKE/checkpoints/<query>`` and ``LAKE/lake.json``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ottla.pipeline.tables import TABLES

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class Lake:
    """The tables below one folder.

    Args:
        path: of a folder, or whatever Spark takes for one.
    """

    def __init__(self, path: str) -> None:
        self.path = path.rstrip("/")

    def where(self, table: str) -> str:
        """The folder of a table."""
        return f"{self.path}/{TABLES[table].layer}/{table}"

    def checkpoint(self, query: str) -> str:
        """The folder in which a streaming query keeps how far it is."""
        return f"{self.path}/checkpoints/{query}"

    def read(self, spark: SparkSession, table: str) -> DataFrame:
        """A table as it is now, with exactly its schema; empty if it was never written."""
        schema = TABLES[table].ddl()
        if not Path(self.where(table)).exists():
            return spark.createDataFrame([], schema)
        return spark.read.schema(schema).parquet(self.where(table))
