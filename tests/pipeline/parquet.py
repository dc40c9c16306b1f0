"""Files of tables, as Spark leaves them."""

from collections.abc import Collection, Iterable
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from ottla.pipeline.tables import TABLES


def put(
    folder: Path | str,
    table: str,
    rows: Iterable[dict[str, Any]],
    day: date,
    name: str = "one",
    without: Collection[str] = (),
    **options: Any,
) -> Path:
    """Write rows of a day below a table's folder, whose name holds the day.

    Args:
        without: columns that the file lacks.
        options: of Arrow's writer.
    """
    day_column = TABLES[table].partition_column
    file = Path(folder) / f"{day_column}={day}" / f"{name}.parquet"
    file.parent.mkdir(parents=True, exist_ok=True)
    fields = [field for field in TABLES[table].arrow() if field.name not in (day_column, *without)]
    pq.write_table(pa.Table.from_pylist(list(rows), pa.schema(fields)), file, **options)
    return file
