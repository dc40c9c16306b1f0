"""The folder of a lake: places of tables, notes about them in ``LAKE/lake.json``, and locks for writers.

``LAKE/<layer>/<table>`` is what streams wrote (and gold), ``_backfill`` in it what backfills wrote, always Parquet,
``LAKE/checkpoints/<query>`` how far streams are. The two have no row in common: a stream begins where the backfill
before it ended, and a backfill ends where the stream began.
"""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ottla.pipeline.parquet_files import BACKFILL, METADATA, committed, filesystem
from ottla.pipeline.tables import TABLES, VERSION, Table
from ottla.pipeline.whole_files import write_json

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ABOUT = "lake.json"
LOCK = ".writer"
GOLD_LOCK = ".builder"
_PATIENCE_S = 30.0
_TRIES = 25
_TRY_EVERY_S = 0.01
"""Tries for a lock, which a process that only checks `is_building` holds for a moment."""


class LakeError(Exception):
    """The lake cannot be used so; the message says why and what to do."""


class Lake:
    """The tables below one folder.

    Args:
        path: of a folder that every machine of the cluster has at this path.
    """

    def __init__(self, path: str) -> None:
        self.path = path.rstrip("/") or "/"

    def where(self, table: str) -> str:
        """The folder of a table."""
        return f"{self.path}/{TABLES[table].layer}/{table}"

    def backfilled(self, table: str) -> str:
        """The folder of what backfills wrote of a table."""
        return f"{self.where(table)}/{BACKFILL}"

    def checkpoint(self, query: str) -> str:
        """The folder in which a streaming query keeps how far it is."""
        return f"{self.path}/checkpoints/{query}"

    @property
    def logs(self) -> Path:
        """The folder of Spark's logs."""
        return Path(self.path) / "logs"

    # what is known of it

    def about(self) -> dict[str, Any] | None:
        """Read ``lake.json``; None if there is none yet.

        Raises:
            LakeError: it cannot be read, or is of a later version than this program knows.
        """
        system, folder = filesystem(self.path)
        path = f"{self.path}/{ABOUT}"
        try:
            about = json.loads(system.open_input_stream(f"{folder}/{ABOUT}").read())
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            raise LakeError(f"{path} cannot be read: {error}") from None
        if not isinstance(about, dict) or not isinstance(about.get("version"), int):
            raise LakeError(f"{path} is not the note of a lake of ottla's")
        if about["version"] > VERSION:
            raise LakeError(
                f"The lake {self.path} has tables of version {about['version']}, and this ottla knows version "
                f"{VERSION}: use the ottla that wrote it, or a later one."
            )
        return about

    def open(self, *, format: str, cluster_id: str | None) -> dict[str, Any]:
        """Make the lake, or see that it is the one that is meant, and note what has changed in its tables.

        Only while `writing`, as `note`.

        Args:
            format: of silver and bronze tables, see `ottla.pipeline.config.FORMATS`.
            cluster_id: what is to be written to it; None is not known.

        Raises:
            LakeError: it is of another format or cluster, or of a later version.
        """
        about = self.about()
        now = datetime.now(UTC).isoformat(timespec="seconds")
        if about is None:
            if not cluster_id:
                raise LakeError("The cluster says no id: name it with --cluster-id.")
            about = {"version": VERSION, "format": format, "cluster_id": cluster_id, "created_at": now, "tables": {}}
        if about["format"] != format:
            raise LakeError(
                f"The lake {self.path} is of format {about['format']}, not {format}: "
                f"say --format {about['format']}, or name another --lake."
            )
        if cluster_id and about["cluster_id"] != cluster_id:
            raise LakeError(
                f"The lake {self.path} is of cluster {about['cluster_id']!r}, and this is {cluster_id!r}: name another "
                "--lake. (A cluster that was made anew has a new id, and its offsets begin anew.)"
            )
        for table in TABLES.values():
            _note_schema(about["tables"], table, now)
        about["version"] = VERSION
        if about != self.about():
            self.write(ABOUT, about)
        return about

    def note(self, part: str, **values: Any) -> None:
        """Add to an object of ``lake.json``; only while `writing`."""
        about = self.about() or {}
        about.setdefault(part, {}).update(values)
        self.write(ABOUT, about)

    def noted(self, part: str) -> dict[str, Any]:
        """An object of ``lake.json``; empty if there is none."""
        found: dict[str, Any] = (self.about() or {}).get(part, {})
        return found

    def write(self, name: str, value: Any) -> None:
        """A JSON file of the lake, whole or not at all."""
        path = Path(self.path) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        write_json(path, value)

    # who writes

    def writing(self, what: str) -> AbstractContextManager[Callable[[int], None]]:
        """One process at a time may write silver tables. Gives what to call with the id of Spark's JVM.

        The JVM outlives a driver that was killed by a moment, and may be about to finish a batch: who comes next waits
        until it is gone, so that two never work on one checkpoint.

        Raises:
            LakeError: somebody is at it.
        """
        return self._alone(LOCK, what)

    def building(self) -> AbstractContextManager[Callable[[int], None]]:
        """One process at a time may build gold tables, also while silver ones are written. As `writing`."""
        return self._alone(GOLD_LOCK, "gold")

    def is_building(self) -> bool:
        """Tell whether a process builds gold tables now: what is read meanwhile may lack rows."""
        try:
            with (Path(self.path) / GOLD_LOCK).open() as file:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except FileNotFoundError:
            return False
        except BlockingIOError:
            return True
        return False

    @contextmanager
    def _alone(self, lock: str, what: str) -> Iterator[Callable[[int], None]]:
        path = Path(self.path) / lock
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            file = path.open("a+", encoding="utf-8")
        except OSError as error:
            raise LakeError(f"The lake {self.path} cannot be written: {error.strerror}") from None
        with file:
            _lock(file, self.path)
            file.seek(0)
            _await_end(file.read(), self.path)

            def note(jvm_pid: int | None = None) -> None:
                about = {"what": what, "pid": os.getpid(), "jvm_pid": jvm_pid}
                if jvm_pid is not None:
                    about["jvm_began"] = _began(jvm_pid)
                file.seek(0)
                file.truncate()
                file.write(json.dumps(about))
                file.flush()

            note()
            yield note

    # reading

    def files(self, table: str) -> list[str]:
        """The paths of the Parquet files that make up a table: no orphans of tasks that were killed."""
        return committed(self.where(table))

    def read(self, spark: SparkSession, table: str) -> DataFrame:
        """A table as it is now, with exactly its schema; empty if it was never written. What files lack is NULL."""
        found = [self._read(spark, table, folder) for folder in (self.where(table), self.backfilled(table))]
        parts = [one for one in found if one is not None]
        if not parts:
            return spark.createDataFrame([], TABLES[table].ddl())
        return parts[0] if len(parts) == 1 else parts[0].unionAll(parts[1])

    def _read(self, spark: SparkSession, table: str, folder: str) -> DataFrame | None:
        place, schema = Path(folder), TABLES[table].ddl()
        if (place / "_delta_log").exists() or (place / "metadata").is_dir():
            names = [name for name in committed(folder) if f"/{BACKFILL}/" not in name]
            # Iceberg names its folders by the values too, but below data/.
            base = f"{folder}/data" if (place / "metadata").is_dir() else folder
            return spark.read.schema(schema).option("basePath", base).parquet(*names) if names else None
        sunk = (place / METADATA).is_dir()  # Spark's file sink has written there, if only batches without rows
        # A folder with nothing but another table's in it is no table yet.
        return spark.read.schema(schema).parquet(folder) if any(place.glob("[!_.]*")) or sunk else None


