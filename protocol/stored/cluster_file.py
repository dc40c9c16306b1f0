"""The nodes of one data directory, as their supervisor writes them to ``cluster.json``; and where each has its own.

The file is replaced as a whole at every change. Whoever reads it may find one that is a moment old, never half of one.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from ottla.protocol.stored.files import LOCK_NAME

CLUSTER_NAME: Final = "cluster.json"
SPREAD_NAME: Final = "spread.json"
"""What moves logs between nodes has written down, and has not finished: nothing may start meanwhile."""
NODES_NAME: Final = "nodes"
"""The folder with the directories of all nodes but the first. Its ``LOCK`` is that of the supervisor."""
FORMAT: Final = 1

STARTING: Final = "starting"
UP: Final = "up"
DRAINING: Final = "draining"
DOWN: Final = "down"
STATES: Final = (STARTING, UP, DRAINING, DOWN)


class BadClusterFile(Exception):
    """The file is none that this version reads; the message says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeEntry:
    """A node.

    Attributes:
        directory: relative to that of the file.
        state: one of `STATES`. pid: of its process; 0 while there is none.
        epoch: the leader epoch of its engine in its last life that came up; -1 before that.
        why: says why it does not start, or how it ended; empty while it is up, unless it does not answer.
        endpoints: host and port by the name of a listener; an empty host is the one that a client reached. They stay
            while the node is down.
        address: ``host:port`` at which this machine reaches its first listener; empty before it came up.
        http: host and port of its console; None if it has none.
        since_ms: it is in this state since then (Unix ms).
    """

    node_id: int
    directory: str = "."
    state: str = STARTING
    pid: int = 0
    epoch: int = -1
    why: str = ""
    endpoints: Mapping[str, tuple[str, int]] = field(default_factory=dict)
    address: str = ""
    http: tuple[str, int] | None = None
    since_ms: int = 0

    @property
    def is_up(self) -> bool:
        """Whether it serves clients, if only to say goodbye."""
        return self.state in (UP, DRAINING)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterFile:
    """The whole document.

    Attributes:
        supervisor_pid: 0 once it has ended in order.
        nodes: by id, in ascending order.
    """

    cluster_id: str
    supervisor_pid: int
    nodes: Mapping[int, NodeEntry]

    def with_node(self, node: NodeEntry) -> ClusterFile:
        """The same with another entry for a node."""
        return replace(self, nodes={**self.nodes, node.node_id: node})


def directory_of(node_id: int, first_id: int) -> str:
    """The directory of a node, relative to the one of all: the first has that itself, so that one broker can grow."""
    return "." if node_id == first_id else f"{NODES_NAME}/{node_id}"


def node_directories(data_dir: Path) -> dict[int, Path]:
    """The directories of nodes below a data directory, by node id, without the first one's; none for one broker."""
    below = data_dir / NODES_NAME
    found = [one for one in below.iterdir() if one.name.isdecimal() and one.is_dir()] if below.is_dir() else []
    return {int(one.name): one for one in sorted(found, key=lambda one: int(one.name))}


def all_directories(data_dir: Path) -> list[Path]:
    """A data directory and those of the other nodes below it."""
    return [data_dir, *node_directories(data_dir).values()]


def whole_of(data_dir: Path) -> Path | None:
    """The data directory of all nodes, if this is the own one of a node below it: it is no whole one by itself."""
    below = data_dir.absolute().parent
    is_part = data_dir.name.isdecimal() and below.name == NODES_NAME and (below / LOCK_NAME).exists()
    return below.parent if is_part else None


def encode_cluster(cluster: ClusterFile) -> bytes:
    document = {
        "format": FORMAT,
        "cluster_id": cluster.cluster_id,
        "supervisor": {"pid": cluster.supervisor_pid},
        "nodes": [asdict(node) for node in cluster.nodes.values()],
    }
    return json.dumps(document, indent=1, ensure_ascii=False).encode() + b"\n"


def decode_cluster(data: bytes, path: str) -> ClusterFile:
    """Raises `BadClusterFile`, which names the path. What later versions add to an entry is left out."""
    try:
        document = json.loads(data)
        if document["format"] != FORMAT:
            raise BadClusterFile(f"{path} has format {document['format']}, this version reads format {FORMAT}")
        nodes = sorted(map(_node, document["nodes"]), key=lambda node: node.node_id)
        return ClusterFile(
            cluster_id=str(document["cluster_id"]),
            supervisor_pid=int(document["supervisor"]["pid"]),
            nodes={node.node_id: node for node in nodes},
        )
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise BadClusterFile(f"{path} cannot be read: {error!r}") from None


def _node(row: Mapping[str, Any]) -> NodeEntry:
    if row["state"] not in STATES:
        raise ValueError(f"{row['state']!r} is no state of a node")
    return NodeEntry(
        node_id=int(row["node_id"]),
        directory=str(row["directory"]),
        state=row["state"],
        pid=int(row["pid"]),
        epoch=int(row["epoch"]),
        why=str(row["why"]),
        endpoints={str(name): (str(host), int(port)) for name, (host, port) in row["endpoints"].items()},
        address=str(row["address"]),
        http=None if row["http"] is None else (str(row["http"][0]), int(row["http"][1])),
        since_ms=int(row["since_ms"]),
    )


def read_cluster(data_dir: Path) -> ClusterFile | None:
    """The nodes of a data directory; None if there is no file: it is, or was, a single broker's.

    Raises:
        BadClusterFile: it cannot be understood.
        OSError: it cannot be read.
    """
    path = data_dir / CLUSTER_NAME
    try:
        return decode_cluster(path.read_bytes(), str(path))
    except FileNotFoundError:
        return None
