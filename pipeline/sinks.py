"""Sinks of streams: Spark's own for Parquet, or Delta and Iceberg tables; a batch that comes twice counts once.

Delta needs no jar: the package ``deltalake`` writes the batch and, in the same commit, its number under the name of the
query (a ``txn`` action of Delta's protocol). With ``pyiceberg`` the number is a property of the table, set in the same
commit as the rows are added.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from datetime import date
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ottla.pipeline.lake import Lake
from ottla.pipeline.tables import TABLES, VERSION, Table

if TYPE_CHECKING:
    import pyarrow as pa

PACKAGES = {"delta": "deltalake", "iceberg": "pyiceberg"}
"""The package that a format needs besides Spark; its extra of ottla is named after the format."""
NAMESPACE = "silver"
_KEPT_VERSION = "ottla.schema.version"
_BATCH = "ottla.batch."
_CATALOG = threading.Lock()
"""Held while a table is opened or made: streams write from threads, and only one may make the catalog's own tables."""


class NoPackage(Exception):
    """A package for the format is not installed; the message says which."""


def check(format: str) -> None:
    """See that what a format needs is installed.

    Raises:
        NoPackage: it is not.
    """
    package = PACKAGES.get(format)
    if package is not None and find_spec(package) is None:
        raise NoPackage(f"--format {format} needs {package}: pip install 'ottla[{format}]'")


def attach(writer: Any, format: str, lake: Lake, table: str) -> Any:
    """Let a writer of a stream write to a table of the lake."""
    if format == "parquet":
        return writer.format("parquet").option("path", lake.where(table)).partitionBy(TABLES[table].partition_column)
    add = {"delta": add_to_delta, "iceberg": add_to_iceberg}[format]
    return writer.foreachBatch(lambda batch, number: add(lake, TABLES[table], batch.toArrow, number))


def add_to_delta(lake: Lake, table: Table, rows: Callable[[], pa.Table], number: int) -> bool:
    """Add a batch to a Delta table, if it is not in it: whether it was added.

    Args:
        rows: gives the batch; bounded by ``max-offsets-per-trigger``.
        number: of the batch, by the checkpoint's count.
    """
    from deltalake import CommitProperties, DeltaTable, Transaction, WriterProperties, write_deltalake

    where, query = lake.where(table.name), f"ottla-{table.name}"
    there = DeltaTable.is_deltatable(where)
    if there:
        last = DeltaTable(where).transaction_version(query)
        if last is not None and last >= number:
            return False
    batch = rows().cast(table.arrow())  # whatever types Spark made of them
    if not batch.num_rows:
        return False
    write_deltalake(
        where,
        batch,
        partition_by=[table.partition_column],
        mode="append",
        schema_mode="merge",
        configuration=None if there else {"delta.appendOnly": "false"},
        description=None if there else table.text,
        writer_properties=WriterProperties(compression="ZSTD"),
        commit_properties=CommitProperties(
            custom_metadata={_KEPT_VERSION: str(VERSION)}, app_transactions=[Transaction(query, number)]
        ),
    )
    return True


def add_to_iceberg(lake: Lake, table: Table, rows: Callable[[], pa.Table], number: int) -> bool:
    """Add a batch to an Iceberg table, if it is not in it: whether it was added. As `add_to_delta`."""
    stored = iceberg_table(lake, table)
    name = _BATCH + table.name
    if int(stored.properties.get(name, -1)) >= number:
        return False
    batch = rows().cast(table.arrow())
    if not batch.num_rows:
        return False
    properties = {name: str(number), _KEPT_VERSION: str(VERSION)}
    with stored.transaction() as changes:
        if stored.properties.get(_KEPT_VERSION) != str(VERSION):
            with changes.update_schema() as schema:
                schema.union_by_name(table.arrow())
        # Its own writer makes empty lists of NULLs within structs.
        days = sorted(batch[table.partition_column].unique().to_pylist())
        files = [_write_day(lake, table, batch, day, number) for day in days]
        changes.add_files(files, snapshot_properties=properties, check_duplicate_files=False)
        changes.set_properties(properties)
    return True


def _write_day(lake: Lake, table: Table, batch: pa.Table, day: date, number: int) -> str:
    """The rows of a day as a data file; one that a crash left there is written over when the batch comes again."""
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    folder = Path(lake.where(table.name)).absolute() / "data" / f"{table.partition_column}={day}"
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"batch-{number:010d}.parquet"
    pq.write_table(batch.filter(pc.equal(batch[table.partition_column], day)), file, compression="zstd")
    return f"file://{file}"


def iceberg_table(lake: Lake, table: Table) -> Any:
    """The table in the lake's catalog, ``LAKE/iceberg.db``; made if it is not there."""
    from pyiceberg.catalog.sql import SqlCatalog
    from pyiceberg.exceptions import NamespaceAlreadyExistsError, NoSuchTableError
    from pyiceberg.transforms import IdentityTransform

    root = Path(lake.path).absolute()
    root.mkdir(parents=True, exist_ok=True)
    with _CATALOG:
        catalog = SqlCatalog("ottla", uri=f"sqlite:///{root}/iceberg.db", warehouse=f"file://{root}")
        with contextlib.suppress(NamespaceAlreadyExistsError):
            catalog.create_namespace(NAMESPACE)
        name = (NAMESPACE, table.name)
        try:
            return catalog.load_table(name)
        except NoSuchTableError:
            pass
        stored = catalog.create_table_transaction(
            name,
            table.arrow(),
            location=f"file://{Path(lake.where(table.name)).absolute()}",
            properties={"write.parquet.compression-codec": "zstd", _KEPT_VERSION: str(VERSION), "comment": table.text},
        )
        with stored:
            spec = stored.update_spec()
            spec.add_field(table.partition_column, IdentityTransform(), table.partition_column)
            spec.commit()
        return catalog.load_table(name)
