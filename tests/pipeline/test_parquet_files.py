"""Which files of a folder are the table: the file sink's, Delta's and Iceberg's, and no orphans."""

import json
import shutil
from datetime import UTC, date, datetime
from pathlib import Path
from urllib.parse import quote

import pyarrow as pa
import pytest

from ottla.pipeline.parquet_files import UnreadableTable, committed, dataset, filesystem
from ottla.pipeline.tables import LOG_END_SAMPLES, Table
from tests.pipeline import parquet

WHEN = datetime(2026, 11, 22, 9, 30, 0, 123456, tzinfo=UTC)
TABLE: Table = LOG_END_SAMPLES


def sample(topic: str) -> dict[str, object]:
    return {"cluster_id": "c", "sample_ts": WHEN, "topic": topic, "partition": 0, "log_end_offset": 7}


def rows(*topics: str) -> pa.Table:
    return pa.Table.from_pylist([sample(one) | {"log_date": WHEN.date()} for one in topics], TABLE.arrow())


def put(folder: Path, name: str, *topics: str, **options: object) -> Path:
    return parquet.put(folder, TABLE.name, map(sample, topics), WHEN.date(), name, **options)


def note(folder: Path, batch: str, *files: Path, action: str = "add") -> None:
    """A file of the sink's log, as Spark writes it."""
    log = folder / "_spark_metadata"
    log.mkdir(exist_ok=True)
    entry = {"size": 1, "isDir": False, "modificationTime": 1, "blockReplication": 1, "blockSize": 1, "action": action}
    lines = [json.dumps({"path": "file://" + quote(str(file)), **entry}) for file in files]
    (log / batch).write_text("\n".join(["v1", *lines]))
    (log / f".{batch}.crc").write_bytes(b"crc")


def topics(folder: Path) -> list[str]:
    return sorted(dataset(str(folder), TABLE).to_table(columns=["topic"])["topic"].to_pylist())


def test_a_folder_that_is_not_there_is_a_table_without_rows(tmp_path: Path) -> None:
    assert committed(str(tmp_path / "none")) == []
    assert dataset(str(tmp_path / "none"), TABLE).to_table().schema == TABLE.arrow()


def test_plain_folders_have_no_hidden_files(tmp_path: Path) -> None:
    put(tmp_path, "part-0", "a")
    put(tmp_path, ".part-1", "hidden")
    put(tmp_path, "_temporary/0/part-2", "under way")
    (tmp_path / "_SUCCESS").touch()
    assert topics(tmp_path) == ["a"]


def test_orphans_of_the_file_sink_are_not_read(tmp_path: Path) -> None:
    kept, late = put(tmp_path, "part-0", "a"), put(tmp_path, "part-1", "b")
    put(tmp_path, "part-2", "orphan")
    note(tmp_path, "0", kept)
    note(tmp_path, "1", late)
    assert topics(tmp_path) == ["a", "b"]


def test_a_compact_file_stands_for_those_before_it(tmp_path: Path) -> None:
    files = [put(tmp_path, f"part-{at}", str(at)) for at in range(4)]
    note(tmp_path, "8", put(tmp_path, "part-8", "counted in 9"))
    note(tmp_path, "9.compact", *files[:3])
    note(tmp_path, "10", files[3])
    (tmp_path / "_spark_metadata" / "11.tmp").write_text("half")
    assert topics(tmp_path) == ["0", "1", "2", "3"]


def test_what_the_sink_deleted_is_gone(tmp_path: Path) -> None:
    one, other = put(tmp_path, "part-0", "a"), put(tmp_path, "part-1", "b")
    note(tmp_path, "0", one, other)
    note(tmp_path, "1", one, action="delete")
    assert topics(tmp_path) == ["b"]


def test_a_lake_may_be_moved(tmp_path: Path) -> None:
    old = tmp_path / "old place=1" / "table"
    note(old, "0", put(old, "part-0 ü", "a"))
    shutil.move(old, tmp_path / "table")
    assert topics(tmp_path / "table") == ["a"]
    assert topics(Path((tmp_path / "table").as_uri().replace("file://", ""))) == ["a"]


