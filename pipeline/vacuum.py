"""Files that are in a table's folder and not in the table: what killed tasks of Spark's file sink left behind."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from ottla.pipeline.lake import Lake
from ottla.pipeline.parquet_files import METADATA, committed
from ottla.pipeline.tables import BRONZE, SILVER


class Removed(NamedTuple):
    """The number of files, and their size together."""

    files: int
    bytes: int


def orphans(lake: Lake, table: str) -> list[Path]:
    """The Parquet files in a table's folder that Spark's sink has not committed."""
    folder = Path(lake.where(table))
    if not (folder / METADATA).is_dir():
        return []
    known = {str(Path(name)) for name in committed(str(folder))}
    return [file for file in sorted(folder.glob("*=*/*.parquet")) if str(file) not in known]


def vacuum(lake: Lake) -> dict[str, Removed]:
    """Remove them; only while nothing writes, see `Lake.writing`. Delta and Iceberg have their own."""
    found = {}
    for table in (*SILVER, *BRONZE):
        files = orphans(lake, table.name)
        found[table.name] = Removed(len(files), sum(file.stat().st_size for file in files))
        for file in files:
            file.unlink()
            file.with_name(f".{file.name}.crc").unlink(missing_ok=True)
    return {name: one for name, one in found.items() if one.files or Path(lake.where(name)).is_dir()}