def _note_schema(tables: dict[str, Any], table: Table, now: str) -> None:
    """Note the columns of a table, and since when it has them; older files have NULL there."""
    columns = {one.name: one.kind for one in table.all_columns}
    known = tables.setdefault(table.name, {"version": VERSION, "columns": columns, "history": []})
    if not known["history"]:
        known["history"].append({"version": VERSION, "at": now, "columns": list(columns)})
    elif known["columns"] != columns:
        added = [name for name in columns if name not in known["columns"]]
        removed = [name for name in known["columns"] if name not in columns]
        known["history"].append({"version": VERSION, "at": now, "added": added, "removed": removed})
    known.update(version=VERSION, columns=columns)


def _lock(file: Any, lake: str) -> None:
    for _ in range(_TRIES):
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            time.sleep(_TRY_EVERY_S)
        else:
            return
    file.seek(0)
    try:
        holder = json.loads(file.read())
        who = f"`ottla pipeline {holder['what']}` (process {holder['pid']})"
    except (ValueError, KeyError):
        who = "another process"
    raise LakeError(f"{who} writes to the lake {lake}: stop it first. Reading needs no stop.")


def _await_end(noted: str, lake: str) -> None:
    """Wait until the JVM that the last one noted is gone."""
    try:
        about = json.loads(noted)
        pid, began = int(about["jvm_pid"]), about.get("jvm_began")
    except (ValueError, KeyError, TypeError, AttributeError):
        return
    deadline = time.monotonic() + _PATIENCE_S
    # Numbers of processes come again: another Java that began at another time is none of ours.
    while _is_java(pid) and began in (None, _began(pid)):
        if time.monotonic() > deadline:
            raise LakeError(f"Java of an earlier run (process {pid}) still writes to the lake {lake}: end it first.")
        time.sleep(0.05)


def _began(pid: int) -> str | None:
    """The start time of a process, in the kernel's ticks since its boot; None if it is gone."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot} {Path(f'/proc/{pid}/stat').read_text().rpartition(')')[2].split()[19]}"
    except (OSError, IndexError):
        return None


def _is_java(pid: int) -> bool:
    try:
        return b"java" in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[0]
    except OSError:
        return False
