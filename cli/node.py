"""A node of `ottla serve --nodes N`: what is its own of the settings that all share, and what it tells its supervisor.

Its standard output is a line of JSON for the supervisor, and the end of its standard input says that the supervisor is
gone.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from select import select
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol
from uuid import uuid4

from ottla.broker.endpoints import BETWEEN_NODES, Endpoint
from ottla.broker.settings import BadSetting, Settings
from ottla.cli.output import count_of
from ottla.cli.supervise import LOOK_MS
from ottla.cli.taken import tell_taken
from ottla.protocol.stored.cluster_file import CLUSTER_NAME, UP, BadClusterFile, NodeEntry, directory_of, read_cluster

if TYPE_CHECKING:
    from ottla.broker.app import Broker
    from ottla.broker.engine import Catalog, Engine
    from ottla.broker.logger import Logger

MOST_NODES = 100


class Node(NamedTuple):
    """One of several nodes.

    Attributes:
        place: 0 for the first; ports are counted from there.
        shared: the directory of all; in memory, of what all share.
        in_memory: whether it keeps its logs there.
    """

    node_id: int
    place: int
    shared: Path
    in_memory: bool

    @property
    def directory(self) -> Path | None:
        """Its own directory; None if it keeps nothing on disk."""
        return None if self.in_memory else self.shared / directory_of(self.node_id, self.node_id - self.place)

    def entry(self, node_id: int | None = None) -> NodeEntry:
        """What its supervisor remembers of its last life, or of another node."""
        wanted = self.node_id if node_id is None else node_id
        try:
            cluster = read_cluster(self.shared)
        except (BadClusterFile, OSError):
            cluster = None
        return cluster.nodes[wanted] if cluster and wanted in cluster.nodes else NodeEntry(node_id=wanted)

    def why_down(self, node_id: int) -> str:
        """The reason why another node is down, as the supervisor has it."""
        return self.entry(node_id).why

    def settings(self, settings: Settings) -> Settings:
        """Those that all share, with what is this node's own: its id, the port of HTTP, files that it alone writes."""
        return replace(
            settings,
            node_id=self.node_id,
            ottla_http_listen=self._http(settings.ottla_http_listen),
            ottla_recorder_file=_numbered(settings.ottla_recorder_file, self.node_id),
            ottla_audit_file=_numbered(settings.ottla_audit_file, self.node_id),
        )

    def endpoints(self, found: Sequence[Endpoint]) -> list[Endpoint]:
        """The listeners at ports of its own. Where any free one will do, that of its last life does, if it is free."""
        known = self.entry().endpoints
        own = []
        for one in at_place(found, self.place):
            _, port = known.get(one.name, ("", 0))
            own.append(one if one.port or not port or not _free(one.host, port) else one._replace(port=port))
        return own

    def place_among(self, reports: Reports, log: Logger) -> dict[str, Any]:
        """What makes a broker one of several nodes, as arguments of `ottla.broker.app.Broker`.

        Args:
            reports: is told whom the node has seen.

        Raises:
            BadSetting: it cannot read who the others are, nor how they are known.
        """
        from ottla.broker.cluster.placement import Static
        from ottla.broker.runtime.looking import ClusterFile
        from ottla.broker.runtime.mechanisms import node_password
        from ottla.broker.storage.local.catalog import FileCatalog

        path = self.shared / CLUSTER_NAME
        try:
            document = json.loads(path.read_bytes())
            placement, cluster_id = Static(self.node_id, document), str(document["cluster_id"])
            password = node_password(self.shared)
        except (OSError, ValueError, KeyError) as error:
            raise BadSetting(f"{path}: {error}") from None

        def read(document: Any) -> None:
            placement.read(document)
            reports.sees(row["node_id"] for row in document["nodes"] if row["state"] == UP)

        catalog, nodes = FileCatalog(str(self.shared)), ClusterFile(str(path), read, log)
        return {
            "placement": placement,
            "catalog": catalog,
            "cluster_id": cluster_id,
            "looks": (catalog.look, nodes.look),
            "node_password": password,
            "engine": self._engine(catalog, cluster_id) if self.in_memory else None,
        }

    def _engine(self, catalog: Catalog, cluster_id: str) -> Engine:
        """The engine of a node in memory, which begins the next epoch: what it had is gone."""
        from ottla.broker.storage.memory import MemoryEngine

        engine = MemoryEngine(new_uuid=uuid4, node_id=self.node_id, catalog=catalog, cluster_id=cluster_id)
        engine.leader_epoch = self.entry().epoch
        return engine

    def _http(self, address: str) -> str:
        if not address:
            return ""
        before, colon, port = address.rpartition(":")
        known = self.entry().http if port == "0" else None
        return f"{before}{colon}{known[1]}" if known and _free(*known) else http_at_place(address, self.place)


def at_place(found: Sequence[Endpoint], place: int) -> list[Endpoint]:
    """The listeners of a node: every port plus its place, which is 0 for the first. A port of 0 is any free one."""
    own = []
    for one in found:
        told = one.advertised and (one.advertised[0], _plus(one.advertised[1], place))
        own.append(one._replace(port=_plus(one.port, place), advertised=told))
    return own


def http_at_place(address: str, place: int) -> str:
    """The address at which a node serves HTTP; empty for nowhere."""
    before, colon, port = address.rpartition(":")
    return address and f"{before}{colon}{_plus(int(port), place)}"


