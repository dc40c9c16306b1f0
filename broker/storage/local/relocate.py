"""Moving logs between the directories of nodes, none of which is open.

What is to be done is written down first, to ``spread.json``, and each step can be done again: whatever interrupts it is
made good by beginning anew. No node starts in between. Logs are moved by renaming their directories, so it takes no
room and no time. A directory that gets a log has the largest epoch of all from then on: no log's epochs fall.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from ottla.broker.engine import Corrupt, EngineError
from ottla.broker.storage.local.files import Files, read_file, replace_file, sync_directory
from ottla.broker.storage.local.layout import FORMAT as DIRECTORY_FORMAT
from ottla.broker.storage.local.layout import Layout, decode_meta, decode_versioned, encode_catalog, encode_meta
from ottla.broker.storage.local.recovery import read_checkpoint
from ottla.protocol.stored.checkpoint import Checkpoint, LogState, encode_checkpoint
from ottla.protocol.stored.cluster_file import SPREAD_NAME

FORMAT: Final = 1
CATALOG_WITH_HOMES: Final = 2


class NotClean(EngineError):
    """A directory is not as an orderly stop leaves it."""


class Move(NamedTuple):
    """A log that goes from one directory to another; both relative to the one of all nodes."""

    name: str
    source: str
    target: str


class Relocation:
    """The logs of several nodes on their way to other homes.

    Args:
        data_dir: of all nodes; absolute.
        directories: of each node by its id, relative to that, also of nodes that have none yet. The first has
            ``data_dir`` itself, ".".
    """

    def __init__(self, files: Files, data_dir: str, directories: Mapping[int, str]) -> None:
        self._files = files
        self._root = Layout(data_dir)
        self._directories = directories
        self._plan = os.path.join(data_dir, SPREAD_NAME)

    @property
    def is_begun(self) -> bool:
        """Whether one was begun and not finished."""
        return self._exists(self._plan)

    def begin(self, homes: Mapping[str, Sequence[int]], moves: Sequence[Move]) -> None:
        """Write down what is to be done; nothing else is touched.

        Args:
            homes: of all partitions, by topic, as the catalog is to have them.
            moves: of logs, of which some may hold nothing and have no directory.

        Raises:
            NotClean: a node was not stopped in order, or has left something behind.
            EngineError, OSError: a directory cannot be read.
        """
        checkpoints = {one: self._clean(one) for one in self._directories.values()}
        states = {one: {state.name: state for state in found.logs} for one, found in checkpoints.items()}
        rows: list[dict[str, Any]] = []
        for move in moves:
            if (state := states[move.source].get(move.name)) is None:
                continue  # it holds nothing yet
            if self._is_there(move.target, move.name):
                where = self._layout(move.target).log_directory(move.name)
                raise NotClean(f"{where} is in the way: it is left over. Start the nodes once, which removes it")
            rows.append({**move._asdict(), "state": {name: getattr(state, name) for name in LogState.__slots__}})
        document = {
            "format": FORMAT,
            "cluster_id": self._meta(".")[0],
            "directories": {str(node_id): one for node_id, one in self._directories.items()},
            "epoch": max(found.epoch for found in checkpoints.values()),
            "homes": {name: list(one) for name, one in homes.items()},
            "moves": rows,
        }
        replace_file(self._files, self._plan, json.dumps(document).encode())

    def finish(self) -> int:
        """Do what was written down, whatever of it is done already; gives how many logs were moved.

        Raises:
            Corrupt: something is missing, or what was written down cannot be read.
            EngineError, OSError: it could not be done; it can be finished later.
        """
        document = self._written_down()
        moves = [Move(row["name"], row["source"], row["target"]) for row in document["moves"]]
        states = {row["name"]: _state(row["state"]) for row in document["moves"]}
        self._store_homes(document["homes"])
        for node_id, one in document["directories"].items():
            self._make(int(node_id), one, document["cluster_id"])
        for move in moves:
            self._rename(move)
        for one in dict.fromkeys(place for move in moves for place in (move.source, move.target)):
            sync_directory(self._files, self._layout(one).logs)
        for one in document["directories"].values():
            self._store_rows(one, moves, states, document["epoch"])
        self._files.remove(self._plan)
        sync_directory(self._files, self._root.data_dir)
        return len(moves)

    def _exists(self, path: str) -> bool:
        try:
            return os.path.basename(path) in self._files.list(os.path.dirname(path))
        except FileNotFoundError:
            return False

    def _written_down(self) -> dict[str, Any]:
        data = read_file(self._files, self._plan)
        try:
            document: dict[str, Any] = json.loads(data or b"")
            if document["format"] != FORMAT:
                raise ValueError(f"format {document['format']}, this version reads {FORMAT}")
        except (ValueError, KeyError, TypeError) as error:
            raise Corrupt(f"{self._plan} cannot be read: {error}") from None
        return document

    def _layout(self, one: str) -> Layout:
        return Layout(os.path.normpath(os.path.join(self._root.data_dir, one)))

    def _meta(self, one: str) -> tuple[str, int, int]:
        path = self._layout(one).meta
        data = read_file(self._files, path)
        if data is None:
            raise Corrupt(f"{path} is missing")
        return decode_meta(data, path)

    def _clean(self, one: str) -> Checkpoint:
        """The checkpoint of a directory that was closed in order; an empty one of a node that was never started."""
        layout = self._layout(one)
        if not self._exists(layout.meta) or not self._exists(layout.logs):
            return Checkpoint()
        checkpoint = read_checkpoint(self._files, layout)
        if self._meta(one)[2] != DIRECTORY_FORMAT or not (checkpoint.clean or checkpoint.epoch < 0):
            raise NotClean(f"{layout.data_dir} was not closed in order: start the nodes once, and stop them")
        return checkpoint

    def _is_there(self, one: str, name: str) -> bool:
        layout = self._layout(one)
        return self._exists(layout.logs) and self._exists(layout.log_directory(name))

    def _store_homes(self, homes: Mapping[str, Sequence[int]]) -> None:
        """First of all: an earlier release, which knows nothing of this, must not start in between."""
        path = self._root.catalog
        data = read_file(self._files, path)
        state, version = (None, 0) if data is None else decode_versioned(data, path)
        if state is None:
            return
        rows = {name: {**row, "homes": list(homes[name])} for name, row in state["topics"].items()}
        if rows != state["topics"]:
            changed = {**state, "format": CATALOG_WITH_HOMES, "topics": rows}
            replace_file(self._files, path, encode_catalog(changed, version + 1))

    def _make(self, node_id: int, one: str, cluster_id: str) -> None:
        """A directory as that of a node that was started and stopped."""
        if one == ".":
            return
        layout = self._layout(one)
        for path in (os.path.dirname(layout.data_dir), layout.data_dir, layout.logs, layout.journal):
            if not self._exists(path):
                self._files.make_directory(path)
                sync_directory(self._files, os.path.dirname(path))
        if not self._exists(layout.meta):
            replace_file(self._files, layout.meta, encode_meta(cluster_id, node_id))

    def _rename(self, move: Move) -> None:
        source = self._layout(move.source).log_directory(move.name)
        target = self._layout(move.target).log_directory(move.name)
        if self._exists(source):
            self._files.rename(source, target)
        elif not self._exists(target):
            raise Corrupt(f"{source} is missing, and was to become {target}")

    def _store_rows(self, one: str, moves: Sequence[Move], states: Mapping[str, LogState], epoch: int) -> None:
        """Let a checkpoint speak of what is in its directory, and of nothing else."""
        layout = self._layout(one)
        checkpoint = self._checkpoint(layout)
        gone = {move.name for move in moves if move.source == one}
        checkpoint.logs = [state for state in checkpoint.logs if state.name not in gone]
        known = {state.name for state in checkpoint.logs}
        for move in moves:
            if move.target == one and move.name not in known:
                state = states[move.name]
                state.log_id = checkpoint.next_log_id
                checkpoint.next_log_id += 1
                checkpoint.logs.append(state)
        checkpoint.epoch, checkpoint.clean = max(checkpoint.epoch, epoch), True
        replace_file(self._files, layout.checkpoint, encode_checkpoint(checkpoint))

    def _checkpoint(self, layout: Layout) -> Checkpoint:
        """As it is: logs lie there already of which an own one of a new node does not speak."""
        if not self._exists(layout.checkpoint):
            return Checkpoint()
        return read_checkpoint(self._files, layout)


def _state(row: Mapping[str, Any]) -> LogState:
    state = LogState(**row)
    state.epochs = [(int(epoch), int(start)) for epoch, start in state.epochs]
    return state
