"""The folder of a topic: what lies where, who may change it, and how a batch gets into it exactly once.

A batch is written to ``_staging``, where no reader looks. Then the list of its files and of where they go is noted
(``_batches/pending.json``, renamed into place: from here on the batch counts), the files are renamed one by one, and
the note becomes ``_batches/N.json``. A crash before the note leaves nothing, and Spark does the batch again; a crash
after it is mended by renaming the rest, and when Spark does the batch again, it is passed over.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ottla.pipeline.whole_files import sync, write_json

FORMAT = "ottla topic lake"
VERSION = 1
BAD = "_bad"
BATCHES_KEPT = 1000
"""Notes of batches; older ones are removed, all but the numbers that Spark may ask for again."""

Step = Callable[[str], None]
"""Told before each step that a crash could come between; tests crash there."""


class LakeError(Exception):
    """The folder cannot be used so; the message says why and what to do."""


def no_step(name: str) -> None:
    """Do nothing at a step."""


class TopicFolder:
    """The folder of one topic.

    Args:
        path: of the folder; made when something is written.
        step: see `Step`.

    Raises:
        LakeError: it is no path of files, but e.g. ``s3://…``.
    """

    def __init__(self, path: str | Path, step: Step = no_step) -> None:
        if "://" in str(path):
            raise LakeError(f"{path} is no folder: a topic lake is written to a file system, a mounted one perhaps")
        self.path = Path(path).absolute()
        self.step = step
        self.staging = self.path / "_staging"
        self.batches = self.path / "_batches"
        self.checkpoint = self.path / "_checkpoint"
        self._pending = self.batches / "pending.json"
        self._about = self.path / "_lake.json"

    def about(self) -> dict[str, Any] | None:
        """Read the note of what the folder holds; None if it is no topic lake yet.

        Raises:
            LakeError: it is one of a later version, or the note cannot be read.
        """
        try:
            noted = json.loads(self._about.read_text("utf-8"))
        except FileNotFoundError:
            return None
        except ValueError as error:
            raise LakeError(f"{self._about} cannot be read: {error}") from None
        if not isinstance(noted, dict) or noted.get("format") != FORMAT:
            raise LakeError(f"{self._about} is not the note of a topic lake")
        if noted.get("version", 0) > VERSION:
            raise LakeError(
                f"{self.path} was written by a later version ({noted['version']}; this one knows {VERSION})"
            )
        return noted

    def check(self) -> None:
        """Raises `LakeError` where there is no topic lake; see also `about`."""
        if self.about() is None:
            raise LakeError(f"{self.path} is no topic lake: there is no _lake.json")

    def claim(self, **about: Any) -> None:
        """Note what the folder holds, at the first start; at later ones see that it is the same.

        Args:
            about: ``topic`` and the like; None is not known, and fits anything.

        Raises:
            LakeError: it holds something else, or files of others.
        """
        noted = self.about()
        if noted is None:
            if self.path.is_dir() and (others := sorted(one.name for one in self.path.iterdir() if one.name[0] != "_")):
                raise LakeError(f"{self.path} is not empty ({others[0]}): name a new folder")
            noted = {"format": FORMAT, "version": VERSION}
        for name, value in about.items():
            known = noted.get(name)
            if known is not None and value is not None and known != value:
                raise LakeError(f"{self.path} holds {name} {known!r}, not {value!r}: name another folder")
        self.path.mkdir(parents=True, exist_ok=True)
        write_json(self._about, noted | {name: value for name, value in about.items() if value is not None})

    def note(self, **about: Any) -> None:
        """Note something besides."""
        write_json(self._about, (self.about() or {}) | about)

    @contextmanager
    def only(self, who: str) -> Iterator[None]:
        """One process at a time: ``writer`` or ``compaction``.

        Raises:
            LakeError: there is one already.
        """
        self.path.mkdir(parents=True, exist_ok=True)
        with (self.path / f"_{who}.lock").open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise LakeError(f"another {who} is at work in {self.path}") from None
            yield

    @contextmanager
    def changing(self) -> Iterator[None]:
        """While files change places; waits for others. What a crash left undone is done first."""
        with (self.path / "_lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            self._finish()
            yield

    # Batches

    def committed(self, query: str) -> int:
        """The number of the last batch that is in, -1 if none is.

        Args:
            query: the id of the checkpoint; batches are numbered by it.

        Raises:
            LakeError: they were written by another checkpoint: to go on would write rows twice, or leave some out.
        """
        numbers = [int(one.stem) for one in self.batches.glob("*.json") if one.stem.isdigit()]
        if not numbers:
            return -1
        last = json.loads((self.batches / f"{max(numbers):010d}.json").read_text("utf-8"))
        if last["query"] != query:
            raise LakeError(
                f"{self.path} was written with another checkpoint than {self.checkpoint}: restore that, or begin in a "
                "new folder; rows would come twice otherwise"
            )
        return max(numbers)

    def new_staging(self, name: str) -> Path:
        """An empty place below ``_staging``."""
        place = self.staging / name
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir(parents=True)
        return place

    def commit(self, batch: int, query: str, staged: dict[str, Path], figures: dict[str, int]) -> None:
        """Move what was staged into place, all of it or, for who crashes before it is noted, nothing.

        Args:
            staged: folders with ``date=…/….parquet``, by where they go: ``""`` for rows, `BAD` for bad ones.
            figures: noted with it.
        """
        moves: list[list[str]] = []
        name = uuid.uuid4().hex[:8]
        for to, place in staged.items():
            for file in sorted(place.rglob("*.parquet")):
                target = Path(to) / file.parent.relative_to(place) / f"{batch:010d}-{len(moves):04d}-{name}.parquet"
                sync(file)
                moves.append([str(file.relative_to(self.path)), str(target)])
        self.step("staged")
        with self.changing():
            self.batches.mkdir(exist_ok=True)
            write_json(self._pending, {"batch": batch, "query": query, "moves": moves, **figures})
            self._finish()
        for place in staged.values():
            shutil.rmtree(place, ignore_errors=True)

    def _finish(self) -> None:
        """Do what the pending note says, if there is one; doing it twice changes nothing."""
        if not self._pending.exists():
            return
        self.step("noted")
        noted = json.loads(self._pending.read_text("utf-8"))
        folders = set()
        for source, target in noted["moves"]:
            old, new = self.path / source, self.path / target
            if old.exists():
                new.parent.mkdir(parents=True, exist_ok=True)
                os.rename(old, new)
                folders |= {new.parent, new.parent.parent}
                self.step("moved")
        for folder in folders:
            sync(folder)
        os.replace(self._pending, self.batches / f"{noted['batch']:010d}.json")
        sync(self.batches)
        self.step("committed")
        for old in sorted(self.batches.glob("[0-9]*.json"))[:-BATCHES_KEPT]:
            old.unlink()

    # Files

    def days(self, part: str = "") -> list[str]:
        """The names of the folders of days, ``date=…``, in order."""
        where = self.path / part
        return sorted(one.name for one in where.glob("date=*") if one.is_dir()) if where.is_dir() else []

    def files(self, part: str = "", day: str = "date=*") -> list[Path]:
        """The files of rows, in order."""
        return sorted((self.path / part).glob(f"{day}/*.parquet"))