def _plus(port: int, place: int) -> int:
    return port and port + place


def would_listen(found: Sequence[Endpoint], nodes: int | None) -> str:
    """What `ottla serve --check` finds of a broker alone (None), or of so many nodes: all of their listeners."""
    places = [", ".join(map(str, at_place(found, place))) for place in range(nodes or 1)]
    who = "A broker" if nodes is None else count_of(nodes, "node")
    return f"{who} would start and listen at {'; '.join(places)}"


class Ports(NamedTuple):
    """Where several nodes listen.

    Attributes:
        found: the listeners of the first.
        http: where that serves HTTP; empty for nowhere.
        nodes: so many there are.
    """

    found: Sequence[Endpoint]
    http: str
    nodes: int

    def check_free(self) -> None:
        """Look whether all nodes could listen at the moment. Raises `ottla.broker.net.listener.CannotListen`."""
        from ottla.broker.net.listener import CannotListen, check_free
        from ottla.cli.greeting import bind_error
        from ottla.observe.http.address import parse_address

        for place in range(self.nodes):
            check_free(at_place(self.found, place))
            if (http := http_at_place(self.http, place)) and (error := bind_error(*parse_address(http, "--http"))):
                why = error.strerror or error
                raise CannotListen(f"cannot listen on {http} for HTTP: {why}; choose another --http") from error

    def tell_taken(self) -> None:
        """Say who has those that are taken, and how to go on."""
        tell_taken(self.found, self.http, self.nodes)


def check_ports(found: Sequence[Endpoint], http: str, count: int) -> None:
    """Refuse listeners that several nodes cannot have: ports would meet, or end above 65535, or the name is taken.

    Args:
        http: where HTTP is served; empty for nowhere.

    Raises:
        BadSetting: with the ports, or the name.
    """
    if any(one.name == BETWEEN_NODES for one in found):
        raise BadSetting(f"--nodes: the listener between the nodes is called {BETWEEN_NODES}: give yours another name")
    ports = {str(one): one.port for one in found}
    if http:
        ports[f"HTTP at {http}"] = int(http.rpartition(":")[2])
    named = sorted((port, name) for name, port in ports.items() if port)
    for (port, name), (other, other_name) in pairwise(named):
        if other - port < count:
            raise BadSetting(
                f"--nodes {count}: node i has each port plus i, so {name} and {other_name} would meet: leave {count} "
                "ports between them"
            )
    if named and named[-1][0] + count - 1 > 65_535:
        raise BadSetting(f"--nodes {count}: {named[-1][1]} leaves too few ports below 65536")


class Member(Protocol):
    """A node of a database, as far as its supervisor wants to know: which life it is of, and whom it knows to be up."""

    @property
    def incarnation(self) -> int: ...
    @property
    def up(self) -> list[int]: ...


class Reports:
    """What a node tells its supervisor.

    Args:
        out: where to; standard output.
    """

    def __init__(self, out: Any = None) -> None:
        self._out = sys.stdout if out is None else out
        self._node: Member | None = None

    def begin(self, loop: asyncio.AbstractEventLoop, stop: Callable[[], None]) -> None:
        """Show signs of life from now on. Stop once the supervisor is gone."""
        handle = sys.stdin.fileno()
        os.set_blocking(handle, False)

        def look() -> None:
            try:
                if os.read(handle, 64):
                    return
            except BlockingIOError:
                return
            loop.remove_reader(handle)
            stop()

        loop.add_reader(handle, look)
        self._live(loop)

    def _live(self, loop: asyncio.AbstractEventLoop) -> None:
        loop.call_later(LOOK_MS / 1000, self._live, loop)
        if select([], [self._out], [], 0)[1]:  # a supervisor that stands still must not hold it up
            told = {} if self._node is None else {"sees": self._node.up}
            with suppress(BrokenPipeError):  # it is gone, and this node is about to end
                os.write(self._out.fileno(), json.dumps(told).encode() + b"\n")

    def joined(self, node: Member) -> None:
        """It is a node of a database, which knows who else is up."""
        self._node = node

    def ready(self, broker: Broker, http: tuple[str, int] | None) -> None:
        """The node serves clients."""
        endpoints = {one.name: one.told or ("", one.port) for one in broker.endpoints}
        if (door := broker.between_nodes) is not None:
            endpoints[door.name] = door.host, door.port
        self._tell(
            address=broker.listening,
            endpoints=endpoints,
            http=http,
            epoch=broker.leader_epoch if self._node is None else self._node.incarnation,
        )
        if self._node is not None:
            self.sees(self._node.up)

    def sees(self, node_ids: Iterable[int]) -> None:
        """It has read that these nodes are up, itself among them, and tells clients so."""
        self._tell(sees=list(node_ids))

    def failed(self, error: Exception) -> None:
        """It does not start."""
        self._tell(why=str(error))

    def stopped(self) -> None:
        """It has ended in order, which the supervisor sees."""

    def _tell(self, **fields: Any) -> None:
        self._out.write(json.dumps(fields) + "\n")
        self._out.flush()


def _numbered(path: str, node_id: int) -> str:
    """The name of a file of which each node has its own."""
    whole = Path(path)
    return path and str(whole.with_name(f"{whole.stem}-{node_id}{whole.suffix}"))


def _free(host: str, port: int) -> bool:
    from ottla.cli.greeting import bind_error

    return bind_error(host, port) is None
