"""The class that Spark knows as ``format("ottla")``. Workers import it; it is never sent to them by value."""

from __future__ import annotations

import os

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader
from pyspark.sql.types import StructType

from ottla.clients.errors import OptionError
from ottla.pipeline.source.batch import OttlaReader
from ottla.pipeline.source.ends_stream import EndsStreamReader
from ottla.pipeline.source.options import Options, parse_options
from ottla.pipeline.source.rows import table_read
from ottla.pipeline.source.stream import OttlaStreamReader


class OttlaSource(DataSource):
    """See `ottla.pipeline.source`."""

    @classmethod
    def name(cls) -> str:
        """As in ``format("ottla")``."""
        return "ottla"

    def schema(self) -> str:
        """The columns that ``decode`` gives. Raises `OptionError`."""
        # Whether it will be a stream is not known here.
        return table_read(self._parsed(streaming=False)).ddl(whole=False)

    def reader(self, schema: StructType) -> DataSourceReader:
        """For ``spark.read``. Raises `OptionError`."""
        return OttlaReader(self._options(schema, streaming=False))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """For ``spark.readStream``. Raises `OptionError`."""
        options = self._options(schema, streaming=True)
        return EndsStreamReader(options) if options.decode == "ends" else OttlaStreamReader(options)

    def _options(self, schema: StructType, *, streaming: bool) -> Options:
        options = self._parsed(streaming=streaming)
        names = [column.name for column in table_read(options).columns]
        if schema.names != names:
            raise OptionError(
                f"the schema has the columns {schema.names}, decode={options.decode} gives {names}: leave it out"
            )
        return options

    def _parsed(self, *, streaming: bool) -> Options:
        try:
            return parse_options(self.options, streaming=streaming)
        except OptionError:
            # Spark would show the traceback of the process that plans before the message. The process ends with this.
            os.environ["SPARK_HIDE_TRACEBACK"] = "1"
            raise