@pytest.mark.parametrize("line", ["{", '{"size": 1}', "[]"])
def test_a_log_that_cannot_be_read_is_said(tmp_path: Path, line: str) -> None:
    note(tmp_path, "0", put(tmp_path, "part-0", "a"))
    (tmp_path / "_spark_metadata" / "1").write_text(f"v1\n{line}")
    with pytest.raises(UnreadableTable, match="_spark_metadata/1 cannot be read"):
        committed(str(tmp_path))


def test_types_are_the_tables_whatever_the_file_says(tmp_path: Path) -> None:
    """Spark writes INT96 timestamps; files that are older lack columns; the day is in the folder's name."""
    put(tmp_path, "part-0", "a", use_deprecated_int96_timestamps=True)
    (row,) = dataset(str(tmp_path), TABLE).to_table().to_pylist()
    assert row["sample_ts"] == WHEN and row["log_date"] == date(2026, 11, 22)
    without = {one.name for one in TABLE.columns} - {"topic"}
    parquet.put(tmp_path, TABLE.name, [sample("old")], WHEN.date(), "part-1", without)
    table = dataset(str(tmp_path), TABLE).to_table()
    assert table.schema == TABLE.arrow()
    assert {one["topic"]: one["partition"] for one in table.to_pylist()} == {"a": 0, "old": None}


def test_days_are_chosen_by_folders(tmp_path: Path) -> None:
    import pyarrow.compute as pc

    put(tmp_path, "part-0", "a")
    broken = tmp_path / "log_date=2026-11-21" / "part-0.parquet"
    broken.parent.mkdir()
    broken.write_bytes(b"never opened")
    found = dataset(str(tmp_path), TABLE).to_table(filter=pc.field("log_date") >= date(2026, 11, 22))
    assert found["topic"].to_pylist() == ["a"]


def test_earlier_versions_of_a_delta_table_do_not_count(tmp_path: Path) -> None:
    deltalake = pytest.importorskip("deltalake", reason="deltalake is not installed: pip install 'ottla[delta]'")
    folder = str(tmp_path / "table")
    deltalake.write_deltalake(folder, rows("old"), partition_by=["log_date"])
    deltalake.write_deltalake(folder, rows("a", "b"), partition_by=["log_date"], mode="overwrite")
    deltalake.write_deltalake(folder, rows("c"), mode="append")
    assert len(list(Path(folder).rglob("*.parquet"))) == 3
    assert topics(Path(folder)) == ["a", "b", "c"]
    assert dataset(folder, TABLE).to_table()["log_date"].to_pylist() == [date(2026, 11, 22)] * 3


def test_the_newest_snapshot_of_an_iceberg_table_counts(tmp_path: Path) -> None:
    pytest.importorskip("pyiceberg", reason="pyiceberg is not installed: pip install 'ottla[iceberg]'")
    from pyiceberg.catalog.sql import SqlCatalog

    catalog = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=tmp_path.as_uri())
    catalog.create_namespace("silver")
    table = catalog.create_table("silver.t", schema=rows().schema, location=(tmp_path / "table").as_uri())
    table.append(rows("old"))
    table.overwrite(rows("a", "b"))
    table.append(rows("c"))
    assert topics(tmp_path / "table") == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("there", "module", "extra"), [("_delta_log", "deltalake", "delta"), ("metadata", "pyiceberg", "iceberg")]
)
def test_packages_that_are_missing_are_named(
    there: str, module: str, extra: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / there).mkdir()
    (tmp_path / there / "v1.metadata.json").write_text("{}")
    monkeypatch.setattr("ottla.pipeline.parquet_files.find_spec", lambda name: None if name == module else object())
    with pytest.raises(UnreadableTable, match=rf"pip install 'ottla\[{extra}\]'"):
        committed(str(tmp_path))


def test_addresses(tmp_path: Path) -> None:
    assert filesystem("file:///a%20b/")[1] == "/a b"
    assert filesystem(str(tmp_path) + "/")[1] == str(tmp_path)
    assert filesystem("/")[1] == "/"
    with pytest.raises(UnreadableTable, match="gopher"):
        filesystem("gopher://x/y")
