"""Tables of a lake for the report: few columns, the days that matter, batch by batch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import date, datetime
from typing import TYPE_CHECKING, Any

from ottla.pipeline.lake import Lake, LakeError
from ottla.pipeline.parquet_files import UnreadableTable, committed, dataset, filesystem
from ottla.pipeline.tables import GOLD, SILVER, TABLES

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.dataset as ds

Days = tuple[date, date]


_AHEAD = {"batch_readahead": 2, "fragment_readahead": 1}
"""Memory holds what is read ahead: by default five times as much, and not faster."""


class NothingToReport(Exception):
    """There is nothing to make a report of; the message says what is missing and which command makes it."""


class Tables:
    """The tables of a lake, read only.

    Args:
        lake: the folder, or its address.
        group: only rows of this group, where rows have one.

    Raises:
        NothingToReport: there is no lake, it is of a later version, or it has no gold tables.
    """

    def __init__(self, lake: str, group: str | None = None) -> None:
        from pyarrow import fs

        self._lake = Lake(lake)
        self.lake = self._lake.path
        self.group = group
        try:
            system, path = filesystem(self.lake)
            if system.get_file_info(path).type != fs.FileType.Directory:
                raise NothingToReport(f"there is no lake at {self.lake}; {_build(self.lake)}")
            self.cluster_id: str | None = (self._lake.about() or {}).get("cluster_id")
        except (UnreadableTable, LakeError) as error:
            raise NothingToReport(str(error)) from error
        if not any(self.has(table.name) for table in GOLD):
            if any(self.has(table.name) for table in SILVER):
                raise NothingToReport(
                    f"the lake {self.lake} has no gold tables yet; `ottla pipeline gold --lake {self.lake}` builds them"
                )
            raise NothingToReport(f"the lake {self.lake} is empty; {_build(self.lake)}")

    def has(self, table: str) -> bool:
        """Tell whether the table has files at all."""
        return bool(committed(self._lake.where(table)))

    def batches(
        self, table: str, columns: list[str], *, days: Days | None = None, where: pc.Expression | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Rows of a table, some at a time.

        Args:
            days: the first and the last day of the partition column.
            where: which rows besides.
        """
        yield from self._scanner(table, columns, days, where).to_batches()

    def lines(self, table: str, columns: Sequence[str], **options: Any) -> Iterator[Any]:
        """The values of some columns, row by row; see `batches`."""
        for batch in self.batches(table, [*columns], **options):
            yield from zip(*(batch[name].to_pylist() for name in columns), strict=True)

    def count(self, table: str, *, days: Days | None = None, where: pc.Expression | None = None) -> int:
        """Count the rows that `batches` would give; from the footers alone where that suffices."""
        return int(self._scanner(table, [], days, where).count_rows())

    def aggregate(
        self,
        table: str,
        read: list[str],
        columns: dict[str, pc.Expression],
        keys: list[str],
        figures: list[tuple[str, str]],
        *,
        days: Days | None = None,
        where: pc.Expression | None = None,
    ) -> Iterator[Any]:
        """Rows by keys, as they are read: memory holds the result and a little, however many rows there are.

        Args:
            read: the columns that are needed, for ``where`` as well.
            columns: what is made of them, by the names that the others use.
            keys: of ``columns``; they come first in what is given.
            figures: columns and Arrow's functions over them, such as ``hash_max``; in this order after the keys.
        """
        from pyarrow.acero import (
            AggregateNodeOptions,
            Declaration,
            FilterNodeOptions,
            ProjectNodeOptions,
            ScanNodeOptions,
        )

        rows, where = self._rows(table, days, where)
        read = sorted({*read, "group_id", TABLES[table].partition_column})
        steps = [Declaration("scan", ScanNodeOptions(rows, columns=read, filter=where, **_AHEAD))]
        if where is not None:
            # The scan leaves out what it need not read; which rows count is seen here.
            steps.append(Declaration("filter", FilterNodeOptions(where)))
        names = list(columns)
        steps.append(Declaration("project", ProjectNodeOptions([columns[name] for name in names], names)))
        over = [(name, how, None, name) if name else ([], how, None, how) for name, how in figures]
        steps.append(Declaration("aggregate", AggregateNodeOptions(over, keys=keys)))
        found = Declaration.from_sequence(steps).to_table()
        yield from zip(*(found[name].to_pylist() for name in [*keys, *(one[3] for one in over)]), strict=True)

    def _scanner(self, table: str, columns: list[str], days: Days | None, where: pc.Expression | None) -> Any:
        rows, where = self._rows(table, days, where)
        return rows.scanner(columns=columns, filter=where, **_AHEAD)

    def _rows(self, table: str, days: Days | None, where: pc.Expression | None) -> tuple[ds.Dataset, Any]:
        """A table, and which of its rows are wanted."""
        import pyarrow.compute as pc

        declared = TABLES[table]
        if self.group is not None and any(column.name == "group_id" for column in declared.columns):
            mine = pc.field("group_id") == self.group
            where = mine if where is None else where & mine
        if days is not None:
            day = pc.field(declared.partition_column)
            within = (day >= days[0]) & (day <= days[1])
            where = within if where is None else within & where
        return dataset(self._lake.where(table), declared), where

    def days(self, table: str) -> list[date]:
        """The days that a table has rows of, from the names of its folders."""
        key = f"/{TABLES[table].partition_column}="
        found = set()
        for name in committed(self._lake.where(table)):
            value = name.partition(key)[2].partition("/")[0]
            try:
                found.add(date.fromisoformat(value))
            except ValueError:
                continue  # rows of no day, or a format that has no folders
        return sorted(found)


def within(column: str, since: datetime | None, until: datetime | None) -> pc.Expression:
    """The filter for times from ``since`` to before ``until``; None is no bound."""
    import pyarrow.compute as pc

    where = pc.scalar(True)
    if since is not None:
        where = where & (pc.field(column) >= since)
    if until is not None:
        where = where & (pc.field(column) < until)
    return where


def _build(lake: str) -> str:
    return (
        f"`ottla pipeline backfill --bootstrap-server HOST:PORT --lake {lake}` reads a cluster into it "
        f"(--log-dir DIR a directory of logs), and `ottla pipeline gold --lake {lake}` builds the tables"
    )
