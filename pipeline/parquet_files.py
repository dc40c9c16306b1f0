"""The files of a table that count, for readers that are not Spark.

A folder can hold more Parquet than the table does: a task of Spark's file sink that was killed leaves files that only
``_spark_metadata`` tells from the others, and Delta and Iceberg keep earlier versions. `dataset` knows them all by what
lies in the folder, needs pyarrow only (and ``deltalake`` or ``pyiceberg`` for their tables), and reads lazily.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

if TYPE_CHECKING:
    import pyarrow.dataset as ds

    from ottla.pipeline.tables import Table

METADATA = "_spark_metadata"
BACKFILL = "_backfill"
"""Below a table's folder, what backfills wrote of it; Spark's file sink, Delta and Iceberg leave it alone."""
_BATCH = re.compile(r"(\d+)(\.compact)?")
_URI = re.compile(r"[a-z][a-z0-9+.-]+:", re.IGNORECASE)


class UnreadableTable(Exception):
    """A table is there, but it cannot be read here; the message says why and what helps."""


def filesystem(where: str) -> tuple[Any, str]:
    """The file system of a place (pyarrow's) and the path in it.

    Args:
        where: a path, or an address such as ``file:///lake`` or ``s3://bucket/lake``.

    Raises:
        UnreadableTable: pyarrow knows no such file system.
    """
    import pyarrow as pa
    from pyarrow import fs

    if not _URI.match(where):
        return fs.LocalFileSystem(), where.rstrip("/") or "/"
    if where.startswith("file:"):
        return fs.LocalFileSystem(), unquote(urlsplit(where).path).rstrip("/") or "/"
    try:
        system, path = fs.FileSystem.from_uri(where)
    except (pa.ArrowException, ValueError, OSError) as error:
        raise UnreadableTable(f"{where} cannot be read: {error}") from error
    return system, path.rstrip("/")


def dataset(folder: str, table: Table) -> ds.Dataset:
    """A table as Arrow's dataset with exactly its schema; columns that files lack are NULL.

    Args:
        folder: where the table lies; one that is not there is a table without rows.
        table: which one it is.

    Raises:
        UnreadableTable: it is of a format whose package is not installed, or its metadata cannot be read.
    """
    import pyarrow as pa
    import pyarrow.dataset as ds

    system, path = filesystem(folder)
    names = committed(folder)
    if not names:
        return ds.dataset(table.arrow().empty_table())
    day = pa.schema([pa.field(table.partition_column, pa.date32())])
    return ds.dataset(
        names,
        schema=table.arrow(),
        # Spark writes timestamps as INT96 unless told otherwise; as nanoseconds they would end in the year 2262.
        format=ds.ParquetFileFormat(coerce_int96_timestamp_unit="us"),
        filesystem=system,
        partitioning=ds.partitioning(day, flavor="hive"),
        partition_base_dir=path,
    )


def committed(folder: str) -> list[str]:
    """The paths of the Parquet files that make up the table, in order; none where there is no table.

    Raises:
        UnreadableTable: see `dataset`.
    """
    from pyarrow import fs

    system, path = filesystem(folder)
    if system.get_file_info(path).type != fs.FileType.Directory:
        return []
    inside = {info.base_name for info in system.get_file_info(fs.FileSelector(path))}
    before = _plain(system, f"{path}/{BACKFILL}") if BACKFILL in inside else []
    return sorted([*before, *_of_streams(system, folder, path, inside)])


def rows_of(names: Iterable[str | Path], system: Any = None) -> int:
    """Count the rows of Parquet files by their footers; ``system`` is where the files are, if not on this machine."""
    import pyarrow.parquet as pq

    return sum(pq.read_metadata(name, filesystem=system).num_rows for name in names)


def _of_streams(system: Any, folder: str, path: str, inside: set[str]) -> list[str]:
    """The files of a table but for backfills, by its format."""
    if "_delta_log" in inside:
        return _delta(folder, path)
    if "metadata" in inside and "_SUCCESS" not in inside and (newest := _newest_metadata(system, path)):
        return _iceberg(newest)
    if METADATA in inside:
        return _file_sink(system, path)
    return _plain(system, path)


def _plain(system: Any, path: str) -> list[str]:
    """All visible files below a folder."""
    from pyarrow import fs

    found = system.get_file_info(fs.FileSelector(path, recursive=True))
    return sorted(one.path for one in found if one.type == fs.FileType.File and _visible(one.path[len(path) + 1 :]))


def _visible(name: str) -> bool:
    """Tell whether Spark would read it: hidden and unfinished files begin with ``.`` or ``_``."""
    return name.endswith(".parquet") and not any(part.startswith((".", "_")) for part in name.split("/"))


def _file_sink(system: Any, path: str) -> list[str]:
    """The files that Spark's sink has committed: those of the newest compact file and what came after it."""
    from pyarrow import fs

    batches: dict[int, str] = {}
    compact = -1
    for info in system.get_file_info(fs.FileSelector(f"{path}/{METADATA}")):
        if found := _BATCH.fullmatch(info.base_name):
            batches[int(found[1])] = info.path
            compact = max(compact, int(found[1])) if found[2] else compact
    names: dict[str, None] = {}
    for batch in sorted(number for number in batches if number >= compact):
        for line in system.open_input_stream(batches[batch]).read().decode().splitlines()[1:]:
            try:
                entry = json.loads(line)
                name = _below(path, entry["path"])
            except (ValueError, KeyError, TypeError) as error:
                raise UnreadableTable(f"{batches[batch]} cannot be read: {error!r} in {line[:200]!r}") from error
            if entry.get("action", "add") == "add":
                names[name] = None
            else:
                names.pop(name, None)
    return sorted(names)


def _below(path: str, address: str) -> str:
    """The present path of a file: the sink notes whole addresses, and a lake may have been moved since."""
    parts = unquote(urlsplit(address).path).split("/")
    keep = 1
    while keep < len(parts) and "=" in parts[-keep - 1]:
        keep += 1
    return "/".join([path, *parts[-keep:]])


def _delta(folder: str, path: str) -> list[str]:
    if find_spec("deltalake") is None:
        raise UnreadableTable(f"{folder} is a Delta table; `pip install 'ottla[delta]'` brings what reads it")
    from deltalake import DeltaTable

    # The files of the newest version, relative to the table.
    names = DeltaTable(folder).get_add_actions(flatten=True).column("path").to_pylist()
    return sorted(f"{path}/{unquote(str(name))}" for name in names)


def _newest_metadata(system: Any, path: str) -> str | None:
    """The newest metadata file of an Iceberg table: they are numbered."""
    from pyarrow import fs

    listed = system.get_file_info(fs.FileSelector(f"{path}/metadata"))
    found = [one for one in listed if one.base_name.endswith(".metadata.json")]
    return max(found, key=lambda one: (one.mtime_ns or 0, one.base_name)).path if found else None


def _iceberg(metadata: str) -> list[str]:
    if find_spec("pyiceberg") is None:
        raise UnreadableTable(f"{metadata} is of an Iceberg table; `pip install 'ottla[iceberg]'` brings what reads it")
    from pyiceberg.table import StaticTable

    files = [task.file for task in StaticTable.from_metadata(metadata).scan().plan_files()]
    return sorted(filesystem(one.file_path)[1] for one in files)
